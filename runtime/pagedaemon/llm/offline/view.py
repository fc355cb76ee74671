"""How the offline model reads a request: what was said and done, what it holds and may call.

The request is all it has, so the shapes of `prompts/` are read back here: the blocks of the system
prompt, the status line under a message, the events of the runtime, the hits of a search.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pagedaemon.llm.protocol import Request, WireMessage, WireTool

CONTROLS = ("inner_thoughts", "request_heartbeat")
"""Arguments that steer the loop and are no part of what a tool does."""

_OPENING = re.compile(
    r"^\[block (?P<label>\S+) · \d+/(?P<limit>\d+) characters(?P<read_only> · read-only)?"
    r" · (?P<id>\S+?)\](?: .*)?$",
    re.MULTILINE,
)
_STATUS = re.compile(r"^\[status: message (?P<number>\d+) · .*\]$")
_SUMMARY = re.compile(
    r"^\[summary of [^\n]*\]\n(.*?)\n\[end of summary\]$", re.DOTALL | re.MULTILINE
)
_RECALLED = re.compile(
    r"^\[recollections: [^\n]*\]\n(.*?)\n\[end of recollections\]$", re.DOTALL | re.MULTILINE
)
_HIT = re.compile(r"^- (?P<head>[^\n]*)\n(?P<text>(?:  [^\n]*(?:\n|\Z))+)", re.MULTILINE)
_NEUTRAL: Mapping[str, Any] = {
    "integer": 0,
    "number": 0,
    "boolean": False,
    "array": [],
    "string": "",
}


@dataclass(frozen=True, slots=True)
class SeenBlock:
    """A block as the system prompt shows it."""

    label: str
    value: str
    limit: int
    read_only: bool


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool of the request, by its parameters."""

    name: str
    properties: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...]

    @property
    def needed(self) -> frozenset[str]:
        """The required parameters without those that steer the loop."""
        return frozenset(self.required) - frozenset(CONTROLS)

    def takes(self, parameter: str, kind: str) -> bool:
        """Whether the parameter exists and may be of that JSON type."""
        schema = self.properties.get(parameter, {})
        options = [schema, *schema.get("anyOf", ())]
        return any(kind == option.get("type") or kind in _listed(option) for option in options)

    def fill(self, wanted: Mapping[str, Any]) -> str:
        """Arguments as JSON, in the schema's order: what is wanted of them, and a neutral value for
        whatever else is required."""
        filled: dict[str, Any] = {}
        for parameter, schema in self.properties.items():
            if parameter in wanted:
                filled[parameter] = wanted[parameter]
            elif parameter in self.required:
                filled[parameter] = _NEUTRAL.get(str(schema.get("type")))
        return json.dumps(filled, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Said:
    """A person's words, with the message's number where a status line told it."""

    text: str
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """A call and its result; None where the request holds none."""

    tool: str
    arguments: Mapping[str, Any]
    result: str | None = None

    @property
    def failed(self) -> bool:
        """Whether the result is an error."""
        return self.result is not None and self.result.startswith("Error:")


@dataclass(frozen=True, slots=True)
class Spoke:
    """Plain text of the model without a call."""

    text: str


@dataclass(frozen=True, slots=True)
class Signal:
    """An event of the runtime, as its JSON says."""

    data: Mapping[str, Any]

    @property
    def is_alert(self) -> bool:
        """Whether it says that the window fills."""
        return self.data["type"] == "system_alert" or self.data.get("reason") == "pressure"


Item: TypeAlias = Said | Made | Spoke | Signal


@dataclass(frozen=True, slots=True)
class Hit:
    """One hit of a search: its first line (reference, date, who or what) and its text."""

    head: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class View:
    """A request as the rules look at it."""

    blocks: tuple[SeenBlock, ...]
    tools: Mapping[str, OfferedTool]
    earlier: tuple[Item, ...]
    """Before the newest words of a person."""
    said: Said
    recent: tuple[Item, ...]
    """Since those words, and the events that woke the agent together with them."""
    woken: bool = False
    """Whether the agent was woken without a message since those words."""

    @property
    def made(self) -> tuple[Made, ...]:
        """The calls since the newest words."""
        return tuple(item for item in self.recent if isinstance(item, Made))

    @property
    def answered(self) -> bool:
        """Whether the person has heard something since."""
        return any(
            isinstance(item, Spoke)
            or (isinstance(item, Made) and item.tool == "send_message" and not item.failed)
            for item in self.recent
        )

    @property
    def alert(self) -> Mapping[str, Any] | None:
        """The newest alert since, preferring one that gives message numbers."""
        alerts = [item.data for item in self.recent if isinstance(item, Signal) and item.is_alert]
        numbered = [data for data in alerts if "oldest" in data]
        chosen = numbered or alerts
        return chosen[-1] if chosen else None

    @property
    def made_since_alert(self) -> frozenset[str]:
        """The tools called after the first alert."""
        names: set[str] = set()
        alerted = False
        for item in self.recent:
            if isinstance(item, Signal):
                alerted = alerted or item.is_alert
            elif alerted and isinstance(item, Made):
                names.add(item.tool)
        return frozenset(names)

    @property
    def still_required(self) -> tuple[str, ...]:
        """Offered tools that a heartbeat asked for and that were not called since."""
        asked = " ".join(
            str(item.data.get("message", ""))
            for item in self.recent
            if isinstance(item, Signal) and item.data.get("reason") == "required"
        )
        words = frozenset(re.findall(r"[\w-]+", asked))
        done = {call.tool for call in self.made}
        return tuple(name for name in self.tools if name in words and name not in done)


def view(request: Request) -> View:
    """The request, read."""
    system = "\n".join(
        _text(message) for message in request.messages if message.get("role") == "system"
    )
    items = _items(request.messages)
    spoken = [index for index, item in enumerate(items) if isinstance(item, Said)]
    newest = spoken[-1] if spoken else -1
    start = max(newest, 0)
    while start > 0 and isinstance(items[start - 1], Signal):
        start -= 1
    said = items[newest] if spoken else Said("")
    assert isinstance(said, Said)
    recent = tuple(item for item in items[start:] if item is not said)
    tools = {tool.name: tool for tool in map(_tool, request.tools)}
    woken = any(
        isinstance(item, Signal) and item.data.get("reason") in ("woken", "approval", "outcome")
        for item in items[newest + 1 :]
    )
    return View(_blocks(system), tools, tuple(items[:start]), said, recent, woken)


def user_text(request: Request) -> str:
    """The text of the last user message, as it is."""
    texts = [_text(message) for message in request.messages if message.get("role") == "user"]
    return texts[-1] if texts else ""


def hits(result: str) -> tuple[Hit, ...]:
    """The hits in what a search returned."""
    return tuple(
        Hit(
            tuple(match["head"].split(" · ")),
            re.sub(r"^  ", "", match["text"].rstrip("\n"), flags=re.MULTILINE),
        )
        for match in _HIT.finditer(result)
    )


def _listed(schema: Mapping[str, Any]) -> Sequence[str]:
    kinds = schema.get("type")
    return kinds if isinstance(kinds, list) else ()


def _text(message: WireMessage) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) else ()
    return "\n".join(str(part["text"]) for part in parts if "text" in part)


