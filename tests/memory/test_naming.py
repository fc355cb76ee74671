"""What a query names and only one of two texts has decides between them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedaemon.memory.naming import lost


@pytest.mark.parametrize(
    ("query", "best", "other"),
    [
        ("Order 1020", "Order 1020 was paid.", "Order 1149 was paid."),
        ("When was order 1020 paid?", "Order 1020 was paid in May.", "The order is paid in June."),
        ('"quick brown fox"', "The quick brown fox jumps", "brown the quick fox"),
        ("“quick  brown”", "The quick brown fox jumps", "brown the quick fox"),
        ("Where is PROD_WEST?", "PROD_WEST is in Oregon.", "It is PROD_EAST that is in Ohio."),
        ("ABC-1234", "Part ABC-1234 is sold out.", "Part ABC-1243 is sold out."),
        ("what of 2.10.3", "2.10.3 mends the leak.", "2.1.03 mends the leak."),
        ("C++", "I write C++ by day.", "I write C by night."),
        (
            "What is the kitchen door code?",
            "The kitchen door code is 4.",
            "The garage door code is 9.",
        ),
        ("Where does my mother live?", "My mother lives in Faro.", "My brother lives in Lille."),
        ("What is the red car?", "The red car is a Fiat.", "The blue car is a Skoda."),
        ("kitchen code", "The kitchen has the code 4.", "There is a new code, 9."),
        ("Is the rent 750 euros?", "The rent is 750 euros.", "Now we pay 800 euros."),
        ("key1", "The key for key1 is 93ab.", "The key for key2 is 77fe."),
        ("东京", "我去了东京。", "我去了大阪。"),
    ],
)
def test_what_the_query_names_is_not_there(query: str, best: str, other: str) -> None:
    assert lost(query, best, other)
    assert not lost(query, best, best)
    assert not lost(query, other, best)


@pytest.mark.parametrize(
    ("query", "best", "other"),
    [
        ("Where does Lin live?", "Lin lives in Porto.", "Lin lives in Leeds."),
        ("Where does Lin live?", "I live in Porto.", "We moved to Leeds last week!"),
        ("What is Lin's job?", "I am a nurse.", "I teach biology at a school now."),
        ("How much is the rent?", "Rent is 700 euros.", "Rent is 850 euros."),
        ("Wo wohnt Lin?", "Lin wohnt in Porto.", "Lin wohnt in Leeds."),
        ("林住在哪里", "林住在波尔图。", "林住在利兹。"),
        ("Where do deploys go?", "Deploys go to PROD_EAST.", "Deploys go to PROD_WEST."),
    ],
)
def test_what_changed_is_told_of_the_same(query: str, best: str, other: str) -> None:
    assert not lost(query, best, other)


def test_who_speaks_is_not_what_it_is_about() -> None:
    assert not lost("phone Lin", "Lin\nMy phone is 0101.", "My phone is 0199.", speaker="Lin")
    assert lost("phone Lin", "The phone of Lin is 0101.", "The phone of Rui is 0199.")


WORDS = st.text("abcdefghijklmnop", min_size=2, max_size=8)
NUMBERS = st.integers(0, 10**9).map(str)


@given(st.lists(WORDS, max_size=6), NUMBERS, NUMBERS, st.lists(WORDS, max_size=6))
def test_a_number_that_is_asked_for_decides(
    before: list[str], asked: str, another: str, after: list[str]
) -> None:
    best, other = (" ".join([*before, one, *after]) for one in (asked, another))
    assert lost(asked, best, other) == (asked != another)


@given(st.text(), st.text(), st.text())
def test_no_text_is_an_error_and_a_text_lacks_nothing_of_itself(
    query: str, best: str, other: str
) -> None:
    lost(query, best, other)
    assert not lost(query, best, best)
