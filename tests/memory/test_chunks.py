"""Documents in chunks: nothing lost, nearly one size, headings kept with what they head."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedaemon.errors import InvalidInput
from pagedaemon.memory.chunks import Piece, checked_size, chunks

texts = st.text(alphabet="ab c.\n字。 #", max_size=400)
headings = st.builds(
    lambda words, level: Piece(f"# {words}", level, words), st.text("xyz ", max_size=60), st.just(2)
)
documents = st.lists(st.one_of(st.builds(Piece, texts), headings), max_size=12)


def letters(text: str) -> str:
    """The text without blanks."""
    return re.sub(r"\s", "", text)


@given(documents, st.integers(100, 300))
def test_every_letter_stands_in_a_chunk_and_none_is_too_long(
    pieces: list[Piece], size: int
) -> None:
    shown = list(chunks(pieces, size))
    assert all(0 < len(text) <= size for text in shown)
    everything = letters("".join(shown))
    at = 0
    for letter in letters("".join(piece.text for piece in pieces)):
        at = everything.index(letter, at) + 1


@given(st.lists(st.builds(Piece, texts), max_size=12), st.integers(100, 300))
def test_without_headings_the_chunks_are_the_text_and_nothing_else(
    pieces: list[Piece], size: int
) -> None:
    shown = letters("".join(chunks(pieces, size)))
    assert shown == letters("".join(piece.text for piece in pieces))


def test_a_chunk_names_the_headings_above_it_and_shows_its_own() -> None:
    pieces = [
        Piece("# Guide", 1, "Guide"),
        Piece("About it. " * 20),
        Piece("## Install", 2, "Install"),
        Piece("Do this. " * 20),
        Piece("## Use", 2, "Use"),
        Piece("Do that. " * 20),
    ]
    first, second, third = chunks(pieces, 250)
    assert first.startswith("# Guide\n\nAbout it.")
    assert second.startswith("Guide\n\n## Install\n\nDo this.")
    assert third.startswith("Guide\n\n## Use\n\nDo that.")


def test_a_later_chunk_of_one_section_begins_with_the_whole_trail() -> None:
    pieces = [Piece("# A", 1, "A"), Piece("## B", 2, "B"), Piece("One two three. " * 40)]
    shown = list(chunks(pieces, 200))
    assert len(shown) > 2
    assert all(text.startswith("A > B\n\nOne") for text in shown[1:])


def test_small_sections_share_a_chunk() -> None:
    pieces = [part for n in range(20) for part in (Piece(f"# {n}", 1, str(n)), Piece("Few words."))]
    shown = list(chunks(pieces, 200))
    assert len(shown) <= 4
    assert all(len(text) >= 100 for text in shown[:-1])


def test_a_heading_is_not_left_at_the_end_of_a_chunk() -> None:
    pieces = [Piece("word " * 17), Piece("# Next one there", 1, "Next"), Piece("text " * 36)]
    first, second = chunks(pieces, 200)
    assert "Next" not in first
    assert second.startswith("# Next one there\n\ntext")


def test_long_text_is_cut_after_a_sentence_else_a_word_else_anywhere() -> None:
    sentences = list(chunks([Piece("This is one sentence of it. " * 30)], 200))
    assert all(text.endswith(".") for text in sentences)
    words = list(chunks([Piece("words " * 100)], 200))
    assert {word for text in words for word in text.split()} == {"words"}
    unbroken = list(chunks([Piece("x" * 1_000)], 300))
    assert [len(text) for text in unbroken] == [300, 300, 300, 100]
    lines = list(chunks([Piece("\n".join(f"    line {n}" for n in range(60)))], 200))
    assert all(re.fullmatch(r"(    line \d+\n?)+", f"{text}") for text in lines)


def test_chunks_but_the_last_are_at_least_half_full() -> None:
    pieces = [Piece("word " * (3 + n * 7 % 50)) for n in range(60)]
    sizes = [len(text) for text in chunks(pieces, 400)]
    assert min(sizes[:-1]) >= 190


def test_a_heading_as_long_as_a_page_is_read_on_and_its_trail_is_cut() -> None:
    title = "very " * 200
    shown = list(chunks([Piece(f"# {title}", 1, title), Piece("text " * 100)], 200))
    assert all(len(text) <= 200 for text in shown)
    assert shown[-1].startswith("very very")
    assert "…\n\ntext" in shown[-1]


def test_ten_million_characters_in_one_line_take_no_more_than_seconds() -> None:
    start = time.process_time()
    assert sum(map(len, chunks([Piece("x" * 10_000_000)], 1_000))) == 10_000_000
    assert time.process_time() - start < 10


@pytest.mark.parametrize("size", [99, 100_001, "1000", 500.0, True, None])
def test_a_size_that_cannot_be_is_said(size: object) -> None:
    with pytest.raises(InvalidInput, match="chunk_chars"):
        checked_size(size)
