"""Rows of conversations and their messages: the window, and all that was ever said."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.sql import bindparam

from pagedaemon.clock import new_id
from pagedaemon.media import from_described
from pagedaemon.messages import Call, Message
from pagedaemon.store import attachments, fulltext, vectors
from pagedaemon.store.tables import conversations, messages, provenance
from pagedaemon.store.transaction import Transaction

SEARCHED = frozenset({"message", "reply", "result"})
"""Kinds whose text recall search can find. Events of the runtime are noise, and what its own memory
tools returned (`data["builtin"]`) would only be found as a copy of what it shows."""


_ATTACHED = "attachments"
"""Key in a message's stored data: what came with it, without the bytes."""


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """A conversation as it is now."""

    id: str
    agent_id: str
    name: str
    created_at: datetime
    last_seq: int


_COLUMNS = (
    conversations.c.id,
    conversations.c.agent_id,
    conversations.c.name,
    conversations.c.created_at,
    conversations.c.last_seq,
)

_MESSAGE = (
    messages.c.id,
    messages.c.seq,
    messages.c.role,
    messages.c.kind,
    messages.c.text,
    messages.c.created_at,
    messages.c.calls,
    messages.c.call_id,
    messages.c.tool,
    messages.c.status,
    messages.c.digest,
    messages.c.pinned,
    messages.c.trust,
    messages.c.author,
    messages.c.turn_id,
    messages.c.step_id,
    messages.c.data,
)

_WINDOW = (
    select(*_MESSAGE)
    .where(messages.c.conversation_id == bindparam("conversation"), messages.c.in_window)
    .order_by(messages.c.seq)
)


def message_of(row: Sequence[Any]) -> Message:
    """A row of `message_columns` as a message."""
    calls = tuple(Call(**call) for call in row[6] or ())
    data = row[16] or {}
    came = from_described(data.pop(_ATTACHED)) if _ATTACHED in data else ()
    values: tuple[Any, ...] = (*row[:6], calls, *row[7:16], data, came)
    return Message(*values)


def message_columns() -> tuple[Any, ...]:
    """The columns `message_of` reads, in its order."""
    return _MESSAGE


def add(tx: Transaction, agent_id: str, name: str, now: datetime) -> ConversationRow:
    """A new, empty conversation."""
    row = ConversationRow(new_id("conversation"), agent_id, name, now, 0)
    tx.execute(
        insert(conversations),
        {
            "id": row.id,
            "space": tx.space,
            "agent_id": agent_id,
            "name": name,
            "epoch": 0,
            "last_seq": 0,
            "last_turn": 0,
            "window_version": 0,
            "warned": False,
            "folds": 0,
            "created_at": now,
        },
    )
    return row


def by_name(tx: Transaction, agent_id: str, name: str) -> ConversationRow | None:
    """An agent's conversation of that name."""
    row = tx.first(
        select(*_COLUMNS).where(conversations.c.agent_id == agent_id, conversations.c.name == name)
    )
    return None if row is None else ConversationRow(*row)


def of_agent(tx: Transaction, agent_id: str) -> tuple[ConversationRow, ...]:
    """An agent's conversations, oldest first."""
    rows = tx.all(
        select(*_COLUMNS)
        .where(conversations.c.agent_id == agent_id)
        .order_by(conversations.c.created_at, conversations.c.name)
    )
    return tuple(ConversationRow(*row) for row in rows)


def remove(tx: Transaction, conversation_id: str) -> int:
    """Deletes a conversation with its turns and messages. Returns how many messages went."""
    ids = [
        row[0]
        for row in tx.all(
            select(messages.c.id).where(messages.c.conversation_id == conversation_id)
        )
    ]
    fulltext.unindex_messages(tx, ids)
    vectors.drop(tx, ids)
    tx.execute(
        delete(provenance).where(
            provenance.c.child_id.in_(
                select(messages.c.id).where(messages.c.conversation_id == conversation_id)
            )
        )
    )
    tx.execute(delete(conversations).where(conversations.c.id == conversation_id))
    return len(ids)


def window(tx: Transaction, conversation_id: str) -> list[Message]:
    """The messages in the window, in their order, with the bytes of their pictures."""
    found = [message_of(row) for row in tx.all(_WINDOW, {"conversation": conversation_id})]
    return attachments.with_pictures(tx, found)


def between(tx: Transaction, conversation_id: str, first: int, last: int) -> list[Message]:
    """The messages with these numbers, both included, whether in the window or not."""
    query = (
        select(*_MESSAGE)
        .where(
            messages.c.conversation_id == conversation_id,
            messages.c.seq.between(first, last),
            messages.c.kind.in_(("message", "reply", "result")),
        )
        .order_by(messages.c.seq)
    )
    return [message_of(row) for row in tx.all(query)]


