"""Learns the weights of `Ranking` from labelled questions, and says what they are worth on
conversations that they were not learned on.

A weighted sum is learned, by the loss that a list has (Cao et al., "Learning to Rank: From Pairwise
Approach to Listwise Approach", 2007: ListNet, top one): the scores of a question's candidates go
through a softmax, and what the gold ones get should be all. Weights are 0 or more. What the parts
are is read from `hit.parts`, so that it is what the product computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pagedaemon.memory.ranking import DEFAULT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

NAMES = ("own", "day", "speaker", "episode", "beside", "answer", "length", "statement")
"""The weights that are learned, beside what words and meaning give together, which is 1."""

STEPS = 300
RATE = 0.05
DECAY = 1e-3
"""Of the squares of the weights, against too much trust in few questions."""


@dataclass(frozen=True)
class Ranked:
    """A question's candidates as the product ranked them."""

    group: str
    """The conversation, which is left out as a whole."""
    keys: tuple[str, ...]
    parts: tuple[Mapping[str, float], ...]
    gold: frozenset[str]


def values(parts: Mapping[str, float]) -> list[float]:
    """What a candidate has of each part before it was weighed, all in one unknown scale, which is
    that of the first: what words and meaning give."""
    weights = asdict(DEFAULT)
    base = parts.get("keywords", 0.0) + parts.get("meaning", 0.0)
    return [base, *(parts.get(name, 0.0) / weights[name] for name in NAMES)]


def table_of(ranked: Ranked) -> Floats:
    """One row of values for each candidate."""
    import numpy as np

    # The weights of the product add up to one.
    whole = 1 + sum(asdict(DEFAULT)[name] for name in NAMES)
    table: Floats = whole * np.array([values(parts) for parts in ranked.parts])
    return table


def learned(questions: Sequence[Ranked]) -> Floats:
    """The weights that rank these questions best, that of words and meaning first."""
    import numpy as np

    told = [one for one in questions if one.gold.intersection(one.keys)]
    tables = [table_of(one) for one in told]
    sizes = np.array([len(table) for table in tables])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    given = np.concatenate(tables)
    spread = given.std(axis=0) + 1e-9
    given = given / spread
    gold = np.concatenate([[float(key in one.gold) for key in one.keys] for one in told])
    wanted = gold / np.repeat(np.add.reduceat(gold, starts), sizes)
    weights = np.ones(given.shape[1])
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, STEPS + 1):  # Adam (Kingma and Ba, 2015)
        scores = given @ weights
        grown = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), sizes))
        share = grown / np.repeat(np.add.reduceat(grown, starts), sizes)
        slope = given.T @ (share - wanted) / len(told) + DECAY * weights
        mean = 0.9 * mean + 0.1 * slope
        square = 0.999 * square + 0.001 * slope**2
        rate = RATE / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
        weights = np.maximum(weights - rate * mean / (1 - 0.9**step), 0.0)
    found: Floats = weights / spread
    assert found[0] > 0, "what words and meaning say must tell the gold ones"
    found = found / found[0]
    return found


def reranked(questions: Sequence[Ranked], weights: Floats) -> list[list[str]]:
    """Their candidates by these weights, best first."""
    rankings = []
    for one in questions:
        scores = (table_of(one) @ weights).tolist() if one.keys else []
        order = sorted(range(len(scores)), key=lambda place: -scores[place])
        rankings.append([one.keys[place] for place in order])
    return rankings


def left_out(ways: Mapping[str, Sequence[Ranked]]) -> dict[str, list[list[str]]]:
    """What each way ranks with weights that were learned, over all ways together, on every other
    conversation but the question's own."""
    groups = list(dict.fromkeys(one.group for some in ways.values() for one in some))
    rankings: dict[str, dict[int, list[str]]] = {name: {} for name in ways}
    for group in groups:
        others = [one for some in ways.values() for one in some if one.group != group]
        weights = learned(others)
        for name, some in ways.items():
            mine = [place for place, one in enumerate(some) if one.group == group]
            found = reranked([some[place] for place in mine], weights)
            rankings[name].update(zip(mine, found, strict=True))
    return {name: [found[place] for place in sorted(found)] for name, found in rankings.items()}
