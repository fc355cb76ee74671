"""What a model is shown of a Python signature, and what of its answers is accepted."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import functools
import json
import pathlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Optional, Union

import pytest
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from pagedaemon.errors import ToolDefinitionError
from pagedaemon.testing import check_anthropic, check_gemini, check_openai
from pagedaemon.tools.schema import MOST_PROBLEMS, problems, shape
from pagedaemon.tools.tool import Tool, ToolContext, internal_tool, tool

if TYPE_CHECKING:
    from collections import Counter as OnlyForTypeCheckers


class Unit(enum.Enum):
    """A unit of temperature."""

    CELSIUS = "c"
    FAHRENHEIT = "f"


class Level(enum.IntEnum):
    """How loud."""

    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Point:
    """Somewhere."""

    x: int
    y: int = 0


class Address(BaseModel):
    """Where someone lives."""

    street: str
    title: str | None = Field(default=None, description="As on the letter")


class Person(BaseModel):
    """Someone."""

    name: str
    addresses: list[Address] = []


class Open(BaseModel):
    """Takes anything more."""

    model_config = ConfigDict(extra="allow")

    known: int


class Cat(BaseModel):
    """Purrs."""

    kind: Literal["cat"]


class Dog(BaseModel):
    """Barks."""

    kind: Literal["dog"]
    age: int


class Span(NamedTuple):
    """From, to."""

    first: int
    last: int


class Node(BaseModel):
    """Contains itself."""

    children: list[Node] = []


ADDRESS = {
    "type": "object",
    "description": "Where someone lives.",
    "properties": {
        "street": {"type": "string"},
        "title": {
            "description": "As on the letter",
            "anyOf": [{"type": "string"}, {"type": "null"}],
            "default": None,
        },
    },
    "required": ["street"],
    "additionalProperties": False,
}
CAT = {
    "type": "object",
    "description": "Purrs.",
    "properties": {"kind": {"type": "string", "enum": ["cat"]}},
    "required": ["kind"],
    "additionalProperties": False,
}
DOG = {
    "type": "object",
    "description": "Barks.",
    "properties": {"kind": {"type": "string", "enum": ["dog"]}, "age": {"type": "integer"}},
    "required": ["kind", "age"],
    "additionalProperties": False,
}

ANY_KIND: dict[str, Any] = {
    "anyOf": [
        {"type": "string"},
        {"type": "number"},
        {"type": "boolean"},
        {"type": "null"},
        {"type": "object", "additionalProperties": True},
        {"type": "array", "items": {"type": "string"}},
    ]
}

SHOWN: list[tuple[Any, dict[str, Any]]] = [
    (str, {"type": "string"}),
    (int, {"type": "integer"}),
    (float, {"type": "number"}),
    (bool, {"type": "boolean"}),
    (bytes, {"type": "string"}),
    (Any, ANY_KIND),
    (object, ANY_KIND),
    (Any | None, ANY_KIND),
    (JsonValue, ANY_KIND),
    (decimal.Decimal, {"anyOf": [{"type": "number"}, {"type": "string"}]}),
    (dt.datetime, {"type": "string", "format": "date-time"}),
    (dt.date, {"type": "string", "format": "date"}),
    (dt.time, {"type": "string", "format": "time"}),
    (dt.timedelta, {"type": "string", "format": "duration"}),
    (uuid.UUID, {"type": "string", "format": "uuid"}),
    (pathlib.Path, {"type": "string"}),
    (
        Unit,
        {"type": "string", "description": "A unit of temperature.", "enum": ["c", "f"]},
    ),
    (Level, {"type": "integer", "description": "How loud. One of: 1, 2."}),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Literal["only"], {"type": "string", "enum": ["only"]}),
    (Literal["", "some"], {"type": "string", "description": 'One of: "", "some".'}),
    (
        Literal["a", 1, None],
        {
            "anyOf": [
                {"type": "string", "enum": ["a"]},
                {"type": "integer", "description": "1."},
                {"type": "null"},
            ]
        },
    ),
    (Optional[str], {"anyOf": [{"type": "string"}, {"type": "null"}]}),  # noqa: UP045
    (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),  # noqa: UP007
    (
        Literal["a", 1] | None,
        {
            "anyOf": [
                {"type": "string", "enum": ["a"]},
                {"type": "integer", "description": "1."},
                {"type": "null"},
            ]
        },
    ),
    (list, {"type": "array", "items": ANY_KIND}),
    (tuple, {"type": "array", "items": ANY_KIND}),
    (list[Any], {"type": "array", "items": ANY_KIND}),
    (
        list[dict[str, Any]],
        {"type": "array", "items": {"type": "object", "additionalProperties": True}},
    ),
    (tuple[()], {"type": "array", "items": ANY_KIND, "maxItems": 0, "minItems": 0}),
    (list[int], {"type": "array", "items": {"type": "integer"}}),
    (Sequence[str], {"type": "array", "items": {"type": "string"}}),
    (
        list[list[str]],
        {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
    ),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
    (
        tuple[int, int],
        {"type": "array", "items": {"type": "integer"}, "maxItems": 2, "minItems": 2},
    ),
    (
        tuple[int, str],
        {
            "type": "array",
            "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "maxItems": 2,
            "minItems": 2,
        },
    ),
    (Span, {"type": "array", "items": {"type": "integer"}, "maxItems": 2, "minItems": 2}),
    (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
    (dict, {"type": "object", "additionalProperties": True}),
    (dict[str, Any], {"type": "object", "additionalProperties": True}),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
    (
        Mapping[str, list[int]],
        {
            "type": "object",
            "additionalProperties": {"type": "array", "items": {"type": "integer"}},
        },
    ),
    (
        dict[Unit, int],
        {
            "type": "object",
            "properties": {"c": {"type": "integer"}, "f": {"type": "integer"}},
            "additionalProperties": False,
        },
    ),
    (
        dict[Annotated[str, Field(pattern="^[a-z]+$")], int],
        {"type": "object", "additionalProperties": {"type": "integer"}},
    ),
    (
        Point,
        {
            "type": "object",
            "description": "Somewhere.",
            "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
            "required": ["x"],
            "additionalProperties": False,
        },
    ),
    (Address, ADDRESS),
    (
        Person,
        {
            "type": "object",
            "description": "Someone.",
            "properties": {
                "name": {"type": "string"},
                "addresses": {"type": "array", "items": ADDRESS, "default": []},
            },
            "required": ["name"],
            "additionalProperties": False,
        },
    ),
    (list[Address], {"type": "array", "items": ADDRESS}),
    (
        Open,
        {
            "type": "object",
            "description": "Takes anything more.",
            "properties": {"known": {"type": "integer"}},
            "required": ["known"],
            "additionalProperties": True,
        },
    ),
    (Cat | Dog, {"anyOf": [CAT, DOG]}),
    (Annotated[Cat | Dog, Field(discriminator="kind")], {"anyOf": [CAT, DOG]}),
    (
        Annotated[int, Field(description="How many", ge=1, lt=9)],
        {"type": "integer", "description": "How many", "exclusiveMaximum": 9, "minimum": 1},
    ),
    (
        Annotated[str, Field(min_length=1, max_length=5, pattern="^a")],
        {"type": "string", "maxLength": 5, "minLength": 1, "pattern": "^a"},
    ),
    (
        Annotated[list[str], Field(max_length=2)],
        {"type": "array", "items": {"type": "string"}, "maxItems": 2},
    ),
]


def taking(annotation: Any, *default: Any) -> Tool:
    """A tool with one parameter `it` of that type."""

    def take(it: Any) -> None:
        """Takes it."""

    take.__annotations__ = {"it": annotation}
    take.__defaults__ = default or None
    return tool(take)


@pytest.mark.parametrize(("annotation", "schema"), SHOWN, ids=[str(case[0]) for case in SHOWN])
def test_a_type_is_shown_as_plain_json_schema(annotation: Any, schema: dict[str, Any]) -> None:
    parameters = taking(annotation).parameters
    assert parameters == {
        "type": "object",
        "properties": {"it": schema},
        "required": ["it"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(("annotation", "schema"), SHOWN, ids=[str(case[0]) for case in SHOWN])
def test_what_a_model_reads_first_stands_first(annotation: Any, schema: dict[str, Any]) -> None:
    shown = taking(annotation).parameters["properties"]["it"]
    assert json.dumps(shown) == json.dumps(schema)


@pytest.mark.parametrize("annotation", [case[0] for case in SHOWN], ids=str)
@pytest.mark.parametrize("check", [check_openai, check_anthropic, check_gemini])
def test_every_provider_takes_what_is_shown(
    check: Callable[[Any, Any], None], annotation: Any
) -> None:
    made = taking(annotation)
    declared = {
        "type": "function",
        "function": {"name": "take", "description": "Takes.", "parameters": made.parameters},
    }
    messages = [{"role": "user", "content": "Take it."}]
    check(messages, [declared])


@pytest.mark.parametrize(
    ("annotation", "default", "schema"),
    [
        (int, 3, {"type": "integer", "default": 3}),
        (list[int], [1], {"type": "array", "items": {"type": "integer"}, "default": [1]}),
        (Level, Level.LOW, {"type": "integer", "default": 1}),
        (str, None, {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}),
        (Any, object(), ANY_KIND),
    ],
)
def test_a_default_is_shown_and_makes_a_parameter_optional(
    annotation: Any, default: Any, schema: dict[str, Any]
) -> None:
    parameters = taking(annotation, default).parameters
    parameters["properties"]["it"].pop("description", None)
    assert parameters["properties"]["it"] == schema
    assert "required" not in parameters


def test_parameters_keep_their_order_and_any_name() -> None:
    def many(schema: int, json: str, _hidden: int, model_config: int, copy: int = 1) -> None:
        """Takes names that a pydantic model could not have."""

    many_tool = tool(many)
    assert list(many_tool.parameters["properties"]) == [
        "schema",
        "json",
        "_hidden",
        "model_config",
        "copy",
    ]
    given = {"schema": 1, "json": "a", "_hidden": 2, "model_config": 3}
    assert many_tool.signature.read(given) == given


def test_a_function_without_parameters_has_an_empty_object() -> None:
    def now() -> str:
        """Says the time."""
        return "noon"

    assert tool(now).parameters == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


def test_a_default_in_the_annotation_reaches_a_function_that_has_none() -> None:
    taken = taking(Annotated[int, Field(default=3)])
    assert "required" not in taken.parameters
    assert taken.signature.read({}) == {"it": 3}


def test_a_default_is_left_to_the_function_so_that_a_sentinel_stays_the_same_object() -> None:
    assert taking(Any, object()).signature.read({}) == {}


def test_an_alias_in_an_annotation_does_not_rename_the_parameter() -> None:
    taken = taking(Annotated[str, Field(alias="other")])
    assert list(taken.parameters["properties"]) == ["it"]
    assert taken.signature.read({"it": "x"}) == {"it": "x"}


def test_types_local_to_where_the_tool_is_made_are_found() -> None:
    class Colour(enum.Enum):
        RED = "red"

    @tool(effect="read")
    def paint(colour: Colour) -> str:
        """Paints."""
        return colour.value

    assert paint.parameters["properties"]["colour"]["enum"] == ["red"]


def test_methods_partials_and_callable_objects_show_what_is_left_to_give() -> None:
    class Shelf:
        """Books."""

        def put(self, book: str, at: int = 0) -> str:
            """Puts a book."""
            return f"{book}@{at}"

        def __call__(self, book: str) -> str:
            """Finds a book."""
            return book

    assert list(tool(Shelf().put).parameters["properties"]) == ["book", "at"]
    at_two = tool(functools.partial(Shelf().put, at=2), name="put_second")
    assert at_two.parameters["required"] == ["book"]
    assert at_two.description == "Puts a book."
    called = tool(Shelf(), name="shelf")
    assert called.description == "Finds a book."
    assert called.parameters["required"] == ["book"]


def test_a_decorated_function_shows_its_own_signature() -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @tool
    @logged
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    assert add.parameters["required"] == ["a", "b"]


@pytest.mark.parametrize("annotation", [ToolContext, ToolContext | None, "ToolContext"])
def test_the_context_is_filled_in_and_not_shown(annotation: Any) -> None:
    def note(text: str, somehow: Any) -> None:
        """Notes."""

    note.__annotations__["somehow"] = annotation
    note_tool = tool(note)
    assert list(note_tool.parameters["properties"]) == ["text"]
    assert note_tool.signature.injected == ("somehow",)


# --- what cannot be a tool ----------------------------------------------------------------------


def no_annotation(a: int, b) -> None:  # type: ignore[no-untyped-def]
    """Leaves out a type."""


def star_args(*b: int) -> None:
    """Takes any number."""


def star_kwargs(**b: int) -> None:
    """Takes anything."""


def positional(b: int, /) -> None:
    """Takes no name."""


def reserved_flag(request_heartbeat: bool) -> None:
    """Takes the runtime's name."""


