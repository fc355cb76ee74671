"""What goes over the wire, what a call is understood as, and what running a tool comes to."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import enum
import functools
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

import pagedaemon
from pagedaemon.config import MEMGPT, NATIVE, Style
from pagedaemon.errors import ToolDefinitionError, ToolFailure
from pagedaemon.llm.protocol import RawCall
from pagedaemon.resources import Prompts
from pagedaemon.tools.arguments import UNREADABLE
from pagedaemon.tools.tool import ToolContext, internal_tool, tool
from pagedaemon.tools.toolbox import Outcome, Toolbox, Understood

CONTEXT = ToolContext(
    agent_id="agent-1",
    agent_name="ada",
    conversation_id="conversation-1",
    turn_id="turn-1",
    step_id="step-1",
    call_id="call-1",
    key="call-1",
    now=datetime(2026, 11, 30, tzinfo=UTC),
)


class Place(BaseModel):
    """Where."""

    city: str
    zip_code: int | None = None


@tool(effect="read")
def weather(city: str, days: int = 1) -> str:
    """The weather in a city."""
    return f"sunny in {city} for {days}"


@tool
def visit(place: Place) -> str:
    """Goes there."""
    return place.city


def say(message: str) -> str:
    """Speaks."""
    return message


BOX = Toolbox(
    [
        internal_tool(say, description="Speaks.", name="send_message", terminal=True),
        weather,
        visit,
    ],
    missing=["telescope", "weather"],
)


def understood(name: str, arguments: str, style: Style = MEMGPT) -> Understood:
    """A call to one of `BOX`."""
    return BOX.understand(RawCall("call-1", name, arguments), style)


# --- on the wire --------------------------------------------------------------------------------


def test_thoughts_come_first_and_the_flag_last_and_terminal_tools_have_no_flag() -> None:
    speak, look, _ = (dict(its["function"]) for its in BOX.wire(MEMGPT))
    assert list(speak["parameters"]["properties"]) == ["inner_thoughts", "message"]
    assert speak["parameters"]["required"] == ["inner_thoughts", "message"]
    assert list(look["parameters"]["properties"]) == [
        "inner_thoughts",
        "city",
        "days",
        "request_heartbeat",
    ]
    assert look["parameters"]["required"] == ["inner_thoughts", "city", "request_heartbeat"]
    assert look["parameters"]["properties"]["request_heartbeat"]["type"] == "boolean"
    assert look["parameters"]["properties"]["inner_thoughts"]["type"] == "string"
    for added in ("inner_thoughts", "request_heartbeat"):
        assert look["parameters"]["properties"][added]["description"]


def test_a_native_style_adds_nothing() -> None:
    assert [dict(its) for its in BOX.wire(NATIVE)] == [
        {
            "type": "function",
            "function": {
                "name": its.name,
                "description": its.description,
                "parameters": its.parameters,
            },
        }
        for its in (BOX.get(name) for name in BOX.names)
        if its is not None
    ]


def test_the_wire_is_the_same_object_every_time_and_leaves_the_tool_as_it_was() -> None:
    before = json.dumps(weather.parameters)
    assert BOX.wire(MEMGPT) is BOX.wire(MEMGPT)
    assert BOX.wire(NATIVE) is BOX.wire(NATIVE)
    assert json.dumps(weather.parameters) == before


def test_two_toolboxes_of_the_same_tools_put_the_same_bytes_on_the_wire() -> None:
    tools = [made for made in map(BOX.get, BOX.names) if made is not None]
    assert json.dumps(Toolbox(tools).wire(MEMGPT)) == json.dumps(BOX.wire(MEMGPT))


def test_names_keep_their_order_and_missing_tools_are_left_out() -> None:
    assert BOX.names == ("send_message", "weather", "visit")
    assert BOX.missing == ("telescope",)
    assert BOX.get("telescope") is None
    assert BOX.get("weather") is weather


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="'weather'"):
        Toolbox([weather, weather])


# --- understood ---------------------------------------------------------------------------------


def test_a_good_call_is_ready_to_run() -> None:
    raw = '{"inner_thoughts": "Look.", "city": "Rome", "days": "3", "request_heartbeat": true}'
    assert understood("weather", raw) == Understood(
        tool=weather,
        arguments={"city": "Rome", "days": 3},
        plain={"city": "Rome", "days": "3"},
        wire_arguments=raw,
        heartbeat=True,
        thoughts="Look.",
    )


def test_arguments_are_python_values_and_plain_stays_json() -> None:
    call = understood("visit", '{"place": {"city": "Rome"}}')
    assert call.arguments == {"place": Place(city="Rome")}
    assert call.plain == {"place": {"city": "Rome"}}


@pytest.mark.parametrize(
    ("flag", "heartbeat"),
    [
        ("true", True),
        ("1", True),
        ("1.0", True),
        ('"true"', True),
        ('" True "', True),
        ('"yes"', True),
        ("false", False),
        ("0", False),
        ("2", False),
        ('"false"', False),
        ('"perhaps"', False),
        ("null", False),
        ("[true]", False),
    ],
)
def test_the_flag_is_read_leniently(flag: str, heartbeat: bool) -> None:
    call = understood("weather", f'{{"city": "Rome", "request_heartbeat": {flag}}}')
    assert call.error is None
    assert call.heartbeat is heartbeat


def test_missing_flag_and_thoughts_are_no_error() -> None:
    call = understood("weather", '{"city": "Rome"}')
    assert (call.error, call.heartbeat, call.thoughts) == (None, False, "")


def test_a_terminal_tool_asks_for_no_heartbeat() -> None:
    call = understood("send_message", '{"message": "Hi", "request_heartbeat": true}')
    assert call.error is None
    assert call.heartbeat is False


def test_a_native_style_ignores_flag_and_thoughts_that_come_all_the_same() -> None:
    call = understood(
        "weather", '{"city": "Rome", "request_heartbeat": true, "inner_thoughts": "x"}', NATIVE
    )
    assert (call.error, call.heartbeat, call.thoughts) == (None, False, "")
    assert call.arguments == {"city": "Rome"}


def test_thoughts_that_are_no_text_are_kept_as_json() -> None:
    assert understood("weather", '{"city": "A", "inner_thoughts": ["é"]}').thoughts == '["é"]'


def test_an_unknown_tool_is_answered_with_the_names_there_are() -> None:
    call = understood("forecast\ud800", '{"city": "Rome", "request_heartbeat": true}')
    assert call.tool is None
    assert call.error is not None
    assert "forecast\ufffd" in call.error
    assert "send_message, weather, visit" in call.error
    assert call.plain == {"city": "Rome"}


def test_a_missing_tool_is_answered_as_not_available() -> None:
    call = understood("telescope", "{}")
    assert call.tool is None
    assert call.error == Prompts().render("results/missing_tool", tool="telescope")


def test_unreadable_arguments_are_shown_again_in_part() -> None:
    raw = '{"city": "Rome' + "x" * 1_000
    call = understood("weather", raw)
    assert call.tool is weather
    assert (call.arguments, call.plain) == ({}, {})
    assert call.error is not None
    assert "Unterminated string" in call.error
    assert '{"city": "Romex' in call.error
    assert len(call.error) < 600
    assert json.loads(call.wire_arguments) == {UNREADABLE: raw}


def test_arguments_that_do_not_fit_are_answered_with_problems_and_shape() -> None:
    call = understood("visit", '{"place": {"city": {"name": "Rome"}, "zip_code": "x"}}')
    assert call.arguments == {}
    assert call.plain == {"place": {"city": {"name": "Rome"}, "zip_code": "x"}}
    assert call.error is not None
    assert 'place.city: Input should be a valid string, got {"name": "Rome"}' in call.error
    assert "place.zip_code: Input should be a valid integer" in call.error
    shape = "{inner_thoughts: string, place: {city: string, zip_code?: integer | null}, "
    assert shape + "request_heartbeat: boolean}" in call.error


def test_blank_arguments_of_a_tool_that_needs_some_are_an_error() -> None:
    call = understood("send_message", "")
    assert call.error is not None
    assert "message: Field required" in call.error


@settings(deadline=None)
@given(st.sampled_from(["weather", "visit", "telescope", "x"]), st.text())
def test_any_call_is_understood_or_answered(name: str, arguments: str) -> None:
    call = understood(name, arguments)
    assert isinstance(json.loads(call.wire_arguments), dict)
    if call.error is None:
        assert call.tool is not None
    else:
        call.error.encode("utf-8")


# --- run ----------------------------------------------------------------------------------------


async def ran(function: Callable[..., Any], **settings: Any) -> Outcome:
    """What running a function without arguments comes to."""
    made = tool(function, name="it", description="Does it.", **settings)
    return await Toolbox([made]).run(made, {}, CONTEXT)


async def test_sync_and_async_functions_run_with_their_arguments_and_context() -> None:
    @tool
    def sync(a: int, ctx: ToolContext) -> str:
        """Syncs."""
        return f"{a} {ctx.agent_name} {threading.current_thread() is threading.main_thread()}"

    @tool
    async def later(a: int, ctx: ToolContext) -> str:
        """Waits."""
        await asyncio.sleep(0)
        return f"{a} {ctx.agent_name} {threading.current_thread() is threading.main_thread()}"

    box = Toolbox([sync, later])
    assert await box.run(sync, {"a": 1}, CONTEXT) == Outcome("ok", "1 ada False")
    assert await box.run(later, {"a": 1}, CONTEXT) == Outcome("ok", "1 ada True")


async def test_an_async_function_under_a_plain_decorator_is_awaited() -> None:
    async def inner() -> str:
        return "done"

    @functools.wraps(inner)
    def wrapper() -> Any:
        return inner()

    assert await ran(wrapper) == Outcome("ok", "done")


async def test_a_thread_sees_the_context_variables_of_its_caller() -> None:
    request: contextvars.ContextVar[str] = contextvars.ContextVar("request")
    request.set("r-1")
    assert await ran(lambda: request.get()) == Outcome("ok", "r-1")


@dataclasses.dataclass
class Pair:
    """Two things."""

    a: int
    b: datetime


class Named(str, enum.Enum):  # noqa: UP042
    """A text that is also an enumeration."""

    ONE = "one"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is ", "as it is "),
        (Named.ONE, "one"),
        ({"é": [1, None, True]}, '{"é": [1, null, true]}'),
        ([1, "a"], '[1, "a"]'),
        ((1, 2), "[1, 2]"),
        ({3}, "[3]"),
        (Pair(1, datetime(2026, 1, 2, tzinfo=UTC)), '{"a": 1, "b": "2026-01-02T00:00:00Z"}'),
        (Place(city="Rome"), '{"city": "Rome", "zip_code": null}'),
        ([Place(city="A")], '[{"city": "A", "zip_code": null}]'),
        (
            {"a": float("nan"), "b": [float("inf"), {"c": -float("inf")}]},
            '{"a": "NaN", "b": ["Infinity", {"c": "-Infinity"}]}',
        ),
        ({"a": object}, '{"a": "<class \'object\'>"}'),
        (Pair, f"{Pair!r}"),
        (3, "3"),
        (True, "True"),
        (2.5, "2.5"),
        (Path("a/b"), "a/b"),
        ("a\x00b\ud800", "a\ufffdb\ufffd"),
        ({"a": "\ud800"}, '{"a": "\ufffd"}'),
    ],
    ids=repr,
)
async def test_a_result_becomes_text(value: Any, text: str) -> None:
    assert await ran(lambda: value) == Outcome("ok", text)


@pytest.mark.parametrize("nothing", [None, "", " \n"])
async def test_no_result_says_so(nothing: str | None) -> None:
    outcome = await ran(lambda: nothing)
    assert outcome.status == "ok"
    assert "it ran and returned nothing" in outcome.text


async def test_data_that_refers_to_itself_is_still_a_result() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    assert await ran(lambda: loop) == Outcome("ok", "[1, [...]]")


def raising(error: BaseException) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A sync and an async function that raise it."""

    def sync() -> None:
        raise error

    async def later() -> None:
        raise error

    return sync, later


