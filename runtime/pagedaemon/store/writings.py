"""The same word, number or id as others may have written it: 1299 and 1,299; ABC-1234 and ABC1234;
userNameField and "user name field"; Schroedinger and Schrödinger.

Only where one stands in no text is it looked for otherwise, so that what is written as it was asked
for never finds anything else, and costs nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

LONGEST_JOIN = 3
"""Words of a query that may be one word of a text."""

_SEAM = re.compile(
    r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
)
"""Where letters and digits meet, and where a small letter meets a capital."""

_DIGRAPHS = (("ae", "a"), ("oe", "o"), ("ue", "u"), ("ss", "ß"))
"""Two letters, and what stands in the index for the one that they are written for."""

_LETTERS = {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "æ": "ae", "œ": "oe", "ø": "oe", "å": "aa"}

LEAST_NUMBER = 7
"""Digits of a number that may be a telephone's, cut anywhere."""


def apart(word: str) -> list[str]:
    """The phrases that a word may stand for, as FTS5 terms."""
    if word.isdecimal():
        return [f'"{" ".join(parts)}"' for parts in dict.fromkeys(_digits(word))]
    parts = [part for part in _SEAM.split(word) if part]
    phrases = [f'"{" ".join(parts)}"'] if len(parts) > 1 else []
    return [*phrases, *(f'"{other}"' for other in _spellings(word))]


def joined(words: Sequence[str], nowhere: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Neighbours of which some stand nowhere, as one FTS5 term, with those: where one is a number,
    or half of all words stand nowhere. Else each question with a rare word would cost a look-up."""
    strange = 2 * len(nowhere) >= len(words)
    for size in range(2, LONGEST_JOIN + 1):
        for at in range(len(words) - size + 1):
            parts = words[at : at + size]
            missing = [part for part in parts if part in nowhere]
            if missing and (strange or any(part.isdecimal() for part in parts)):
                yield f'"{"".join(parts)}"', missing


def _digits(word: str) -> Iterator[tuple[str, ...]]:
    if len(word) > 3:  # in thousands
        first = len(word) % 3 or 3
        yield (word[:first], *(word[at : at + 3] for at in range(first, len(word), 3)))
    if len(word) >= LEAST_NUMBER:
        for number in (word, word.lstrip("0")):  # a code of the country stands for the 0
            yield from ((number[:at], number[at:]) for at in range(2, len(number) - 1))


def _spellings(word: str) -> list[str]:
    """With its digraphs as letters, and its letters as digraphs."""
    small = unicodedata.normalize("NFC", word).lower()
    others = {small}
    for digraph, letter in _DIGRAPHS:
        others |= {other.replace(digraph, letter) for other in others}
    others.add("".join(_LETTERS.get(char, char) for char in small))
    return sorted(others - {small})
