"""Rankings as others published them, over candidates that are found as in every search.

Each is a value with the numbers of its source as fields, and ranks by a sum whose parts a hit
tells. None is the default: they rate what is new or important beside what is asked for, and of old
facts, which are what memory is asked for most, they find less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from pagedaemon.memory.ranking import Scored

NEUTRAL = 5.0
"""The importance of what nobody has rated, from 1 to 10."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a formula looks at beside relevance."""

    used_at: datetime
    """Its last retrieval; when it was stored, if it had none."""
    importance: float | None = None
    """1 to 10; None: nobody rated it."""
    named: float = 0.0
    """The share of the names in the query that it has, 0 to 1; 0 where the query has none."""


class Formula(Protocol):
    """Ranks candidates."""

    @property
    def near(self) -> int:
        """How many candidates are taken by meaning."""
        ...

    @property
    def by_words(self) -> int:
        """And how many by words."""
        ...

    def ranked(
        self, relevance: Mapping[str, float], known: Mapping[str, Remembered], now: datetime
    ) -> list[Scored]:
        """All of them, best first; equal ones in the order of `relevance`.

        Args:
            relevance: the cosine to the query, or without an embedder how well the words match,
                from 0 to 1.
            known: of each of them.
        """
        ...


@dataclass(frozen=True, slots=True)
class GenerativeAgents:
    """Relevance, recency and importance, each scaled over the candidates to 0..1, and summed.

    Park et al., "Generative Agents: Interactive Simulacra of Human Behavior", 2023, section 4.1:
    recency is 0.995 to the power of the hours since the last retrieval, importance is rated 1 to
    10, all weights are 1. Where all candidates have the same of one part, each has 1.0 of it.

    Attributes:
        fixed_range: each part is scaled over the range it can have, in place of what the candidates
            have: the cosine from 0 to 1, recency as it is, importance from 1 to 10. Then a score
            means the same in every search.
    """

    decay_per_hour: float = 0.995
    fixed_range: bool = False
    near: int = 100
    by_words: int = 100

    def ranked(
        self, relevance: Mapping[str, float], known: Mapping[str, Remembered], now: datetime
    ) -> list[Scored]:
        """See `Formula`."""
        hours = {one: _age(known[one], now) / timedelta(hours=1) for one in relevance}
        importance = {one: known[one].importance for one in relevance}
        values = {
            "relevance": (dict(relevance), (0.0, 1.0)),
            "recency": ({one: self.decay_per_hour**age for one, age in hours.items()}, (0.0, 1.0)),
            "importance": (
                {one: NEUTRAL if rated is None else rated for one, rated in importance.items()},
                (1.0, 10.0),
            ),
        }
        scaled = {
            name: _scaled(part, limits if self.fixed_range else None)
            for name, (part, limits) in values.items()
        }
        return _summed(relevance, lambda one: {name: part[one] for name, part in scaled.items()})


@dataclass(frozen=True, slots=True)
class Blend:
    """Meaning, recency and names in fixed shares, over the nearest 30 and the best 30 by words.

    0.6 times the cosine (0 where it is below), 0.25 times 0.5 to the power of the days since the
    last use over 30, 0.15 times the share of the query's names that the text has.
    """

    meaning: float = 0.6
    recency: float = 0.25
    entity: float = 0.15
    half_life: timedelta = timedelta(days=30)
    near: int = 30
    by_words: int = 30

    def ranked(
        self, relevance: Mapping[str, float], known: Mapping[str, Remembered], now: datetime
    ) -> list[Scored]:
        """See `Formula`."""

        def parts(one: str) -> dict[str, float]:
            fresh = 0.5 ** (_age(known[one], now) / self.half_life)
            return {
                "semantic": self.meaning * max(0.0, relevance[one]),
                "recency": self.recency * fresh,
                "entity": self.entity * known[one].named,
            }

        return _summed(relevance, parts)


@dataclass(frozen=True, slots=True)
class RecentConfident:
    """No relevance at all: of what is for a purpose and is held with some confidence the newest.

    It is asked with `purposes`, and is for what should be at hand whatever is said: how somebody
    wants to be spoken to, what he may not eat. Words of a query do not change what it gives.
    """

    confidence: float = 0.8
    """The least."""
    limit: int = 3


def _age(memory: Remembered, now: datetime) -> timedelta:
    # What is dated ahead, by another machine's clock, is as fresh as can be.
    return max(timedelta(0), now - memory.used_at)


def _scaled(values: Mapping[str, float], limits: tuple[float, float] | None) -> dict[str, float]:
    if not values:
        return {}
    least, most = limits if limits is not None else (min(values.values()), max(values.values()))
    if most <= least:
        return dict.fromkeys(values, 1.0)
    return {
        one: min(1.0, max(0.0, (value - least) / (most - least))) for one, value in values.items()
    }


def _summed(
    candidates: Mapping[str, float], parts_of: Callable[[str], dict[str, float]]
) -> list[Scored]:
    found = []
    for one in candidates:
        parts = parts_of(one)
        found.append(Scored(one, sum(parts.values()), parts))
    return sorted(found, key=lambda one: -one.score)
