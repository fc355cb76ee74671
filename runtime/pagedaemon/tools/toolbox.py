"""The tools an agent has: as they go over the wire, a call to one understood, and run.

What a call comes to is a value, for the model to read; only the caller's own cancellation leaves
`run` as an exception.
"""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import inspect
import json
import logging
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from pagedaemon.config import Style
from pagedaemon.errors import ToolDefinitionError, ToolFailure
from pagedaemon.llm.protocol import RawCall, WireTool
from pagedaemon.messages import storable
from pagedaemon.resources import Prompts
from pagedaemon.tools.arguments import read_arguments
from pagedaemon.tools.schema import HEARTBEAT, RESERVED, THOUGHTS, problems, shape
from pagedaemon.tools.tool import Tool, ToolContext

logger = logging.getLogger(__name__)

GRACE = 1.0
"""Seconds a cancelled tool has to end before it is left behind."""

EXCERPT = 200
"""Characters of unreadable arguments that the model is shown again."""

_left_behind: set[asyncio.Task[Any]] = set()
"""Tools that would not be cancelled, kept to their end: the event loop holds tasks weakly."""


@dataclass(frozen=True, slots=True)
class Understood:
    """A model's call, read and checked. Where `error` is set, the tool must not run."""

    tool: Tool | None
    """None where there is no such tool, or not its code."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Checked keyword arguments, as Python values. Empty where `error` is set."""
    plain: dict[str, Any] = field(default_factory=dict)
    """The object the model gave, as JSON values, without what its style added. Empty where
    unreadable."""
    wire_arguments: str = "{}"
    """A valid JSON object to send again; the model's own text to the letter where that is one."""
    heartbeat: bool = False
    """Whether the call asks to think again."""
    thoughts: str = ""
    """What the model thought with it, where its style has thoughts in arguments."""
    error: str | None = None
    """What the model is told in place of a result."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What running a tool came to."""

    status: Literal["ok", "failed", "unknown"]
    """`unknown`: nobody saw the end, and it may still take effect."""
    text: str
    """For the model: never blank, whole, and storable."""


