"""Vectors of messages and passages, and the work of making them.

Texts wait in the outbox until an embedder has come to them. Every change of a space's vectors has a
number, given inside its transaction: one that adds a vector stands in the vector's row, one that
removes it in a row of its own. So a copy (a matrix in memory, an index on the disk, in this process
or another) needs one small read to know whether it is current, and reads only what is new. Such a
copy keeps its own place in this sequence, which is why nothing waits in the outbox for it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from sqlalchemy import (
    ColumnElement,
    Select,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    union_all,
    update,
)
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.sql import bindparam

from pagedaemon.errors import ConfigError, InvalidInput
from pagedaemon.store import fulltext
from pagedaemon.store.candidates import Allowed
from pagedaemon.store.tables import (
    embeddings,
    messages,
    outbox,
    passages,
    vector_changes,
    vectors_removed,
)
from pagedaemon.store.transaction import AnyRow, Transaction

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vector: TypeAlias = "NDArray[np.float32]"

OwnerKind = Literal["message", "passage"]

KEPT_REMOVALS = 50_000
"""Changes back to which removals can be told; older copies are made anew."""

AT_ONCE = 500
"""Ids in one statement: SQLite takes some 32,000 values."""

_EMBED = "embed"


@dataclass(frozen=True, slots=True)
class Pending:
    """A text that waits for its vectors.

    Attributes:
        seq: its number in the outbox.
        attempts: how often it has failed.
    """

    seq: int
    owner_kind: OwnerKind
    owner_id: str
    attempts: int


@dataclass(frozen=True, slots=True)
class Embedded:
    """All vectors of one text, in the order of its chunks.

    Attributes:
        vectors: 32-bit floats, of unit length.
        content_hash: of the text they were made from.
        seq: the `Pending.seq` they settle; None where nothing waited.
    """

    owner_kind: OwnerKind
    owner_id: str
    vectors: Sequence[Vector]
    content_hash: str
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingStatus:
    """How far the vectors of a space are.

    Attributes:
        stored: texts that have vectors of the model that was asked about.
        pending: texts that wait, those that failed included.
        failed: texts that wait and have failed at least once.
        errors: the newest of what went wrong, at most five, each once.
    """

    stored: int
    pending: int
    failed: int
    errors: tuple[str, ...]


def enqueue(tx: Transaction, owners: Iterable[tuple[OwnerKind, str]], now: datetime) -> None:
    """Notes that these texts, new or changed, need vectors. One statement."""
    rows = [
        {
            "space": tx.space,
            "kind": _EMBED,
            "owner_kind": kind,
            "owner_id": owner_id,
            "attempts": 0,
            "created_at": now,
        }
        for kind, owner_id in owners
    ]
    if rows:
        tx.execute(insert(outbox), rows)


def pending(tx: Transaction, limit: int, *, most_attempts: int = 8) -> list[Pending]:
    """Texts that wait, those that never failed first, then the oldest.

    Args:
        limit: how many at most.
        most_attempts: those that failed as often are left out, until `retry`.
    """
    column = outbox.c
    waits = select(column.seq, column.owner_kind, column.owner_id, column.attempts).where(
        column.space == tx.space, column.kind == _EMBED
    )
    # Apart: in the order of their numbers the first of many are found without reading all.
    fresh = waits.where(column.attempts == 0).order_by(column.seq)
    rows = [*tx.all(fresh.limit(limit))]
    if len(rows) < limit:
        again = waits.where(column.attempts > 0, column.attempts < most_attempts)
        ordered = again.order_by(column.attempts, column.seq)
        rows += tx.all(ordered.limit(limit - len(rows)))
    return [Pending(*row) for row in rows]


def put(tx: Transaction, model: str, done: Sequence[Embedded]) -> int:
    """Stores vectors in place of what their texts had of this model, and settles what waited.

    A text that is gone meanwhile gets none. One that was enqueued again after it was read goes on
    waiting. Returns how many texts have vectors now that are not without.

    Raises:
        InvalidInput: a vector is not of finite numbers, or has no length.
        ConfigError: the model has vectors of another dimension.
    """
    _check(tx, model, done)
    there = _there(tx, done)
    settled = [
        {"kind": item.owner_kind, "owner": item.owner_id, "upto": item.seq}
        for item in done
        if item.seq is not None
    ]
    if settled:
        tx.execute(_SETTLE, settled)
    # A text that waited twice was embedded twice; once is enough.
    owners = {(item.owner_kind, item.owner_id): item for item in done}
    kept = [item for owner, item in owners.items() if owner in there]
    _remove(tx, [item.owner_id for item in kept], model)
    rows = [
        {
            "owner_kind": item.owner_kind,
            "owner_id": item.owner_id,
            "chunk": chunk,
            "model": model,
            "space": tx.space,
            "dimension": len(vector),
            "content_hash": item.content_hash,
            "vector": vector.astype("<f4").tobytes(),
        }
        for item in kept
        for chunk, vector in enumerate(item.vectors)
    ]
    if rows:
        first = _take_numbers(tx, len(rows))
        for number, row in enumerate(rows, first):
            row["seq"] = number
        tx.execute(insert(embeddings), rows)
    return len(kept)


_SETTLE = delete(outbox).where(
    outbox.c.kind == _EMBED,
    outbox.c.owner_kind == bindparam("kind"),
    outbox.c.owner_id == bindparam("owner"),
    outbox.c.seq <= bindparam("upto"),
)


def _check(tx: Transaction, model: str, done: Sequence[Embedded]) -> None:
    sizes = {len(vector) for item in done for vector in item.vectors}
    known = dimension(tx, model)
    if known is not None:
        sizes.add(known)
    if len(sizes) > 1:
        raise ConfigError(
            f"embedding model {model!r} gave vectors of {sorted(sizes)} dimensions: give another "
            "model another name"
        )
    for item in done:
        for vector in item.vectors:
            length = float(vector @ vector)
            if not math.isfinite(length) or length == 0:
                raise InvalidInput(
                    f"embedding model {model!r} gave no usable vector for {item.owner_id}"
                )


def _there(tx: Transaction, done: Sequence[Embedded]) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for kind, table in (("message", messages), ("passage", passages)):
        ids = [item.owner_id for item in done if item.owner_kind == kind]
        for some in _portions(ids):
            query = select(table.c.id).where(table.c.id.in_(some), table.c.space == tx.space)
            found.update((kind, row[0]) for row in tx.all(query))
    return found


def failed(tx: Transaction, seqs: Sequence[int], error: str) -> None:
    """Notes that texts, by their numbers in the outbox, could not be embedded, and why."""
    for some in _portions(seqs):
        tx.execute(
            update(outbox)
            .where(outbox.c.space == tx.space, outbox.c.seq.in_(some))
            .values(attempts=outbox.c.attempts + 1, error=error)
        )


def retry(tx: Transaction) -> int:
    """Lets all that failed be tried again. Returns how many."""
    waiting = (outbox.c.space == tx.space, outbox.c.kind == _EMBED, outbox.c.attempts > 0)
    return tx.execute(update(outbox).where(*waiting).values(attempts=0)).rowcount


def drop(tx: Transaction, owner_ids: Sequence[str]) -> None:
    """Removes the vectors of messages and passages that go, of every model, and what waited for
    them."""
    _remove(tx, owner_ids, None)
    for some in _portions(owner_ids):
        tx.execute(
            delete(outbox).where(
                outbox.c.space == tx.space, outbox.c.kind == _EMBED, outbox.c.owner_id.in_(some)
            )
        )


def _remove(tx: Transaction, owner_ids: Sequence[str], model: str | None) -> None:
    column = embeddings.c
    for some in _portions(owner_ids):
        which = _of_owners(tx, some, model)
        query = select(column.model, column.owner_kind, column.owner_id, column.seq).where(*which)
        gone = tx.all(query.order_by(column.seq))
        if not gone:
            continue
        first = _take_numbers(tx, len(gone))
        tx.execute(
            insert(vectors_removed),
            [
                {
                    "space": tx.space,
                    "seq": number,
                    "model": row[0],
                    "owner_kind": row[1],
                    "owner_id": row[2],
                    "vector_seq": row[3],
                }
                for number, row in enumerate(gone, first)
            ],
        )
        tx.execute(delete(embeddings).where(*which))
        _forget_old_removals(tx, first)


def _of_owners(
    tx: Transaction, owner_ids: Sequence[str], model: str | None
) -> list[ColumnElement[bool]]:
    """Vectors of these texts, of a model or of all, by the key, which begins with kind and owner.

    Space and model are compared as expressions: as columns SQLite takes the index over them, and
    reads every vector of the model. That was 58 ms in place of 0.2 among 100,000, for each batch
    that is embedded, each text that is deleted and each search under a filter.
    """
    column = embeddings.c
    which = [
        column.owner_kind.in_(("message", "passage")),
        column.owner_id.in_(owner_ids),
        column.space.concat("") == tx.space,
    ]
    return which if model is None else [*which, column.model.concat("") == model]


def _forget_old_removals(tx: Transaction, newest: int) -> None:
    floor = newest - KEPT_REMOVALS
    row = tx.first(_CHANGES, {"space": tx.space})
    # In large bites, so that it is seldom done.
    if row is None or floor - row[1] < KEPT_REMOVALS:
        return
    mine = vectors_removed.c.space == tx.space
    tx.execute(delete(vectors_removed).where(mine, vectors_removed.c.seq <= floor))
    tx.execute(update(vector_changes).where(vector_changes.c.space == tx.space).values(floor=floor))


_FIRST_CHANGE = upsert(vector_changes)
_NEXT_CHANGE = _FIRST_CHANGE.on_conflict_do_update(
    index_elements=["space"], set_={"last": vector_changes.c.last + _FIRST_CHANGE.excluded.last}
)
_CHANGES = select(vector_changes.c.last, vector_changes.c.floor).where(
    vector_changes.c.space == bindparam("space")
)


def _take_numbers(tx: Transaction, count: int) -> int:
    """Takes so many numbers of changes; the first of them. The row stays locked until the commit,
    so that numbers become visible in their order."""
    tx.execute(_NEXT_CHANGE, {"space": tx.space, "last": count, "floor": 0})
    last, _ = tx.one(_CHANGES, {"space": tx.space})
    return int(last) - count + 1


def status(tx: Transaction, model: str) -> EmbeddingStatus:
    """How far the vectors of a model are, in texts."""
    column = embeddings.c
    stored = tx.scalar(
        select(func.count()).where(
            column.space == tx.space, column.model == model, column.chunk == 0
        )
    )
    waiting = (outbox.c.space == tx.space, outbox.c.kind == _EMBED)
    counts = tx.one(
        select(func.count(), func.count().filter(outbox.c.attempts > 0)).where(*waiting)
    )
    errors = tx.all(
        select(outbox.c.error)
        .where(*waiting, outbox.c.error.is_not(None))
        .group_by(outbox.c.error)
        .order_by(func.max(outbox.c.seq).desc())
        .limit(5)
    )
    return EmbeddingStatus(int(stored), counts[0], counts[1], tuple(row[0] for row in errors))


def missing(tx: Transaction, model: str, now: datetime, limit: int) -> list[tuple[OwnerKind, str]]:
    """Texts that a search can find by words, that have no vector of this model and do not wait for
    one: what to enqueue after a change of the model or an import."""
    rows = tx.all(_not_waiting(tx, _without(tx, model, now)).limit(limit))
    return [(row[0], row[1]) for row in rows]


def count_missing(tx: Transaction, model: str, now: datetime) -> int:
    """How many of them there are."""
    texts = _not_waiting(tx, _without(tx, model, now)).subquery()
    return int(tx.scalar(select(func.count()).select_from(texts)) or 0)


def lacking(tx: Transaction, model: str, now: datetime) -> bool:
    """Whether a text that a search can find by words has no vector of this model, be it that it
    waits for one."""
    return tx.first(_without(tx, model, now).limit(1)) is not None


def _not_waiting(tx: Transaction, texts: Select[Any]) -> Select[Any]:
    waits = select(outbox.c.owner_id).where(outbox.c.space == tx.space, outbox.c.kind == _EMBED)
    return texts.where(texts.selected_columns.id.not_in(waits))


def _without(tx: Transaction, model: str, now: datetime) -> Select[Any]:
    living = or_(passages.c.expires_at.is_(None), passages.c.expires_at > now)
    said = select(literal("message").label("kind"), messages.c.id.label("id")).where(
        messages.c.space == tx.space, messages.c.id.in_(fulltext.indexed("message"))
    )
    kept = select(literal("passage"), passages.c.id).where(
        passages.c.space == tx.space,
        passages.c.id.in_(fulltext.indexed("passage")),
        passages.c.status == "active",
        living,
    )
    texts = union_all(said, kept).subquery()
    has = select(literal(1)).where(
        embeddings.c.owner_kind == texts.c.kind,
        embeddings.c.owner_id == texts.c.id,
        embeddings.c.chunk == 0,
        embeddings.c.model == model,
    )
    return select(texts.c.kind, texts.c.id).where(~has.exists())


def changes(tx: Transaction) -> tuple[int, int]:
    """The number of the newest change of any vector, and that back to which removals are told."""
    row = tx.first(_CHANGES, {"space": tx.space})
    return (0, 0) if row is None else (row[0], row[1])


def dimension(tx: Transaction, model: str) -> int | None:
    """The dimension of a model's vectors; None where there are none."""
    found = tx.scalar(
        select(embeddings.c.dimension)
        .where(embeddings.c.space == tx.space, embeddings.c.model == model)
        .limit(1)
    )
    return None if found is None else int(found)


