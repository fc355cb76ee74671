"""Models that answer badly: nothing is lost, nothing is made up, and the turn ends."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from pagedaemon import AsyncRuntime, Block, Model, tool
from pagedaemon.config import Limits
from pagedaemon.errors import (
    AuthenticationFailed,
    BadReply,
    ModelError,
    ModelUnavailable,
    QuotaExceeded,
    RateLimited,
    RequestRejected,
)
from pagedaemon.events import Event, ReplyDelta, StepReset, TurnEnded
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.llm.protocol import CallPart, Part, RawCall, Reply, Request, TextPart
from pagedaemon.testing import (
    FakeClock,
    ScriptedModel,
    both,
    call,
    check_request,
    cut,
    raw_call,
    say,
    text,
    view,
)
from pagedaemon.tools.tool import Tool

Open: TypeAlias = Callable[..., AbstractAsyncContextManager[AsyncAgent]]
RAN: list[str] = []


@tool(effect="read")
def weather(city: str) -> str:
    """Today's weather in a city.

    Args:
        city: where.
    """
    RAN.append(city)
    return f"sunny in {city}"


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """Opens the agent `ada` over a model; the store stays between two openings."""
    RAN.clear()

    @asynccontextmanager
    async def open_agent(
        model: Any,
        *,
        tools: tuple[Tool, ...] = (weather,),
        retries: int = 0,
        folder: str = "store",
        **settings: Any,
    ) -> AsyncIterator[AsyncAgent]:
        async with AsyncRuntime(
            tmp_path / folder,
            model=Model("script", retries=retries),
            models={"script": model},
            tools=tools,
            clock=FakeClock(),
        ) as runtime:
            yield await runtime.agents.ensure(
                "ada", blocks=[Block(label="human")], tools=tools, **settings
            )

    return open_agent


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


@pytest.mark.parametrize("after", [0, 1, 2, 3])
async def test_stream_that_breaks_inside_a_call_leaves_nothing_but_the_users_message(
    opened: Open, after: int
) -> None:
    """O7. No tool ran on half a call, and nothing of it is in the history."""
    broken = cut(call("weather", city="a" * 60, heartbeat=True), after=after)
    model = ScriptedModel([broken, say("Hello")])
    async with opened(model) as agent:
        with pytest.raises(ModelUnavailable):
            await agent.send("weather?")
        conversation = await agent.conversations.get()
        assert [message.text for message in await conversation.messages()] == ["weather?"]
        assert RAN == []
        assert (await agent.send("again")).reply == "Hello"


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


def ended(events: list[Event]) -> Any:
    last = events[-1]
    assert isinstance(last, TurnEnded)
    return last.turn
