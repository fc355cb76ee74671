"""The native style: plain replies, and any call goes on."""

from __future__ import annotations

from tests.loop.stage import Open, beats, ended, events_of, spoken, weather

from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import (
    both,
    call,
    text,
    view,
)


async def test_native_reply_is_the_content_and_calls_go_on_without_a_flag(stage: Open) -> None:
    script = [call("weather", city="Rome"), text("Sunny", reasoning="it said so")]
    async with stage(script, tools=(weather,), style="native") as on:
        events = [event async for event in on.agent.stream("weather?")]
    turn = ended(events)
    assert turn.replies == ("Sunny",)
    assert beats(turn) == [None, "requested"]
    assert turn.steps[1].thoughts == "it said so"
    assert events_of(on.model.requests[1]) == [], "the results say themselves that it goes on"
    offered = view(on.model.requests[0]).tools
    assert "send_message" not in offered
    for declared in on.model.requests[0].tools:
        properties = declared["function"]["parameters"]["properties"]
        assert not {"request_heartbeat", "inner_thoughts"} & set(properties)
    assert spoken(events) == "Sunny"


async def test_native_text_beside_a_call_is_heard_and_the_turn_goes_on(stage: Open) -> None:
    script = [both(text("Let me look."), call("weather", city="Rome")), text("Sunny.")]
    async with stage(script, tools=(weather,), style="native") as on:
        turn = await on.agent.send("weather?")
    assert turn.replies == ("Let me look.", "Sunny.")


async def test_native_silence_is_nudged_for_plain_text(stage: Open) -> None:
    def shy(request: Request) -> Reply:
        nudges = [event for event in view(request).events if event.get("reason") == "nudge"]
        return text("Here") if nudges and "plain text" in nudges[0]["message"] else Reply()

    async with stage(shy, style="native") as on:
        turn = await on.agent.send("anyone?")
    assert turn.reply == "Here"
    assert turn.steps[0].note


async def test_native_failure_is_told_as_in_any_style(stage: Open) -> None:
    script = [call("weather", city="Atlantis"), text("No such place")]
    async with stage(script, tools=(weather,), style="native") as on:
        turn = await on.agent.send("weather?")
    assert beats(turn) == [None, "failed"]
    assert events_of(on.model.requests[1]) == [("heartbeat", "failed")]
