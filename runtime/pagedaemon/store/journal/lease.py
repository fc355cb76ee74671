"""The lease of a conversation: taken at the claim, fenced at every write after it, given back
with the turn's end."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select, update
from sqlalchemy.sql import bindparam

from pagedaemon.errors import LeaseLost
from pagedaemon.store.journal.shapes import Head, Lease
from pagedaemon.store.tables import conversations
from pagedaemon.store.transaction import Transaction

_CLAIM = (
    update(conversations)
    .where(conversations.c.id == bindparam("conversation"))
    .values(
        epoch=bindparam("next_epoch"),
        lease_owner=bindparam("owner"),
        lease_until=bindparam("until"),
        last_turn=bindparam("turn_seq"),
        last_seq=bindparam("seq"),
        window_version=bindparam("version"),
        warned=bindparam("is_warned"),
    )
)


def claim(
    tx: Transaction,
    at: Head,
    *,
    owner: str,
    seconds: float,
    last_turn: int,
    last_seq: int,
    warned: bool,
) -> Lease:
    """T1: takes the conversation, fencing off whoever had it before.

    Args:
        seconds: how long the lease lasts after each renewal.
    """
    lease = Lease(at.conversation_id, owner, at.epoch + 1, seconds)
    tx.execute(
        _CLAIM,
        {
            "conversation": at.conversation_id,
            "next_epoch": lease.epoch,
            "owner": owner,
            "until": lease.runs_out(),
            "turn_seq": last_turn,
            "seq": last_seq,
            "version": at.window_version + 1,
            "is_warned": warned,
        },
    )
    return lease


_FENCE = (
    update(conversations)
    .where(
        conversations.c.id == bindparam("conversation"),
        conversations.c.epoch == bindparam("ours"),
        conversations.c.lease_owner == bindparam("me"),
    )
    .values(lease_until=bindparam("until"))
)


def fence(tx: Transaction, lease: Lease) -> None:
    """Renews the lease, or finds out that it is no longer ours.

    Raises:
        LeaseLost: another worker has claimed the conversation since.
    """
    _fenced(tx, lease, _FENCE, {"until": lease.runs_out()})


def holds(tx: Transaction, lease: Lease) -> bool:
    """Whether a conversation is held under this very lease: its claim was committed, and no other
    has come since."""
    epoch = select(conversations.c.epoch).where(
        conversations.c.id == lease.conversation_id, conversations.c.lease_owner == lease.owner
    )
    return bool(tx.scalar(epoch) == lease.epoch)


def _fenced(tx: Transaction, lease: Lease, statement: Any, values: dict[str, Any]) -> None:
    keys = {"conversation": lease.conversation_id, "ours": lease.epoch, "me": lease.owner}
    if tx.execute(statement, {**keys, **values}).rowcount != 1:
        raise LeaseLost(
            f"conversation {lease.conversation_id} was taken over by another worker; "
            "nothing of this step was written"
        )


_MOVED = _FENCE.values(
    last_seq=bindparam("seq"),
    window_version=bindparam("version"),
    warned=bindparam("is_warned"),
    lease_owner=bindparam("next_owner"),
    lease_until=bindparam("until"),
)


def moved(
    tx: Transaction,
    lease: Lease,
    *,
    last_seq: int,
    window_version: int,
    warned: bool,
    ends: bool,
) -> None:
    """Fence and conversation row of a finished step.

    Args:
        ends: the turn ends with it, and the lease is given back.

    Raises:
        LeaseLost: another worker has claimed the conversation since.
    """
    _fenced(
        tx,
        lease,
        _MOVED,
        {
            "seq": last_seq,
            "version": window_version,
            "is_warned": warned,
            "until": lease.runs_out(),
            "next_owner": None if ends else lease.owner,
        },
    )
