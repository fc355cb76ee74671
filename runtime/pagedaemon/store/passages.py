"""Rows of archival memory: archives, passages and their tags."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from pagedaemon.clock import new_id
from pagedaemon.messages import Label
from pagedaemon.store import fulltext, outbox, vectors
from pagedaemon.store.candidates import Allowed, Searched, Shape, as_list, listed
from pagedaemon.store.listing import Listed, Listing
from pagedaemon.store.tables import (
    agent_archives,
    archives,
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
    purposes: tuple[str, ...] = ()
    happened_at: datetime | None = None
    expires_at: datetime | None = None
    position: int | None = None
    """Place in its document, from 1."""
    source_note: str | None = None
    """Of a document: the file it was read from. No model sees it."""


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
    happened_at: datetime | None
    expires_at: datetime | None
    position: int | None
    purposes: tuple[str, ...] = ()
    score: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict)
    """What the score is the sum of."""
    via: str | None = None
    """What found it: `keywords`, or the index that did; None where nothing was ranked."""


@dataclass(frozen=True, slots=True)
class PassageFilter:
    """Which passages of an agent's archives to look at. Empty fields do not filter."""

    agent_id: str
    now: datetime
    tags: tuple[str, ...] = ()
    """Any of them."""
    kinds: tuple[str, ...] = ()
    start: datetime | None = None
    """Stored from this instant on."""
    end: datetime | None = None
    """Stored before this instant."""
    purposes: tuple[str, ...] = ()
    """Any of them."""
    confidence: float | None = None
    """The least."""
    told_from: datetime | None = None
    """What they tell of (`dates`) was from this instant on."""
    told_before: datetime | None = None
    """It was before this instant."""


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
    passages.c.happened_at,
    passages.c.expires_at,
    passages.c.position,
    passages.c.purposes,
)

DOCUMENT = "file"
"""The source kind of a document's passages. They belong to it: what an agent saves in the same
words is a passage of its own, so that it stays when the document goes."""

AT_ONCE = 500
"""Rows that one statement names: SQLite takes some 32,000 values."""


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


def same_texts(
    tx: Transaction, archive_id: str, hashes: Sequence[str], now: datetime
) -> dict[str, str]:
    """By the hash of its text, the id of a passage that searches of this archive can find."""
    values = {"archive": archive_id, "hashes": as_list(hashes), "now": now}
    return {row[0]: row[1] for row in tx.all(_SAME, values)}


def _living() -> ColumnElement[bool]:
    """At the instant in the parameter `now`."""
    expires = passages.c.expires_at
    later = expires > bindparam("now", type_=expires.type)
    return and_(passages.c.status == "active", or_(expires.is_(None), later))


# Made once: building such a statement takes longer than running it.
_SAME = select(passages.c.content_hash, passages.c.id).where(
    passages.c.archive_id == bindparam("archive"),
    passages.c.content_hash.in_(select(listed("hashes").c.value)),
    passages.c.source_kind != DOCUMENT,
    _living(),
)
_ADD = insert(passages)


def add_all(
    tx: Transaction,
    archive_id: str,
    agent_id: str,
    new: Sequence[NewPassage],
    instants: Sequence[datetime],
) -> list[str]:
    """Stores passages, each with its instant, makes them searchable and returns their ids, in the
    same order."""
    if not new:
        return []
    ids = [new_id("passage") for _ in new]
    tagged = [
        {"passage_id": passage_id, "tag": tag}
        for passage_id, passage in zip(ids, new, strict=True)
        for tag in dict.fromkeys(passage.tags)
    ]
    tx.execute(
        _ADD,
        [
            _values(tx.space, archive_id, agent_id, *one)
            for one in zip(ids, new, instants, strict=True)
        ],
    )
    if tagged:
        tx.execute(insert(passage_tags), tagged)
    fulltext.index_passages(
        tx,
        [
            (passage_id, searched_text(passage.text, passage.tags))
            for passage_id, passage in zip(ids, new, strict=True)
        ],
    )
    outbox.queue(tx, "passage", ids, instants[0])
    return ids


def _values(
    space: str, archive_id: str, agent_id: str, passage_id: str, new: NewPassage, now: datetime
) -> dict[str, Any]:
    return {
        "id": passage_id,
        "space": space,
        "archive_id": archive_id,
        "agent_id": agent_id,
        "text": new.text,
        "content_hash": content_hash(new.text),
        "kind": new.kind,
        "subject": new.subject,
        "attribute": new.attribute,
        "scope": new.scope,
        "purposes": list(new.purposes),
        "importance": new.importance,
        "confidence": new.confidence,
        "source_kind": new.source_kind,
        "source_id": new.source_id,
        "source_note": new.source_note,
        "trust": new.label,
        "status": "active",
        "position": new.position,
        "uses": 0,
        "created_at": now,
        "happened_at": new.happened_at,
        "used_at": None,
        "expires_at": new.expires_at,
    }


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
        fulltext.index_passage(tx, passage_id, searched_text(text, [*had, *more]))
        outbox.queue(tx, "passage", [passage_id], now)


