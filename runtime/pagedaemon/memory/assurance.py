"""Whether anything that a search found is likely to answer it.

Something is always nearest, and some word of a question stands somewhere. What nobody ever said is
known by reading the best hits: each word of the question is compared with the words that stand
there, by what they mean there, and what it is worth is how rare it is. A text that speaks of what
was asked has something near to each; one that is merely like the question has not. Where there is
no model that tells words apart, it is known by how much of the question's words the best hits
cover, and how near the nearest is. All of them mean the same in every search, which the score of a
ranking does not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagedaemon.memory import naming
from pagedaemon.memory.search import Near
from pagedaemon.memory.times.spans import MONTHS, WEEKDAYS
from pagedaemon.store import asking, fulltext, terms, vectors
from pagedaemon.store.function_words import plain, says_little
from pagedaemon.store.transaction import Transaction

if TYPE_CHECKING:
    from pagedaemon.llm.embedding.protocol import Worded, WordEmbedder

LOOKED_AT = 5
"""The best hits that are looked at: a first page of the agent's."""

READ = 600
"""Characters of a text that is read closely, and of what stands beside it: as much as a tool shows.
Of a longer text it is not known where in it the answer would stand."""

PLAIN = 0.6
"""The coverage by the words themselves from which nothing has to be read."""

WHOLE = 0.5
"""What the cosine of a whole text weighs beside the words that are read in it."""

SAME = 0.7
"""Cosine of two words, each where it stands, from which one says what the other does."""

BESIDE = 0.6
"""Share of what counts as an answer from which what stands beside a text is read too. It has lifted
none of those that reach less."""

# Measured with `tests/benchmarks/unanswerable.py`. Read closely, 0.9 points of recall@10 are lost
# on the open LoCoMo conversations. Of our own questions on what nobody spoke of 90 % find nothing,
# of those put to these conversations 92 %, of those where something near was said 33 %; 6 % of what
# is said in other words is hidden. By coverage and cosine it was 58 % and 10 %, with 5 % hidden.

COVERED = 0.4
"""What coverage weighs where nothing can be read; the rest is what nearness does."""

LEAST = 0.32
"""The least of both that counts as an answer, where the nearest is not near enough by itself."""

LEAST_COVERED = 0.23
"""The least coverage that does where there are no cosines, and where one is a sure one."""


DIGITS = 4
"""Digits of a number that stands for one thing; shorter ones may be written out, or counted."""

_DATES = frozenset((*WEEKDAYS, *MONTHS))
_DATE = re.compile(r"(?:19|20)\d\d|\d{1,4}([-./])\d{1,2}\1\d{1,4}")
_ONE_PHRASE = re.compile(r"\s*[\"\u201c][^\"\u201c\u201d]+[\"\u201d]\s*")


@dataclass(frozen=True, slots=True)
class Doubt:
    """What has to be read before it is known whether it answers."""

    query: str
    weights: Mapping[str, float]
    """By term of the query (an expression of the keyword index), what it tells."""
    texts: Mapping[str, tuple[str, ...]]
    """By id, best first: a text, and what stands beside it."""


def doubt(
    tx: Transaction,
    kind: fulltext.Kind,
    words: str,
    best: Sequence[str],
    near: Near,
    *,
    speakers: Collection[str] = (),
) -> Doubt | None:
    """What of the best hits has to be read closely; None where their words say enough, or these and
    their cosines.

    Args:
        words: the query.
        best: ids of the first hits.
        near: with their cosines.
        speakers: who spoke in them. That somebody is named who speaks in a conversation says
            nothing of what was said there.
    """
    asked = _weighed(tx, kind, words, speakers)
    if not asked.weights:
        return None
    covered = max(asking.coverage(tx, kind, asked, best).values(), default=1.0)
    if covered >= PLAIN or (covered >= LEAST_COVERED and _is_sure(best, near)):
        return None
    if _lacking(tx, kind, words, asked, best):
        return None
    absent = [name for name in _names(words, kind) if f'"{name}"' not in asked.weights]
    names = [name for name in (*speakers, *absent) if name]
    texts = fulltext.read_texts(tx, kind, best, READ)
    return Doubt(
        _without(names, words),
        asked.weights,
        {one: tuple(_without(names, said) for said in texts[one]) for one in best if one in texts},
    )


def _without(names: Collection[str], text: str) -> str:
    if not names:
        return text
    either = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.sub(rf"\b(?:{either})\b(?:['\u2019]s)?:?", "", text)


def _weighed(
    tx: Transaction, kind: fulltext.Kind, query: str, speakers: Collection[str]
) -> asking.Weighed:
    known = _names(query, kind)
    return asking.weighed(tx, kind, query, telling=True, without=speakers, known=known)


def _names(query: str, kind: fulltext.Kind) -> list[str]:
    """Who is asked about in an archive. Notes of one person seldom name her, so that a name which
    stands nowhere tells nothing. Where several words have a capital it may mark no names, as in
    German."""
    if kind == "message":
        return []
    names = [
        word
        for word in terms.words_of(query)[1:]
        if word[:1].isupper() and not says_little(word) and word.lower().rstrip("s") not in _DATES
    ]
    return names if len(names) == 1 else []


