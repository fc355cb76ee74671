"""A typed reply is read where it can mean one thing only, and what is wrong with it is said."""

from __future__ import annotations

import json
import sys
import typing
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict

from pagedaemon.errors import InvalidInput
from pagedaemon.turn.expected import LONGEST_PROBLEM, MOST_PROBLEMS, Expected, Fits, Unfit


class Line(BaseModel):
    """One line of an invoice."""

    what: str
    amount: float = Field(ge=0)


class Invoice(BaseModel):
    """What a shop sends."""

    number: str
    due: date
    lines: list[Line]

    @field_validator("number")
    @classmethod
    def _ours(cls, number: str) -> str:
        if not number.startswith("A"):
            raise ValueError("ours begin with A")
        return number


class Tree(BaseModel):
    """A type that holds itself."""

    name: str
    below: list[Tree] = []


@dataclass
class Point:
    """A dataclass."""

    x: int
    y: int


class Place(TypedDict):
    """A typed dict."""

    town: str


GOOD = '{"number": "A1", "due": "2026-12-24", "lines": [{"what": "tea", "amount": 3.5}]}'
INVOICE = Expected.of(Invoice)
STORED: Expected[Any] = Expected(json.loads(INVOICE.text))
"""As another process has it: without the type."""


def problems(expected: Expected[Any], text: str) -> tuple[str, ...]:
    verdict = expected.read(text)
    assert isinstance(verdict, Unfit), verdict
    return verdict.problems


