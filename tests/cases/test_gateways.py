"""Any model: what providers sign comes back to them alone, and money is bounded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pagedaemon import AsyncRuntime, Block, Model
from pagedaemon.config import Limits, Paging
from pagedaemon.errors import ConfigError
from pagedaemon.llm.protocol import CALL_EXTRAS, ChatModel, RawCall, Reply, Request
from pagedaemon.messages import Usage
from pagedaemon.testing import FakeClock, ScriptedModel, call, say, view

THINKING = [
    {"type": "thinking", "thinking": "Ünïcode ☂", "signature": "RXF1YWw+/Zz09=="},
    {"type": "redacted_thinking", "data": "UkVEQUNURUQ=="},
]
SIGNED_CALL = {"provider_specific_fields": {"thought_signature": "R1NJRw=="}}
FREE = (0.0, 0.0, 0.0)


def runtime(folder: Path, models: Mapping[str, ChatModel], model: Model | str) -> AsyncRuntime:
    """A runtime over the same store each time."""
    return AsyncRuntime(folder, model=model, models=models, clock=FakeClock())


def signed() -> Reply:
    """A call with a provider's own fields on the message and on the call."""
    return Reply(
        calls=(RawCall("toolu_1", "archival_memory_search", _arguments()),),
        finish="tool_calls",
        opaque={"thinking_blocks": THINKING, CALL_EXTRAS: [SIGNED_CALL]},
    )


def _arguments() -> str:
    return json.dumps({"inner_thoughts": "look", "query": "tea", "request_heartbeat": True})


def assistant(request: Request) -> dict[str, Any]:
    """The first assistant message of a request."""
    return dict(next(wire for wire in request.messages if wire["role"] == "assistant"))


async def test_what_a_provider_signed_comes_back_to_the_byte_also_after_a_restart(
    tmp_path: Path,
) -> None:
    first = ScriptedModel([signed(), say("Nothing.")])
    async with runtime(tmp_path, {"claude": first}, "claude") as opened:
        agent = await opened.agents.ensure("ada", blocks=[Block(label="human")])
        await agent.send("Tea?")
    later = ScriptedModel([say("Yes.")])
    async with runtime(tmp_path, {"claude": later}, "claude") as opened:
        await (await opened.agents.get("ada")).send("Sure?")
    for request in (first.requests[1], later.requests[0]):
        wire = assistant(request)
        assert json.dumps(wire["thinking_blocks"]) == json.dumps(THINKING)
        assert (
            wire["tool_calls"][0]["provider_specific_fields"]
            == (SIGNED_CALL["provider_specific_fields"])
        )
        assert {"origin", "said", CALL_EXTRAS}.isdisjoint(wire)
    assert later.requests[0].messages[: len(first.requests[1].messages)] == (
        first.requests[1].messages
    )


async def test_another_model_in_the_middle_is_sent_nothing_that_is_not_its_own(
    tmp_path: Path,
) -> None:
    claude, gemini = ScriptedModel([signed(), say("Nothing."), say("Back.")]), ScriptedModel([])
    models = {"claude": claude, "gemini": gemini}
    gemini.add(say("Gemini here."))
    for name, text in (("claude", "Tea?"), ("gemini", "And you?"), ("claude", "Again?")):
        async with runtime(tmp_path, models, name) as opened:
            agent = await opened.agents.ensure("ada", blocks=[Block(label="human")])
            await agent.send(text)
    # Each request has also passed the strict rules of the three providers.
    foreign = json.dumps([dict(wire) for wire in gemini.requests[0].messages])
    assert "thinking_blocks" not in foreign
    assert "provider_specific_fields" not in foreign
    assert "archival_memory_search" in foreign
    assert assistant(claude.requests[-1])["thinking_blocks"] == THINKING


async def test_a_turn_stops_at_its_cost_and_the_agent_adds_it_up(tmp_path: Path) -> None:
    def searching(request: Request) -> Reply:
        made = call("archival_memory_search", query="tea", heartbeat=True)
        used = Usage(calls=1, prompt_tokens=1_000, completion_tokens=100, cached_tokens=500)
        return Reply(calls=made.calls, finish="tool_calls", usage=used)

    model = Model("paid", prices=(2.0, 10.0, 1.0))
    each = (500 * 2 + 500 * 1 + 100 * 10) / 1e6
    async with runtime(tmp_path, {"paid": ScriptedModel(searching)}, model) as opened:
        limits = Limits(cost=each * 2.5)
        agent = await opened.agents.ensure("ada", blocks=[Block(label="human")], limits=limits)
        turn = await agent.send("Tea?")
        total = await agent.usage()
    assert turn.stop_reason == "max_cost"
    assert len(turn.steps) == 3
    assert [step.usage.cost for step in turn.steps] == pytest.approx([each] * 3)
    assert turn.usage.cost == pytest.approx(each * 3)
    assert total.cost == pytest.approx(each * 3)


