"""Cases HV: whatever happened to a conversation, the next request is one that every provider takes.

`ScriptedModel` holds each request against the published rules of three providers and fails the test
where one is broken; what is asserted here comes on top.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pagedaemon
from pagedaemon import AsyncRuntime, Model, tool
from pagedaemon.config import Paging
from pagedaemon.errors import ToolDefinitionError
from pagedaemon.events import PagedOut, TurnEnded
from pagedaemon.llm.protocol import CALL_EXTRAS, Reply, Request
from pagedaemon.testing import (
    ScriptedModel,
    both,
    call,
    check_anthropic,
    check_gemini,
    check_openai,
    check_request,
    say,
    text,
    view,
)

SHORT = "You are brief."
SOURCE = str(Path(pagedaemon.__file__).parent.parent)

CRASHING = """
import asyncio, os, sys
from pagedaemon import AsyncRuntime, tool
from pagedaemon.testing import ScriptedModel, both, call

@tool
def first() -> str:
    "Does one thing."
    return "first done"

@tool
def second() -> str:
    "Does another thing."
    os._exit(9)

async def main():
    model = ScriptedModel([both(call("first", heartbeat=True), call("second", heartbeat=True))])
    async with AsyncRuntime(sys.argv[1], model="script", models={"script": model}) as runtime:
        agent = await runtime.agents.ensure("ada", tools=[first, second])
        await agent.send("Do both.")

