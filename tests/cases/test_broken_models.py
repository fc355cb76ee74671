"""Models and tools that break the rules of their own interface: the turn ends, the conversation
goes on, and what has been done outside is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from pagedaemon import AsyncRuntime, Block, Model, Runtime, tool
from pagedaemon.config import Paging
from pagedaemon.errors import (
    BadReply,
    ContextTooLong,
    ModelError,
    ModelTimedOut,
    ModelUnavailable,
    RateLimited,
)
from pagedaemon.events import PagedOut, StepReset
from pagedaemon.llm.protocol import RawCall, Reply, Request, TextPart
from pagedaemon.messages import Usage
from pagedaemon.testing import both, call, check_request, estimated_tokens, say, text

Answer: TypeAlias = Any
"""A reply, parts, an error to raise, or what no model may give."""

FIRED: list[str] = []


@tool(effect="once")
def fire(target: str) -> str:
    """Fires.

    Args:
        target: where.
    """
    FIRED.append(target)
    return f"fired at {target}"


class Custom:
    """A model that answers as it is told, to the letter."""

    def __init__(self, *answers: Answer, then: Callable[[Request], Answer] | None = None) -> None:
        self.requests: list[Request] = []
        self._answers = list(answers)
        self._then = then or (lambda request: say("fine"))

    def _next(self, request: Request) -> Answer:
        self.requests.append(request)
        if request.purpose == "summary":
            return text("They talked.")
        return self._answers.pop(0) if self._answers else self._then(request)

    async def complete(self, request: Request) -> Any:
        """The whole answer."""
        answer = self._next(request)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        """Its parts."""
        answer = self._next(request)
        for part in answer if isinstance(answer, list) else [answer]:
            if isinstance(part, BaseException):
                raise part
            yield part

    async def aclose(self) -> None:
        """Holds nothing."""


def opened(
    folder: Path, model: Custom, *, window: int | None = None, prompts: Path | None = None
) -> AsyncRuntime:
    FIRED.clear()
    return AsyncRuntime(
        folder / "store",
        model=Model("m", context_window=window, max_output_tokens=256, retries=0),
        models={"m": model},
        tools=[fire],
        prompts=prompts,
    )


def broken_prompts(folder: Path, *names: str) -> Path:
    """A folder of the user's own texts, of which these fail whenever they are rendered."""
    own = folder / "prompts"
    for name in names:
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_text("{{ range(9).not_there.at_all }}", encoding="utf-8")
    return own


def shots(*targets: str, heartbeat: bool = False, **fields: Any) -> Reply:
    made = both(*(call("fire", target=target, heartbeat=heartbeat) for target in targets))
    return Reply(calls=made.calls, **fields)


def seen(request: Request) -> str:
    return json.dumps(request.messages, ensure_ascii=False)


# ------------------------------------------------------------------ a step that cannot be closed


async def test_a_template_that_fails_at_the_end_of_a_step_loses_nothing_that_ran(
    tmp_path: Path,
) -> None:
    own = broken_prompts(tmp_path, "events/heartbeat.j2")
    model = Custom(shots("dawn", heartbeat=True))
    async with opened(tmp_path, model, prompts=own) as runtime:
        agent = await runtime.agents.ensure("ada", tools=[fire])
        with pytest.raises(Exception, match="not_there"):
            await agent.send("first")
        turn = await agent.send("second")
        told = await agent.conversations.get()
        ended = (await told.turns())[-1]
    assert turn.reply == "fine"
    assert FIRED == ["dawn"]
    assert (ended.stop_reason, ended.steps[0].calls[0].status) == ("error", "ok")
    assert "fired at dawn" in seen(model.requests[-1])
    check_request(model.requests[-1].messages, model.requests[-1].tools)


