"""Puts texts into the outbox, for vectors to be made of them, in the transaction that stores them.

Where nobody in this process makes vectors nothing is put there: whoever does so later finds by
itself what has none (`vectors.missing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Table, delete, func, insert, literal, select
from sqlalchemy.sql import bindparam
from sqlalchemy.sql.dml import Insert

from pagedaemon.store import fulltext, vectors
from pagedaemon.store.tables import embeddings, messages, outbox, passages
from pagedaemon.store.transaction import Transaction


def queue(tx: Transaction, kind: vectors.OwnerKind, ids: Sequence[str], now: datetime) -> None:
    """Texts that are new or were changed."""
    if tx.embeds and ids:
        vectors.enqueue(tx, [(kind, owner_id) for owner_id in ids], now)
        tx.queued += len(ids)


def _of(kind: vectors.OwnerKind, table: Table, *which: ColumnElement[bool]) -> Insert:
    """Puts all that a search can find by words there, or some of it."""
    texts = select(
        table.c.space,
        literal("embed"),
        literal(kind),
        table.c.id,
        literal(0),
        bindparam("now", type_=outbox.c.created_at.type),
    )
    return insert(outbox).from_select(
        ["space", "kind", "owner_kind", "owner_id", "attempts", "created_at"],
        texts.where(table.c.id.in_(fulltext.indexed(kind)), *which),
    )


_TURN = _of("message", messages, messages.c.turn_id == bindparam("turn"))
_ALL = (
    _of("message", messages, messages.c.space == bindparam("of")),
    _of("passage", passages, passages.c.space == bindparam("of"), passages.c.status == "active"),
)


def queue_turn(tx: Transaction, turn_id: str, now: datetime) -> None:
    """What was said in a turn that ends. One statement, however long the turn was: what a running
    turn says stands in its window anyway."""
    if tx.embeds:
        tx.queued += tx.execute(_TURN, {"turn": turn_id, "now": now}).rowcount


def queue_all(tx: Transaction, now: datetime) -> int:
    """Every text of the space, in place of what waits. Returns how many there are."""
    tx.execute(delete(outbox).where(outbox.c.space == tx.space, outbox.c.kind == "embed"))
    return sum(tx.execute(one, {"of": tx.space, "now": now}).rowcount for one in _ALL)


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


def waiting(tx: Transaction) -> int:
    """How many texts wait for their vectors."""
    return int(tx.scalar(_WAITING, {"of": tx.space}) or 0)


_WAITING = select(func.count()).where(outbox.c.space == bindparam("of"), outbox.c.kind == "embed")


def forget(tx: Transaction, *, model: str, most: int) -> int:
    """Removes vectors of a model that is no longer used, the oldest first. Returns how many.

    No change is numbered for it: who still has a copy of them finds nothing by it that the table of
    texts has not, and copies of other models are none the worse.
    """
    mine = (embeddings.c.space == tx.space, embeddings.c.model == model)
    column: Any = embeddings.c.seq
    oldest = select(column).where(*mine).order_by(column).limit(most)
    last = tx.scalar(select(func.max(oldest.subquery().c.seq)))
    if last is None:
        return 0
    return tx.execute(delete(embeddings).where(*mine, column <= last)).rowcount
