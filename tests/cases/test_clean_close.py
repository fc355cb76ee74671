"""Turns that are stopped in good order, at any moment: what had not begun is as if it had never
been tried, and what was cut off says so (user cases MC-07, RH-02)."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import pytest

from pagedaemon import AsyncRuntime, tool
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.resources import Prompts
from pagedaemon.scheduler.claims import ATTEMPTS
from pagedaemon.store import journal
from pagedaemon.testing import ScriptedModel, both, call, say, view
from pagedaemon.tools.tool import Tool

REOPENINGS = 2 * ATTEMPTS + 2
"""More than any turn is begun before it is given up."""


class Held:
    """A function of the store's thread that does its work and then stands still until it is let
    go."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work
        self.inside = threading.Event()
        self.free = threading.Event()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        value = self._work(*args, **kwargs)
        self.inside.set()
        assert self.free.wait(10), "never let go"
        return value


def runtime_on(store: Path, model: ScriptedModel, tools: Sequence[Tool] = ()) -> AsyncRuntime:
    """A runtime over the test's store."""
    models = {"script": model}
    return AsyncRuntime(store, model="script", models=models, tools=tools, embedder=None)


async def closed_within(held: Held, runtime: AsyncRuntime) -> None:
    """Closes a runtime while its store stands still in what it was asked for."""
    assert await asyncio.to_thread(held.inside.wait, 10)
    ending = asyncio.create_task(runtime.close())
    # It stops what runs, and waits for the store.
    await asyncio.wait([ending], timeout=0.1)
    held.free.set()
    await ending


def stored(store: Path, query: str) -> list[tuple[object, ...]]:
    """What stands in the store."""
    with closing(sqlite3.connect(store / "spaces/default/space.db")) as raw:
        return raw.execute(query).fetchall()


async def test_a_close_while_the_claim_is_written_is_no_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, asked = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Reply:
        asked.set()
        await free.wait()
        return say(f"echo {view(request).last_user}")

    model = ScriptedModel(slow)
    async with runtime_on(tmp_path, model) as runtime:
        ada = await runtime.agents.ensure("ada")
        handle = await ada.send_later("hello", key="k")
        await asked.wait()
    take_up = journal.take_up
    for _ in range(REOPENINGS):
        held = Held(take_up)
        monkeypatch.setattr(journal, "take_up", held)
        async with runtime_on(tmp_path, model) as runtime:
            await closed_within(held, runtime)
        assert stored(tmp_path, "SELECT status, attempts FROM turns") == [("running", 0)]
    monkeypatch.setattr(journal, "take_up", take_up)
    free.set()
    async with runtime_on(tmp_path, model) as runtime:
        ada = await runtime.agents.get("ada")
        turn = await ada.send("hello", key="k")
    assert (turn.id, turn.stop_reason, turn.reply) == (handle.id, "end_turn", "echo hello")


class Desk:
    """An agent whose tool files a paper, and says so when it is let."""

    def __init__(self, store: Path, effect: Literal["read", "idempotent", "once"]) -> None:
        self.store = store
        self.filed = 0
        self.inside, self.free = threading.Event(), threading.Event()

        @tool(effect=effect)
        def file(paper: int) -> str:
            """Files a paper."""
            self.filed += 1
            self.inside.set()
            assert self.free.wait(10)
            return f"paper {paper} is filed"

        @tool(effect=effect, parallel=True)
        async def stamp(paper: int) -> str:
            """Stamps a paper."""
            return f"paper {paper} is stamped"

        @tool(effect=effect, parallel=True)
        async def wait() -> str:
            """Waits."""
            self.inside.set()
            await asyncio.sleep(60)
            return "waited"

        self.tools = [file, stamp, wait]

    def opened(self) -> AsyncRuntime:
        """A runtime with these tools."""
        return runtime_on(self.store, ScriptedModel(self._answer), self.tools)

    def results(self) -> list[tuple[object, ...]]:
        """What its calls came to."""
        return stored(self.store, "SELECT tool, status, result FROM calls ORDER BY seq")

    def _answer(self, request: Request) -> Reply:
        if view(request).results:
            return say("done")
        if view(request).last_user == "stamp":
            return both(call("stamp", paper=1), call("wait"))
        return call("file", paper=1)


