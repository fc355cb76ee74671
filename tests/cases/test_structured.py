"""Replies of a type: asked for, checked, tried again, told as they grow; in both styles."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, assert_type

import pytest
from pydantic import BaseModel, field_validator

import pagedaemon
from pagedaemon import AsyncRuntime, Runtime, ToolContext, tool
from pagedaemon.config import Limits, Model, Paging
from pagedaemon.errors import ContextOverflow, InvalidInput, PagedaemonError, ReplyInvalid
from pagedaemon.events import (
    Event,
    HeartbeatEvent,
    ReplyPartial,
    StepFinished,
    TurnEnded,
    TypedTurn,
)
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import (
    FakeClock,
    ScriptedModel,
    both,
    call,
    say,
    text,
    view,
)


class Invoice(BaseModel):
    """What a shop sends."""

    number: str
    total: float

    @field_validator("number")
    @classmethod
    def _ours(cls, number: str) -> str:
        if not number.startswith("A"):
            raise ValueError("ours begin with A")
        return number


GOOD = '{"number": "A1", "total": 12.5}'
BAD = '{"number": "B1", "total": "much"}'
INVOICE = Invoice(number="A1", total=12.5)
STYLES = ("memgpt", "native")
RUNTIME = str(Path(pagedaemon.__file__).parents[1])


def speak(style: str, words: str) -> Reply:
    """A reply in the words of the style."""
    return say(words) if style == "memgpt" else text(words)


@asynccontextmanager
async def agent(
    folder: Path, model: ScriptedModel, *, tools: tuple[Any, ...] = (), **settings: Any
) -> AsyncIterator[AsyncAgent]:
    async with AsyncRuntime(
        folder, model="script", models={"script": model}, clock=FakeClock()
    ) as runtime:
        yield await runtime.agents.ensure("ada", tools=tools, **settings)


def kinds(request: Request) -> list[tuple[str, str | None]]:
    return [(str(event["type"]), event.get("reason")) for event in view(request).events]


@pytest.mark.parametrize("style", STYLES)
async def test_reply_is_the_value_and_the_schema_is_told_with_the_message(
    tmp_path: Path, style: str
) -> None:
    model = ScriptedModel([speak(style, GOOD), speak(style, "Hello")])
    async with agent(tmp_path, model, style=style) as ada:
        turn = await ada.send("the invoice, please", reply_type=Invoice)
        assert_type(turn, TypedTurn[Invoice])
        assert_type(turn.value, Invoice)
        plain = await ada.send("hello")
        (_, stored) = await (await ada.conversations.get()).turns()
    assert turn.value == INVOICE
    assert (turn.reply, turn.stop_reason, len(turn.steps)) == (GOOD, "end_turn", 1)
    assert not isinstance(plain, TypedTurn)
    assert stored.replies == turn.replies
    first, second = model.requests
    asked = [event for event in view(first).events if event["type"] == "reply_format"]
    assert [event["schema"]["title"] for event in asked] == ["Invoice"]
    assert ("send_message" in asked[0]["message"]) is (style == "memgpt")
    assert view(first).last_user == "the invoice, please"
    assert first.tools == second.tools
    assert second.messages[: len(first.messages)] == first.messages
    assert kinds(second) == kinds(first), "the next message asks for words"


@pytest.mark.parametrize("style", STYLES)
async def test_reply_that_does_not_fit_is_told_why_and_not_shown(
    tmp_path: Path, style: str
) -> None:
    def mind(request: Request) -> Reply:
        last = view(request).events[-1]
        if last.get("reason") != "invalid":
            return speak(style, BAD)
        assert "total: " in " ".join(last["problems"])
        assert "ours begin with A" in " ".join(last["problems"])
        return speak(style, f"```json\n{GOOD}\n```")

    model = ScriptedModel(mind)
    async with agent(tmp_path, model, style=style, heartbeats="strict") as ada:
        turn = await ada.send("the invoice", reply_type=Invoice)
        window = await (await ada.conversations.get()).messages()
    assert turn.value == INVOICE
    assert [step.replies for step in turn.steps] == [(), (f"```json\n{GOOD}\n```",)]
    assert [step.heartbeat for step in turn.steps] == [None, "invalid"]
    said = " ".join(f"{message.text} {message.calls}" for message in window)
    assert "much" in said, "what the model said is kept"


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("retries", [0, 2])
async def test_tries_end_in_a_typed_error_that_holds_the_last(
    tmp_path: Path, style: str, retries: int
) -> None:
    model = ScriptedModel(lambda request: speak(style, BAD))
    async with agent(tmp_path, model, style=style, limits=Limits(reply_retries=retries)) as ada:
        with pytest.raises(ReplyInvalid, match="ours begin with A") as caught:
            await ada.send("the invoice", reply_type=Invoice)
        (turn,) = await (await ada.conversations.get()).turns()
        assert (await ada.send("hello")).reply == BAD, "asked for words, these are some"
    assert len(turn.steps) == retries + 1
    assert turn.stop_reason == caught.value.stop_reason == "invalid_reply"
    assert turn.replies == ()
    assert turn.error == "; ".join(caught.value.problems)
    assert (caught.value.text, caught.value.turn_id) == (BAD, turn.id)


async def test_any_type_can_be_asked_for(tmp_path: Path) -> None:
    model = ScriptedModel([say("yes"), say("[1, 2]"), say("3")])
    async with agent(tmp_path, model) as ada:
        answer = await ada.send("?", reply_type=Literal["yes", "no"])
        assert_type(answer.value, Literal["yes", "no"])
        numbers = await ada.send("?", reply_type=list[int])
        assert_type(numbers.value, list[int])
        mixed = await ada.send("?", reply_type=int | str)
        assert_type(mixed.value, int | str)
    assert (answer.value, numbers.value, mixed.value) == ("yes", [1, 2], 3)


async def test_bad_type_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    model = ScriptedModel([])
    async with agent(tmp_path, model) as ada:
        with pytest.raises(InvalidInput, match="reply_type"):
            await ada.send("?", reply_type=type(model))
        with pytest.raises(InvalidInput, match="reply_type"):
            await anext(ada.stream("?", reply_type=type(model)))
        assert await ada.recall.count() == 0


async def test_schema_counts_in_the_budget(tmp_path: Path) -> None:
    huge: Any = Literal[tuple(f"choice number {number}" for number in range(4_000))]
    model = ScriptedModel([])
    async with AsyncRuntime(
        tmp_path, model=Model("script", context_window=16_000), models={"script": model}
    ) as runtime:
        ada = await runtime.agents.ensure("ada")
        with pytest.raises(ContextOverflow, match="message"):
            await ada.send("?", reply_type=huge)
    assert not model.requests


@tool(effect="read")
def weather(city: str) -> str:
    """Today's weather in a city."""
    if city == "Atlantis":
        raise LookupError("no such city")
    return f"sunny in {city}"


