"""Waking an agent without a message: an event like another, and nobody waits for a reply."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from pagedaemon import AsyncRuntime, Block, Model, NotFound, ToolContext, tool
from pagedaemon.config import Paging
from pagedaemon.errors import ConfigError, NoModel
from pagedaemon.events import PagedOut, StepFinished, StepStarted, TurnEnded, TurnStarted
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import FakeClock, ScriptedModel, call, say, text, view

Open: TypeAlias = Callable[..., AbstractAsyncContextManager[AsyncAgent]]


@pytest.fixture
def ada(tmp_path: Path) -> Open:
    """Opens an agent with a model of one's own."""

    @asynccontextmanager
    async def opened(
        model: ScriptedModel, window: int = 32_000, **settings: Any
    ) -> AsyncIterator[AsyncAgent]:
        of = Model("script", context_window=window, max_output_tokens=256)
        async with AsyncRuntime(
            tmp_path, model=of, models={"script": model}, clock=FakeClock()
        ) as runtime:
            blocks = [Block.human("Name: unknown")]
            yield await runtime.agents.create("ada", blocks=blocks, **settings)

    return opened


def woken(request: Request) -> bool:
    """Whether the newest thing the model sees is that it was woken."""
    last = request.messages[-1]
    return last["role"] == "user" and '"reason": "woken"' in str(last["content"]).split("\n")[-1]


def stored_events(store: Path) -> list[str]:
    """What woke each turn, in their order."""
    with closing(sqlite3.connect(store / "spaces" / "default" / "space.db")) as connection:
        return [row[0] for row in connection.execute("SELECT event FROM turns ORDER BY seq")]


@pytest.mark.parametrize("style", ["memgpt", "native"])
async def test_the_model_sees_why_it_was_woken_and_may_stay_silent(
    ada: Open, tmp_path: Path, style: str
) -> None:
    model = ScriptedModel([text("")])
    async with ada(model, style=style) as agent:
        turn = await agent.heartbeat()
        main = await agent.conversations.get()
        assert await main.turns() == [turn]
        (event,) = await main.messages()
    assert (turn.stop_reason, turn.reply, len(turn.steps)) == ("end_turn", None, 1)
    assert turn.steps[0].heartbeat is None, "the event itself woke it"
    (request,) = model.requests
    assert woken(request)
    (seen,) = view(request).events
    assert seen["type"] == "heartbeat"
    assert ("send_message" in seen["message"]) == (style == "memgpt")
    assert (event.kind, event.label, event.data) == ("heartbeat", "owner", {"reason": "woken"})
    assert stored_events(tmp_path) == ["heartbeat"]


async def test_it_works_on_and_speaks_where_there_is_something_to_say(ada: Open) -> None:
    model = ScriptedModel(
        [
            call("core_memory_append", label="human", content="Likes tea.", heartbeat=True),
            say("Your tea is ready."),
        ]
    )
    async with ada(model) as agent:
        turn = await agent.heartbeat()
        assert (await agent.blocks.get("human")).value.endswith("Likes tea.")
    assert (turn.stop_reason, turn.reply) == ("end_turn", "Your tea is ready.")
    assert [step.heartbeat for step in turn.steps] == [None, "requested"]
    assert [e["reason"] for e in view(model.requests[1]).events] == ["woken", "requested"]


async def test_a_message_after_a_silent_heartbeat_is_answered(ada: Open, tmp_path: Path) -> None:
    def answer(request: Request) -> Reply:
        return text("") if woken(request) else say(f"echo {view(request).last_user}")

    model = ScriptedModel(answer)
    async with ada(model) as agent:
        await agent.heartbeat()
        await agent.heartbeat()
        assert (await agent.send("hello")).reply == "echo hello"
        assert (await agent.heartbeat()).reply is None
    assert stored_events(tmp_path) == ["heartbeat", "heartbeat", "message", "heartbeat"]


async def test_a_stream_tells_it_in_order(ada: Open) -> None:
    async with ada(ScriptedModel([text("")])) as agent:
        kinds = [type(event) async for event in agent.stream_heartbeat()]
    assert kinds == [TurnStarted, StepStarted, StepFinished, TurnEnded]


