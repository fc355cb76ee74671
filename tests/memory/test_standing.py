"""What speaks for a message beside what it says."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import pytest

from pagedaemon.memory.standing import Place, Standing, standings

NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def said(
    number: int,
    *,
    tail: str = "so.",
    minutes: float = 0,
    before: int | None = None,
    where: str = "main",
    speaker: str = "user",
    length: int = 0,
) -> Place:
    """A message of that number, right after the one before it unless `before` says otherwise."""
    at = NOON + timedelta(minutes=minutes)
    earlier = number - 1 if before is None else before
    return Place(where, at, speaker, number, earlier, length, tail)


def test_what_stands_beside_a_good_answer_has_its_score() -> None:
    places = {"a": said(1), "b": said(2), "c": said(3), "far": said(9, before=8)}
    found = standings({"c": 0.4, "a": 0.9, "b": 0.1, "far": 0.5}, places, "?")
    assert {name: one.beside for name, one in found.items()} == {
        "a": 0.1,
        "b": 0.9,
        "c": 0.1,
        "far": 0.0,
    }


def test_numbers_that_no_search_finds_do_not_part_neighbours() -> None:
    """Between a message and the reply to it may stand calls and results."""
    places = {"asked": said(1, tail="where?"), "told": said(7, before=1)}
    found = standings({"asked": 0.8, "told": 0.2}, places, "?")
    assert (found["told"].beside, found["told"].answer) == (0.8, 0.8)
    assert (found["asked"].beside, found["asked"].answer) == (0.2, 0.0)


@pytest.mark.parametrize(
    "other", [said(2, where="another", tail="?"), said(2, minutes=-61), said(2, minutes=61)]
)
def test_an_episode_is_of_one_conversation_and_has_no_long_pause(other: Place) -> None:
    found = standings({"a": 0.9, "b": 0.5}, {"a": said(1, tail="?"), "b": other}, "?")
    assert {name: (one.episode, one.beside) for name, one in found.items()} == {
        "a": (0.9, 0.0),
        "b": (0.5, 0.0),
    }


@pytest.mark.parametrize(
    ("tail", "asks"),
    [
        ("Where is it?", True),
        ("どこですか？", True),  # noqa: RUF001
        ("أين هو؟", True),
        ('"Where?"  ', True),
        ("Where is it? 😊", True),
        ("Isn't it fine? [shows: a dog in the snow]", True),
        ("Is it? Yes.", False),
        ("what? nothing", False),
        ("", False),
        ("a?b", False),
        ("[what?] no", False),
    ],
)
def test_a_question_is_known_by_its_end_in_any_script(tail: str, asks: bool) -> None:
    found = standings({"a": 0.5, "b": 0.1}, {"a": said(1, tail=tail), "b": said(2)}, "x")
    assert found["a"].statement == float(not asks)
    assert found["b"].answer == (0.5 if asks else 0.0)


def test_length_counts_less_and_less_and_then_no_more() -> None:
    lengths = {"none": 0, "usual": 100, "more": 150, "long": 200, "book": 10**6}
    places = {name: said(place, length=one) for place, (name, one) in enumerate(lengths.items())}
    found = standings(dict.fromkeys(lengths, 0.0), places, "?")
    shares = [found[name].length for name in lengths]
    assert shares == pytest.approx([0.0, 0.75, 0.9, 1.0, 1.0])


def test_who_spoke_is_named_by_any_word_of_the_name_in_any_case() -> None:
    who = {"a": "Lin Chen", "b": "user", "c": "linen"}
    places = {name: said(place, speaker=one) for place, (name, one) in enumerate(who.items())}
    found = standings(dict.fromkeys(who, 0.1), places, "what did LIN say?")
    assert {name: one.speaker for name, one in found.items()} == {"a": 1.0, "b": 0.0, "c": 0.0}


def test_all_of_it_is_from_0_to_1_and_nothing_of_nothing() -> None:
    places = {str(one): said(one, tail="?", length=one * 50) for one in range(1, 30)}
    found = standings(dict.fromkeys(places, 1.0), places, "user")
    assert all(0 <= value <= 1 for one in found.values() for value in asdict(one).values())
    assert found["2"] == Standing(1.0, 0.75, 0.0, beside=1.0, answer=1.0, episode=1.0)
    assert standings({}, {}, "?") == {}
