"""Queries over what conversations came to: where one that continues them takes it from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, or_, select

from pagedaemon.messages import Message
from pagedaemon.store.conversations import message_columns, message_of, searched_text
from pagedaemon.store.tables import conversations, messages
from pagedaemon.store.transaction import Transaction

_SPOKEN = (
    messages.c.kind.in_(("message", "reply")),
    # What was imported never stands in a window; what was reset or popped left it on purpose.
    or_(messages.c.in_window, conversations.c.last_turn == 0),
)


@dataclass(frozen=True, slots=True)
class Active:
    """A conversation in which something was said."""

    id: str
    name: str
    last_at: datetime


def active(tx: Transaction, agent_id: str, *, name: str | None = None, limit: int) -> list[Active]:
    """An agent's conversations with words in view, or with none but imported ones, latest first.

    Args:
        name: only that of this name.
    """
    last_at = func.max(messages.c.created_at)
    query = (
        select(conversations.c.id, conversations.c.name, last_at)
        .join(messages, messages.c.conversation_id == conversations.c.id)
        .where(conversations.c.agent_id == agent_id, *_SPOKEN)
        .group_by(conversations.c.id, conversations.c.name)
        .order_by(last_at.desc(), conversations.c.id)
        .limit(limit)
    )
    if name is not None:
        query = query.where(conversations.c.name == name)
    return [Active(*row) for row in tx.all(query)]


def last_said(tx: Transaction, conversation_id: str, limit: int) -> list[Message]:
    """The newest words of a conversation, of those that `active` looks at, in their order."""
    query = (
        select(*message_columns())
        .join(conversations, conversations.c.id == messages.c.conversation_id)
        .where(messages.c.conversation_id == conversation_id, *_SPOKEN)
        .order_by(messages.c.seq.desc())
        .limit(limit)
    )
    found = [message_of(row) for row in tx.all(query)]
    return [message for message in reversed(found) if searched_text(message).strip()]


def summary_of(tx: Transaction, conversation_id: str) -> Message | None:
    """The summary at the head of a conversation's window."""
    row = tx.first(
        select(*message_columns())
        .join(conversations, conversations.c.summary_id == messages.c.id)
        .where(conversations.c.id == conversation_id)
    )
    return None if row is None else message_of(row)
