"""Chunks: nothing is lost, none is too long for the model, cuts fall where people pause."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedaemon.llm.embedding.chunking import chunks
from pagedaemon.llm.embedding.minilm import LONGEST, TOKENIZER

ORDINARY = 256
"""Tokens, with the two that mark the ends, that MiniLM's authors used it with."""

PROSE = {
    "english": "The lighthouse keeper wrote every evening about weather, ships and homesickness. ",
    "german": "Der Leuchtturmwärter beschrieb allabendlich Windverhältnisse und Schiffe. ",
    "russian": "Смотритель маяка каждый вечер записывал погоду и названия проходящих судов. ",
    "greek": "Ο φύλακας του φάρου έγραφε κάθε βράδυ για τον καιρό και τα πλοία. ",  # noqa: RUF001
    "arabic": "كان حارس المنارة يكتب كل مساء عن الطقس والسفن العابرة. ",
    "hindi": "प्रकाशस्तंभ का रखवाला हर शाम मौसम और जहाज़ों के बारे में लिखता था। ",
    "thai": "ผู้ดูแลประภาคารเขียนบันทึกเกี่ยวกับสภาพอากาศและเรือทุกเย็น",
    "chinese": "灯塔看守人每天晚上都会记录天气和过往的船只，从不间断。",  # noqa: RUF001
    "japanese": "灯台守は毎晩、天気と通り過ぎる船について書き留めていました。",
    "korean": "등대지기는 매일 저녁 날씨와 지나가는 배에 대해 적었습니다. ",
    "code": "for key, value in sorted(table.items()):\n    total += weights[key] * (value - 0.5)\n",
    "address": "https://example.org/a/b?q=1&id=8f14e45fceea167a5a36dedd4bea2543 ",
    "numbers": "2024-03-15 08:41:07.331 12.5 -3 99,812.04 | ",
    "emoji": "👍🏽🎉👩‍👩‍👧‍👦 ok ",
}


def tokens(text: str) -> int:
    """How many tokens the real tokenizer makes of it, with both ends."""
    from tokenizers import Tokenizer

    global _tokenizer
    if _tokenizer is None:
        _tokenizer = Tokenizer.from_file(str(TOKENIZER))
        _tokenizer.no_truncation()
        _tokenizer.no_padding()
    return len(_tokenizer.encode(text.encode("utf-8", "replace").decode()).ids)


_tokenizer: Any = None


def uncovered(text: str, pieces: list[str]) -> str:
    """The characters of the text that no piece holds, where each piece is looked for after the
    beginning of the one before and must not leave a gap that says anything."""
    lost, reached, begun = "", 0, 0
    for piece in pieces:
        # The last place that leaves no gap: repeated text has several that fit.
        place = text.rfind(piece, begun, reached + len(piece))
        if place < 0:
            place = text.index(piece, begun)
            lost += text[reached:place]
        begun, reached = place, place + len(piece)
    return (lost + text[reached:]).strip()


@pytest.mark.parametrize("text", ["", " ", "\n\t  \n"])
def test_a_blank_text_has_no_chunks(text: str) -> None:
    assert chunks(text) == []


@pytest.mark.parametrize("text", ["Hi", " tea? ", PROSE["english"], PROSE["chinese"] * 2])
def test_a_short_text_is_one_chunk_as_it_stands(text: str) -> None:
    assert chunks(text) == [text]


@pytest.mark.parametrize("script", PROSE)
def test_ordinary_text_of_any_script_is_read_whole(script: str) -> None:
    text = PROSE[script] * 60
    pieces = chunks(text)
    assert len(pieces) > 3
    assert max(map(tokens, pieces)) <= ORDINARY
    assert uncovered(text, pieces) == ""


def test_english_chunks_are_not_needlessly_small() -> None:
    sizes = [tokens(piece) for piece in chunks(PROSE["english"] * 60)[:-1]]
    assert min(sizes) >= 80


def test_even_letters_without_sense_fit_the_model() -> None:
    drawn = random.Random(4)
    for length in (1, 2, 3, 5, 9, 40, 2_000):
        words = ["".join(drawn.choices("qxzjvkw", k=length)) for _ in range(4_000 // length)]
        assert max(map(tokens, chunks(" ".join(words)))) <= LONGEST


@settings(deadline=None)
@given(st.text(max_size=3_000) | st.text("qxzjk .\n가ﬃİ字़", max_size=3_000))
def test_any_text_is_covered_and_fits(text: str) -> None:
    pieces = chunks(text)
    assert pieces == chunks(text)
    assert all(piece.strip() for piece in pieces)
    assert uncovered(text, pieces) == ""
    assert all(tokens(piece) <= LONGEST for piece in pieces)


def test_cuts_prefer_paragraphs_then_sentences_then_blanks() -> None:
    paragraph = "Rain fell on the harbour all night long and nobody slept. " * 8
    first, second, *_ = chunks(f"{paragraph}\n\n{paragraph}\n\n{paragraph}")
    assert first == f"{paragraph}\n\n"
    assert second.startswith("Rain fell")
    sentences = chunks("Rain fell on the harbour all night long. " * 40)
    assert all(piece.endswith("long. ") and piece.startswith("Rain") for piece in sentences)
    words = chunks("harbour " * 400)
    assert all(set(piece.split()) == {"harbour"} for piece in words)


def test_neighbours_share_a_little() -> None:
    text = " ".join(f"item{number}" for number in range(600))
    pieces = chunks(text)
    for before, after in pairwise(pieces):
        shared = set(before.split()) & set(after.split())
        assert 1 <= len(shared) <= 10


def test_a_document_of_a_million_characters_is_cut_at_once() -> None:
    text = (PROSE["english"] * 20 + "\n\n") * 620
    pieces = chunks(text)
    assert len(text) > 1_000_000
    assert 1_500 < len(pieces) < 3_000
