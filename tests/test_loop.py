"""One turn through the real loop: heartbeats, nudges, bounds, and what each step shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from pagedaemon import AsyncRuntime, Block, Model, tool
from pagedaemon.config import MEMGPT, Limits, Paging
from pagedaemon.events import (
    Event,
    HeartbeatEvent,
    ReplyDelta,
    StepFinished,
    StepStarted,
    Turn,
    TurnEnded,
    TurnStarted,
)
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import (
    FakeClock,
    ScriptedModel,
    ScriptExhausted,
    both,
    call,
    raw_call,
    say,
    text,
    view,
)
from pagedaemon.tools.tool import Tool


@dataclass
class Stage:
    """An agent and the model behind it."""

    agent: AsyncAgent
    model: ScriptedModel


Open: TypeAlias = Callable[..., AbstractAsyncContextManager[Stage]]


@pytest.fixture
def stage(tmp_path: Path) -> Open:
    """Opens an agent `ada` with one block `human`, whose model follows a script."""

    @asynccontextmanager
    async def opened(
        script: Any,
        *,
        tools: tuple[Tool, ...] = (),
        seed: int = 0,
        clock: FakeClock | None = None,
        **settings: Any,
    ) -> AsyncIterator[Stage]:
        model = ScriptedModel(script, seed=seed)
        async with AsyncRuntime(
            tmp_path,
            model="script",
            models={"script": model},
            clock=clock or FakeClock(),
        ) as runtime:
            agent = await runtime.agents.ensure(
                "ada",
                blocks=[Block(label="human", value="Name: unknown")],
                tools=tools,
                **settings,
            )
            yield Stage(agent, model)

    return opened


@tool(effect="read")
def weather(city: str) -> str:
    """Today's weather in a city.

    Args:
        city: where.
    """
    if city == "Atlantis":
        raise LookupError("no such city")
    return f"sunny in {city}"


def beats(turn: Turn) -> list[str | None]:
    return [step.heartbeat for step in turn.steps]


def results(turn: Turn) -> list[list[tuple[str, str]]]:
    return [[(made.tool, made.status) for made in step.calls] for step in turn.steps]


def events_of(request: Request) -> list[tuple[str, str | None]]:
    return [(event["type"], event.get("reason")) for event in view(request).events]


# ------------------------------------------------------------------ heartbeats


@pytest.mark.parametrize("flag", [True, False])
async def test_flag_alone_makes_the_next_model_call(stage: Open, flag: bool) -> None:
    """The paper's rule: the same script with the flag true makes n+1 calls, with false n."""
    script = [call("archival_memory_insert", content="Lin likes tea", heartbeat=flag), say("Hi")]
    async with stage(script, heartbeats="strict") as on:
        turn = await on.agent.send("I like tea")
    assert len(on.model.requests) == (2 if flag else 1)
    assert turn.replies == (("Hi",) if flag else ())
    assert turn.stop_reason == ("end_turn" if flag else "no_reply")
    assert beats(turn) == ([None, "requested"] if flag else [None])


async def test_model_that_waits_for_the_heartbeat_event_gets_it(stage: Open) -> None:
    """The model is a function of its request: without the event it would search for ever."""

    def mind(request: Request) -> Reply:
        if ("heartbeat", "requested") in events_of(request):
            return say("Found: " + view(request).results["archival_memory_search"][0][:7])
        return call("archival_memory_search", query="tea", heartbeat=True)

    async with stage(mind, limits=Limits(steps=3)) as on:
        turn = await on.agent.send("tea?")
    assert turn.reply == "Found: Nothing"
    assert turn.stop_reason == "end_turn"


async def test_flag_is_understood_as_small_models_write_it(stage: Open) -> None:
    flags: list[tuple[Any, str | None]] = [
        ("true", "Hi"),
        (1, "Hi"),
        ("Yes", "Hi"),
        ("false", None),
        (0, None),
        (None, None),
    ]
    for flag, reply in flags:
        script = [call("archival_memory_search", query="x", request_heartbeat=flag), say("Hi")]
        async with stage(script, heartbeats="strict") as on:
            assert (await on.agent.send("?")).reply == reply


