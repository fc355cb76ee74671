"""Calls of a space that wait for a person: listed, answered, and ended when their time is over.

What an answer is, and who carries it out, says `calls.py`.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Literal

from pagedaemon.errors import AlreadyAnswered
from pagedaemon.scheduler.calls import Answered, Calls
from pagedaemon.store import approvals as rows
from pagedaemon.store.approvals import ApprovalRow, Status
from pagedaemon.store.journal import Ruling, Wake
from pagedaemon.store.transaction import Transaction

Decision = Literal["approved", "denied", "expired"]


class Approvals(Calls[ApprovalRow]):
    """The approvals of one space in this process."""

    async def listed(self, status: Status | None, agent_id: str | None) -> list[ApprovalRow]:
        """The approvals in that state, or in any; of an agent, or of all. Oldest first.

        Raises:
            StoreError: the store failed.
        """
        await self.expire_due()
        return await self._store.read(lambda tx: rows.listed(tx, status=status, agent_id=agent_id))

    async def find(self, call_id: str, agent_id: str | None) -> ApprovalRow:
        """As of any call, once those whose time is over have expired."""
        await self.expire_due()
        return await super().find(call_id, agent_id)

    async def answer(
        self, approval_id: str, decision: Decision, *, by: str | None, reason: str | None
    ) -> Answered[ApprovalRow]:
        """Answers one that is pending, and queues the turn that carries it out.

        Raises:
            NotFound: there is none of that id.
            AlreadyAnswered: it waits no longer.
            StoreError: the store failed; nothing was changed.
        """
        await self.expire_due()

        def work(tx: Transaction) -> Answered[ApprovalRow]:
            row = self._required(tx, approval_id)
            if row.status != "pending":
                raise AlreadyAnswered(
                    f"{row.id} is {row.status} already: approvals.list() shows what still waits"
                )
            return self._close(tx, row, decision, by, reason)

        answered = await self._store.write(work)
        self._begin(answered)
        return answered

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
            answered = await self._store.write(partial(self._expire, approval_id=row.id))
            if answered is not None:
                self._begin(answered)
        if due:
            following = await self._store.read(rows.next_expiry)
        return following

    def _expire(self, tx: Transaction, approval_id: str) -> Answered[ApprovalRow] | None:
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
    ) -> Answered[ApprovalRow]:
        now = self._clock.now()
        rows.move(tx, row.id, "pending", decision, reason=reason, by=by, now=now)
        ruling = Ruling(row.id, row.tool, decision, by, reason)
        wake = Wake(label="owner", kind="approval", ruling=ruling)
        return self._answered(tx, row.id, wake)

    def _by_id(self, tx: Transaction, call_id: str) -> ApprovalRow | None:
        return rows.by_id(tx, call_id)

    def _none(self, call_id: str) -> str:
        return f"there is no approval {call_id}: approvals.list() shows what waits"
