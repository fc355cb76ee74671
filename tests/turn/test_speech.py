"""What a listener hears of a reply that is still growing, whatever the parts it comes in."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedaemon.config import MEMGPT, NATIVE, Style
from pagedaemon.events import Event, ReplyDelta, StepReset, ThoughtDelta
from pagedaemon.llm.protocol import CallPart, Part, RawCall, ReasoningPart, Reply, Restart, TextPart
from pagedaemon.turn.speech import Speech

NUDGING = MEMGPT.model_copy(update={"plain_text": "nudge"})


def heard(style: Style, parts: Sequence[Part]) -> list[Event]:
    speech = Speech("turn-1", 1, style)
    return [event for part in parts for event in speech.hear(part)]


def spoken(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, ReplyDelta))


def thought(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, ThoughtDelta))


def cut_up(index: int, name: str, text: str, places: Sequence[int]) -> list[Part]:
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    pieces = [text[start:end] for start, end in itertools.pairwise(edges)]
    return [
        CallPart(index, name if not number else "", piece) for number, piece in enumerate(pieces)
    ]


texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=40)
places = st.lists(st.integers(0, 400), max_size=30)


@settings(deadline=None)
@given(texts, texts, places, st.booleans(), st.booleans())
def test_deltas_add_up_to_message_and_thoughts(
    message: str, thoughts: str, seams: list[int], escaped: bool, thoughts_first: bool
) -> None:
    given_values = {"inner_thoughts": thoughts, "message": message}
    if not thoughts_first:
        given_values = dict(reversed(given_values.items()))
    raw = json.dumps(given_values, ensure_ascii=escaped)
    events = heard(MEMGPT, cut_up(0, "send_message", raw, seams))
    assert spoken(events) == message
    assert thought(events) == thoughts
    for kind in (ReplyDelta, ThoughtDelta):
        offset = 0
        for event in events:
            if isinstance(event, kind):
                assert event.offset == offset
                offset += len(event.text)


@settings(deadline=None)
@given(texts, texts, places)
def test_arguments_of_other_tools_are_not_spoken(
    message: str, thoughts: str, seams: list[int]
) -> None:
    raw = json.dumps({"inner_thoughts": thoughts, "message": message})
    events = heard(MEMGPT, cut_up(0, "mail", raw, seams))
    assert spoken(events) == ""
    assert thought(events) == thoughts
    assert heard(NATIVE, cut_up(0, "mail", raw, seams)) == []


@settings(deadline=None)
@given(st.text(max_size=60), places)
def test_no_arguments_break_the_hearing(raw: str, seams: list[int]) -> None:
    """Also what is no JSON, and halves of surrogate pairs."""
    for event in heard(MEMGPT, cut_up(0, "send_message", raw, seams)):
        assert isinstance(event, ReplyDelta | ThoughtDelta)
        event.text.encode()


def test_two_interleaved_calls_are_told_apart() -> None:
    one, two = '{"message": "One"}', '{"message": "Two"}'
    parts = [
        CallPart(0, "send_message", one[:15]),
        CallPart(1, "send_message", two[:14]),
        CallPart(0, "", one[15:]),
        CallPart(1, "", two[14:]),
    ]
    events = [event for event in heard(MEMGPT, parts) if isinstance(event, ReplyDelta)]
    assert [event.text for event in events] == ["On", "\n\nT", "e", "wo"]
    assert [event.offset for event in events] == [0, 2, 5, 6]


def test_name_that_comes_after_its_arguments_is_heard_then() -> None:
    events = heard(MEMGPT, [CallPart(0, "", '{"message": "Hi"}'), CallPart(0, "send_message")])
    assert spoken(events) == "Hi"


def test_arguments_that_are_no_text_are_not_heard() -> None:
    raw = '{"inner_thoughts": ["a"], "message": {"text": "Hi"}}'
    assert heard(MEMGPT, cut_up(0, "send_message", raw, range(0, 60, 3))) == []
    assert heard(MEMGPT, [CallPart(0, "send_message", '["Hi"]')]) == []


@pytest.mark.parametrize("style", [MEMGPT, NATIVE, NUDGING])
def test_reasoning_is_a_thought_in_every_style(style: Style) -> None:
    events = heard(style, [ReasoningPart("hm"), ReasoningPart(""), ReasoningPart("!"), Reply()])
    assert (thought(events), spoken(events)) == ("hm!", "")


def test_content_is_spoken_as_it_comes_where_it_is_the_reply() -> None:
    events = heard(NATIVE, [TextPart("Hel"), TextPart(""), TextPart("lo")])
    assert [event.text for event in events if isinstance(event, ReplyDelta)] == ["Hel", "lo"]


def test_plain_text_is_spoken_once_it_is_sure_that_no_call_comes() -> None:
    parts: list[Part] = [TextPart(" Hel"), TextPart("lo\n")]
    assert heard(MEMGPT, parts) == []
    events = heard(MEMGPT, [*parts, Reply(content=" Hello\n")])
    assert (spoken(events), thought(events)) == ("Hello", "")


def test_plain_text_beside_a_call_is_a_thought() -> None:
    made = RawCall("a", "send_message", '{"message": "Hi"}')
    parts: list[Part] = [
        TextPart("Let me "),
        TextPart("see"),
        CallPart(0, made.name, made.arguments),
        TextPart(" more"),
        Reply(content="Let me see more", calls=(made,)),
    ]
    events = heard(MEMGPT, parts)
    assert (spoken(events), thought(events)) == ("Hi", "Let me see more")


def test_plain_text_is_a_thought_where_it_is_answered_by_a_nudge() -> None:
    events = heard(NUDGING, [TextPart("Hello"), Reply(content="Hello")])
    assert (spoken(events), thought(events)) == ("", "Hello")


def test_restart_takes_everything_back() -> None:
    parts: list[Part] = [
        TextPart("hm"),
        CallPart(0, "send_message", '{"message": "Hel'),
        Restart("the connection broke"),
        CallPart(0, "send_message", '{"message": "Good day"}'),
    ]
    events = heard(MEMGPT, parts)
    (reset,) = [place for place, event in enumerate(events) if isinstance(event, StepReset)]
    assert spoken(events[:reset]) == "Hel"
    assert spoken(events[reset:]) == "Good day"
    assert [event.offset for event in events[reset:] if isinstance(event, ReplyDelta)] == [0]
    assert thought(events[reset:]) == ""


def test_restart_forgets_plain_text_that_was_not_told_yet() -> None:
    parts: list[Part] = [TextPart("old"), Restart("again"), TextPart("new"), Reply(content="new")]
    assert spoken(heard(MEMGPT, parts)) == "new"


def test_two_messages_of_one_reply_are_told_apart_as_the_turn_joins_them() -> None:
    parts = [
        *cut_up(0, "send_message", json.dumps({"inner_thoughts": "a", "message": "One."}), [9]),
        *cut_up(1, "send_message", json.dumps({"inner_thoughts": "b", "message": "Two."}), [9]),
    ]
    events = heard(MEMGPT, parts)
    assert spoken(events) == "One.\n\nTwo."
    assert thought(events) == "a\nb"
