"""Faulty models, over the wire: each kind of fault in the first, the middle and the last step of a
turn, streamed or not (faults O7, O8).

Whatever comes, the turn ends typed, the user's message is kept, no step is left half, every call
has exactly one result, each request is legal for every provider, and the next message is answered.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
from tests.cases.weather import RAN, weather
from tests.llm.endpoint import Answer, Endpoint, listening

from pagedaemon import AsyncRuntime, Model
from pagedaemon.errors import (
    BadReply,
    ModelError,
    ModelTimedOut,
    ModelUnavailable,
    RateLimited,
)
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.llm import retrying
from pagedaemon.messages import Message, StopReason
from pagedaemon.testing import check_request

Way: TypeAlias = Literal["streamed", "whole"]
Wire: TypeAlias = dict[str, Any]

HUGE = 5_000_000
"""Characters."""

TIMEOUT = 2.0
"""Seconds a call of a model that never ends may take. For all others it is long: a machine may have
much else to do."""


def called(name: str, arguments: str, call_id: str) -> Wire:
    """A call as it stands in an answer."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def asked(city: object, call_id: str) -> Wire:
    """A call of the weather, after which the agent wants to go on."""
    return called("weather", json.dumps({"city": city, "request_heartbeat": True}), call_id)


def told(words: str, call_id: str) -> Wire:
    """A word to the user."""
    return called("send_message", json.dumps({"message": words}), call_id)


def answer(
    way: Way, *calls: Wire, finish: str | None = None, content: str = "", reasoning: str = ""
) -> Answer:
    """A good answer of the endpoint, as far as its calls are good."""
    message = {"role": "assistant", "content": content, "reasoning_content": reasoning}
    end = finish or ("tool_calls" if calls else "stop")
    if way == "whole":
        body = {"choices": [{"message": {**message, "tool_calls": calls}, "finish_reason": end}]}
        return whole(json.dumps(body))
    return streamed([*_deltas(message, calls), _chunk({}, end)])


def whole(body: str, *, broken: bool = False, pause: float = 0.0) -> Answer:
    """An answer in one piece of JSON."""
    return Answer(200, {"content-type": "application/json"}, [body.encode()], broken, pause)


def streamed(
    events: Sequence[Wire], *, broken: bool = False, pause: float = 0.0, done: bool = True
) -> Answer:
    """An answer event by event."""
    pieces = [f"data: {json.dumps(event)}\n\n".encode() for event in events]
    if done:
        pieces.append(b"data: [DONE]\n\n")
    return Answer(200, {"content-type": "text/event-stream"}, pieces, broken, pause)


def _chunk(delta: Wire, finish: str | None = None) -> Wire:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _deltas(message: Wire, calls: Sequence[Wire]) -> list[Wire]:
    chunks = [_chunk({"role": "assistant"})]
    for name in ("reasoning_content", "content"):
        half = len(message[name]) // 2
        chunks += [_chunk({name: part}) for part in (message[name][:half], message[name][half:])]
    for index, call in enumerate(calls):
        arguments = call["function"]["arguments"]
        begun = {**call, "function": {**call["function"], "arguments": arguments[:7]}}
        chunks.append(_chunk({"tool_calls": [{"index": index, **begun}]}))
        rest = {"index": index, "function": {"arguments": arguments[7:]}}
        chunks.append(_chunk({"tool_calls": [rest]}))
    return chunks


def refused(status: int, words: str, **headers: str) -> Callable[[Way, Wire], list[Answer]]:
    """An error of the endpoint, as often as it is asked."""
    body = json.dumps({"error": {"message": words}}).encode()
    kind = {"content-type": "application/json", **headers}
    return lambda way, last: [Answer(status, kind, [body])] * 2


def one(*calls: Wire, **settings: Any) -> Callable[[Way, Wire], list[Answer]]:
    """One answer with these calls."""
    return lambda way, last: [answer(way, *calls, **settings)]