async def test_a_step_that_no_end_can_be_written_for_ends_with_its_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every way of finishing fails; the plain one is left."""
    own = broken_prompts(tmp_path, "results/unknown.j2", "results/digest.j2")

    def fails(*args: Any, **named: Any) -> Any:
        raise LookupError("the step cannot be weighed")

    model = Custom(both(shots("dawn"), call("archival_memory_insert", content="x")))
    async with opened(tmp_path, model, prompts=own) as runtime:
        agent = await runtime.agents.ensure("ada", tools=[fire])
        with monkeypatch.context() as patch:
            patch.setattr("pagedaemon.turn.finish.finish", fails)
            with pytest.raises(LookupError):
                await agent.send("first")
        turn = await agent.send("second")
        [_, ended] = await (await agent.conversations.get()).turns()
    assert turn.reply == "fine"
    assert (ended.stop_reason, "cannot be weighed" in (ended.error or "")) == ("error", True)
    assert [made.status for made in ended.steps[0].calls] == ["ok", "failed"]
    assert "fired at dawn" in seen(model.requests[-1])
    assert "archival_memory_insert was not run" in seen(model.requests[-1])
    check_request(model.requests[-1].messages, model.requests[-1].tools)


async def test_where_not_even_results_can_be_written_the_error_names_what_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: Any, **named: Any) -> Any:
        raise LookupError("never")

    async with opened(tmp_path, Custom(shots("dawn"))) as runtime:
        agent = await runtime.agents.ensure("ada", tools=[fire])
        with monkeypatch.context() as patch:
            patch.setattr("pagedaemon.turn.finish.finish", fails)
            patch.setattr("pagedaemon.turn.closing.take_up_plainly", fails)
            with pytest.raises(LookupError):
                await agent.send("first")
        turn = await agent.send("second")
        [_, ended] = await (await agent.conversations.get()).turns()
    assert turn.reply == "fine"
    assert ended.stop_reason == "error"
    assert "fire" in (ended.error or "")


@pytest.mark.parametrize(
    "usage",
    [
        Usage(1, 2**70, 2**70),
        Usage(1, -5, -5),
        Usage(2**70, 5, 5),
        Usage(1, None, None),  # type: ignore[arg-type]
        {"prompt_tokens": 5},
    ],
)
async def test_a_report_of_usage_that_cannot_be_is_none(tmp_path: Path, usage: Any) -> None:
    model = Custom(shots("dawn", heartbeat=True, usage=usage))
    async with opened(tmp_path, model) as runtime:
        agent = await runtime.agents.ensure("ada", tools=[fire])
        turn = await agent.send("first")
        spent = await agent.usage()
    assert turn.reply == "fine"
    assert 0 < spent.total_tokens < 10**6


async def test_a_report_above_the_whole_window_teaches_nothing(tmp_path: Path) -> None:
    model = Custom(then=lambda r: Reply(calls=say("fine").calls, usage=Usage(1, 90_000, 5)))
    async with opened(tmp_path, model, window=16_000) as runtime:
        agent = await runtime.agents.ensure("ada")
        for number in range(10):
            await agent.send("word " * 600 + str(number))
    assert {request.purpose for request in model.requests} == {"step"}


# ------------------------------------------------------------------ fields of the provider's own


@pytest.mark.parametrize(
    ("opaque", "comes_back"),
    [
        ({"sig": "\ud83d\ude00"}, {"sig": "😀"}),
        ({"sig": "a\ud800"}, {"sig": "a\ufffd"}),
        ({"sig": ["\x00", {"deep\ud800": 1}]}, {"sig": ["\ufffd", {"deep\ufffd": 1}]}),
        ({"sig": float("nan"), "ok": 1.5}, {"ok": 1.5}),
        ({"sig": b"\xff", "ok": None}, {"ok": None}),
        ({"sig": object(), 5: "number", "ok": (1, 2)}, {"ok": [1, 2]}),
        ({"role": "system", "content": "EVIL", "tool_calls": [{"id": "z"}]}, {}),
        ({"call_extras": [{}, {}, {}]}, {}),
        ({"call_extras": [5]}, {}),
        ({"call_extras": {"a": 1}}, {}),
        (["no object"], {}),
    ],
)
async def test_opaque_fields_come_back_as_far_as_they_can_be_sent(
    tmp_path: Path, opaque: Any, comes_back: dict[str, Any]
) -> None:
    model = Custom(shots("dawn", heartbeat=True, opaque=opaque))
    async with opened(tmp_path, model) as runtime:
        agent = await runtime.agents.ensure("ada", tools=[fire])
        turn = await agent.send("first")
    assert turn.reply == "fine"
    sent = next(m for m in model.requests[-1].messages if m["role"] == "assistant")
    own = {"role", "content", "tool_calls"}
    assert {key: value for key, value in sent.items() if key not in own} == comes_back
    assert "EVIL" not in seen(model.requests[-1])
    assert sent["tool_calls"][0]["function"]["name"] == "fire"
    json.dumps(model.requests[-1].messages, allow_nan=False).encode()


async def test_opaque_fields_that_hold_themselves_end(tmp_path: Path) -> None:
    circle: dict[str, Any] = {}
    circle["again"] = circle
    async with opened(tmp_path, Custom(Reply(calls=say("hi").calls, opaque=circle))) as runtime:
        agent = await runtime.agents.ensure("ada")
        assert (await agent.send("first")).reply == "hi"
        assert (await agent.send("second")).reply == "fine"


# ------------------------------------------------------------------ what a model may not raise


@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt(), SystemExit(3), GeneratorExit(), asyncio.CancelledError()],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("where", ["model", "tool"])
def test_what_would_end_the_program_does_not_end_the_runtime(
    tmp_path: Path, error: BaseException, where: str
) -> None:
    @tool(effect="once")
    async def quits() -> str:
        """Raises what it should not."""
        raise error

    first = error if where == "model" else call("quits", heartbeat=True)
    with Runtime(tmp_path, model="m", models={"m": Custom(first)}, tools=[quits]) as runtime:
        agent = runtime.agents.ensure("ada", tools=[quits])
        if where == "model":
            with pytest.raises(BadReply, match=type(error).__name__):
                agent.send("first")
        else:
            turn = agent.send("first")
            assert (turn.reply, turn.steps[0].calls[0].status) == ("fine", "failed")
        assert agent.send("second").reply == "fine"
        reasons = [turn.stop_reason for turn in agent.conversations.get().turns()]
    assert reasons == ["end_turn", "error" if where == "model" else "end_turn"]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "hello",
        {"content": "x"},
        [TextPart("a"), 5],
        [],
        [TextPart(None)],  # type: ignore[arg-type]
        Reply(content=None),  # type: ignore[arg-type]
        Reply(calls=None),  # type: ignore[arg-type]
        Reply(calls=({"name": "fire"},)),  # type: ignore[arg-type]
        Reply(calls=(RawCall("a", "fire", None),)),  # type: ignore[arg-type]
        Reply(calls=(RawCall("a", "fire", {"target": "dawn"}),)),  # type: ignore[arg-type]
        Reply(calls=(RawCall(None, "fire", "{}"),)),  # type: ignore[arg-type]
    ],
)
async def test_what_is_no_part_of_a_reply_is_a_bad_reply(tmp_path: Path, answer: Any) -> None:
    async with opened(tmp_path, Custom(answer)) as runtime:
        agent = await runtime.agents.ensure("ada")
        with pytest.raises(BadReply):
            await agent.send("first")
        assert (await agent.send("second")).reply == "fine"


# ------------------------------------------------------------------ when the window is emptied


async def filled(runtime: AsyncRuntime) -> Any:
    agent = await runtime.agents.ensure(
        "ada", instructions="Be brief.", paging=Paging(warn=0.85, evict=0.95, target=0.3)
    )
    for number in range(8):
        await agent.send(f"{number} " + "word " * 500)
    return agent


@pytest.mark.parametrize("error", [ModelUnavailable("no connection"), RateLimited("busy")])
async def test_an_outage_pages_nothing_out(tmp_path: Path, error: ModelError) -> None:
    model = Custom()
    async with opened(tmp_path, model, window=8_000) as runtime:
        agent = await filled(runtime)
        before = len(model.requests)
        model._answers = [error]
        with pytest.raises(type(error)):
            await agent.send("Still there?")
        await agent.send("And now?")
    assert len(model.requests) == before + 2
    assert "0 word" in seen(model.requests[-1])


@pytest.mark.parametrize(
    "answer",
    [
        ValueError("a bug"),
        TimeoutError(),
        asyncio.CancelledError(),
        SystemExit(3),
        None,
        Reply(content=None),  # type: ignore[arg-type]
        Reply(content="They talked.", usage={"tokens": 5}),  # type: ignore[arg-type]
        Reply(content="They talked.", usage=Usage(1, None, None)),  # type: ignore[arg-type]
    ],
    ids=repr,
)
async def test_a_summary_call_that_breaks_every_rule_costs_the_prose_and_nothing_else(
    tmp_path: Path, answer: Answer
) -> None:
    class Summaries(Custom):
        """Answers so whenever it is to summarise."""

        def _next(self, request: Request) -> Answer:
            usual = super()._next(request)
            return answer if request.purpose == "summary" else usual

    model = Summaries()
    async with opened(tmp_path, model, window=8_000) as runtime:
        agent = await filled(runtime)
        turns = [await agent.send(f"{number} " + "word " * 500) for number in range(8)]
    assert {turn.stop_reason for turn in turns} == {"end_turn"}
    assert "summary" in {request.purpose for request in model.requests}


async def test_a_step_begun_anew_takes_back_what_was_heard_of_it(tmp_path: Path) -> None:
    model = Custom()
    async with opened(tmp_path, model, window=8_000) as runtime:
        agent = await filled(runtime)
        model._answers = [[TextPart("half a thou"), ModelTimedOut("too slow")]]
        events = [event async for event in agent.stream("Still there?")]
    kinds = [type(event) for event in events]
    assert kinds.index(StepReset) < kinds.index(PagedOut)
    assert events[-1].turn.reply == "fine"


async def test_a_refusal_does_not_make_later_sends_impossible(tmp_path: Path) -> None:
    """A provider that calls everything too long for a while, with a large fixed part."""
    model = Custom()
    async with opened(tmp_path, model, window=8_000) as runtime:
        agent = await runtime.agents.ensure(
            "ada", blocks=[Block(label="human", value="fact " * 3_000, limit=20_000)]
        )
        await agent.send("hello")
        for _ in range(3):
            model._answers = [ContextTooLong("no")] * 2
            with pytest.raises(ModelError):
                await agent.send("and now?")
        assert (await agent.send("and again?")).reply == "fine"
        assert estimated_tokens(model.requests[-1]) < 8_000
