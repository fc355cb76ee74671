"""Whether somebody works on a turn, or uses a conversation: by lock files and leases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol

from pagedaemon.store.journal import Head, TurnRow


class Owners(Protocol):
    """The workers of a store, as one of them sees them, or an onlooker."""

    @property
    def id(self) -> str:
        """Which of them we are; empty: none."""

    @property
    def lease_seconds(self) -> float:
        """How long a lease lasts after each renewal."""

    def alive(self, owner: str) -> bool:
        """Whether that one's process still runs."""

    def gone(self) -> list[str]:
        """Those whose process is gone, and whose lock file is still there."""


def held(head: Head, owners: Owners) -> bool:
    """Whether another worker that lives, and renews its lease, is using the conversation."""
    if head.lease_owner == owners.id or _past(head.lease_until):
        return False
    return head.lease_owner is not None and owners.alive(head.lease_owner)


def orphaned(row: TurnRow, owners: Owners) -> bool:
    """Whether the process that should work on an open turn is gone, or stands still: it has not
    renewed its lease, or not begun a turn whose place has come."""
    if row.owner is None or not owners.alive(row.owner):
        return True
    if row.owner == owners.id:
        return False
    if row.status == "running":
        return _past(row.lease_until)
    begun = row.created_at + timedelta(seconds=owners.lease_seconds)
    return row.lease_owner is None and _past(row.lease_until) and _past(begun)


def _past(instant: datetime | None) -> bool:
    return instant is None or instant <= datetime.now(UTC)
