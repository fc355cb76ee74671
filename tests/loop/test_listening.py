"""What a listener is told while a turn runs."""

from __future__ import annotations

import pytest
from tests.loop.stage import Open, beats, ended, spoken

from pagedaemon.events import (
    HeartbeatEvent,
    ReplyDelta,
    StepFinished,
    StepStarted,
    TurnEnded,
    TurnStarted,
)
from pagedaemon.testing import (
    call,
    raw_call,
    say,
)


@pytest.mark.parametrize("seed", range(4))
async def test_listener_hears_events_in_order_and_deltas_that_add_up(
    stage: Open, seed: int
) -> None:
    script = [
        call("core_memory_append", label="human", content="Tea", thoughts="save", heartbeat=True),
        say('Noted: "tea" 🍵\nand more \\ of it', thoughts="done"),
    ]
    async with stage(script, seed=seed) as on:
        events = [event async for event in on.agent.stream("I like tea")]
    turn = ended(events)
    plain = [event for event in events if not event.__class__.__name__.endswith("Delta")]
    assert [type(event) for event in plain] == [
        TurnStarted,
        StepStarted,
        StepFinished,
        HeartbeatEvent,
        StepStarted,
        StepFinished,
        TurnEnded,
    ]
    assert [e.heartbeat for e in events if isinstance(e, StepStarted)] == beats(turn)
    assert tuple(e.record for e in events if isinstance(e, StepFinished)) == turn.steps
    assert spoken(events) == turn.reply == 'Noted: "tea" 🍵\nand more \\ of it'
    offsets = [(e.offset, e.text) for e in events if isinstance(e, ReplyDelta)]
    assert [offset for offset, _ in offsets] == [
        sum(len(text) for _, text in offsets[:place]) for place in range(len(offsets))
    ]


async def test_listener_hears_a_plain_text_reply_too(stage: Open) -> None:
    """A small model's plain text is the reply: who prints the deltas has printed it."""
    async with stage(["  Hello there\n"]) as on:
        events = [event async for event in on.agent.stream("hello")]
    assert spoken(events) == "Hello there"
    assert ended(events).replies == ("Hello there",)


async def test_unreadable_arguments_are_a_failed_call_and_no_reply(stage: Open) -> None:
    script = [raw_call("send_message", '{"message": "Hel'), say("Hello")]
    async with stage(script) as on:
        turn = await on.agent.send("hello")
    assert turn.replies == ("Hello",)
    assert turn.steps[0].calls[0].status == "failed"
