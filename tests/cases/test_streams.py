"""Models that fail, say nothing, or speak in odd parts: no half step is left."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.cases.weather import RAN, Open, ended

from pagedaemon.errors import (
    AuthenticationFailed,
    BadReply,
    ModelError,
    QuotaExceeded,
    RateLimited,
    RequestRejected,
)
from pagedaemon.events import ReplyDelta, StepReset
from pagedaemon.llm.protocol import CallPart, Part, RawCall, Reply, Request, TextPart
from pagedaemon.testing import (
    ScriptedModel,
    both,
    call,
    check_request,
    cut,
    say,
    text,
    view,
)

# ------------------------------------------------------------------ errors of the provider


@pytest.mark.parametrize(
    "error",
    [
        RequestRejected("400: bad request"),
        AuthenticationFailed("401: no such key"),
        QuotaExceeded("budget exceeded"),
        BadReply("a stream that ended inside a call"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_cannot_succeed_is_asked_once(opened: Open, error: ModelError) -> None:
    """MC-07. A typed error reaches the caller; the history has no half step."""
    model = ScriptedModel([error, say("Hello")])
    async with opened(model, retries=5) as agent:
        with pytest.raises(type(error)):
            await agent.send("hello")
        assert len(model.requests) == 1
        conversation = await agent.conversations.get()
        (failed,) = await conversation.turns()
        assert (failed.stop_reason, failed.steps) == ("error", ())
        assert failed.error == str(error)
        assert [message.text for message in await conversation.messages()] == ["hello"]
        assert (await agent.send("again")).reply == "Hello"
    assert view(model.requests[-1]).last_user.startswith("hello")


async def test_what_can_succeed_is_tried_again_up_to_a_cap(opened: Open) -> None:
    """MC-07, O7. 429 with a time to wait and 503, then an answer; then more of them than tries."""
    limited = RateLimited("429", retry_after=0.01)
    model = ScriptedModel([limited, say("Hello"), limited, limited, limited])
    async with opened(model, retries=1) as agent:
        assert (await agent.send("hello")).reply == "Hello"
        with pytest.raises(RateLimited):
            await agent.send("again")
        assert len(model.requests) == 4
        window = await (await agent.conversations.get()).messages()
    assert [message.text for message in window if message.role == "user"] == ["hello", "again"]


async def test_stream_that_breaks_and_is_asked_again_takes_back_what_was_shown(
    opened: Open,
) -> None:
    """O7. After the reset the listener hears the whole reply once."""
    model = ScriptedModel([cut(say("Hello from the first try"), after=4), say("Hello")])
    async with opened(model, retries=1) as agent:
        events = [event async for event in agent.stream("hello")]
    (reset,) = [place for place, event in enumerate(events) if isinstance(event, StepReset)]
    heard = [event for event in events[reset:] if isinstance(event, ReplyDelta)]
    assert "".join(event.text for event in heard) == "Hello"
    assert heard[0].offset == 0
    assert ended(events).replies == ("Hello",)


async def test_stream_without_a_reply_is_a_typed_error(opened: Open) -> None:
    class Silent:
        async def complete(self, request: Request) -> Reply:
            return Reply()

        async def stream(self, request: Request) -> AsyncIterator[Part]:
            yield TextPart("Hel")

        async def aclose(self) -> None:
            return None

    async with opened(Silent()) as agent:
        with pytest.raises(BadReply):
            await agent.send("hello")


# ------------------------------------------------------------------ empty replies


@pytest.mark.parametrize("style", ["memgpt", "native"])
@pytest.mark.parametrize("empty", [Reply(), text("  \n"), Reply(reasoning="hm")])
async def test_empty_reply_does_not_poison_the_conversation(
    opened: Open, style: str, empty: Reply
) -> None:
    """HV-06. It is no message; the step that was empty says so; the next turn works."""
    good = say("Hello") if style == "memgpt" else text("Hello")
    model = ScriptedModel([empty, empty, good])
    async with opened(model, style=style) as agent:
        first = await agent.send("hello")
        second = await agent.send("are you there?")
        stored = await (await agent.conversations.get()).messages()
    assert first.stop_reason == "no_reply"
    assert [step.note for step in first.steps] == ["the model said nothing"] * 2
    assert second.reply == "Hello"
    assert [message.kind for message in stored][:3] == ["message", "heartbeat", "message"]
    assert all(message.get("content") != "" for message in model.requests[2].messages)


async def test_reply_cut_at_the_output_limit_is_heard_as_far_as_it_came(opened: Open) -> None:
    cut_off = Reply(content="A long story that", finish="length")
    async with opened(ScriptedModel([cut_off])) as agent:
        assert (await agent.send("tell")).reply == "A long story that"


# ------------------------------------------------------------------ streamed or not


class InParts:
    """A model that plays one reply in given parts, or whole, as a provider without streaming."""

    def __init__(self, reply: Reply, parts: list[Part], then: Reply) -> None:
        self._left = [(reply, parts), (then, list[Part]())]
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Reply:
        raise NotImplementedError

    async def stream(self, request: Request) -> AsyncIterator[Part]:
        self.requests.append(request)
        check_request(request.messages, request.tools)
        reply, parts = self._left.pop(0)
        for part in parts:
            yield part
        yield reply

    async def aclose(self) -> None:
        return None


async def test_stored_history_is_the_same_in_whatever_parts_a_reply_comes(opened: Open) -> None:
    """RH-02. Whole; split in words and escapes; arguments in the last part; names late; two calls
    interleaved; and a finish that says "stop" although there are calls."""
    one = json.dumps({"city": 'Rom\u00e9 "x" \U0001f375', "request_heartbeat": True})
    two = json.dumps({"message": "Wait\n\u2026"})
    reply = Reply(
        content="hm",
        calls=(RawCall("a", "weather", one), RawCall("b", "send_message", two)),
        finish="stop",
    )
    ways: dict[str, list[Part]] = {
        "whole": [],
        "letters": [
            TextPart("h"),
            TextPart("m"),
            CallPart(0, "weather"),
            *[CallPart(0, "", letter) for letter in one],
            CallPart(1, "send_message"),
            *[CallPart(1, "", letter) for letter in two],
        ],
        "at the end": [CallPart(0, "weather", one), CallPart(1, "send_message", two)],
        "name last": [CallPart(0, "", one), CallPart(0, "weather"), CallPart(1, "", two)],
        "interleaved": [
            CallPart(0, "weather", one[:9]),
            CallPart(1, "send_message", two[:15]),
            CallPart(0, "", one[9:]),
            CallPart(1, "", two[15:]),
        ],
    }
    seen: dict[str, Any] = {}
    for way, parts in ways.items():
        model = InParts(reply, parts, call("send_message", message="Done", call_id="c"))
        async with opened(model, folder=way.replace(" ", "")) as agent:
            turn = await agent.send("weather?")
            stored = await (await agent.conversations.get()).messages()
        seen[way] = (
            [(m.role, m.kind, m.text, m.calls, m.call_id) for m in stored if m.step_id],
            [(c.tool, c.arguments, c.result, c.status) for s in turn.steps for c in s.calls],
            turn.replies,
        )
    assert all(history == seen["whole"] for history in seen.values())
    assert seen["whole"][2] == ("Wait\n…", "Done")
    assert ['Romé "x" 🍵'] * len(ways) == RAN


@pytest.mark.parametrize("seed", range(5))
async def test_scripted_streams_store_the_same_whatever_their_seams(
    opened: Open, seed: int
) -> None:
    """RH-02."""
    script = [
        both(text("Let me see"), call("weather", city="Zürich 🌧️", thoughts="sä", heartbeat=True)),
        say('Es regnet \\ "nicht" 🌦️'),
    ]
    async with opened(ScriptedModel(script, seed=seed)) as agent:
        events = [event async for event in agent.stream("Wetter?")]
    turn = ended(events)
    assert turn.reply == 'Es regnet \\ "nicht" 🌦️'
    assert turn.steps[0].thoughts == "Let me see\nsä"
    assert turn.steps[0].calls[0].arguments == {"city": "Zürich 🌧️"}
    heard = "".join(event.text for event in events if isinstance(event, ReplyDelta))
    assert heard == turn.reply