_ADD = insert(messages)


def add_messages(
    tx: Transaction, agent_id: str, conversation_id: str, new: Sequence[Message]
) -> None:
    """Appends messages to a conversation and its window, and makes them searchable."""
    tx.execute(
        _ADD,
        [
            {
                "id": message.id,
                "space": tx.space,
                "agent_id": agent_id,
                "conversation_id": conversation_id,
                "seq": message.seq,
                "role": message.role,
                "kind": message.kind,
                "text": message.text,
                "calls": [
                    {
                        "id": call.id,
                        "tool": call.tool,
                        "arguments": call.arguments,
                        "raw": call.raw,
                    }
                    for call in message.calls
                ]
                or None,
                "call_id": message.call_id,
                "tool": message.tool,
                "status": message.status,
                "digest": message.digest,
                "in_window": True,
                "pinned": message.pinned,
                "trust": message.label,
                "author": message.author,
                "turn_id": message.turn_id,
                "step_id": message.step_id,
                "data": _data(message),
                "created_at": message.created_at,
            }
            for message in new
        ],
    )
    found = (searchable(conversation_id, message) for message in new)
    fulltext.index_messages(tx, [said for said in found if said is not None])


_SET_DATA = update(messages).where(messages.c.id == bindparam("message"))


def set_data(tx: Transaction, changed: Sequence[Message]) -> None:
    """Stores the data of messages anew; nothing else of them."""
    tx.execute(
        _SET_DATA.values(data=bindparam("now")),
        [{"message": message.id, "now": _data(message)} for message in changed],
    )


def searchable(conversation_id: str, message: Message) -> fulltext.Said | None:
    """A message as it is made searchable; None where no search is to find it."""
    if message.kind not in SEARCHED or "builtin" in message.data:
        return None
    text = searched_text(message)
    if not text:
        return None
    return fulltext.Said(message.id, conversation_id, message.seq, message.created_at, text)


def _data(message: Message) -> dict[str, Any] | None:
    data = dict(message.data)
    if message.attachments:
        data[_ATTACHED] = [one.described() for one in message.attachments]
    return data or None


def searched_text(message: Message) -> str:
    """What recall search reads of a message: who said it, and what was said or passed to a tool."""
    said = [message.author, message.words, *message.data.get("said", ())]
    return "\n".join(part for part in said if part)


def leave_window(tx: Transaction, message_ids: Iterable[str]) -> None:
    """Takes messages out of the window; they stay in recall."""
    tx.execute(
        update(messages).where(messages.c.id == bindparam("message")).values(in_window=False),
        [{"message": message_id} for message_id in message_ids],
    )


def made_from(
    tx: Transaction, child: tuple[str, str], parents: Sequence[tuple[str, str]], relation: str
) -> None:
    """Records what something was made from; pairs are (kind, id)."""
    each_made_from(tx, [(child, parent) for parent in parents], relation)


def each_made_from(
    tx: Transaction, made: Sequence[tuple[tuple[str, str], tuple[str, str]]], relation: str
) -> None:
    """Records what was made from what: of many, (kind, id) of the child and of its parent."""
    if made:
        tx.execute(
            insert(provenance),
            [
                {
                    "child_kind": child[0],
                    "child_id": child[1],
                    "parent_kind": parent[0],
                    "parent_id": parent[1],
                    "relation": relation,
                    "space": tx.space,
                }
                for child, parent in made
            ],
        )


def sources_of(tx: Transaction, child_kind: str, child_id: str) -> list[tuple[str, str]]:
    """What something was made from, as (kind, id)."""
    rows = tx.all(
        select(provenance.c.parent_kind, provenance.c.parent_id).where(
            provenance.c.child_kind == child_kind, provenance.c.child_id == child_id
        )
    )
    return [(row[0], row[1]) for row in rows]


def summarised(tx: Transaction, conversation_id: str) -> list[Message]:
    """The messages that the summary in the window stands for, in their order; also those that came
    to it by way of an earlier summary, or from an earlier conversation."""
    head = tx.scalar(
        select(conversations.c.summary_id).where(conversations.c.id == conversation_id)
    )
    column = provenance.c
    links = (
        column.child_kind == "message",
        column.parent_kind == "message",
        column.relation.in_(("summary", "carried_over")),
    )
    found = select(column.parent_id).where(*links, column.child_id == head).cte(recursive=True)
    found = found.union(
        select(column.parent_id).join(found, column.child_id == found.c.parent_id).where(*links)
    )
    query = (
        select(*_MESSAGE)
        .where(messages.c.id.in_(select(found.c.parent_id)), messages.c.kind != "summary")
        .order_by(
            messages.c.conversation_id == conversation_id,
            messages.c.conversation_id,
            messages.c.seq,
        )
    )
    return [message_of(row) for row in tx.all(query)]


