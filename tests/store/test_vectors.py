"""Vectors in the store: made after the text, gone with it, and every change numbered."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.dialects import sqlite

from pagedaemon.errors import ConfigError, InvalidInput
from pagedaemon.messages import Message
from pagedaemon.store import agents, conversations, fulltext, outbox, passages, vectors
from pagedaemon.store.candidates import Allowed
from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.outbox import OwnerKind
from pagedaemon.store.passages import NewPassage
from pagedaemon.store.tables import agents as agents_table
from pagedaemon.store.tables import embeddings, vectors_removed
from pagedaemon.store.tables import outbox as outbox_table
from pagedaemon.store.tables import passages as passages_table
from pagedaemon.store.transaction import Transaction
from pagedaemon.store.vectors import Embedded

NOW = datetime(2026, 11, 30, tzinfo=UTC)
MODEL = "small/8"


@pytest.fixture
def pool() -> Iterator[StorePool]:
    pool = StorePool()
    yield pool
    pool.close()


@pytest.fixture
def database(tmp_path: Path, pool: StorePool) -> Iterator[Database]:
    database = Database.open(tmp_path / "space.db", space="lin", pool=pool)
    database.write_now(make_agent)
    yield database
    database.close()


def make_agent(tx: Transaction) -> None:
    tx.execute(
        agents_table.insert(),
        {
            "id": "agent-1",
            "space": tx.space,
            "name": "ada",
            "settings": {},
            "tools": [],
            "created_at": NOW,
            "updated_at": NOW,
        },
    )
    passages.add_archive(tx, "agent-1", NOW)


def remember(tx: Transaction, text: str, **given: Any) -> str:
    archive = passages.archive_of(tx, "agent-1")
    assert archive is not None
    new = NewPassage(text, "semantic", (), None, 1.0, "agent", None, "agent", **given)
    return passages.add_all(tx, archive, "agent-1", [new], [NOW])[0]


def say(tx: Transaction, *texts: str) -> tuple[str, list[str]]:
    """A conversation with these messages of a user."""
    conversation = conversations.add(tx, "agent-1", "talk", NOW)
    said = [
        Message(f"message-{number}", number, "user", "message", text, NOW)
        for number, text in enumerate(texts, 1)
    ]
    conversations.add_messages(tx, "agent-1", conversation.id, said)
    return conversation.id, [message.id for message in said]


def vector(*numbers: float) -> vectors.Vector:
    return np.array(numbers, np.float32)


def embedded(
    kind: OwnerKind, owner: str, *found: vectors.Vector, seq: int | None = None
) -> Embedded:
    return Embedded(kind, owner, found or (vector(1, 0),), "hash", seq)


def stored(tx: Transaction, model: str = MODEL) -> list[tuple[Any, ...]]:
    column = embeddings.c
    rows = tx.all(
        select(column.owner_id, column.chunk, column.vector)
        .where(column.model == model)
        .order_by(column.seq)
    )
    return [(row[0], row[1], np.frombuffer(row[2], "<f4").tolist()) for row in rows]


def waiting(tx: Transaction) -> list[str]:
    return [item.owner_id for item in outbox.pending(tx, 100)]


def test_a_text_waits_until_its_vectors_are_stored(database: Database) -> None:
    def work(tx: Transaction) -> None:
        passage = remember(tx, "tea")
        outbox.enqueue(tx, [("passage", passage)], NOW)
        (item,) = outbox.pending(tx, 10)
        assert (item.owner_kind, item.owner_id, item.attempts) == ("passage", passage, 0)
        assert vectors.status(tx, MODEL) == vectors.EmbeddingStatus(0, 1, 0, ())

        both = embedded("passage", passage, vector(1, 0), vector(0, 1), seq=item.seq)
        assert vectors.put(tx, MODEL, [both]) == 1
        assert stored(tx) == [(passage, 0, [1, 0]), (passage, 1, [0, 1])]
        assert outbox.pending(tx, 10) == []
        assert vectors.status(tx, MODEL) == vectors.EmbeddingStatus(1, 0, 0, ())

    database.write_now(work)


def test_what_waits_is_one_statement(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(tx: Transaction) -> None:
        ids = [remember(tx, f"tea {number}") for number in range(5)]
        statements: list[object] = []
        run = Transaction.execute

        def counted(self: Transaction, statement: Any, parameters: Any = None) -> Any:
            statements.append(statement)
            return run(self, statement, parameters)

        with monkeypatch.context() as patch:
            patch.setattr(Transaction, "execute", counted)
            outbox.enqueue(tx, [("passage", passage) for passage in ids], NOW)
        assert len(statements) == 1
        assert waiting(tx) == ids
        outbox.enqueue(tx, [], NOW)
        assert waiting(tx) == ids

    database.write_now(work)


def test_new_vectors_take_the_place_of_all_the_old_ones_of_their_model(database: Database) -> None:
    def work(tx: Transaction) -> None:
        passage = remember(tx, "tea")
        vectors.put(tx, MODEL, [embedded("passage", passage, vector(1, 0), vector(0, 1))])
        vectors.put(tx, "other", [embedded("passage", passage, vector(1, 0, 0))])
        vectors.put(tx, MODEL, [embedded("passage", passage, vector(0, 1))])
        assert stored(tx) == [(passage, 0, [0, 1])]
        assert stored(tx, "other") == [(passage, 0, [1, 0, 0])]

    database.write_now(work)


def test_a_text_that_waited_twice_is_stored_once_and_waits_no_more(database: Database) -> None:
    def work(tx: Transaction) -> None:
        passage = remember(tx, "tea")
        outbox.enqueue(tx, [("passage", passage), ("passage", passage)], NOW)
        items = outbox.pending(tx, 10)
        done = [embedded(item.owner_kind, item.owner_id, seq=item.seq) for item in items]
        assert len(done) > 1
        assert vectors.put(tx, MODEL, done) == 1
        assert [row[0] for row in stored(tx)] == [passage]
        assert waiting(tx) == []

    database.write_now(work)


def test_a_text_that_went_while_it_was_embedded_gets_no_vector(database: Database) -> None:
    def work(tx: Transaction) -> None:
        gone, kept = remember(tx, "tea"), remember(tx, "coffee")
        outbox.enqueue(tx, [("passage", gone), ("passage", kept)], NOW)
        items = outbox.pending(tx, 10)
        assert passages.remove(tx, "agent-1", [gone]) == 1
        done = [embedded(item.owner_kind, item.owner_id, seq=item.seq) for item in items]
        assert vectors.put(tx, MODEL, done) == 1
        assert [row[0] for row in stored(tx)] == [kept]
        assert waiting(tx) == []

    database.write_now(work)


def test_a_text_that_changed_while_it_was_embedded_goes_on_waiting(database: Database) -> None:
    def work(tx: Transaction) -> None:
        passage = remember(tx, "tea")
        outbox.enqueue(tx, [("passage", passage)], NOW)
        (item,) = outbox.pending(tx, 10)
        outbox.enqueue(tx, [("passage", passage)], NOW)
        vectors.put(tx, MODEL, [embedded("passage", passage, seq=item.seq)])
        assert waiting(tx) == [passage]

    database.write_now(work)


@pytest.mark.parametrize("bad", [(math.nan, 0), (math.inf, 0), (0, 0)])
def test_a_vector_that_cannot_be_compared_is_refused(
    database: Database, bad: tuple[float, float]
) -> None:
    def work(tx: Transaction) -> None:
        good, spoiled = remember(tx, "tea"), remember(tx, "coffee")
        both = [embedded("passage", good), embedded("passage", spoiled, vector(*bad))]
        with pytest.raises(InvalidInput, match=spoiled):
            vectors.put(tx, MODEL, both)
        assert stored(tx) == []

    database.write_now(work)


def test_a_model_keeps_its_dimension(database: Database) -> None:
    def work(tx: Transaction) -> None:
        first, second = remember(tx, "tea"), remember(tx, "coffee")
        vectors.put(tx, MODEL, [embedded("passage", first, vector(1, 0))])
        with pytest.raises(ConfigError, match=r"\[2, 3\]"):
            vectors.put(tx, MODEL, [embedded("passage", second, vector(1, 0, 0))])
        assert vectors.dimension(tx, MODEL) == 2
        assert vectors.dimension(tx, "other") is None

    database.write_now(work)


def test_failures_are_counted_shown_put_last_and_at_length_left_to_a_person(
    database: Database,
) -> None:
    def work(tx: Transaction) -> None:
        bad, good = remember(tx, "tea"), remember(tx, "coffee")
        outbox.enqueue(tx, [("passage", bad), ("passage", good)], NOW)
        seq = outbox.pending(tx, 1)[0].seq
        outbox.failed(tx, [seq], "the endpoint is away")
        assert waiting(tx) == [good, bad]
        assert vectors.status(tx, MODEL) == vectors.EmbeddingStatus(
            0, 2, 1, ("the endpoint is away",)
        )
        outbox.failed(tx, [seq], "still away")
        assert [item.owner_id for item in outbox.pending(tx, 9, most_attempts=2)] == [good]
        assert outbox.retry(tx) == 1
        assert [item.owner_id for item in outbox.pending(tx, 9, most_attempts=2)] == [bad, good]

    database.write_now(work)


def test_vectors_go_with_passages_conversations_and_agents(database: Database) -> None:
    def work(tx: Transaction) -> None:
        tea, coffee = remember(tx, "tea"), remember(tx, "coffee")
        conversation, said = say(tx, "hello", "again")
        owners: list[tuple[OwnerKind, str]] = [("passage", tea), ("passage", coffee)]
        owners += [("message", message) for message in said]
        for model in (MODEL, "other"):
            vectors.put(tx, model, [embedded(*owner) for owner in owners])
        outbox.enqueue(tx, owners, NOW)
        passages.remove(tx, "agent-1", [tea])
        assert [row[0] for row in stored(tx)] == [coffee, *said]
        assert waiting(tx) == [coffee, *said]
        conversations.remove(tx, conversation)
        assert [row[0] for row in stored(tx)] == [coffee]
        passages.remove(tx, "agent-1", [coffee])
        agents.remove(tx, "agent-1")
        assert tx.scalar(select(func.count()).select_from(embeddings)) == 0
        assert tx.scalar(select(func.count()).select_from(outbox_table)) == 0

    database.write_now(work)


def test_what_is_searchable_and_has_no_vector_is_found(database: Database) -> None:
    def work(tx: Transaction) -> None:
        has, wants, waits = (remember(tx, text) for text in ("tea", "coffee", "milk"))
        expired = remember(tx, "water", expires_at=NOW)
        hidden = remember(tx, "wine")
        tx.execute(
            update(passages_table).where(passages_table.c.id == hidden).values(status="archived")
        )
        _, said = say(tx, "hello", "again")
        fulltext.unindex_messages(tx, said[1:])
        vectors.put(tx, MODEL, [embedded("passage", has)])
        outbox.enqueue(tx, [("passage", waits)], NOW)
        assert expired not in dict(outbox.missing(tx, MODEL, NOW, 10)).values()
        assert outbox.missing(tx, MODEL, NOW, 10) == [("message", said[0]), ("passage", wants)]
        assert len(outbox.missing(tx, MODEL, NOW, 1)) == 1
        assert ("passage", has) in outbox.missing(tx, "other", NOW, 10)

    database.write_now(work)


def numbers(rows: Sequence[Any]) -> list[int]:
    return [row[0] for row in rows]


def test_every_change_has_the_next_number(database: Database) -> None:
    def work(tx: Transaction) -> None:
        first, second = remember(tx, "tea"), remember(tx, "coffee")
        assert vectors.changes(tx) == (0, 0)
        vectors.put(tx, MODEL, [embedded("passage", first), embedded("passage", second)])
        assert vectors.changes(tx) == (2, 0)
        assert numbers(vectors.added(tx, MODEL, after=0, upto=2, limit=9)) == [1, 2]
        assert numbers(vectors.added(tx, MODEL, after=1, upto=2, limit=9)) == [2]
        vectors.put(tx, MODEL, [embedded("passage", first)])
        assert vectors.changes(tx) == (4, 0)
        assert vectors.removed(tx, MODEL, after=2, upto=4) == [("passage", first, 1)]
        assert numbers(vectors.added(tx, MODEL, after=2, upto=4, limit=9)) == [4]
        assert vectors.removed(tx, "other", after=0, upto=4) == []
        assert vectors.count(tx, MODEL) == 2
        assert vectors.count(tx, MODEL, after=2) == 1
        assert vectors.count(tx, MODEL, upto=2) == 1

    database.write_now(work)


def test_removals_are_told_back_to_the_floor(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "KEPT_REMOVALS", 10)

    def work(tx: Transaction) -> None:
        passage = remember(tx, "tea")
        for _ in range(30):
            vectors.put(tx, MODEL, [embedded("passage", passage)])
        last, floor = vectors.changes(tx)
        assert 10 <= last - floor <= 25
        told = vectors.removed(tx, MODEL, after=floor, upto=last)
        assert len(told) == tx.scalar(select(func.count()).select_from(vectors_removed))
        assert [row[0] for row in stored(tx)] == [passage]

    database.write_now(work)


def test_all_vectors_are_read_in_portions(database: Database) -> None:
    def work(tx: Transaction) -> None:
        ids = [remember(tx, f"tea {number}") for number in range(5)]
        vectors.put(tx, MODEL, [embedded("passage", passage) for passage in ids])
        portions = list(vectors.portions_of(tx, MODEL, None, size=2))
        assert [numbers(rows) for rows in portions] == [[1, 2], [3, 4], [5]]
        named = select(passages_table.c.id).where(passages_table.c.text.in_(["tea 1", "tea 4"]))
        some = Allowed(named, {})
        (rows,) = vectors.portions_of(tx, MODEL, some, size=3)
        assert [row[2] for row in rows] == [ids[1], ids[4]]
        (rows,) = vectors.of_owners(tx, MODEL, [ids[0], "gone", ids[3]])
        assert sorted(row[2] for row in rows) == sorted([ids[0], ids[3]])
        assert numbers(vectors.by_number(tx, MODEL, [2, 99, 4])) == [2, 4]
        assert numbers(vectors.samples(tx, MODEL, upto=4, count=2)) == [4, 3, 2, 1]

    database.write_now(work)


@pytest.mark.parametrize("model", [MODEL, None])
def test_vectors_of_a_text_are_found_without_reading_those_of_all(
    database: Database, model: str | None
) -> None:
    def plan(tx: Transaction) -> str:
        query = select(embeddings.c.seq).where(*vectors._of_owners(tx, ["passage-1"], model))
        words = query.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})
        return " ".join(row[3] for row in tx.all(text(f"EXPLAIN QUERY PLAN {words}")))

    assert "(owner_kind=? AND owner_id=?)" in database.read_now(plan)


def test_texts_that_never_failed_come_first_and_then_those_that_failed_least(
    database: Database,
) -> None:
    def work(tx: Transaction) -> list[str]:
        ids = [remember(tx, f"fact {number}") for number in range(6)]
        outbox.enqueue(tx, [("passage", one) for one in ids], NOW)
        seqs = [item.seq for item in outbox.pending(tx, 10)]
        for failures, place in ((2, 0), (1, 2), (8, 4)):
            for _ in range(failures):
                outbox.failed(tx, [seqs[place]], "refused")
        return ids

    ids = database.write_now(work)
    order = [ids[1], ids[3], ids[5], ids[2], ids[0]]
    for limit in (2, 3, 4, 10):
        found = database.read_now(partial(outbox.pending, limit=limit))
        assert [item.owner_id for item in found] == order[:limit]
