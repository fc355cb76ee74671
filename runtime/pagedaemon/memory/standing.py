"""What speaks for a message beside what it says: who said it, where it stands, and how.

Nothing of it is asked of a model, and nothing is of one language: an order, an instant, a name that
the query has too, a length, a question mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

PAUSE = timedelta(hours=1)
"""What was said in a conversation within so long of what was said before is of one episode."""

BEST_OF_EPISODE = 3

_NEVER = datetime.min.replace(tzinfo=UTC)

USUAL_LENGTH = 100
"""Characters of an everyday message."""

LONG = 200
"""Characters beyond which a message is long and no longer one better: it has more words to match
anyway."""

TAIL = 200
"""Characters at the end of a message that tell whether it is a question."""


class Place(NamedTuple):
    """Where a message stands."""

    conversation_id: str
    at: datetime
    speaker: str
    """Who spoke, as words of a query may name them."""
    number: int = 0
    """Within its conversation."""
    before: int | None = None
    """The number of the searchable message before it."""
    length: int = 0
    """Characters."""
    tail: str = ""
    """Its end."""


@dataclass(slots=True)
class Standing:
    """What speaks for one message, each from 0 to 1."""

    speaker: float
    """1 where the query names who spoke."""
    length: float
    """c / (c + `USUAL_LENGTH`), of c characters, at most `LONG`, over the same of `LONG`: more can
    be asked of a message that says more."""
    statement: float
    """1 where it does not end with a question."""
    beside: float = 0.0
    """The better score of the two beside it in its episode."""
    answer: float = 0.0
    """The score of the one before it in its episode, where that ends with a question."""
    episode: float = 0.0
    """The mean of the best `BEST_OF_EPISODE` scores of its episode, of fewer where there are
    fewer."""


def standings(
    scores: Mapping[str, float], places: Mapping[str, Place], words: str
) -> dict[str, Standing]:
    """Of each candidate. An episode is what of the candidates was said in one conversation without
    a pause longer than `PAUSE`.

    Args:
        scores: how well each answers by itself.
        places: of each of them.
        words: the query.
    """
    named = _named({place.speaker for place in places.values()}, words)
    found: dict[str, Standing] = {}
    episode: list[tuple[float, Standing]] = []
    last, last_number, until = "", 0, _NEVER
    in_order = [(*places[one][:2], places[one].number, at, one) for at, one in enumerate(scores)]
    in_order.sort()
    for conversation, at, number, _, one in in_order:
        _, _, speaker, _, before, length, tail = places[one]
        score = scores[one]
        standing = Standing(
            float(speaker in named), _LENGTHS[min(length, LONG)], float(not _asks(tail))
        )
        if conversation == last and at <= until:
            if before == last_number:
                answer, previous = episode[-1]
                standing.beside = answer
                previous.beside = max(previous.beside, score)
                standing.answer = 0.0 if previous.statement else answer
        else:
            _close(episode)
            episode = []
        episode.append((score, standing))
        found[one] = standing
        last, last_number, until = conversation, number, at + PAUSE
    _close(episode)
    return found


_WORD = re.compile(r"\w+")

# What follows in brackets stands for a picture.
_QUESTION = re.compile(r"[?？؟⸮՞][^\w\[]*(\[[^\]]*\]?\s*)?$")  # noqa: RUF001


def _asks(tail: str) -> bool:
    if "?" not in tail and tail.isascii():
        return False  # as most do; known sooner
    return _QUESTION.search(tail) is not None


def _named(speakers: Iterable[str], words: str) -> set[str]:
    asked = set(_WORD.findall(words.casefold()))
    return {
        speaker for speaker in speakers if asked.intersection(_WORD.findall(speaker.casefold()))
    }


_LENGTHS = tuple(
    some / (some + USUAL_LENGTH) * (LONG + USUAL_LENGTH) / LONG for some in range(LONG + 1)
)
"""What `Standing.length` is, by characters."""


def _close(episode: Sequence[tuple[float, Standing]]) -> None:
    best = sorted((score for score, _ in episode), reverse=True)[:BEST_OF_EPISODE]
    mean = sum(best) / len(best) if best else 0.0
    for _, standing in episode:
        standing.episode = mean
