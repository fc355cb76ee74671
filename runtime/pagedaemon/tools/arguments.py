"""Reads the text a model sent as a call's arguments, without guessing.

Small models break JSON in a few well-known ways. Where the text can mean only one thing it is
mended; everywhere else it stays unread and the model is told why. It never becomes an empty object
on the way.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NoReturn

from pagedaemon.messages import UNSTORABLE, storable

DEEPEST = 100
"""How deep objects and arrays may be nested. Deeper than anyone's parameters, and shallow enough
for every parser, serialiser and database that sees the arguments after us."""

UNREADABLE = "unreadable_arguments"
"""The one key of what is sent back to the model in place of arguments that nobody could read."""

_FENCE = "```"
_LANGUAGE = re.compile(r"\w*")
_TOKEN = re.compile(
    r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)'  # a string, or all the rest where it never ends
    r"|[\[{,:]\s*+,"  # a comma with nothing before it: no trailing comma, left as it is
    r"|,(?=\s*+[}\]])",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL = re.compile("[\x00-\x1f]")
_LETTERS = "bfnrt"
_SIGNS = '"\\/'


@dataclass(frozen=True, slots=True)
class Arguments:
    """A call's arguments as far as they could be read."""

    value: dict[str, Any] | None
    """None where they could not be read; then `problem` says why."""
    wire: str
    """A valid JSON object to send to the model again: its own text to the letter wherever that is
    one, the mended text, or `{"unreadable_arguments": …}` around text that could not be read."""
    problem: str | None = None


def read_arguments(raw: str) -> Arguments:
    """The arguments in a model's text. Never raises.

    Mended, because they can mean one thing only: literal line breaks, tabs and other control
    characters in a string; one trailing comma; a lone backslash before a character that it cannot
    escape; a code fence around the whole; an object that was encoded twice. Blank text is an empty
    object, because some providers send it for a call without arguments.

    Left unread: anything cut off, single quotes, a value that is not an object, a key given twice,
    NaN, infinities, NUL, lone surrogates, and nesting deeper than `DEEPEST`. So is a string that
    mixes a lone backslash with escapes such as `\\n`: in ``C:\\new\\dir`` nobody knows which was
    meant.
    """
    if not raw.strip():
        return Arguments({}, "{}")
    text = _unfenced(raw)
    read = _object(text)
    if isinstance(read, _Problem):
        mended = _TOKEN.sub(_mended, text)
        again = _object(mended) if mended != text else read
        if isinstance(again, _Problem):
            return Arguments(None, _wrapped(raw), read.text)
        read = again
    return Arguments(read.value, read.text)


@dataclass(frozen=True, slots=True)
class _Problem:
    """Why a text is no arguments."""

    text: str


@dataclass(frozen=True, slots=True)
class _Object:
    """An object and the text that says exactly that."""

    value: dict[str, Any]
    text: str


def _object(text: str) -> _Object | _Problem:
    value = _value(text)
    if isinstance(value, str) and value.lstrip().startswith("{"):  # encoded twice
        text, value = value, _value(value)
    if isinstance(value, _Problem):
        return value
    if not isinstance(value, dict):
        return _Problem(f"they are {_KINDS[type(value)]}, not an object")
    flaw = _flaw(value)
    return _Object(value, text) if flaw is None else _Problem(flaw)


_KINDS: dict[type, str] = {
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}


def _value(text: str) -> Any:
    """The JSON value of a text, or the `_Problem` with it."""
    try:
        return json.loads(
            text,
            object_pairs_hook=_without_repeats,
            parse_constant=no_constant,
            parse_float=finite,
        )
    except RecursionError:
        return _Problem(f"they are nested deeper than {DEEPEST} levels")
    except ValueError as error:
        return _Problem(str(error))


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {json.dumps(key)} stands twice in one object")
            seen.add(key)
    return value


def no_constant(name: str) -> NoReturn:
    """`parse_constant` of a reader that knows no NaN and no infinities: raises `ValueError`."""
    raise ValueError(f"{name} is not a JSON value")


def finite(number: str) -> float:
    """`parse_float` of the same reader: raises `ValueError` where a number overflows to one."""
    value = float(number)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"the number {number[:40]} is too large")
    return value


def _flaw(value: dict[str, Any]) -> str | None:
    """What makes an object unfit to be stored or sent on; walks without recursion."""
    waiting: list[tuple[Any, int]] = [(value, 1)]
    while waiting:
        item, depth = waiting.pop()
        if isinstance(item, str):
            if UNSTORABLE.search(item):
                return "a string in them holds a NUL or half a surrogate pair, which is not text"
            continue
        if isinstance(item, dict):
            inner = [*item, *item.values()]
        elif isinstance(item, list):
            inner = item
        else:
            continue
        if depth > DEEPEST:
            return f"they are nested deeper than {DEEPEST} levels"
        waiting.extend((part, depth + 1) for part in inner)
    return None


def _unfenced(text: str) -> str:
    inner = text.strip()
    if len(inner) < 2 * len(_FENCE) or not (inner.startswith(_FENCE) and inner.endswith(_FENCE)):
        return text
    inner = inner.removeprefix(_FENCE).removesuffix(_FENCE)
    return _LANGUAGE.sub("", inner, count=1).strip()


def _mended(token: re.Match[str]) -> str:
    text = token[0]
    if not text.startswith('"'):
        return "" if text == "," else text
    escapes = {match[0] for match in _ESCAPE.finditer(text)}
    lone = {its for its in escapes if len(its) == 2 and its[1] not in _SIGNS + _LETTERS}
    if lone and _is_guess(lone, escapes):
        return text
    if lone:
        text = _ESCAPE.sub(lambda its: f"\\{its[0]}" if its[0] in lone else its[0], text)
    return _CONTROL.sub(lambda sign: json.dumps(sign[0])[1:-1], text)


def _is_guess(lone: set[str], escapes: set[str]) -> bool:
    """Whether a string's lone backslashes might not stand for themselves.

    Beside other escapes of letters, those may be lone ones too. Before an apostrophe or a line
    break a backslash is a habit from other languages, where it means the sign alone.
    """
    if any(its[1] == "'" or its[1] < " " for its in lone):
        return True
    return any(len(its) > 2 or its[1] in _LETTERS for its in escapes)


def _wrapped(raw: str) -> str:
    return json.dumps({UNREADABLE: storable(raw)}, ensure_ascii=False)