async def test_flag_on_send_message_is_ignored(stage: Open) -> None:
    async with stage([say("Hi", heartbeat=True)], heartbeats="strict") as on:
        turn = await on.agent.send("hello")
    assert len(turn.steps) == 1
    assert turn.stop_reason == "end_turn"


async def test_one_flag_among_several_calls_is_enough(stage: Open) -> None:
    script = [
        both(
            call("archival_memory_search", query="a", heartbeat=False),
            call("archival_memory_search", query="b", heartbeat=True),
            call("archival_memory_search", query="c", heartbeat=False),
        ),
        say("Hi"),
    ]
    async with stage(script, heartbeats="strict") as on:
        turn = await on.agent.send("?")
    assert beats(turn) == [None, "requested"]
    assert [made.heartbeat for made in turn.steps[0].calls] == [False, True, False]


async def test_steps_say_which_heartbeat_woke_them_and_keep_saying_so(stage: Open) -> None:
    script = [
        call("weather", city="Atlantis", heartbeat=False),
        call("weather", city="Rome", heartbeat=True),
        call("weather", city="Oslo", heartbeat=False),
        say("Sunny"),
        call("archival_memory_insert", content="Asked for weather", heartbeat=False),
    ]
    async with stage(script, tools=(weather,), required_tools=("archival_memory_insert",)) as on:
        turn = await on.agent.send("weather?")
        conversation = await on.agent.conversations.get()
        (stored,) = await conversation.turns()
    assert beats(turn) == [None, "failed", "requested", "required", "required"]
    assert stored == turn


async def test_strict_leaves_a_user_without_reply_and_says_so(stage: Open) -> None:
    script = [call("archival_memory_search", query="tea", heartbeat=False)]
    async with stage(script, heartbeats="strict") as on:
        turn = await on.agent.send("tea?")
    assert turn.stop_reason == "no_reply"
    assert turn.reply is None
    assert len(on.model.requests) == 1


async def test_strict_still_goes_on_after_a_failure(stage: Open) -> None:
    script = [call("weather", city="Atlantis", heartbeat=False), say("No such place")]
    async with stage(script, tools=(weather,), heartbeats="strict") as on:
        turn = await on.agent.send("weather?")
    assert beats(turn) == [None, "failed"]


# ------------------------------------------------------------------ nudges


async def test_assisted_nudges_a_model_that_forgot_its_user(stage: Open) -> None:
    """MC-08. The model answers only where the nudge stands in its request."""

    def forgetful(request: Request) -> Reply:
        if ("heartbeat", "nudge") in events_of(request):
            return say("You like tea")
        return call("archival_memory_search", query="tea", heartbeat=False)

    async with stage(forgetful) as on:
        turn = await on.agent.send("what do I like?")
    assert turn.reply == "You like tea"
    assert beats(turn) == [None, "nudge"]
    assert len(on.model.requests) == 2


async def test_the_same_forgetful_model_gets_no_nudge_in_strict(stage: Open) -> None:
    def forgetful(request: Request) -> Reply:
        if ("heartbeat", "nudge") in events_of(request):
            return say("You like tea")
        return call("archival_memory_search", query="tea", heartbeat=False)

    async with stage(forgetful, heartbeats="strict") as on:
        assert (await on.agent.send("what do I like?")).reply is None


async def test_nudges_end_where_they_lead_to_nothing(stage: Open) -> None:
    async with stage([Reply(), Reply()]) as on:
        turn = await on.agent.send("hello")
    assert beats(turn) == [None, "nudge"]
    assert turn.stop_reason == "no_reply"