async def test_a_summary_costs_too(tmp_path: Path) -> None:
    def talking(request: Request) -> Reply:
        if request.purpose == "summary":
            return Reply(content="Lin talked.", usage=Usage(1, 1_000, 0))
        made = say(f"Heard {len(view(request).last_user)}")
        return Reply(calls=made.calls, finish="tool_calls", usage=Usage(1, 10, 0))

    model = Model("paid", prices=(1.0, 1.0, 1.0), context_window=6_000, max_output_tokens=500)
    scripted = ScriptedModel(talking)
    async with runtime(tmp_path, {"paid": scripted}, model) as opened:
        agent = await opened.agents.ensure(
            "ada", blocks=[Block(label="human")], paging=Paging(keep_last=1)
        )
        for number in range(12):
            await agent.send(f"{number} " + "word " * 300)
        total = await agent.usage()
    summaries = sum(request.purpose == "summary" for request in scripted.requests)
    steps = len(scripted.requests) - summaries
    assert summaries > 0
    assert total.cost == pytest.approx((summaries * 1_000 + steps * 10) / 1e6)


async def test_a_bound_on_the_cost_without_a_price_is_refused_before_anything_is_stored(
    tmp_path: Path,
) -> None:
    scripted = ScriptedModel([say("Hi.")])
    async with runtime(tmp_path, {"mine": scripted}, "mine") as opened:
        agent = await opened.agents.ensure(
            "ada", blocks=[Block(label="human")], limits=Limits(cost=1.0)
        )
        with pytest.raises(ConfigError, match="prices="):
            await agent.send("Hi")
        assert scripted.requests == ()
    async with runtime(tmp_path, {"mine": scripted}, Model("mine", prices=FREE)) as opened:
        turn = await (await opened.agents.get("ada")).send("Hi")
    assert turn.reply == "Hi."


@pytest.mark.parametrize("said", ["<tool_call>{}</tool_call>", "```json\n{}\n```", "{}"])
async def test_a_small_model_that_writes_its_calls_as_text_is_understood(
    tmp_path: Path, said: str
) -> None:
    def text(name: str, **arguments: object) -> Reply:
        made = json.dumps({"name": name, "arguments": {"inner_thoughts": "so", **arguments}})
        return Reply(content=said.replace("{}", made))

    scripted = ScriptedModel(
        [
            text("archival_memory_insert", content="Lin likes tea", request_heartbeat=True),
            text("send_message", message="Noted."),
        ]
    )
    model = Model("small", text_calls=True)
    async with runtime(tmp_path, {"small": scripted}, model) as opened:
        agent = await opened.agents.ensure("ada", blocks=[Block(label="human")])
        turn = await agent.send("I like tea")
        assert await agent.archive.count() == 1
    assert turn.reply == "Noted."
    assert len(turn.steps) == 2
    assert assistant(scripted.requests[1])["tool_calls"][0]["function"]["name"] == (
        "archival_memory_insert"
    )


async def test_a_constrained_model_works_its_memory_without_native_tools(tmp_path: Path) -> None:
    def answer(tool: str, **arguments: object) -> Reply:
        made = {"tool": tool, "arguments": {"inner_thoughts": "so", **arguments}}
        return Reply(content=json.dumps(made))

    scripted = ScriptedModel(
        [
            answer("archival_memory_insert", content="Lin likes tea", request_heartbeat=True),
            Reply(content='{"tool": "send_message", "arguments": {"message": "No', finish="length"),
            answer("send_message", message="Noted."),
        ]
    )
    model = Model("small", constrained=True)
    async with runtime(tmp_path, {"small": scripted}, model) as opened:
        agent = await opened.agents.ensure("ada", blocks=[Block(label="human")])
        turn = await agent.send("I like tea")
        assert await agent.archive.count() == 1
    assert turn.reply == "Noted."
    assert [step.heartbeat for step in turn.steps] == [None, "requested", "failed"]
    for request in scripted.requests:
        assert request.tools == ()
        assert request.response_format is not None