async def test_a_call_that_had_not_begun_when_the_runtime_was_closed_runs_once_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path, "once")
    desk.free.set()
    held = Held(journal.start)
    with monkeypatch.context() as patch:
        patch.setattr(journal, "start", held)
        async with desk.opened() as runtime:
            ada = await runtime.agents.ensure("ada", tools=desk.tools)
            await ada.send_later("file", key="k")
            await closed_within(held, runtime)
    assert desk.filed == 0
    assert desk.results() == [("file", "intended", None)]
    async with desk.opened() as runtime:
        turn = await (await runtime.agents.get("ada")).send("file", key="k")
    assert (turn.reply, desk.filed) == ("done", 1)
    assert desk.results()[0] == ("file", "ok", "paper 1 is filed")


async def test_a_call_that_had_not_begun_when_its_turn_was_cancelled_was_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path, "once")
    held = Held(journal.start)
    monkeypatch.setattr(journal, "start", held)
    async with desk.opened() as runtime:
        ada = await runtime.agents.ensure("ada", tools=desk.tools)
        handle = await ada.send_later("file")
        assert await asyncio.to_thread(held.inside.wait, 10)
        stopping = asyncio.create_task(handle.stop())
        await asyncio.wait([stopping], timeout=0.1)
        held.free.set()
        assert (await stopping).stop_reason == "cancelled"
    assert desk.filed == 0
    told = Prompts().render("results/not_run", tool="file")
    assert desk.results() == [("file", "failed", told)]


@pytest.mark.parametrize("effect", ["read", "idempotent", "once"])
async def test_a_call_that_was_running_when_its_turn_was_cancelled_was_cut_off(
    tmp_path: Path, effect: Literal["read", "idempotent", "once"]
) -> None:
    desk = Desk(tmp_path, effect)
    async with desk.opened() as runtime:
        ada = await runtime.agents.ensure("ada", tools=desk.tools)
        handle = await ada.send_later("file")
        assert await asyncio.to_thread(desk.inside.wait, 10)
        await handle.stop()
        desk.free.set()
    ((_, status, told),) = desk.results()
    if effect == "read":
        assert (status, told) == ("failed", Prompts().render("results/interrupted", tool="file"))
    else:
        assert status == "unknown"
        assert "cut off while it was running" in str(told)


@pytest.mark.parametrize("effect", ["read", "idempotent", "once"])
async def test_a_call_that_had_ended_when_its_turn_was_cancelled_has_its_result(
    tmp_path: Path, effect: Literal["read", "idempotent", "once"]
) -> None:
    desk = Desk(tmp_path, effect)
    async with desk.opened() as runtime:
        ada = await runtime.agents.ensure("ada", tools=desk.tools)
        handle = await ada.send_later("stamp")
        assert await asyncio.to_thread(desk.inside.wait, 10)
        await handle.stop()
    assert desk.results()[0] == ("stamp", "ok", "paper 1 is stamped")


async def test_a_call_that_another_process_may_have_begun_is_not_said_never_to_have_run(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path, "idempotent")
    async with desk.opened() as runtime:
        ada = await runtime.agents.ensure("ada", tools=desk.tools)
        await ada.send_later("file")
        assert await asyncio.to_thread(desk.inside.wait, 10)
    desk.free.set()
    with closing(sqlite3.connect(tmp_path / "spaces/default/space.db")) as raw:
        raw.execute("UPDATE turns SET attempts = ?", (2 * ATTEMPTS,))
        raw.commit()
    async with desk.opened() as runtime:
        await (await runtime.space("default")).recover()
    assert desk.results()[0][:2] == ("file", "unknown")
    assert desk.filed == 1