def reserved_thoughts(inner_thoughts: str) -> None:
    """Takes the runtime's name."""


def field_default(b: int = Field(default=3)) -> None:
    """Has a Field for a default."""


def recursive(a: int, b: list[Node]) -> None:
    """Takes a tree."""


def not_at_run_time(b: OnlyForTypeCheckers[str]) -> None:
    """Names what only a type checker sees."""


def no_schema(a: int, b: type) -> None:
    """Takes a class."""


def no_schema_in_a_union(b: int | Callable[[], int]) -> None:
    """Takes a function, perhaps."""


def bad_pattern(a: int, b: Annotated[str, Field(pattern="(")]) -> None:
    """Has a pattern that is none."""


class Unbound:
    """Has a method."""

    def method(self, b: int) -> None:
        """Is not bound."""


@pytest.mark.parametrize(
    ("function", "parameter", "reason"),
    [
        (no_annotation, "b", "no type annotation"),
        (star_args, "b", "any number"),
        (star_kwargs, "b", "any number"),
        (positional, "b", "positional-only"),
        (reserved_flag, "request_heartbeat", "reserved"),
        (reserved_thoughts, "inner_thoughts", "reserved"),
        (field_default, "b", "Annotated"),
        (recursive, "b", "contains itself"),
        (not_at_run_time, "b", "OnlyForTypeCheckers"),
        (no_schema, "b", "no JSON Schema"),
        (no_schema_in_a_union, "b", "no JSON Schema"),
        (bad_pattern, "b", "no JSON Schema"),
        (Unbound.method, "self", "bound method"),
    ],
)
def test_what_a_model_cannot_be_shown_is_refused_by_function_and_parameter(
    function: Callable[..., Any], parameter: str, reason: str
) -> None:
    with pytest.raises(ToolDefinitionError) as refused:
        tool(function)
    message = str(refused.value)
    assert repr(function.__name__) in message
    assert repr(parameter) in message
    assert reason in message


