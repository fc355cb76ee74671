"""The same word, number or id as others may have written it: 1299 and 1,299; ABC-1234 and ABC1234;
userNameField and "user name field"; wifi and wi-fi; Schroedinger and Schrödinger; a number of a
card, an account, a book or a record (UUID) in whatever groups.

Only where one stands in no text is it looked for otherwise, so that what is written as it was asked
for never finds anything else, and costs nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from functools import cache

from pagedaemon.store.function_words import says_little

LONGEST_JOIN = 3
"""Words of a query that may be one word of a text."""

LONGEST_RUN = 9
"""Groups of a number or id in a query that may be one word of a text: those of an IBAN."""

LONGEST_GROUP = 12
"""Characters of a group: the last of a UUID."""

LONGEST_NUMBER = 40
"""Characters of a number or id that is cut into groups."""

_SEAM = re.compile(
    r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
)
"""Where letters and digits meet, and where a small letter meets a capital."""

_DIGRAPHS = (
    *(("ae", "a"), ("oe", "o"), ("ue", "u"), ("aa", "a"), ("ss", "ß")),
    *(("ae", "æ"), ("oe", "ø"), ("oe", "œ"), ("th", "þ")),
)
"""Two letters, and what stands in the index for the one that they are written for."""

_LETTERS = {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "æ": "ae", "œ": "oe", "ø": "oe", "å": "aa"}

_STROKES = {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "\u0131": "i", "ħ": "h", "ŧ": "t"}
"""Letters that the index keeps, since no mark is apart from them, and how others write them."""

_UNSTROKED = str.maketrans({**_STROKES, "ß": "ss", "æ": "ae", "œ": "oe", "þ": "th"})

NO_CENTS = "00"
"""What may stand behind a sum: 1,299.00 is 1299."""

LEAST_NUMBER = 7
"""Characters of a number that may be a telephone's, or of an id, cut anywhere. Of shorter ones too
much is cut so by chance: 2012 is not 20:12."""

LEAST_HYPHENATED = 4
"""Letters of a word that others may write with a hyphen or in two."""


def apart(word: str) -> list[str]:
    """The phrases that a word may stand for, as FTS5 terms."""
    if word.isdecimal():
        ways = dict.fromkeys([*_digits(word), *_isbn(word)])
        return [f'"{" ".join(parts)}"' for parts in ways]
    parts = [part for part in _SEAM.split(word) if part]
    phrases = [f'"{" ".join(parts)}"'] if len(parts) > 1 else []
    phrases += (f'"{" ".join(parts)}"' for parts in _isbn(word))
    return [*phrases, *(f'"{other}"' for other in _spellings(word))]


def hyphenated(word: str) -> list[str]:
    """The pairs of words that a word may stand for, as FTS5 terms: wifi and "wi fi", email and
    "e mail". None with a function word: "island" is not "is land"."""
    if len(word) < LEAST_HYPHENATED or not word.isalpha():
        return []
    pairs = ((word[:at], word[at:]) for at in range(1, len(word)))
    return [f'"{one} {other}"' for one, other in pairs if not (_holds(one) or _holds(other))]


def _holds(part: str) -> bool:
    # One letter alone is short for something in most of such words, but not where it is a word.
    return part.lower() in ("a", "i") if len(part) == 1 else says_little(part.lower())


def joined(
    words: Sequence[str], nowhere: Collection[str], *, strange: bool
) -> Iterator[tuple[str, list[str]]]:
    """Neighbours of which some stand nowhere, as one FTS5 term, with those: where one is a number
    or a letter, or half of all words stand nowhere. Else each question with a rare word would cost
    a look-up. More than `LONGEST_JOIN` where they may be groups of a number or id.

    Args:
        words: of a query, in its order.
        strange: half of all its words stand nowhere.
    """
    for size in range(2, LONGEST_RUN + 1):
        for at in range(len(words) - size + 1):
            parts = words[at : at + size]
            behind = words[at + size : at + size + 1]
            of = [*parts, *behind] if parts[-1].isdecimal() and behind == [NO_CENTS] else parts
            missing = [part for part in dict.fromkeys(of) if part in nowhere]
            if not missing:
                continue
            if size > LONGEST_JOIN:
                likely = _may_be_groups(parts)
            else:
                likely = strange or any(part.isdecimal() or len(part) == 1 for part in parts)
            if likely:
                yield f'"{"".join(parts)}"', missing


def runs(words: Sequence[str], nowhere: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    """What may be a number or id: such a word that stands nowhere, and neighbours as one; each with
    those that stand nowhere."""
    run: list[str] = []
    for word in [*words, ""]:
        if _has_digit(word):
            run.append(word)
            continue
        alone = [[part] for part in run] if len(run) > 1 else []
        for parts in [*alone, run]:
            missing = [part for part in dict.fromkeys(parts) if part in nowhere]
            if missing and LEAST_NUMBER <= sum(map(len, parts)) <= LONGEST_NUMBER:
                yield "".join(parts), missing
        run = []


def groups(number: str) -> list[str]:
    """All that may be a group of a number or id, as FTS5 terms."""
    size = len(number)
    cut = (
        number[at:end]
        for at in range(size)
        for end in range(at + 1, min(size, at + LONGEST_GROUP) + 1)
    )
    return [f'"{group}"' for group in dict.fromkeys(cut) if group != number]


def grouped(number: str, known: Collection[str]) -> Iterator[str]:
    """The ways to cut a number or id into groups that stand somewhere, as FTS5 terms, those of the
    fewest groups first.

    Args:
        known: those of its `groups` that do.
    """

    @cache
    def ends(at: int, count: int) -> tuple[int, ...]:
        """Where a group may end, so that as many follow as are left."""
        if count == 1:
            return (len(number),) if f'"{number[at:]}"' in known else ()
        last = min(len(number) - 1, at + LONGEST_GROUP)
        found = (end for end in range(last, at, -1) if f'"{number[at:end]}"' in known)
        return tuple(end for end in found if ends(end, count - 1))

    def cut(at: int, count: int) -> Iterator[tuple[str, ...]]:
        for end in ends(at, count):
            if count == 1:
                yield (number[at:],)
            else:
                yield from ((number[at:end], *rest) for rest in cut(end, count - 1))

    for count in range(2, LONGEST_RUN + 1):
        yield from (f'"{" ".join(parts)}"' for parts in cut(0, count))


def _may_be_groups(parts: Sequence[str]) -> bool:
    """Whether two thirds have digits and the others are short: "GB29 NWBK 6016 1331 9268 19"."""
    letters = [part for part in parts if not _has_digit(part)]
    return 3 * len(letters) <= len(parts) and all(len(part) <= 4 for part in letters)


def _has_digit(word: str) -> bool:
    return any(map(str.isdecimal, word))


def _digits(word: str) -> Iterator[tuple[str, ...]]:
    if len(word) > 3:  # in thousands
        first = len(word) % 3 or 3
        yield (word[:first], *(word[at : at + 3] for at in range(first, len(word), 3)))
    if len(word) >= LEAST_NUMBER:
        for number in (word, word.lstrip("0")):  # a code of the country stands for the 0
            yield from ((number[:at], number[at:]) for at in range(2, len(number) - 1))


def _isbn(word: str) -> Iterator[tuple[str, ...]]:
    """The groups of a book's number (ISO 2108), which are of any size but the first and last: there
    are too many ways for `grouped` where most short numbers stand somewhere."""
    if not _is_isbn(word):
        return
    begin, body = word[:-10], word[-10:-1]
    for country in range(1, 6):
        for publisher in range(country + 2, len(body)):
            parts = (begin, body[:country], body[country:publisher], body[publisher:], word[-1])
            yield parts if begin else parts[1:]


def _is_isbn(word: str) -> bool:
    if not (word.isascii() and word[:-1].isdecimal() and word[-1] in "0123456789Xx"):
        return False
    digits = [10 if char in "Xx" else int(char) for char in word]
    if len(word) == 10:
        return sum(digit * (10 - at) for at, digit in enumerate(digits)) % 11 == 0
    checked = sum(digit * (3 if at % 2 else 1) for at, digit in enumerate(digits)) % 10 == 0
    return len(word) == 13 and word[:3] in ("978", "979") and checked and digits[-1] < 10


def _spellings(word: str) -> list[str]:
    """With its digraphs as letters, its letters as digraphs, with and without strokes."""
    small = unicodedata.normalize("NFC", word).lower()
    others = {small}
    for digraph, letter in _DIGRAPHS:
        others |= {other.replace(digraph, letter) for other in others}
    others.add("".join(_LETTERS.get(char, char) for char in small))
    others.add(small.translate(_UNSTROKED))
    return sorted(others - {small})


def stroked(word: str) -> list[str]:
    """The words that one may stand for that is written without strokes, as FTS5 terms: Łódź of
    Lodz, with a stroke in one place or in all."""
    small = word.lower()
    found: dict[str, None] = {}
    for letter, without in _STROKES.items():
        places = [at for at, char in enumerate(small) if char == without]
        found |= {f'"{small[:at]}{letter}{small[at + 1 :]}"': None for at in places}
        if len(places) > 1:
            found[f'"{small.replace(without, letter)}"'] = None
    return list(found)
