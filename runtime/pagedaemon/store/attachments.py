"""Rows of attachments: the bytes of pictures and files, apart from the messages they came with.

What else is known of them stands with the message (`Message.attachments`), so that a message
without any costs no query. While a message waits for its turn, they belong to the turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import delete, insert, select, update

from pagedaemon.media import Attachment, pictures
from pagedaemon.messages import Message
from pagedaemon.store.tables import attachments, messages
from pagedaemon.store.transaction import Transaction


def add(tx: Transaction, turn_id: str, new: Sequence[Attachment], now: datetime) -> None:
    """Stores what came with the message of a turn; `adopt` gives it to the message."""
    tx.execute(
        insert(attachments),
        [
            {
                "id": one.id,
                "space": tx.space,
                "turn_id": turn_id,
                "position": position,
                "kind": one.kind,
                "media_type": one.media_type,
                "name": one.name,
                "url": one.url,
                "data": one.data,
                "size": one.size,
                "sha256": one.sha256,
                "width": one.width,
                "height": one.height,
                "created_at": now,
            }
            for position, one in enumerate(new)
        ],
    )


def adopt(tx: Transaction, turn_id: str, message_id: str) -> None:
    """Gives what came with the message of a turn to the message."""
    tx.execute(
        update(attachments)
        .where(attachments.c.turn_id == turn_id)
        .values(message_id=message_id, turn_id=None)
    )


def drop(tx: Transaction, turn_id: str) -> None:
    """Takes away what came with a message that was withdrawn."""
    tx.execute(delete(attachments).where(attachments.c.turn_id == turn_id))


def filled(tx: Transaction, given: Sequence[Attachment]) -> tuple[Attachment, ...]:
    """The same with the bytes of pictures; a file is shown as the text in its message."""
    found = _bytes(tx, given)
    return tuple(_with(one, found) for one in given)


def with_pictures(tx: Transaction, window: Sequence[Message]) -> list[Message]:
    """Messages with the bytes of their pictures, as a model is shown them. Without pictures it asks
    nothing."""
    found = _bytes(tx, [one for message in window for one in message.attachments])
    return [
        replace(message, attachments=tuple(_with(one, found) for one in message.attachments))
        if message.attachments
        else message
        for message in window
    ]


def _bytes(tx: Transaction, given: Sequence[Attachment]) -> dict[str, bytes]:
    wanted = [one.id for one in pictures(given) if one.url is None and one.data is None]
    if not wanted:
        return {}
    rows = tx.all(
        select(attachments.c.id, attachments.c.data).where(
            attachments.c.space == tx.space, attachments.c.id.in_(wanted)
        )
    )
    return {row[0]: row[1] for row in rows}


def _with(one: Attachment, found: Mapping[str, bytes]) -> Attachment:
    return replace(one, data=found[one.id]) if one.id in found else one


def content(tx: Transaction, agent_id: str, attachment_id: str) -> bytes | str | None:
    """The bytes of an attachment of an agent's message, or its URL; None where there is none."""
    row = tx.first(
        select(attachments.c.data, attachments.c.url)
        .join(messages, messages.c.id == attachments.c.message_id)
        .where(
            attachments.c.space == tx.space,
            attachments.c.id == attachment_id,
            messages.c.agent_id == agent_id,
        )
    )
    if row is None:
        return None
    found: bytes | str = row[0] if row[0] is not None else row[1]
    return found
