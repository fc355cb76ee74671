"""Rankings by name, and searches that rank by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import TypeVar

from pagedaemon.config import NEAR_REPEATS
from pagedaemon.errors import InvalidInput
from pagedaemon.memory.assurance import LOOKED_AT, Doubt, answered, doubt
from pagedaemon.memory.formulas import (
    Blend,
    Formula,
    GenerativeAgents,
    RecentConfident,
    Remembered,
)
from pagedaemon.memory.ranking import DEFAULT, Ranking, Scored
from pagedaemon.memory.search import Floors, Near, find_messages, find_passages
from pagedaemon.memory.succession import names_in, names_of
from pagedaemon.memory.times.then import MESSAGES, RECORDS, F, Then
from pagedaemon.store import fulltext
from pagedaemon.store import passages as passage_rows
from pagedaemon.store import recall as message_rows
from pagedaemon.store.candidates import Searched
from pagedaemon.store.passages import PassageFilter, PassageRow
from pagedaemon.store.recall import MessageFilter, MessageHit
from pagedaemon.store.transaction import Transaction

Hit = TypeVar("Hit")

PRESETS: Mapping[str, Ranking | Formula | RecentConfident] = MappingProxyType(
    {
        "default": DEFAULT,
        "generative_agents": GenerativeAgents(),
        "generative_agents_fixed": GenerativeAgents(fixed_range=True),
        "blend": Blend(),
        "recent_confident": RecentConfident(),
    }
)
"""What a search may be ranked by, by name."""

READ = 2_000
"""Characters of a text in which names are looked for."""


def preset(name: str, *, of: str = "records") -> Ranking | Formula | RecentConfident:
    """The ranking of that name.

    Args:
        of: what is ranked, `records` or `messages`; messages have neither purposes nor confidence.

    Raises:
        InvalidInput: there is none of that name for these; the text lists those that are.
    """
    known = known_presets(of)
    if name not in known:
        raise InvalidInput(f"{of} are ranked by one of {', '.join(known)}, not {name!r}")
    return PRESETS[name]


def known_presets(of: str = "records") -> list[str]:
    """The names of the presets for `records`, or for `messages`."""
    return [one for one in PRESETS if of == "records" or one != "recent_confident"]


def search_passages(
    tx: Transaction,
    words: str | None,
    given: PassageFilter,
    *,
    ranking: str,
    offset: int,
    limit: int,
    near: Near | None = None,
    floor: float | None = None,
    sure: bool = False,
    near_repeats: float | None = NEAR_REPEATS,
) -> tuple[list[PassageRow], int]:
    """One page of passages and the total, ranked by a preset: see `find_passages`.

    A formula ranks the candidates it names; what else matches by words is on no page of it.

    Args:
        sure: as a tool searches: nothing that is only far, and nothing at all where nothing found
            is likely to answer (`assurance`). What has to be read for that is
            `doubtful_passages`.
        near_repeats: as `find_passages`; no formula has it.
    """
    least = Floors.of(near, floor, sure=sure)
    page = _passages(tx, words, given, ranking, near, least, near_repeats)
    hits, total = page(offset, limit)
    if not sure or words is None or not total or isinstance(preset(ranking), RecentConfident):
        return hits, total
    best = _best(page, hits, offset)
    if _dated(best):
        return hits, total
    asked = _beside(Then.of(tx, RECORDS, words, given, given.now), words)
    ids = [hit.id for hit in best]
    return (hits, total) if asked and answered(tx, "passage", asked, ids, near) else ([], 0)


def doubtful_passages(
    tx: Transaction,
    words: str,
    near: Near,
    *,
    given: PassageFilter,
    ranking: str,
    near_repeats: float | None = NEAR_REPEATS,
) -> Doubt | None:
    """What has to be read closely before a sure search; None if nothing has."""
    if isinstance(preset(ranking), RecentConfident):
        return None
    least = Floors.of(near, None, sure=True)
    page = _passages(tx, words, given, ranking, near, least, near_repeats)
    best = page(0, LOOKED_AT)[0]
    if not best or _dated(best):
        return None
    asked = _beside(Then.of(tx, RECORDS, words, given, given.now), words)
    return doubt(tx, "passage", asked, [hit.id for hit in best], near) if asked else None


Pages = Callable[[int, int], tuple[list[Hit], int]]
"""Hits of an offset and a limit, and how many there are in all."""


def _passages(
    tx: Transaction,
    words: str | None,
    given: PassageFilter,
    ranking: str,
    near: Near | None,
    least: Floors,
    near_repeats: float | None,
) -> Pages[PassageRow]:
    chosen = preset(ranking)

    def page(offset: int, limit: int) -> tuple[list[PassageRow], int]:
        if isinstance(chosen, RecentConfident):
            most = max(0, min(limit, chosen.limit - offset))
            confident = replace(given, confidence=max(given.confidence or 0.0, chosen.confidence))
            rows, total = passage_rows.in_order(tx, confident, offset=offset, limit=most)
            return rows, min(total, chosen.limit)
        if isinstance(chosen, Ranking) or words is None:
            return find_passages(
                tx,
                words,
                given,
                offset=offset,
                limit=limit,
                near=near,
                least=least,
                ranking=chosen if isinstance(chosen, Ranking) else DEFAULT,
                near_repeats=near_repeats,
            )
        return _passages_by(tx, words, given, chosen, offset, limit, near, least)

    return page


def _passages_by(
    tx: Transaction,
    words: str,
    given: PassageFilter,
    formula: Formula,
    offset: int,
    limit: int,
    near: Near | None,
    least: Floors,
) -> tuple[list[PassageRow], int]:
    relevance = _relevance(tx, passage_rows.searched(given), words, near, least, formula)
    rows_of = passage_rows.by_ids(tx, list(relevance))
    names = names_of(words)
    known = {
        one: Remembered(
            row.used_at or row.created_at,
            row.importance,
            names_in(names, " ".join([row.text[:READ], *row.tags])),
        )
        for one, row in rows_of.items()
    }
    ranked = formula.ranked(relevance, known, given.now)
    return [
        replace(rows_of[one.id], score=one.score, parts=one.parts, via=_via(one, near))
        for one in ranked[offset : offset + limit]
    ], len(ranked)


def search_messages(
    tx: Transaction,
    words: str | None,
    given: MessageFilter,
    *,
    ranking: str,
    now: datetime,
    offset: int,
    limit: int,
    near: Near | None = None,
    floor: float | None = None,
    sure: bool = False,
    oldest_first: bool = False,
) -> tuple[list[MessageHit], int]:
    """The same of messages, which nobody rates and whose last use is when they were said."""
    least = Floors.of(near, floor, sure=sure)
    page = _messages(tx, words, given, ranking, now, near, least, oldest_first)
    hits, total = page(offset, limit)
    if not sure or words is None or not total:
        return hits, total
    best = _best(page, hits, offset)
    if _dated(best):
        return hits, total
    asked = _beside(Then.of(tx, MESSAGES, words, given, now), words)
    return (hits, total) if asked and _answered(tx, asked, best, near) else ([], 0)


def doubtful_messages(
    tx: Transaction, words: str, near: Near, *, given: MessageFilter, ranking: str, now: datetime
) -> Doubt | None:
    """What has to be read closely before a sure search; None if nothing has."""
    least = Floors.of(near, None, sure=True)
    best = _messages(tx, words, given, ranking, now, near, least)(0, LOOKED_AT)[0]
    if not best or _dated(best):
        return None
    asked = _beside(Then.of(tx, MESSAGES, words, given, now), words)
    ids = [hit.message.id for hit in best]
    return doubt(tx, "message", asked, ids, near, speakers=_speakers(best)) if asked else None


def _messages(
    tx: Transaction,
    words: str | None,
    given: MessageFilter,
    ranking: str,
    now: datetime,
    near: Near | None,
    least: Floors,
    oldest_first: bool = False,
) -> Pages[MessageHit]:
    chosen = preset(ranking, of="messages")
    assert not isinstance(chosen, RecentConfident), "no preset of messages"

    def page(offset: int, limit: int) -> tuple[list[MessageHit], int]:
        if isinstance(chosen, Ranking) or words is None:
            return find_messages(
                tx,
                words,
                given,
                offset=offset,
                limit=limit,
                near=near,
                least=least,
                ranking=chosen if isinstance(chosen, Ranking) else DEFAULT,
                oldest_first=oldest_first,
                now=now,
            )
        return _messages_by(tx, words, given, chosen, now, offset, limit, near, least)

    return page


def _answered(tx: Transaction, words: str, best: Sequence[MessageHit], near: Near | None) -> bool:
    ids = [hit.message.id for hit in best]
    return answered(tx, "message", words, ids, near, speakers=_speakers(best))


def _speakers(hits: Iterable[MessageHit]) -> set[str]:
    return {hit.message.author or hit.message.role for hit in hits}


def _dated(best: Iterable[MessageHit | PassageRow]) -> bool:
    # Who asks for a day is answered by what was said then, or kept of it, whatever it was.
    return any("day" in hit.parts for hit in best)


def _beside(then: Then[F] | None, words: str) -> str | None:
    """What has to be answered where no hit is of the time that is asked for: what the query says
    beside it, since that other days have words of its date tells nothing. None if it asks for that
    time alone, at which nothing was said."""
    if then is None:
        return words
    if then.asks_for_all:
        return None if then.empty else words
    return then.beside


def _best(page: Pages[Hit], hits: list[Hit], offset: int) -> list[Hit]:
    """The best that are looked at, of which a page may show all."""
    shown = offset == 0 and len(hits) >= LOOKED_AT
    return (hits if shown else page(0, LOOKED_AT)[0])[:LOOKED_AT]


def _messages_by(
    tx: Transaction,
    words: str,
    given: MessageFilter,
    formula: Formula,
    now: datetime,
    offset: int,
    limit: int,
    near: Near | None,
    least: Floors,
) -> tuple[list[MessageHit], int]:
    relevance = _relevance(tx, message_rows.searched(given), words, near, least, formula)
    texts = fulltext.own_texts(tx, "message", list(relevance), READ)
    names = names_of(words)
    known = {
        one: Remembered(at, named=names_in(names, f"{speaker} {texts.get(one, '')}"))
        for one, (_, at, speaker, *_) in message_rows.places(tx, list(relevance), tail=0).items()
    }
    ranked = formula.ranked(relevance, known, now)
    shown = ranked[offset : offset + limit]
    rows = message_rows.by_ids(tx, [one.id for one in shown])
    return [MessageHit(*rows[one.id], one.score, one.parts, _via(one, near)) for one in shown], len(
        ranked
    )


def _relevance(
    tx: Transaction,
    searched: Searched,
    words: str,
    near: Near | None,
    least: Floors,
    formula: Formula,
) -> dict[str, float]:
    """Of the candidates: the nearest, then the best by words. What words alone found is as far as
    the farthest of what meaning found; where nothing has a cosine, words are the relevance."""
    cosines = {} if near is None else near.cosines
    matches = searched.matches(tx, words)
    found = searched.chosen(tx, words, matches, cosines, formula.by_words)
    by_words = list(matches.scores)[: formula.by_words]
    if not cosines:
        scores = {one: matches.scores[one].score for one in by_words}
        most = max(scores.values(), default=0.0)
        return {one: score / most if most > 0 else 1.0 for one, score in scores.items()}
    floor = least.where(bool(matches.scores))
    kept = [
        one for one in found.near if floor is None or cosines[one] >= floor or one in found.keywords
    ]
    nearest = sorted(kept, key=lambda one: -cosines[one])[: formula.near]
    farthest = min(cosines.values())
    return {one: cosines.get(one, farthest) for one in dict.fromkeys([*nearest, *by_words])}


def _via(scored: Scored, near: Near | None) -> str:
    return near.via if near is not None and scored.id in near.cosines else "keywords"
