"""Texts that wait for their vectors: put into the outbox in the transaction that stores them, taken
from it by who makes vectors, and settled with these.

Where nobody in this process makes vectors nothing is put there: whoever does so later finds by
itself what has none (`missing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    union_all,
    update,
)
from sqlalchemy.sql import bindparam
from sqlalchemy.sql.dml import Insert

from pagedaemon.store import fulltext
from pagedaemon.store.tables import embeddings, messages, outbox, passages
from pagedaemon.store.transaction import Transaction, portions

OwnerKind = Literal["message", "passage"]

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


def queue(tx: Transaction, kind: OwnerKind, ids: Sequence[str], now: datetime) -> None:
    """Texts that are new or were changed."""
    if tx.embeds and ids:
        enqueue(tx, [(kind, owner_id) for owner_id in ids], now)
        tx.queued += len(ids)


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


def _of(kind: OwnerKind, table: Table, *which: ColumnElement[bool]) -> Insert:
    """Puts all that a search can find by words there, or some of it."""
    texts = select(
        table.c.space,
        literal(_EMBED),
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
    tx.execute(delete(outbox).where(outbox.c.space == tx.space, outbox.c.kind == _EMBED))
    return sum(tx.execute(one, {"of": tx.space, "now": now}).rowcount for one in _ALL)


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


def settle(tx: Transaction, done: Sequence[tuple[OwnerKind, str, int]]) -> None:
    """Texts that have their vectors wait no longer, up to the number under which they did: one that
    was enqueued again meanwhile goes on waiting."""
    if done:
        tx.execute(
            _SETTLE, [{"kind": kind, "owner": owner, "upto": seq} for kind, owner, seq in done]
        )


_SETTLE = delete(outbox).where(
    outbox.c.kind == _EMBED,
    outbox.c.owner_kind == bindparam("kind"),
    outbox.c.owner_id == bindparam("owner"),
    outbox.c.seq <= bindparam("upto"),
)


def drop(tx: Transaction, owner_ids: Sequence[str]) -> None:
    """Texts that go wait for nothing."""
    tx.execute(
        delete(outbox).where(
            outbox.c.space == tx.space, outbox.c.kind == _EMBED, outbox.c.owner_id.in_(owner_ids)
        )
    )


def failed(tx: Transaction, seqs: Sequence[int], error: str) -> None:
    """Notes that texts, by their numbers in the outbox, could not be embedded, and why."""
    for some in portions(seqs):
        tx.execute(
            update(outbox)
            .where(outbox.c.space == tx.space, outbox.c.seq.in_(some))
            .values(attempts=outbox.c.attempts + 1, error=error)
        )


def retry(tx: Transaction) -> int:
    """Lets all that failed be tried again. Returns how many."""
    waiting = (outbox.c.space == tx.space, outbox.c.kind == _EMBED, outbox.c.attempts > 0)
    return tx.execute(update(outbox).where(*waiting).values(attempts=0)).rowcount


def waiting(tx: Transaction) -> int:
    """How many texts wait for their vectors."""
    return int(tx.scalar(_WAITING, {"of": tx.space}) or 0)


_WAITING = select(func.count()).where(outbox.c.space == bindparam("of"), outbox.c.kind == _EMBED)


def state(tx: Transaction) -> tuple[int, int, tuple[str, ...]]:
    """How many texts wait, how many of them have failed, and the newest of what went wrong, at most
    five, each once."""
    waits = (outbox.c.space == tx.space, outbox.c.kind == _EMBED)
    count, failures = tx.one(
        select(func.count(), func.count().filter(outbox.c.attempts > 0)).where(*waits)
    )
    errors = tx.all(
        select(outbox.c.error)
        .where(*waits, outbox.c.error.is_not(None))
        .group_by(outbox.c.error)
        .order_by(func.max(outbox.c.seq).desc())
        .limit(5)
    )
    return count, failures, tuple(row[0] for row in errors)


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
