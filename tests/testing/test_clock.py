"""A clock that moves only when it is told to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from pagedaemon.clock import Clock
from pagedaemon.errors import InvalidInput
from pagedaemon.testing import FakeClock

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def test_it_stands_still() -> None:
    clock: Clock = FakeClock(NOON)
    assert [clock.now(), clock.now()] == [NOON, NOON]
    assert [clock.monotonic(), clock.monotonic()] == [0.0, 0.0]


def test_advance_moves_both_readings_by_the_same() -> None:
    clock = FakeClock(NOON)
    clock.advance(1.5)
    clock.advance(60)
    assert clock.now() == NOON + timedelta(seconds=61.5)
    assert clock.monotonic() == 61.5


def test_a_tick_passes_after_every_reading_of_either() -> None:
    clock = FakeClock(NOON, tick=0.1)
    assert clock.now() == NOON
    assert clock.monotonic() == 0.1
    assert clock.now() == NOON + timedelta(seconds=0.2)


def test_ticks_add_up_exactly() -> None:
    clock = FakeClock(NOON, tick=0.1)
    for _ in range(1_000):
        clock.now()
    assert clock.monotonic() == 100.0


def test_a_jump_sets_the_wall_clock_alone() -> None:
    clock = FakeClock(NOON)
    clock.jump(-3_600)
    assert clock.now() == NOON - timedelta(hours=1)
    assert clock.monotonic() == 0.0
    clock.jump(7_200)
    assert clock.now() == NOON + timedelta(hours=1)


def test_it_reads_in_utc_wherever_it_started() -> None:
    clock = FakeClock(datetime(2026, 11, 30, 21, 0, tzinfo=ZoneInfo("Asia/Tokyo")))
    assert clock.now() == NOON
    assert clock.now().tzinfo is UTC


def test_time_never_passes_backward() -> None:
    clock = FakeClock(NOON)
    with pytest.raises(InvalidInput, match="negative"):
        clock.advance(-1)
    with pytest.raises(InvalidInput, match="negative"):
        FakeClock(NOON, tick=-1)
    assert clock.now() == NOON


def test_a_start_without_timezone_is_refused() -> None:
    with pytest.raises(InvalidInput, match="timezone"):
        FakeClock(NOON.replace(tzinfo=None))
