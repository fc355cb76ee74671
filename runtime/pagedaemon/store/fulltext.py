"""Keyword search: SQLite's FTS5 over messages and passages.

Words are stemmed (Porter), folded in case and stripped of diacritics. Scripts written without
spaces (Han, Kana, Hangul, Thai, Lao, Khmer, Burmese) are indexed as overlapping pairs of
characters, because a tokenizer that knows no words would take a sentence for one, and SQLite's
trigrams cannot find a word of two letters.

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
import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
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

from pagedaemon.store import spelling, writings
from pagedaemon.store.function_words import says_little
from pagedaemon.store.transaction import Transaction

Kind = Literal["message", "passage"]

# Marks (Mn, Mc) count as letters: without them Thai, Hindi and their like fall apart at every vowel
# sign.


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
    "CREATE VIRTUAL TABLE messages_vocab USING fts5vocab(messages_fts, 'row')",
    "CREATE VIRTUAL TABLE passages_vocab USING fts5vocab(passages_fts, 'row')",
)
"""The statements that make the index of a new store. Only SQLite has it."""

MOST_TERMS = 64
"""Words of a query that are looked for; later ones are left out."""

MOST_CHARACTERS = 10_000
"""Characters of a query that are read."""

MOST_MATCHES = 1_000
"""Texts beyond which a further, more frequent word of a query is left out by `telling`."""

COMMON = 1 / 3
"""Share of all messages beyond which a word that they have is `common`, from `LEAST_COMMON` on. Its
idf is about 0 then, since it also stands beside most others: as a name does that each of two has
before all that he says."""

LEAST_COMMON = 100

MOST_WEIGHED = 8
"""Words of a long query that a text may be expected to have: the rarest."""

LONGEST_WORD = 8
"""Characters. A longer run of an unspaced script is taken for a sentence, looked for by its pairs
alone."""


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
    # The column that bears the table's name takes MATCH and commands.
    return table(name, column(name, Text), column("rowid", Integer))


_TABLES: dict[Kind, tuple[TableClause, TableClause]] = {
    "message": (MESSAGE_WORDS, _index("messages_fts")),
    "passage": (_words("passage_words"), _index("passages_fts")),
}


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
    if said:
        tx.execute(
            _PUT_MESSAGE,
            [
                {
                    "id": one.id,
                    "conversation_id": one.conversation_id,
                    "seq": one.seq,
                    "text": _indexed(one.text),
                    "day": day_words(one.at),
                }
                for one in said
            ],
        )


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
        values = [{"id": passage_id, "text": _indexed(text)} for passage_id, text in rows]
        tx.execute(_PUT_PASSAGE, values)


def unindex_passages(tx: Transaction, passage_ids: Iterable[str]) -> None:
    """Takes passages out of the index. One that is not in it is passed over."""
    _take(tx, "passage", passage_ids)


def optimize(tx: Transaction) -> None:
    """Merges the indexes into one piece each, which leaves nothing of rows that were taken out:
    until then their words stay in older pieces of the index, though no search finds them. Part of
    erasing; it rewrites the whole index."""
    for _, index in _TABLES.values():
        tx.execute(insert(index), {index.name: "optimize"})


def indexed(kind: Kind) -> Select[tuple[str]]:
    """Ids of all that is searchable."""
    words, _ = _TABLES[kind]
    return select(words.c.id)


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a query is looked for."""

    match: str
    """An FTS5 expression."""
    broad: bool
    """It may match more than `MOST_MATCHES` texts."""
    common: str | None = None
    """One of the words that too many messages have to be told by. Such a message is found where
    what stands beside it has the others."""

    @property
    def values(self) -> dict[str, str]:
        """The parameters of `MATCHING`."""
        found = {"match": self.match}
        return found if self.common is None else {**found, "common": self.common}


