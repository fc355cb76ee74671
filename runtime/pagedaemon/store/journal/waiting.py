"""Turns that wait for their place: counted, and told more while they do."""

from __future__ import annotations

from sqlalchemy import func, select, update

from pagedaemon.store.tables import turns
from pagedaemon.store.transaction import Transaction


def missed(tx: Transaction, turn_id: str, more: int) -> bool:
    """Adds to the rings that a timer's turn stands for. Returns whether it still waits; one that
    has begun has told its agent already."""
    body = tx.scalar(select(turns.c.body).where(turns.c.id == turn_id, turns.c.status == "queued"))
    if body is None:
        return False
    body["ring"]["missed"] += more
    tx.execute(update(turns).where(turns.c.id == turn_id).values(body=body))
    return True


def mail_waiting(tx: Transaction, conversation_id: str) -> int:
    """How many turns wait in a conversation that mail of other agents shall wake."""
    return int(
        tx.scalar(
            select(func.count())
            .select_from(turns)
            .where(
                turns.c.conversation_id == conversation_id,
                turns.c.status == "queued",
                turns.c.event.in_(("mail", "question")),
            )
        )
    )


def owner_of(tx: Transaction, turn_id: str) -> str:
    """The process that runs a turn."""
    owner = tx.scalar(select(turns.c.owner).where(turns.c.id == turn_id))
    assert isinstance(owner, str), "a turn that runs has an owner"
    return owner
