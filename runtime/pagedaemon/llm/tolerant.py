"""Calls that a model wrote as text, read without guessing.

Models without a chat template for tools, or with one their server does not know, write a call where
text is due. The ways met here: `<tool_call>{…}</tool_call>` (Hermes, Qwen), `<function=name>{…}`
(Llama 3.1), `[TOOL_CALLS] […]` and `[TOOL_CALLS]name[ARGS]{…}` (Mistral), `functools[…]` (Phi),
and a text that is nothing but such an object, in a code fence or not, or `name(key="value")`.

A text that only speaks of calls is left alone. Where a mark says that a call was meant and its
arguments cannot be read, they are handed on as they are, for the model to be told: no call ever
loses an argument in silence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from pagedaemon.llm.protocol import RawCall

OPENINGS = ("<tool_call>", "<function=", "[TOOL_CALLS]", "functools[")
"""Marks that begin a call anywhere in a text."""

_CLOSING = {"<tool_call>": "</tool_call>", "<function=": "</function>"}
_LONGEST_NAME = 200
_NAME = re.compile(rf"[A-Za-z0-9_.:-]{{1,{_LONGEST_NAME}}}")
_FENCE = re.compile(r"```(?:json|tool_call|tool_code|python)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*")
_KEYWORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}
_THOUGHT = r'(?:"thought"\s*:\s*"(?:[^"\\]|\\.)*"\s*,\s*)?'
_NAMED = re.compile(rf'\s*\{{\s*{_THOUGHT}"(?:name|tool)"\s*:\s*"({_NAME.pattern})"\s*,\s*')
_ARGUMENTS = re.compile(r'"(?:arguments|parameters|args)"\s*:\s*')
_NAME_KEYS = ("name", "tool", "function")
_ARGUMENT_KEYS = ("arguments", "parameters", "args")
_OTHER_KEYS = frozenset({"id", "type", "thought"})
"""Keys beside a call's name and arguments that say nothing of what is called."""

_decoder = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Found:
    """What a text holds."""

    calls: tuple[RawCall, ...]
    rest: str
    """The text outside the calls."""


def read_calls(text: str, tools: Collection[str]) -> Found | None:
    """The calls in a text; None where it is text and nothing else. Never raises.

    Args:
        text: all that the model said.
        tools: names of the tools it has. Without a mark around it, only a call of one of them is
            one, and only where the text holds nothing else.
    """
    marked = _marked(text)
    if marked is not None:
        return marked
    inner = text.strip()
    fences = list(_FENCE.finditer(inner))
    if fences and not _FENCE.sub("", inner).strip():
        bodies = [fence[1].strip() for fence in fences]
    else:
        bodies = [inner]
    calls: list[RawCall] = []
    for body in bodies:
        found = _objects(body) or _python_call(body, tools)
        if not found or any(call.name not in tools for call in found):
            return None
        calls += found
    return Found(tuple(calls), "")


def may_begin(text: str, tools: Collection[str]) -> int | None:
    """Where in a text that is still growing a call may have begun; None where nothing hints at one.

    What stands before that place is text, however it goes on.
    """
    stripped = text.lstrip()
    start = len(text) - len(stripped)
    if stripped.startswith(("{", "[", "`")):
        return start
    heads = [f"{tool}(" for tool in tools]
    if any(stripped.startswith(head) or head.startswith(stripped) for head in heads):
        return start
    places = [text.find(mark) for mark in OPENINGS if mark in text]
    longest = max(len(mark) for mark in OPENINGS)
    for place in range(max(0, len(text) - longest), len(text)):
        if any(mark.startswith(text[place:]) for mark in OPENINGS):
            places.append(place)
            break
    return min(places, default=None)


def _marked(text: str) -> Found | None:
    calls: list[RawCall] = []
    rest: list[str] = []
    place = 0
    for begin, mark in _marks(text):
        if begin < place:
            continue
        read = _after_mark(text, begin + len(mark), mark)
        if read is None:
            continue
        found, end = read
        calls += found
        rest.append(text[place:begin])
        place = end
    if not calls:
        return None
    rest.append(text[place:])
    return Found(tuple(calls), "".join(rest).strip())


def _marks(text: str) -> Iterator[tuple[int, str]]:
    for match in re.finditer("|".join(map(re.escape, OPENINGS)), text):
        yield match.start(), match[0]


def _after_mark(text: str, start: int, mark: str) -> tuple[list[RawCall], int] | None:
    """The calls after a mark, and where they end; None where none begins there."""
    if mark == "functools[":
        start -= 1
    start = _skip(text, start)
    name = ""
    if mark == "<function=" or (mark == "[TOOL_CALLS]" and text[start : start + 1] not in "[{"):
        named = _NAME.match(text, start)
        if named is None:
            return None
        name, start = named[0], named.end()
        for sign in (">", "[ARGS]"):
            if text.startswith(sign, start):
                start = _skip(text, start + len(sign))
    if text[start : start + 1] not in ("{", "["):
        return None
    close = _CLOSING.get(mark)
    end = _value_end(text, start)
    if end is None:
        # Cut off, or no JSON: what was meant is handed on to the letter.
        stop = text.find(close, start) if close is not None else -1
        body = text[start : stop if stop >= 0 else len(text)]
        call = RawCall("", name, body) if name else _broken(body)
        return None if call is None else ([call], _closed(text, start + len(body), close))
    body = text[start:end]
    found = [RawCall("", name, body)] if name else _objects(body)
    return None if not found else (found, _closed(text, end, close))