@pytest.mark.parametrize("which", [0, 1], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ToolFailure("no such city"), "it failed: no such city"),
        (ToolFailure(), "it failed: ToolFailure"),
        (KeyError("x"), "it failed: KeyError: 'x'"),
        (ValueError(), "it failed: ValueError"),
        (TimeoutError("their own"), "it failed: TimeoutError: their own"),
        (ValueError("\ud800\x00"), "it failed: ValueError: \ufffd\ufffd"),
        (StopIteration(), "it failed: RuntimeError: coroutine raised StopIteration"),
        (SystemExit(2), "it failed: SystemExit: 2"),
        (ExceptionGroup("two", [ValueError("a")]), "it failed: ExceptionGroup: two"),
    ],
    ids=repr,
)
async def test_what_a_function_raises_is_told_to_the_model(
    error: BaseException, told: str, which: int
) -> None:
    outcome = await ran(raising(error)[which])
    assert outcome.status == "failed"
    assert told in outcome.text


async def test_an_unexpected_exception_is_logged_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await ran(raising(ToolFailure("expected"))[0])
    assert caplog.records == []
    await ran(raising(KeyError("x"))[0])
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[0] is KeyError
    assert "it" in record.getMessage()


async def forever() -> None:
    """Never ends by itself."""
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("effect", "status"), [("read", "failed"), ("idempotent", "failed"), ("once", "unknown")]
)
async def test_an_async_function_past_its_limit_is_cancelled(effect: str, status: str) -> None:
    ended = asyncio.Event()

    async def slow() -> None:
        try:
            await forever()
        finally:
            ended.set()

    outcome = await ran(slow, effect=effect, timeout=0.02)
    assert outcome.status == status
    assert "within 0.02 seconds" in outcome.text
    assert ("unknown" in outcome.text) is (status == "unknown")
    assert ended.is_set()