def telling(tx: Transaction, kind: Kind, query: str) -> Asked | None:
    """A query without the words that say least, where there are others; None if nothing in it is
    searchable.

    Function words (`function_words`) go first, unless they are quoted: without them, recall@10 on
    the open LoCoMo conversations is 0.790 in place of 0.766 where no model is installed, and 0.812
    in place of 0.786 with one. A word that stands in thousands of texts tells them hardly apart,
    and scoring them all is what a search costs. So words are taken from the rarest on, as long as
    all that they match stays under `MOST_MATCHES`; the rarest counts whatever it matches. Beside
    a word that stands nowhere those count that it may have meant (`spelling`). Of those that count,
    words that a third of all messages have (`COMMON`) are apart, where there are rarer ones: half
    of the time of a search was spent on what they match, for no hit more.
    """
    terms = telling_terms(query)
    if not terms:
        return None
    found, texts = _counted(tx, kind, terms)
    room = MOST_MATCHES
    kept: list[str] = []
    for term, frequency in sorted(found.items(), key=lambda one: one[1]):
        if frequency > room and room < MOST_MATCHES:
            break
        # Also what is in no text of its own: it may stand beside one, or be its date.
        room -= frequency
        kept.append(term)
    for _, term, frequency in _meant(tx, kind, found):
        if frequency <= room:
            room -= frequency
            terms.append(term)
            kept.append(term)
    common = _common(found, kept, texts) if kind == "message" else set()
    # In the order in which they were asked for, so that the same words are the same query.
    asked = [term for term in terms if term in kept]
    others = " OR ".join(term for term in asked if term in common)
    return Asked(
        " OR ".join(term for term in asked if term not in common),
        room < 0,
        f"{_OWN} : ({others})" if others else None,
    )


def _common(found: Mapping[str, int], kept: Sequence[str], texts: int) -> set[str]:
    """Those of the words that count which too many of the messages have, where some have a rarer
    one.

    Args:
        found: in how many each stands.
    """
    most = max(LEAST_COMMON, COMMON * texts)
    if not any(0 < found.get(term, 0) <= most for term in kept):
        return set()
    return {term for term in kept if found.get(term, 0) > most}


def _meant(tx: Transaction, kind: Kind, found: Mapping[str, int]) -> Iterator[tuple[str, str, int]]:
    """Terms of a query that stand nowhere, each with one that may have been meant, and in how many
    texts that stands: the same written otherwise (`writings`), else a slip (`spelling`). Parts of
    compounds, which take longer, only where nothing else would be found.

    Args:
        found: the terms, and in how many texts each stands.
    """
    vocab = spelling.MESSAGES if kind == "message" else spelling.PASSAGES
    nowhere = [term for term, frequency in found.items() if not frequency]
    alone = len(nowhere) == len(found)
    otherwise = list(_otherwise(tx, kind, list(found), nowhere)) if nowhere else []
    yield from otherwise
    known = {term for term, _, _ in otherwise}
    for term in nowhere:
        if term in known:
            continue
        word = term.strip('"')
        if not word.isalpha() or _UNSPACED.search(word):
            continue
        likely = spelling.slips(tx, vocab, word)
        if alone and not likely:
            likely = spelling.compounds(tx, vocab, word)
        for meant, frequency in likely:
            # As a beginning: stemmed a second time it may be shorter.
            yield term, f'"{meant}"*', frequency


def _otherwise(
    tx: Transaction, kind: Kind, terms: Sequence[str], nowhere: Sequence[str]
) -> Iterator[tuple[str, str, int]]:
    """Terms that stand nowhere, with the same as it is written in texts, and in how many."""
    words = {term.strip('"'): term for term in terms if term[-1] == '"' and " " not in term}
    missing = [word for word, term in words.items() if term in nowhere]
    asked = [(other, [word]) for word in missing for other in writings.apart(word)]
    asked += writings.joined(list(words), missing)
    if not asked:
        return
    found = _frequencies(tx, kind, list(dict.fromkeys(other for other, _ in asked)))
    for other, of in asked:
        if found[other]:
            yield from ((words[word], other, found[other]) for word in of)


_OWN = "text"


@dataclass(frozen=True, slots=True)
class Weighed:
    """What a query asks for, and how much each part of it tells."""

    weights: Mapping[str, float]
    """By term, the heaviest first."""
    covering: Mapping[str, Sequence[str]]
    """By term, what counts as it: itself, and what it may have meant where it stands nowhere."""