def _closed(text: str, end: int, close: str | None) -> int:
    after = _skip(text, end)
    if close is not None and text.startswith(close, after):
        return after + len(close)
    return end


def _objects(body: str) -> list[RawCall]:
    """The calls of a text that is one JSON object, or an array or a sequence of such; none where
    any of it is something else."""
    start, calls = _skip(body, 0), list[RawCall]()
    listed = body.startswith("[", start)
    if listed:
        if _value_end(body, start) is None:
            return []
        start += 1
    while (start := _skip(body, start, "," if listed and calls else "")) < len(body):
        if listed and body[start] == "]":
            return calls if not body[start + 1 :].strip() else []
        end = _value_end(body, start)
        call = _one(body[start:end]) if end is not None else None
        if end is None or call is None:
            return []
        calls.append(call)
        start = end
    return [] if listed else calls


def _one(body: str) -> RawCall | None:
    """One JSON object as a call: its arguments to the letter."""
    members = _members(body)
    if members is None:
        return None
    inner = members.get("function")
    if (
        inner is not None
        and inner.startswith("{")
        and not set(members) - {"id", "type", "function"}
    ):
        return _one(inner)
    names = [key for key in _NAME_KEYS if key in members]
    given = [key for key in _ARGUMENT_KEYS if key in members]
    if len(names) != 1 or len(given) > 1:
        return None
    if set(members) - {*names, *given} - _OTHER_KEYS:
        return None
    name = json.loads(members[names[0]])
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return None
    arguments = members[given[0]] if given else "{}"
    if arguments.startswith('"'):  # encoded twice
        arguments = json.loads(arguments)
    return RawCall("", name, arguments) if arguments.lstrip().startswith("{") else None


def _members(body: str) -> dict[str, str] | None:
    """The members of a JSON object, each value as it was written. None: it is no such object, or
    names a member twice."""
    place = _skip(body, 0)
    if not body.startswith("{", place):
        return None
    members: dict[str, str] = {}
    place = _skip(body, place + 1)
    while not body.startswith("}", place):
        key_end = _value_end(body, place) if body.startswith('"', place) else None
        if key_end is None:
            return None
        key = json.loads(body[place:key_end])
        place = _skip(body, key_end)
        if key in members or not body.startswith(":", place):
            return None
        place = _skip(body, place + 1)
        end = _value_end(body, place)
        if end is None:
            return None
        members[key] = body[place:end]
        place = _skip(body, end, ",")
    return members if not body[place + 1 :].strip() else None


def _broken(body: str) -> RawCall | None:
    """A call whose object is no JSON: by its name, with what was meant as arguments. None where not
    even the name can be read."""
    named = _NAMED.match(body)
    if named is None:
        return None
    given = _ARGUMENTS.match(body, named.end())
    return RawCall("", named[1], body[given.end() if given is not None else named.end() :])


def _python_call(body: str, tools: Collection[str]) -> list[RawCall]:
    """`name(key=value, …)` with nothing but plain values; none where anything else stands there."""
    head, opened, rest = body.partition("(")
    if not opened or head not in tools or not rest.endswith(")") or "\\" in rest:
        return []
    members: list[str] = []
    place, end = _skip(rest, 0), len(rest) - 1
    while place < end:
        keyword = _KEYWORD.match(rest, place)
        if keyword is None or not rest.startswith("=", _skip(rest, keyword.end())):
            return []
        place = _skip(rest, _skip(rest, keyword.end()) + 1)
        value = _python_value(rest, place)
        if value is None:
            return []
        written, place = value
        members.append(f"{json.dumps(keyword[0])}: {written}")
        place = _skip(rest, place)
        if place < end:
            if rest[place] != ",":
                return []
            place = _skip(rest, place + 1)
    if place != end:
        return []
    return [RawCall("", head, "{" + ", ".join(members) + "}")]


def _python_value(text: str, place: int) -> tuple[str, int] | None:
    """A value as JSON, and where it ends."""
    word = _KEYWORD.match(text, place)
    if word is not None:
        written = _PYTHON_WORDS.get(word[0])
        return None if written is None else (written, word.end())
    if text.startswith("'", place):
        end = text.find("'", place + 1)
        inner = text[place + 1 : end]
        if end < 0 or "\n" in inner:
            return None
        return json.dumps(inner, ensure_ascii=False), end + 1
    end_at = _value_end(text, place)
    return None if end_at is None else (text[place:end_at], end_at)


def _value_end(text: str, start: int) -> int | None:
    """Where the JSON value that begins there ends; None where none does."""
    try:
        return _decoder.raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return None


def _skip(text: str, place: int, sign: str = "") -> int:
    """The place after blank space, and after one such sign in it."""
    space = _SPACE.match(text, place)
    place = space.end() if space is not None else place
    if sign and text.startswith(sign, place):
        return _skip(text, place + len(sign))
    return place
