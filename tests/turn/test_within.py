"""Tools that turn to the conversation they are called in, by a handle of their own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pagedaemon import AsyncRuntime, Runtime, tool
from pagedaemon.errors import ConfigError
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import ScriptedModel, call, say, view
from pagedaemon.tools.tool import Tool
from pagedaemon.turn.within import calling, is_within


def answer(request: Request) -> Reply:
    """Calls the tool where it is asked to, and says what it heard."""
    seen = view(request)
    if seen.last_user == "go" and not seen.results:
        return call("turn_to")
    if seen.last_user == "go":
        return say(seen.results["turn_to"][0])
    return say(f"echo {seen.last_user}")


def settings(tools: list[Tool]) -> dict[str, Any]:
    """Of a runtime with these tools."""
    models = {"script": ScriptedModel(answer)}
    return {"model": "script", "models": models, "tools": tools, "embedder": None}


@pytest.mark.parametrize("effect", ["read", "once"])
async def test_a_tool_that_waits_for_its_own_turn_is_refused_at_once(
    tmp_path: Path, effect: Any
) -> None:
    known: list[Any] = []

    @tool(effect=effect)
    async def turn_to() -> str:
        """Turns to the agent."""
        for wake in (known[0].send("and?"), known[0].heartbeat(), anext(known[0].stream("and?"))):
            with pytest.raises(ConfigError, match="send_later"):
                await wake
        return "refused"

    async with AsyncRuntime(tmp_path, **settings([turn_to])) as runtime:
        ada = await runtime.agents.ensure("ada", tools=[turn_to])
        known.append(ada)
        assert (await ada.send("go")).reply == "refused"
        assert (await ada.send("still there?")).reply == "echo still there?"


@pytest.mark.parametrize("effect", ["read", "once"])
def test_a_blocking_tool_is_refused_too(tmp_path: Path, effect: Any) -> None:
    known: list[Any] = []

    @tool(effect=effect)
    def turn_to() -> str:
        """Turns to the agent."""
        with pytest.raises(ConfigError, match="send_later"):
            known[0].send("and?")
        return "refused"

    with Runtime(tmp_path, **settings([turn_to])) as runtime:
        ada = runtime.agents.ensure("ada", tools=[turn_to])
        known.append(ada)
        assert ada.send("go").reply == "refused"


async def test_what_it_says_later_is_answered_after_its_turn_and_elsewhere_at_once(
    tmp_path: Path,
) -> None:
    known: list[Any] = []

    @tool(effect="read")
    async def turn_to() -> str:
        """Turns to the agent."""
        known.append(await known[0].send_later("later"))
        other = await known[0].conversations.ensure("aside")
        return str((await other.send("aside")).reply)

    async with AsyncRuntime(tmp_path, **settings([turn_to])) as runtime:
        ada = await runtime.agents.ensure("ada", tools=[turn_to])
        known.append(ada)
        assert (await ada.send("go")).reply == "echo aside"
        assert (await known[1].wait()).reply == "echo later"


async def test_what_a_call_leaves_behind_is_within_no_longer_than_the_call() -> None:
    over = asyncio.Event()

    async def left() -> list[bool]:
        found = [is_within("conversation-1"), is_within("conversation-2")]
        await over.wait()
        return [*found, is_within("conversation-1")]

    with calling("conversation-1"):
        task = asyncio.create_task(left())
        await asyncio.sleep(0)
    over.set()
    assert await task == [True, False, False]
    assert not is_within("conversation-1")
