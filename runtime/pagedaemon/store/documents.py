"""Rows of documents: the passages that were read from one file or text, by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, delete, func, insert, select, type_coerce, update
from sqlalchemy.sql import bindparam

from pagedaemon.messages import Label
from pagedaemon.store import fulltext, outbox
from pagedaemon.store.passages import DOCUMENT, searched_text
from pagedaemon.store.tables import Instant, passage_tags, passages
from pagedaemon.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A document as its passages tell it."""

    name: str
    passages: int
    loaded_at: datetime
    note: str | None
    """The file it was read from."""


def _of(query: Select[Any], archive_id: str, name: str) -> Select[Any]:
    return query.where(
        passages.c.archive_id == archive_id,
        passages.c.source_kind == DOCUMENT,
        passages.c.source_id == name,
    )


def listed(tx: Transaction, archive_id: str) -> tuple[DocumentRow, ...]:
    """The documents of an archive, by name."""
    column = passages.c
    loaded = func.max(func.coalesce(column.reconfirmed_at, column.created_at))
    rows = tx.all(
        select(
            column.source_id,
            func.count(),
            type_coerce(loaded, Instant),
            func.max(column.source_note),
        )
        .where(column.archive_id == archive_id, column.source_kind == DOCUMENT)
        .group_by(column.source_id)
        .order_by(column.source_id)
    )
    return tuple(DocumentRow(*row) for row in rows)


def origin(tx: Transaction, archive_id: str, name: str) -> tuple[str | None] | None:
    """The file that the document of that name was read from, None within for a text that was given;
    None where there is no such document."""
    row = tx.first(_of(select(passages.c.source_note), archive_id, name).limit(1))
    return None if row is None else (row[0],)


def ids_of(tx: Transaction, archive_id: str, name: str) -> list[str]:
    """Ids of a document's passages."""
    return [row[0] for row in tx.all(_of(select(passages.c.id), archive_id, name))]


def texts_of(tx: Transaction, archive_id: str, name: str) -> list[tuple[str, str]]:
    """Id and text of each of a document's passages, oldest first."""
    query = _of(select(passages.c.id, passages.c.text), archive_id, name)
    ordered = query.order_by(passages.c.created_at, passages.c.position, passages.c.id)
    return [(row[0], row[1]) for row in tx.all(ordered)]


def reload(
    tx: Transaction,
    archive_id: str,
    name: str,
    *,
    positions: Mapping[str, int],
    label: Label,
    note: str | None,
    now: datetime,
) -> None:
    """Notes that a document was loaded again: where each of its passages (by id) stands now, and
    what holds for all of them."""
    of_it = (
        passages.c.archive_id == archive_id,
        passages.c.source_kind == DOCUMENT,
        passages.c.source_id == name,
    )
    tx.execute(
        update(passages).where(*of_it).values(trust=label, source_note=note, reconfirmed_at=now)
    )
    moved = [
        {"passage": row[0], "place": positions[row[0]]}
        for row in tx.all(_of(select(passages.c.id, passages.c.position), archive_id, name))
        if row[0] in positions and positions[row[0]] != row[1]
    ]
    if moved:
        tx.execute(
            update(passages)
            .where(passages.c.id == bindparam("passage"))
            .values(position=bindparam("place")),
            moved,
        )


def retag(
    tx: Transaction, archive_id: str, name: str, tags: Sequence[str], limit: int, now: datetime
) -> int:
    """Gives a document's passages these tags and no others; at most so many of those that have
    not. Returns how many it changed."""
    had: dict[str, set[str]] = {row: set() for row in ids_of(tx, archive_id, name)}
    of_it = _of(select(passages.c.id), archive_id, name)
    column = passage_tags.c
    for passage_id, tag in tx.all(
        select(column.passage_id, column.tag).where(column.passage_id.in_(of_it))
    ):
        had[passage_id].add(tag)
    wanted = list(dict.fromkeys(tags))
    changed = [passage_id for passage_id, has in had.items() if has != set(wanted)][:limit]
    if not changed:
        return 0
    tx.execute(delete(passage_tags).where(column.passage_id.in_(changed)))
    if wanted:
        tx.execute(
            insert(passage_tags),
            [{"passage_id": one, "tag": tag} for one in changed for tag in wanted],
        )
    texts = tx.all(select(passages.c.id, passages.c.text).where(passages.c.id.in_(changed)))
    for passage_id, text in texts:
        fulltext.index_passage(tx, passage_id, searched_text(text, wanted))
    outbox.queue(tx, "passage", changed, now)
    return len(changed)