def cut_off(way: Way, last: Wire) -> list[Answer]:
    """The connection breaks inside a call's JSON, twice."""
    message = {"role": "assistant", "content": "", "reasoning_content": ""}
    if way == "streamed":
        events = _deltas(message, [asked("Rome", "call_f")])[:-1]
        return [streamed(events, broken=True, done=False)] * 2
    body = json.dumps({"choices": [{"message": {**message, "tool_calls": [asked("Rome", "f")]}}]})
    return [whole(body[:-60], broken=True)] * 2


def ends_early(way: Way, last: Wire) -> list[Answer]:
    """All of the answer that comes is well, and breaks off inside a call, twice."""
    message = {"role": "assistant", "content": "", "reasoning_content": ""}
    if way == "streamed":
        return [streamed(_deltas(message, [asked("Rome", "f")])[:-1], done=False)] * 2
    body = json.dumps({"choices": [{"message": {**message, "tool_calls": [asked("Rome", "f")]}}]})
    return [whole(body[:-60])] * 2


def endless(way: Way, last: Wire) -> list[Answer]:
    """It goes on and on, or never begins."""
    if way == "streamed":
        events = [_chunk({"content": "and "})] * 1_000
        return [streamed(events, pause=TIMEOUT / 20)]
    return [whole("{}", pause=100 * TIMEOUT)]


def error_inside(way: Way, last: Wire) -> list[Answer]:
    """An error that comes under status 200, twice."""
    body = {"error": {"message": "overloaded", "code": 503}}
    return [streamed([body]) if way == "streamed" else whole(json.dumps(body))] * 2


def no_answer(way: Way, last: Wire) -> list[Answer]:
    """A page for people in place of JSON."""
    return [whole("<html>Welcome</html>")]


def again(way: Way, last: Wire) -> list[Answer]:
    """The last reply once more, to the letter."""
    return [answer(way, last)]


@dataclass(frozen=True)
class Fault:
    """One kind of fault.

    Attributes:
        answers: what the endpoint answers: the way, the call it made last.
        calls: how the calls of the faulty step end.
        error: what the turn ends with; None where it goes on.
        stop: its stop reason.
        ran: where the weather was looked up for it.
    """

    answers: Callable[[Way, Wire], list[Answer]]
    calls: tuple[str, ...] = ()
    error: type[ModelError] | None = None
    stop: StopReason = "end_turn"
    ran: tuple[str, ...] = ()


BROKEN = '{"city": "Ro'

FAULTS = {
    "empty reply": Fault(one()),
    "reasoning only": Fault(one(reasoning="Let me think.")),
    "two calls with one id": Fault(
        one(asked("Rome", "f"), asked("Bern", "f")), ("ok", "ok"), ran=("Rome", "Bern")
    ),
    "unknown tool": Fault(one(called("fly", '{"request_heartbeat": false}', "f")), ("failed",)),
    "no name": Fault(one(called("", '{"city": "Rome"}', "f")), ("failed",)),
    "wrong types": Fault(one(asked({"name": ["Rome"]}, "f")), ("failed",)),
    "arguments that are a list": Fault(one(called("weather", '["Rome"]', "f")), ("failed",)),
    "arguments that are no JSON": Fault(one(called("weather", "city: Rome", "f")), ("failed",)),
    "arguments cut short": Fault(one(called("weather", BROKEN, "f")), ("failed",)),
    "output limit inside a call": Fault(
        one(called("weather", BROKEN, "f"), finish="length"), ("failed",)
    ),
    "five megabytes of arguments": Fault(one(asked({"x": "y" * HUGE}, "f")), ("failed",)),
    "NUL and half a character": Fault(
        one(asked("Ro\x00me", "f"), called("weather", '{"city": "\ud800"}', "g")),
        ("failed", "failed"),
    ),
    "text and reasoning beside a call": Fault(
        one(asked("Rome", "f"), content="I look.", reasoning="Where?"), ("ok",), ran=("Rome",)
    ),
    "the last reply again": Fault(again, ("ok",)),
    "refusal": Fault(one(finish="content_filter", content="I can"), stop="refused"),
    "cut off inside a call": Fault(cut_off, error=ModelUnavailable),
    "ends inside a call": Fault(ends_early, error=ModelUnavailable),
    "never ends": Fault(endless, error=ModelTimedOut),
    "429": Fault(refused(429, "slow down", **{"retry-after": "7"}), error=RateLimited),
    "500": Fault(refused(500, "oh"), error=ModelUnavailable),
    "error under 200": Fault(error_inside, error=ModelUnavailable),
    "no chat completion": Fault(no_answer, error=BadReply),
}


