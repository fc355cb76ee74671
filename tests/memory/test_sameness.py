"""Words tell whether two texts whose vectors are near say the same."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pagedaemon.memory.sameness import LONGEST, Wording, apart, replaced, reworded


def both(one: str, other: str) -> tuple[Wording, Wording]:
    return Wording.of(one), Wording.of(other)


def same(one: Wording, other: Wording) -> bool:
    return not apart(one, other) and not replaced(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Lin is allergic to peanuts.", "Lin has a peanut allergy"),
        ("Lin is allergic to peanuts.", "Lin cannot eat peanuts"),
        ("Lin is allergic to peanuts.", "Peanuts make Lin ill."),
        ("Lin does not eat meat.", "Lin doesn't eat meat"),
        ("Lin can’t swim.", "Lin cannot swim"),  # noqa: RUF001
        ("Remember: Lin takes the train.", "Note that Lin takes the train."),
        ("The deploy runs at 17:00 every Friday.", "Every Friday at 17:00 the deploy runs."),
        ("The user is vegetarian.", "The user is a vegetarian."),
        ("User wants short answers", "The users want a short answer"),
        ("我喜欢喝茶", "我很喜欢喝茶。"),
    ],
)
def test_what_is_said_in_other_words_is_the_same(one: str, other: str) -> None:
    assert same(*both(one, other))
    assert same(*both(other, one))
    assert not apart(*both(one, other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Lin's number is 5551.", "The number that Lin has is 5552."),
        ("Ticket OPS-114 is closed.", "They closed ticket OPS-141."),
        ("It runs with PROD_WEST.", "With PROD_EAST it runs."),
        ("The bank meeting is on 12 May.", "On 12 June there is the bank meeting."),
        ("The deploy runs every Friday.", "Every Thursday the deploy runs."),
        ('The file is called "notes old".', 'It is called "notes new", the file.'),
        ("Our dog is called Rex.", "Max is what our dog is called."),
        ("Lin eats meat.", "Lin does not eat meat."),
        ("Lin can come to the party.", "Lin can't come to the party."),
        ("The backup works again.", "The backup no longer works again."),
        ("Last night the door was locked.", "The door was unlocked last night."),
        ("Lin likes green tea.", "Green tea is what Lin dislikes."),
        ("Lin isst Fleisch.", "Lin isst kein Fleisch."),
        ("Lin mange de la viande.", "Lin ne mange pas de viande."),
        ("我住在北京", "我住在上海"),
        ("我喜欢喝茶", "我不喜欢喝茶"),
        ("I write C++", "I write C"),
        ("It was -5 degrees", "It was 5 degrees"),
    ],
)
def test_a_number_a_date_an_id_a_name_a_quote_or_a_denial_tells_two_apart(
    one: str, other: str
) -> None:
    assert apart(*both(one, other))
    assert apart(*both(other, one))
    assert not same(*both(one, other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The left knee hurts when it rains.", "The right knee hurts when it rains."),
        ("Lin has two cats.", "Lin has three cats."),
        ("Lin lent money to Tom.", "Tom lent money to Lin."),
        ("Tom is allergic to peanuts.", "Lin is allergic to peanuts."),
        ("Johnson is ill today.", "Johnston is ill today."),
        ("The price went up in spring.", "The price went down in spring."),
    ],
)
def test_one_sentence_with_a_word_replaced_is_about_that_word(one: str, other: str) -> None:
    assert replaced(*both(one, other))
    assert not same(*both(one, other))
    assert not apart(*both(one, other)), "whoever reads both can tell"


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("Lin likes tea", "lin likes  TEA!", True),
        ("Lin likes tea", "Lin likes teas", False),
        ("C++", "c", False),
        ("👍", "👎", False),
        ("...", "!", False),
        ("3.5", "35", False),
    ],
)
def test_without_vectors_only_case_marks_and_blanks_may_differ(
    one: str, other: str, equal: bool
) -> None:
    assert reworded(*both(one, other)) is equal


def test_a_long_text_repeats_nothing() -> None:
    text = "word " * LONGEST
    assert apart(*both(text, text))


@given(st.text(max_size=60), st.text(max_size=60))
@example("0 A_", "")
def test_the_order_of_two_does_not_matter_and_a_text_says_what_it_says(
    one: str, other: str
) -> None:
    mine, its = both(one, other)
    assert apart(mine, its) == apart(its, mine)
    assert same(mine, its) == same(its, mine)
    assert reworded(mine, its) == reworded(its, mine)
    assert same(mine, mine)