def _tool(wire: WireTool) -> OfferedTool:
    function = wire["function"]
    parameters = function.get("parameters", {})
    return OfferedTool(
        function["name"], parameters.get("properties", {}), tuple(parameters.get("required", ()))
    )


def _blocks(system: str) -> tuple[SeenBlock, ...]:
    found: list[SeenBlock] = []
    opening = _OPENING.search(system)
    while opening is not None:
        mark = f"\n[/{opening['id']}]"
        end = system.find(mark, opening.end())
        if end < 0:
            break
        value = system[opening.end() + 1 : end]
        found.append(
            SeenBlock(opening["label"], value, int(opening["limit"]), bool(opening["read_only"]))
        )
        opening = _OPENING.search(system, end + len(mark))
    return tuple(found)


def _items(messages: Sequence[WireMessage]) -> list[Item]:
    results = {
        str(message.get("tool_call_id")): _text(message)
        for message in messages
        if message.get("role") == "tool"
    }
    items: list[Item] = []
    for message in messages:
        if message.get("role") == "user":
            items.extend(_user_items(_text(message)))
        elif message.get("role") == "assistant":
            calls = message.get("tool_calls") or ()
            items.extend(_made(call, results) for call in calls)
            if not calls and _text(message).strip():
                items.append(Spoke(_text(message)))
    return items


def _made(call: Mapping[str, Any], results: Mapping[str, str]) -> Made:
    function = call["function"]
    arguments = _object(function.get("arguments", ""))
    return Made(function["name"], arguments or {}, results.get(str(call.get("id"))))


def _user_items(content: str) -> list[Item]:
    items: list[Item] = []
    lines: list[str] = []

    def close(number: int | None = None) -> None:
        text = "\n".join(lines).strip()
        lines.clear()
        if text:
            items.append(Said(text, number))

    for line in _RECALLED.sub("", _SUMMARY.sub("", content)).split("\n"):
        status = _STATUS.match(line)
        data = _object(line) if line.startswith("{") else None
        if status is not None:
            close(int(status["number"]))
        elif data is not None and data.get("type") in ("heartbeat", "system_alert"):
            close()
            items.append(Signal(data))
        elif data is not None and data.get("type") == "reply_format":
            close()  # It has words only, and none of them are the user's.
        else:
            lines.append(line)
    close()
    return items


def _object(text: str) -> Mapping[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:  # a person's own line, or a call that was cut off: neither is an object
        return None
    return value if isinstance(value, dict) else None
