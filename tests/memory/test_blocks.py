"""Operations on a block, against a plain string."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedaemon.errors import EditRefused
from pagedaemon.memory import blocks as core
from pagedaemon.memory.blocks import Operation
from pagedaemon.store.blocks import BlockRow

NOW = datetime(2026, 11, 30, tzinfo=UTC)
ROW = BlockRow("block-7", "human", "", "", 40, False, 1, None, None, NOW, NOW)


def block(value: str, **changes: Any) -> BlockRow:
    return replace(ROW, value=value, **changes)


def refusal(operation: Operation, value: str, **changes: Any) -> EditRefused:
    with pytest.raises(EditRefused) as caught:
        operation(block(value, **changes))
    return caught.value


few = st.text(alphabet="ab\n ", max_size=12)
words = few.filter(lambda text: bool(text.strip()))


@given(few, words)
def test_append_adds_a_line_and_keeps_all_there_was(value: str, text: str) -> None:
    assert core.append(text)(block(value)) == (f"{value}\n{text}" if value else text)


@given(few, words, words)
def test_appends_commute_but_for_their_order(value: str, one: str, two: str) -> None:
    first = core.append(two)(block(core.append(one)(block(value))))
    second = core.append(one)(block(core.append(two)(block(value))))
    assert sorted(first.split("\n")) == sorted(second.split("\n"))


@given(few, words, st.integers(-3, 8))
def test_insert_puts_text_before_the_line_and_nothing_else_moves(
    value: str, text: str, line: int
) -> None:
    lines = value.split("\n") if value else []
    operation = core.insert_line(text, line)
    if line == -1:
        assert operation(block(value)).split("\n") == [*lines, *text.split("\n")]
    elif 0 <= line <= len(lines):
        expected = [*lines[:line], *text.split("\n"), *lines[line:]]
        assert operation(block(value)).split("\n") == expected
    else:
        assert refusal(operation, value).reason == "no_such_line"


@given(few, st.text(alphabet="ab\n ", max_size=4), few)
def test_replace_needs_the_old_text_exactly_once(value: str, old: str, new: str) -> None:
    places = [at for at in range(len(value)) if value.startswith(old, at)]
    operation = core.replace(old, new)
    if not old:
        assert refusal(operation, value).reason == "empty_text"
    elif len(places) == 1:
        at = places[0]
        assert operation(block(value)) == value[:at] + new + value[at + len(old) :]
    else:
        reason = refusal(operation, value).reason
        assert reason == ("ambiguous" if places else "not_found")


def test_places_that_overlap_are_two_places() -> None:
    assert refusal(core.replace("aba", "x"), "ababa").reason == "ambiguous"


@given(few, st.none() | st.integers(1, 4), st.integers(1, 4))
def test_rewrite_needs_the_version_that_was_read(
    value: str, read: int | None, current: int
) -> None:
    operation = core.rewrite("new", read)
    if read == current:
        assert operation(block(value, version=current)) == "new"
    else:
        refused = refusal(operation, value, version=current)
        assert refused.reason == "stale"
        assert refused.current == value


@given(few, few, words, st.integers(-1, 6))
def test_insert_conflicts_exactly_when_its_line_is_no_longer_what_was_seen(
    seen: str, value: str, text: str, line: int
) -> None:
    old = seen.split("\n") if seen else []
    lines = value.split("\n") if value else []
    operation = core.insert_line(text, line, seen)
    if line in (-1, len(old)):
        assert operation(block(value)) == core.append(text)(block(value))
    elif line > len(old):
        assert refusal(operation, value).reason == "no_such_line"
    elif line < len(lines) and lines[line] == old[line]:
        assert operation(block(value)) == core.insert_line(text, line)(block(value))
    else:
        refused = refusal(operation, value)
        assert refused.reason == "stale"
        assert refused.current == value


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_nothing_cannot_be_added(blank: str) -> None:
    assert refusal(core.append(blank), "x").reason == "empty_text"
    assert refusal(core.insert_line(blank, 0), "x").reason == "empty_text"


def test_text_that_is_not_there_is_answered_with_the_nearest_lines() -> None:
    value = "First name:  Chad\nLast name: Wu\nLikes “tea”"
    for wrong, right in [
        ("First name: chad", "First name:  Chad"),
        ('Likes "tea"', "Likes “tea”"),
        ("Last name: Wu\r\nLikes", "Last name: Wu"),
    ]:
        refused = refusal(core.replace(wrong, "x"), value)
        assert refused.reason == "not_found"
        assert refused.nearest[0] == right
        assert refused.current == value


@given(few, st.integers(1, 30))
def test_check_counts_characters_and_says_how_many(value: str, limit: int) -> None:
    given_block = block("old", limit=limit)
    if len(value) <= limit:
        assert core.check_value("human", value, limit, block=given_block) == value
        return
    with pytest.raises(EditRefused) as caught:
        core.check_value("human", value, limit, block=given_block)
    refused = caught.value
    assert (refused.reason, refused.limit, refused.size) == ("too_long", limit, len(value))
    assert refused.current == "old"


def test_closing_mark_cannot_stand_in_a_value() -> None:
    mark = core.closing_mark(ROW.id)
    with pytest.raises(EditRefused) as caught:
        core.check_value("human", f"a {mark} b", 400, block=ROW)
    assert caught.value.reason == "bad_text"
