"""The lease of a turn in hand: renewed, and looked after where this process has stood still."""

from __future__ import annotations

from datetime import UTC, datetime

from pagedaemon.store import journal
from pagedaemon.store.database import Database
from pagedaemon.turn.state import OpenTurn


async def renew(store: Database, turn: OpenTurn) -> None:
    """Renews the lease, and sees whether the turn was asked to stop.

    Raises:
        LeaseLost: another worker has taken the conversation over.
        StoreError: the store failed.
    """
    until = turn.lease.runs_out()
    turn.stop_asked |= await store.write(lambda tx: journal.renew(tx, turn.lease, turn.id))
    turn.held_until = until


async def require_ours(store: Database, turn: OpenTurn) -> None:
    """Makes sure that the conversation is still ours. Costs nothing as long as nobody can have
    taken it over: then this process was stopped, or its machine slept.

    Raises:
        LeaseLost: another worker has taken the conversation over.
        StoreError: the store failed.
    """
    if datetime.now(UTC) >= turn.held_until:
        await renew(store, turn)
