"""What a text or a query is cut into."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedaemon.store.terms import (
    LONGEST_WORD,
    MOST_CHARACTERS,
    as_indexed,
    has_unspaced,
    match_expression,
    query_terms,
    signs,
    telling_terms,
    words_of,
)


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("Red bicycle, red!", ['"Red"', '"bicycle"', '"red"']),
        ('a "red bicycle"', ['"a"', '"red bicycle"']),
        ("well-known", ['"well"', '"known"']),
        ("東", ['"東"*']),
        ("東京", ['"東京"']),
        ("東京都", ['"東京 京都"', '"東京"', '"京都"']),
        ('"東京都"', ['"東京 京都"']),
        ('"is 大"', ['"is 大"*']),
        ("iPhone15を買う", ['"iPhone15"', '"を買 買う"', '"を買"', '"買う"']),
        ("\uff21\uff22\uff23", ['"ABC"']),
        ("tea tea", ['"tea"']),
        ("😀 -", []),
    ],
)
def test_a_query_is_cut_into_words_phrases_and_pairs(query: str, terms: list[str]) -> None:
    assert query_terms(query) == terms
    assert match_expression(query) == (" OR ".join(terms) or None)


def test_a_long_run_without_spaces_is_looked_for_by_its_pairs_alone() -> None:
    word, sentence = "東" + "京" * (LONGEST_WORD - 1), "東" + "京" * LONGEST_WORD
    assert query_terms(word)[0].count(" ") == LONGEST_WORD - 2
    assert query_terms(sentence) == ['"東京"', '"京京"']


def test_of_a_query_its_beginning_is_read() -> None:
    assert query_terms(" " * (MOST_CHARACTERS - 3) + "tea and cake") == ['"tea"']


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("What is the harbour?", ['"harbour"']),
        ("what is it", ['"what"', '"is"', '"it"']),
        ('"what is" the harbour', ['"what is"', '"harbour"']),
    ],
)
def test_function_words_tell_nothing_unless_quoted_or_alone(query: str, terms: list[str]) -> None:
    assert telling_terms(query) == terms


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("tea ☕\ufe0f and →, → again", ["☕", "→"]),
        ("5 € a cup", ["€"]),
        ("5 € or 5 $ + tip", ["€"]),
        ("🎉😀", ["🎉😀"]),
        ("a + b", []),
        ("tea", []),
    ],
)
def test_signs_beyond_ascii_are_looked_for_as_they_stand(query: str, found: list[str]) -> None:
    assert signs(query) == found


def test_what_has_no_spaces_is_indexed_as_pairs_and_its_last_character() -> None:
    assert as_indexed("in 東京都 now").split() == ["in", "東京", "京都", "都", "now"]
    assert words_of("It's 東京, 5_6") == ["It", "s", "東京", "京", "5", "6"]
    assert [has_unspaced(text) for text in ("東", "ก", "Zürich", "")] == [True, True, False, False]


@given(st.text(st.characters(max_codepoint=127, exclude_characters='"'), max_size=100))
def test_a_query_in_ascii_is_cut_as_any_other(query: str) -> None:
    assert [*query_terms(query), '"é"'] == query_terms(f"{query} é")
