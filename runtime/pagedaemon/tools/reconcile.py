"""Asking a tool what became of a call that was begun by a process that is gone."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable
from typing import Literal, cast

from pagedaemon.messages import storable
from pagedaemon.resources import Prompts
from pagedaemon.tools.tool import NeverRan, Tool
from pagedaemon.tools.toolbox import Outcome, as_text, ends_us, in_thread, put_down

logger = logging.getLogger("pagedaemon")


PATIENCE = 5.0
"""Seconds a tool has at most to say what became of a call: until it has, its conversation waits."""


async def reconciled(tool: Tool, key: str, prompts: Prompts) -> Outcome | None:
    """What became of a call, as its tool's `reconcile` has it: its result, `unknown` with what
    stood in the way of knowing, or None: it never ran.

    Whatever `reconcile` raises leaves the outcome unknown, a `ToolFailure` too: that a question
    failed says nothing of what was asked about. No answer within the tool's time limit, `PATIENCE`
    at most, leaves it unknown too.

    Args:
        tool: one that has a `reconcile`.
        key: of the call.

    Raises:
        asyncio.CancelledError: the caller was cancelled.
    """
    seconds = min(tool.timeout, PATIENCE)
    task = asyncio.create_task(_asked(tool, key))
    try:
        await asyncio.wait({task}, timeout=seconds)
        in_time = task.done()
    finally:
        await put_down(task)
    if not in_time:
        return not_known(tool, prompts, "late", f"{seconds:g}")
    if task.cancelled():  # it cancelled itself
        return not_known(tool, prompts, "error", asyncio.CancelledError.__name__)
    found, problem = task.result()
    if problem is not None:
        return not_known(tool, prompts, "error", problem)
    if found is None:
        return not_known(tool, prompts, None)
    if isinstance(found, NeverRan) or found is NeverRan:
        return None
    text = as_text(found)
    if not text.strip():
        text = prompts.render("results/empty", tool=tool.name)
    return Outcome("ok", storable(text))


async def _asked(tool: Tool, key: str) -> tuple[object, str | None]:
    """What `reconcile` returned, or else what it raised, in words."""
    assert tool.reconcile is not None
    ask = functools.partial(tool.reconcile, key)
    try:
        if inspect.iscoroutinefunction(tool.reconcile):
            found: object = await cast(Awaitable[object], ask())
        else:
            found = await in_thread(f"reconcile-{tool.name}", ask, {})
            if inspect.isawaitable(found):
                found = await found
    # It is foreign code, as the tool itself is: whatever it raises, the outcome stays unknown.
    except BaseException as error:
        if ends_us(error):
            raise
        logger.warning(
            "tool %s could not be asked what became of a call", tool.name, exc_info=error
        )
        message, name = str(error), type(error).__name__
        return None, f"{name}: {message}" if message else name
    return found, None


def not_known(
    tool: Tool,
    prompts: Prompts,
    problem: Literal["late", "running", "error"] | None,
    detail: str = "",
) -> Outcome:
    """An unknown outcome, with why it could not be found out, as `prompts/results/unknown.j2` words
    it."""
    text = prompts.render("results/unknown", tool=tool.name, problem=problem, detail=detail)
    return Outcome("unknown", storable(text))