def summary_moved(
    tx: Transaction, conversation_id: str, *, summary_id: str | None, folds: int
) -> None:
    """Notes the summary that now heads the window, and that the agent may be warned anew."""
    tx.execute(
        update(conversations)
        .where(conversations.c.id == conversation_id)
        .values(
            summary_id=summary_id,
            folds=folds,
            warned=False,
            window_version=conversations.c.window_version + 1,
        )
    )


def window_changed(tx: Transaction, conversation_id: str, *, warn_anew: bool = False) -> None:
    """Tells copies of the window in memory that they are out of date.

    Args:
        warn_anew: the agent's alert is no longer in it.
    """
    changes: dict[str, Any] = {"window_version": conversations.c.window_version + 1}
    if warn_anew:
        changes["warned"] = False
    tx.execute(update(conversations).where(conversations.c.id == conversation_id).values(**changes))


def next_seq(tx: Transaction, conversation_id: str) -> int:
    """Takes the next message number of a conversation."""
    tx.execute(
        update(conversations)
        .where(conversations.c.id == conversation_id)
        .values(last_seq=conversations.c.last_seq + 1)
    )
    number = tx.scalar(
        select(conversations.c.last_seq).where(conversations.c.id == conversation_id)
    )
    assert isinstance(number, int)
    return number


def reset(tx: Transaction, conversation_id: str) -> int:
    """Empties the window; every message stays in recall. Returns how many left."""
    left = tx.execute(
        update(messages)
        .where(messages.c.conversation_id == conversation_id, messages.c.in_window)
        .values(in_window=False, pinned=False)
    ).rowcount
    summary_moved(tx, conversation_id, summary_id=None, folds=0)
    return left


def pop(tx: Transaction, conversation_id: str) -> list[Message]:
    """Takes the last exchange out of the window, pinned or not; it stays in recall. Returns its
    messages."""
    gone = last_exchange(window(tx, conversation_id))
    if gone:
        ids = [message.id for message in gone]
        leave_window(tx, ids)
        set_pinned(tx, ids, pinned=False)
        alerted = any(message.kind == "alert" for message in gone)
        window_changed(tx, conversation_id, warn_anew=alerted)
    return [replace(message, pinned=False) for message in gone]


def last_exchange(queue: Sequence[Message]) -> list[Message]:
    """What the newest turn has left in a window, from the event that woke the agent on. Without the
    summary, which stands for what was before.

    Where the event has been paged out, it is the rest of that turn: never part of another one.
    """
    exchange: list[Message] = []
    for message in reversed(queue):
        if message.kind == "summary":
            continue
        if exchange and message.turn_id != exchange[-1].turn_id:
            break
        exchange.append(message)
        if message.role == "user" and message.kind != "alert" and message.step_id is None:
            break
    return exchange[::-1]


def set_pinned(tx: Transaction, message_ids: Sequence[str], pinned: bool) -> None:
    """Pins or unpins messages in the window."""
    tx.execute(update(messages).where(messages.c.id.in_(list(message_ids))).values(pinned=pinned))


def names(tx: Transaction, ids: Collection[str]) -> dict[str, str]:
    """The names of conversations, by id."""
    query = select(conversations.c.id, conversations.c.name)
    return (
        {row[0]: row[1] for row in tx.all(query.where(conversations.c.id.in_(ids)))} if ids else {}
    )


def by_ref(tx: Transaction, agent_id: str, conversation_id: str, ref: str) -> Message | None:
    """A message of an agent by its id, by its number in this conversation (`#12`), or by the name
    of one and the number there (`monday#12`)."""
    query = select(*_MESSAGE).where(messages.c.agent_id == agent_id)
    name, _, number = ref.rpartition("#")
    if number.isdecimal() and number.isascii():
        named = select(conversations.c.id).where(
            conversations.c.agent_id == agent_id, conversations.c.name == name
        )
        query = query.where(
            messages.c.conversation_id == (named.scalar_subquery() if name else conversation_id),
            messages.c.seq == int(number[:18]),
        )
    else:
        query = query.where(messages.c.id == ref)
    row = tx.first(query)
    return None if row is None else message_of(row)