class Toolbox:
    """An agent's tools, in order. Immutable.

    Args:
        tools: what the model may call.
        prompts: where the texts for the model come from; default: the shipped ones.
        missing: tools the agent was given once and whose code is not here now. They are left off
            the wire, and a call to one says so.

    Raises:
        ToolDefinitionError: two tools have one name.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        prompts: Prompts | None = None,
        missing: Iterable[str] = (),
    ) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise ToolDefinitionError(
                    f"two tools are called {tool.name!r}: rename one with tool(name=...)"
                )
            self._tools[tool.name] = tool
        self._prompts = Prompts() if prompts is None else prompts
        self.missing: tuple[str, ...] = tuple(name for name in missing if name not in self._tools)
        self._wire: dict[tuple[bool, bool], tuple[WireTool, ...]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The tools' names, in order."""
        return tuple(self._tools)

    def get(self, name: str) -> Tool | None:
        """The tool of that name, or None."""
        return self._tools.get(name)

    def wire(self, style: Style) -> tuple[WireTool, ...]:
        """The tools as a request carries them: always the same objects for the same style.

        `inner_thoughts` comes first, so that a model thinks before it fills in the rest;
        `request_heartbeat` last, when it knows what it has asked for.
        """
        key = (style.heartbeat_flag, style.thoughts == "argument")
        if key not in self._wire:
            self._wire[key] = tuple(
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": self._parameters(tool, style),
                    },
                }
                for tool in self._tools.values()
            )
        return self._wire[key]

    def understand(self, call: RawCall, style: Style) -> Understood:
        """A model's call, read and checked against the tool it names. Never raises.

        The flag counts as set when it is true, 1, or one of these words as text; without it, it is
        not. Thoughts may be missing. A style that has neither ignores both where they come all the
        same.
        """
        read = read_arguments(call.arguments)
        given = dict(read.value or {})
        thoughts = _as_thoughts(given.get(THOUGHTS))
        flag = style.heartbeat_flag and _is_set(given.get(HEARTBEAT))
        plain = {name: value for name, value in given.items() if name not in RESERVED}
        tool = self._tools.get(call.name)
        understood = Understood(
            tool=tool,
            plain=plain,
            wire_arguments=read.wire,
            heartbeat=flag and not (tool is not None and tool.terminal),
            thoughts=thoughts if style.thoughts == "argument" else "",
        )
        if tool is None:
            return dataclasses.replace(understood, error=self._absent(storable(call.name)))
        if read.value is None:
            excerpt = storable(call.arguments[:EXCERPT])
            error = self._prompts.render(
                "results/unreadable_arguments",
                tool=tool.name,
                error=read.problem,
                excerpt=excerpt,
            )
            return dataclasses.replace(understood, error=error)
        try:
            return dataclasses.replace(understood, arguments=tool.signature.read(plain))
        except ValidationError as error:
            told = self._prompts.render(
                "results/bad_arguments",
                tool=tool.name,
                problems=problems(error, plain),
                shape=shape(self._parameters(tool, style)),
            )
            return dataclasses.replace(understood, error=storable(told))

    async def run(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> Outcome:
        """Runs a tool that has outside effects or reads the outside, within its time limit.

        An async function is awaited, any other runs in a daemon thread of its own, which never
        keeps the process from ending. What the function raises is for the model to read, with its
        type; a `ToolFailure` is its text alone. Past the limit, an async function is cancelled:
        `failed` where it may be run again (`read`, `idempotent`), `unknown` for `once`. A thread
        cannot be stopped, so its outcome is `unknown` whatever its effect.

        Args:
            tool: one whose effect is not `internal`.
            arguments: as `understand` gave them.
            context: for functions that ask for it.

        Raises:
            asyncio.CancelledError: the caller was cancelled; an async function was too.
        """
        assert tool.effect != "internal", "effects are applied by the loop, in its transaction"
        task = asyncio.create_task(self._attempt(tool, tool.bound(arguments, context)))
        try:
            await asyncio.wait({task}, timeout=tool.timeout)
            in_time = task.done()
        finally:
            await put_down(task)
        if task.done() and not task.cancelled():
            outcome = task.result()
            if in_time or outcome.status == "ok":
                return outcome
        elif in_time:  # it cancelled itself
            return Outcome("failed", self._failed(tool, asyncio.CancelledError.__name__))
        stopped = tool.is_async and task.done()
        unknown = not stopped or tool.effect == "once"
        logger.warning("tool %s gave no answer within %g s", tool.name, tool.timeout)
        text = self._prompts.render(
            "results/timeout", tool=tool.name, seconds=f"{tool.timeout:g}", unknown=unknown
        )
        return Outcome("unknown" if unknown else "failed", text)

    async def _attempt(self, tool: Tool, arguments: dict[str, Any]) -> Outcome:
        try:
            if tool.is_async:
                value = await tool.function(**arguments)
            else:
                value = await in_thread(tool.name, tool.function, arguments)
                if inspect.isawaitable(value):  # an async function under a plain decorator
                    value = await value
            text = as_text(value)
        except ToolFailure as failure:
            return Outcome("failed", self._failed(tool, str(failure) or type(failure).__name__))
        # The model is who must act on whatever a user's function raises; it reads it as the result.
        # That includes what would end this thread, and with it every other turn.
        except BaseException as error:
            if ends_us(error):
                raise
            logger.warning("tool %s failed", tool.name, exc_info=error)
            message = str(error)
            name = type(error).__name__
            return Outcome("failed", self._failed(tool, f"{name}: {message}" if message else name))
        if not text.strip():
            return Outcome("ok", self._prompts.render("results/empty", tool=tool.name))
        return Outcome("ok", storable(text))

    def _failed(self, tool: Tool, error: str) -> str:
        return storable(self._prompts.render("results/failed", tool=tool.name, error=error))

    def _absent(self, name: str) -> str:
        if name in self.missing:
            return self._prompts.render("results/missing_tool", tool=name)
        return self._prompts.render("results/unknown_tool", tool=name, tools=list(self._tools))

    def _parameters(self, tool: Tool, style: Style) -> dict[str, Any]:
        """A tool's parameters with what the style adds."""
        properties = dict(tool.parameters["properties"])
        required = list(tool.parameters.get("required", ()))
        if style.thoughts == "argument":
            about = self._prompts.render("tools/inner_thoughts")
            properties = {THOUGHTS: {"type": "string", "description": about}, **properties}
            required = [THOUGHTS, *required]
        if style.heartbeat_flag and not tool.terminal:
            about = self._prompts.render("tools/request_heartbeat")
            properties[HEARTBEAT] = {"type": "boolean", "description": about}
            required.append(HEARTBEAT)
        added: dict[str, Any] = {"properties": properties}
        if required:
            added["required"] = required
        return {"type": "object", **added, "additionalProperties": False}


def ends_us(error: BaseException) -> bool:
    """Whether what foreign code raised is the end of the task it runs in, which somebody cancelled
    or threw away, and nothing of its own."""
    if not isinstance(error, asyncio.CancelledError | GeneratorExit):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop is running
        return True
    cancelled = isinstance(error, asyncio.CancelledError)
    return task is None or (cancelled and task.cancelling() > 0)


def _is_set(flag: object) -> bool:
    if isinstance(flag, str):
        return flag.strip().lower() in ("true", "yes", "1")
    return flag is True or (isinstance(flag, int | float) and flag == 1)


def _as_thoughts(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def as_text(value: object) -> str:
    """A result as text: data as JSON, text as it is, None as nothing, anything else by its
    `str`."""
    if value is None:
        return ""
    if isinstance(value, str):
        return str.__str__(value)
    is_data = isinstance(value, BaseModel | Mapping | list | tuple | set | frozenset)
    if is_data or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        try:
            plain = to_jsonable_python(value, fallback=str, bytes_mode="base64")
            return json.dumps(_finite(plain), ensure_ascii=False)
        except (PydanticSerializationError, ValueError, TypeError, RecursionError):
            # Data that refers to itself. The tool did run, so this is no failure of it.
            return str(value)
    return str(value)


def _finite(plain: Any) -> Any:
    """JSON has no NaN and no infinities: they become texts, which still say what was there."""
    if isinstance(plain, float) and not math.isfinite(plain):
        if math.isnan(plain):
            return "NaN"
        return "Infinity" if plain > 0 else "-Infinity"
    if isinstance(plain, dict):
        return {key: _finite(value) for key, value in plain.items()}
    return [_finite(value) for value in plain] if isinstance(plain, list) else plain


async def in_thread(name: str, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """The function's value or exception, from a daemon thread.

    A pool of the standard library would wait for its threads at exit, and one tool that hangs would
    take a place in it for ever.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if not ended.done():
            ended.set_result((value, error))

    def work() -> None:
        value, error = None, None
        try:
            value = context.run(function, **arguments)
        # Carried over whatever it is, and raised where it is awaited.
        except BaseException as raised:  # noqa: BLE001
            error = raised
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:  # the loop was closed meanwhile: nobody waits any more
            logger.warning("tool %s ended after its event loop was closed", name)

    threading.Thread(target=work, name=f"tool-{name}", daemon=True).start()
    value, error = await ended
    if error is not None:
        raise error
    return value


async def put_down(task: asyncio.Task[Any]) -> None:
    """Cancels a task that is still running and waits a moment for its end."""
    if task.done():
        if not task.cancelled():
            task.exception()  # now it counts as seen, also where the caller is being cancelled
        return
    task.cancel()
    _left_behind.add(task)
    task.add_done_callback(_left_behind.discard)
    await asyncio.wait({task}, timeout=GRACE)
