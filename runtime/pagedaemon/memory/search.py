"""Searches by words and by meaning together, page by page.

What both found is ranked (`ranking`), what no score tells is put in its place (`succession`,
`repeats`), and what else matches follows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from pagedaemon.config import NEAR_REPEATS
from pagedaemon.memory import succession
from pagedaemon.memory.ranking import DEFAULT, NO_PARTS, Ranking, Scored, fuse, in_context
from pagedaemon.memory.repeats import repeats_last
from pagedaemon.memory.standing import TAIL, Place
from pagedaemon.memory.succession import Dated, successor
from pagedaemon.memory.times.then import MESSAGES, RECORDS, F, Then
from pagedaemon.store import fulltext
from pagedaemon.store import passages as passage_rows
from pagedaemon.store import recall as message_rows
from pagedaemon.store.candidates import ByWords, Searched
from pagedaemon.store.fulltext import Kind
from pagedaemon.store.passages import PassageFilter, PassageRow
from pagedaemon.store.recall import MessageFilter, MessageHit
from pagedaemon.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Near:
    """What an index found near to a query."""

    cosines: Mapping[str, float]
    """By id, from -1 to 1, higher for nearer."""
    via: str
    """Which index answered: `exact` or `chroma`."""
    floor: float | None = None
    """The cosine under which a hit of this embedding model means nothing; None if unknown."""
    model: str | None = None
    """By whose vectors what was found can be compared with each other; None: by none."""
    sure: float | None = None
    """The cosine from which a hit of this embedding model is likely an answer; None if unknown."""
    read: Mapping[str, float] = field(default_factory=dict)
    """By id, of what was read closely, how likely it answers (`assurance`)."""
    covered: float | None = None
    """From what on it is likely an answer; None where nothing was read."""


@dataclass(frozen=True, slots=True)
class Floors:
    """The least cosines of a hit that no word found. None hides nothing."""

    alone: float | None = None
    """Where no word found anything."""
    beside_words: float | None = None
    """Where words found something; None: as `alone`."""

    @classmethod
    def of(cls, near: Near | None, floor: float | None, *, sure: bool) -> Floors:
        """What is given, or else what a sure search asks."""
        if sure and floor is None and near is not None:
            return cls(near.floor, surer(near))
        return cls(floor)

    def where(self, words_found: bool) -> float | None:
        """The one that holds."""
        return self.beside_words if words_found and self.beside_words is not None else self.alone


NO_FLOORS = Floors()


def surer(near: Near | None) -> float | None:
    """What a tool asks of a hit that no word found where words did find something: a quarter of the
    way from the model's floor to 1.

    On the open LoCoMo conversations that takes 0.1 points of recall@10, and of questions about
    another conversation 7 turns remain above it in place of 100.
    """
    if near is None or near.floor is None:
        return None
    return near.floor + (1 - near.floor) / 4


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
    least: Floors = NO_FLOORS,
    ranking: Ranking = DEFAULT,
    oldest_first: bool = False,
    now: datetime | None = None,
) -> tuple[list[MessageHit], int]:
    """One page of messages and the total: see `find_passages`. Where the words name a time
    (`times`), what was said then is found without them too, all of it: ranked is the best of it by
    words and the newest, as many as from either side, and the others come last, newest first.

    Args:
        now: what the words are seen from; None: no time is read from them.
        oldest_first: the order where there are no words to rank by.
    """
    if words is None:
        return message_rows.in_order(
            tx, given, offset=offset, limit=limit, oldest_first=oldest_first
        )
    searched = message_rows.searched(given)
    then = Then.of(tx, MESSAGES, words, given, now)
    nearest = near if near is not None else _NOTHING

    def placed(
        scored: list[Scored], found: Mapping[str, ByWords], far: Collection[str]
    ) -> list[Scored]:
        known = message_rows.places(tx, [one.id for one in scored], tail=TAIL)
        places = dict(zip(known, map(Place._make, known.values()), strict=True))
        # What comes first may come from down there, and is shown with its parts.
        explained = None if far else max(offset + limit, succession.DEPTH)
        ranked = in_context(scored, places, words, ranking, found, explained, then)
        until = None if then is None else then.meant.end
        if then is not None and until is not None and not then.empty:
            return _shown(ranked, far)  # who asks for a time asks for what was true then
        first = [one.id for one in ranked[: succession.DEPTH]]
        dated = {one: Dated(places[one].at, places[one].speaker) for one in first}
        asked = words if then is None else then.beside
        ranked = _newer_first(tx, "message", asked, ranked, dated, nearest, ranking, until)
        return _shown(ranked, far)

    shown, total = _page(tx, searched, words, nearest, least, ranking, offset, limit, placed, then)
    rows = message_rows.by_ids(tx, [one.id for one in shown])
    return [
        MessageHit(*rows[one.id], one.score, one.parts, _via(one, nearest)) for one in shown
    ], total


def find_passages(
    tx: Transaction,
    words: str | None,
    given: PassageFilter,
    *,
    offset: int,
    limit: int,
    near: Near | None = None,
    least: Floors = NO_FLOORS,
    ranking: Ranking = DEFAULT,
    near_repeats: float | None = NEAR_REPEATS,
) -> tuple[list[PassageRow], int]:
    """One page of passages and the total, best first; newest first without words.

    Filters come before anything is cut off. The best candidates by words and by meaning are fused;
    what else matches by words follows them, with a score of 0, so that every match is on some page.
    What makes no match where the query has rarer words says `asking.telling`.

    Args:
        near: what an index found; None searches by words alone.
        least: what a hit must reach that no word found.
        near_repeats: the cosine from which one may say again what another says. None: none does.
    """
    if words is None:
        return passage_rows.in_order(tx, given, offset=offset, limit=limit)
    searched = passage_rows.searched(given)
    then = Then.of(tx, RECORDS, words, given, given.now)
    nearest = near if near is not None else _NOTHING

    def placed(
        scored: list[Scored], _: Mapping[str, ByWords], far: Collection[str]
    ) -> list[Scored]:
        asked = words if then is None else then.beside
        ranked = _by_names(tx, asked, _by_time(tx, scored, then, ranking), ranking)
        dates = passage_rows.dates(tx, [one.id for one in ranked[: succession.DEPTH]])
        dated = {one: Dated(at) for one, at in dates.items()}
        until = None if then is None else then.meant.end
        ranked = _newer_first(tx, "passage", asked, ranked, dated, nearest, ranking, until)
        ranked = _shown(ranked, far)
        if near_repeats is None or not ranking.repeats_last:
            return ranked
        hits = {one.id: one for one in ranked}
        upto = offset + limit
        return repeats_last(tx, hits, least=near_repeats, model=nearest.model, upto=upto)

    shown, total = _page(tx, searched, words, nearest, least, ranking, offset, limit, placed, then)
    rows = passage_rows.by_ids(tx, [one.id for one in shown])
    return [
        replace(rows[one.id], score=one.score, parts=one.parts, via=_via(one, nearest))
        for one in shown
    ], total


def _by_time(
    tx: Transaction, scored: list[Scored], then: Then[PassageFilter] | None, ranking: Ranking
) -> list[Scored]:
    """Ranks records by the time too that the query names, if it does: as much as messages, and
    before all else where the query says nothing else."""
    if then is None or then.empty:
        return scored
    weight = ranking.day / (1 + sum(ranking.around))
    if then.asks_for_all:
        weight = 1.0
    dates = passage_rows.dates(tx, [one.id for one in scored])
    ranked = []
    for one in scored:
        day = weight * then.holds(one.id, dates[one.id])
        parts = {name: part / (1 + weight) for name, part in one.parts.items()}
        if day:
            parts["day"] = day / (1 + weight)
        ranked.append(Scored(one.id, (one.score + day) / (1 + weight), parts))
    # Of equals what was then comes first: the best by words alone has as much as it.
    return sorted(ranked, key=lambda one: (-one.score, "day" not in one.parts))


def _by_names(tx: Transaction, words: str, scored: list[Scored], ranking: Ranking) -> list[Scored]:
    """Ranks the best `succession.DEPTH` records by the names in the query too, best first; what
    follows them stays behind them."""
    names = succession.names_of(words)
    if not names or not ranking.named:
        return scored
    first = scored[: succession.DEPTH]
    texts = fulltext.own_texts(tx, "passage", [one.id for one in first], succession.READ)
    whole = 1 + ranking.named
    ranked = []
    for one in scored:
        named = ranking.named * succession.names_in(names, texts[one.id]) if one.id in texts else 0
        parts = {name: part / whole for name, part in one.parts.items()}
        if named:
            parts["named"] = named / whole
        ranked.append(Scored(one.id, (one.score + named) / whole, parts))
    return sorted(ranked, key=lambda one: -one.score)


def _newer_first(
    tx: Transaction,
    kind: Kind,
    words: str,
    ranked: list[Scored],
    dated: Mapping[str, Dated],
    near: Near,
    ranking: Ranking,
    until: datetime | None = None,
) -> list[Scored]:
    """With what succeeds the best hit before it, at the same score; where a time is named, with
    what was so at its end (`until`)."""
    if not ranking.newer_first or not ranked:
        return ranked
    scores = [(one.id, one.score) for one in ranked]
    found = successor(
        tx, kind, words, scores, dated, cosines=near.cosines, model=near.model, until=until
    )
    if found is None:
        return ranked
    best = ranked[0].score
    (moved,) = (one for one in ranked if one.id == found)
    part = "newer" if dated[found].at > dated[ranked[0].id].at else "older"
    first = Scored(found, best, {**moved.parts, part: best - moved.score})
    return [first, *(one for one in ranked if one.id != found)]


def _shown(ranked: list[Scored], far: Collection[str]) -> list[Scored]:
    """Without what is too far, unless it is what a best hit that is shown has become."""
    near = [one for one in ranked if one.id not in far]
    if len(near) == len(ranked) or not near:
        return near
    first, before = ranked[:2]
    moved = first.id in far and not _MOVED.isdisjoint(first.parts)
    return [first, *near] if moved and before.id not in far else near


_MOVED = frozenset(["newer", "older"])
"""Parts of what stands in the best hit's place."""