@pytest.mark.parametrize(
    ("reply_type", "text", "value"),
    [
        (Invoice, GOOD, Invoice.model_validate_json(GOOD)),
        (Point, '{"x": 1, "y": 2}', Point(1, 2)),
        (Place, '{"town": "Rome"}', {"town": "Rome"}),
        (Tree, '{"name": "a", "below": [{"name": "b"}]}', Tree(name="a", below=[Tree(name="b")])),
        (list[int], "[1, 2]", [1, 2]),
        (int, " 42\n", 42),
        (bool, "true", True),
        (date, '"2026-12-24"', date(2026, 12, 24)),
        (date, "2026-12-24", date(2026, 12, 24)),
        (Literal["yes", "no"], '"yes"', "yes"),
        (Literal["yes", "no"], "yes", "yes"),
        (str, "42", None),
        (str, "plain words", "plain words"),
        (int | None, "null", None),
        (tuple[int, str], '[1, "a"]', (1, "a")),
    ],
)
def test_any_type_that_json_can_express_is_read(reply_type: Any, text: str, value: object) -> None:
    verdict = Expected.of(reply_type).read(text)
    if reply_type is str and text == "42":
        assert isinstance(verdict, Unfit), "a number is no text, also where it could be one"
    else:
        assert verdict == Fits(value)


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}\n```\n",
        f"Here it is:\n```json\n{GOOD}\n```\nAnything else?",
        f"Here it is: {GOOD} Anything else?",
        f"As in [1]: {GOOD}",
        GOOD.replace("tea", "tea\nand milk"),
    ],
)
def test_fences_words_around_and_line_breaks_do_no_harm(text: str) -> None:
    verdict = INVOICE.read(text)
    assert isinstance(verdict, Fits)
    assert verdict.value.number == "A1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "There is no invoice.",
        f"{GOOD} or {GOOD}",
        f"```json\n{GOOD}\n```\n```json\n{GOOD}\n```",
        GOOD[:-1],
        f"[{GOOD}",
        f"[{GOOD}]",
        f"Here: [{GOOD}]",
        f"Here: [{GOOD}, ",
        f"[{GOOD}, " + '{"number": "A2',
        GOOD.replace('"A1"', '"A1", "number": "A2"'),
        GOOD.replace("3.5", "NaN"),
        GOOD.replace("3.5", "1e999"),
        "[" * 5_000,
        '{"a":' * 5_000,
        '{"a": "\ud800"}',
    ],
)
@pytest.mark.parametrize("expected", [INVOICE, STORED], ids=["type", "schema"])
def test_what_can_mean_several_things_or_is_cut_off_is_not_guessed(
    expected: Expected[Any], text: str
) -> None:
    assert problems(expected, text)


@pytest.mark.parametrize("expected", [INVOICE, STORED], ids=["type", "schema"])
def test_problems_say_where_and_what(expected: Expected[Any]) -> None:
    text = '{"number": "A1", "lines": [{"what": "tea", "amount": "much"}]}'
    found = "\n".join(problems(expected, text))
    assert "due" in found
    assert "lines.0.amount: " in found
    assert "number" in found


def test_validators_written_in_python_count_where_the_type_is_at_hand() -> None:
    text = GOOD.replace("A1", "B1")
    assert problems(INVOICE, text) == ("number: Value error, ours begin with A",)
    assert STORED.read(text) == Fits(json.loads(text))


def test_without_the_type_bounds_count_and_patterns_do_not() -> None:
    class Code(BaseModel):
        code: str = Field(pattern=r"^(?<year>\d{4})$", max_length=4)

    stored: Expected[Any] = Expected(Expected.of(Code).schema)
    assert isinstance(stored.read('{"code": "abcd"}'), Fits)
    assert "code: " in problems(stored, '{"code": "abcde"}')[0]


def test_problems_are_few_and_short() -> None:
    found = problems(Expected.of(list[int]), json.dumps(["x" * 2_000] * 500))
    assert len(found) == MOST_PROBLEMS + 1
    assert found[-1] == f"and {500 - MOST_PROBLEMS} more"
    stored: Expected[Any] = Expected({"type": "array", "items": {"type": "integer"}})
    assert all(
        len(one) <= LONGEST_PROBLEM for one in problems(stored, json.dumps(["x" * 2_000] * 20))
    )


class Extended(TypedDict):
    """A `TypedDict` of `typing_extensions`."""

    a: int


class BuiltIn(typing.TypedDict):
    """One of `typing`."""

    a: int


class Opaque:
    """Nothing that JSON can express."""


@pytest.mark.parametrize(
    "reply_type",
    [Opaque, 5, "Nowhere", type(lambda: 0), complex | Opaque, Literal["\ud800"]],
)
def test_what_json_cannot_express_is_refused(reply_type: Any) -> None:
    with pytest.raises(InvalidInput, match="reply_type"):
        Expected.of(reply_type)


def test_a_typed_dict_is_read_or_told_where_to_have_it_from() -> None:
    assert Expected.of(Extended).read('{"a": 1}') == Fits({"a": 1})
    if sys.version_info >= (3, 12):
        assert Expected.of(BuiltIn).read('{"a": 1}') == Fits({"a": 1})
    else:
        with pytest.raises(InvalidInput, match=r"Please use `typing_extensions\.TypedDict`"):
            Expected.of(BuiltIn)


def test_a_mistake_in_a_validator_is_not_told_to_the_model() -> None:
    class Broken(BaseModel):
        number: int

        @field_validator("number")
        @classmethod
        def _broken(cls, number: int) -> int:
            raise LookupError("a mistake")

    with pytest.raises(LookupError):
        Expected.of(Broken).read('{"number": 1}')


def test_reply_that_grows_is_read_as_far_as_it_has_come() -> None:
    text = f"```json\n{GOOD}"
    seen = [INVOICE.partial(text[:end]) for end in range(len(text) + 1)]
    assert seen[0] is None
    assert {"number": "A1", "due": "2026-"} in seen
    assert seen[-1] == json.loads(GOOD)
    assert INVOICE.partial("Here it is") is None
    assert INVOICE.partial("42") is None
    assert INVOICE.partial('["\ud83d') == ["\ufffd"]


@pytest.mark.parametrize(
    "given",
    ["", "not a type!", "int", lambda x: x, len, list["not a type!"], list["1/0"], list["int.no"]],  # type: ignore[name-defined, valid-type]  # noqa: F722
    ids=repr,
)
def test_what_is_no_type_is_refused_and_named(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"reply_type.*cannot be asked for"):
        Expected.of(given)
