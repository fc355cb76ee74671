"""Queries over all messages of an agent: by words, by role, by date, in pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Select,
    String,
    and_,
    bindparam,
    func,
    or_,
    select,
    type_coerce,
)

from pagedaemon.messages import Message, Role
from pagedaemon.store import fulltext
from pagedaemon.store.candidates import Allowed, Searched, Shape, as_list, listed
from pagedaemon.store.conversations import message_columns, message_of
from pagedaemon.store.listing import Listed, Listing
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
    not_in_view: str | None = None
    """Leaves out what stands in the window of this conversation."""
    with_words: bool = False
    """Only what words can find: no bare calls, and no copies in what memory tools returned."""


@dataclass(frozen=True, slots=True)
class MessageHit:
    """A found message. `score` is higher for better; 0 where nothing was ranked."""

    message: Message
    conversation_id: str
    score: float
    parts: Mapping[str, float] = field(default_factory=dict)
    """What the score is the sum of."""
    via: str | None = None
    """What found it: `keywords`, or the index that did; None where nothing was ranked."""


def _conditions() -> dict[str, ColumnElement[bool]]:
    """What each field of a filter asks, by its name, which is its parameter's too."""
    column = messages.c
    instant = column.created_at.type
    elsewhere = column.turn_id.is_distinct_from(bindparam("not_turn"))
    another = column.conversation_id != bindparam("not_in_view")
    # Not `in_`: a list is written into the statement anew each time that it runs.
    found = [column.kind == kind for kind in _FOUND]
    return {
        "agent_id": and_(column.agent_id == bindparam("agent_id"), or_(*found)),
        "roles": column.role.in_(select(listed("roles").c.value)),
        # Of names in ASCII letters case makes none another.
        "author": column.author.collate("NOCASE") == bindparam("author"),
        "conversation_id": column.conversation_id == bindparam("conversation_id"),
        "start": column.created_at >= bindparam("start", type_=instant),
        "end": column.created_at < bindparam("end", type_=instant),
        "not_turn": or_(elsewhere, ~column.in_window),
        "not_in_view": or_(another, ~column.in_window),
        "with_words": column.id.in_(fulltext.indexed("message")),
    }


_CONDITIONS = _conditions()


@lru_cache(maxsize=512)
def _shape(fields: tuple[str, ...]) -> Shape:
    # What a search finds has words.
    asked = [_CONDITIONS[name] for name in fields if name != "with_words"]
    return Shape("message", messages, asked, _newest_first)


def _values(given: MessageFilter) -> dict[str, Any]:
    """The fields of a filter that filter."""
    values = {name: getattr(given, name) for name in _CONDITIONS}
    found = {name: value for name, value in values.items() if value not in (None, (), False)}
    if "roles" in found:
        found["roles"] = as_list(found["roles"])
    return found


def _newest_first(table: FromClause) -> tuple[ColumnElement[Any], ...]:
    column = table.c
    return column.created_at.desc(), column.seq.desc(), column.id


_NEWEST_FIRST = _newest_first(messages)
_OLDEST_FIRST = (messages.c.created_at, messages.c.seq, messages.c.id)


def in_order(
    tx: Transaction,
    given: MessageFilter,
    *,
    offset: int,
    limit: int,
    oldest_first: bool = False,
) -> tuple[list[MessageHit], int]:
    """One page of what passes a filter, newest first or oldest, and the total."""
    values = _values(given)
    conditions = [_CONDITIONS[name] for name in values]
    order = _OLDEST_FIRST if oldest_first else _NEWEST_FIRST
    query = select(*_columns()).where(*conditions).order_by(*order)
    rows = tx.all(query.offset(offset).limit(limit), values)
    return [MessageHit(*_parted(row), 0.0) for row in rows], passing(given).count(tx)


def said_within(
    given: MessageFilter, start: datetime | None, end: datetime | None
) -> MessageFilter:
    """The filter, and said from one instant on, before another. None: as the filter says."""
    starts = [at for at in (given.start, start) if at is not None]
    ends = [at for at in (given.end, end) if at is not None]
    return replace(
        given,
        start=max(starts, default=None),
        end=min(ends, default=None),
        with_words=True,
    )


@lru_cache(maxsize=512)
def _listing(fields: tuple[str, ...]) -> Listing:
    return Listing(messages, [_CONDITIONS[name] for name in fields], _NEWEST_FIRST)


def passing(given: MessageFilter) -> Listed:
    """The messages that pass a filter, newest first."""
    values = _values(given)
    return Listed(_listing(tuple(values)), values)


def searched(given: MessageFilter) -> Searched:
    """What a search with this filter looks at."""
    values = _values(given)
    return Searched(_shape(tuple(values)), values)


def allowed(given: MessageFilter) -> Allowed:
    """Which messages pass a filter."""
    return searched(given).allowed


def by_ids(tx: Transaction, ids: Sequence[str]) -> dict[str, tuple[Message, str]]:
    """Messages and the conversations they are of, by id."""
    rows = tx.all(_BY_IDS, {"ids": as_list(ids)}) if ids else ()
    return {message.id: (message, conversation) for message, conversation in map(_parted, rows)}


def places(
    tx: Transaction, ids: Sequence[str], *, tail: int
) -> dict[str, tuple[str, datetime, str, int, int | None, int, str]]:
    """Of searchable messages by id: the conversation, the time, the author or else the role, the
    number, that of the searchable message before it, and of what it is found by the length in
    characters and the last ones.

    Args:
        tail: how many of these.
    """
    rows = tx.all(_PLACES, {"ids": as_list(ids), "tail": -tail}) if ids else ()
    return {
        one: (conversation, datetime.fromisoformat(at), speaker, seq, before, length, end)
        for one, conversation, at, speaker, seq, before, length, end in rows
    }


def _columns() -> tuple[Any, ...]:
    return (*message_columns(), messages.c.conversation_id)


def _places() -> Select[Any]:
    words, earlier = fulltext.MESSAGE_WORDS, fulltext.MESSAGE_WORDS.alias("earlier")
    before = select(func.max(earlier.c.seq)).where(
        earlier.c.conversation_id == words.c.conversation_id, earlier.c.seq < words.c.seq
    )
    asked = listed("ids")
    found = asked.join(words, words.c.id == asked.c.value)
    return select(
        messages.c.id,
        messages.c.conversation_id,
        # As it is stored: the type's own way takes longer than all the rest.
        type_coerce(messages.c.created_at, String),
        func.coalesce(messages.c.author, messages.c.role),
        messages.c.seq,
        before.scalar_subquery(),
        func.length(words.c.text),
        func.substr(words.c.text, bindparam("tail")),
    ).select_from(found.join(messages, messages.c.id == words.c.id))


_PLACES = _places()

_BY_IDS = select(*_columns()).where(messages.c.id.in_(select(listed("ids").c.value)))


def _parted(row: Sequence[Any]) -> tuple[Message, str]:
    size = len(message_columns())
    return message_of(row[:size]), row[size]
