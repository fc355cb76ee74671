"""What makes the agent think once more: heartbeats, nudges, the alert."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.loop.stage import Open, beats, events_of, weather

from pagedaemon import AsyncRuntime, Model
from pagedaemon.config import MEMGPT, Limits, Paging, Required
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import (
    ScriptedModel,
    both,
    call,
    say,
    text,
    view,
)

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
    async with stage(
        script, tools=(weather,), rules=(Required(tool="archival_memory_insert"),)
    ) as on:
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
