"""Timers through the API: what is taken, what is refused, and what is told of them."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pagedaemon import AsyncRuntime, InvalidInput, NotFound, Runtime
from pagedaemon.testing import FakeClock, ScriptedModel, say

HOUR = timedelta(hours=1)


async def test_a_timer_says_what_it_is_and_is_there_after_reopening(
    tmp_path: Path, clock: FakeClock
) -> None:
    async with AsyncRuntime(tmp_path, clock=clock) as runtime:
        ada = await runtime.agents.create("ada")
        other = await ada.conversations.ensure("other")
        daily = await ada.schedule("Tidy up.", every=24 * HOUR, conversation="other")
        once = await ada.schedule("Call Lin.", at=clock.now() + HOUR)
        assert (daily.every, daily.conversation_id, daily.label) == (24 * HOUR, other.id, "owner")
        assert (once.due, once.every, once.text) == (clock.now() + HOUR, None, "Call Lin.")
        assert once.id in repr(once)
    async with AsyncRuntime(tmp_path, clock=clock) as runtime:
        ada = await runtime.agents.get("ada")
        assert [timer.id for timer in await ada.schedules()] == [once.id, daily.id]
        (first, _) = await ada.schedules()
        assert await first.cancel()
        assert not await first.cancel()
        assert [timer.id for timer in await ada.schedules()] == [daily.id]


@pytest.mark.parametrize(
    "given",
    [
        {"text": "x"},
        {"text": "x", "at": datetime(2027, 1, 1), "every": None},  # noqa: DTZ001
        {"text": "x", "every": timedelta(milliseconds=1)},
        {"text": "x", "every": HOUR, "start": "now"},
        {"text": "", "every": HOUR},
        {"text": "x" * 4_001, "every": HOUR},
        {"text": 5, "every": HOUR},
        {"text": "x", "every": HOUR, "conversation": ""},
    ],
)
async def test_what_cannot_be_is_refused_and_nothing_is_stored(
    runtime: AsyncRuntime, given: dict[str, Any]
) -> None:
    ada = await runtime.agents.create("ada")
    with pytest.raises(InvalidInput):
        await ada.schedule(**given)
    assert await ada.schedules() == []


async def test_what_is_not_there_cannot_be_woken(runtime: AsyncRuntime) -> None:
    ada = await runtime.agents.create("ada")
    with pytest.raises(NotFound, match="ensure"):
        await ada.schedule("x", every=HOUR, conversation="nowhere")
    await ada.delete()
    with pytest.raises(NotFound):
        await ada.schedule("x", every=HOUR)
    with pytest.raises(NotFound):
        await ada.pause_heartbeats(seconds=60)


async def test_a_deleted_agent_has_no_timers_to_tell_of(runtime: AsyncRuntime) -> None:
    ada = await runtime.agents.create("ada")
    timer = await ada.schedule("x", every=HOUR)
    await ada.delete()
    with pytest.raises(NotFound, match=ada.id):
        await ada.schedules()
    with pytest.raises(NotFound, match=ada.id):
        await ada.resume_heartbeats()
    assert not await timer.cancel()


async def test_a_pause_that_cannot_be_changes_nothing(
    runtime: AsyncRuntime, clock: FakeClock
) -> None:
    ada = await runtime.agents.create("ada")
    await ada.pause_heartbeats(until=clock.now() + HOUR)
    with pytest.raises(InvalidInput):
        await ada.pause_heartbeats(until=clock.now() - HOUR)
    with pytest.raises(InvalidInput):
        await ada.pause_heartbeats(seconds=0)
    assert await ada.resume_heartbeats()
    assert not await ada.resume_heartbeats()


def test_the_blocking_door_rings_too(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: say("Good morning."))
    with Runtime(tmp_path, model="script", models={"script": model}) as runtime:
        ada = runtime.agents.create("ada")
        kept = ada.schedule("Later.", every=HOUR)
        ada.schedule("Say good morning.", at=datetime.now(UTC))
        main = ada.conversations["main"]
        deadline = time.monotonic() + 5
        while not main.turns() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [turn.reply for turn in main.turns()] == ["Good morning."]
        (timer,) = ada.schedules()
        assert (timer.id, timer.every) == (kept.id, HOUR)
        ada.pause_heartbeats(seconds=60)
        assert ada.resume_heartbeats()
        assert timer.cancel()
        assert ada.schedules() == []