def _page(
    tx: Transaction,
    searched: Searched,
    words: str,
    near: Near,
    least: Floors,
    ranking: Ranking,
    offset: int,
    limit: int,
    placed: Callable[[list[Scored], Mapping[str, ByWords], Collection[str]], list[Scored]],
    then: Then[F] | None = None,
) -> tuple[list[Scored], int]:
    """One page of what was ranked and, after the last of it, of what else matches by words, and of
    what else was said then.

    What is too far is ranked with all others, since it is part of what cosines are scaled by, and
    hidden then: a floor hides, and changes no order.
    """
    # Who names a time asks for all of it, and not for what has a sign.
    matches = searched.matches(tx, words, signs=then is None)
    floor = least.where(bool(matches.scores))
    most = ranking.candidates if near.cosines else ranking.words_alone
    said = [] if then is None else then.candidates(most)
    named = dict.fromkeys([*near.cosines, *said])
    found = searched.chosen(tx, words, matches, named, most)
    meaning = {one: near.cosines[one] for one in found.near if one in near.cosines}
    far = {
        one
        for one, cosine in meaning.items()
        if floor is not None and cosine < floor and one not in found.keywords and one not in said
    }
    fused = fuse({one: match.score for one, match in found.keywords.items()}, meaning, ranking)
    alike = {one.id for one in fused}
    fused += [Scored(one, 0.0, NO_PARTS) for one in said if one not in alike]
    ranked = placed(fused, found.keywords, far)
    beside = [
        one.id for one in ranked if one.id not in matches.scores and one.id not in found.keywords
    ]
    matching = matches.total + len(beside)
    total = matching if then is None else matching + then.beyond(beside)
    shown = ranked[offset : offset + limit]
    if len(shown) == limit:
        return shown, total
    known = {one.id for one in ranked}
    left = [one for one in matches.scores if one not in known]
    begin, end = offset - len(ranked), offset + limit - len(ranked)
    shown += [_by_words(one) for one in left[max(0, begin) : max(0, end)]]
    listed = [*known, *left]
    missing = min(limit, max(0, matching - offset)) - len(shown)
    if missing:
        begin = max(0, offset - len(listed))
        rest = searched.rest(tx, words, listed, offset=begin, limit=missing)
        shown += [_by_words(one) for one in rest]
    missing = min(limit, max(0, total - offset)) - len(shown)
    if missing and then is not None:
        others = then.rest(beside, offset=max(0, offset - matching), limit=missing)
        shown += [Scored(one, 0.0, NO_PARTS) for one in others]
    return shown, total


def _by_words(found: str) -> Scored:
    return Scored(found, 0.0, {"keywords": 0.0})


_NOTHING = Near({}, "keywords")


def _via(scored: Scored, near: Near | None) -> str:
    return near.via if near is not None and "meaning" in scored.parts else "keywords"