def weighed(
    tx: Transaction,
    kind: Kind,
    query: str,
    *,
    telling: bool = False,
    without: Collection[str] = (),
    known: Collection[str] = (),
) -> Weighed:
    """The `MOST_WEIGHED` heaviest terms of a query.

    A word's weight is its idf, ln(1 + (N - n + 0.5) / (n + 0.5)), with n of N texts that have it
    (Robertson and Zaragoza, 2009, in the form of Lucene, which is above 0 in the smallest index).
    What stands nowhere weighs as much as what stands in one text; what `telling` would find too
    frequent weighs nothing.

    Args:
        telling: function words do not count, where the query has others.
        without: names whose words do not count either.
        known: words that count only where they stand somewhere.
    """
    words, _ = _TABLES[kind]
    left_out = {word.casefold() for name in without for word in words_of(name)}
    asked = telling_terms(query) if telling else _query_terms(query)
    terms = [term for term in asked if term.strip('"').casefold() not in left_out]
    # The last number given: no less than there are texts, and known without counting them.
    texts = int(tx.scalar(select(func.coalesce(func.max(words.c.number), 0))))
    weights: dict[str, float] = {}
    frequencies = _frequencies(tx, kind, terms)
    covering = {term: [term] for term in terms}
    for term, meant, _ in _meant(tx, kind, frequencies):
        covering[term].append(meant)
    only_known = {f'"{word.casefold()}"' for word in known}
    for term, frequency in frequencies.items():
        found = max(1, frequency)
        if found <= MOST_MATCHES and (frequency or term.casefold() not in only_known):
            weights[term] = math.log(1 + (max(texts - found, 0) + 0.5) / (found + 0.5))
    heaviest = sorted(weights, key=lambda term: -weights[term])[:MOST_WEIGHED]
    return Weighed({term: weights[term] for term in heaviest}, covering)


def coverage(tx: Transaction, kind: Kind, asked: Weighed, ids: Sequence[str]) -> dict[str, float]:
    """How much of a query the texts with these ids cover, from 0 to 1: the weight of its words that
    they have over the weight of all. Comparable between queries, which the score of a match is
    not."""
    covered = dict.fromkeys(ids, 0.0)
    match = MATCHING[kind]
    for term, weight in asked.weights.items():
        own = f"{_OWN} : ({' OR '.join(asked.covering[term])})"
        for row in tx.all(select(match.c.id).where(match.c.id.in_(ids)), {"match": own}):
            covered[row[0]] += weight
    whole = sum(asked.weights.values())
    return {one: weight / whole for one, weight in covered.items()} if whole else covered


def read_texts(
    tx: Transaction, kind: Kind, ids: Sequence[str], most: int
) -> dict[str, tuple[str, ...]]:
    """What these texts are found by, and then what stands beside them; only what is no longer than
    so many characters. Nothing of one that is not searchable."""
    words, _ = _TABLES[kind]
    columns = (words.c.text, words.c.near) if kind == "message" else (words.c.text,)
    listed = select(func.json_each(bindparam("ids")).table_valued("value").c.value)
    whole = func.length(words.c.text) <= bindparam("most")
    cut = [func.substr(one, 1, bindparam("most")) for one in columns]
    rows = tx.all(
        select(words.c.id, *cut).where(words.c.id.in_(listed), whole),
        {"ids": json.dumps(list(ids)), "most": most},
    )
    return {row[0]: tuple(filter(str.strip, row[1:])) for row in rows}


def own_texts(tx: Transaction, kind: Kind, ids: Sequence[str], most: int) -> dict[str, str]:
    """The first so many characters of what these texts are found by; nothing for one that is not
    searchable."""
    rows = tx.all(_OWN_TEXTS[kind], {"ids": json.dumps(list(ids)), "most": most})
    return {row[0]: row[1] for row in rows}


def _own_texts(words: TableClause) -> Select[Any]:
    text = func.substr(words.c.text, 1, bindparam("most"))
    listed = select(func.json_each(bindparam("ids")).table_valued("value").c.value)
    return select(words.c.id, text).where(words.c.id.in_(listed))


_OWN_TEXTS = {kind: _own_texts(words) for kind, (words, _) in _TABLES.items()}


def has_unspaced(text: str) -> bool:
    """Whether something in it is of a script that is written without spaces."""
    return _UNSPACED.search(text) is not None


def words_of(text: str) -> list[str]:
    """The words of a text as it is written, pairs of characters where it has no spaces."""
    return _WORD.findall(_indexed(text))


_WORD = re.compile(r"[^\W_]+")


def _matching(kind: Kind, most: int | None = None) -> Subquery:
    """What matches, with the columns `id`, `score`, `own` and `day`; only the best `most` unless
    None."""
    words, index = _TABLES[kind]
    asked = _matches(index, bindparam("match", type_=String()))
    scores = {name: _bm25(index, weights) for name, weights in _WEIGHTS[kind].items()}
    columns = [index.c.rowid, *(score.label(name) for name, score in scores.items())]
    found = select(*columns).where(asked)
    if kind == "message":
        common = _matches(index, bindparam("common", _NOTHING, String()))
        has_common = index.c.rowid.in_(select(index.c.rowid).where(common))
        found = found.where(or_(scores["own"] > 0, has_common))
    if most is not None:
        found = found.order_by(scores["score"].desc()).limit(most)
    hits = found.subquery("hits")
    # The plus keeps SQLite from asking the index again for each row of another table that a filter
    # picked; it is asked once, and filters are applied to what it found.
    number: UnaryExpression[int] = UnaryExpression(hits.c.rowid, operator=custom_op("+"))
    joined = hits.join(words, words.c.number == number)
    return select(words.c.id, *(hits.c[name] for name in scores)).select_from(joined).subquery()


