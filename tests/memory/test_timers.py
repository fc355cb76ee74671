"""Timers: when they ring, what was missed, and the tools with which an agent sets itself some."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedaemon import AsyncRuntime
from pagedaemon.errors import InvalidInput
from pagedaemon.handles.timers import AsyncSchedule
from pagedaemon.memory import timers
from pagedaemon.memory.timers import LONGEST, MOST, pause_end, ring, when
from pagedaemon.store.schedules import ScheduleRow
from pagedaemon.testing import FakeClock, ScriptedModel, call, say

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
NAIVE = datetime(2026, 11, 30, 13)  # noqa: DTZ001
BERLIN = ZoneInfo("Europe/Berlin")


class TestWhen:
    """From what an owner gives."""

    def test_once_at_an_instant(self) -> None:
        at = datetime(2026, 11, 30, 14, tzinfo=BERLIN)
        assert when(at, None, None, NOON) == timers.When(NOON + HOUR, None)

    def test_an_instant_that_has_passed_is_now(self) -> None:
        for past in (NOON - HOUR, datetime.min.replace(tzinfo=timezone(HOUR))):
            assert when(past, None, None, NOON).due == NOON

    def test_an_interval_begins_one_interval_from_now(self) -> None:
        assert when(None, HOUR, None, NOON) == timers.When(NOON + HOUR, HOUR)

    def test_a_start_to_come_is_the_first(self) -> None:
        start = NOON + timedelta(minutes=7)
        assert when(None, HOUR, start, NOON) == timers.When(start, HOUR)
        assert when(None, HOUR, NOON, NOON) == timers.When(NOON, HOUR)

    @given(st.integers(1, 10**7), st.integers(1, 10**6))
    def test_a_start_in_the_past_keeps_its_grid(self, behind: int, every: int) -> None:
        start, step = NOON - timedelta(seconds=behind), timedelta(seconds=every)
        due = when(None, step, start, NOON).due
        assert NOON <= due < NOON + step
        assert (due - start) % step == timedelta()

    def test_a_day_is_24_hours_also_where_the_clocks_change(self) -> None:
        at = when(None, timedelta(days=1), datetime(2026, 10, 24, 9, tzinfo=BERLIN), NOON)
        assert at.due.astimezone(BERLIN).hour == 8, "the clocks went back meanwhile"
        before = datetime(2026, 10, 24, 9, tzinfo=BERLIN).astimezone(UTC)
        _, following = ring(of(due=before, every=86_400.0), before)
        assert following is not None
        assert following.astimezone(BERLIN).hour == 8

    @pytest.mark.parametrize(
        "given",
        [
            (None, None, None),
            (NOON, HOUR, None),
            (NOON, None, NOON),
            (NAIVE, None, None),
            (None, HOUR, NAIVE),
            ("tomorrow", None, None),
            (None, 60, None),
            (None, timedelta(seconds=0.999), None),
            (None, timedelta(0), None),
            (None, -HOUR, None),
            (None, LONGEST + HOUR, None),
            (NOON + LONGEST + HOUR, None, None),
            (None, HOUR, NOON + LONGEST + HOUR),
            (datetime.max.replace(tzinfo=timezone(-HOUR)), None, None),
        ],
    )
    def test_what_cannot_be_is_refused(self, given: tuple[Any, Any, Any]) -> None:
        with pytest.raises(InvalidInput):
            when(*given, NOON)

    def test_a_naive_instant_is_told_how_to_get_a_zone(self) -> None:
        with pytest.raises(InvalidInput, match="ZoneInfo"):
            when(NAIVE, None, None, NOON)


def of(due: datetime, every: float | None) -> ScheduleRow:
    return ScheduleRow("schedule-1", "ada", "main", "note", due, every, "owner", None, due)


class TestRing:
    """What a timer that is due stands for."""

    def test_once(self) -> None:
        rung, following = ring(of(NOON - HOUR, None), NOON)
        assert (rung.missed, rung.due, following) == (0, NOON - HOUR, None)

    @given(st.integers(0, 10**7), st.integers(1, 10**5))
    def test_all_that_were_due_are_counted_once(self, late: int, every: int) -> None:
        due = NOON - timedelta(seconds=late)
        rung, following = ring(of(due, float(every)), NOON)
        assert following is not None
        assert NOON < following <= NOON + timedelta(seconds=every)
        assert following - due == (rung.missed + 1) * timedelta(seconds=every)


class TestPauseEnd:
    """Until when timers are held."""

    def test_by_length_by_instant_or_without_end(self) -> None:
        assert pause_end(None, None, NOON) is None
        assert pause_end(None, 60, NOON) == NOON + timedelta(minutes=1)
        assert pause_end(datetime(2026, 11, 30, 14, tzinfo=BERLIN), None, NOON) == NOON + HOUR

    @pytest.mark.parametrize(
        "given",
        [
            (NOON + HOUR, 60),
            (NAIVE, None),
            (NOON, None),
            (None, 0),
            (None, -1),
            (None, float("nan")),
            (None, float("inf")),
            (None, True),
            (None, "60"),
        ],
    )
    def test_what_cannot_be_is_refused(self, given: tuple[Any, Any]) -> None:
        with pytest.raises(InvalidInput):
            pause_end(*given, NOON)


async def told(
    folder: Path, name: str, **arguments: Any
) -> tuple[str, list[AsyncSchedule], FakeClock]:
    """What a call of a tool returns, and the agent's timers afterwards. It is noon in Berlin."""
    clock = FakeClock(NOON - HOUR)
    model = ScriptedModel([call(name, heartbeat=True, **arguments), say("Done.")])
    async with AsyncRuntime(
        folder, model="script", models={"script": model}, clock=clock, recover=False
    ) as runtime:
        agent = await runtime.agents.ensure("ada", timers=True, timezone="Europe/Berlin")
        turn = await agent.send("go on")
        return turn.steps[0].calls[0].result, await agent.schedules(), clock


