"""Rows of archival memory: archives, passages and their tags."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, func, insert, or_, select, update

from pagedaemon.clock import new_id
from pagedaemon.messages import Label
from pagedaemon.store import fulltext
from pagedaemon.store.tables import (
    agent_archives,
    archives,
    embeddings,
    passage_tags,
    passages,
    provenance,
)
from pagedaemon.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class NewPassage:
    """A passage to be stored."""

    text: str
    kind: str
    tags: tuple[str, ...]
    importance: float | None
    confidence: float
    source_kind: str
    source_id: str | None
    label: Label
    subject: str | None = None
    attribute: str | None = None
    scope: str | None = None
    happened_at: datetime | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PassageRow:
    """A passage as stored. `score` is that of the search which found it, else 0."""

    id: str
    archive_id: str
    text: str
    kind: str
    tags: tuple[str, ...]
    importance: float | None
    confidence: float
    source_kind: str
    source_id: str | None
    label: Label
    status: str
    uses: int
    created_at: datetime
    used_at: datetime | None
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class PassageFilter:
    """Which passages of an agent's archives to look at. Empty fields do not filter."""

    agent_id: str
    now: datetime
    tags: tuple[str, ...] = ()
    """Any of them."""
    kinds: tuple[str, ...] = ()
    start: datetime | None = None
    end: datetime | None = None


_COLUMNS = (
    passages.c.id,
    passages.c.archive_id,
    passages.c.text,
    passages.c.kind,
    passages.c.importance,
    passages.c.confidence,
    passages.c.source_kind,
    passages.c.source_id,
    passages.c.trust,
    passages.c.status,
    passages.c.uses,
    passages.c.created_at,
    passages.c.used_at,
)


def content_hash(text: str) -> str:
    """Equal for texts that differ only in case and blank space."""
    return hashlib.sha256(" ".join(text.casefold().split()).encode()).hexdigest()


def archive_of(tx: Transaction, agent_id: str) -> str | None:
    """The id of an agent's own archive."""
    found = tx.scalar(select(archives.c.id).where(archives.c.owner_agent_id == agent_id))
    return None if found is None else str(found)


def add_archive(tx: Transaction, agent_id: str, now: datetime) -> str:
    """An agent's own archive, attached to it."""
    archive_id = new_id("archive")
    tx.execute(
        insert(archives),
        {
            "id": archive_id,
            "space": tx.space,
            "name": None,
            "owner_agent_id": agent_id,
            "description": "",
            "created_at": now,
        },
    )
    tx.execute(insert(agent_archives), {"agent_id": agent_id, "archive_id": archive_id})
    return archive_id


def same_text(tx: Transaction, archive_id: str, text: str, now: datetime) -> str | None:
    """The id of a passage with the same text that searches of this archive can find."""
    found = tx.scalar(
        select(passages.c.id).where(
            passages.c.archive_id == archive_id,
            passages.c.content_hash == content_hash(text),
            *_living(now),
        )
    )
    return None if found is None else str(found)


def _living(now: datetime) -> tuple[ColumnElement[bool], ...]:
    expires = passages.c.expires_at
    return passages.c.status == "active", or_(expires.is_(None), expires > now)


def add(tx: Transaction, archive_id: str, agent_id: str, new: NewPassage, now: datetime) -> str:
    """Stores a passage, makes it searchable and returns its id."""
    passage_id = new_id("passage")
    tx.execute(
        insert(passages),
        {
            "id": passage_id,
            "space": tx.space,
            "archive_id": archive_id,
            "agent_id": agent_id,
            "text": new.text,
            "content_hash": content_hash(new.text),
            "kind": new.kind,
            "subject": new.subject,
            "attribute": new.attribute,
            "scope": new.scope,
            "purposes": [],
            "importance": new.importance,
            "confidence": new.confidence,
            "source_kind": new.source_kind,
            "source_id": new.source_id,
            "trust": new.label,
            "status": "active",
            "uses": 0,
            "created_at": now,
            "happened_at": new.happened_at,
            "used_at": None,
            "expires_at": new.expires_at,
        },
    )
    if new.tags:
        tx.execute(
            insert(passage_tags),
            [{"passage_id": passage_id, "tag": tag} for tag in dict.fromkeys(new.tags)],
        )
    fulltext.index_passage(tx, passage_id, _searched(new.text, new.tags))
    return passage_id


def renew(tx: Transaction, passage_id: str, new: NewPassage, now: datetime) -> None:
    """Notes that a passage was given again: it has the new tags too, and lives as long as either
    wish says."""
    refresh(tx, [passage_id], now)
    longer: ColumnElement[bool] = passages.c.expires_at.is_not(None)
    if new.expires_at is not None:
        longer = passages.c.expires_at < new.expires_at
    tx.execute(
        update(passages)
        .where(passages.c.id == passage_id, longer)
        .values(expires_at=new.expires_at)
    )
    tags = tx.all(select(passage_tags.c.tag).where(passage_tags.c.passage_id == passage_id))
    had = [row[0] for row in tags]
    more = [tag for tag in dict.fromkeys(new.tags) if tag not in had]
    if more:
        tx.execute(insert(passage_tags), [{"passage_id": passage_id, "tag": tag} for tag in more])
        text = tx.scalar(select(passages.c.text).where(passages.c.id == passage_id))
        fulltext.index_passage(tx, passage_id, _searched(text, [*had, *more]))