def _matches(index: TableClause, asked: BindParameter[str]) -> ColumnElement[bool]:
    return index.c[index.name].op("MATCH", is_comparison=True)(asked)


_NOTHING = '""'
"""An FTS5 expression that nothing matches."""


_WEIGHTS: dict[Kind, dict[str, tuple[float, ...]]] = {
    "message": {"score": (3.0, 2.0, 2.0), "own": (1.0, 0.0, 0.0), "day": (0.0, 1.0, 0.0)},
    "passage": {"score": (1.0,), "own": (1.0,), "day": (0.0,)},
}
"""What a word counts in each column of an index, by the score that it counts in."""


def _bm25(index: TableClause, weights: Sequence[float]) -> ColumnElement[float]:
    given = [literal_column(str(weight), Float) for weight in weights]
    return -func.bm25(index.c[index.name], *given, type_=Float)


MATCHING: dict[Kind, Subquery] = {kind: _matching(kind) for kind in _TABLES}
"""What matches the FTS5 expression in the parameter `match`: a message by its own words, whatever
stands beside it or is its date, or by these where its own words match the expression in `common`.

Its column `id` says which, `score` how well, `own` how well by its own words alone, `day` how well
by its date. Scores are higher for better: SQLite's bm25 (k1 = 1.2, b = 0.75; Robertson and
Zaragoza, "The Probabilistic Relevance Framework", 2009) with its sign turned. That a message's own
words match is asked of its score and not in the expression, which would have to hold every word
twice and cost a third more."""

BEST_MATCHING: dict[Kind, Subquery] = {kind: _matching(kind, MOST_MATCHES) for kind in _TABLES}
"""The same, of the best `MOST_MATCHES` alone: for an expression that matches many more."""


def match_expression(query: str) -> str | None:
    """A query's words as an FTS5 expression; None if nothing in it is searchable.

    Words are joined by OR and what stands in double quotes must stand together. All else is taken
    as blank space, so that no text is a syntax error or a command.
    """
    return " OR ".join(_query_terms(query)) or None


def _query_terms(query: str) -> list[str]:
    return list(islice(dict.fromkeys(_terms(_folded(query[:MOST_CHARACTERS]))), MOST_TERMS))


def telling_terms(query: str) -> list[str]:
    """The terms of a query that are no function words; all of them where it has no others."""
    terms = _terms(_folded(query[:MOST_CHARACTERS]), function_words=False)
    return list(islice(dict.fromkeys(terms), MOST_TERMS)) or _query_terms(query)


def signs(query: str) -> list[str]:
    """The signs of a query beyond ASCII, each run as it stands in texts: emoji, arrows, currencies.
    The index has none of them."""
    text = _folded(query[:MOST_CHARACTERS])
    if text.isascii():
        return []
    kept = (char if _is_sign(char) else " " for char in text.replace(_AS_PICTURE, ""))
    return list(islice(dict.fromkeys("".join(kept).split()), MOST_TERMS))


