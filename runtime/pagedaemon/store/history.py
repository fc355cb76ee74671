"""Rows of imported messages: which are there, and the numbers the new ones get."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select, update

from pagedaemon.store.tables import conversations, messages
from pagedaemon.store.transaction import Transaction


def present(tx: Transaction, message_ids: Sequence[str]) -> set[str]:
    """Those of the ids, some hundreds at most, that are stored."""
    found = tx.all(select(messages.c.id).where(messages.c.id.in_(list(message_ids))))
    return {row[0] for row in found}


def take_numbers(tx: Transaction, conversation_id: str, count: int) -> int | None:
    """Takes the next message numbers of a conversation that no turn was ever queued in.

    Returns the first of them, or None where there was a turn: one that runs counts on its own.
    """
    column = conversations.c
    row = tx.first(select(column.last_seq, column.last_turn).where(column.id == conversation_id))
    if row is None or row[1] > 0:
        return None
    tx.execute(
        update(conversations).where(column.id == conversation_id).values(last_seq=row[0] + count)
    )
    return int(row[0]) + 1
