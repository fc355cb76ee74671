"""Asking a tool what became of a call that a crash cut off."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from pagedaemon import NeverRan, ToolFailure, tool
from pagedaemon.errors import ToolDefinitionError
from pagedaemon.resources import Prompts
from pagedaemon.tools import reconcile
from pagedaemon.tools.reconcile import reconciled
from pagedaemon.tools.tool import Tool
from pagedaemon.tools.toolbox import Outcome

PROMPTS = Prompts()


def charging(reconcile: Any, timeout: float = 5.0) -> Tool:
    """A tool that says of a key what this function does."""

    @tool(reconcile=reconcile, timeout=timeout)
    def charge(order: int) -> str:
        """Charges an order to the card."""
        return f"order {order} is charged"

    return charge


async def asked(reconcile: Any, seconds: float = 5.0) -> Outcome | None:
    """What is made of its answer for the key `call-1`."""
    return await reconciled(charging(reconcile, seconds), "call-1", PROMPTS)


async def test_it_is_asked_by_the_key_and_its_answer_is_the_result() -> None:
    assert await asked(lambda key: f"{key} is charged") == Outcome("ok", "call-1 is charged")
    assert await asked(lambda key: {"charged": key}) == Outcome("ok", '{"charged": "call-1"}')


async def test_an_async_one_is_awaited_on_the_loop_and_any_other_runs_in_a_thread() -> None:
    where: list[threading.Thread] = []

    async def awaited(key: str) -> str:
        where.append(threading.current_thread())
        return key

    def called(key: str) -> str:
        where.append(threading.current_thread())
        return key

    assert await asked(awaited) == await asked(called) == Outcome("ok", "call-1")
    assert where[0] is threading.current_thread()
    assert where[1] is not threading.current_thread()


async def test_an_answer_without_words_is_still_a_result() -> None:
    found = await asked(lambda key: "")
    assert found == Outcome("ok", PROMPTS.render("results/empty", tool="charge"))


@pytest.mark.parametrize("never", [NeverRan(), NeverRan])
async def test_a_call_that_never_ran_has_no_outcome(never: object) -> None:
    assert await asked(lambda key: never) is None


async def test_none_is_no_answer() -> None:
    told = PROMPTS.render("results/unknown", tool="charge", problem=None, detail="")
    assert await asked(lambda key: None) == Outcome("unknown", told)


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (ConnectionError("no route"), "ConnectionError: no route"),
        (ToolFailure("declined"), "ToolFailure: declined"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (asyncio.CancelledError(), "CancelledError"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("is_async", [False, True])
async def test_whatever_it_raises_the_outcome_is_unknown_and_says_so(
    raised: BaseException, said: str, is_async: bool
) -> None:
    def called(key: str) -> str:
        raise raised

    async def awaited(key: str) -> str:
        raise raised

    found = await asked(awaited if is_async else called)
    assert found is not None
    assert found.status == "unknown"
    assert f"could not be found out ({said})" in found.text


@pytest.mark.parametrize("is_async", [False, True])
async def test_one_that_gives_no_answer_in_time_leaves_it_unknown(is_async: bool) -> None:
    never = threading.Event()

    async def awaited(key: str) -> str:
        await asyncio.sleep(60)
        return "charged"

    found = await asked(awaited if is_async else lambda key: never.wait(5), seconds=0.05)
    never.set()
    assert found is not None
    assert found.status == "unknown"
    assert "no answer within 0.05 seconds" in found.text


async def test_a_tool_with_much_time_has_little_to_answer_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reconcile, "PATIENCE", 0.05)

    async def awaited(key: str) -> str:
        await asyncio.sleep(1)
        return "charged"

    found = await asked(awaited, seconds=60.0)
    assert found is not None
    assert found.status == "unknown"
    assert "no answer within 0.05 seconds" in found.text


async def test_a_caller_that_is_cancelled_cancels_the_question() -> None:
    stopped = asyncio.Event()

    async def awaited(key: str) -> str:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()
        return "charged"

    asking = asyncio.create_task(asked(awaited))
    await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert stopped.is_set()


@pytest.mark.parametrize("effect", ["read", "idempotent"])
def test_only_a_tool_that_must_not_run_twice_has_one(effect: Any) -> None:
    with pytest.raises(ToolDefinitionError, match="reconcile is for effect='once'"):

        @tool(effect=effect, reconcile=lambda key: None)
        def look(order: int) -> str:
            """Looks an order up."""
            return ""


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="reconcile is a function of the call's key"):
        charging("charged")
