"""Search by words and by meaning together, and how what both found is ranked.

The two are fused as a weighted sum, each part scaled over its candidates. Reciprocal rank fusion,
the usual choice, keeps only the order and throws away how sure the keyword score is. Of messages
two things more count: that the query names who spoke, and how good the best are of what was said at
that time. The weights were tuned on the open LoCoMo conversations (`tests/benchmarks/locomo.py`),
where they are best in a wide range and for each conversation alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from statistics import fmean

from pagedaemon.errors import InvalidInput
from pagedaemon.store import passages as passage_rows
from pagedaemon.store import recall as message_rows
from pagedaemon.store.candidates import Searched
from pagedaemon.store.passages import PassageFilter, PassageRow
from pagedaemon.store.recall import MessageFilter, MessageHit
from pagedaemon.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Ranking:
    """What counts how much. Weights are relative to each other.

    Raises:
        InvalidInput: a weight below 0, keywords and meaning both 0, or no candidates.
    """

    keywords: float = 0.65
    """Weight of the keyword score (bm25)."""
    meaning: float = 0.35
    """Weight of the cosine between the query's vector and the nearest piece of the text."""
    speaker: float = 0.2
    """Of messages: what it counts that the query names who spoke, beside the two above, which add
    up to 1."""
    episode: float = 0.5
    """Of messages: what the others count that were said at that time: the mean of the best three
    of its episode."""
    candidates: int = 100
    """How many are ranked from either side."""

    def __post_init__(self) -> None:
        least = min(self.keywords, self.meaning, self.speaker, self.episode)
        if least < 0 or self.keywords + self.meaning <= 0:
            raise InvalidInput(f"weights are 0 or more, and that of words or meaning above: {self}")
        if self.candidates < 1:
            raise InvalidInput(f"at least 1 candidate is ranked, not {self.candidates}")


DEFAULT = Ranking()

PAUSE = timedelta(hours=1)
"""What was said in a conversation within so long of what was said before is of one episode."""

BEST_OF_EPISODE = 3


@dataclass(frozen=True, slots=True)
class Scored:
    """One candidate as it was ranked."""

    id: str
    score: float
    """From 0 to 1, higher for better; comparable within one search only."""
    parts: Mapping[str, float]
    """What the score is the sum of: `keywords`, `meaning`, each only where it was found so; of
    messages `speaker` where the query names who spoke, and `episode`."""


@dataclass(frozen=True, slots=True)
class Near:
    """What an index found near to a query."""

    cosines: Mapping[str, float]
    """By id, from -1 to 1, higher for nearer."""
    via: str
    """Which index answered: `exact` or `chroma`."""
    floor: float | None = None
    """The cosine under which a hit of this embedding model means nothing; None if unknown."""


