"""How a turn ends that does not end by itself: bounds and refusals."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.loop.stage import Open, results

from pagedaemon import AsyncRuntime
from pagedaemon.config import Limits
from pagedaemon.errors import RequestRejected
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import (
    FakeClock,
    ScriptedModel,
    ScriptExhausted,
    call,
    say,
    view,
)


async def test_turn_stops_at_its_steps_and_the_next_is_answered(stage: Open) -> None:
    """MC-06. The same fact is stored again and again; it is there once."""

    def storing(request: Request) -> Reply:
        if view(request).last_user == "stop":
            return say("Stopped")
        return call("archival_memory_insert", content="Lin likes tea", heartbeat=True)

    async with stage(storing, limits=Limits(steps=6)) as on:
        turn = await on.agent.send("I like tea")
        assert await on.agent.archive.count() == 1
        after = await on.agent.send("stop")
    assert turn.stop_reason == "max_steps"
    assert len(turn.steps) == 6
    assert len({made.result for step in turn.steps[1:] for made in step.calls}) == 1
    assert after.reply == "Stopped"


async def test_turn_stops_at_its_tokens(stage: Open) -> None:
    def searching(request: Request) -> Reply:
        return call("archival_memory_search", query="tea", heartbeat=True)

    async with stage(searching, limits=Limits(tokens=9_000)) as on:
        turn = await on.agent.send("tea?")
    assert turn.stop_reason == "max_tokens"
    assert 1 < len(turn.steps) < 25
    assert sum(step.usage.total_tokens for step in turn.steps[:-1]) < 9_000
    assert turn.usage.total_tokens >= 9_000


async def test_turn_stops_at_its_seconds_between_steps(stage: Open) -> None:
    clock = FakeClock()

    def slow(request: Request) -> Reply:
        clock.advance(6)
        return call("archival_memory_search", query="tea", heartbeat=True)

    async with stage(slow, clock=clock, limits=Limits(seconds=10)) as on:
        turn = await on.agent.send("tea?")
    assert turn.stop_reason == "max_seconds"
    assert len(turn.steps) == 2


async def test_turn_stops_at_its_seconds_while_the_model_is_asked(tmp_path: Path) -> None:
    async def asleep(request: Request) -> Reply:
        if view(request).last_user == "hello":
            await asyncio.sleep(60)
        return say("Awake")

    model = ScriptedModel(asleep)
    async with AsyncRuntime(tmp_path, model="script", models={"script": model}) as runtime:
        agent = await runtime.agents.ensure("ada", limits=Limits(seconds=0.2))
        turn = await agent.send("hello")
        agent = await agent.update(limits=Limits(seconds=30))
        after = await agent.send("and now?")
    assert turn.stop_reason == "max_seconds"
    assert turn.steps == ()
    assert after.reply == "Awake"


async def test_refusal_ends_the_turn_with_what_the_provider_said(stage: Open) -> None:
    script = [Reply(content="I cannot help with that.", finish="refusal"), say("Hello")]
    async with stage(script) as on:
        turn = await on.agent.send("something forbidden")
        after = await on.agent.send("hello")
    assert turn.stop_reason == "refused"
    assert turn.error == "I cannot help with that."
    assert after.reply == "Hello"


async def test_refusal_beats_a_requested_heartbeat(stage: Open) -> None:
    refused = call("archival_memory_search", query="x", heartbeat=True)
    script = [Reply(content="No.", calls=refused.calls, finish="refusal")]
    async with stage(script) as on:
        turn = await on.agent.send("?")
    assert turn.stop_reason == "refused"
    assert results(turn) == [[("archival_memory_search", "ok")]]


async def test_script_that_is_asked_once_too_often_fails_the_test(stage: Open) -> None:
    async with stage([call("archival_memory_search", query="x", heartbeat=True)]) as on:
        with pytest.raises(ScriptExhausted):
            await on.agent.send("?")


async def test_what_no_store_can_hold_in_a_providers_complaint_blocks_nothing(stage: Open) -> None:
    answers: list[Reply | RequestRejected] = [RequestRejected("no \ud800\x00 here"), say("Fine")]
    async with stage(answers) as on:
        with pytest.raises(RequestRejected):
            await on.agent.send("one")
        after = await on.agent.send("two")
        first = (await (await on.agent.conversations.get()).turns(limit=2))[-1]
    assert after.reply == "Fine"
    assert first.stop_reason == "error"
    assert first.error == "no \ufffd\ufffd here"
