"""A Python function as a tool: what a model is told of it, and what the runtime may do with it."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args, overload

from pagedaemon.config import Capability
from pagedaemon.errors import ToolDefinitionError
from pagedaemon.tools.docstrings import read_docs
from pagedaemon.tools.schema import Signature, plain_function, read_signature

EffectClass = Literal["internal", "read", "idempotent", "once"]
"""What running a tool twice would do. `internal`: it hands the runtime an effect, which is applied
in the step's own transaction. `read`: nothing. `idempotent`: nothing, with the same key. `once`: it
may happen twice, so a call whose outcome is unknown is never run again."""

Origin = Literal["tool", "external"]
"""Where a result's text comes from. `external`: from outside, such as the web; it is not
trusted."""

Approval: TypeAlias = Literal["never", "always"] | Callable[[Mapping[str, Any], bool], bool] | None
"""When a call waits for a person's approval. None: where the agent's `Settings.gates` say so, by
what it can do. `never`: not even then. `always`: at each call. A function: where it returns true of
the checked arguments, and of whether text from outside stands in the window; where it raises, too.
"""

Reconcile: TypeAlias = Callable[[str], object]
"""What became of a call of that key (`ToolContext.key`), after a crash between its start and its
result. It returns what the call returned, or would have; `NeverRan()`; or None: it cannot be said.
Sync or async."""


@dataclass(frozen=True, slots=True)
class NeverRan:
    """What a `reconcile` returns of a call that had no effect and can have none any more. It is
    then run, with the key that it had; where the process that had begun it lives, and only stands
    still, the outcome is unknown all the same."""


_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Who calls a tool, and when. A parameter annotated with it is filled in, whatever its name,
    and the model does not see it."""

    agent_id: str
    agent_name: str
    conversation_id: str
    turn_id: str
    step_id: str
    call_id: str
    key: str
    """Idempotency key: the same when the same call is run again after a crash, and what the tool's
    `reconcile` is asked by."""
    now: datetime
    """The instant of the call, timezone-aware."""
    agent: Any = None
    """The live agent, whose memory the tool may read and write: `AsyncAgent` in an async function;
    in any other the blocking `Agent`, where the runtime is the blocking one."""
    conversation: Any = None
    """The live conversation, in the same kind of handle."""


