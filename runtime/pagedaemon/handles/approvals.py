"""Calls that wait for a person, as a user holds them: to list and to answer, from any process."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal, get_args

from pagedaemon.agent import checked_name
from pagedaemon.errors import InvalidInput
from pagedaemon.handles.calls import AsyncCall, checked_person, checked_remark
from pagedaemon.handles.turns import AsyncTurnHandle
from pagedaemon.store.approvals import ApprovalRow, Status

if TYPE_CHECKING:
    from pagedaemon.scheduler import Scheduler
    from pagedaemon.scheduler.approvals import Decision


class AsyncApproval(AsyncCall[ApprovalRow]):
    """A call that waits for a person, or has, as it was when it was read."""

    def __repr__(self) -> str:
        return f"<{self.id} {self.status} {self.tool}>"

    @property
    def id(self) -> str:
        """As the agent sees it too."""
        return self._row.id

    @property
    def why(self) -> str:
        """Why it waits: `always` or `asked` by the tool's own word, by a `rule` of the agent, or
        `tainted`: text from outside stood in the window, and the tool can do what is then gated."""
        return self._row.why

    @property
    def tainted(self) -> bool:
        """Whether text from outside stood in the window when the agent made the call."""
        return self._row.is_tainted

    @property
    def status(self) -> Status:
        """`pending`; `approved` and not run yet; `used`: run, or begun; `denied`; `expired`."""
        return self._row.status

    @property
    def reason(self) -> str | None:
        """Why it was denied."""
        return self._row.reason

    @property
    def created_at(self) -> datetime:
        """When it was made, in UTC."""
        return self._row.created_at

    @property
    def expires_at(self) -> datetime:
        """From when on it counts as denied, in UTC."""
        return self._row.expires_at

    @property
    def answered_at(self) -> datetime | None:
        """When it was answered or expired, in UTC."""
        return self._row.answered_at

    @property
    def answered_by(self) -> str | None:
        """Who answered, where that was said."""
        return self._row.answered_by

    async def approve(self, by: str | None = None) -> AsyncTurnHandle:
        """Lets the call be run, once. It is run in a turn of its own, as soon as its conversation
        is free: here, or in the first process with the tool's code that has the space open. The
        agent is told what came of it, and goes on.

        Where the tool's parameters have changed since, or its code is nowhere when the turn's
        place comes, it is denied after all, and the agent is told why.

        Args:
            by: who says so, for the record and the agent.

        Raises:
            AlreadyAnswered: it waits no longer; nothing was changed.
            NotFound: its agent was deleted.
            InvalidInput: a name that cannot be.
            StoreError: the store failed; nothing was changed.
        """
        return await self._answer("approved", by, None)

    async def deny(self, reason: str | None = None, by: str | None = None) -> AsyncTurnHandle:
        """Has the call not run. The agent is told, in a turn of its own.

        Args:
            reason: for the agent, at most 2,000 characters.
            by: as in `approve`.

        Raises:
            AlreadyAnswered, NotFound, InvalidInput, StoreError: as `approve`.
        """
        return await self._answer("denied", by, checked_remark(reason, "reason"))

    async def _answer(
        self, decision: Decision, by: str | None, reason: str | None
    ) -> AsyncTurnHandle:
        by = checked_person(by, "answers")
        approvals = self._scheduler.approvals
        return self._told_in(await approvals.answer(self.id, decision, by=by, reason=reason))


class AsyncApprovals:
    """Calls that wait for a person: of a space, or of an agent.

    They are stored, and wait through any restart until they are answered or their time is over
    (`Settings.gates`). Nothing else waits for them: a message meanwhile is simply answered.
    """

    def __init__(self, scheduler: Scheduler, agent_id: str | None = None) -> None:
        self._scheduler = scheduler
        self._agent_id = agent_id

    async def list(
        self,
        status: Literal["pending", "approved", "denied", "expired", "used"] | None = "pending",
    ) -> list[AsyncApproval]:
        """Those in one state, or with None all, oldest first.

        Raises:
            InvalidInput: there is no such state.
            StoreError: the store failed.
        """
        if status is not None and status not in get_args(Status):
            raise InvalidInput(f"the status of approvals is one of {', '.join(get_args(Status))}")
        found = await self._scheduler.approvals.listed(status, self._agent_id)
        return [AsyncApproval(self._scheduler, row) for row in found]

    async def get(self, approval_id: str) -> AsyncApproval:
        """The one of that id.

        Raises:
            NotFound: there is none here.
            InvalidInput: what cannot be an id.
            StoreError: the store could not be read.
        """
        wanted = checked_name(approval_id, "an approval's id")
        row = await self._scheduler.approvals.find(wanted, self._agent_id)
        return AsyncApproval(self._scheduler, row)
