"""Keyword search: SQLite's FTS5 over messages and passages.

Words are stemmed (Porter), folded in case and stripped of diacritics. What texts and queries are
cut into before that stands in `terms`; what of a query is looked for, in `asking`.

What is indexed is a derived text, kept in a table of its own (`message_words`, `passage_words`)
which the index takes as its content. So the exact words that were put in are at hand when they must
come out again (FTS5 removes a row by being told its old words, and told wrongly it is corrupted),
whatever has become of the message or of the derivation since. Triggers keep both together, and rows
go with the message or passage they belong to, also when that is deleted by a cascade. The table's
INTEGER PRIMARY KEY is the rowid of the index: the implicit rowid of `messages` would not do, since
VACUUM may number those anew.

A message's row holds three texts. It is found by its own (`text`). The date in words (`day`) and
the texts of the messages before and after it (`near`, the first 1,000 characters of each) only add
to the score of what is found: an answer often has none of the words of its question. On the open
LoCoMo conversations that takes recall@10 from 0.59 to 0.71 without any model. Triggers rewrite the
neighbours of what comes, goes or changes, so that no words stay beside a message that is erased.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Executable,
    Float,
    Integer,
    Select,
    String,
    Subquery,
    TableClause,
    Text,
    bindparam,
    column,
    delete,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
    table,
)
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.sql.elements import UnaryExpression
from sqlalchemy.sql.operators import custom_op

from pagedaemon.store.terms import as_indexed
from pagedaemon.store.transaction import Transaction

Kind = Literal["message", "passage"]


def _beside(row: str) -> str:
    """A statement for a trigger: whoever stands beside this row has its words, or no longer."""
    mine = "w.conversation_id = message_words.conversation_id AND w.seq"
    place = f"conversation_id = {row}.conversation_id AND seq"
    return f"""UPDATE message_words SET near =
            coalesce((SELECT substr(w.text, 1, 1000) FROM message_words AS w
                WHERE {mine} < message_words.seq ORDER BY w.seq DESC LIMIT 1), '') || ' ' ||
            coalesce((SELECT substr(w.text, 1, 1000) FROM message_words AS w
                WHERE {mine} > message_words.seq ORDER BY w.seq LIMIT 1), '')
        WHERE number IN (
            SELECT max(number) FROM message_words WHERE {place} = (
                SELECT max(seq) FROM message_words WHERE {place} < {row}.seq)
            UNION ALL
            SELECT max(number) FROM message_words WHERE {place} = (
                SELECT min(seq) FROM message_words WHERE {place} > {row}.seq)
        );"""


# Marks (Mn, Mc) count as letters: without them Thai, Hindi and their like fall apart at every vowel
# sign.
SCHEMA: tuple[str, ...] = (
    """
    CREATE TABLE message_words (
        number INTEGER NOT NULL PRIMARY KEY,
        id VARCHAR(64) NOT NULL UNIQUE REFERENCES messages (id) ON DELETE CASCADE,
        conversation_id VARCHAR(64) NOT NULL,
        seq INTEGER NOT NULL,
        text TEXT NOT NULL,
        day TEXT NOT NULL,
        near TEXT NOT NULL
    )
    """,
    """
    CREATE INDEX ix_message_words_place ON message_words (conversation_id, seq)
    """,
    """
    CREATE VIRTUAL TABLE messages_fts USING fts5(
        text,
        day,
        near,
        content='message_words',
        content_rowid='number',
        tokenize="porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
    )
    """,
    """
    INSERT INTO messages_fts (messages_fts, rank) VALUES ('rank', 'bm25(1.0, 2.0, 2.0)')
    """,
    f"""
    CREATE TRIGGER message_words_added AFTER INSERT ON message_words BEGIN
        INSERT INTO messages_fts (rowid, text, day, near)
            VALUES (new.number, new.text, new.day, new.near);
        {_beside("new")}
    END
    """,
    f"""
    CREATE TRIGGER message_words_removed AFTER DELETE ON message_words BEGIN
        INSERT INTO messages_fts (messages_fts, rowid, text, day, near)
            VALUES ('delete', old.number, old.text, old.day, old.near);
        {_beside("old")}
    END
    """,
    """
    CREATE TRIGGER message_words_changed AFTER UPDATE ON message_words BEGIN
        INSERT INTO messages_fts (messages_fts, rowid, text, day, near)
            VALUES ('delete', old.number, old.text, old.day, old.near);
        INSERT INTO messages_fts (rowid, text, day, near)
            VALUES (new.number, new.text, new.day, new.near);
    END
    """,
    f"""
    CREATE TRIGGER message_words_reworded AFTER UPDATE OF text ON message_words BEGIN
        {_beside("new")}
    END
    """,
    """
    CREATE TABLE passage_words (
        number INTEGER NOT NULL PRIMARY KEY,
        id VARCHAR(64) NOT NULL UNIQUE REFERENCES passages (id) ON DELETE CASCADE,
        text TEXT NOT NULL
    )
    """,
    """
    CREATE VIRTUAL TABLE passages_fts USING fts5(
        text,
        content='passage_words',
        content_rowid='number',
        tokenize="porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
    )
    """,
    """
    CREATE TRIGGER passage_words_added AFTER INSERT ON passage_words BEGIN
        INSERT INTO passages_fts (rowid, text) VALUES (new.number, new.text);
    END
    """,
    """
    CREATE TRIGGER passage_words_removed AFTER DELETE ON passage_words BEGIN
        INSERT INTO passages_fts (passages_fts, rowid, text)
            VALUES ('delete', old.number, old.text);
    END
    """,
    """
    CREATE TRIGGER passage_words_changed AFTER UPDATE ON passage_words BEGIN
        INSERT INTO passages_fts (passages_fts, rowid, text)
            VALUES ('delete', old.number, old.text);
        INSERT INTO passages_fts (rowid, text) VALUES (new.number, new.text);
    END
    """,
    # A search looks into each piece of an index: they are merged as soon as four are of one size.
    "INSERT INTO messages_fts (messages_fts, rank) VALUES ('crisismerge', 4)",
    "INSERT INTO messages_fts (messages_fts, rank) VALUES ('usermerge', 2)",
    "INSERT INTO passages_fts (passages_fts, rank) VALUES ('crisismerge', 4)",
    "INSERT INTO passages_fts (passages_fts, rank) VALUES ('usermerge', 2)",
    "CREATE VIRTUAL TABLE messages_vocab USING fts5vocab(messages_fts, 'row')",
    "CREATE VIRTUAL TABLE passages_vocab USING fts5vocab(passages_fts, 'row')",
)
"""The statements that make the index of a new store. Only SQLite has it."""

MOST_MATCHES = 1_000
"""Texts beyond which a further, more frequent word of a query finds none by itself
(`asking.telling`)."""

MOST_SCORED = 3_000
"""Matches that are scored and counted, of those that pass a filter the newest: SQLite's bm25 takes
about a microsecond for each, and as long again to know whether it passes."""

MANY_AT_ONCE = 100
"""Texts from which on the index is merged further than FTS5 does by itself, when they are given to
it in one transaction."""

MERGED_WHOLE = 2_000
"""Texts up to which the whole index is merged then, which takes as long."""

MERGED_AT_ONCE = 500
"""Pages of an index that are merged in one transaction at most: some 10 ms."""


def _words(name: str) -> TableClause:
    return table(name, column("number", Integer), column("id", String(64)), column("text", Text))


MESSAGE_WORDS = table(
    "message_words",
    column("number", Integer),
    column("id", String(64)),
    column("conversation_id", String(64)),
    column("seq", Integer),
    column("text", Text),
    column("day", Text),
    column("near", Text),
)
"""What messages are found by."""


def _index(name: str) -> TableClause:
    # The column that bears the table's name takes MATCH and commands, `rank` what they are given.
    return table(name, column(name, Text), column("rowid", Integer), column("rank", Integer))


TABLES: dict[Kind, tuple[TableClause, TableClause]] = {
    "message": (MESSAGE_WORDS, _index("messages_fts")),
    "passage": (_words("passage_words"), _index("passages_fts")),
}
"""By kind, what texts are found by, and the index of that."""


@dataclass(frozen=True, slots=True)
class Said:
    """A stored message that is made searchable."""

    id: str
    conversation_id: str
    seq: int
    at: datetime
    text: str


def index_messages(tx: Transaction, said: Sequence[Said]) -> None:
    """Makes stored messages searchable by their texts, in place of what they were searchable by
    before. One statement."""
    if not said:
        return
    values = [
        {
            "id": one.id,
            "conversation_id": one.conversation_id,
            "seq": one.seq,
            "text": as_indexed(one.text),
            "day": day_words(one.at),
        }
        for one in said
    ]
    tx.execute(_PUT_MESSAGE, values)
    _merge_after(tx, "message", len(values))


def day_words(at: datetime) -> str:
    """A date as people say it, in English and UTC: "Friday 8 May 2026"."""
    utc = at.astimezone(UTC)
    return f"{_DAYS[utc.weekday()]} {utc.day} {_MONTHS[utc.month - 1]} {utc.year}"


# Not those of `calendar`, which are in the language of whoever runs this.
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def unindex_messages(tx: Transaction, message_ids: Iterable[str]) -> None:
    """Takes messages out of the index. One that is not in it is passed over."""
    _take(tx, "message", message_ids)


def index_passage(tx: Transaction, passage_id: str, text: str) -> None:
    """Makes a stored passage searchable by this text, in place of what it was searchable by
    before."""
    index_passages(tx, [(passage_id, text)])


def index_passages(tx: Transaction, rows: Sequence[tuple[str, str]]) -> None:
    """`index_passage` for many: rows of (passage id, text)."""
    if rows:
        values = [{"id": passage_id, "text": as_indexed(text)} for passage_id, text in rows]
        tx.execute(_PUT_PASSAGE, values)
        _merge_after(tx, "passage", len(values))


def _merge_after(tx: Transaction, kind: Kind, count: int) -> None:
    """Merges pieces of an index to which so many texts were given at once. Those given one by one
    are merged by FTS5 itself, though not as far."""
    if count < MANY_AT_ONCE:
        return
    words, index = TABLES[kind]
    if tx.scalar(select(func.max(words.c.number))) <= MERGED_WHOLE:
        tx.execute(insert(index), {index.name: "optimize"})
    else:
        tx.execute(insert(index), {index.name: "merge", "rank": MERGED_AT_ONCE})


def unindex_passages(tx: Transaction, passage_ids: Iterable[str]) -> None:
    """Takes passages out of the index. One that is not in it is passed over."""
    _take(tx, "passage", passage_ids)


def optimize(tx: Transaction) -> None:
    """Merges the indexes into one piece each, which leaves nothing of rows that were taken out:
    until then their words stay in older pieces of the index, though no search finds them. Part of
    erasing; it rewrites the whole index."""
    for _, index in TABLES.values():
        tx.execute(insert(index), {index.name: "optimize"})


def indexed(kind: Kind) -> Select[tuple[str]]:
    """Ids of all that is searchable."""
    words, _ = TABLES[kind]
    return select(words.c.id)


OWN = "text"
"""The column of what a text is found by alone."""


def read_texts(
    tx: Transaction, kind: Kind, ids: Sequence[str], most: int
) -> dict[str, tuple[str, ...]]:
    """What these texts are found by, blank or not, and then what stands beside them; only what is
    no longer than so many characters. Nothing of one that is not searchable."""
    rows = tx.all(_TEXTS[kind], {"ids": json.dumps(list(ids)), "most": most})
    return {row[0]: (row[1], *filter(str.strip, row[2:])) for row in rows}


def own_texts(tx: Transaction, kind: Kind, ids: Sequence[str], most: int) -> dict[str, str]:
    """The first so many characters of what these texts are found by; nothing for one that is not
    searchable."""
    rows = tx.all(_OWN_TEXTS[kind], {"ids": json.dumps(list(ids)), "most": most})
    return {row[0]: row[1] for row in rows}


def _read(words: TableClause, *columns: ColumnElement[str]) -> Select[Any]:
    cut = [func.substr(one, 1, bindparam("most")) for one in columns]
    listed = select(func.json_each(bindparam("ids")).table_valued("value").c.value)
    return select(words.c.id, *cut).where(words.c.id.in_(listed))


def _texts(words: TableClause) -> Select[Any]:
    columns = [words.c[name] for name in ("text", "near") if name in words.c]
    return _read(words, *columns).where(func.length(words.c.text) <= bindparam("most"))


_OWN_TEXTS = {kind: _read(words, words.c.text) for kind, (words, _) in TABLES.items()}

_TEXTS = {kind: _texts(words) for kind, (words, _) in TABLES.items()}


def _matching(kind: Kind, *, of_few: bool = False) -> Subquery:
    """What matches, with the columns `id`, `score`, `own` and `day`; of few, of those with the
    numbers in the parameter `numbers`, a JSON list, alone."""
    words, index = TABLES[kind]
    asked = _matches(index, bindparam("match", type_=String()))
    since = index.c.rowid >= bindparam("since", 0, Integer())
    scores = {name: _bm25(index, weights) for name, weights in _WEIGHTS[kind].items()}
    columns = [index.c.rowid, *(score.label(name) for name, score in scores.items())]
    found = select(*columns).where(asked, since)
    if of_few:
        numbers = select(func.json_each(bindparam("numbers")).table_valued("value").c.value)
        found = found.where(once(index.c.rowid).in_(numbers))
    if kind == "message":
        common = _matches(index, bindparam("common", _NOTHING, String()))
        has_common = index.c.rowid.in_(select(index.c.rowid).where(common))
        found = found.where(or_(scores["own"] > 0, has_common))
    hits = found.subquery("hits")
    joined = hits.join(words, words.c.number == once(hits.c.rowid))
    # A passage has no words but its own, and no date: the same score thrice takes thrice as long.
    own = hits.c.get("own", hits.c.score).label("own")
    day = hits.c.get("day", literal_column("0.0", Float)).label("day")
    return select(words.c.id, hits.c.score, own, day).select_from(joined).subquery()


def once(number: ColumnElement[int]) -> UnaryExpression[int]:
    """A number that SQLite reads and does not look for. Else it would ask an index of words again
    for each row of another table that a filter picked; so it is asked once, and filters are applied
    to what it found."""
    return UnaryExpression(number, operator=custom_op("+"))


def _numbered(kind: Kind) -> Subquery:
    words, index = TABLES[kind]
    joined = index.join(words, words.c.number == once(index.c.rowid))
    asked = _matches(index, bindparam("match", type_=String()))
    return (
        select(words.c.id, index.c.rowid.label("number"))
        .select_from(joined)
        .where(asked)
        .subquery()
    )


def _matches(index: TableClause, asked: BindParameter[str]) -> ColumnElement[bool]:
    return index.c[index.name].op("MATCH", is_comparison=True)(asked)


_NOTHING = '""'
"""An FTS5 expression that nothing matches."""

_WEIGHTS: dict[Kind, dict[str, tuple[float, ...]]] = {
    "message": {"score": (3.0, 2.0, 2.0), "own": (1.0, 0.0, 0.0), "day": (0.0, 1.0, 0.0)},
    "passage": {"score": (1.0,)},
}
"""What a word counts in each column of an index, by the score that it counts in."""


def _bm25(index: TableClause, weights: Sequence[float]) -> ColumnElement[float]:
    given = [literal_column(str(weight), Float) for weight in weights]
    return -func.bm25(index.c[index.name], *given, type_=Float)


MATCHING: dict[Kind, Subquery] = {kind: _matching(kind) for kind in TABLES}
"""What matches the FTS5 expression in the parameter `match`: a message by its own words, whatever
stands beside it or is its date, or by these where its own words match the expression in `common`.
Only what has the number in the parameter `since` or a higher one, by default all.