async def test_native_words_beside_a_call_are_a_remark_and_no_reply(tmp_path: Path) -> None:
    model = ScriptedModel([both(text("Let me look."), call("weather", city="Rome")), text(GOOD)])
    async with agent(tmp_path, model, tools=(weather,), style="native") as ada:
        turn = await ada.send("?", reply_type=Invoice)
    assert turn.replies == (GOOD,)
    assert turn.steps[0].thoughts == "Let me look."
    assert [step.heartbeat for step in turn.steps] == [None, "requested"]


async def test_plain_text_of_a_memgpt_agent_is_held_to_the_type_too(tmp_path: Path) -> None:
    model = ScriptedModel([text("I have none."), text(GOOD)])
    async with agent(tmp_path, model) as ada:
        turn = await ada.send("?", reply_type=Invoice)
    assert turn.value == INVOICE
    assert turn.steps[0].thoughts == "I have none."


async def test_other_calls_of_the_step_are_made_and_a_failed_one_is_said(tmp_path: Path) -> None:
    def mind(request: Request) -> Reply:
        if ("heartbeat", "invalid") in kinds(request):
            return say(GOOD)
        return both(
            call("archival_memory_insert", content="asked for the invoice", heartbeat=True),
            call("weather", city="Atlantis", heartbeat=True),
            say(BAD),
        )

    model = ScriptedModel(mind)
    async with agent(tmp_path, model, tools=(weather,)) as ada:
        turn = await ada.send("?", reply_type=Invoice)
        assert await ada.archive.count() == 1
    assert turn.value == INVOICE
    assert [made.status for made in turn.steps[0].calls] == ["ok", "failed", "failed"]


