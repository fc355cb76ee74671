"""Rows that belong to nothing any more, and vectors that are none: found, and taken away.

What people and agents have said or kept is never removed here: a message, a passage, a version of a
block whose owner is missing is a matter for a backup.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import ColumnElement, delete, func, literal, or_, select, text, union, update

from pagedaemon.store import agents as agent_rows
from pagedaemon.store import vectors
from pagedaemon.store.checkup.findings import Symptom
from pagedaemon.store.outbox import OwnerKind
from pagedaemon.store.tables import (
    StoredValueError,
    agents,
    attachments,
    embeddings,
    messages,
    outbox,
    passages,
    turns,
)
from pagedaemon.store.transaction import Transaction

REMOVABLE = frozenset(
    {
        "agent_archives",
        "agent_blocks",
        "approvals",
        "attachments",
        "calls",
        "message_words",
        "passage_tags",
        "passage_words",
        "pauses",
        "schedules",
        "steps",
    }
)
"""Tables whose rows say nothing without the row that they refer to, and would have gone with it."""


def unreadable_agents(tx: Transaction) -> Iterator[Symptom]:
    """Agents whose settings are none."""
    for row in tx.all(select(agents.c.id).where(agents.c.space == tx.space)):
        try:
            agent_rows.by_id(tx, row[0])
        except StoredValueError as error:
            yield Symptom("file_damaged", row[0], str(error))


def broken_references(tx: Transaction) -> list[Symptom]:
    """Rows that refer to one that is not there."""
    found = tx.all(text("PRAGMA foreign_key_check"))
    return [
        Symptom(
            "reference_broken",
            f"{table}:{number}",
            f"a row of {table} refers to one of {parent} that is missing",
            None if table in REMOVABLE else "put the space's folder back from a backup",
        )
        for table, number, parent in dict.fromkeys((row[0], row[1], row[2]) for row in found)
    ]


def remove_unreferenced(tx: Transaction) -> None:
    """Removes rows that would have gone with the one they refer to."""
    for row in tx.all(text("PRAGMA foreign_key_check")):
        if row[0] in REMOVABLE:
            tx.execute(text(f"DELETE FROM {row[0]} WHERE rowid = :number"), {"number": row[1]})


def _lost() -> ColumnElement[bool]:
    ended = select(turns.c.id).where(turns.c.status == "done")
    nobodys = attachments.c.turn_id.is_(None) | attachments.c.turn_id.in_(ended)
    return attachments.c.message_id.is_(None) & nobodys


def lost_attachments(tx: Transaction) -> list[Symptom]:
    """Pictures and files that belong to no message, and to no turn that has still to begin."""
    rows = tx.all(select(attachments.c.id).where(attachments.c.space == tx.space, _lost()))
    what = "a picture or file that belongs to no message"
    return [Symptom("attachment_orphan", row[0], what) for row in rows]


def return_attachments(tx: Transaction) -> None:
    """Gives each back to the message that shows it, and removes those that none does."""
    for symptom in lost_attachments(tx):
        shown = select(messages.c.id).where(
            messages.c.space == tx.space, func.instr(messages.c.data, symptom.where) > 0
        )
        message_id = tx.scalar(shown.limit(1))
        mine = attachments.c.id == symptom.where
        if message_id is None:
            tx.execute(delete(attachments).where(mine))
        else:
            given = update(attachments).where(mine)
            tx.execute(given.values(message_id=message_id, turn_id=None))


def vectors_without_text(tx: Transaction) -> list[Symptom]:
    """Texts that are gone, and have vectors or wait for them."""
    parts = []
    for table in (embeddings, outbox):
        for kind, owner in (("message", messages), ("passage", passages)):
            gone = ~select(literal(1)).where(owner.c.id == table.c.owner_id).exists()
            which = (table.c.space == tx.space, table.c.owner_kind == kind, gone)
            parts.append(select(table.c.owner_id).where(*which))
    rows = tx.all(union(*parts))
    return [Symptom("vector_orphan", row[0], "vectors of a text that is gone") for row in rows]


def damaged_vectors(tx: Transaction) -> list[Symptom]:
    """Texts with a vector that is not as long as it says."""
    rows = tx.all(_DAMAGED.where(embeddings.c.space == tx.space).distinct())
    what = "a vector that is not as long as its model's are"
    return [Symptom("vector_damaged", row[1], what) for row in rows]


_DAMAGED = select(embeddings.c.owner_kind, embeddings.c.owner_id).where(
    or_(
        func.length(embeddings.c.vector) != 4 * embeddings.c.dimension,
        embeddings.c.dimension <= 0,
    )
)


def remove_bad_vectors(tx: Transaction) -> list[tuple[OwnerKind, str]]:
    """Removes vectors without a text, and damaged ones. Returns the texts that need new ones."""
    vectors.drop(tx, [symptom.where for symptom in vectors_without_text(tx)])
    rows = tx.all(_DAMAGED.where(embeddings.c.space == tx.space).distinct())
    damaged: list[tuple[OwnerKind, str]] = [(row[0], row[1]) for row in rows]
    vectors.drop(tx, [owner for _, owner in damaged])
    return damaged


def waiting_vectors(tx: Transaction) -> Iterator[Symptom]:
    """Texts that wait for their vectors, and those of them that have failed."""
    column = outbox.c
    rows = tx.all(
        select(column.owner_id, func.max(column.attempts), func.max(column.error))
        .where(column.space == tx.space, column.kind == "embed")
        .group_by(column.owner_id)
    )
    for owner_id, attempts, error in rows:
        if attempts:
            yield Symptom("vectors_failed", owner_id, f"it could not be embedded: {error}")
        else:
            yield Symptom("vectors_pending", owner_id, "a text that waits for its vectors")
