"""Reads a request as a model would: what is in its prompt, what the user said, what came back.

The shapes are those of the shipped `prompts/`; where a folder of your own replaces them, `system`
and `messages` still hold, and the rest finds only what looks the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pagedaemon.llm.protocol import Request, WireMessage

_OPENING = re.compile(
    r"^\[block (?P<label>\S+) · \d+/\d+ characters(?: · read-only)? · (?P<id>[^\s\]]+)\]"
    r"(?: [^\n]*)?\n",  # its description
    re.MULTILINE,
)
_STATUS = re.compile(r"^\[status: .*\]$", re.MULTILINE)
_SUMMARY = re.compile(r"^\[summary of .*\]\n[\s\S]*?\n\[end of summary\]$", re.MULTILINE)
_RECALLED = re.compile(r"^\[recollections: .*\]\n[\s\S]*?\n\[end of recollections\]$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RequestView:
    """A request, taken apart. Made by `view`."""

    system: str
    """The system prompt, "" where there is none."""
    blocks: Mapping[str, str]
    """Label to value of the blocks in the system prompt, in their order."""
    last_user: str
    """The newest words of a person, without status line, events, summary and recollections; ""
    where none are."""
    events: tuple[Mapping[str, Any], ...]
    """The runtime's events, oldest first: each a JSON object with a `type`, on a line of its own in
    the user's role."""
    results: Mapping[str, tuple[str, ...]]
    """Since `last_user`: tool name to what its calls returned, in order."""
    tools: tuple[str, ...]
    """The names of the tools on offer."""
    messages: tuple[WireMessage, ...]
    """The request's messages as they are."""


def view(request: Request) -> RequestView:
    """The request, for a function to decide on: `lambda asked: say(view(asked).last_user)`."""
    system = "\n\n".join(_texts(request.messages, "system"))
    last_user, results = _since_last_words(request.messages)
    return RequestView(
        system=system,
        blocks=_blocks(system),
        last_user=last_user,
        events=tuple(
            event for text in _texts(request.messages, "user") for event in _split(text)[1]
        ),
        results={tool: tuple(texts) for tool, texts in results.items()},
        tools=tuple(str(tool["function"]["name"]) for tool in request.tools),
        messages=request.messages,
    )


def _since_last_words(messages: Sequence[WireMessage]) -> tuple[str, dict[str, list[str]]]:
    last, results = "", dict[str, list[str]]()
    # An id may come again in a later turn: what counts is the call that was made last.
    tool_of: dict[str, str] = {}
    for message in messages:
        role = message["role"]
        if role == "user":
            words = _split(message_text(message))[0]
            if words:
                last, results = words, {}
        elif role == "assistant":
            for made in message.get("tool_calls") or ():
                tool_of[made["id"]] = made["function"]["name"]
        elif role == "tool":
            tool = tool_of.get(message["tool_call_id"], "")
            results.setdefault(tool, []).append(message_text(message))
    return last, results


def _split(content: str) -> tuple[str, list[Mapping[str, Any]]]:
    words: list[str] = []
    events: list[Mapping[str, Any]] = []
    content = _RECALLED.sub("", _SUMMARY.sub("", content))
    for line in _STATUS.sub("", content).split("\n"):
        event = _event(line)
        if event is None:
            words.append(line)
        else:
            events.append(event)
    return "\n".join(words).strip(), events


def _event(line: str) -> Mapping[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        value = json.loads(line)
    except ValueError:  # a person may write a brace too
        return None
    is_event = isinstance(value, dict) and isinstance(value.get("type"), str)
    return value if is_event else None


def _blocks(system: str) -> dict[str, str]:
    found: dict[str, str] = {}
    opening = _OPENING.search(system)
    while opening is not None:
        # A value may itself look like a block; only the mark with the id ends the one that is open.
        mark = f"\n[/{opening['id']}]"
        end = system.find(mark, opening.end())
        if end < 0:
            break
        found[opening["label"]] = system[opening.end() : end]
        opening = _OPENING.search(system, end + len(mark))
    return found


def _texts(messages: Sequence[WireMessage], role: str) -> list[str]:
    return [message_text(message) for message in messages if message["role"] == role]


def message_text(message: WireMessage) -> str:
    """The text of a wire message; of content in parts, the text parts by line."""
    content = message.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(str(part["text"]) for part in content if part.get("type") == "text")
