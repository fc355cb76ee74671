"""Queries over all messages of an agent: by words, by role, by date, in pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, or_, select

from pagedaemon.messages import Message, Role
from pagedaemon.store import fulltext
from pagedaemon.store.conversations import message_columns, message_of
from pagedaemon.store.tables import messages
from pagedaemon.store.transaction import Transaction

_FOUND = ("message", "reply", "result")


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """Which messages of an agent to look at. Empty fields do not filter."""

    agent_id: str
    roles: tuple[Role, ...] = ()
    author: str | None = None
    conversation_id: str | None = None
    start: datetime | None = None
    """From this instant on."""
    end: datetime | None = None
    """Before this instant."""
    not_turn: str | None = None
    """Leaves out what a running turn has in view anyway: a search would find its own question."""
    with_words: bool = False
    """Only what words can find: no bare calls, and no copies in what memory tools returned."""


@dataclass(frozen=True, slots=True)
class MessageHit:
    """A found message. `score` is higher for better; 0 where nothing was ranked."""

    message: Message
    conversation_id: str
    score: float


def _filtered(query: Select[Any], given: MessageFilter) -> Select[Any]:
    column = messages.c
    query = query.where(column.agent_id == given.agent_id, column.kind.in_(_FOUND))
    if given.roles:
        query = query.where(column.role.in_(given.roles))
    if given.author is not None:
        query = query.where(column.author == given.author)
    if given.conversation_id is not None:
        query = query.where(column.conversation_id == given.conversation_id)
    if given.start is not None:
        query = query.where(column.created_at >= given.start)
    if given.end is not None:
        query = query.where(column.created_at < given.end)
    if given.not_turn is not None:
        elsewhere = column.turn_id.is_distinct_from(given.not_turn)
        query = query.where(or_(elsewhere, ~column.in_window))
    if given.with_words:
        query = query.where(column.id.in_(fulltext.indexed("message")))
    return query


_NEWEST_FIRST = (messages.c.created_at.desc(), messages.c.seq.desc(), messages.c.id)
_OLDEST_FIRST = (messages.c.created_at, messages.c.seq, messages.c.id)


def search(
    tx: Transaction,
    words: str | None,
    given: MessageFilter,
    *,
    offset: int,
    limit: int,
    oldest_first: bool = False,
) -> tuple[list[MessageHit], int]:
    """One page of hits and the total. With words: best first; without: newest first, or oldest.

    Words in which nothing is searchable find nothing.
    """
    columns = (*message_columns(), messages.c.conversation_id)
    if words is None:
        query = _filtered(select(*columns), given)
        total = tx.scalar(_filtered(select(func.count()).select_from(messages), given))
        order = _OLDEST_FIRST if oldest_first else _NEWEST_FIRST
        rows = tx.all(query.order_by(*order).offset(offset).limit(limit))
        return _hits(rows, [0.0] * len(rows)), int(total or 0)
    if fulltext.match_expression(words) is None:
        return [], 0
    match = fulltext.matching("message", words)
    joined = messages.join(match, match.c.id == messages.c.id)
    total = tx.scalar(_filtered(select(func.count()).select_from(joined), given))
    query = _filtered(select(*columns, match.c.score).select_from(joined), given)
    ordered = query.order_by(match.c.score.desc(), *_NEWEST_FIRST)
    rows = tx.all(ordered.offset(offset).limit(limit))
    return _hits(rows, [float(row[-1]) for row in rows]), int(total or 0)


def _hits(rows: Sequence[Any], scores: Sequence[float]) -> list[MessageHit]:
    size = len(message_columns())
    return [
        MessageHit(message_of(row[:size]), row[size], score)
        for row, score in zip(rows, scores, strict=True)
    ]