asyncio.run(main())
"""


def opened(folder: Path, model: ScriptedModel, *, window: int = 32_000) -> AsyncRuntime:
    """A runtime whose model has that window and keeps 256 tokens of it for the reply."""
    return AsyncRuntime(
        folder,
        model=Model("script", context_window=window, max_output_tokens=256),
        models={"script": model},
    )


async def test_a_crash_between_a_call_and_its_result_leaves_a_conversation_that_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """HV-01."""
    died = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        CRASHING,
        str(tmp_path),
        env={**os.environ, "PYTHONPATH": SOURCE},
    )
    assert await died.wait() == 9

    @tool
    def first() -> str:
        """Does one thing."""
        raise AssertionError("it has run already")

    @tool
    def second() -> str:
        """Does another thing."""
        raise AssertionError("nobody knows whether it has run")

    model = ScriptedModel([say("Only the first is certain."), say("Hello again.")])
    with caplog.at_level(logging.INFO, logger="pagedaemon"):
        async with AsyncRuntime(
            tmp_path, model="script", models={"script": model}, tools=[first, second]
        ) as runtime:
            await (await runtime.space("default")).recover()
            turn = await (await runtime.agents.get("ada")).send("Hello?")
    assert turn.reply == "Hello again."
    results = [m for m in model.requests[0].messages if m["role"] == "tool"]
    assert len(results) == 2
    assert results[0]["content"] == "first done"
    assert "unknown" in results[1]["content"]
    repairs = [r for r in caplog.records if "left open" in r.getMessage()]
    assert len(repairs) == 1


@tool(effect="read", parallel=True)
def look(what: str) -> str:
    """Looks something up.

    Args:
        what: whatever.
    """
    return f"{what} is there"


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    calls=st.lists(st.integers(0, 3), min_size=3, max_size=7),
    cuts=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    native=st.booleans(),
    pinned=st.integers(1, 20),
)
async def test_no_cut_of_the_agents_own_separates_a_call_from_its_results(
    tmp_path_factory: pytest.TempPathFactory,
    calls: list[int],
    cuts: list[int],
    native: bool,
    pinned: int,
) -> None:
    """HV-02: any history of turns, paged out by the agent at any position."""
    script: list[Reply] = []
    answer = text("Done.") if native else say("Done.")
    for count in calls:
        if count:
            script.append(both(*(call("look", what="it", heartbeat=True) for _ in range(count))))
        script.append(answer)
    script += [call("pin", message=f"#{pinned}", heartbeat=True), answer]
    model = ScriptedModel(script)
    async with opened(tmp_path_factory.mktemp("store"), model) as runtime:
        agent = await runtime.agents.ensure(
            "ada", tools=[look], instructions=SHORT, style="native" if native else "memgpt"
        )
        for number in range(len(calls)):
            await agent.send(f"Question {number}")
        await agent.send("Keep that one.")
        for cut in cuts:
            model.add(call("page_out", through=cut, note="a note", heartbeat=True), answer)
            await agent.send("Make room.")
            context = await agent.context()
            shown = context.messages
            # Nothing is owed and nothing hangs in the air, also without the newest question.
            check_openai(shown, context.tools)
            check_anthropic(shown, context.tools)
            assert [m["role"] for m in shown[:2]] == ["system", "user"]
            assert "unknown" not in str([m for m in shown if m["role"] == "tool"])
    for request in model.requests:
        check_request(request.messages, request.tools)


async def test_the_question_of_the_open_turn_survives_a_page_out_between_its_steps(
    tmp_path: Path,
) -> None:
    """HV-03: the result of the first step overflows a window that is well filled before it."""
    question = "Which of the ships in the register is the oldest?"

    @tool(effect="read")
    def register() -> str:
        """The register of ships."""
        return "\n".join(f"Ship {n}, built {1800 + n}, of oak and iron" for n in range(160))

    def answer(request: Request) -> Reply:
        if request.purpose == "summary":
            return text(
                "They spoke of ships. The register names ships; the oldest is Ship 0, built 1800."
            )
        if question not in view(request).last_user:
            return say("What was the question?")
        if "built 1800" in str(request.messages):
            return say("Ship 0, built 1800.")
        return call("register", heartbeat=True)

    model = ScriptedModel(answer)
    async with opened(tmp_path, model, window=6_400) as runtime:
        agent = await runtime.agents.ensure(
            "ada", tools=[register], instructions=SHORT, paging=Paging(oversize=0.9)
        )
        report = await agent.context()
        while report.tokens < 0.62 * report.budget:
            await agent.send("The old ships lie in the harbour and wait for the tide. " * 8)
            report = await agent.context()
        before = len(model.requests)
        events = [event async for event in agent.stream(question)]
    assert [type(e) for e in events].count(PagedOut) == 1
    assert model.requests[before + 1].purpose == "summary"
    second = model.requests[before + 2]
    assert "built 1959" in str(second.messages)
    assert question in view(second).last_user
    assert view(second).events[-1]["type"] in ("heartbeat", "system_alert")
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].turn.reply == "Ship 0, built 1800."


async def test_gemini_is_given_legal_turns_after_calls_in_a_row_and_after_eviction(
    tmp_path: Path,
) -> None:
    """HV-04: and rendering leaves what is stored as it is."""
    chain = [call("look", what=str(n), heartbeat=True) for n in range(3)]
    model = ScriptedModel([*chain, say("Three things.")], strict=("gemini",))
    async with opened(tmp_path, model) as runtime:
        agent = await runtime.agents.ensure("ada", tools=[look], instructions=SHORT)
        await agent.send("Look three times.")
        stored = (await agent.recall.search(None, page_size=100)).hits
        model.add(call("page_out", through=5, note="looked around", heartbeat=True), say("Room."))
        await agent.send("Make room.")
        model.add(say("Still here."))
        await agent.send("And now?")
        still = {hit.id: hit.message for hit in (await agent.recall.search(page_size=100)).hits}
    for request in model.requests:
        check_gemini(request.messages, request.tools)
    assert "looked around" in str(model.requests[-1].messages[1]["content"])
    for hit in stored:
        assert still[hit.id] == hit.message


async def test_opaque_provider_fields_come_back_byte_equal_after_reopening(tmp_path: Path) -> None:
    """HV-05."""
    blocks = [
        {"type": "thinking", "thinking": "Erst nachsehen …", "signature": "c2lnbmVk+/=="},
        {"type": "redacted_thinking", "data": "\u00e9\u2028opaque"},
        {"type": "thinking", "thinking": "then answer", "signature": "AAA="},
    ]
    token = {"extra_content": {"google": {"thought_signature": "Q0lQ"}}}
    spoken = both(call("look", what="it", heartbeat=True), Reply())
    signed = Reply(
        calls=spoken.calls,
        finish="tool_calls",
        opaque={"thinking_blocks": blocks, CALL_EXTRAS: [token]},
    )
    first = ScriptedModel([signed, say("There.")])
    async with opened(tmp_path, first) as runtime:
        agent = await runtime.agents.ensure("ada", tools=[look], instructions=SHORT)
        await agent.send("Look.")
    again = ScriptedModel([say("Yes.")])
    async with opened(tmp_path, again) as runtime:
        agent = await runtime.agents.ensure("ada", tools=[look], instructions=SHORT)
        await agent.send("Are you sure?")
    for request in (first.requests[1], again.requests[0]):
        reply = request.messages[2]
        assert reply["thinking_blocks"] == blocks
        assert CALL_EXTRAS not in reply
        assert reply["tool_calls"][0]["extra_content"] == token["extra_content"]
        assert "c2lnbmVk" not in str([m for m in request.messages if m["role"] != "assistant"])


@pytest.mark.parametrize("nothing", ["", "  \n"])
async def test_an_empty_reply_does_not_poison_the_conversation(
    tmp_path: Path, nothing: str
) -> None:
    """HV-06."""
    model = ScriptedModel([text(nothing), text(nothing), say("Here I am.")])
    async with opened(tmp_path, model) as runtime:
        agent = await runtime.agents.ensure("ada", instructions=SHORT)
        silent = await agent.send("Are you there?")
        turn = await agent.send("Hello?")
    assert silent.stop_reason == "no_reply"
    assert [step.note for step in silent.steps] == ["the model said nothing"] * 2
    assert turn.reply == "Here I am."
    for request in model.requests:
        assert all(str(m.get("content", "x")).strip() for m in request.messages)
        assert [m["role"] for m in request.messages] == ["system", "user"]


async def test_display_names_stay_off_the_wire_and_tool_names_are_checked_when_they_are_given(
    tmp_path: Path,
) -> None:
    """HV-07."""

    def lookup(what: str) -> str:
        """Looks it up."""
        return what

    with pytest.raises(ToolDefinitionError, match="'look up'"):
        tool(name="look up")(lookup)
    model = ScriptedModel([say("Guten Tag.")], strict=("openai",))
    async with opened(tmp_path, model) as runtime:
        agent = await runtime.agents.ensure("Büro 7 / Ops 🚀", tools=[look])
        assert agent.name == "Büro 7 / Ops 🚀"
        turn = await agent.send("Hallo", author="Jörg Müller")
    assert turn.reply == "Guten Tag."
    assert all("name" not in message for message in model.requests[0].messages)