def searched_text(text: str, tags: Sequence[str]) -> str:
    """What keyword search reads of a passage."""
    return " ".join([text, *tags])


def refresh(tx: Transaction, passage_ids: Sequence[str], now: datetime) -> None:
    """Notes that passages were used."""
    if passage_ids:
        tx.execute(
            update(passages)
            .where(passages.c.id.in_(list(passage_ids)))
            .values(uses=passages.c.uses + 1, used_at=now)
        )


_TOLD = func.coalesce(
    passages.c.happened_at, passages.c.created_at, type_=passages.c.created_at.type
)


def _conditions() -> dict[str, ColumnElement[bool]]:
    """What each field of a filter asks, by its name, which is its parameter's too."""
    column = passages.c
    instant = column.created_at.type
    mine = select(agent_archives.c.archive_id).where(
        agent_archives.c.agent_id == bindparam("agent_id")
    )
    tag = passage_tags.c.tag
    tagged = select(passage_tags.c.passage_id).where(tag.in_(select(listed("tags").c.value)))
    purpose = func.json_each(column.purposes).table_valued("value").c.value
    wanted = select(listed("purposes").c.value)
    for_purposes = select(purpose).where(purpose.in_(wanted)).correlate(passages)
    return {
        "agent_id": column.archive_id.in_(mine),
        "now": _living(),
        "tags": column.id.in_(tagged),
        "kinds": column.kind.in_(select(listed("kinds").c.value)),
        "start": column.created_at >= bindparam("start", type_=instant),
        "end": column.created_at < bindparam("end", type_=instant),
        "purposes": for_purposes.exists(),
        "confidence": column.confidence >= bindparam("confidence"),
        "told_from": bindparam("told_from", type_=instant) <= _TOLD,
        "told_before": bindparam("told_before", type_=instant) > _TOLD,
    }


def _newest_first(table: FromClause) -> tuple[ColumnElement[Any], ...]:
    return table.c.created_at.desc(), table.c.id


_CONDITIONS = _conditions()
_TOLD_LAST = (_TOLD.desc(), *_newest_first(passages))


def _tagged() -> ColumnElement[bool]:
    """What `tags` asks, one passage at a time: where few are judged, as those that words found, it
    costs nothing to speak of, and "among all that have the tag" reads them all before it begins."""
    column = passage_tags.c
    wanted = column.tag.in_(select(listed("tags").c.value))
    mine = select(column.tag).where(column.passage_id == passages.c.id, wanted)
    return mine.correlate(passages).exists()


_FOUND = {**_CONDITIONS, "tags": _tagged()}


@lru_cache(maxsize=64)
def _shape(fields: tuple[str, ...]) -> Shape:
    return Shape("passage", passages, [_FOUND[name] for name in fields], _newest_first)


def _given(given: PassageFilter) -> dict[str, Any]:
    """The fields of a filter that filter."""
    values = {name: getattr(given, name) for name in _CONDITIONS}
    found = {name: value for name, value in values.items() if value not in (None, ())}
    lists = ("tags", "kinds", "purposes")
    return found | {name: as_list(found[name]) for name in lists if name in found}


def in_order(
    tx: Transaction, given: PassageFilter, *, offset: int, limit: int
) -> tuple[list[PassageRow], int]:
    """One page of what passes a filter, newest first, and the total."""
    values = _given(given)
    conditions = [_CONDITIONS[name] for name in values]
    query = select(*_COLUMNS).where(*conditions).order_by(*_newest_first(passages))
    rows = tx.all(query.offset(offset).limit(limit), values)
    return _passages(tx, rows), passing(given).count(tx)


def told_within(
    given: PassageFilter, start: datetime | None, end: datetime | None
) -> PassageFilter:
    """The filter, and of what was from one instant on, before another. None: whenever."""
    return replace(given, told_from=start, told_before=end)


@lru_cache(maxsize=64)
def _listing(fields: tuple[str, ...]) -> Listing:
    return Listing(passages, [_CONDITIONS[name] for name in fields], _TOLD_LAST)


def passing(given: PassageFilter) -> Listed:
    """The passages that pass a filter, first what tells of what was last."""
    values = _given(given)
    return Listed(_listing(tuple(values)), values)


def searched(given: PassageFilter) -> Searched:
    """What a search with this filter looks at."""
    values = _given(given)
    return Searched(_shape(tuple(values)), values)


def allowed(given: PassageFilter) -> Allowed:
    """Which passages pass a filter."""
    values = _given(given)
    return Allowed(_allowed(tuple(values)), values)


