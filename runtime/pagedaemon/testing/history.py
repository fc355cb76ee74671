"""What an OpenAI-shaped history becomes on its way to a provider with other shapes: turns of parts.

The conversion is the usual one: system messages are taken out; `tool` messages become results in
the user's turn; neighbours of one role become one turn; an assistant's empty text beside calls is
left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeGuard


class IllegalRequest(AssertionError):
    """A request that a provider would refuse.

    It fails the test that sent it, and is no `PagedaemonError`: nothing should handle it.

    Attributes:
        rule: which rule, as `provider.rule`, such as `anthropic.missing_result`.
        detail: where, and what is wrong there.
    """

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a turn, and where it stood in the wire messages."""

    kind: Literal["text", "media", "call", "result"]
    where: str
    text: str = ""
    """Of a text."""
    id: str = ""
    """Of a call, or of the call that a result answers."""
    name: str = ""
    """Of a call: the tool."""
    arguments: str = ""
    """Of a call, as sent."""


@dataclass(slots=True)
class Turn:
    """What one side says until the other does."""

    role: Literal["user", "assistant"]
    parts: list[Part] = field(default_factory=list)

    def of(self, kind: str) -> list[Part]:
        """The parts of that kind, in order."""
        return [part for part in self.parts if part.kind == kind]


@dataclass(frozen=True, slots=True)
class History:
    """A whole history, converted."""

    system: tuple[Part, ...]
    turns: tuple[Turn, ...]

    def exchanges(self) -> Iterator[tuple[Turn | None, Turn]]:
        """Each turn with the one before it."""
        before: Turn | None = None
        for turn in self.turns:
            yield before, turn
            before = turn


def converted(messages: Sequence[Mapping[str, Any]], provider: str) -> History:
    """The history as that provider gets it.

    Raises:
        IllegalRequest: a message has no known shape (`role`, `content`, `tool_calls`,
            `tool_call_id`), or nothing is left of it (`empty_message`).
    """
    system: list[Part] = []
    turns: list[Turn] = []
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        role = message.get("role")
        if role in ("system", "developer"):
            system += _content(message, where, provider)
            continue
        side = _sides.get(str(role))
        if side is None:
            raise IllegalRequest(f"{provider}.role", f"{where} has the role {role!r}")
        if not turns or turns[-1].role != side:
            turns.append(Turn(side))
        turns[-1].parts += _parts(message, where, provider)
    return History(tuple(system), tuple(turns))


def json_object(text: str) -> bool:
    """Whether the text is one JSON object, strictly."""
    try:
        return isinstance(json.loads(text, parse_constant=_no_constant), dict)
    except ValueError:  # that is the answer
        return False


def json_value(text: str) -> bool:
    """Whether the text is JSON, strictly: NaN and Infinity are none."""
    try:
        json.loads(text, parse_constant=_no_constant)
    except ValueError:  # that is the answer
        return False
    return True


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether the value is an array on the wire."""
    return isinstance(value, list | tuple)


_sides: Mapping[str, Literal["user", "assistant"]] = {
    "user": "user",
    "tool": "user",
    "assistant": "assistant",
}


def _parts(message: Mapping[str, Any], where: str, provider: str) -> list[Part]:
    if message["role"] == "tool":
        call_id = message.get("tool_call_id")
        if not isinstance(call_id, str):
            raise IllegalRequest(
                f"{provider}.tool_call_id", f"{where} does not say what it answers"
            )
        return [Part("result", where, id=call_id)]
    parts = _content(message, where, provider)
    if message["role"] == "assistant":
        parts = [part for part in parts if part.kind != "text" or part.text] + [
            _call(call, f"{where}.tool_calls[{index}]", provider)
            for index, call in enumerate(message.get("tool_calls") or ())
        ]
    if not parts:
        raise IllegalRequest(
            f"{provider}.empty_message", f"{where} holds neither content nor calls"
        )
    return parts


def _content(message: Mapping[str, Any], where: str, provider: str) -> list[Part]:
    content = message.get("content")
    if content is None:
        return []
    if isinstance(content, str):
        return [Part("text", where, text=content)]
    if not is_list(content) or not all(isinstance(part, Mapping) for part in content):
        raise IllegalRequest(f"{provider}.content", f"{where}: content is neither text nor parts")
    parts: list[Part] = []
    for index, part in enumerate(content):
        place = f"{where}.content[{index}]"
        if part.get("type") not in ("text", "refusal"):
            parts.append(Part("media", place))
        else:
            parts.append(Part("text", place, text=str(part.get(part["type"], ""))))
    return parts


def _call(call: object, where: str, provider: str) -> Part:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping):
        raise IllegalRequest(f"{provider}.tool_calls", f"{where} is no function call")
    call_id, name, arguments = call.get("id"), function.get("name"), function.get("arguments")
    if not (isinstance(call_id, str) and isinstance(name, str) and isinstance(arguments, str)):
        raise IllegalRequest(
            f"{provider}.tool_calls", f"{where} needs id, name and arguments, each as text"
        )
    return Part("call", where, id=call_id, name=name, arguments=arguments)


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")
