"""A runtime that is closed in good order while its store is writing: what was begun is left as if
it had not been (user cases MC-07, RH-02)."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pagedaemon import AsyncRuntime
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.scheduler.claims import ATTEMPTS
from pagedaemon.store import journal
from pagedaemon.testing import ScriptedModel, say, view
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
