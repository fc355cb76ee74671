"""Whether two texts whose vectors are near each other say the same.

A cosine does not know. "The left knee hurts" is as near to "The right knee hurts" as any rewording
is, and "Lin's number is 5551" nearer to "Lin's number is 5552". What tells them apart is in their
words: something exact that one has and the other has not, another name, a denial, and, where two
texts are one sentence but for a word, that word.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pagedaemon.memory import naming
from pagedaemon.store import terms
from pagedaemon.store.function_words import says_little

LONGEST = 2_000
"""Characters of a text that is compared; a longer one repeats nothing."""

_BY_LANGUAGE = {
    "en": "not no never neither nor none nobody nothing nowhere without",
    "de": "nicht kein keine keinem keinen keiner keines nie niemals nichts niemand ohne",
    "fr": "pas jamais rien aucun aucune sans",
    "es": "nunca jamás nada nadie ningún ninguna sin",
    "it": "non mai niente nessuno senza",
    "nl": "niet geen nooit niets niemand zonder",
    "pt": "não nem ninguém sem",
    "da, no, sv": "inte aldrig ingen utan ikke aldri uten uden",
    "pl": "nie nigdy bez",
    "ru": "не нет ни никогда без",
}
_DENIALS = frozenset(word for words in _BY_LANGUAGE.values() for word in words.split())
"""Words by which something is denied, of languages that write them apart."""

_DENYING = (*"不没沒無无非未别別못않", "ない", "なかっ", "ません", "안 ", "아니", "ไม่")
"""The same of scripts without spaces, where they stand within others."""

_CANNOT = re.compile(r"\b(can)(?:['\u2019]t|not)\b", re.IGNORECASE)
_CONTRACTED = re.compile(r"(?<=\w)n['\u2019]t\b", re.IGNORECASE)
_WITHIN = re.compile(r"(?<=[\w,;)\]] )[^\W\d_]\w*")
"""A word that begins no sentence."""

AFFIX = 5
"""Letters before a word, at most, that make its contrary of it: un-, dis-, non-."""

ROOT = 3
"""Letters that two forms of a word share, at least."""


@dataclass(frozen=True, slots=True)
class Wording:
    """What is compared of a text."""

    text: str
    """Its first `LONGEST` characters, without what contracts a denial."""
    long: bool
    """Whether it has more."""
    words: tuple[str, ...]
    """In their order, as they are written."""
    folded: tuple[str, ...]
    """The same without case."""
    plain: str
    """All but blanks and marks, without case."""
    exact: frozenset[str]
    """What is written as no ordinary word."""
    within: frozenset[str]
    """Words with a capital that begin no sentence, which most scripts give to names."""
    denials: int
    unspaced: frozenset[str]
    """Characters of scripts without spaces."""

    @classmethod
    def of(cls, text: str) -> Wording:
        """A text's."""
        long, text = len(text) > LONGEST, text[:LONGEST]
        text = " ".join(_CONTRACTED.sub(" not", _CANNOT.sub(r"\1 not", text)).split())
        words = tuple(terms.words_of(text))
        folded = tuple(word.casefold() for word in words)
        small = text.casefold()
        denials = sum(word in _DENIALS for word in folded)
        unspaced: frozenset[str] = frozenset()
        if terms.has_unspaced(text):
            denials += sum(small.count(one) for one in _DENYING)
            unspaced = frozenset(char for char in small if terms.has_unspaced(char))
        return cls(
            text,
            long,
            words,
            folded,
            "".join(char for char in small if unicodedata.category(char)[0] not in "PZC"),
            naming.exact(text),
            frozenset(
                word
                for word in _WITHIN.findall(text)
                if word[0].isupper() and not says_little(word)
            ),
            denials,
            unspaced,
        )


def apart(one: Wording, other: Wording) -> bool:
    """Whether two texts whose vectors are near tell of different things: one has a phrase in
    quotes, a number, an id or a name in code that the other lacks; each has a name, or in a script
    without spaces a character, that the other lacks; or one denies what the other says."""
    if one.long or other.long:
        return True
    if one.text == other.text:
        return False
    return (
        _inexact(one, other)
        or naming.unquoted(one.text, other.text)
        or naming.unquoted(other.text, one.text)
        or _named_apart(one, other)
        or bool(one.unspaced - other.unspaced and other.unspaced - one.unspaced)
        or _denied(one, other)
    )


def reworded(one: Wording, other: Wording) -> bool:
    """Whether two texts are equal but for case, marks and blanks: all that is known without
    vectors."""
    return bool(one.plain) and one.plain == other.plain and not apart(one, other)


def replaced(one: Wording, other: Wording) -> bool:
    """Whether two texts are one sentence in which some words, half of them at most, stand for
    others: then it is these words that they are about. "Likes" for "enjoys" counts too, since
    nothing tells it from "likes" for "hates"."""
    if len(one.words) != len(other.words):
        return False
    pairs = [
        (word, another)
        for word, another in zip(one.words, other.words, strict=True)
        if word.casefold() != another.casefold()
    ]
    return 2 * len(pairs) <= len(one.words) and not all(_kin(*pair) for pair in pairs)


def _inexact(one: Wording, other: Wording) -> bool:
    """Whether one has something exact that the other lacks; what is in capitals there may be an
    ordinary word here."""
    return bool(
        one.exact.difference(other.exact, other.folded)
        or other.exact.difference(one.exact, one.folded)
    )


def _named_apart(one: Wording, other: Wording) -> bool:
    """Whether each has a name that the other lacks. What begins a sentence has a capital anyway,
    and is a name only where the other's is."""
    mine, its = _unnamed(one.within, other.words), _unnamed(other.within, one.words)
    return (mine and (its or _unnamed(_capitals(other), one.words))) or (
        its and _unnamed(_capitals(one), other.words)
    )


def _capitals(wording: Wording) -> list[str]:
    return [word for word in wording.words if word[0].isupper() and not says_little(word)]


def _unnamed(names: Iterable[str], words: Sequence[str]) -> bool:
    missing = set(names).difference(words)
    return any(not any(_kin(name, word) for word in words) for name in missing)


def _kin(one: str, other: str) -> bool:
    """Whether two words are forms of one. Names are more alike than other words are: of two with a
    capital one is the other with an "s", or they are two."""
    first, second = sorted((one.casefold(), other.casefold()), key=len)
    if first == second:
        return True
    if one[0].isupper() and other[0].isupper():
        return second == first + "s"
    begins = len(first) >= ROOT and second.startswith(first)
    return begins or first[: naming.STEM] == second[: naming.STEM]


def _denied(one: Wording, other: Wording) -> bool:
    """Whether one denies what the other says: in sentences of one form one has more words that
    deny, or a word and the other its contrary ("locked", "unlocked"). Otherwise a denial may be
    another way to say it: who is allergic to something cannot eat it."""
    if one.denials != other.denials and naming.parallel(one.text, other.text):
        return True
    mine, its = Counter(one.folded), Counter(other.folded)
    rest, others = [*(mine - its)], [*(its - mine)]
    return any(_contrary(word, another) for word in rest for another in others)


def _contrary(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return len(short) >= ROOT and 1 <= len(long) - len(short) <= AFFIX and long.endswith(short)