async def read(embedder: WordEmbedder, doubt: Doubt) -> dict[str, float]:
    """By id, how likely it answers, from 0 to 1: `WHOLE` times the cosine of the whole, and for the
    rest how much of the query's words it and what stands beside it have by meaning. That is the
    mean of what each word is to its nearest there (Khattab and Zaharia, "ColBERT", 2020: late
    interaction) as a share of `SAME`, 1 at most, weighted. Read from the best on, up to the first
    that likely does; what stands beside a text only where the text alone nearly does (`BESIDE`).

    Raises:
        EmbeddingError: they could not be read.
    """
    (asked,) = await embedder.words([doubt.query])
    found: dict[str, float] = {}
    least = BESIDE * embedder.covered
    for one, (text, *beside) in doubt.texts.items():
        said = await embedder.words([text])
        likely = _likeness(doubt.weights, asked, said)
        if beside and (likely is None or least <= likely < embedder.covered):
            said += await embedder.words(beside)
            likely = _likeness(doubt.weights, asked, said)
        if likely is None:
            break
        found[one] = likely
        if likely >= embedder.covered:
            break
    return found


def _likeness(weights: Mapping[str, float], asked: Worded, said: Sequence[Worded]) -> float | None:
    covered = _covered(weights, asked, said)
    if covered is None:
        return None
    return (1 - WHOLE) * covered + WHOLE * float(asked.whole @ said[0].whole)


def _covered(weights: Mapping[str, float], asked: Worded, said: Sequence[Worded]) -> float | None:
    """None where the model knows too little of the words that tell most."""
    import numpy as np

    there = np.concatenate([one.vectors for one in said])
    if not len(there) or not asked.words:
        return None
    nearest = vectors.products(asked.vectors, there).max(axis=1)
    rows: dict[str, list[int]] = {}
    for place, word in enumerate(asked.words):
        rows.setdefault(plain(word), []).append(place)
    known = likeness = 0.0
    for term, weight in weights.items():
        places = [at for word in terms.words_of(term) for at in rows.get(plain(word), ())]
        if places:
            known += weight
            likeness += weight * min(1.0, float(nearest[places].mean()) / SAME)
    return likeness / known if known >= sum(weights.values()) / 2 else None


def answered(
    tx: Transaction,
    kind: fulltext.Kind,
    words: str,
    best: Sequence[str],
    near: Near | None,
    *,
    speakers: Collection[str] = (),
) -> bool:
    """Whether what was found is likely to answer what was asked.

    Args: as `doubt` has them.
        near: with what was read of it, where it was in doubt.
    """
    if not best:
        return False
    if _signed(tx, kind, words, best):
        return True
    asked = _weighed(tx, kind, words, speakers)
    if not asked.weights:
        return True  # there is nothing to tell it by
    if _lacking(tx, kind, words, asked, best):
        return False
    covered = asking.coverage(tx, kind, asked, best)
    if near is None or not near.cosines:
        return max(covered.values()) >= LEAST_COVERED
    if max(covered.values()) >= PLAIN:
        return True
    rest = best
    if near.covered is not None:
        if any(near.read.get(one, 0.0) >= near.covered for one in best):
            return True
        rest = [one for one in best if one not in near.read]
    return bool(rest) and _likely({one: covered[one] for one in rest}, near)


def _lacking(
    tx: Transaction, kind: fulltext.Kind, words: str, asked: asking.Weighed, best: Sequence[str]
) -> bool:
    """Whether none of what was found has what the query names exactly, however it is written: an
    id, a number of `DIGITS` or more, or a phrase in quotes that is all the query. Another number
    is no answer, however near it is."""
    for id_ in filter(_is_id, naming.exact(words)):
        its = asking.weighed(tx, kind, id_)
        # What the groups of a number mean together, the whole query tells.
        covering = {
            term: [*ways, *asked.covering.get(term, ())] for term, ways in its.covering.items()
        }
        each = asking.Weighed(dict.fromkeys(its.weights, 1.0), covering)
        if each.weights and max(asking.coverage(tx, kind, each, best).values()) < 1:
            return True
    return bool(_ONE_PHRASE.fullmatch(words)) and not any(
        asking.coverage(tx, kind, asked, best).values()
    )


def _is_id(one: str) -> bool:
    digits = sum(map(str.isdigit, one))
    return ("_" in one or digits >= DIGITS) and not _DATE.fullmatch(one)


def _signed(tx: Transaction, kind: fulltext.Kind, words: str, best: Sequence[str]) -> bool:
    """Whether a sign of the query stands in what was found, 🎉 for one: no word weighs it."""
    signs = terms.signs(words)
    texts = fulltext.own_texts(tx, kind, best, terms.MOST_CHARACTERS) if signs else {}
    return any(sign in text for sign in signs for text in texts.values())


def _is_sure(best: Sequence[str], near: Near) -> bool:
    """Whether one of these is so near that it is likely an answer. Where what was found has words
    of the query too, reading has hidden 5 of 309 that were read, three of them answers."""
    cosines = [near.cosines[one] for one in best if one in near.cosines]
    return near.sure is not None and max(cosines, default=near.sure - 1) >= near.sure


def _likely(covered: Mapping[str, float], near: Near) -> bool:
    """Whether what was not read is likely to answer: by its words and its cosines."""
    if near.floor is None or near.sure is None:
        return True  # nobody knows what the cosines of this model are worth
    # What was stored just now has no vector yet: its words are all that is known of it.
    if any(value >= LEAST_COVERED for one, value in covered.items() if one not in near.cosines):
        return True
    nearest = max((near.cosines[one] for one in covered if one in near.cosines), default=near.floor)
    above = max(0.0, (nearest - near.floor) / (1 - near.floor))
    most = max(covered.values())
    return nearest >= near.sure or COVERED * most + (1 - COVERED) * above >= LEAST