def has_signs(kind: Kind, text_id: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether the text of that id has one of the signs in the parameter `signs`, a JSON list.

    It is read in full: an index of signs would cost each text, and few ask for them.
    """
    words, _ = _TABLES[kind]
    sign = func.json_each(bindparam("signs")).table_valued("value")
    found = select(literal(1)).select_from(sign).where(func.instr(words.c.text, sign.c.value) > 0)
    return select(words.c.id).where(words.c.id == text_id, found.correlate(words).exists()).exists()


_AS_PICTURE = "\ufe0f"
"""Asks for a sign to be drawn in colour; it is written or not."""


def _is_sign(char: str) -> bool:
    return unicodedata.category(char) in ("So", "Sc", "Sk", "Sm") or char == "\u200d"


_QUOTED = re.compile(r'"([^"]*)"|“([^”]*)”')

_UNSPACED = re.compile(
    "(["
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59"  # Thai
    "\u0e81-\u0edf"  # Lao
    "\u1000-\u1049\u1050-\u109f"  # Burmese
    "\u1100-\u11ff\uac00-\ud7fb"  # Hangul
    "\u1780-\u17d3"  # Khmer
    "\u3005-\u3007\u3021-\u3029\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U00020000-\U0003ffff"  # Han, the rarer ones
    "\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # Kana
    "]+)"
)

# Vowel points, written or not at the writer's pleasure.
_POINTS = re.compile("[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u065f\u0670]")


def _folded(text: str) -> str:
    """Full-width letters, ligatures and the like become the ordinary ones; optional points go."""
    return text if text.isascii() else _POINTS.sub("", unicodedata.normalize("NFKC", text))


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)]


def _indexed(text: str) -> str:
    return text if text.isascii() else _UNSPACED.sub(_apart, _folded(text))


def _apart(match: re.Match[str]) -> str:
    # The last character begins no pair; alone, it is found by those who look for it alone.
    run = match[0]
    return f" {' '.join([*_pairs(run), run[-1]])} "


def _searchable(text: str) -> list[str]:
    """What the index's tokenizer would find, marks that stand alone left out."""
    kept = (char if _is_letter(char) or _is_mark(char) else " " for char in text)
    return [word for word in "".join(kept).split() if any(map(_is_letter, word))]


def _is_letter(char: str) -> bool:
    category = unicodedata.category(char)
    return category[0] in "LN" or category == "Co"


def _is_mark(char: str) -> bool:
    return unicodedata.category(char) in ("Mn", "Mc")


def _terms(text: str, *, function_words: bool = True) -> Iterator[str]:
    at = 0
    for quoted in _QUOTED.finditer(text):
        yield from _loose(text[at : quoted.start()], function_words)
        yield from _phrase(quoted[1] or quoted[2] or "")
        at = quoted.end()
    yield from _loose(text[at:], function_words)


def _loose(text: str, function_words: bool) -> Iterator[str]:
    for word in _searchable(text):
        for part in filter(None, _UNSPACED.split(word)):
            if not _UNSPACED.match(part):
                if function_words or not says_little(part):
                    yield f'"{part}"'
            elif len(part) == 1:
                yield f'"{part}"*'
            else:
                pairs = _pairs(part)
                if 1 < len(pairs) < LONGEST_WORD:
                    yield f'"{" ".join(pairs)}"'
                yield from (f'"{pair}"' for pair in pairs)


def _phrase(text: str) -> Iterator[str]:
    parts = [part for word in _searchable(text) for part in _UNSPACED.split(word) if part]
    if not parts:
        return
    # A run at the end may go on in the text, so there it is looked for without the single last
    # character.
    last = parts[-1]
    open_end = _UNSPACED.match(last) is not None
    tokens = [_indexed(part) for part in parts[:-1]]
    tokens.append(" ".join(_pairs(last)) or last if open_end else last)
    yield f'"{" ".join(tokens)}"' + ("*" if open_end and len(last) == 1 else "")


def _put_passage() -> Executable:
    put = upsert(_TABLES["passage"][0])
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


def _frequency(words: TableClause, index: TableClause) -> Select[Any]:
    term = func.json_each(bindparam("terms")).table_valued("value")
    # Counted only up to where it no longer matters.
    found = select(literal(1)).where(index.c[index.name].op("MATCH")(term.c.value))
    some = found.limit(bindparam("most")).correlate(term).subquery()
    counted = select(func.count()).select_from(some).correlate(term).scalar_subquery()
    # The last number given: no less than there are texts, and known without counting them.
    texts = select(func.max(words.c.number)).scalar_subquery()
    return select(term.c.value, counted, texts)


_FREQUENCY = {kind: _frequency(*both) for kind, both in _TABLES.items()}


def _counted(tx: Transaction, kind: Kind, terms: Sequence[str]) -> tuple[dict[str, int], int]:
    """In how many texts each term stands, up to one more than `MOST_MATCHES`, and how many texts
    there are at most."""
    asked = {f"{_OWN} : {term}": term for term in terms}
    values = {"terms": json.dumps(list(asked)), "most": MOST_MATCHES + 1}
    rows = tx.all(_FREQUENCY[kind], values)
    return {asked[row[0]]: row[1] for row in rows}, rows[0][2] or 0 if rows else 0


def _frequencies(tx: Transaction, kind: Kind, terms: Sequence[str]) -> dict[str, int]:
    """The first of `_counted`."""
    return _counted(tx, kind, terms)[0]


def _take(tx: Transaction, kind: Kind, ids: Iterable[str]) -> None:
    words, _ = _TABLES[kind]
    gone = [{"gone": row_id} for row_id in ids]
    if gone:
        tx.execute(delete(words).where(words.c.id == bindparam("gone")), gone)
