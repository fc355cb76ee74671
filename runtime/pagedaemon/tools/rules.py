"""What an agent may call now: its rules held against what it has called in this turn.

Rules act on replies. The tools a model is told of never change, so the cached prefix stays, and a
call against a rule is answered in place of being run.

A call is judged by what is known when its reply comes. An earlier call of the same reply has no
result yet: it counts against limits and in the order of calls, and it fulfils nothing.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pagedaemon.config import (
    After,
    AtMost,
    Conditional,
    First,
    NeedsApproval,
    Required,
    Rule,
    Terminal,
    ToolRule,
)
from pagedaemon.errors import ConfigError
from pagedaemon.messages import CallStatus


class Called(Protocol):
    """A call of this turn, as far as rules look at it."""

    @property
    def tool(self) -> str:
        """Which tool it called."""

    @property
    def status(self) -> CallStatus:
        """How far it came."""

    @property
    def result(self) -> str | None:
        """What it returned; None where it has not yet."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """What may be called now.

    Attributes:
        names: the tools, in their order. Empty means none, never all.
        why: for each other tool the rules that stand against it.
    """

    names: tuple[str, ...]
    why: Mapping[str, tuple[Rule, ...]]


@dataclass(frozen=True, slots=True)
class Past:
    """A call that is not one of the journal's: what contradictions are looked for with."""

    tool: str
    result: str | None = ""
    status: CallStatus = "ok"


def allowed(rules: Sequence[Rule], history: Sequence[Called], tools: Sequence[str]) -> Allowed:
    """What may be called after these calls of the turn.

    Args:
        rules: all of them hold.
        history: the turn's calls in their order, those of the reply that is being read included.
        tools: the names of all tools there are.
    """
    counted = [call for call in history if call.status != "failed"]
    against: dict[str, list[Rule]] = {name: [] for name in tools}
    for rule in rules:
        for name in _refused(rule, rules, counted, tools):
            against[name].append(rule)
    return Allowed(
        tuple(name for name in tools if not against[name]),
        {name: tuple(found) for name, found in against.items() if found},
    )


def closed(rules: Sequence[Rule], history: Sequence[Called]) -> bool:
    """Whether a call of the turn has ended it."""
    ends = named(rules, Terminal)
    return any(call.tool in ends and _has_run(call) for call in history)


def missing(
    rules: Sequence[Rule], history: Sequence[Called], tools: Collection[str]
) -> tuple[str, ...]:
    """The required tools that there are and that have not run in this turn."""
    have_run = {call.tool for call in history if _has_run(call)}
    return tuple(name for name in named(rules, Required) if name in tools and name not in have_run)


def require_possible(rules: Sequence[Rule], tools: Sequence[str]) -> None:
    """Refuses rules that no turn can follow.

    What needs the turn's own course to be seen is not looked for: such a turn is stopped.

    Raises:
        ConfigError: a rule names a tool there is not, or what they leave is nothing: at the
            start, after a tool however one comes to it, or for what is required.
    """
    unknown = [name for name in _mentioned(rules) if name not in tools]
    if unknown:
        raise ConfigError(f"rules name what the agent has not: {', '.join(unknown)}")
    if rules and not allowed(rules, (), tools).names:
        raise ConfigError("rules contradict each other: no tool may be called at a turn's start")
    ends = named(rules, Terminal)
    last = [name for name in named(rules, Required) if name in ends]
    if len(last) > 1:
        raise ConfigError(
            f"rules contradict each other: {', '.join(last)} are all required, and each ends the "
            "turn"
        )
    for name in named(rules, After, Conditional):
        if name in ends:
            raise ConfigError(
                f"rules contradict each other: {name} ends the turn, and a rule says what follows"
            )
        _require_successor(name, rules, tools)


def _require_successor(name: str, rules: Sequence[Rule], tools: Sequence[str]) -> None:
    for result in _results(name, rules):
        beginnings = _beginnings(name, rules)
        if all(
            not allowed(rules, [*before, Past(name, result)], tools).names for before in beginnings
        ):
            raise ConfigError(
                f"rules contradict each other: after {name} nothing may be called"
                + (f", where it returns {result!r:.80}" if result else "")
            )


def _beginnings(name: str, rules: Sequence[Rule]) -> Iterator[list[Past]]:
    """How a turn may have come to a tool, as far as other rules ask for anything."""
    first = [one for one in named(rules, First) if one != name]
    begun = [[]] if name in named(rules, First) or not first else [[Past(one)] for one in first]
    due = [Past(one) for one in named(rules, Required) if one != name]
    for before, more in itertools.product(begun, ([], due)):
        yield [*before, *(call for call in more if call not in before)]


def _results(name: str, rules: Sequence[Rule]) -> list[str]:
    """A result for each case that the rules on a tool tell apart, and one for all others."""
    found = [""]
    for rule in rules:
        if isinstance(rule, Conditional) and rule.tool == name:
            for case in rule.cases:
                found.append(case if rule.field is None else json.dumps({rule.field: case}))
    return found


def _mentioned(rules: Sequence[Rule]) -> tuple[str, ...]:
    names: list[str] = []
    for rule in rules:
        names.append(rule.tool)
        if isinstance(rule, After):
            names += rule.then
        elif isinstance(rule, Conditional):
            names += itertools.chain(*rule.cases.values(), rule.default)
    return tuple(dict.fromkeys(names))


def named(rules: Sequence[Rule], *kinds: type[ToolRule]) -> tuple[str, ...]:
    """The tools that rules of these kinds are about, each once."""
    return tuple(dict.fromkeys(rule.tool for rule in rules if isinstance(rule, kinds)))


def _refused(
    rule: Rule, rules: Sequence[Rule], counted: Sequence[Called], tools: Sequence[str]
) -> list[str]:
    """What one rule stands against."""
    last = counted[-1] if counted else None
    match rule:
        case First():
            first = named(rules, First)
            begun = any(call.tool in first and _has_run(call) for call in counted)
            return [] if begun else [name for name in tools if name not in first]
        case Terminal():
            if any(call.tool == rule.tool for call in counted):
                return list(tools)
            due = [name for name in missing(rules, counted, tools) if name != rule.tool]
            return [rule.tool] if due and rule.tool in tools else []
        case AtMost():
            calls = sum(call.tool == rule.tool for call in counted)
            return [rule.tool] if calls >= rule.calls and rule.tool in tools else []
        case After() | Conditional():
            if last is None or last.tool != rule.tool:
                return []
            following = rule.then if isinstance(rule, After) else _following(rule, last)
            return [name for name in tools if name not in following]
        case Required() | NeedsApproval():
            return []


def _following(rule: Conditional, call: Called) -> tuple[str, ...]:
    """What may follow a call by its result; nothing, until there is one."""
    if call.result is None or not _has_run(call):
        return ()
    found = _value(call.result)
    if rule.field is not None:
        if not isinstance(found, dict) or rule.field not in found:
            return rule.default
        held = found[rule.field]
        found = _value(held) if isinstance(held, str) else held
    for case, then in rule.cases.items():
        if _same(_value(case), found):
            return then
    return rule.default


def _has_run(call: Called) -> bool:
    return call.status in ("ok", "unknown")


_WORDS = {"True": True, "False": False}
"""How a Python tool's own True and False are written as a result."""


def _value(text: str) -> Any:
    text = text.strip()
    if text in _WORDS:
        return _WORDS[text]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _same(one: Any, other: Any) -> bool:
    """Equality of JSON values: true is no 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