# --- what comes back ----------------------------------------------------------------------------

ACCEPTED: list[tuple[Any, Any, Any]] = [
    (int, 3, 3),
    (int, "3", 3),
    (int, 3.0, 3),
    (float, "2.5", 2.5),
    (bool, "true", True),
    (bool, 1, True),
    (str, "3", "3"),
    (int | str, "3", "3"),
    (dt.date, "2026-11-30", dt.date(2026, 11, 30)),
    (
        uuid.UUID,
        "8c7dd922-ad47-494f-bc0c-36b4c8d5d1a8",
        uuid.UUID(int=0x8C7DD922AD47494FBC0C36B4C8D5D1A8),
    ),
    (pathlib.Path, "a/b", pathlib.Path("a/b")),
    (Unit, "c", Unit.CELSIUS),
    (Literal["a"], "a", "a"),
    (tuple[int, str], [1, "a"], (1, "a")),
    (set[int], [1, 1, 2], {1, 2}),
    (dict[Unit, int], {"c": 1}, {Unit.CELSIUS: 1}),
    (Point, {"x": 1}, Point(1)),
    (
        Person,
        {"name": "Lin", "addresses": [{"street": "A"}]},
        Person(name="Lin", addresses=[Address(street="A")]),
    ),
    (Cat | Dog, {"kind": "dog", "age": 3}, Dog(kind="dog", age=3)),
    (list[int] | None, None, None),
    (Any, {"a": [1, None]}, {"a": [1, None]}),
    (int, 2**70, 2**70),
]


