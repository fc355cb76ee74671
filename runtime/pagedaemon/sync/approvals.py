"""Calls that wait for a person, through the blocking door."""

from __future__ import annotations

import builtins
from datetime import datetime
from typing import Literal

from pagedaemon.handles.approvals import AsyncApproval, AsyncApprovals
from pagedaemon.store.approvals import Status
from pagedaemon.sync.calls import Call
from pagedaemon.sync.delegate import Handle, blocking
from pagedaemon.sync.talking import TurnHandle


@blocking(AsyncApproval)
class Approval(Call[AsyncApproval]):
    """A call that waits for a person, or has, as it was when it was read."""

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def why(self) -> str:
        return self._inner.why

    @property
    def tainted(self) -> bool:
        return self._inner.tainted

    @property
    def status(self) -> Status:
        return self._inner.status

    @property
    def reason(self) -> str | None:
        return self._inner.reason

    @property
    def created_at(self) -> datetime:
        return self._inner.created_at

    @property
    def expires_at(self) -> datetime:
        return self._inner.expires_at

    @property
    def answered_at(self) -> datetime | None:
        return self._inner.answered_at

    @property
    def answered_by(self) -> str | None:
        return self._inner.answered_by

    def approve(self, by: str | None = None) -> TurnHandle:
        return TurnHandle(self._door, self._door.wait(self._inner.approve(by)))

    def deny(self, reason: str | None = None, by: str | None = None) -> TurnHandle:
        return TurnHandle(self._door, self._door.wait(self._inner.deny(reason, by)))


@blocking(AsyncApprovals)
class Approvals(Handle[AsyncApprovals]):
    """Calls that wait for a person: of a space, or of an agent."""

    def list(
        self,
        status: Literal["pending", "approved", "denied", "expired", "used"] | None = "pending",
    ) -> builtins.list[Approval]:
        found = self._door.wait(self._inner.list(status))
        return [Approval(self._door, one) for one in found]

    def get(self, approval_id: str) -> Approval:
        return Approval(self._door, self._door.wait(self._inner.get(approval_id)))