Its column `id` says which, `score` how well, `own` how well by its own words alone, `day` how well
by its date. Scores are higher for better: SQLite's bm25 (k1 = 1.2, b = 0.75; Robertson and
Zaragoza, "The Probabilistic Relevance Framework", 2009) with its sign turned. That a message's own
words match is asked of its score and not in the expression, which would have to hold every word
twice and cost a third more."""

MATCHING_OF_FEW: dict[Kind, Subquery] = {kind: _matching(kind, of_few=True) for kind in TABLES}
"""The same of the texts alone whose numbers are in the parameter `numbers`, a JSON list: those of
others that match are passed over at a tenth of the cost."""

NUMBERED: dict[Kind, Subquery] = {kind: _numbered(kind) for kind in TABLES}
"""What has the words of the FTS5 expression in the parameter `match`, a message beside it or in its
date too: the columns `id` and `number`, which is the higher the later something came. Unscored, it
costs a tenth."""


def has_signs(kind: Kind, text_id: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether the text of that id has one of the signs in the parameter `signs`, a JSON list.

    It is read in full: an index of signs would cost each text, and few ask for them.
    """
    words, _ = TABLES[kind]
    sign = func.json_each(bindparam("signs")).table_valued("value")
    found = select(literal(1)).select_from(sign).where(func.instr(words.c.text, sign.c.value) > 0)
    return select(words.c.id).where(words.c.id == text_id, found.correlate(words).exists()).exists()


