"""What a reply must be where its sender asked for a type: told to the model as a JSON schema, read
out of what it says without guessing, and checked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias, TypeVar

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import SchemaError, from_json

from pagedaemon.errors import InvalidInput
from pagedaemon.messages import checked_text, storable
from pagedaemon.tools.arguments import finite, no_constant

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")

MOST_PROBLEMS = 8
"""How many of a reply's problems are told."""

LONGEST_PROBLEM = 240
"""Characters of one problem that are told."""

_FENCE = re.compile(r"```\w*[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)
_OPENING = re.compile(r"[{\[]")
_STREAMED_FENCE = re.compile(r"\s*```\w*[ \t]*\n")


_REFUSALS = (
    PydanticUserError,
    SchemaError,
    NameError,
    TypeError,
    ValueError,
    SyntaxError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""What pydantic raises for what is no type; names within one are Python code, which may raise
more."""


@dataclass(frozen=True, slots=True)
class Fits(Generic[T]):
    """A reply that is what was asked for."""

    value: T


@dataclass(frozen=True, slots=True)
class Unfit:
    """A reply that is not, and why: at most `MOST_PROBLEMS`, each with where it is."""

    problems: tuple[str, ...]


Verdict: TypeAlias = Fits[T] | Unfit


class Expected(Generic[T]):
    """The type that a turn's reply must have.

    Args:
        schema: its JSON schema: what the model is told, and what is stored with the turn.
        adapter: checks replies and makes values of them. None where the type is not at hand, as
            after a crash: then the schema alone is checked, without `pattern`, which engines read
            in different ways, and without validators written in Python.
    """

    def __init__(self, schema: Mapping[str, Any], adapter: TypeAdapter[T] | None = None) -> None:
        self.schema = schema
        self.text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        self._adapter = adapter

    @classmethod
    def of(cls, reply_type: TypeForm[T]) -> Expected[T]:
        """What a user asks for: anything a `pydantic.TypeAdapter` can be made of.

        Raises:
            InvalidInput: it is no type that JSON can express.
        """
        # The name of a type would be evaluated here, where its user's names mean nothing.
        if isinstance(reply_type, str):
            raise _no_type(reply_type, "it is the name of a type, or none at all")
        try:
            adapter: TypeAdapter[T] = TypeAdapter(reply_type)
            if adapter.core_schema["type"] == "call":
                raise _no_type(reply_type, "it is a function")
            expected = Expected(adapter.json_schema(), adapter)
        except _REFUSALS as error:
            why = str(error).split("\n", 1)[0]
            raise _no_type(reply_type, why) from error
        checked_text(expected.text, "the schema of reply_type")
        return expected

    def read(self, text: str) -> Verdict[T]:
        """The value in a reply. The text is its JSON, or holds it, once, in a code fence or between
        words; where a string is wanted, the text may be the string itself.

        Raises:
            Exception: what a validator of the type raises, other than `ValueError` and
                `AssertionError`.
        """
        value = _only_value(text, self._roots)
        if isinstance(value, Unfit):
            if self._roots != {"string"}:
                return value
            value = _Found(text.strip())
        if self._adapter is None:
            return self._checked(value.json)
        try:
            return Fits(self._adapter.validate_json(json.dumps(value.json)))
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            return _unfit([(one["loc"], one["msg"]) for one in found])

    def partial(self, text: str) -> dict[str, Any] | list[Any] | None:
        """What can be read of a reply that still grows; None where that is no object or array yet.
        Nothing of it is checked, and its last text may be cut off."""
        fence = _STREAMED_FENCE.match(text)
        body = storable(text[fence.end() if fence else 0 :])
        try:
            value = from_json(body, allow_partial="trailing-strings")
        except ValueError:
            return None
        return value if isinstance(value, dict | list) else None

    @property
    def _roots(self) -> frozenset[str]:
        """The kinds of JSON value it can be; empty where the schema does not say."""
        return frozenset(_kinds(self.schema, self.schema, 0))

    def _checked(self, value: Any) -> Verdict[Any]:
        from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
        from jsonschema.validators import extend  # type: ignore[import-untyped]

        unsaid: dict[str, Any] = dict.fromkeys(("pattern", "patternProperties"), _unchecked)
        checker = extend(Draft202012Validator, unsaid)(self.schema)
        found = sorted(checker.iter_errors(value), key=lambda error: list(map(str, error.path)))
        if not found:
            return Fits(value)
        return _unfit([(tuple(error.path), error.message) for error in found])


def _no_type(given: object, why: str) -> InvalidInput:
    return InvalidInput(
        f"reply_type {given!r:.100} cannot be asked for: {why}. Give a pydantic model, a "
        "dataclass, or another type that JSON can express"
    )


def _unchecked(*_: object) -> Iterator[NoReturn]:
    return iter(())


def _kinds(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> set[str]:
    if depth > 20:
        return set()
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        return _kinds(root["$defs"][reference.removeprefix("#/$defs/")], root, depth + 1)
    kind = schema.get("type")
    if isinstance(kind, str):
        return {kind}
    kinds: set[str] = set()
    for choice in schema.get("anyOf") or schema.get("oneOf") or ():
        inner = _kinds(choice, root, depth + 1)
        if not inner:
            return set()
        kinds |= inner
    return kinds


def _unfit(found: Sequence[tuple[Sequence[object], str]]) -> Unfit:
    told = [
        f"{'.'.join(map(str, place)) or 'the whole'}: {message}"[:LONGEST_PROBLEM]
        for place, message in found[:MOST_PROBLEMS]
    ]
    if len(found) > MOST_PROBLEMS:
        told.append(f"and {len(found) - MOST_PROBLEMS} more")
    return Unfit(tuple(map(storable, told)))


# ------------------------------------------------------------------ reading, without guessing


@dataclass(frozen=True, slots=True)
class _Found:
    """A JSON value."""

    json: Any


def _only_value(text: str, roots: frozenset[str]) -> _Found | Unfit:
    """The one JSON value of a text."""
    whole = _value(text)
    if isinstance(whole, _Found):
        return whole
    fenced = _FENCE.findall(text)
    if fenced:
        return _value(fenced[0]) if len(fenced) == 1 else Unfit(("it has several code blocks",))
    within = _between_words(text)
    if len(within) > 1:
        within = [found for found in within if _kind(found.json) in roots]
    if len(within) == 1:
        return within[0]
    if within:
        return Unfit((f"it has {len(within)} JSON values: write one, and nothing else",))
    return whole


def _kind(value: Any) -> str:
    return "object" if isinstance(value, dict) else "array"


def _value(text: str) -> _Found | Unfit:
    body = text.strip()
    try:
        return _Found(_DECODER.decode(body))
    except RecursionError:
        return Unfit(("it is nested too deeply",))
    except ValueError as error:
        return Unfit((f"it is not JSON: {error}"[:LONGEST_PROBLEM],))


def _between_words(text: str) -> list[_Found]:
    """The objects and arrays of a text; none where any of them is cut off or broken, since what
    stands inside it would be taken for the whole."""
    found: list[_Found] = []
    place = 0
    while (opening := _OPENING.search(text, place)) is not None:
        try:
            value, place = _DECODER.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            return []
        found.append(_Found(value))
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return value


# Line breaks may stand in a string as they are: models write them so, and they mean one thing only.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_once, parse_constant=no_constant, parse_float=finite, strict=False
)
