"""What wakes agents outside of any turn has in common: a turn queued in the transaction that calls
for it, and started where it is to run here."""

from __future__ import annotations

from collections.abc import Callable

from pagedaemon.clock import Clock
from pagedaemon.scheduler.claims import Claims
from pagedaemon.store.database import Database
from pagedaemon.store.journal import Wake
from pagedaemon.store.transaction import Transaction


class Waker:
    """Wakes the agents of one space.

    Args:
        store: the space.
        clock: the time.
        claims: who can be woken.
        start: runs a turn that was queued, by its id and its conversation's.

    Attributes:
        takes_part: whether this process wakes agents of itself, as it does while it keeps time.
    """

    def __init__(
        self, store: Database, clock: Clock, claims: Claims, start: Callable[[str, str], None]
    ) -> None:
        self.store = store
        self.clock = clock
        self.claims = claims
        self.start = start
        self.takes_part = False

    def queue(self, tx: Transaction, conversation_id: str, wake: Wake) -> tuple[str, bool]:
        """T0 of what a person has said outside of any turn: the turn's id, and whether this process
        runs it. Otherwise whoever comes first does."""
        here = self.takes_part and self.claims.unable(tx, conversation_id, wake) is None
        return self.claims.queue(tx, conversation_id, wake, here=here), here