@asynccontextmanager
async def opened(folder: Path, fault: Fault) -> AsyncIterator[tuple[AsyncAgent, Endpoint]]:
    """An agent whose model stands behind an endpoint on this machine. It is tried once more, but
    for what takes its whole time."""
    RAN.clear()
    slow = fault.error is ModelTimedOut
    async with listening() as endpoint:
        model = Model(
            "openai/m",
            base_url=endpoint.url,
            timeout=TIMEOUT if slow else 60,
            retries=0 if slow else 1,
            context_window=128_000,
        )
        async with AsyncRuntime(folder, model=model, tools=[weather], embedder=None) as runtime:
            yield await runtime.agents.create("ada", tools=[weather]), endpoint


def check_history(messages: Sequence[Message], endpoint: Endpoint) -> None:
    """Every call has exactly one result, in order, and every request was legal."""
    left: list[str] = []
    for message in messages:
        if message.kind == "result":
            assert message.call_id == left.pop(0)
        else:
            assert left == [], "a call has no result"
            left = [call.id for call in message.calls]
    assert left == []
    for seen in endpoint.seen:
        check_request(seen.body["messages"], seen.body["tools"])


async def said(agent: AsyncAgent, words: str, way: Way) -> None:
    """Says something, and listens or waits."""
    if way == "whole":
        await agent.send(words)
    else:
        async for _ in agent.stream(words):
            pass


def expected(fault: Fault, position: int) -> tuple[StopReason, str | None, list[str]]:
    """Of the turn with the fault: its stop reason, its reply, and where the weather was looked
    up."""
    before, after = ["Oslo", "Lima"][:position], ["Oslo", "Lima"][position:]
    if fault.error is not None:
        return "error", None, before
    if fault.stop != "end_turn":
        return fault.stop, "I can", before
    if fault.answers is not again:
        return "end_turn", "done", [*before, *fault.ran, *after]
    if position == 0:  # what was said in the turn before is said once more, and ends this one
        return "end_turn", "hello", []
    return "end_turn", "done", [*before, before[-1], *after]


@pytest.mark.parametrize("way", ["streamed", "whole"])
@pytest.mark.parametrize("position", [0, 1, 2], ids=["first", "middle", "last"])
@pytest.mark.parametrize("kind", FAULTS)
async def test_a_fault_ends_typed_and_the_next_message_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, position: int, way: Way
) -> None:
    monkeypatch.setattr(retrying, "LONGEST_WAIT", 0.001)
    fault = FAULTS[kind]
    steps = [asked("Oslo", "call_1"), asked("Lima", "call_2"), told("done", "call_3")]
    last = [told("hello", "call_0"), *steps][position]
    script = [answer(way, call) for call in steps]
    script[position:position] = fault.answers(way, last)
    async with opened(tmp_path, fault) as (agent, endpoint):
        endpoint.will(answer(way, told("hello", "call_0")))
        assert (await agent.send("hello")).reply == "hello"
        endpoint.instead(*script)
        if fault.error is None:
            await said(agent, "go", way)
        else:
            with pytest.raises(fault.error) as raised:
                await said(agent, "go", way)
            assert getattr(raised.value, "retry_after", 7) == 7
        main = await agent.conversations.get()
        (turn, _) = await main.turns()
        window = await main.messages()
        assert (turn.stop_reason, turn.reply, RAN) == expected(fault, position)
        assert [m.text for m in window if m.kind == "message"] == ["hello", "go"]
        check_history(window, endpoint)
        if fault.error is not None:
            assert len(turn.steps) == position, "nothing is left of the step with the fault"
            assert len([m for m in window if m.kind == "reply"]) == 1 + position
        else:
            assert tuple(call.status for call in turn.steps[position].calls) == fault.calls
        endpoint.instead(answer(way, told("next", "call_9")))
        assert (await agent.send("and now?")).reply == "next"
        check_history(await main.messages(), endpoint)