async def test_value_once_given_stands_and_chatter_after_it_is_not_delivered(
    tmp_path: Path,
) -> None:
    model = ScriptedModel([both(say(GOOD), say("Anything else?"))])
    async with agent(tmp_path, model) as ada:
        turn = await ada.send("?", reply_type=Invoice)
    assert turn.value == INVOICE
    assert turn.replies == (GOOD,)
    assert [made.status for made in turn.steps[0].calls] == ["ok", "failed"]


async def test_last_of_several_values_is_the_value(tmp_path: Path) -> None:
    model = ScriptedModel([both(say("1"), say("2"))])
    async with agent(tmp_path, model) as ada:
        assert (await ada.send("?", reply_type=int)).value == 2


async def test_silence_is_an_error_too(tmp_path: Path) -> None:
    model = ScriptedModel([Reply()])
    async with agent(tmp_path, model, heartbeats="strict") as ada:
        with pytest.raises(ReplyInvalid, match="no_reply") as caught:
            await ada.send("?", reply_type=Invoice)
    assert caught.value.text is None


async def test_a_bound_ends_a_turn_that_still_tries(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: say(BAD))
    async with agent(tmp_path, model, limits=Limits(steps=1)) as ada:
        with pytest.raises(ReplyInvalid) as caught:
            await ada.send("?", reply_type=Invoice)
    assert caught.value.stop_reason == "max_steps"


async def test_pressure_and_what_was_wrong_are_both_told(tmp_path: Path) -> None:
    def mind(request: Request) -> Reply:
        seen = kinds(request)
        if ("heartbeat", "invalid") not in seen:
            return say(f'{{"number": "{"many words " * 300}"}}')
        if seen[-1] == ("system_alert", None) and "archived" not in str(request.messages):
            return both(call("archival_memory_insert", content="archived"), say(GOOD))
        return say(GOOD)

    model = ScriptedModel(mind, summary="They talked.")
    async with AsyncRuntime(
        tmp_path,
        model=Model("script", context_window=7_000, max_output_tokens=500),
        models={"script": model},
    ) as runtime:
        ada = await runtime.agents.ensure("ada")
        report = await ada.context()
        full = report.tokens / report.budget
        await ada.update(paging=Paging(target=full, warn=full + 0.1, evict=1, oversize=0.9))
        turn = await ada.send("?", reply_type=Invoice)
    assert turn.value == INVOICE
    assert turn.steps[1].heartbeat == "pressure"
    assert kinds(model.requests[1])[-2:] == [("heartbeat", "invalid"), ("system_alert", None)]


# ------------------------------------------------------------------ streaming


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("seed", range(4))
async def test_value_is_told_as_it_grows_and_whole_at_the_end(
    tmp_path: Path, style: str, seed: int
) -> None:
    model = ScriptedModel([speak(style, BAD), speak(style, GOOD)], seed=seed)
    async with agent(tmp_path, model, style=style) as ada:
        events: list[Event] = [event async for event in ada.stream("?", reply_type=Invoice)]
    partials = [event for event in events if isinstance(event, ReplyPartial)]
    assert {event.step for event in partials} == {1, 2}
    assert partials[-1].value == json.loads(GOOD)
    for before, after in pairwise(partials):
        assert before.value != after.value or before.step != after.step
    last = events[-1]
    assert isinstance(last, TurnEnded)
    assert isinstance(last.turn, TypedTurn)
    assert last.turn.value == INVOICE
    assert [e.reason for e in events if isinstance(e, HeartbeatEvent)] == ["invalid"]
    assert [e.record.replies for e in events if isinstance(e, StepFinished)] == [(), (GOOD,)]


async def test_stream_ends_in_the_same_error_after_its_last_event(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: say(BAD))
    events: list[Event] = []

    async def listen(stream: AsyncIterator[Event]) -> None:
        async for event in stream:
            events.append(event)

    async with agent(tmp_path, model, limits=Limits(reply_retries=0)) as ada:
        with pytest.raises(ReplyInvalid):
            await listen(ada.stream("?", reply_type=Invoice))
    last = events[-1]
    assert isinstance(last, TurnEnded)
    assert last.turn.stop_reason == "invalid_reply"


# ------------------------------------------------------------------ waiting and crashes


