"""Timers ring in whichever process has the space open: each instant once, in order with messages,
and what was missed in one."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from pagedaemon import AsyncRuntime
from pagedaemon.errors import StorageUnavailable
from pagedaemon.events import Turn
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.scheduler import Scheduler
from pagedaemon.testing import FakeClock, ScriptedModel, call, say, text, view

MINUTE = timedelta(minutes=1)
Open: TypeAlias = Callable[..., AbstractAsyncContextManager[AsyncRuntime]]


def rings(request: Request) -> list[Mapping[str, Any]]:
    """The rings the model sees, oldest first."""
    return [event for event in view(request).events if event.get("reason") == "timer"]


def answer(request: Request) -> Reply:
    """Says the note of a ring and repeats a message."""
    last = str(request.messages[-1]["content"])
    if '"reason": "timer"' in last.rsplit("\n", 1)[-1]:
        return say(f"ding {rings(request)[-1]['note']}")
    return say(f"echo {view(request).last_user}")


@pytest.fixture
def clock() -> FakeClock:
    """Shared by all processes of a test."""
    return FakeClock()


@pytest.fixture
def opened(tmp_path: Path, clock: FakeClock) -> Open:
    """Opens the store, with a model that tells what it was woken for."""

    @asynccontextmanager
    async def open_runtime(model: Any = None, **settings: Any) -> AsyncIterator[AsyncRuntime]:
        model = model or ScriptedModel(answer)
        async with AsyncRuntime(
            tmp_path, model="script", models={"script": model}, clock=clock, **settings
        ) as runtime:
            yield runtime

    return open_runtime


async def scheduler_of(runtime: AsyncRuntime) -> Scheduler:
    return (await runtime.space("default"))._scheduler


async def ring_due(runtime: AsyncRuntime) -> None:
    """Rings what is due now, and waits until those turns have ended."""
    scheduler = await scheduler_of(runtime)
    await scheduler.timers.ring_due()
    await settled(scheduler)


async def settled(scheduler: Scheduler) -> None:
    """Waits for all turns that run or wait here."""
    async with asyncio.timeout(10):
        while running := list(scheduler._tasks.here.values()):
            await asyncio.gather(*(one.settled() for one in running))
            await asyncio.sleep(0)


async def turns(agent: AsyncAgent) -> list[Turn]:
    """Of `main`, oldest first."""
    return (await (await agent.conversations.get()).turns())[::-1]


async def replies(agent: AsyncAgent, count: int = 0) -> list[str | None]:
    """What it said in `main`, once it has had so many turns there."""
    found: list[Turn] = []
    for _ in range(500):
        if len(found := await turns(agent)) >= count:
            return [turn.reply for turn in found]
        await asyncio.sleep(0.01)
    raise AssertionError(f"{len(found)} turns, not {count}")


async def test_once_means_once(opened: Open, clock: FakeClock) -> None:
    model = ScriptedModel(answer)
    async with opened(model) as runtime:
        ada = await runtime.agents.create("ada")
        timer = await ada.schedule("Call Lin.", at=clock.now() + MINUTE)
        await ring_due(runtime)
        assert await replies(ada) == []
        clock.advance(60)
        await ring_due(runtime)
        await ring_due(runtime)
        assert await replies(ada) == ["ding Call Lin."]
        assert await ada.schedules() == []
        assert not await timer.cancel()
        (event, *_) = await (await ada.conversations.get()).messages()
    assert (event.kind, event.label) == ("heartbeat", "owner")
    (ring,) = rings(model.requests[0])
    assert ring["timer"] == timer.id
    assert "your owner wakes you. " in ring["message"]
    assert "missed" not in ring


async def test_it_rings_by_itself_when_its_time_has_come(opened: Open, clock: FakeClock) -> None:
    async with opened() as runtime:
        ada = await runtime.agents.create("ada")
        await ada.schedule("Call Lin.", at=clock.now() + MINUTE)
        await asyncio.sleep(0.1)
        clock.advance(60)
        assert await replies(ada, 1) == ["ding Call Lin."]


async def test_one_set_for_sooner_is_not_slept_over(opened: Open, clock: FakeClock) -> None:
    async with opened() as runtime:
        ada = await runtime.agents.create("ada")
        await ada.schedule("late", at=clock.now() + 60 * MINUTE)
        await asyncio.sleep(0.05)
        await ada.schedule("at once", at=clock.now())
        assert await replies(ada, 1) == ["ding at once"]


async def test_what_was_missed_is_one_ring_that_says_how_many(
    opened: Open, clock: FakeClock
) -> None:
    model = ScriptedModel(answer)
    async with opened() as runtime:
        ada = await runtime.agents.create("ada")
        await ada.schedule("Water the plants.", every=10 * MINUTE)
    clock.advance(35 * 60)
    async with opened(model) as runtime:
        await settled(await scheduler_of(runtime))
        ada = await runtime.agents.get("ada")
        assert await replies(ada) == ["ding Water the plants."]
        (timer,) = await ada.schedules()
        assert timer.due == clock.now() + 5 * MINUTE, "it keeps its grid"
        clock.advance(5 * 60)
        await ring_due(runtime)
    first, second = rings(model.requests[0])[-1], rings(model.requests[1])[-1]
    assert (first["missed"], second["missed"]) == (2, 0)
    assert "wakes you only now: it was due 3 times" in first["message"]
    assert "only now" not in second["message"]


async def test_a_ring_waits_for_the_users_turn_and_those_missed_meanwhile_join_it(
    opened: Open, clock: FakeClock
) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Reply:
        if not rings(request):
            asked.set()
            await go_on.wait()
        return answer(request)

    model = ScriptedModel(slow)
    async with opened(model) as runtime:
        ada = await runtime.agents.create("ada")
        await ada.schedule("Stretch.", every=MINUTE)
        sending = asyncio.create_task(ada.send("hello"))
        await asked.wait()
        scheduler = await scheduler_of(runtime)
        for _ in range(4):
            clock.advance(60)
            await scheduler.timers.ring_due()
        assert len(model.requests) == 1
        go_on.set()
        assert (await sending).reply == "echo hello"
        await settled(scheduler)
        assert await replies(ada) == ["echo hello", "ding Stretch."]
    (ring,) = rings(model.requests[-1])
    assert ring["missed"] == 3


async def test_two_processes_on_one_folder_ring_each_once(opened: Open, clock: FakeClock) -> None:
    async with opened() as one, opened() as other:
        ada = await one.agents.create("ada")
        for number in range(5):
            await ada.schedule(f"{number}", at=clock.now() + MINUTE)
        await ada.schedule("again", every=MINUTE)
        clock.advance(60)
        both = [(await scheduler_of(runtime)).timers for runtime in (one, other)]
        await asyncio.gather(*(timers.ring_due() for timers in both for _ in range(3)))
        for runtime in (one, other):
            await settled(await scheduler_of(runtime))
        told = await replies(ada)
    assert sorted(map(str, told)) == sorted([*(f"ding {n}" for n in range(5)), "ding again"])


async def test_held_timers_ring_once_afterwards_and_everything_else_goes_on(
    opened: Open, clock: FakeClock
) -> None:
    model = ScriptedModel(answer)
    async with opened(model) as runtime:
        ada = await runtime.agents.create("ada")
        bob = await runtime.agents.create("bob")
        for agent in (ada, bob):
            await agent.schedule("Stretch.", every=MINUTE)
        await ada.pause_heartbeats(seconds=600)
        clock.advance(300)
        await ring_due(runtime)
        assert await replies(ada) == []
        assert await replies(bob) == ["ding Stretch."]
        assert (await ada.send("hello")).reply == "echo hello"
        clock.advance(300)
        await ring_due(runtime)
        assert await replies(ada) == ["echo hello", "ding Stretch."]
        assert rings(model.requests[-1])[-1]["missed"] in (9, 4)
        await ada.pause_heartbeats()
        clock.advance(10**6)
        await ring_due(runtime)
        assert len(await turns(ada)) == 2
        assert await ada.resume_heartbeats()
        await ring_due(runtime)
        assert len(await turns(ada)) == 3


async def test_what_an_agent_sets_itself_wakes_it(opened: Open, clock: FakeClock) -> None:
    def acts(request: Request) -> Reply:
        if rings(request):
            return answer(request)
        if view(request).results:
            return say("I will.")
        return call("set_timer", note="Call Lin.", in_minutes=1, heartbeat=True)

    model = ScriptedModel(acts)
    async with opened(model) as runtime:
        ada = await runtime.agents.create("ada", timers=True)
        await ada.send("Remind me.")
        clock.advance(60)
        assert await replies(ada, 2) == ["I will.", "ding Call Lin."]
        event = (await (await ada.conversations.get()).messages())[-3]
    assert event.label == "agent"
    assert "A timer of yours wakes you" in rings(model.requests[-1])[0]["message"]


async def test_it_may_wake_it_where_it_was_set(opened: Open, clock: FakeClock) -> None:
    def acts(request: Request) -> Reply:
        if rings(request):
            return text("")
        if view(request).results:
            return say("Set.")
        here = "here" in view(request).last_user
        return call("set_timer", note="x", in_minutes=1, here=here, heartbeat=True)

    async with opened(ScriptedModel(acts)) as runtime:
        ada = await runtime.agents.create("ada", timers=True)
        lin = await ada.conversations.ensure("lin")
        await lin.send("wake yourself here")
        await lin.send("wake yourself")
        clock.advance(60)
        await ring_due(runtime)
        assert len(await turns(ada)) == 1
        assert len(await lin.turns()) == 3


async def test_an_agent_without_a_model_keeps_its_timers(
    opened: Open, tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with AsyncRuntime(tmp_path, clock=clock) as runtime:
        ada = await runtime.agents.create("ada")
        await ada.schedule("Stretch.", every=MINUTE)
        clock.advance(120)
        for _ in range(2):
            await ring_due(runtime)
        assert await turns(ada) == []
    assert sum("timers of agent" in line.getMessage() for line in caplog.records) == 1
    async with opened() as runtime:
        await settled(await scheduler_of(runtime))
        assert await replies(await runtime.agents.get("ada")) == ["ding Stretch."]


async def test_without_recovery_nothing_rings(opened: Open, clock: FakeClock) -> None:
    async with opened(recover=False) as runtime:
        ada = await runtime.agents.create("ada")
        await ada.schedule("x", at=clock.now())
        await asyncio.sleep(0.1)
        assert (await turns(ada), len(await ada.schedules())) == ([], 1)


async def test_a_ring_whose_process_closes_is_taken_up_by_the_next(
    opened: Open, tmp_path: Path, clock: FakeClock
) -> None:
    asked = asyncio.Event()

    async def stuck(request: Request) -> Reply:
        asked.set()
        await asyncio.sleep(60)
        raise AssertionError

    async with opened(ScriptedModel(stuck)) as runtime:
        ada = await runtime.agents.create("ada")
        await ada.schedule("Stretch.", at=clock.now())
        await asked.wait()
    async with opened() as runtime:
        await settled(await scheduler_of(runtime))
        assert await replies(await runtime.agents.get("ada")) == ["ding Stretch."]
    with closing(sqlite3.connect(tmp_path / "spaces" / "default" / "space.db")) as raw:
        assert raw.execute("SELECT event, status FROM turns").fetchall() == [("timer", "done")]


async def test_a_store_that_fails_for_a_while_loses_no_ring(
    opened: Open, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened() as runtime:
        ada = await runtime.agents.create("ada")
        await ada.schedule("Stretch.", at=clock.now() + MINUTE)
        scheduler = await scheduler_of(runtime)

        async def fails(work: Any) -> Any:
            raise StorageUnavailable("no disk")

        clock.advance(60)
        with monkeypatch.context() as broken:
            broken.setattr(scheduler.store, "write", fails)
            with pytest.raises(StorageUnavailable):
                await scheduler.timers.ring_due()
        await ring_due(runtime)
        assert await replies(ada) == ["ding Stretch."]


async def test_timers_go_with_their_agent_and_their_conversation(
    opened: Open, clock: FakeClock
) -> None:
    async with opened() as runtime:
        ada = await runtime.agents.create("ada")
        other = await ada.conversations.ensure("other")
        await ada.schedule("x", at=clock.now() + MINUTE, conversation="other")
        await other.delete()
        assert await ada.schedules() == []
        await ada.schedule("x", at=clock.now() + MINUTE)
        await ada.pause_heartbeats()
        await ada.delete()
        clock.advance(60)
        await ring_due(runtime)
        again = await runtime.agents.create("ada")
        assert (await again.schedules(), await turns(again)) == ([], [])
        assert not await again.resume_heartbeats()