@pytest.mark.parametrize(("annotation", "sent", "value"), ACCEPTED)
def test_a_value_is_given_to_the_function_as_its_type(
    annotation: Any, sent: Any, value: Any
) -> None:
    got = taking(annotation).signature.read({"it": sent})["it"]
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    ("annotation", "sent", "line"),
    [
        (str, {"text": "hi"}, 'it: Input should be a valid string, got {"text": "hi"}'),
        (str, 3, "it: Input should be a valid string, got 3"),
        (str, True, "it: Input should be a valid string, got true"),
        (str, None, "it: Input should be a valid string, got null"),
        (int, "3.5", "it: Input should be a valid integer"),
        (float, "inf", "it: Input should be a finite number"),
        (list[str], "a", 'it: Input should be a valid array, got "a"'),
        (list[int], [1, "x"], "it[1]: Input should be a valid integer"),
        (Literal["a", "b"], "c", "it: Input should be 'a' or 'b', got \"c\""),
        (Person, {"name": "x", "addresses": [{}]}, "it.addresses[0].street: Field required"),
        (Annotated[int, Field(ge=1)], 0, "it: Input should be greater than or equal to 1, got 0"),
        (int | list[int], "x", "it as int: Input should be a valid integer"),
    ],
)
def test_a_problem_names_the_place_what_was_expected_and_what_came(
    annotation: Any, sent: Any, line: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        taking(annotation).signature.read({"it": sent})
    assert problems(refused.value, {"it": sent})[0].startswith(line)


def test_a_missing_and_an_unknown_argument_are_each_named() -> None:
    with pytest.raises(ValidationError) as refused:
        taking(str).signature.read({"that": 1})
    lines = problems(refused.value, {"that": 1})
    assert lines == ["it: Field required", "that: Extra inputs are not permitted, got 1"]


def test_a_choice_of_a_union_is_told_from_a_missing_name() -> None:
    value = {"it": {"kind": "dog"}}
    with pytest.raises(ValidationError) as refused:
        taking(Annotated[Cat | Dog, Field(discriminator="kind")]).signature.read(value)
    assert problems(refused.value, value) == ["it as dog.age: Field required"]


def test_many_problems_and_long_values_are_cut() -> None:
    value = {"it": ["x" * 200] * 30}
    with pytest.raises(ValidationError) as refused:
        taking(list[int]).signature.read(value)
    lines = problems(refused.value, value)
    assert len(lines) == MOST_PROBLEMS + 1
    assert lines[-1] == f"and {30 - MOST_PROBLEMS} more"
    assert max(map(len, lines)) < 250


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (str, "{it: string}"),
        (int | None, "{it: integer | null}"),
        (Literal["a", "b"], '{it: "a" | "b"}'),
        (list[int], "{it: [integer]}"),
        (dt.date, "{it: string (date)}"),
        (dict[str, int], "{it: {[name]: integer}}"),
        (dict, "{it: {[name]: any}}"),
        (Point, "{it: {x: integer, y?: integer}}"),
        (Any, "{it: any}"),
    ],
)
def test_the_expected_shape_is_one_short_line(annotation: Any, text: str) -> None:
    assert shape(taking(annotation).parameters) == text


def test_an_internal_tool_takes_its_words_from_the_given_text() -> None:
    def append(label: str, content: str) -> tuple[str, str]:
        """For the developer."""
        return label, content

    text = "Adds text.\n\nArgs:\n    label: Which block.\n    content: What to add."
    made = internal_tool(append, description=text)
    assert made.description == "Adds text."
    assert made.effect == "internal"
    assert made.parameters["properties"] == {
        "label": {"type": "string", "description": "Which block."},
        "content": {"type": "string", "description": "What to add."},
    }
    assert made(label="a", content="b") == ("a", "b")