@pytest.mark.parametrize("effect", ["read", "idempotent", "once"])
async def test_a_thread_past_its_limit_is_unknown_whatever_its_effect(effect: str) -> None:
    release, ended = threading.Event(), threading.Event()

    def slow() -> None:
        release.wait(5)
        ended.set()

    outcome = await ran(slow, effect=effect, timeout=0.02)
    assert outcome.status == "unknown"
    assert not ended.is_set()
    release.set()
    assert ended.wait(5)


async def test_a_result_that_comes_with_the_cancellation_counts() -> None:
    async def tidy() -> str:
        try:
            await forever()
        except asyncio.CancelledError:
            return "so far"
        return "all"

    assert await ran(tidy, timeout=0.02) == Outcome("ok", "so far")


async def test_an_error_that_comes_with_the_cancellation_leaves_the_outcome_unknown() -> None:
    async def untidy() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            raise ValueError("interrupted") from None

    assert (await ran(untidy, timeout=0.02)).status == "unknown"


async def test_a_function_that_will_not_be_cancelled_does_not_hold_the_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pagedaemon.tools.toolbox.GRACE", 0.02)
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    outcome = await ran(stubborn, effect="read", timeout=0.02)
    assert outcome.status == "unknown"
    release.set()
    await asyncio.sleep(0)