def fuse(
    keywords: Mapping[str, float], meaning: Mapping[str, float], ranking: Ranking = DEFAULT
) -> list[Scored]:
    """Ranks the union of both sides, best first.

    Each side is scaled to 0..1 over its own candidates, and what a side did not find has 0 there:
    the keyword score x / max, because 0 is that of no match; the cosine (x - min) / (max - min),
    because what is a low one differs between models. Where all cosines are equal they have 1. The
    score is the sum of both, weighted, the weights scaled to add up to 1 (Fox and Shaw,
    "Combination of Multiple Searches", 1994: CombSUM). Ties stand in the order in which they are
    given, keywords first.

    Args:
        keywords: keyword score by id, higher for better.
        meaning: cosine by id.
    """
    most = max(keywords.values(), default=0.0)
    by_words = {one: score / most if most > 0 else 1.0 for one, score in keywords.items()}
    by_meaning = _scaled(meaning)
    share = ranking.keywords / (ranking.keywords + ranking.meaning)
    scored = []
    for candidate in dict.fromkeys([*keywords, *meaning]):
        parts: dict[str, float] = {}
        if candidate in by_words:
            parts["keywords"] = share * by_words[candidate]
        if candidate in by_meaning:
            parts["meaning"] = (1 - share) * by_meaning[candidate]
        scored.append(Scored(candidate, sum(parts.values()), parts))
    return sorted(scored, key=lambda one: -one.score)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message stands."""

    conversation_id: str
    at: datetime
    speaker: str
    """Who spoke, as words of a query may name them."""


def in_context(
    scored: Sequence[Scored], places: Mapping[str, Place], words: str, ranking: Ranking = DEFAULT
) -> list[Scored]:
    """Ranks messages by where they stand too, best first.

    To the score s of each is added `speaker` where the query names who spoke, and `episode` times
    the mean of the best `BEST_OF_EPISODE` s of its episode, of fewer where there are fewer; the sum
    is divided by the sum of the weights. An episode is what of the candidates was said in one
    conversation without a pause longer than `PAUSE`.

    Args:
        scored: what `fuse` gives.
        places: of each of them.
    """
    asked = set(_WORD.findall(words.casefold()))
    named = {
        speaker
        for speaker in {place.speaker for place in places.values()}
        if asked.intersection(_WORD.findall(speaker.casefold()))
    }
    episodes = _episodes(scored, places)
    best: dict[int, list[float]] = {}
    for one in sorted(scored, key=lambda one: -one.score):
        of_it = best.setdefault(episodes[one.id], [])
        if len(of_it) < BEST_OF_EPISODE:
            of_it.append(one.score)
    whole = 1 + ranking.speaker + ranking.episode
    around = {number: ranking.episode * fmean(of_it) / whole for number, of_it in best.items()}
    found = []
    for one in scored:
        parts = {name: part / whole for name, part in one.parts.items()}
        if places[one.id].speaker in named:
            parts["speaker"] = ranking.speaker / whole
        parts["episode"] = around[episodes[one.id]]
        found.append(Scored(one.id, sum(parts.values()), parts))
    return sorted(found, key=lambda one: -one.score)


_WORD = re.compile(r"\w+")


def _episodes(scored: Sequence[Scored], places: Mapping[str, Place]) -> dict[str, int]:
    """A number for each, the same for those of one episode."""
    found: dict[str, int] = {}
    last: Place | None = None
    number = 0
    for one in sorted((one.id for one in scored), key=lambda one: _order(places[one])):
        place = places[one]
        if (
            last is None
            or last.conversation_id != place.conversation_id
            or place.at - last.at > PAUSE
        ):
            number += 1
        found[one], last = number, place
    return found


def _order(place: Place) -> tuple[str, datetime]:
    return place.conversation_id, place.at


def _scaled(values: Mapping[str, float]) -> dict[str, float]:
    if not values:
        return {}
    least, most = min(values.values()), max(values.values())
    span = most - least
    if span <= 0:
        return dict.fromkeys(values, 1.0)
    return {key: (value - least) / span for key, value in values.items()}


def blank_is_none(query: str | None) -> str | None:
    """A query of nothing but blank space asks for nothing in particular."""
    return query if query is not None and query.strip() else None


def find_messages(
    tx: Transaction,
    words: str | None,
    given: MessageFilter,
    *,
    offset: int,
    limit: int,
    near: Near | None = None,
    floor: float | None = None,
    floor_beside_words: float | None = None,
    ranking: Ranking = DEFAULT,
    oldest_first: bool = False,
) -> tuple[list[MessageHit], int]:
    """One page of messages and the total: see `find_passages`.

    Args:
        oldest_first: the order where there are no words to rank by.
    """
    if words is None:
        return message_rows.in_order(
            tx, given, offset=offset, limit=limit, oldest_first=oldest_first
        )
    searched = message_rows.searched(given)

    def placed(scored: list[Scored]) -> list[Scored]:
        known = message_rows.places(tx, [one.id for one in scored])
        places = {one: Place(*place) for one, place in known.items()}
        return in_context(scored, places, words, ranking)

    near = near if near is not None else _NOTHING
    least = _Floors(floor, floor_beside_words)
    shown, total = _page(tx, searched, words, near, least, ranking, offset, limit, placed)
    rows = message_rows.by_ids(tx, [one.id for one in shown])
    return [
        MessageHit(*rows[one.id], one.score, one.parts, _via(one, near)) for one in shown
    ], total


def find_passages(
    tx: Transaction,
    words: str | None,
    given: PassageFilter,
    *,
    offset: int,
    limit: int,
    near: Near | None = None,
    floor: float | None = None,
    floor_beside_words: float | None = None,
    ranking: Ranking = DEFAULT,
) -> tuple[list[PassageRow], int]:
    """One page of passages and the total, best first; newest first without words.

    Filters come before anything is cut off. The best candidates by words and by meaning are fused;
    what else matches by words follows them, with a score of 0, so that every match is on some page.
    Words that stand in very many texts make no match where the query has rarer ones.

    Args:
        near: what an index found; None searches by words alone.
        floor: the least cosine of a hit that no word found; None hides nothing.
        floor_beside_words: the same where words found something; None: `floor`.
    """
    if words is None:
        return passage_rows.in_order(tx, given, offset=offset, limit=limit)
    searched = passage_rows.searched(given)
    least = _Floors(floor, floor_beside_words)
    shown, total = _page(tx, searched, words, near, least, ranking, offset, limit)
    rows = passage_rows.by_ids(tx, [one.id for one in shown])
    return [
        replace(rows[one.id], score=one.score, parts=one.parts, via=_via(one, near))
        for one in shown
    ], total


def _page(
    tx: Transaction,
    searched: Searched,
    words: str,
    near: Near | None,
    least: _Floors,
    ranking: Ranking,
    offset: int,
    limit: int,
    placed: Callable[[list[Scored]], list[Scored]] | None = None,
) -> tuple[list[Scored], int]:
    """One page of what was ranked and, after the last of it, of what else matches by words."""
    matches = searched.matches(tx, words)
    ranked: list[Scored] = []
    total, left = matches.total, matches.scores
    if near is not None:
        floor = least.where(bool(matches.scores))
        found = searched.chosen(tx, words, matches, near.cosines, ranking.candidates)
        meaning = {
            one: near.cosines[one]
            for one in found.near
            if floor is None or near.cosines[one] >= floor or one in found.keywords
        }
        ranked = fuse(found.keywords, meaning, ranking)
        if placed is not None:
            ranked = placed(ranked)
        total += len(ranked) - len(found.keywords)
        known = {one.id for one in ranked}
        left = dict.fromkeys((one for one in matches.scores if one not in known), 0.0)
    shown = ranked[offset : offset + limit]
    begin, end = offset - len(ranked), offset + limit - len(ranked)
    shown += [_by_words(*one) for one in islice(left.items(), max(0, begin), max(0, end))]
    missing = min(limit, max(0, total - offset)) - len(shown)
    if missing:
        listed = [*(one.id for one in ranked), *left]
        rest = searched.rest(tx, words, listed, offset=max(0, offset - len(listed)), limit=missing)
        shown += [_by_words(one, score if near is None else 0.0) for one, score in rest.items()]
    return shown, total


def _by_words(found: str, score: float) -> Scored:
    return Scored(found, score, {"keywords": score})


@dataclass(frozen=True, slots=True)
class _Floors:
    """The least cosines of a hit that no word found."""

    alone: float | None
    beside_words: float | None

    def where(self, words_found: bool) -> float | None:
        return self.beside_words if words_found and self.beside_words is not None else self.alone


def surer(near: Near | None) -> float | None:
    """What a tool asks of a hit that no word found where words did find something: a quarter of the
    way from the model's floor to 1.

    On the open LoCoMo conversations that takes 0.1 points of recall@10, and of questions about
    another conversation 7 turns remain above it in place of 100.
    """
    if near is None or near.floor is None:
        return None
    return near.floor + (1 - near.floor) / 4


_NOTHING = Near({}, "keywords")


def _via(scored: Scored, near: Near | None) -> str:
    return near.via if near is not None and "meaning" in scored.parts else "keywords"
