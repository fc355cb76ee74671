"""What a reply calls: failures, several calls at once, tools that are required."""

from __future__ import annotations

import pytest
from tests.loop.stage import Open, beats, ended, results, spoken, weather

from pagedaemon.config import Limits, Required
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import (
    both,
    call,
    say,
    view,
)

# ------------------------------------------------------------------ failures


async def test_failure_heartbeat_names_the_tool(stage: Open) -> None:
    def careful(request: Request) -> Reply:
        failed = [event for event in view(request).events if event.get("reason") == "failed"]
        if failed:
            return say("weather" if "weather" in failed[0]["message"] else "?")
        return both(
            call("archival_memory_search", query="x", heartbeat=False),
            call("weather", city="Atlantis", heartbeat=False),
        )

    async with stage(careful, tools=(weather,)) as on:
        turn = await on.agent.send("weather in Atlantis?")
    assert turn.reply == "weather"
    assert "no such city" in turn.steps[0].calls[1].result


async def test_the_same_failing_call_stops_at_the_third(stage: Open) -> None:
    def stubborn(request: Request) -> Reply:
        return call("weather", city="Atlantis", heartbeat=True)

    async with stage(stubborn, tools=(weather,)) as on:
        turn = await on.agent.send("weather?")
        again = await on.agent.send("and now?")
    assert turn.stop_reason == "repeated_failure"
    assert len(turn.steps) == 3
    assert len(again.steps) == 3, "failures of an earlier turn do not count"


async def test_different_failing_calls_are_not_the_same(stage: Open) -> None:
    cities = iter("abcd")

    def trying(request: Request) -> Reply:
        city = next(cities, None)
        if city is None:
            return say("I give up")
        return call("no_such_tool", city=city, heartbeat=True)

    async with stage(trying) as on:
        turn = await on.agent.send("weather?")
    assert turn.reply == "I give up"
    assert len(turn.steps) == 5


async def test_failing_calls_of_one_reply_are_one_failure(stage: Open) -> None:
    """The model could not read the first error before it made the second call."""
    thrice = both(*[call("weather", city="Atlantis", heartbeat=False)] * 3)
    async with stage([thrice, say("Sorry")], tools=(weather,)) as on:
        turn = await on.agent.send("weather?")
    assert turn.reply == "Sorry"
    assert results(turn)[0] == [("weather", "failed")] * 3


async def test_failing_call_that_is_mended_is_forgotten(stage: Open) -> None:
    script = [
        call("send_message", heartbeat=True),
        call("send_message", heartbeat=True),
        say("At last"),
    ]
    async with stage(script) as on:
        turn = await on.agent.send("hello")
    assert turn.replies == ("At last",)
    assert turn.stop_reason == "end_turn"


# ------------------------------------------------------------------ several calls


@pytest.mark.parametrize("seed", [0, 1, 2])
async def test_each_of_several_calls_has_its_own_result_in_call_order(
    stage: Open, seed: int
) -> None:
    """MC-05. Reply, failure, memory edit and outside tool in one answer, thoughts with each."""
    script = [
        both(
            say("One moment", thoughts="polite"),
            call("weather", city="Atlantis", thoughts="look", heartbeat=False),
            call(
                "core_memory_append",
                label="human",
                content="Asks about Atlantis",
                thoughts="note",
                heartbeat=False,
            ),
            call("weather", city="Rome", thoughts="compare", heartbeat=True),
        ),
        say("There is no Atlantis"),
    ]
    async with stage(script, tools=(weather,), seed=seed) as on:
        turn = await on.agent.send("weather in Atlantis?")
        wire = on.model.requests[1].messages
        block = await on.agent.blocks.get("human")
    assert results(turn)[0] == [
        ("send_message", "ok"),
        ("weather", "failed"),
        ("core_memory_append", "ok"),
        ("weather", "ok"),
    ]
    assert turn.replies == ("One moment", "There is no Atlantis")
    assert turn.steps[0].thoughts.split("\n") == ["polite", "look", "note", "compare"]
    assert block.value == "Name: unknown\nAsks about Atlantis"
    (asking,) = [message for message in wire if message.get("tool_calls")]
    shown = [message for message in wire if message["role"] == "tool"]
    assert [message["tool_call_id"] for message in shown] == [
        made["id"] for made in asking["tool_calls"]
    ]
    assert [message["content"] for message in shown] == [
        made.result for made in turn.steps[0].calls
    ]
    assert beats(turn) == [None, "failed"]


async def test_later_call_of_a_reply_sees_what_an_earlier_one_wrote(stage: Open) -> None:
    script = [
        both(
            call("core_memory_replace", label="human", old_content="unknown", new_content="Lin"),
            call("core_memory_replace", label="human", old_content="Lin", new_content="Lin Wu"),
            call("archival_memory_insert", content="The key is under the pot"),
            call("archival_memory_search", query="key", heartbeat=True),
        ),
        say("Noted"),
    ]
    async with stage(script) as on:
        turn = await on.agent.send("I am Lin Wu")
        value = (await on.agent.blocks.get("human")).value
    assert value == "Name: Lin Wu"
    assert "under the pot" in turn.steps[0].calls[3].result
    assert [change.version for change in turn.steps[0].changes] == [2, 3]


async def test_several_messages_of_one_reply_are_all_heard(stage: Open) -> None:
    async with stage([both(say("One"), say("Two"))]) as on:
        events = [event async for event in on.agent.stream("hello")]
    turn = ended(events)
    assert turn.replies == ("One", "Two")
    assert turn.reply == "One\n\nTwo"
    assert spoken(events) == turn.reply


# ------------------------------------------------------------------ required tools


async def test_required_tool_is_asked_for_until_it_was_called(stage: Open) -> None:
    def obedient(request: Request) -> Reply:
        due = [event for event in view(request).events if event.get("reason") == "required"]
        if due and "archival_memory_insert" in due[-1]["message"]:
            return call("archival_memory_insert", content="Said hello", heartbeat=False)
        return say("Hello")

    async with stage(
        obedient, rules=(Required(tool="archival_memory_insert"),), heartbeats="strict"
    ) as on:
        turn = await on.agent.send("hello")
        assert await on.agent.archive.count() == 1
    assert beats(turn) == [None, "required"]
    assert turn.stop_reason == "end_turn"
    assert "`archival_memory_insert`" in view(on.model.requests[0]).system


async def test_required_tool_that_is_never_called_ends_at_the_step_bound(stage: Open) -> None:
    async with stage(
        lambda request: say("Hello"),
        rules=(Required(tool="archival_memory_insert"),),
        limits=Limits(steps=4),
    ) as on:
        turn = await on.agent.send("hello")
    assert turn.stop_reason == "max_steps"
    assert beats(turn) == [None, "required", "required", "required"]
