"""Vectors that are no longer used go in bites, and nothing else does."""

from __future__ import annotations

from functools import partial

from tests.store.test_vectors import MODEL, NOW, database, embedded, pool, remember, stored

from pagedaemon.store import outbox, vectors
from pagedaemon.store.database import Database
from pagedaemon.store.transaction import Transaction

__all__ = ["database", "pool"]


def test_a_former_models_vectors_go_oldest_first_and_no_copy_is_made_anew(
    database: Database,
) -> None:
    def fill(tx: Transaction) -> list[str]:
        ids = [remember(tx, f"fact {number}") for number in range(7)]
        for model in (MODEL, "former"):
            vectors.put(tx, model, [embedded("passage", one) for one in ids])
        return ids

    ids = database.write_now(fill)
    before = database.read_now(vectors.changes)
    bite = partial(vectors.forget, model="former", most=3)
    gone = []
    left = []
    for _ in range(4):
        gone.append(database.write_now(bite))
        left.append([row[0] for row in database.read_now(lambda tx: stored(tx, "former"))])
    assert gone == [3, 3, 1, 0]
    assert left == [ids[3:], ids[6:], [], []]
    assert [row[0] for row in database.read_now(stored)] == ids
    # Three changes, so that who uses them notices; removals can be told as far back as before.
    assert database.read_now(vectors.changes) == (before[0] + 3, before[1])


def test_what_has_vectors_of_another_model_alone_lacks_those_of_ours_also_while_it_waits(
    database: Database,
) -> None:
    def work(tx: Transaction) -> None:
        one, other = remember(tx, "tea"), remember(tx, "rain")
        vectors.put(tx, "former", [embedded("passage", each) for each in (one, other)])
        vectors.put(tx, MODEL, [embedded("passage", one)])
        assert outbox.lacking(tx, MODEL, NOW)
        assert not outbox.lacking(tx, "former", NOW)
        assert (outbox.count_missing(tx, MODEL, NOW), outbox.waiting(tx)) == (1, 0)
        outbox.enqueue(tx, outbox.missing(tx, MODEL, NOW, 10), NOW)
        assert (outbox.count_missing(tx, MODEL, NOW), outbox.waiting(tx)) == (0, 1)
        assert outbox.lacking(tx, MODEL, NOW)
        (pending,) = outbox.pending(tx, 10)
        vectors.put(tx, MODEL, [embedded("passage", other, seq=pending.seq)])
        assert not outbox.lacking(tx, MODEL, NOW)

    database.write_now(work)
