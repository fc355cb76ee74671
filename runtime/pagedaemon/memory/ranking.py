"""How candidates are ranked: what words and meaning found fused, and where messages stand.

The two are fused as a weighted sum, each part scaled over its candidates. Reciprocal rank fusion,
the usual choice, keeps only the order and throws away how sure the keyword score is. Of messages
more counts than what they say (`standing`). The weights were learned on the open LoCoMo
conversations, each time on all but the one they were then measured on
(`tests/benchmarks/locomo.py --fit`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter, mul
from types import MappingProxyType
from typing import NamedTuple

from pagedaemon.errors import InvalidInput
from pagedaemon.memory.standing import Place, standings
from pagedaemon.memory.times.then import Then
from pagedaemon.store.candidates import ByWords
from pagedaemon.store.recall import MessageFilter

_BESIDE = ("own", "day", "speaker", "episode", "beside", "answer", "length", "statement")
_DAY = _BESIDE.index("day")


@dataclass(frozen=True, slots=True)
class Ranking:
    """What counts how much. Weights are relative to each other.

    Raises:
        InvalidInput: a weight below 0, keywords and meaning both 0, or no candidates.
    """

    keywords: float = 0.5
    """Weight of the keyword score (bm25)."""
    meaning: float = 0.5
    """Weight of the cosine between the query's vector and the nearest piece of the text. What words
    and meaning give together, scaled so that their weights add up to 1, is what a text answers by
    itself. What follows counts beside that 1, all but the first of messages alone."""
    named: float = 0.3
    """Of records, whose speaker is not known: that a text has the names in the query. On the open
    LoCoMo conversations, kept as records, recall@10 by words alone is 0.635 in place of 0.613."""
    own: float = 0.6
    """The keyword score of a message by its own words, without its date and those beside it."""
    day: float = 1.35
    """The keyword score of its date; where the query names a time, that it was said then."""
    speaker: float = 1.4
    """That the query names who spoke."""
    episode: float = 1.65
    """What the others answer that were said at that time: the mean of the best three."""
    beside: float = 0.45
    """What the better of the two beside it answers."""
    answer: float = 0.6
    """What the one before it answers, where that is a question."""
    length: float = 1.3
    """That it is long: nothing at 0 characters, three quarters at 100, all from 200 on."""
    statement: float = 0.2
    """That it is no question itself."""
    candidates: int = 100
    """How many are ranked from either side."""
    words_alone: int = 50
    """How many are ranked where nothing was found by meaning. On the open LoCoMo conversations
    recall@10 without a model is 0.811 with 50, in a sixth less time than with 100 (0.819)."""
    newer_first: bool = True
    """Whether what is newer than the best hit and about the same comes before it: `succession`."""
    repeats_last: bool = True
    """Whether records that say again what a better hit says come after all that is ranked beside:
    `repeats`."""

    def __post_init__(self) -> None:
        if min(asdict(self).values()) < 0 or self.keywords + self.meaning <= 0:
            raise InvalidInput(f"weights are 0 or more, and that of words or meaning above: {self}")
        if min(self.candidates, self.words_alone) < 1:
            raise InvalidInput(f"at least 1 candidate is ranked: {self}")

    @property
    def around(self) -> tuple[float, ...]:
        """The weights of what counts of a message beside what it answers by itself."""
        return tuple(getattr(self, name) for name in _BESIDE)


DEFAULT = Ranking()


class Scored(NamedTuple):
    """One candidate as it was ranked."""

    id: str
    score: float
    """From 0 to 1, higher for better; comparable within one search only."""
    parts: Mapping[str, float]
    """What the score is the sum of, by the names of the weights in `Ranking`: `keywords` and
    `meaning`, each only where it was found so; the others, each only where it is not 0, `date` for
    `day` where nothing is of the time that the query names (`in_context`); and `newer`
    where it comes before what was the best because it is about the same and newer, `older` where
    the query names a time at which what was the best was not yet so."""


def fuse(
    keywords: Mapping[str, float], meaning: Mapping[str, float], ranking: Ranking = DEFAULT
) -> list[Scored]:
    """Ranks the union of both sides, best first.

    Each side is scaled to 0..1 over its own candidates, and what a side did not find has 0 there:
    the keyword score x / max, because 0 is that of no match; the cosine (x - min) / (max - min),
    because what is a low one differs between models. Where all cosines are equal they have 1. The
    score is the sum of both, weighted, the weights scaled to add up to 1 (Fox and Shaw,
    "Combination of Multiple Searches", 1994: CombSUM), those of a side that found nothing left out.
    Ties stand in the order in which they are given, keywords first.

    Args:
        keywords: keyword score by id, higher for better.
        meaning: cosine by id.
    """
    most = max(keywords.values(), default=0.0)
    by_words = {one: score / most if most > 0 else 1.0 for one, score in keywords.items()}
    by_meaning = _scaled(meaning)
    share = _share(bool(meaning), ranking)
    scored = []
    for candidate in dict.fromkeys([*keywords, *meaning]):
        parts: dict[str, float] = {}
        if candidate in by_words:
            parts["keywords"] = share * by_words[candidate]
        if candidate in by_meaning:
            parts["meaning"] = (1 - share) * by_meaning[candidate]
        scored.append(Scored(candidate, sum(parts.values()), parts))
    return sorted(scored, key=itemgetter(1), reverse=True)


_NONE: Mapping[str, ByWords] = MappingProxyType({})


def _share(by_meaning: bool, ranking: Ranking) -> float:
    if not by_meaning and ranking.keywords > 0:
        return 1.0
    return ranking.keywords / (ranking.keywords + ranking.meaning)


def in_context(
    scored: Sequence[Scored],
    places: Mapping[str, Place],
    words: str,
    ranking: Ranking = DEFAULT,
    found: Mapping[str, ByWords] = _NONE,
    explained: int | None = None,
    then: Then[MessageFilter] | None = None,
) -> list[Scored]:
    """Ranks messages by where they stand too, best first.

    To the score of each is added what its `Standing` says and how well its own words and its date
    match, x / max as in `fuse`, each times its weight; the sum is divided by the sum of the
    weights.

    Args:
        scored: what `fuse` gives.
        places: of each of them.
        found: how words found them, where they did.
        explained: how many of the best have their `parts`: telling them costs as much as ranking.
            None: all.
        then: the time the query names. What was said then matches by its date in full, and nothing
            else does, however many words its date shares: the same month of another year. Where
            that is one day, it weighs as much as all else: what was said then comes first. Where
            nothing was said then, the words of a date count as in any query, but as `date`: such a
            day may be when what is asked for was told.
    """
    scores = {one.id: one.score for one in scored}
    matched = [found[one] for one in scores if one in found]
    most_own = max((match.own for match in matched), default=0.0) or 1.0
    most_day = max((match.day for match in matched), default=0.0) or 1.0
    around = standings(scores, places, words)
    weights = list(ranking.around)
    of_then = None if then is None or then.empty else then
    if of_then is not None and (of_then.meant.one_day or of_then.asks_for_all):
        weights[_DAY] = 1 + sum(weights) - weights[_DAY]
    whole = 1 + sum(weights)
    ranked = []
    for one in scored:
        here = one.id
        _, own, day = found.get(here, _UNMATCHED)
        standing = around[here]
        beside = (
            own / most_own,
            day / most_day if of_then is None else of_then.holds(here, places[here].at),
            standing.speaker,
            standing.episode,
            standing.beside,
            standing.answer,
            standing.length,
            standing.statement,
        )
        ranked.append(((one.score + sum(map(mul, weights, beside))) / whole, one, beside))
    ranked.sort(key=itemgetter(0), reverse=True)
    shown = [
        Scored(one.id, score, _parts(one, weights, beside, whole))
        for score, one, beside in ranked[:explained]
    ]
    if then is not None and of_then is None:
        shown = [_other_day(one) for one in shown]
    hidden = () if explained is None else ranked[explained:]
    return [*shown, *(Scored(one.id, score, NO_PARTS) for score, one, _ in hidden)]


def _parts(
    one: Scored, weights: Sequence[float], beside: Sequence[float], whole: float
) -> dict[str, float]:
    parts = {name: part / whole for name, part in one.parts.items()}
    for name, part in zip(_BESIDE, map(mul, weights, beside), strict=True):
        if part:
            parts[name] = part / whole
    return parts


def _other_day(one: Scored) -> Scored:
    parts = {"date" if name == "day" else name: part for name, part in one.parts.items()}
    return Scored(one.id, one.score, parts)


_UNMATCHED = ByWords(0.0, 0.0, 0.0)
NO_PARTS: Mapping[str, float] = MappingProxyType({})
"""Of what was not ranked, or is not shown."""


def _scaled(values: Mapping[str, float]) -> dict[str, float]:
    if not values:
        return {}
    least, most = min(values.values()), max(values.values())
    span = most - least
    if span <= 0:
        return dict.fromkeys(values, 1.0)
    return {key: (value - least) / span for key, value in values.items()}