@dataclass(frozen=True, eq=False)
class Tool:
    """A function that a model may call. Made by `@tool`; still callable as the function it was.

    Raises:
        ToolDefinitionError: one of its values cannot be used.
    """

    name: str
    """1 to 64 of `a-z A-Z 0-9 _ -`: what every provider takes."""
    description: str
    """What the model is told of it."""
    function: Callable[..., Any] = field(repr=False)
    signature: Signature = field(repr=False)
    effect: EffectClass = "once"
    returns: Origin = "tool"
    timeout: float = 60.0
    """Seconds one call may take."""
    max_result_chars: int = 20_000
    """Characters of a result that are shown at once; the rest is paged."""
    parallel: bool = False
    """Whether it may run beside other calls of the same reply."""
    terminal: bool = False
    """Whether a call of it ends the turn unless something else goes on; it carries no heartbeat
    flag."""
    can: tuple[Capability, ...] = ()
    """What it can do beyond answering."""
    approval: Approval = field(default=None, repr=False)
    """When a call of it waits for a person's approval."""
    reconcile: Reconcile | None = field(default=None, repr=False)
    """Of a tool that must not run twice: what became of a call that a crash cut off."""

    def __post_init__(self) -> None:
        what = f"tool {self.name!r}"
        self._require_types(what)
        if not _NAME.fullmatch(self.name):
            raise ToolDefinitionError(
                f"{what}: providers take names of 1 to 64 letters a-z A-Z, digits, '_' and '-' "
                "only; give another with tool(name=...)"
            )
        if not self.description.strip():
            raise ToolDefinitionError(
                f"{what} has no description, and a model could only guess what it does: "
                "write a docstring or give tool(description=...)"
            )
        if self.effect not in get_args(EffectClass):
            raise ToolDefinitionError(f"{what}: effect is read, idempotent or once")
        if self.returns not in get_args(Origin):
            raise ToolDefinitionError(f"{what}: returns is tool or external")
        if not self.timeout > 0 or self.max_result_chars <= 0:
            raise ToolDefinitionError(f"{what}: timeout and max_result_chars must be above zero")

    def _require_types(self, what: str) -> None:
        wanted: tuple[tuple[str, object, type | tuple[type, ...], str], ...] = (
            ("name", self.name, str, "a text"),
            ("description", self.description, str, "a text"),
            ("effect", self.effect, str, "one of read, idempotent and once"),
            ("returns", self.returns, str, "one of tool and external"),
            ("timeout", self.timeout, (int, float), "a number of seconds"),
            ("max_result_chars", self.max_result_chars, int, "a whole number"),
            ("parallel", self.parallel, bool, "True or False"),
            ("terminal", self.terminal, bool, "True or False"),
            ("can", self.can, tuple, 'a tuple, such as ("egress",)'),
        )
        for setting, value, kinds, needed in wanted:
            is_flag = isinstance(value, bool) and kinds is not bool
            if is_flag or not isinstance(value, kinds):
                raise ToolDefinitionError(f"{what}: {setting} is {needed}, not {value!r:.80}")
        for one in self.can:
            if one not in get_args(Capability):
                known = ", ".join(get_args(Capability))
                raise ToolDefinitionError(f"{what} can {known}, and {one!r:.80} is none of them")
        self._require_approval(what)
        self._require_reconcile(what)

    def _require_reconcile(self, what: str) -> None:
        if self.reconcile is None:
            return
        if not callable(self.reconcile):
            raise ToolDefinitionError(
                f"{what}: reconcile is a function of the call's key, not {self.reconcile!r:.80}"
            )
        if self.effect != "once":
            raise ToolDefinitionError(
                f"{what}: reconcile is for effect='once'; a call that is {self.effect} is run "
                "again after a crash, and nobody need be asked"
            )

    def _require_approval(self, what: str) -> None:
        asked = self.approval
        if asked is None or (isinstance(asked, str) and asked in ("never", "always")):
            return
        if not callable(asked):
            raise ToolDefinitionError(
                f"{what}: approval is 'never', 'always' or a function, not {asked!r:.80}"
            )
        if inspect.iscoroutinefunction(asked):
            raise ToolDefinitionError(f"{what}: the function of approval is no async one")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself: nothing is checked, converted or recorded."""
        return self.function(*args, **kwargs)

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema of its arguments, as one object; without what an agent's style adds."""
        return self.signature.parameters

    @functools.cached_property
    def schema_hash(self) -> str:
        """SHA-256 (hex) of name and parameters as canonical JSON: whether a call still fits the
        code."""
        shown = {"name": self.name, "parameters": self.parameters}
        text = json.dumps(shown, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @functools.cached_property
    def is_async(self) -> bool:
        """Whether a call is awaited, and so can be stopped; any other runs in a thread of its
        own."""
        function = self.function
        return inspect.iscoroutinefunction(function) or (
            not inspect.isroutine(function) and inspect.iscoroutinefunction(type(function).__call__)
        )

    def bound(self, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """Keyword arguments for the function: the model's, and the context where it is asked
        for."""
        return {**arguments, **dict.fromkeys(self.signature.injected, context)}


@overload
def tool(
    function: Callable[..., Any],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Literal["read", "idempotent", "once"] = "once",
    returns: Origin = "tool",
    timeout: float = 60.0,
    max_result_chars: int = 20_000,
    parallel: bool = False,
    terminal: bool = False,
    can: tuple[Capability, ...] = (),
    approval: Approval = None,
    reconcile: Reconcile | None = None,
) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Literal["read", "idempotent", "once"] = "once",
    returns: Origin = "tool",
    timeout: float = 60.0,
    max_result_chars: int = 20_000,
    parallel: bool = False,
    terminal: bool = False,
    can: tuple[Capability, ...] = (),
    approval: Approval = None,
    reconcile: Reconcile | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Literal["read", "idempotent", "once"] = "once",
    returns: Origin = "tool",
    timeout: float = 60.0,
    max_result_chars: int = 20_000,
    parallel: bool = False,
    terminal: bool = False,
    can: tuple[Capability, ...] = (),
    approval: Approval = None,
    reconcile: Reconcile | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Makes a tool of a function, as `@tool`, `@tool(effect="read")` or `tool(thing.method)`.

    The function may be sync or async, a closure, a bound method, a `functools.partial`. Every
    parameter needs a type that has a JSON Schema: plain types, `Literal`, `Enum`, unions,
    collections, dates, dataclasses, pydantic models, each also in `Annotated[..., Field(...)]`. A
    parameter of type `ToolContext` is filled in by the runtime.

    Args:
        function: what is called.
        name: default: the function's own.
        description: default: its docstring, in Google, NumPy or Sphinx style, without the sections
            on arguments and results. Those on arguments describe the parameters in either case.
        effect: what running it twice would do; `once` (the default) is the cautious one.
        returns: `external` for what brings in text from outside.
        timeout: seconds one call may take. An async function is then cancelled; a sync one lives on
            in its thread and its outcome counts as unknown.
        max_result_chars: characters of a result that are shown at once.
        parallel: whether it may run beside other calls of the same reply.
        terminal: whether a call of it ends the turn, as `send_message` does.
        can: what it can do beyond answering: `egress`, `spend`, `delete`, `code`, `core`. By this
            the agent's `Settings.gates` decide which calls wait for a person's approval.
        approval: in place of those: `"never"`, `"always"`, or a function of the arguments and of
            whether text from outside stands in the window. It returns whether the call waits.
        reconcile: of a tool whose effect is `once`: a function of the call's key
            (`ToolContext.key`), asked after a crash between start and result what became of the
            call. What it returns is the call's result; with `NeverRan()` the call is run, under the
            same key; None, an error, or no answer within 5 seconds (`timeout` where that is less)
            leave the outcome unknown.

    Raises:
        ToolDefinitionError: the function cannot be a tool; names the parameter that stands in the
            way.
    """
    # Under `from __future__ import annotations` they are text, and may name the caller's locals.
    names = dict(sys._getframe(1).f_locals)
    if effect not in ("read", "idempotent", "once"):
        raise ToolDefinitionError(f"effect is read, idempotent or once, not {effect!r}")

    def made(function: Callable[..., Any]) -> Tool:
        return _made(
            function,
            name,
            _docstring(function),
            names,
            described=description,
            effect=effect,
            returns=returns,
            timeout=timeout,
            max_result_chars=max_result_chars,
            parallel=parallel,
            terminal=terminal,
            can=can,
            approval=approval,
            reconcile=reconcile,
        )

    return made if function is None else made(function)


def internal_tool(
    function: Callable[..., Any],
    *,
    description: str,
    name: str | None = None,
    terminal: bool = False,
    can: tuple[Capability, ...] = (),
) -> Tool:
    """A tool whose function returns an effect for the runtime to apply, in place of a text.

    Args:
        function: called with the arguments, in the loop; must not do anything itself.
        description: a whole docstring in Google style, arguments too, in place of the function's
            own.
        name: default: the function's own.
        terminal: whether a call of it ends the turn.
        can: what it can do beyond answering.

    Raises:
        ToolDefinitionError: as `tool`.
    """
    return _made(function, name, description, {}, effect="internal", terminal=terminal, can=can)


def _made(
    function: Callable[..., Any],
    name: str | None,
    docstring: str,
    names: Mapping[str, Any],
    *,
    described: str | None = None,
    **settings: Any,
) -> Tool:
    if inspect.isclass(function) or not callable(function):
        raise ToolDefinitionError(f"{function!r} is not a function: a tool is made of one")
    name = _named(function) if name is None else name
    if not isinstance(name, str):
        raise ToolDefinitionError(f"tool {name!r:.80}: name is a text, not a {type(name).__name__}")
    written = plain_function(function)
    if inspect.isgeneratorfunction(written) or inspect.isasyncgenfunction(written):
        raise ToolDefinitionError(
            f"tool {name!r} yields, and a call has one result: return it whole"
        )
    try:
        parameters = inspect.signature(function).parameters
    except ValueError as error:
        raise ToolDefinitionError(f"tool {name!r} does not say what it takes: {error}") from error
    docs = read_docs(docstring, parameters)
    return Tool(
        name=name,
        description=docs.description if described is None else _cleaned(described),
        function=function,
        signature=read_signature(function, tool=name, docs=docs, injected=ToolContext, names=names),
        **settings,
    )


def _cleaned(described: object) -> Any:
    # What is no text is refused with the other settings.
    return inspect.cleandoc(described).strip() if isinstance(described, str) else described


def _named(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        raise ToolDefinitionError(f"{function!r} has no name of its own: give one, tool(name=...)")
    return name


def _docstring(function: Callable[..., Any]) -> str:
    described = plain_function(function).__doc__
    if described or inspect.isroutine(function) or isinstance(function, functools.partial):
        return described or ""
    return inspect.getdoc(type(function)) or ""  # an object that is called, described by its class
