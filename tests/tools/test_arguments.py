"""What is read of a model's broken JSON, and what is sent back to it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedaemon.messages import storable
from pagedaemon.tools.arguments import DEEPEST, UNREADABLE, read_arguments

TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=5)
NEARLY_JSON = st.lists(
    st.sampled_from(["{", "}", "[", "]", ",", ":", '"', "\\", "\n", "a", "1", "```", "\\u", "d800"])
).map("".join)

BACKSLASH = "\\"


@settings(deadline=None)
@given(st.text() | NEARLY_JSON | st.text(st.characters(categories=["Cs", "Cc"])))
def test_any_text_is_read_or_explained_and_can_be_sent_again(raw: str) -> None:
    arguments = read_arguments(raw)
    again = json.loads(arguments.wire)
    assert isinstance(again, dict)
    arguments.wire.encode("utf-8")
    if arguments.value is None:
        assert arguments.problem
        assert again == {UNREADABLE: storable(raw)}
    else:
        assert arguments.problem is None
        assert again == arguments.value


@settings(deadline=None)
@given(OBJECT, st.booleans(), st.sampled_from([None, 1]))
def test_a_valid_object_is_sent_again_to_the_letter(
    value: dict[str, Any], ascii_only: bool, indent: int | None
) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    arguments = read_arguments(raw)
    assert arguments.value == value
    assert arguments.wire == raw


@settings(deadline=None)
@given(OBJECT)
def test_a_fence_and_double_encoding_change_nothing(value: dict[str, Any]) -> None:
    plain = json.dumps(value)
    for raw in (f"```json\n{plain}\n```", f" ```\n{plain}``` \n", json.dumps(plain)):
        assert read_arguments(raw).value == value
        assert read_arguments(raw).wire == plain


@settings(deadline=None)
@given(OBJECT, st.data())
def test_an_object_that_was_cut_off_is_never_read(
    value: dict[str, Any], data: st.DataObject
) -> None:
    raw = json.dumps(value)
    cut = data.draw(st.integers(min_value=1, max_value=len(raw) - 1))
    assert read_arguments(raw[:cut]).value is None


@settings(deadline=None)
@given(TEXT)
def test_raw_control_characters_in_a_string_are_what_they_are(text: str) -> None:
    raw = '{"a": "' + text.replace(BACKSLASH, "").replace('"', "") + '"}'
    assert read_arguments(raw).value == json.loads(raw, strict=False)


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_blank_text_is_a_call_without_arguments(blank: str) -> None:
    arguments = read_arguments(blank)
    assert (arguments.value, arguments.wire, arguments.problem) == ({}, "{}", None)


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ('{"a": "one\ntwo\tthree\r"}', {"a": "one\ntwo\tthree\r"}),
        ('{"a": 1,}', {"a": 1}),
        ('{"a": [1, 2 , ] , }', {"a": [1, 2]}),
        ('{"a": "x,}"\n,\n}', {"a": "x,}"}),
        (r'{"a": "^\d+\w$"}', {"a": r"^\d+\w$"}),
        (
            r'{"a": "C:\Program Files\Python", "b": "x\ny"}',
            {"a": r"C:\Program Files\Python", "b": "x\ny"},
        ),
        (r'{"a": "C:\users"}', {"a": r"C:\users"}),
        (r'{"a": "say \"\d\" or \\d"}', {"a": r'say "\d" or \d'}),
        ('```json\n{"a": "x\ny",}\n```', {"a": "x\ny"}),
        (r'"{\"a\": 1}"', {"a": 1}),
    ],
)
def test_what_can_mean_one_thing_only_is_mended(raw: str, value: dict[str, Any]) -> None:
    arguments = read_arguments(raw)
    assert arguments.problem is None
    assert arguments.value == value
    assert json.loads(arguments.wire) == value


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ('{"a": "cut o', "Unterminated string"),
        ('{"a": 1', "delimiter"),
        ('{"a": 1}}', "Extra data"),
        ("{'a': 1}", "double quotes"),
        ('{"a": 1,,}', "double quotes"),
        ("{,}", "double quotes"),
        ('{"a": [,]}', "Expecting value"),
        (r'{"a": "C:\new\dir"}', "escape"),
        (r'{"a": "it\'s"}', "escape"),
        ('{"a": "one\\\ntwo"}', "escape"),
        ('{"a": "one\\\ttwo"}', "escape"),
        ("weather in Rome", "Expecting value"),
        ('Sure! {"a": 1}', "Expecting value"),
        ("[1]", "an array, not an object"),
        ('"Rome"', "a string, not an object"),
        ('""', "a string, not an object"),
        ("3", "a number, not an object"),
        ("true", "a boolean, not an object"),
        ("null", "null, not an object"),
        ('{"a": 1, "a": 2}', 'the key "a" stands twice'),
        ('{"a": {"b": 1, "b": 1}}', 'the key "b" stands twice'),
        ('{"a": NaN}', "NaN is not a JSON value"),
        ('{"a": -Infinity}', "-Infinity is not a JSON value"),
        ('{"a": 1e999}', "too large"),
        (r'{"a": "\ud800"}', "surrogate"),
        (r'{"\udc00": 1}', "surrogate"),
        ('{"a": "\ud800"}', "surrogate"),
        (r'{"a": "\u0000"}', "NUL"),
        ('{"a": ["\x00"]}', "control character"),
        ('{"a": ' + "9" * 5_000 + "}", "digits"),
    ],
)
def test_what_would_be_a_guess_is_not_read(raw: str, problem: str) -> None:
    arguments = read_arguments(raw)
    assert arguments.value is None
    assert arguments.problem is not None
    assert problem in arguments.problem
    assert json.loads(arguments.wire) == {UNREADABLE: storable(raw)}


def test_a_surrogate_pair_is_one_character() -> None:
    raw = r'{"a": "\ud83d\ude80"}'
    assert read_arguments(raw).value == {"a": "🚀"}
    assert read_arguments(raw).wire == raw


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_nesting_is_bounded(opening: str, closing: str) -> None:
    def nested(levels: int) -> str:
        inner = levels - 1
        return '{"a":' + opening * inner + "1" + closing * inner + "}"

    assert read_arguments(nested(DEEPEST)).value is not None
    for levels in (DEEPEST + 1, 500, 200_000):
        problem = read_arguments(nested(levels)).problem
        assert problem is not None
        assert "nested deeper" in problem


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps({"a": "x" * 5_000_000}),
        '{"a": "' + "line\n" * 1_000_000 + '",}',
        '{"a": "' + '\\"' * 2_500_000,
        '"' * 5_000_000,
        "[" * 5_000_000,
        "," * 5_000_000,
        "{" + " " * 5_000_000 + ",",
        "```" + " " * 5_000_000,
        '{"a": "' + BACKSLASH * 5_000_001,
    ],
    ids=[
        "whole",
        "mended",
        "quotes",
        "strings",
        "open",
        "commas",
        "spaces",
        "fence",
        "lone",
    ],
)
def test_megabytes_are_read_in_seconds_whatever_they_hold(raw: str) -> None:
    started = time.perf_counter()
    arguments = read_arguments(raw)
    assert time.perf_counter() - started < 30
    assert isinstance(json.loads(arguments.wire), dict)


@settings(deadline=None)
@given(st.text())
def test_storable_text_can_be_stored_and_keeps_the_rest(text: str) -> None:
    cleaned = storable(text)
    assert len(cleaned) == len(text)
    assert "\x00" not in cleaned.encode("utf-8").decode("utf-8")


def test_storable_text_marks_what_it_lost() -> None:
    assert storable("a\x00b\ud800c🚀") == "a\ufffdb\ufffdc🚀"