def _searched(text: str, tags: Sequence[str]) -> str:
    return " ".join([text, *tags])


def refresh(tx: Transaction, passage_ids: Sequence[str], now: datetime) -> None:
    """Notes that passages were used."""
    if passage_ids:
        tx.execute(
            update(passages)
            .where(passages.c.id.in_(list(passage_ids)))
            .values(uses=passages.c.uses + 1, used_at=now)
        )


def _filtered(query: Select[Any], given: PassageFilter) -> Select[Any]:
    column = passages.c
    mine = select(agent_archives.c.archive_id).where(agent_archives.c.agent_id == given.agent_id)
    query = query.where(
        column.archive_id.in_(mine),
        *_living(given.now),
    )
    if given.kinds:
        query = query.where(column.kind.in_(given.kinds))
    if given.tags:
        tagged = select(passage_tags.c.passage_id).where(passage_tags.c.tag.in_(given.tags))
        query = query.where(column.id.in_(tagged))
    if given.start is not None:
        query = query.where(column.created_at >= given.start)
    if given.end is not None:
        query = query.where(column.created_at < given.end)
    return query


def search(
    tx: Transaction, words: str | None, given: PassageFilter, *, offset: int, limit: int
) -> tuple[list[PassageRow], int]:
    """One page of passages and the total. With words: best first; without: newest first."""
    if words is None:
        total = tx.scalar(_filtered(select(func.count()).select_from(passages), given))
        query = _filtered(select(*_COLUMNS), given)
        ordered = query.order_by(passages.c.created_at.desc(), passages.c.id)
        rows = tx.all(ordered.offset(offset).limit(limit))
        return _passages(tx, rows, [0.0] * len(rows)), int(total or 0)
    if fulltext.match_expression(words) is None:
        return [], 0
    match = fulltext.matching("passage", words)
    joined = passages.join(match, match.c.id == passages.c.id)
    total = tx.scalar(_filtered(select(func.count()).select_from(joined), given))
    query = _filtered(select(*_COLUMNS, match.c.score).select_from(joined), given)
    ordered = query.order_by(match.c.score.desc(), passages.c.created_at.desc(), passages.c.id)
    rows = tx.all(ordered.offset(offset).limit(limit))
    return _passages(tx, rows, [float(row[-1]) for row in rows]), int(total or 0)


def by_id(tx: Transaction, agent_id: str, passage_id: str, now: datetime) -> PassageRow | None:
    """One active passage of an agent's archives."""
    query = _filtered(select(*_COLUMNS), PassageFilter(agent_id, now))
    rows = tx.all(query.where(passages.c.id == passage_id))
    return _passages(tx, rows, [0.0])[0] if rows else None


def remove(tx: Transaction, agent_id: str, passage_ids: Sequence[str]) -> int:
    """Deletes passages of an agent's archives with their tags, index entries and vectors."""
    mine = select(agent_archives.c.archive_id).where(agent_archives.c.agent_id == agent_id)
    ids = [
        row[0]
        for row in tx.all(
            select(passages.c.id).where(
                passages.c.id.in_(list(passage_ids)), passages.c.archive_id.in_(mine)
            )
        )
    ]
    if not ids:
        return 0
    fulltext.unindex_passages(tx, ids)
    tx.execute(delete(embeddings).where(embeddings.c.owner_id.in_(ids)))
    tx.execute(delete(provenance).where(provenance.c.child_id.in_(ids)))
    return tx.execute(delete(passages).where(passages.c.id.in_(ids))).rowcount


def of_archive(tx: Transaction, archive_id: str) -> list[str]:
    """Ids of all passages of an archive, whatever their status."""
    rows = tx.all(select(passages.c.id).where(passages.c.archive_id == archive_id))
    return [row[0] for row in rows]


def _passages(tx: Transaction, rows: Sequence[Any], scores: Sequence[float]) -> list[PassageRow]:
    if not rows:
        return []
    tags: dict[str, list[str]] = {row[0]: [] for row in rows}
    found = tx.all(
        select(passage_tags.c.passage_id, passage_tags.c.tag)
        .where(passage_tags.c.passage_id.in_(list(tags)))
        .order_by(passage_tags.c.tag)
    )
    for passage_id, tag in found:
        tags[passage_id].append(tag)
    found_passages: list[PassageRow] = []
    for row, score in zip(rows, scores, strict=True):
        values: tuple[Any, ...] = (*row[:4], tuple(tags[row[0]]), *row[4:13], score)
        found_passages.append(PassageRow(*values))
    return found_passages
