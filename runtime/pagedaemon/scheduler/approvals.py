"""Calls of a space that wait for a person: listed, answered, and ended when their time is over.

An answer is one transaction with the turn that it queues, so it may be given by any process and is
never lost. It is carried out by whoever runs that turn: this process, if it wakes agents of itself
and has what the call needs, and otherwise the first that does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Literal

from pagedaemon.clock import Clock
from pagedaemon.errors import AlreadyAnswered, NotFound
from pagedaemon.scheduler.claims import Claims
from pagedaemon.store import approvals as rows
from pagedaemon.store.approvals import ApprovalRow, Status
from pagedaemon.store.database import Database
from pagedaemon.store.journal import Ruling, Wake
from pagedaemon.store.transaction import Transaction

Decision = Literal["approved", "denied", "expired"]


@dataclass(frozen=True)
class Queued:
    """An approval that was answered, and the turn in which that is carried out.

    Attributes:
        here: this process runs it.
    """

    row: ApprovalRow
    turn_id: str
    here: bool


class Approvals:
    """The approvals of one space in this process.

    Args:
        store: the space.
        clock: the time.
        claims: who can be woken.
        start: runs a turn that was queued, by its id and its conversation's.
        takes_part: whether this process wakes agents of itself.
    """

    def __init__(
        self,
        store: Database,
        clock: Clock,
        claims: Claims,
        start: Callable[[str, str], None],
        takes_part: Callable[[], bool],
    ) -> None:
        self._store = store
        self._clock = clock
        self._claims = claims
        self._start = start
        self._takes_part = takes_part

    async def listed(self, status: Status | None, agent_id: str | None) -> list[ApprovalRow]:
        """The approvals in that state, or in any; of an agent, or of all. Oldest first.

        Raises:
            StoreError: the store failed.
        """
        await self.expire_due()
        return await self._store.read(lambda tx: rows.listed(tx, status=status, agent_id=agent_id))

    async def find(self, approval_id: str, agent_id: str | None) -> ApprovalRow:
        """One of the space, or of an agent, by its id.

        Raises:
            NotFound: there is none.
            StoreError: the store failed.
        """
        await self.expire_due()
        return await self._store.read(lambda tx: _required(tx, approval_id, agent_id))

    async def answer(
        self, approval_id: str, decision: Decision, *, by: str | None, reason: str | None
    ) -> Queued:
        """Answers one that is pending, and queues the turn that carries it out.

        Raises:
            NotFound: there is none of that id.
            AlreadyAnswered: it waits no longer.
            StoreError: the store failed; nothing was changed.
        """
        await self.expire_due()

        def work(tx: Transaction) -> Queued:
            row = _required(tx, approval_id, None)
            if row.status != "pending":
                raise AlreadyAnswered(
                    f"{row.id} is {row.status} already: approvals.list() shows what still waits"
                )
            return self._close(tx, row, decision, by, reason)

        queued = await self._store.write(work)
        self._begin(queued)
        return queued

    async def expire_due(self) -> datetime | None:
        """Ends the wait of those whose time is over; their agents are told.

        Returns:
            when the next one's time is; None where none waits.

        Raises:
            StoreError: the store failed; each has expired whole or not at all.
        """
        now = self._clock.now()
        due, following = await self._store.read(
            lambda tx: (rows.overdue(tx, now), rows.next_expiry(tx))
        )
        for row in due:
            queued = await self._store.write(partial(self._expire, approval_id=row.id))
            if queued is not None:
                self._begin(queued)
        if due:
            following = await self._store.read(rows.next_expiry)
        return following

    def _expire(self, tx: Transaction, approval_id: str) -> Queued | None:
        row = rows.by_id(tx, approval_id)
        if row is None or row.status != "pending":
            return None
        return self._close(tx, row, "expired", None, None)

    def _close(
        self,
        tx: Transaction,
        row: ApprovalRow,
        decision: Decision,
        by: str | None,
        reason: str | None,
    ) -> Queued:
        now = self._clock.now()
        rows.move(tx, row.id, "pending", decision, reason=reason, by=by, now=now)
        ruling = Ruling(row.id, row.tool, decision, by, reason)
        wake = Wake(label="owner", kind="approval", ruling=ruling)
        turn_id, here = self._claims.queue(tx, row.conversation_id, wake, runs=self._takes_part())
        return Queued(_required(tx, row.id, None), turn_id, here)

    def _begin(self, queued: Queued) -> None:
        if queued.here:
            self._start(queued.turn_id, queued.row.conversation_id)


def _required(tx: Transaction, approval_id: str, agent_id: str | None) -> ApprovalRow:
    row = rows.by_id(tx, approval_id)
    if row is None or agent_id not in (None, row.agent_id):
        raise NotFound(f"there is no approval {approval_id}: approvals.list() shows what waits")
    return row