def count(tx: Transaction, model: str, *, after: int = 0, upto: int | None = None) -> int:
    """How many vectors of a model changes after one, up to another, have left."""
    column = embeddings.c
    query = select(func.count()).where(
        column.space == tx.space, column.model == model, column.seq > after
    )
    return int(tx.scalar(query if upto is None else query.where(column.seq <= upto)) or 0)


_STORED = (
    embeddings.c.seq,
    embeddings.c.owner_kind,
    embeddings.c.owner_id,
    embeddings.c.vector,
)


def _mine(tx: Transaction, model: str) -> Select[Any]:
    return select(*_STORED).where(embeddings.c.space == tx.space, embeddings.c.model == model)


def added(tx: Transaction, model: str, *, after: int, upto: int, limit: int) -> Sequence[AnyRow]:
    """Vectors that changes after one, up to another, added and that are still there, in the order
    of their numbers, as (number, owner's kind, owner's id, bytes)."""
    column = embeddings.c
    query = _mine(tx, model).where(column.seq > after, column.seq <= upto)
    return tx.all(query.order_by(column.seq).limit(limit))


def removed(tx: Transaction, model: str, *, after: int, upto: int) -> list[tuple[str, str, int]]:
    """Vectors that left between two changes, as (owner's kind, owner's id, the vector's number)."""
    column = vectors_removed.c
    rows = tx.all(
        select(column.owner_kind, column.owner_id, column.vector_seq)
        .where(
            column.space == tx.space,
            column.model == model,
            column.seq > after,
            column.seq <= upto,
        )
        .order_by(column.seq)
    )
    return [(row[0], row[1], row[2]) for row in rows]


