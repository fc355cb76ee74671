"""Exact search follows the table, whoever writes to it, and finds what is truly nearest."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.store.index.space import DIMENSION, MODEL, Space, draw, every, ids

import pagedaemon
from pagedaemon.errors import InvalidInput
from pagedaemon.store import vectors
from pagedaemon.store.index import exact
from pagedaemon.store.index.exact import Hit, Matrix
from pagedaemon.store.transaction import Transaction
from pagedaemon.store.vectors import Embedded, Vector

ROOT = Path(__file__).parents[3]
QUERY = draw(1, seed=77)[0]


def search(space: Space, matrix: Matrix, k: int = 10, query: Vector = QUERY) -> list[Hit]:
    return space.database.read_now(lambda tx: matrix.search(tx, query, k, None))


def filtered(space: Space, matrix: Matrix, nth: int, k: int = 10) -> list[str]:
    return ids(space.database.read_now(lambda tx: matrix.search(tx, QUERY, k, every(nth))))


def put(space: Space, owner: str, *rows: Vector) -> None:
    done = [Embedded("passage", owner, rows, "hash")]
    space.database.write_now(lambda tx: vectors.put(tx, MODEL, done))


def test_the_nearest_are_found_best_first(space: Space) -> None:
    matrix = Matrix(MODEL)
    assert search(space, matrix) == []
    space.fill(1_000)
    found = search(space, matrix)
    assert ids(found) == space.truth(QUERY, 10)
    assert {hit.owner_kind for hit in found} == {"passage"}
    expected = draw(1_000, seed=1) @ QUERY
    assert found[0].score == pytest.approx(float(expected.max()), abs=1e-6)
    assert len(search(space, matrix, 5_000)) == 1_000


def test_a_text_is_found_by_the_best_of_its_chunks_and_once(space: Space) -> None:
    space.fill(20)
    away, near = -QUERY, QUERY
    put(space, "p3", away, near, near)
    found = search(space, Matrix(MODEL), 20)
    assert found[0].owner_id == "p3"
    assert found[0].score == pytest.approx(1.0, abs=1e-6)
    assert len(found) == len(set(ids(found))) == 20


@pytest.mark.parametrize("nth", [1, 2, 100, 3_000, 100_000])
def test_a_filter_fills_the_page_from_what_it_leaves(
    space: Space, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    monkeypatch.setattr(exact, "FEW", 40)
    space.fill(3_000)
    truth = space.truth(QUERY, 10, lambda owner: int(owner[1:]) % nth == 0)
    assert filtered(space, Matrix(MODEL), nth) == truth
    assert len(truth) == min(10, -(-3_000 // nth))


def test_equal_vectors_are_all_found(space: Space) -> None:
    space.fill(300)
    for number in range(100, 200):
        put(space, f"p{number}", QUERY)
    found = search(space, Matrix(MODEL), 100)
    assert sorted(ids(found)) == [f"p{number}" for number in range(100, 200)]


def test_what_is_removed_or_replaced_is_gone_at_once(space: Space) -> None:
    space.fill(500)
    matrix = Matrix(MODEL)
    for _ in range(5):
        best = ids(search(space, matrix))[0]
        space.drop(best)
        assert ids(search(space, matrix)) == space.truth(QUERY, 10)
    best = ids(search(space, matrix))[0]
    put(space, best, -QUERY)
    assert ids(search(space, matrix, 1_000))[-1] == best
    assert len(matrix) == 495


def test_a_copy_is_current_after_one_small_read(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    space.fill(100)
    matrix = Matrix(MODEL)
    search(space, matrix)
    statements: list[str] = []
    run = Transaction.execute

    def counted(self: Transaction, statement: object, parameters: object = None) -> object:
        statements.append(str(statement))
        return run(self, statement, parameters)  # type: ignore[arg-type]

    monkeypatch.setattr(Transaction, "execute", counted)
    search(space, matrix)
    assert len(statements) == 1
    assert "vector_changes" in statements[0]


def test_only_what_is_new_is_read(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    space.fill(1_000)
    matrix = Matrix(MODEL)
    search(space, matrix)
    space.fill(3, first=1_000)
    read: list[int] = []
    added = vectors.added

    def counted(tx: Transaction, model: str, *, after: int, upto: int, limit: int) -> object:
        rows = added(tx, model, after=after, upto=upto, limit=limit)
        read.append(len(rows))
        return rows

    monkeypatch.setattr(vectors, "added", counted)
    assert ids(search(space, matrix)) == space.truth(QUERY, 10)
    assert sum(read) == 3


WRITES = """
import sys
from pathlib import Path
from tests.store.index.space import Space
from pagedaemon.store.database import Database, StorePool
pool = StorePool()
database = Database.open(Path(sys.argv[1]), space="lin", pool=pool)
space = Space(database)
space.fill(50, first=1_000)
space.drop(sys.argv[2])
database.close()
pool.close()
"""


def test_what_another_process_writes_and_removes_is_seen(space: Space, path: Path) -> None:
    space.fill(100)
    matrix = Matrix(MODEL)
    best = ids(search(space, matrix))[0]
    source = Path(pagedaemon.__file__).parents[1]
    subprocess.run(
        [sys.executable, "-c", WRITES, str(path), best],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(source)])},
        check=True,
        timeout=60,
    )
    found = ids(search(space, matrix, 200))
    assert len(found) == 149
    assert best not in found
    assert found == space.truth(QUERY, 200)


def test_a_copy_too_old_to_be_told_what_left_is_made_anew(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "KEPT_REMOVALS", 5)
    space.fill(50)
    matrix = Matrix(MODEL)
    search(space, matrix)
    space.drop(*(f"p{number}" for number in range(10)))
    for number in range(10, 30):
        space.drop(f"p{number}")
    assert space.database.read_now(vectors.changes)[1] > 50
    assert ids(search(space, matrix, 50)) == space.truth(QUERY, 50)
    assert len(matrix) == 20


def test_any_order_of_changes_ends_at_the_table(space: Space) -> None:
    chance = random.Random(5)
    matrix, half = Matrix(MODEL), Matrix(MODEL)
    alive: list[str] = []
    for turn in range(60):
        first = turn * 40
        space.fill(chance.randrange(1, 40), first=first)
        alive = space.truth(QUERY, 10_000)
        space.drop(*chance.sample(alive, chance.randrange(len(alive) // 2)))
        if chance.random() < 0.3:
            half.forget_upto(0)
        if chance.random() < 0.5:
            assert ids(search(space, matrix, 10_000)) == space.truth(QUERY, 10_000)
    assert ids(search(space, half, 10_000)) == space.truth(QUERY, 10_000)


def test_memory_follows_what_there_is(space: Space) -> None:
    space.fill(2_000)
    matrix = Matrix(MODEL)
    search(space, matrix)
    assert len(matrix._rows) == 2_000  # the first load knows how many there are
    space.fill(10, first=2_000)
    search(space, matrix)
    assert len(matrix._rows) == 3_000
    space.drop(*(f"p{number}" for number in range(1_900)))
    search(space, matrix)
    assert len(matrix) == 110
    assert len(matrix._rows) == 256
    assert ids(search(space, matrix)) == space.truth(QUERY, 10)


def test_what_something_else_holds_is_left_out(space: Space) -> None:
    space.fill(100)
    matrix = Matrix(MODEL, start=40)
    assert len(search(space, matrix, 200)) == 60
    matrix.forget_upto(90)
    assert sorted(ids(search(space, matrix, 200))) == sorted(f"p{n}" for n in range(90, 100))
    space.drop("p95")
    space.fill(1, first=100)
    assert len(search(space, matrix, 200)) == 10


def test_a_query_of_another_dimension_is_refused(space: Space) -> None:
    space.fill(10)
    wrong = np.ones(DIMENSION + 1, np.float32)
    with pytest.raises(InvalidInput, match="33 dimensions"):
        search(space, Matrix(MODEL), query=wrong)
