"""Models that answer badly: nothing is lost, nothing is made up, and the turn ends."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from tests.cases.weather import RAN, Open, ended

from pagedaemon.config import Limits
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import (
    ScriptedModel,
    both,
    call,
    raw_call,
    say,
    view,
)

# ------------------------------------------------------------------ text instead of calls


async def test_plain_text_then_odd_json_then_a_good_call_all_reach_the_user(opened: Open) -> None:
    """MC-01."""
    odd = json.dumps({"function": "send_message", "text": "Hello?"})
    model = ScriptedModel(["Hello", odd, say("Hello!")])
    async with opened(model) as agent:
        turns = [await agent.send(f"message {number}") for number in range(3)]
    assert [turn.replies for turn in turns] == [("Hello",), (odd,), ("Hello!",)]
    assert {turn.stop_reason for turn in turns} == {"end_turn"}


async def test_reply_without_its_text_is_an_error_and_the_second_try_is_heard(
    opened: Open,
) -> None:
    """MC-02. Both calls are in the history."""
    model = ScriptedModel([call("send_message", heartbeat=False), say("Hello")])
    async with opened(model) as agent:
        turn = await agent.send("hello")
        messages = await (await agent.conversations.get()).messages()
    assert turn.replies == ("Hello",)
    assert [step.calls[0].status for step in turn.steps] == ["failed", "ok"]
    assert "message" in turn.steps[0].calls[0].result
    assert [made.tool for message in messages for made in message.calls] == ["send_message"] * 2


BROKEN = {
    "literal line break": ('{"message": "one\ntwo"}', "one\ntwo"),
    "literal tab": ('{"message": "one\ttwo"}', "one\ttwo"),
    "lone backslash": (r'{"message": "50\% off"}', r"50\% off"),
    "trailing comma": ('{"message": "one",}', "one"),
    "code fence": ('```json\n{"message": "one"}\n```', "one"),
    "encoded twice": (json.dumps(json.dumps({"message": "one"})), "one"),
    "cut off": ('{"message": "one', None),
    "no object": ('["one"]', None),
    "single quotes": ("{'message': 'one'}", None),
    "a key twice": ('{"message": "one", "message": "two"}', None),
    "not a number": ('{"message": NaN}', None),
    "nothing": ("", None),
    "deep": ('{"message": ' + "[" * 20_000 + "]" * 20_000 + "}", None),
    "half a pair": ('{"message": "\\ud83d"}', None),
    "nul": ('{"message": "\\u0000"}', None),
}


@pytest.mark.parametrize("kind", BROKEN)
async def test_broken_arguments_are_mended_where_they_mean_one_thing_else_refused(
    opened: Open, kind: str
) -> None:
    """MC-03. What is sent again is valid JSON, also after reopening; what was said is kept."""
    arguments, heard = BROKEN[kind]
    model = ScriptedModel([raw_call("send_message", arguments), say("again")])
    async with opened(model) as agent:
        turn = await agent.send("hello")
        (asked,) = [
            message
            for message in await (await agent.conversations.get()).messages()
            if any(made.raw == arguments for made in message.calls)
        ]
    assert turn.replies == ((heard,) if heard is not None else ("again",))
    assert turn.steps[0].calls[0].status == ("ok" if heard is not None else "failed")
    assert isinstance(json.loads(asked.calls[0].arguments), dict)
    later = ScriptedModel([say("still here")])
    async with opened(later) as agent:
        assert (await agent.send("and now?")).reply == "still here"
    for message in later.requests[0].messages:
        for made in message.get("tool_calls") or ():
            assert isinstance(json.loads(made["function"]["arguments"]), dict)


async def test_thoughts_of_every_call_and_all_results_survive_a_failing_one(opened: Open) -> None:
    """MC-05, as a listener hears it."""
    several = both(
        say("One moment", thoughts="a"),
        call("no_such_tool", thoughts="b", heartbeat=True),
        call("weather", city="Rome", thoughts="c", heartbeat=False),
    )
    async with opened(ScriptedModel([several, say("Sunny")])) as agent:
        events = [event async for event in agent.stream("weather?")]
    turn = ended(events)
    assert [made.status for made in turn.steps[0].calls] == ["ok", "failed", "ok"]
    assert "no_such_tool" in turn.steps[0].calls[1].result
    assert "weather" in turn.steps[0].calls[1].result, "the tools there are"
    assert turn.steps[0].thoughts == "a\nb\nc"
    assert turn.replies == ("One moment", "Sunny")


# ------------------------------------------------------------------ ids, names, sizes


async def test_two_calls_with_one_id_each_have_their_result(opened: Open) -> None:
    """O8. Also where the id came in an earlier turn, is empty, or is none a provider would take."""
    ids = ["same", "same", "", "", "ünïcode id", "x" * 500]
    several = both(*[call("weather", city=f"c{n}", call_id=given) for n, given in enumerate(ids)])
    model = ScriptedModel([several, say("One"), several, say("Two")])
    async with opened(model) as agent:
        first = await agent.send("weather?")
        second = await agent.send("again?")
    for turn in (first, second):
        assert [made.result for made in turn.steps[0].calls] == [
            f"sunny in c{n}" for n in range(len(ids))
        ]
    used = [made.id for turn in (first, second) for made in turn.steps[0].calls]
    assert len(set(used)) == len(used) == 12
    wire = model.requests[-1].messages
    for message in wire:
        for made in message.get("tool_calls") or ():
            (answer,) = [m for m in wire if m.get("tool_call_id") == made["id"]]
            city = json.loads(made["function"]["arguments"]).get("city")
            assert city is None or answer["content"] == f"sunny in {city}"


@pytest.mark.parametrize(
    "name", ["", "no such tool!", "wetter_für_morgen", "x" * 5_000, 'a"b\nc', "nul \x00", "\ud800"]
)
async def test_tool_that_is_none_is_an_error_and_the_run_goes_on(opened: Open, name: str) -> None:
    """O8. The request that shows the call again has a name every provider takes."""
    model = ScriptedModel([call(name, heartbeat=False), say("Sorry")])
    async with opened(model) as agent:
        turn = await agent.send("hello")
        again = await (await agent.conversations.get()).turns()
    assert turn.reply == "Sorry"
    assert turn.steps[0].calls[0].status == "failed"
    assert turn.steps[0].heartbeat is None
    assert turn.steps[1].heartbeat == "failed"
    assert again == [turn]


@pytest.mark.parametrize("wrong", [7, None, ["Rome"], {"city": "Rome"}, True])
async def test_wrong_types_never_reach_the_tool(opened: Open, wrong: Any) -> None:
    """O8."""
    model = ScriptedModel([call("weather", city=wrong, heartbeat=False), say("Sorry")])
    async with opened(model) as agent:
        turn = await agent.send("weather?")
    assert turn.steps[0].calls[0].status == "failed"
    assert "city" in turn.steps[0].calls[0].result
    assert RAN == []


async def test_argument_that_does_not_exist_is_named(opened: Open) -> None:
    script = [call("weather", city="Rome", unit="K", heartbeat=False), say("Sorry")]
    async with opened(ScriptedModel(script)) as agent:
        turn = await agent.send("weather?")
    assert "unit" in turn.steps[0].calls[0].result
    assert RAN == []


HUGE = 5_000_000


@pytest.mark.parametrize(
    "reply",
    [
        call("weather", city="x" * HUGE, heartbeat=True),
        call("core_memory_append", label="human", content="x y " * (HUGE // 4), heartbeat=True),
        call("no_such_tool", text="x" * HUGE, heartbeat=True),
        raw_call("weather", '{"city": "' + "x" * HUGE),
        call("weather", city=["x"] * (HUGE // 5), heartbeat=True),
    ],
    ids=["accepted", "refused", "unknown tool", "unreadable", "wrong type"],
)
async def test_five_megabytes_of_arguments_do_not_stop_the_run(opened: Open, reply: Reply) -> None:
    """O8. They are kept whole, shown short, and read in pages; the next request fits."""
    began = time.perf_counter()
    model = ScriptedModel([reply, call("read_page", id="#2", heartbeat=True), say("Done")])
    async with opened(model) as agent:
        turn = await agent.send("go")
        stored = await (await agent.conversations.get()).messages()
    assert turn.reply == "Done"
    assert stored[1].calls[0].raw == reply.calls[0].arguments
    assert sum(len(str(message)) for message in model.requests[1].messages) < 200_000
    assert turn.steps[1].calls[0].status == "ok"
    assert reply.calls[0].arguments[:100] in turn.steps[1].calls[0].result
    assert time.perf_counter() - began < 60


# ------------------------------------------------------------------ loops


async def test_model_that_asks_for_one_more_beat_for_ever_is_stopped(opened: Open) -> None:
    """MC-06, with the default bound: 25 steps and one stored copy."""

    def storing(request: Request) -> Reply:
        if view(request).last_user == "stop":
            return say("Stopped")
        return call("archival_memory_insert", content="Lin likes tea", heartbeat=True)

    async with opened(ScriptedModel(storing)) as agent:
        turn = await agent.send("I like tea")
        assert (await agent.archive.search("tea")).total == 1
        assert (await agent.send("stop")).reply == "Stopped"
    assert turn.stop_reason == "max_steps"
    assert len(turn.steps) == 25


async def test_forgotten_flag_costs_no_answer_and_the_setting_says_so(opened: Open) -> None:
    """MC-08."""
    script = [call("conversation_search", query="tea"), say("You like tea")]
    async with opened(ScriptedModel(script)) as agent:
        assert (await agent.send("what do I like?")).reply == "You like tea"
    async with opened(ScriptedModel(script[:1]), heartbeats="strict", folder="strict") as agent:
        assert (await agent.send("what do I like?")).stop_reason == "no_reply"


async def test_model_that_only_ever_fails_is_stopped_long_before_the_step_bound(
    opened: Open,
) -> None:
    numbers = iter(range(100))

    def lost(request: Request) -> Reply:
        return call("no_such_tool", attempt=next(numbers) % 2, heartbeat=True)

    async with opened(ScriptedModel(lost), limits=Limits(steps=50)) as agent:
        turn = await agent.send("go")
    assert turn.stop_reason == "repeated_failure"
    assert len(turn.steps) == 5