class TestTools:
    """What the agent sets itself."""

    async def test_at_a_local_time(self, tmp_path: Path) -> None:
        result, (timer,), _ = await told(
            tmp_path, "set_timer", note="Call Lin.", at="2026-12-24 18:00"
        )
        assert timer.due == datetime(2026, 12, 24, 17, tzinfo=UTC)
        assert (timer.text, timer.every, timer.label) == ("Call Lin.", None, "agent")
        assert timer.id in result
        assert "2026-12-24 18:00:00 +01:00" in result

    async def test_in_so_many_minutes_and_then_again(self, tmp_path: Path) -> None:
        result, (timer,), clock = await told(
            tmp_path, "set_timer", note="Stretch.", in_minutes=10, every_minutes=90
        )
        assert timer.due == clock.now() + timedelta(minutes=10)
        assert timer.every == timedelta(minutes=90)
        assert "every 90 minutes" in result

    async def test_from_one_interval_on(self, tmp_path: Path) -> None:
        _, (timer,), clock = await told(tmp_path, "set_timer", note="Stretch.", every_minutes=1)
        assert timer.due == clock.now() + timedelta(minutes=1)

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            ({}, "Say when"),
            ({"at": "tomorrow"}, "YYYY-MM-DD"),
            ({"at": "2026-11-30 11:59"}, "it is now Monday 2026-11-30 12:00"),
            ({"at": "0001-01-01"}, "has passed"),
            ({"at": "9999-12-31 23:59"}, "days away"),
            ({"at": "2026-12-24", "in_minutes": 1}, "not both"),
            ({"in_minutes": 0}, "in_minutes is at least 1"),
            ({"in_minutes": 10**30}, "ten years"),
            ({"every_minutes": 0}, "every_minutes is at least 1"),
            ({"every_minutes": -5}, "every_minutes is at least 1"),
            ({"every_minutes": 10**30}, "ten years"),
            ({"in_minutes": 1, "note": "x" * 4_001}, "4000 characters"),
            ({"in_minutes": 1, "note": " "}, "empty"),
        ],
    )
    async def test_what_cannot_be_is_told_and_nothing_is_set(
        self, tmp_path: Path, arguments: dict[str, Any], says: str
    ) -> None:
        result, there, _ = await told(tmp_path, "set_timer", **{"note": "x", **arguments})
        assert says in result
        assert there == []

    async def test_those_there_are_are_shown_and_cancelled(self, tmp_path: Path) -> None:
        assert "no timers" in (await told(tmp_path, "list_timers"))[0]
        _, (timer,), _ = await told(tmp_path, "set_timer", note="Call Lin.", every_minutes=2)
        result, _, _ = await told(tmp_path, "list_timers")
        assert f"{timer.id} · Monday 2026-11-30 12:02" in result
        assert "every 120 s · set by you · Call Lin." in result
        result, there, _ = await told(tmp_path, "cancel_timer", timer="schedule-9")
        assert "list_timers" in result
        assert len(there) == 1
        result, there, _ = await told(tmp_path, "cancel_timer", timer=timer.id)
        assert (result, there) == (f"Timer {timer.id} is cancelled.", [])

    async def test_there_is_a_bound(self, tmp_path: Path) -> None:
        async with AsyncRuntime(tmp_path, recover=False, clock=FakeClock()) as runtime:
            agent = await runtime.agents.create("ada")
            for _ in range(MOST):
                await agent.schedule("again", every=HOUR)
            with pytest.raises(InvalidInput, match="cancel one"):
                await agent.schedule("again", every=HOUR)
        result, there, _ = await told(tmp_path, "set_timer", note="x", in_minutes=1)
        assert "at most 100 timers" in result
        assert len(there) == MOST

    async def test_it_holds_its_timers_and_lets_them_go_on(self, tmp_path: Path) -> None:
        result, _, _ = await told(tmp_path, "pause_heartbeats", minutes=30)
        assert "until Monday 2026-11-30 12:30" in result
        assert "at most 1440" in (await told(tmp_path, "pause_heartbeats", minutes=1_441))[0]
        assert "go on" in (await told(tmp_path, "pause_heartbeats", minutes=0))[0]
        async with AsyncRuntime(tmp_path, recover=False) as runtime:
            assert not await (await runtime.agents.get("ada")).resume_heartbeats()
