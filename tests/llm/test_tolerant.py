"""Calls written as text are read where they can mean one thing only, and prose never is one."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedaemon.llm.protocol import RawCall
from pagedaemon.llm.tolerant import OPENINGS, may_begin, read_calls

TOOLS = ("weather", "send_message", "archival_memory_search")
ROME = '{"city": "Rome",  "days": 2}'
"""Its two spaces show that arguments are kept to the letter."""


def calls(text: str) -> list[tuple[str, str]]:
    """Name and arguments of each call in a text."""
    found = read_calls(text, TOOLS)
    return [] if found is None else [(call.name, call.arguments) for call in found.calls]


@pytest.mark.parametrize(
    "text",
    [
        f'<tool_call>\n{{"name": "weather", "arguments": {ROME}}}\n</tool_call>',
        f'<tool_call>{{"name": "weather", "parameters": {ROME}}}',
        f'<tool_call>{{"arguments": {ROME}, "name": "weather"}}</tool_call>',
        f'<tool_call>{{"id": "1", "type": "function", "name": "weather", "args": {ROME}}}',
        f'```json\n{{"name": "weather", "arguments": {ROME}}}\n```',
        f'```\n{{"tool": "weather", "arguments": {ROME}}}\n```',
        f'{{"name": "weather", "arguments": {ROME}}}',
        f'  [{{"name": "weather", "arguments": {ROME}}}]\n',
        f'{{"type": "function", "function": {{"name": "weather", "parameters": {ROME}}}}}',
        f'{{"function": "weather", "arguments": {ROME}}}',
        f'[TOOL_CALLS] [{{"name": "weather", "arguments": {ROME}}}]',
        f"[TOOL_CALLS]weather[ARGS]{ROME}",
        f"[TOOL_CALLS]weather{ROME}",
        f'functools[{{"name": "weather", "arguments": {ROME}}}]',
        f"<function=weather>{ROME}</function>",
        json.dumps({"name": "weather", "arguments": ROME}),
    ],
)
def test_a_call_is_read_in_each_of_the_known_ways_to_the_letter(text: str) -> None:
    assert calls(text) == [("weather", ROME)]


def test_text_around_a_marked_call_stays_text() -> None:
    text = f'Let me look.\n<tool_call>{{"name": "weather", "arguments": {ROME}}}</tool_call>\nSoon.'
    found = read_calls(text, TOOLS)
    assert found is not None
    assert found.calls == (RawCall("", "weather", ROME),)
    assert found.rest == "Let me look.\n\nSoon."


@pytest.mark.parametrize("between", ["\n", "</tool_call>\n<tool_call>"])
def test_several_calls_are_read_in_their_order(between: str) -> None:
    one, other = (
        json.dumps({"name": "weather", "arguments": {"city": city}}) for city in ("Rome", "Oslo")
    )
    text = (
        f"<tool_call>{one}{between}{other}</tool_call>" if "<" in between else one + between + other
    )
    assert calls(text) == [("weather", '{"city": "Rome"}'), ("weather", '{"city": "Oslo"}')]


def test_a_list_of_calls_is_read_in_its_order() -> None:
    made = [{"name": "weather", "arguments": {"city": city}} for city in ("Rome", "Oslo")]
    for text in (
        json.dumps(made),
        f"functools{json.dumps(made)}",
        f"[TOOL_CALLS]{json.dumps(made)}",
    ):
        assert [json.loads(said)["city"] for _, said in calls(text)] == ["Rome", "Oslo"]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('weather(city="Rome", days=2)', {"city": "Rome", "days": 2}),
        (
            "weather(city='Rome', request_heartbeat=True)",
            {"city": "Rome", "request_heartbeat": True},
        ),
        (
            'weather(\n  cities = ["Rome", "Oslo"],\n  at=None,\n)',
            {"cities": ["Rome", "Oslo"], "at": None},
        ),
        ("weather()", {}),
    ],
)
def test_a_python_call_with_plain_keywords_is_read(text: str, arguments: dict[str, Any]) -> None:
    ((name, said),) = calls(text)
    assert name == "weather"
    assert json.loads(said) == arguments


@pytest.mark.parametrize(
    "text",
    [
        'weather("Rome")',
        "weather(city=rome)",
        "weather(city=get('Rome'))",
        'weather(city="a" + "b")',
        'weather(city="a\\n")',
        'weather(city="Rome"',
        'weather(city="Rome") is what I would call.',
        'unknown(city="Rome")',
        "weather(city=)",
        "weather(,)",
        "weather (cloudy)",
    ],
)
def test_a_python_call_that_might_mean_something_else_is_text(text: str) -> None:
    assert read_calls(text, TOOLS) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The weather in Rome is fine.",
        '{"city": "Rome"}',
        '{"name": "Rome", "arguments": {}}',
        '{"name": "weather", "arguments": "Rome"}',
        '{"name": "weather", "city": "Rome"}',
        '{"name": "weather", "arguments": {}, "parameters": {}}',
        '{"name": "weather", "name": "weather", "arguments": {}}',
        'Call it so: ```json\n{"name": "weather", "arguments": {}}\n``` and wait.',
        'Write {"name": "weather", "arguments": {}} to call it.',
        "[1, 2]",
        '["weather"]',
        "[]",
        "Models answer in <tool_call> tags.",
        "The tag is `<tool_call>`, with `{name}` in it.",
        '<tool_call>["a"]</tool_call>',
        "<function=>{}",
        "[TOOL_CALLS]",
        "functools[partial]",
    ],
)
def test_what_only_speaks_of_calls_is_text(text: str) -> None:
    assert read_calls(text, TOOLS) is None


def test_a_marked_call_of_an_unknown_tool_is_a_call_so_that_the_model_is_told() -> None:
    assert calls('<tool_call>{"name": "nosuch", "arguments": {"a": 1}}') == [("nosuch", '{"a": 1}')]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('<tool_call>{"name": "weather", "arguments": {"city": "Ro', '{"city": "Ro'),
        ('<tool_call>{"name": "weather", "arguments": {city: 1}}</tool_call>', "{city: 1}}"),
        ("<function=weather>{'city': 1}</function>", "{'city': 1}"),
        ('[TOOL_CALLS]weather[ARGS]{"city": "Ro', '{"city": "Ro'),
    ],
)
def test_arguments_that_cannot_be_read_are_handed_on_and_never_empty(
    text: str, arguments: str
) -> None:
    assert calls(text) == [("weather", arguments)]


@given(st.text(alphabet=string.printable + "äé漢🙂", max_size=300))
def test_prose_is_never_a_call(text: str) -> None:
    if not any(mark in text for mark in OPENINGS):
        assert read_calls(f"Well, {text}", TOOLS) is None


NAMES = st.sampled_from(TOOLS)
ARGUMENTS = st.dictionaries(st.text(max_size=8), st.text(max_size=12) | st.integers(), max_size=4)
DEBRIS = """
</tool_call> ``` { } [ ] "name" : , "weather" "arguments" weather( ) \\ " ' nan [ARGS] city=
"""
PIECES = st.sampled_from([*OPENINGS, *DEBRIS.split(), "```json\n", "\n```", " "])


@given(st.lists(PIECES, max_size=25).map("".join))
def test_no_debris_of_calls_makes_it_raise_or_lose_an_argument(text: str) -> None:
    found = read_calls(text, TOOLS)
    for call in () if found is None else found.calls:
        assert call.name
        assert call.arguments.strip() in text or call.arguments in ("{}", json.dumps({}))


@given(NAMES, ARGUMENTS, st.sampled_from(["<tool_call>%s</tool_call>", "```json\n%s\n```", "%s"]))
def test_whatever_the_arguments_they_come_back_to_the_letter(
    name: str, arguments: dict[str, Any], around: str
) -> None:
    written = json.dumps(arguments)
    text = around % f'{{"name": "{name}", "arguments": {written}}}'
    assert calls(text) == [(name, written)]


@given(NAMES, ARGUMENTS, st.sampled_from(["", "Let me see. "]), st.integers(0, 400))
def test_where_a_call_may_begin_is_known_before_it_does(
    name: str, arguments: dict[str, Any], before: str, cut: int
) -> None:
    said = json.dumps({"name": name, "arguments": arguments})
    text = f"{before}<tool_call>{said}</tool_call>"[:cut]
    begin = may_begin(text, TOOLS)
    if len(text) > len(before):
        assert begin is not None
        assert begin <= len(before)


def test_plain_text_is_not_held_back() -> None:
    assert may_begin("The weather is fine, and so is this", TOOLS) is None
    assert may_begin("A < B", TOOLS) is None
    assert may_begin("see <", TOOLS) == 4
