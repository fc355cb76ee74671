"""What a query names, or a text, and whether one of two texts has it and the other has not.

"The garage door code is 9021" takes nothing back of "The kitchen door code is 4417", however alike
they are and however much newer it is: not where the kitchen's is asked for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from pagedaemon.store import terms
from pagedaemon.store.function_words import says_little

STEM = 5
"""Letters by which words are the same: inflection is at their end in most languages."""

PARALLEL = 0.5
"""The share of words, function words among them, from which two sentences have one form."""

SHORT = 4
"""Characters of a script without spaces that are looked for as they are, and are no sentence."""

_QUOTED = re.compile(r'"([^"]+)"|“([^”]+)”')
_CHUNK = re.compile(r"[^\s\"“”]+")
_OUTSIDE = ".,;:!?()[]{}<>'\u2026\u00bf\u00a1\u3002\u3001\uff1f\uff01"
"""What stands around a word: marks of several scripts."""


def lost(query: str, best: str, other: str, *, speaker: str | None = None) -> bool:
    """Whether the other text lacks something that the query names and the best has.

    That is a phrase in quotes; what is written as no ordinary word (a number, an id, a name in
    code); and any word that tells something where the query is a list of such, or where both texts
    are of one form, so that the words in which they differ are what they are about.

    Args:
        speaker: whose name is beside both, and names neither.
    """
    named = [*_phrases(query), *_exact(query)]
    if any(_stands(one, best) and not _stands(one, other) for one in named):
        return True
    his = stems(terms.words_of(speaker or ""))
    missing = (_telling(query) - his) & stems(terms.words_of(best))
    missing -= stems(terms.words_of(other))
    return bool(missing) and (_is_list(query) or parallel(best, other))


def exact(text: str) -> frozenset[str]:
    """What in a text is written as no ordinary word, without case: numbers, ids, names in code."""
    return frozenset(one.casefold() for one in _exact(text))


def unquoted(one: str, other: str) -> bool:
    """Whether the other text lacks a phrase that stands in quotes in one."""
    return any(not _stands(phrase, other) for phrase in _phrases(one))


def stems(words: Iterable[str]) -> frozenset[str]:
    """The beginnings by which words are compared."""
    return frozenset(word.casefold()[:STEM] for word in words)


def _phrases(query: str) -> list[str]:
    return [" ".join((one[1] or one[2]).split()) for one in _QUOTED.finditer(query)]


def _exact(query: str) -> list[str]:
    chunks = (one[0].strip(_OUTSIDE) for one in _CHUNK.finditer(query))
    return [one for one in chunks if _is_exact(one)]


def _is_exact(chunk: str) -> bool:
    inside = chunk[1:]
    return any(
        (
            any(char.isdigit() for char in chunk),
            "_" in chunk,
            any(char.isupper() for char in inside),
            len(chunk) > 1 and chunk[-1] in "+#",
        )
    )


def _stands(named: str, text: str) -> bool:
    """Whether it stands there as it is written, but for case and the width of blanks."""
    pattern = re.escape(named.casefold()).replace(r"\ ", r"\s+")
    return re.search(rf"(?<!\w){pattern}(?!\w)", text.casefold()) is not None


def _telling(query: str) -> frozenset[str]:
    return stems(word for word in terms.words_of(query) if not says_little(word))


def _is_list(query: str) -> bool:
    words = terms.words_of(query)
    if terms.has_unspaced(query) and len("".join(query.split())) > SHORT:
        return False
    return not any(map(says_little, words))


def parallel(one: str, other: str) -> bool:
    """Whether two sentences are of one form: they share half of their words or more."""
    first, second = (Counter(map(str.casefold, terms.words_of(text))) for text in (one, other))
    both = first.total() + second.total()
    return both > 0 and 2 * (first & second).total() / both >= PARALLEL
