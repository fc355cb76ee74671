"""A clock that stands still until it is told to go on."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

from pagedaemon.errors import InvalidInput

START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
"""Where a `FakeClock` starts unless told otherwise: a Monday morning."""


class FakeClock:
    """Implements `pagedaemon.clock.Clock`: frozen, and moved by the test alone.

    `advance` moves `now()` and `monotonic()` by the same seconds; `jump` moves only `now()`, as
    when a machine's clock is set. Threads may share one.

    Args:
        start: the first instant, timezone-aware. Default: `START`.
        tick: seconds that pass after every reading of either; 0 (the default) keeps it frozen.

    Raises:
        InvalidInput: `start` has no timezone, or `tick` is negative.
    """

    def __init__(self, start: datetime = START, *, tick: float = 0.0) -> None:
        if start.utcoffset() is None:
            raise InvalidInput("a clock needs a start with a timezone, such as datetime.UTC")
        self._start = start.astimezone(UTC)
        self._tick = _forward(tick)
        # A timedelta counts whole microseconds: a thousand ticks of 0.1 s are exactly 100 s.
        self._elapsed = timedelta()
        self._jumped = timedelta()
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """The current instant in UTC; then one tick passes."""
        with self._lock:
            instant = self._start + self._elapsed + self._jumped
            self._elapsed += self._tick
            return instant

    def monotonic(self) -> float:
        """Seconds passed since the start, jumps not counted; then one tick passes."""
        with self._lock:
            seconds = self._elapsed.total_seconds()
            self._elapsed += self._tick
            return seconds

    def advance(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            InvalidInput: `seconds` is negative.
        """
        step = _forward(seconds)
        with self._lock:
            self._elapsed += step

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or (negative) back, without any time passing."""
        with self._lock:
            self._jumped += timedelta(seconds=seconds)


def _forward(seconds: float) -> timedelta:
    if seconds < 0:
        raise InvalidInput(f"time passes forward: {seconds} seconds is negative (see `jump`)")
    return timedelta(seconds=seconds)