_BY_NUMBER = select(*_STORED).where(
    embeddings.c.space == bindparam("of"),
    embeddings.c.model == bindparam("by"),
    embeddings.c.seq.in_(select(func.json_each(bindparam("seqs")).table_valued("value").c.value)),
)


def by_number(tx: Transaction, model: str, seqs: Sequence[int]) -> Sequence[AnyRow]:
    """Those of these vectors that are there, as `added` gives them."""
    return tx.all(_BY_NUMBER, {"of": tx.space, "by": model, "seqs": json.dumps(list(seqs))})


def of_owners(tx: Transaction, model: str, owner_ids: Sequence[str]) -> Iterator[Sequence[AnyRow]]:
    """The vectors of these texts, as `added` gives them, some at a time."""
    for some in _portions(owner_ids):
        rows = tx.all(select(*_STORED).where(*_of_owners(tx, some, model)))
        if rows:
            yield rows


def samples(tx: Transaction, model: str, *, upto: int, count: int) -> Sequence[AnyRow]:
    """The newest vectors up to a change, and as many from half way, as `added` gives them."""
    column = embeddings.c
    mine = _mine(tx, model).order_by(column.seq.desc()).limit(count)
    newest = tx.all(mine.where(column.seq <= upto))
    return [*newest, *tx.all(mine.where(column.seq <= upto // 2))]


def portions_of(
    tx: Transaction, model: str, allowed: Allowed | None, *, size: int = 2_000
) -> Iterator[Sequence[AnyRow]]:
    """All vectors of a model, or those whose owners may be found, as `added` gives them, some at a
    time."""
    query, values = _mine(tx, model), {}
    if allowed is not None:
        query = query.where(embeddings.c.owner_id.in_(allowed.query))
        values = dict(allowed.values)
    after = 0
    while True:
        more = query.where(embeddings.c.seq > after).order_by(embeddings.c.seq).limit(size)
        rows = tx.all(more, values)
        if rows:
            yield rows
        if len(rows) < size:
            return
        after = rows[-1][0]


def _portions(values: Sequence[Any]) -> Iterator[list[Any]]:
    for at in range(0, len(values), AT_ONCE):
        yield list(values[at : at + AT_ONCE])