async def test_it_waits_its_turn_and_is_withdrawn_where_its_caller_goes_away(ada: Open) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Reply:
        asked.set()
        await answer.wait()
        return text("") if woken(request) else say("at last")

    model = ScriptedModel(slow)
    async with ada(model) as agent:
        sending = asyncio.create_task(agent.send("hello"))
        await asked.wait()
        beating, given_up = (asyncio.create_task(agent.heartbeat()) for _ in range(2))
        await asyncio.sleep(0.05)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        answer.set()
        assert (await sending).reply == "at last"
        assert (await beating).stop_reason == "end_turn"
        main = await agent.conversations.get()
        kinds = [message.kind for message in await main.messages()]
        reasons = [turn.stop_reason for turn in await main.turns()]
    assert kinds == ["message", "reply", "result", "heartbeat"]
    assert reasons == ["cancelled", "end_turn", "end_turn"]


async def test_a_failed_call_is_told_and_silence_after_it_ends_the_turn(ada: Open) -> None:
    model = ScriptedModel([call("core_memory_append", label="none", content="x"), text("")])
    async with ada(model) as agent:
        turn = await agent.heartbeat()
    assert [step.heartbeat for step in turn.steps] == [None, "failed"]
    assert turn.stop_reason == "end_turn"


async def test_what_woke_the_agent_stays_in_view_while_its_turn_pages_out(ada: Open) -> None:
    talk = "They spoke of boats. " * 40

    def answer(request: Request) -> Reply:
        if request.purpose == "summary":
            return text("Talk of boats.")
        if "woken" not in str(request.messages):
            return say("Noted.")
        beats = [e["reason"] for e in view(request).events if e["type"] == "heartbeat"]
        assert beats[0] == "woken"
        done = len(view(request).results)
        return text("") if done > 2 else call("conversation_search", query="boats", heartbeat=True)

    model = ScriptedModel(answer, usage=None)
    paging = Paging(warn=0.5, evict=0.6, target=0.45)
    async with ada(model, 6_500, instructions="Be brief.", paging=paging) as agent:
        for _ in range(8):
            await agent.send(talk)
        events = [event async for event in agent.stream_heartbeat()]
    assert any(isinstance(event, PagedOut) for event in events)


async def test_a_full_window_is_told_beside_it(ada: Open) -> None:
    def answer(request: Request) -> Reply:
        return text("") if "system_alert" in str(request.messages[-1]["content"]) else say("boat")

    async with ada(
        ScriptedModel(answer, usage=None), 6_000, instructions="Be brief.", paging=Paging(warn=0.9)
    ) as agent:
        main = await agent.conversations.get()
        while (await agent.context()).tokens < 3_600:
            await agent.send("boat " * 20)
        await agent.update(paging=Paging(warn=0.55))
        await agent.heartbeat()
        kinds = [message.kind for message in await main.messages()]
    assert kinds[-2:] == ["heartbeat", "alert"]


async def test_a_tool_cannot_wake_the_conversation_whose_turn_it_is_part_of(ada: Open) -> None:
    refused: list[str] = []

    @tool
    async def beat(context: ToolContext) -> str:
        """Wakes its own agent."""
        with pytest.raises(ConfigError) as error:
            await context.conversation.heartbeat()
        with pytest.raises(ConfigError):
            await context.conversation.pop()
        refused.append(str(error.value))
        return "refused"

    async with ada(ScriptedModel([call("beat"), say("So be it.")]), tools=[beat]) as agent:
        await agent.send("Wake yourself.")
    assert "wake" in refused[0]


async def test_where_nobody_can_be_woken_nothing_is_stored(tmp_path: Path) -> None:
    async with AsyncRuntime(tmp_path) as runtime:
        agent = await runtime.agents.create("ada")
        with pytest.raises(NoModel):
            await agent.heartbeat()
        other = await agent.conversations.ensure("other")
        await other.delete()
        with pytest.raises(NotFound):
            await other.heartbeat()
        assert await agent.recall.count() == 0
    assert stored_events(tmp_path) == []
