"""Recall without asking: what memory has on a user's message, found before its turn begins.

It is looked for while the message waits, so that no transaction waits for an embedder; the claim of
the turn only reads again what was found. Messages and passages are ranked together, so each is
rated by measures that mean the same in every search: how much of the query's words a text covers,
and how far its cosine is above the floor of the embedding model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from pagedaemon.clock import local_stamp
from pagedaemon.memory.effects import Nearby, nearby
from pagedaemon.memory.recall import speaker
from pagedaemon.memory.search import Near, blank_is_none
from pagedaemon.messages import Label, Message
from pagedaemon.store import asking, passages
from pagedaemon.store import conversations as rows
from pagedaemon.store import recall as messages
from pagedaemon.store.candidates import Allowed, Candidates
from pagedaemon.store.database import Database
from pagedaemon.store.passages import PassageFilter, PassageRow
from pagedaemon.store.recall import MessageFilter
from pagedaemon.store.transaction import Transaction

PATIENCE = 1.0
"""Seconds that are given to a search by meaning; after them it is by words alone."""

CANDIDATES = 40
"""How many of each kind are rated, by words and by meaning."""

SPARE = 2
"""How many times what may be shown is found: some of it may be in view or gone by then."""

FLOOR = 0.30
"""Rating that a text has to have.

Measured on three of the LoCoMo conversations with the local embedder: of 60 questions each, a turn
that answers it is among the best four for 62 % (66 % without a floor); of 60 questions about other
people, 9 % are shown anything (at 0.25: 64 % and 22 %, at 0.35: 54 % and 4 %)."""

WORDS_FLOOR = 0.35
"""The same where nothing is known of the meaning, and the rating is the share of the query's words
that a text covers. There it is 49 % (57 % without a floor) and 12 %."""

Kind = Literal["message", "passage"]


@dataclass(frozen=True, slots=True)
class Asked:
    """For whom is looked, and what for."""

    agent_id: str
    conversation_id: str
    words: str
    now: datetime
    most: int
    """How many may be shown."""


@dataclass(frozen=True, slots=True)
class Found:
    """A text that memory has on a message."""

    kind: Kind
    id: str
    rating: float
    """From 0 to 1, comparable with every other."""


@dataclass(frozen=True, slots=True)
class Recollection:
    """What is shown of a text that was found."""

    kind: Kind
    id: str
    ref: str
    """How the agent names it: a message's number in this conversation, or an id."""
    date: str
    who: str | None
    """Who said it; None for a passage."""
    document: str | None
    position: int | None
    label: Label
    text: str


async def seek(store: Database, meaning: Nearby | None, asked: Asked) -> tuple[Found, ...]:
    """What memory has on these words and the conversation's window has not, best first; nothing
    where nothing is near enough.

    Args:
        meaning: finds by meaning; None: by words alone.
    """
    words = blank_is_none(asked.words)
    if words is None:
        return ()
    said = MessageFilter(asked.agent_id, not_in_view=asked.conversation_id, with_words=True)
    kept = PassageFilter(asked.agent_id, asked.now)
    said_near, kept_near = await asyncio.gather(
        _near(meaning, words, messages.allowed(said)),
        _near(meaning, words, passages.allowed(kept)),
    )

    def work(tx: Transaction) -> list[Found]:
        return [
            *_rated(tx, "message", words, messages.searched(said).candidates, said_near),
            *_rated(tx, "passage", words, passages.searched(kept).candidates, kept_near),
        ]

    # What was chosen to be kept comes first among equals.
    found = sorted(await store.read(work), key=lambda one: (-one.rating, one.kind != "passage"))
    return tuple(found[: SPARE * asked.most])


async def _near(meaning: Nearby | None, words: str, allowed: Allowed) -> Near | None:
    try:
        async with asyncio.timeout(PATIENCE):
            return await nearby(meaning, words, allowed)
    except TimeoutError:
        return None


def _rated(
    tx: Transaction,
    kind: Kind,
    words: str,
    candidates: Callable[[Transaction, str, Collection[str], int], Candidates],
    near: Near | None,
) -> list[Found]:
    cosines = {} if near is None else near.cosines
    found = candidates(tx, words, cosines, CANDIDATES)
    ids = list(dict.fromkeys([*found.keywords, *found.near]))
    if not ids:
        return []
    floor = None if near is None else near.floor
    rated = []
    for one, covered in asking.coverage(tx, kind, asking.weighed(tx, kind, words), ids).items():
        if floor is None:
            # No cosines, or those of a model of which nobody knows what they are worth.
            enough = covered >= WORDS_FLOOR
            rating = covered
        else:
            above = (cosines.get(one, floor) - floor) / (1 - floor) if floor < 1 else 0.0
            rating = (covered + max(0.0, above)) / 2
            enough = rating >= FLOOR
        if enough:
            rated.append(Found(kind, one, rating))
    return rated


def recollections(
    tx: Transaction,
    asked: Asked,
    found: Sequence[Found],
    queue: Sequence[Message],
    timezone: str,
) -> list[Recollection]:
    """What is to be shown of what was found: what is still there, and neither in the window nor
    shown beside a message there, each text once.

    Args:
        queue: the window.
    """
    in_view = {identity for message in queue for identity in (message.id, *message.recalled)}
    wanted = [one for one in found if one.id not in in_view]
    if not wanted:
        return []
    said = messages.by_ids(tx, [one.id for one in wanted if one.kind == "message"])
    kept = passages.living(tx, asked.agent_id, _ids(wanted, "passage"), asked.now)
    shown: dict[str, Recollection] = {}
    for one in wanted:
        if one.id in said:
            message, conversation_id = said[one.id]
            here = conversation_id == asked.conversation_id
            item = _of_message(message, f"#{message.seq}" if here else message.id, timezone)
        elif one.id in kept:
            item = _of_passage(kept[one.id], timezone)
        else:
            continue
        shown.setdefault(passages.content_hash(item.text), item)
    return list(shown.values())[: asked.most]


def _ids(found: Sequence[Found], kind: Kind) -> list[str]:
    return [one.id for one in found if one.kind == kind]


def _of_message(message: Message, ref: str, timezone: str) -> Recollection:
    return Recollection(
        "message",
        message.id,
        ref,
        local_stamp(message.created_at, timezone),
        speaker(message),
        None,
        None,
        message.label,
        rows.searched_text(replace(message, author=None)),
    )


def _of_passage(row: PassageRow, timezone: str) -> Recollection:
    return Recollection(
        "passage",
        row.id,
        row.id,
        local_stamp(row.happened_at or row.created_at, timezone),
        None,
        row.source_id if row.source_kind == passages.DOCUMENT else None,
        row.position,
        row.label,
        row.text,
    )


def note_shown(
    tx: Transaction, message_id: str, shown: Sequence[Recollection], now: datetime
) -> None:
    """Notes beside which message they were shown, so that erasing one finds its copy, and that the
    passages were used."""
    rows.made_from(
        tx, ("message", message_id), [(one.kind, one.id) for one in shown], "recollection"
    )
    passages.refresh(tx, [one.id for one in shown if one.kind == "passage"], now)