@lru_cache(maxsize=64)
def _allowed(fields: tuple[str, ...]) -> Select[Any]:
    query = select(passages.c.id).where(*(_CONDITIONS[name] for name in fields if name != "tags"))
    if "tags" not in fields:
        return query
    # Joined, and not "among all that have the tag": that reads them all before it begins, also to
    # judge a few passages, or to see that more than a few pass.
    tags = passage_tags.c
    wanted = tags.tag.in_(select(listed("tags").c.value))
    return query.where(wanted, tags.passage_id == passages.c.id).distinct()


def searched_texts(tx: Transaction, ids: Sequence[str]) -> dict[str, str]:
    """What a search reads of passages, by id: text and tags."""
    return {row.id: searched_text(row.text, row.tags) for row in by_ids(tx, ids).values()}


def by_ids(tx: Transaction, ids: Sequence[str]) -> dict[str, PassageRow]:
    """Passages by id, whatever their status: for ids that passed a filter."""
    rows = tx.all(_BY_IDS, {"ids": as_list(ids)}) if ids else ()
    return {row.id: row for row in _passages(tx, rows)}


def texts(tx: Transaction, ids: Sequence[str], most: int) -> dict[str, str]:
    """The first so many characters of passages, by id, without their tags."""
    rows = tx.all(_TEXTS, {"ids": as_list(ids), "most": most}) if ids else ()
    return {row[0]: row[1] for row in rows}


_TEXTS = select(passages.c.id, func.substr(passages.c.text, 1, bindparam("most"))).where(
    passages.c.id.in_(select(listed("ids").c.value))
)
_BY_IDS = select(*_COLUMNS).where(passages.c.id.in_(select(listed("ids").c.value)))
_DATES = select(passages.c.id, _TOLD).where(passages.c.id.in_(select(listed("ids").c.value)))
_LIVING = _BY_IDS.where(_CONDITIONS["agent_id"], _CONDITIONS["now"])
_TAGS = (
    select(passage_tags.c.passage_id, passage_tags.c.tag)
    .where(passage_tags.c.passage_id.in_(select(listed("ids").c.value)))
    .order_by(passage_tags.c.tag)
)


def dates(tx: Transaction, ids: Sequence[str]) -> dict[str, datetime]:
    """Of passages by id: when what they tell of was, or else when they were stored."""
    rows = tx.all(_DATES, {"ids": as_list(ids)}) if ids else ()
    return {row[0]: row[1] for row in rows}


def living(
    tx: Transaction, agent_id: str, ids: Sequence[str], now: datetime
) -> dict[str, PassageRow]:
    """Those of the ids that a search of an agent's archives would find now."""
    if not ids:
        return {}
    rows = tx.all(_LIVING, {"ids": as_list(ids), "agent_id": agent_id, "now": now})
    return {row.id: row for row in _passages(tx, rows)}


def by_id(tx: Transaction, agent_id: str, passage_id: str, now: datetime) -> PassageRow | None:
    """One active passage of an agent's archives."""
    return living(tx, agent_id, [passage_id], now).get(passage_id)


def remove(tx: Transaction, agent_id: str, passage_ids: Sequence[str]) -> int:
    """Deletes passages of an agent's archives with their tags, index entries and vectors."""
    given = list(dict.fromkeys(passage_ids))
    return sum(
        _remove(tx, agent_id, given[at : at + AT_ONCE]) for at in range(0, len(given), AT_ONCE)
    )


def _remove(tx: Transaction, agent_id: str, passage_ids: list[str]) -> int:
    mine = select(agent_archives.c.archive_id).where(agent_archives.c.agent_id == agent_id)
    ids = [
        row[0]
        for row in tx.all(
            select(passages.c.id).where(
                passages.c.id.in_(passage_ids), passages.c.archive_id.in_(mine)
            )
        )
    ]
    if not ids:
        return 0
    fulltext.unindex_passages(tx, ids)
    vectors.drop(tx, ids)
    tx.execute(delete(provenance).where(provenance.c.child_id.in_(ids)))
    return tx.execute(delete(passages).where(passages.c.id.in_(ids))).rowcount


def of_archive(tx: Transaction, archive_id: str) -> list[str]:
    """Ids of all passages of an archive, whatever their status."""
    rows = tx.all(select(passages.c.id).where(passages.c.archive_id == archive_id))
    return [row[0] for row in rows]


def _passages(tx: Transaction, rows: Sequence[Any]) -> list[PassageRow]:
    if not rows:
        return []
    tags: dict[str, list[str]] = {row[0]: [] for row in rows}
    for passage_id, tag in tx.all(_TAGS, {"ids": as_list(tags)}):
        tags[passage_id].append(tag)
    found_passages: list[PassageRow] = []
    for row in rows:
        values: tuple[Any, ...] = (*row[:4], tuple(tags[row[0]]), *row[4:16], tuple(row[16]))
        found_passages.append(PassageRow(*values))
    return found_passages