async def test_message_that_waits_keeps_its_type_with_its_validators(tmp_path: Path) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    @tool
    async def wait(context: ToolContext) -> str:
        """Waits."""
        entered.set()
        await leave.wait()
        return "done"

    model = ScriptedModel(
        [
            call("wait", heartbeat=True),
            say("Waited"),
            say('{"number": "B1", "total": 1}'),
            say(GOOD),
        ]
    )
    async with agent(tmp_path, model, tools=(wait,)) as ada:
        first = asyncio.create_task(ada.send("wait"))
        await entered.wait()
        second = asyncio.create_task(ada.send("the invoice", reply_type=Invoice))
        await asyncio.sleep(0.05)
        leave.set()
        assert (await first).reply == "Waited"
        assert (await second).value == INVOICE
        assert ada._scheduler._tasks.expected == {}


DIES = """
import asyncio, os, sys
from pydantic import BaseModel
from pagedaemon import AsyncRuntime
from pagedaemon.testing import ScriptedModel

class Invoice(BaseModel):
    number: str
    total: float

async def main():
    model = ScriptedModel(lambda request: os._exit(9))
    async with AsyncRuntime(sys.argv[1], model="script", models={"script": model}) as runtime:
        ada = await runtime.agents.ensure("ada")
        await ada.send("the invoice", reply_type=Invoice)

asyncio.run(main())
"""


async def test_a_mistake_in_a_validator_ends_the_turn_and_is_the_callers(tmp_path: Path) -> None:
    class Broken(BaseModel):
        number: int

        @field_validator("number")
        @classmethod
        def _broken(cls, number: int) -> int:
            raise LookupError("a mistake")

    answer = say('{"number": 1}')
    model = ScriptedModel([answer, both(answer, call("pay", heartbeat=False)), text("Hello")])

    @tool
    def pay() -> str:
        """Pays."""
        return "paid"

    async with agent(tmp_path, model, tools=(pay,)) as ada:
        for _ in range(2):
            with pytest.raises((LookupError, PagedaemonError)):
                await ada.send("?", reply_type=Broken)
        assert (await ada.send("hello")).reply == "Hello"
        turns = await (await ada.conversations.get()).turns()
    assert [turn.stop_reason for turn in turns] == ["end_turn", "error", "error"]
    assert [turn.replies for turn in turns] == [("Hello",), (), ()]


async def test_offline_model_cannot_and_says_so(tmp_path: Path) -> None:
    async with AsyncRuntime(tmp_path, model="offline") as runtime:
        ada = await runtime.agents.ensure("ada")
        with pytest.raises(ReplyInvalid):
            await ada.send("I'm Lin.", reply_type=Invoice)
        assert "Lin" in ((await ada.send("What is my name?")).reply or "")


@pytest.mark.parametrize("fits", [True, False])
async def test_turn_taken_up_after_a_crash_is_still_held_to_the_schema(
    tmp_path: Path, fits: bool
) -> None:
    died = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DIES, str(tmp_path), env={**os.environ, "PYTHONPATH": RUNTIME}
    )
    assert await died.wait() == 9

    def mind(request: Request) -> Reply:
        return say(GOOD if fits and ("heartbeat", "invalid") in kinds(request) else BAD)

    model = ScriptedModel(mind)
    async with AsyncRuntime(tmp_path, model="script", models={"script": model}) as runtime:
        ada = await runtime.agents.get("ada")
        await ada.send("next")
        _, turn = await (await ada.conversations.get()).turns()
    assert turn.replies == ((GOOD,) if fits else ())
    assert turn.stop_reason == ("end_turn" if fits else "invalid_reply")
    assert [step.heartbeat for step in turn.steps] == [None, "invalid", "invalid"][: 3 - fits]


def test_blocking_door_gives_the_same(tmp_path: Path) -> None:
    model = ScriptedModel([say(GOOD), say(GOOD), say(BAD)])
    with Runtime(tmp_path, model="script", models={"script": model}) as runtime:
        ada = runtime.agents.ensure("ada", limits=Limits(reply_retries=0))
        turn = ada.send("?", reply_type=Invoice)
        assert_type(turn, TypedTurn[Invoice])
        assert turn.value == INVOICE
        *_, last = ada.conversations["main"].stream("?", reply_type=Invoice)
        assert isinstance(last, TurnEnded)
        assert isinstance(last.turn, TypedTurn)
        with pytest.raises(ReplyInvalid):
            ada.conversations["main"].send("?", reply_type=Invoice)
