"""Vectors of messages and passages. Texts wait in the `outbox` until an embedder has come to them.

Every change of a space's vectors has a
number, given inside its transaction: one that adds a vector stands in the vector's row, one that
removes it in a row of its own. So a copy (a matrix in memory, an index on the disk, in this process
or another) needs one small read to know whether it is current, and reads only what is new. Such a
copy keeps its own place in this sequence, which is why nothing waits in the outbox for it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import (
    ColumnElement,
    Select,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.sql import bindparam

from pagedaemon.errors import ConfigError, InvalidInput
from pagedaemon.store import outbox
from pagedaemon.store.candidates import Allowed
from pagedaemon.store.outbox import OwnerKind
from pagedaemon.store.tables import (
    embeddings,
    messages,
    passages,
    vector_changes,
    vectors_removed,
)
from pagedaemon.store.transaction import AnyRow, Transaction, portions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vector: TypeAlias = "NDArray[np.float32]"

KEPT_REMOVALS = 50_000
"""Changes back to which removals can be told; older copies are made anew."""


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
    outbox.settle(
        tx, [(one.owner_kind, one.owner_id, one.seq) for one in done if one.seq is not None]
    )
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
        for some in portions(ids):
            query = select(table.c.id).where(table.c.id.in_(some), table.c.space == tx.space)
            found.update((kind, row[0]) for row in tx.all(query))
    return found


def drop(tx: Transaction, owner_ids: Sequence[str]) -> None:
    """Removes the vectors of messages and passages that go, of every model, and what waited for
    them."""
    _remove(tx, owner_ids, None)
    for some in portions(owner_ids):
        outbox.drop(tx, some)


def _remove(tx: Transaction, owner_ids: Sequence[str], model: str | None) -> None:
    column = embeddings.c
    for some in portions(owner_ids):
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


def forget(tx: Transaction, *, model: str, most: int) -> int:
    """Removes vectors of a model that is no longer used, the oldest first. Returns how many.

    Each call is one change, by which a process that still uses them notices. What went is not told:
    who has a copy of it finds nothing by it that the table of texts has not.
    """
    mine = (embeddings.c.space == tx.space, embeddings.c.model == model)
    column: Any = embeddings.c.seq
    oldest = select(column).where(*mine).order_by(column).limit(most)
    last = tx.scalar(select(func.max(oldest.subquery().c.seq)))
    if last is None:
        return 0
    _take_numbers(tx, 1)
    return tx.execute(delete(embeddings).where(*mine, column <= last)).rowcount


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
    waiting, failed, errors = outbox.state(tx)
    return EmbeddingStatus(int(stored), waiting, failed, errors)


def changes(tx: Transaction) -> tuple[int, int]:
    """The number of the newest change of any vector, and that back to which removals are told."""
    row = tx.first(_CHANGES, {"space": tx.space})
    return (0, 0) if row is None else (row[0], row[1])


def models(tx: Transaction) -> list[tuple[str, int]]:
    """The embedding models whose vectors are stored, with their dimensions."""
    mine = embeddings.c.space == tx.space
    model: Any = embeddings.c.model
    query = select(model, embeddings.c.dimension).order_by(model).limit(1)
    found: list[tuple[str, int]] = []
    # From one to the next by the index: DISTINCT would read every row.
    row = tx.first(query.where(mine))
    while row is not None:
        found.append((row[0], row[1]))
        row = tx.first(query.where(mine, model > row[0]))
    return found


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
    values = {"of": tx.space, "by": model}
    for some in portions(owner_ids):
        rows = tx.all(_BY_OWNERS, {**values, "owners": json.dumps(some)})
        if rows:
            yield rows


# Made once: building it takes longer than reading what thirty texts have. See `_of_owners` for why
# space and model are expressions.
_BY_OWNERS = select(*_STORED).where(
    embeddings.c.owner_kind.in_(("message", "passage")),
    embeddings.c.owner_id.in_(
        select(func.json_each(bindparam("owners")).table_valued("value").c.value)
    ),
    embeddings.c.space.concat("") == bindparam("of"),
    embeddings.c.model.concat("") == bindparam("by"),
)


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


def products(rows: NDArray[np.float32], others: NDArray[np.float32]) -> NDArray[np.float32]:
    """What `rows @ others.T` gives, on this thread alone: of vectors of length one, all cosines. A
    linear algebra library takes a thread of every core for it, and they spin for a while after it:
    of 10 rows with 200 others 10 ms of CPU in place of 0.06, of 10,000 with one 7 in place of 1.5.

    Args:
        rows: a vector each.
        others: the same.
    """
    import numpy as np

    found: NDArray[np.float32] = np.einsum("ij,kj->ik", rows, others)
    return found