async def test_cancelling_the_caller_cancels_the_function_and_passes_through() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        started.set()
        try:
            await forever()
        finally:
            ended.set()

    task = asyncio.create_task(ran(slow))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


@pytest.mark.parametrize("which", [0, 1], ids=["sync", "async"])
@pytest.mark.parametrize(
    "error",
    [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(3), GeneratorExit()],
    ids=lambda error: type(error).__name__,
)
async def test_what_would_end_the_program_is_a_result_where_a_function_raises_it(
    which: int, error: BaseException
) -> None:
    outcome = await ran(raising(error)[which])
    assert outcome.status == "failed"
    assert type(error).__name__ in outcome.text


async def test_a_function_that_cancels_itself_has_failed() -> None:
    async def quits() -> None:
        """Cancels the task it runs in."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)

    outcome = await ran(quits)
    assert (outcome.status, "CancelledError" in outcome.text) == ("failed", True)


def test_a_thread_that_outlives_its_event_loop_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    release = threading.Event()
    outcome = asyncio.run(ran(lambda: release.wait(5), timeout=0.02))
    assert outcome.status == "unknown"
    release.set()
    deadline = time.monotonic() + 5
    while "loop was closed" not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "loop was closed" in caplog.text


def test_a_hanging_thread_does_not_keep_the_process_from_ending(tmp_path: Path) -> None:
    script = tmp_path / "hang.py"
    script.write_text(
        "import asyncio, threading\n"
        "from datetime import UTC, datetime\n"
        "from pagedaemon.tools.tool import ToolContext, tool\n"
        "from pagedaemon.tools.toolbox import Toolbox\n"
        "@tool(timeout=0.05)\n"
        "def hang() -> None:\n"
        "    'Hangs.'\n"
        "    threading.Event().wait()\n"
        "context = ToolContext('a', 'b', 'c', 'd', 'e', 'f', 'g', datetime.now(UTC))\n"
        "print(asyncio.run(Toolbox([hang]).run(hang, {}, context)).status)\n"
    )
    source_root = str(Path(pagedaemon.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, str(script)],
        env={"PYTHONPATH": source_root},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stdout == "unknown\n", done.stderr
    assert done.returncode == 0


async def test_calls_run_side_by_side() -> None:
    both = threading.Barrier(2, timeout=5)
    made = tool(lambda: both.wait() >= 0, name="meet", description="Meets.", effect="read")
    box = Toolbox([made])
    outcomes = await asyncio.gather(*(box.run(made, {}, CONTEXT) for _ in range(2)))
    assert [outcome.text for outcome in outcomes] == ["True", "True"]
