"""Time and identity from outside the program: the two things a test wants to hold still."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime
from typing import Literal, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pagedaemon.errors import InvalidInput

IdKind = Literal[
    "agent",
    "approval",
    "archive",
    "attachment",
    "block",
    "call",
    "conversation",
    "message",
    "passage",
    "schedule",
    "step",
    "turn",
]


class Clock(Protocol):
    """Where the runtime reads the time. Order never rests on it."""

    def now(self) -> datetime:
        """The current instant, timezone-aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds from some fixed point, never going back; for measuring durations."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The current instant in UTC, with microseconds."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds from some fixed point, never going back."""
        return time.monotonic()


def new_id(kind: IdKind) -> str:
    """A fresh id such as ``agent-1b4e28ba-2fa1-41d2-883f-0016d3cca427`` (kind, then UUID 4)."""
    return f"{kind}-{uuid.uuid4()}"


def zone(name: str) -> ZoneInfo:
    """The IANA zone of that name.

    Raises:
        InvalidInput: no such zone is known on this machine.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidInput(
            f"unknown time zone {name!r}: give an IANA name such as 'Europe/Berlin'"
        ) from error


def local_stamp(instant: datetime, zone_name: str) -> str:
    """An instant as the model reads it: ``Monday 2026-11-30 15:53:31 +09:00 (Asia/Tokyo)``. At the
    very edges of the calendar, where a zone would be in year 0 or 10000, in UTC."""
    local, name = _local(instant, zone_name)
    offset = local.strftime("%z")
    return f"{local.strftime('%A %Y-%m-%d %H:%M:%S')} {offset[:3]}:{offset[3:]} ({name})"


def local_minute(instant: datetime, zone_name: str) -> str:
    """`local_stamp` in little more than half the tokens, for lists that name the zone once:
    ``Monday 2026-11-30 15:53``."""
    return _local(instant, zone_name)[0].strftime("%A %Y-%m-%d %H:%M")


def _local(instant: datetime, zone_name: str) -> tuple[datetime, str]:
    try:
        return instant.astimezone(zone(zone_name)), zone_name
    except OverflowError:
        return instant.astimezone(UTC), "UTC"