async def test_nudges_go_on_while_the_model_works_and_end_at_their_bound(stage: Open) -> None:
    def busy(request: Request) -> Reply:
        return call("archival_memory_search", query="tea", heartbeat=False)

    async with stage(busy, limits=Limits(nudges=2)) as on:
        turn = await on.agent.send("hello")
    assert beats(turn) == [None, "nudge", "nudge"]
    assert turn.stop_reason == "no_reply"


async def test_plain_text_is_the_reply(stage: Open) -> None:
    """MC-01."""
    async with stage(["Hello there"]) as on:
        turn = await on.agent.send("hello")
        stored = (await on.agent.recall.search("there", roles=["assistant"])).hits
    assert turn.replies == ("Hello there",)
    assert turn.stop_reason == "end_turn"
    assert [hit.text for hit in stored] == ["Hello there"]


async def test_plain_text_can_be_answered_by_a_nudge_instead(stage: Open) -> None:
    """MC-01. The model uses the tool only when told to."""

    def plain(request: Request) -> Reply:
        if ("heartbeat", "nudge") in events_of(request):
            return say("Hello")
        return text("Hello, in plain text")

    style = MEMGPT.model_copy(update={"plain_text": "nudge"})
    async with stage(plain, style=style) as on:
        turn = await on.agent.send("hello")
    assert turn.replies == ("Hello",)
    assert beats(turn) == [None, "nudge"]
    assert turn.steps[0].thoughts == "Hello, in plain text"


async def test_model_that_never_uses_the_tool_ends_in_no_reply_where_that_is_asked(
    stage: Open,
) -> None:
    style = MEMGPT.model_copy(update={"plain_text": "nudge"})
    async with stage(lambda request: text("words"), style=style) as on:
        turn = await on.agent.send("hello")
    assert turn.stop_reason == "no_reply"
    assert len(turn.steps) == 2


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
        obedient, required_tools=("archival_memory_insert",), heartbeats="strict"
    ) as on:
        turn = await on.agent.send("hello")
        assert await on.agent.archive.count() == 1
    assert beats(turn) == [None, "required"]
    assert turn.stop_reason == "end_turn"
    assert "`archival_memory_insert`" in view(on.model.requests[0]).system


async def test_required_tool_that_is_never_called_ends_at_the_step_bound(stage: Open) -> None:
    async with stage(
        lambda request: say("Hello"),
        required_tools=("archival_memory_insert",),
        limits=Limits(steps=4),
    ) as on:
        turn = await on.agent.send("hello")
    assert turn.stop_reason == "max_steps"
    assert beats(turn) == [None, "required", "required", "required"]


# ------------------------------------------------------------------ the native style


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


# ------------------------------------------------------------------ bounds and ends


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


# ------------------------------------------------------------------ pressure


async def test_pressure_gives_a_step_of_its_own_even_after_a_reply(tmp_path: Path) -> None:
    """The model saves only where the alert stands in its request."""

    def saving(request: Request) -> Reply:
        seen = view(request)
        if ("system_alert", None) in events_of(request) and not seen.results.get(
            "archival_memory_insert"
        ):
            return call("archival_memory_insert", content="Window was full", heartbeat=False)
        return say("x" * 1_000 if seen.last_user == "long" else "ok")

    model = ScriptedModel(saving, summary="They talked.")
    async with AsyncRuntime(
        tmp_path,
        model=Model("script", context_window=7_000, max_output_tokens=500),
        models={"script": model},
    ) as runtime:
        agent = await runtime.agents.ensure(
            "ada", heartbeats="strict", paging=Paging(warn=0.62, target=0.55)
        )
        turns = []
        while await agent.archive.count() == 0:
            turns.append(await agent.send("long"))
            assert len(turns) < 20
    last = turns[-1]
    assert "archival_memory_insert" in [made.tool for step in last.steps for made in step.calls]
    assert all(turn.stop_reason == "end_turn" for turn in turns)


# ------------------------------------------------------------------ what a listener is told


def ended(events: list[Event]) -> Turn:
    last = events[-1]
    assert isinstance(last, TurnEnded)
    return last.turn


def spoken(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, ReplyDelta))


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
