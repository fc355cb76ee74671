"""The index of words against its texts: what is missing in it, and what it has too much."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import func, select, text

from pagedaemon.store import conversations, fulltext
from pagedaemon.store import passages as passage_rows
from pagedaemon.store.checkup.findings import Symptom
from pagedaemon.store.tables import messages, passages
from pagedaemon.store.transaction import Transaction

AT_ONCE = 500
"""Texts that are read or made searchable in one transaction."""

INDEXES = (("messages_fts", "message_words"), ("passages_fts", "passage_words"))


def unindexed(tx: Transaction) -> list[Symptom]:
    """Messages and passages that a search by words should find and does not."""
    said = [one.id for one in unindexed_messages(tx)]
    what = "a text that a search by words does not find"
    return [Symptom("text_not_indexed", one, what) for one in (*said, *unindexed_passages(tx))]


def unindexed_messages(tx: Transaction, limit: int | None = None) -> list[fulltext.Said]:
    """Messages that should be searchable and are not.

    Args:
        limit: how many at most; None: all.
    """
    column = messages.c
    ids = tx.all(
        select(column.id)
        .where(
            column.space == tx.space,
            column.kind.in_(conversations.SEARCHED),
            # What a memory tool showed is never searched; there is much of it, and all is read.
            func.json_extract(column.data, "$.builtin").is_(None),
            column.id.not_in(fulltext.indexed("message")),
        )
        .order_by(column.conversation_id, column.seq)
    )
    found: list[fulltext.Said] = []
    for at in range(0, len(ids), AT_ONCE):
        some = [row[0] for row in ids[at : at + AT_ONCE]]
        columns = (column.conversation_id, *conversations.message_columns())
        for conversation_id, *row in tx.all(select(*columns).where(column.id.in_(some))):
            message = conversations.message_of(row)
            if (said := conversations.searchable(conversation_id, message)) is not None:
                found.append(said)
        if limit is not None and len(found) >= limit:
            return found[:limit]
    return found


def unindexed_passages(tx: Transaction, limit: int | None = None) -> list[str]:
    """Ids of passages that should be searchable and are not."""
    column = passages.c
    rows = tx.all(
        select(column.id)
        .where(column.space == tx.space, column.id.not_in(fulltext.indexed("passage")))
        .limit(limit)
    )
    return [row[0] for row in rows]


def index_some(tx: Transaction) -> bool:
    """Makes some of them searchable. Returns whether there may be more."""
    said = unindexed_messages(tx, AT_ONCE)
    fulltext.index_messages(tx, said)
    kept = unindexed_passages(tx, AT_ONCE)
    fulltext.index_passages(tx, list(passage_rows.searched_texts(tx, kept).items()))
    return len(said) == AT_ONCE or len(kept) == AT_ONCE


def damaged_indexes(tx: Transaction) -> list[Symptom]:
    """Indexes that do not have exactly the rows that they should: found by what they know of each
    row's size."""
    what = "the index of words has other rows than there are texts"
    return [
        Symptom("word_index_damaged", index, what)
        for index, words in INDEXES
        if tx.first(text(_OTHER_ROWS.format(index=index, words=words))) is not None
    ]


_OTHER_ROWS = """
    SELECT number FROM (
        SELECT number FROM {words} EXCEPT SELECT id FROM {index}_docsize
    ) UNION ALL SELECT id FROM (
        SELECT id FROM {index}_docsize EXCEPT SELECT number FROM {words}
    ) LIMIT 1
"""


def compare(index: str) -> Callable[[Transaction], None]:
    """A transaction that compares an index word by word with its texts, as no reading can.

    It fails as one on a damaged file does where they differ.
    """

    def work(tx: Transaction) -> None:
        tx.execute(text(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)"))

    return work


def rebuild(tx: Transaction, indexes: Sequence[str]) -> None:
    """Makes indexes anew from their texts."""
    for index in indexes:
        tx.execute(text(f"INSERT INTO {index} ({index}) VALUES ('rebuild')"))
