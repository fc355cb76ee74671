"""Of two texts that say the same of the same thing at different times, the newer comes first.

What somebody said of where he lives stays in memory when it is no longer true, and answers the
question as well as what he said since. No word tells which is which ("I live in Porto", "I live in
Leeds"), but their dates do. So where something newer is about the same as the best hit, by whoever
spoke there, it is put before it. The older one stays where it was, and is found by whoever asks for
it. Nothing else is moved: recency as a part of every score loses what is asked for most, which is
old.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from pagedaemon.memory import naming
from pagedaemon.store import fulltext, terms, vectors
from pagedaemon.store.function_words import says_little
from pagedaemon.store.transaction import Transaction
from pagedaemon.store.vectors import Vector

DEPTH = 30
"""How far down the ranking a newer text is looked for."""

READ = 600
"""Characters of a text whose words are compared."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """How sure it is that one text is about the same as the best hit: a weighted sum, and the least
    that is enough.

    Found by a search over weights on `tests/benchmarks/data/now_then.jsonl` and beside it the open
    LoCoMo conversations, where next to nothing may be moved before what answers. With the subjects
    and the conversations left out that are then judged, the newer comes first for 0.81 of what
    changed with vectors, and 0.75 by words alone; with all of them 0.83 and 0.77. A fifth of the
    set shares no word with what is asked and with what was said before, so that words cannot know.
    """

    cosine: float
    """Of the cosine between the two; of several pieces the nearest."""
    words: float
    """Of the words they share, 0 to 1 (Dice, 1945: twice what is shared over the sum of both)."""
    score: float
    """Of its score over the best hit's."""
    meaning: float
    """Of how near it is to the query, 0 to 1 among all that was found."""
    unnamed: float
    """Of the names in the query that the best hit has and it has not, 0 to 1: then it is of
    somebody else."""
    length: float
    """Of ln(words / 10), where both have more on average: long texts have much in common that is
    not what they are about."""
    least: float


WITH_VECTORS = Likeness(0.7, 0.5, 0.4, 0.4, -0.75, -0.3, 1.18)
WITH_WORDS = Likeness(0.0, 1.0, 0.7, 0.0, -1.3, -0.7, 0.64)
"""Where there are no vectors to compare. Then two that share no word are never alike."""


@dataclass(frozen=True, slots=True)
class Dated:
    """When what a text tells was so, and who says it."""

    at: datetime
    speaker: str | None = None
    """Only the same one takes something back; None where nobody is known to have spoken."""


def successor(
    tx: Transaction,
    kind: fulltext.Kind,
    words: str,
    ranked: Sequence[tuple[str, float]],
    dated: Mapping[str, Dated],
    *,
    cosines: Mapping[str, float],
    model: str | None,
    until: datetime | None = None,
) -> str | None:
    """The newest text that is about the same as the best hit, and newer; None if none is.

    Where a time is asked for, it is what was so at the end of it: the newest from before that, also
    where the best hit is newer.

    Args:
        words: the query.
        ranked: ids and scores, best first.
        dated: of the first `DEPTH` of them.
        cosines: between the query and what was found by meaning.
        model: whose vectors are compared; None: words alone.
        until: the end of the time that is asked for; None: now.
    """
    if not ranked or ranked[0][1] <= 0:
        return None
    (best, most), *others = ranked[:DEPTH]
    here = dated[best]
    newer = {
        one: score
        for one, score in others
        if _supersedes(dated[one].at, here.at, until) and dated[one].speaker == here.speaker
    }
    if not newer:
        return None
    texts = fulltext.own_texts(tx, kind, [best, *newer], READ)
    # Who speaks is part of what is searched, and would make all that he says alike.
    his = {word.casefold() for word in terms.words_of(here.speaker or "")}
    said = {one: _Words.of(texts[one], his) for one in [best, *newer]}
    near = {} if model is None else _cosines(tx, model, best, list(newer))
    weights = WITH_VECTORS if near else WITH_WORDS
    names = names_of(words) & said[best].different
    nearest = _scaled(cosines)
    alike = []
    for one, score in newer.items():
        shared = said[best].shared(said[one])
        if not near and not shared:
            continue
        unnamed = len(names - said[one].different) / len(names) if names else 0.0
        length = math.log((said[best].count + said[one].count) / 20)
        sure = (
            weights.cosine * near.get(one, 0.0)
            + weights.words * shared
            + weights.score * score / most
            + weights.meaning * nearest.get(one, 0.0)
            + weights.unnamed * unnamed
            + weights.length * max(0.0, length)
        )
        if sure >= weights.least:
            alike.append(one)
    # The newest that lacks nothing; this last, since it takes longest and few are left.
    for one in sorted(alike, key=lambda one: dated[one].at, reverse=True):
        if not naming.lost(words, texts[best], texts[one], speaker=here.speaker):
            return one
    return None


def _supersedes(at: datetime, best: datetime, until: datetime | None) -> bool:
    """Whether what tells of this instant may say what was so, rather than the best hit."""
    if until is None:
        return at > best
    return at < until and (at > best or best >= until)


@dataclass(frozen=True, slots=True)
class _Words:
    """What is compared of a text."""

    different: frozenset[str]
    """Stems of what are no function words."""
    count: int
    """Of all, at least 1."""

    @classmethod
    def of(cls, text: str, without: Collection[str]) -> _Words:
        kept = [one for one in map(_read, terms.words_of(text)) if one[0] not in without]
        stems = {stem for _, stem in kept}
        stems.discard("")
        return cls(frozenset(stems), max(1, len(kept)))

    def shared(self, other: _Words) -> float:
        both = len(self.different) + len(other.different)
        return 2 * len(self.different & other.different) / both if both else 0.0


@lru_cache(maxsize=20_000)
def _read(word: str) -> tuple[str, str]:
    """A word in small letters, and its stem; none of a function word. Texts have few words that no
    text before them had."""
    small = word.casefold()
    return small, "" if says_little(word) else small[: naming.STEM]


def names_of(query: str) -> frozenset[str]:
    """Stems of the words with a capital, which most scripts give to names."""
    words = terms.words_of(query)
    return naming.stems(word for word in words if word[:1].isupper() and not says_little(word))


def names_in(names: frozenset[str], text: str) -> float:
    """The share of these names that a text has; 0 of none."""
    return len(names & naming.stems(terms.words_of(text))) / len(names) if names else 0.0


def _scaled(cosines: Mapping[str, float]) -> dict[str, float]:
    if not cosines:
        return {}
    least, most = min(cosines.values()), max(cosines.values())
    if len(cosines) < DEPTH:
        least = min(0.0, least)  # the farthest of a few need not be far
    span = most - least
    return {one: (value - least) / span if span > 0 else 1.0 for one, value in cosines.items()}


def _cosines(tx: Transaction, model: str, best: str, others: Sequence[str]) -> dict[str, float]:
    """Between the first and each of the others, by the nearest of their pieces; nothing where the
    first has no vector yet."""
    import numpy as np

    pieces: dict[str, list[Vector]] = {}
    for rows in vectors.of_owners(tx, model, [best, *others]):
        for _, _, owner, data in rows:
            pieces.setdefault(owner, []).append(np.frombuffer(data, "<f4"))
    if best not in pieces:
        return {}
    first = pieces.pop(best)
    return {
        owner: max(float(one @ piece) for one in first for piece in of_it)
        for owner, of_it in pieces.items()
    }