def _put_passage() -> Executable:
    put = upsert(TABLES["passage"][0])
    return put.on_conflict_do_update(index_elements=["id"], set_={"text": put.excluded.text})


def _put_message() -> Executable:
    words, other = MESSAGE_WORDS, MESSAGE_WORDS.alias("other")
    text = func.substr(other.c.text, 1, 1000)
    mine = other.c.conversation_id == bindparam("conversation_id")
    before = select(text).where(mine, other.c.seq < bindparam("seq")).order_by(other.c.seq.desc())
    after = select(text).where(mine, other.c.seq > bindparam("seq")).order_by(other.c.seq)
    beside = [func.coalesce(one.limit(1).scalar_subquery(), "") for one in (before, after)]
    put = upsert(words).values(
        {
            **{name: bindparam(name) for name in ("id", "conversation_id", "seq", "text", "day")},
            "near": beside[0].concat(" ").concat(beside[1]),
        }
    )
    return put.on_conflict_do_update(
        index_elements=["id"], set_={name: put.excluded[name] for name in ("text", "day")}
    )


# Made once: building such a statement takes longer than running it.
_PUT_MESSAGE = _put_message()

_PUT_PASSAGE = _put_passage()


def _take(tx: Transaction, kind: Kind, ids: Iterable[str]) -> None:
    words, _ = TABLES[kind]
    gone = [{"gone": row_id} for row_id in ids]
    if gone:
        tx.execute(delete(words).where(words.c.id == bindparam("gone")), gone)
