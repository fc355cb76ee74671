"""Group commit: writes that wait together are committed together, and fail each for itself."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import IntegrityError

import pagedaemon
from pagedaemon.errors import StorageFull, StorageUnavailable
from pagedaemon.store import group
from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.pool import MOST_TOGETHER, Work
from pagedaemon.store.transaction import Transaction

SOURCE_ROOT = Path(pagedaemon.__file__).parents[1]

LIMITLESS = "PRAGMA max_page_count = 1000000"

TABLES = (
    "CREATE TABLE IF NOT EXISTS notes (number INTEGER PRIMARY KEY, name TEXT UNIQUE)",
    "CREATE TABLE IF NOT EXISTS tags (note INTEGER REFERENCES notes DEFERRABLE INITIALLY DEFERRED)",
    "CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(name)",
)
"""Tables of our own beside the store's; one constraint is only looked at by the commit."""


@pytest.fixture
def pool() -> Iterator[StorePool]:
    pool = StorePool()
    yield pool
    pool.close()


@pytest.fixture
def database(tmp_path: Path, pool: StorePool) -> Iterator[Database]:
    database = opened(tmp_path / "space.db", pool)
    yield database
    database.close()


def opened(path: Path, pool: StorePool, busy_timeout: float = 10) -> Database:
    database = Database.open(path, space="lin", pool=pool, busy_timeout=busy_timeout)
    database.write_now(lambda tx: [tx.execute(text(table)) for table in TABLES])
    return database


def add(tx: Transaction, name: str) -> str:
    tx.execute(text("INSERT INTO words (name) VALUES (:name)"), {"name": name})
    tx.execute(text("INSERT INTO notes (name) VALUES (:name)"), {"name": name})
    return name


def adding(name: str) -> Callable[[Transaction], str]:
    return lambda tx: add(tx, name)


def fails(tx: Transaction, name: str) -> str:
    add(tx, name)
    raise ValueError(name)


def loses(tx: Transaction, name: str) -> str:
    add(tx, name)
    tx.execute(text("ROLLBACK"))
    return name


def breaks_the_commit(tx: Transaction, name: str) -> str:
    add(tx, name)
    tx.execute(text("INSERT INTO tags (note) VALUES (-1)"))
    return name


def too_much(tx: Transaction, name: str) -> str:
    pages = tx.scalar(text("PRAGMA page_count"))
    tx.scalar(text(f"PRAGMA max_page_count = {pages + 2}"))
    try:
        add(tx, name)
        return add(tx, "much" * 20_000)
    finally:
        tx._driver.execute(LIMITLESS)


def names(tx: Transaction) -> list[str]:
    """In the order they were stored; the full text must agree."""
    found = [row[0] for row in tx.all(text("SELECT name FROM notes ORDER BY number"))]
    words = [row[0] for row in tx.all(text("SELECT name FROM words ORDER BY rowid"))]
    assert words == found
    return found


@asynccontextmanager
async def queue_held(database: Database) -> AsyncIterator[None]:
    """What is written inside waits, and goes on together at the end."""
    began, may_end = threading.Event(), threading.Event()

    def hold(tx: Transaction) -> None:
        began.set()
        assert may_end.wait(10)

    holding = asyncio.create_task(database.write(hold))
    assert await asyncio.to_thread(began.wait, 10)
    try:
        yield
    finally:
        await asyncio.sleep(0)  # the tasks made inside have come to their write
        may_end.set()
        await holding


async def together(
    database: Database, works: Sequence[Work[Any]], cancelled: Sequence[int] = ()
) -> list[Any]:
    """What came of writes that waited together: values and exceptions."""
    async with queue_held(database):
        tasks = [asyncio.create_task(database.write(work)) for work in works]
        await asyncio.sleep(0)
        for number in cancelled:
            tasks[number].cancel()
    return await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def commits() -> Iterator[Counter[str]]:
    """Counts what the engines commit."""
    seen: Counter[str] = Counter()

    def committed(_: object) -> None:
        seen["commit"] += 1

    event.listen(Engine, "commit", committed)
    try:
        yield seen
    finally:
        event.remove(Engine, "commit", committed)


def traced(database: Database) -> list[str]:
    """The SQL of the writer from here on, as SQLite sees it."""
    seen: list[str] = []
    database.write_now(lambda tx: tx._driver.set_trace_callback(seen.append))
    seen.clear()
    return seen


async def test_writes_that_wait_together_share_a_commit(database: Database) -> None:
    with commits() as seen:
        done = await together(database, [adding(f"{number}") for number in range(20)])
    assert done == [f"{number}" for number in range(20)]
    assert seen["commit"] == 2  # that of the write they waited for, and theirs
    assert await database.read(names) == done


async def test_a_lone_write_has_no_savepoint_and_one_beside_others_has(database: Database) -> None:
    sql = traced(database)
    await database.write(adding("a"))
    assert [line.split()[0] for line in sql if not line.startswith("--")] == [
        "BEGIN",
        "INSERT",
        "INSERT",
        "COMMIT",
    ]
    sql.clear()
    await together(database, [adding("b"), adding("c")], cancelled=[1])
    assert not [line for line in sql if "SAVEPOINT" in line]
    sql.clear()
    await together(database, [adding("d"), adding("e")])
    assert [line for line in sql if "member" in line] == ["SAVEPOINT member", "RELEASE member"] * 2


async def test_one_that_raises_fails_alone_with_its_own_error(database: Database) -> None:
    works: list[Work[str]] = [adding("a"), partial(fails, name="b"), adding("a"), adding("c")]
    with commits() as seen:
        first, second, third, fourth = await together(database, works)
    assert (first, fourth) == ("a", "c")
    assert isinstance(second, ValueError)
    assert isinstance(third, IntegrityError)
    assert seen["commit"] == 2
    assert await database.read(names) == ["a", "c"]


async def test_nobody_is_told_before_the_commit_of_all(database: Database) -> None:
    tasks: list[asyncio.Task[str]] = []
    told: list[list[bool]] = []

    def committing(_: object) -> None:
        # What the waiters are told reaches them through the loop, which is let run first.
        time.sleep(0.05)
        told.append([task.done() for task in tasks])

    async with queue_held(database):
        tasks += [asyncio.create_task(database.write(adding(f"{n}"))) for n in range(3)]
        await asyncio.sleep(0)
        event.listen(Engine, "commit", committing)
    try:
        await asyncio.gather(*tasks)
    finally:
        event.remove(Engine, "commit", committing)
    assert told[-1] == [False] * 3


async def test_a_large_write_in_a_full_store_does_not_take_the_small_ones_with_it(
    database: Database,
) -> None:
    works: list[Work[str]] = [
        adding("a"),
        partial(too_much, name="b"),
        adding("c"),
        partial(fails, name="d"),
    ]
    first, second, third, fourth = await together(database, works)
    assert (first, third) == ("a", "c")
    assert isinstance(second, StorageFull)
    assert isinstance(fourth, ValueError)
    assert await database.read(names) == ["a", "c"]


async def test_one_that_loses_the_transaction_does_not_take_the_others_with_it(
    database: Database,
) -> None:
    first, second, third = await together(
        database, [adding("a"), partial(loses, name="b"), adding("c")]
    )
    assert (first, third) == ("a", "c")
    assert isinstance(second, StorageUnavailable)
    assert second.__notes__ == [f"file: {database.path}"]
    assert await database.read(names) == ["a", "c"]


async def test_no_error_is_told_that_rests_on_what_was_never_committed(database: Database) -> None:
    def unless_there(tx: Transaction) -> str:
        if "a" in names(tx):
            raise ValueError("a is there")
        return add(tx, "b")

    first, second = await together(database, [partial(breaks_the_commit, name="a"), unless_there])
    assert isinstance(first, IntegrityError)
    assert second == "b"
    assert await database.read(names) == ["b"]


async def test_a_lock_of_another_process_is_waited_for_once_by_all(
    tmp_path: Path, pool: StorePool
) -> None:
    database = opened(tmp_path / "space.db", pool, busy_timeout=0.3)
    other = sqlite3.connect(database.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    done = await asyncio.gather(
        *(database.write(adding(f"{number}")) for number in range(20)), return_exceptions=True
    )
    assert time.monotonic() - began < 20 * 0.3 / 2
    assert {type(one) for one in done} == {StorageUnavailable}
    assert len({id(one) for one in done}) == 20
    assert [getattr(one, "__notes__", []) for one in done] == [[f"file: {database.path}"]] * 20
    other.execute("ROLLBACK")
    other.close()
    assert await together(database, [adding("a"), adding("b")]) == ["a", "b"]
    assert await database.read(names) == ["a", "b"]
    database.close()


async def test_a_group_is_not_written_into_a_file_that_was_moved_away(database: Database) -> None:
    away = database.path.with_name("away")

    def moving(tx: Transaction) -> str:
        if not away.exists():
            database.path.rename(away)
        return add(tx, "b")

    done = await together(database, [adding("a"), moving, adding("c")])
    assert [type(one) for one in done] == [StorageUnavailable] * 3
    assert all("moved" in str(one) for one in done)
    away.rename(database.path)
    assert await database.write(adding("d")) == "d"
    assert await database.read(names) == ["d"]


async def test_one_whose_caller_gave_up_before_it_began_is_taken_out(database: Database) -> None:
    done = await together(database, [adding(f"{number}") for number in range(5)], [0, 3])
    assert [type(one) for one in done] == [
        asyncio.CancelledError,
        str,
        str,
        asyncio.CancelledError,
        str,
    ]
    assert await database.read(names) == ["1", "2", "4"]


async def test_one_whose_caller_gives_up_after_it_began_is_carried_through(
    database: Database,
) -> None:
    began, may_end = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> str:
        began.set()
        assert may_end.wait(10)
        return add(tx, "b")

    async with queue_held(database):
        works = (adding("a"), slow, adding("c"), adding("d"))
        tasks = [asyncio.create_task(database.write(work)) for work in works]
    assert await asyncio.to_thread(began.wait, 10)
    for task in tasks[:3]:
        task.cancel()
    await asyncio.wait(tasks[:3])
    may_end.set()
    assert await tasks[3] == "d"
    # The third had not begun when its caller gave up.
    assert await database.read(names) == ["a", "b", "d"]


async def test_a_group_has_a_largest_size(database: Database) -> None:
    wanted = [f"{number}" for number in range(2 * MOST_TOGETHER + 1)]
    with commits() as seen:
        assert await together(database, [adding(name) for name in wanted]) == wanted
    assert seen["commit"] >= 1 + 3
    assert seen["commit"] < len(wanted) / 3
    assert await database.read(names) == wanted


async def test_a_group_of_slow_members_is_split(database: Database) -> None:
    def slow(tx: Transaction, name: str) -> str:
        time.sleep(group.LONGEST * 0.6)
        return add(tx, name)

    wanted = [f"{number}" for number in range(6)]
    with commits() as seen:
        done = await together(database, [partial(slow, name=name) for name in wanted])
    assert done == wanted
    assert seen["commit"] >= 1 + 3
    assert await database.read(names) == wanted


async def test_texts_for_the_embedder_are_told_once_after_the_commit(database: Database) -> None:
    told: list[tuple[int, list[str]]] = []
    database.when_queued = lambda count: told.append((count, stored()))

    def stored() -> list[str]:
        other = sqlite3.connect(database.path)
        found = [row[0] for row in other.execute("SELECT name FROM notes")]
        other.close()
        return found

    def queues(tx: Transaction, name: str, many: int) -> str:
        assert tx.embeds
        tx.queued += many
        return add(tx, name)

    def fails_after(tx: Transaction) -> str:
        queues(tx, "c", 100)
        raise ValueError("no")

    await together(
        database,
        [partial(queues, name="a", many=2), partial(queues, name="b", many=3), fails_after],
    )
    assert told == [(5, ["a", "b"])]


def test_spaces_take_turns(tmp_path: Path) -> None:
    pool = StorePool(threads=1)
    one, two = (opened(tmp_path / f"{name}.db", pool) for name in ("one", "two"))
    done: list[str] = []

    def noted(tx: Transaction, name: str) -> None:
        time.sleep(group.LONGEST)
        done.append(add(tx, name))

    async def both() -> None:
        async with queue_held(one):
            writes = [one.write(partial(noted, name=f"one-{n}")) for n in range(4)]
            writes.append(two.write(partial(noted, name="two")))
            tasks = [asyncio.create_task(write) for write in writes]
        await asyncio.gather(*tasks)

    asyncio.run(both())
    assert done.index("two") < 2
    assert [name for name in done if name != "two"] == [f"one-{n}" for n in range(4)]
    one.close()
    two.close()
    pool.close()


def test_a_process_killed_inside_a_group_leaves_nothing_of_it(database: Database) -> None:
    code = """
        import os, signal, sys, threading
        from concurrent.futures import ThreadPoolExecutor
        from pathlib import Path
        from sqlalchemy import text
        from pagedaemon.store.database import Database, StorePool

        database = Database.open(Path(sys.argv[1]), space="lin", pool=StorePool())
        ran = []

        def adding(name):
            def work(tx):
                tx.execute(text("INSERT INTO notes (name) VALUES (:name)"), {"name": name})
                ran.append(name)
                if len(ran) == 4:
                    print(len(ran), flush=True)
                    os.kill(os.getpid(), signal.SIGKILL)
            return work

        may_end = threading.Event()

        def hold(tx):
            adding("whole")(tx)
            assert may_end.wait(10)

        with ThreadPoolExecutor(9) as callers:
            callers.submit(database.write_now, hold)
            while not ran:
                pass
            for number in range(8):
                callers.submit(database.write_now, adding(f"half-{number}"))
            while len(database._lane.waiting) < 8:
                pass
            may_end.set()
    """
    child = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(database.path)],
        env={**os.environ, "PYTHONPATH": str(SOURCE_ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert child.stdout == "4\n"
    found = database.read_now(lambda tx: tx.all(text("SELECT name FROM notes")))
    assert [row[0] for row in found] == ["whole"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_a_file_that_may_not_grow_takes_the_small_writes_of_a_group(database: Database) -> None:
    code = """
        import resource, sys, threading
        from concurrent.futures import ThreadPoolExecutor
        from pathlib import Path
        from sqlalchemy import text
        from pagedaemon.errors import StorageFull
        from pagedaemon.store.database import Database, StorePool

        pool = StorePool()
        database = Database.open(Path(sys.argv[1]), space="lin", pool=pool)
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        began, may_end = threading.Event(), threading.Event()

        def hold(tx):
            began.set()
            assert may_end.wait(10)

        def adding(name, rows=1):
            def work(tx):
                for number in range(rows):
                    row = {"name": f"{name}-{number}" + "x" * (rows - 1)}
                    tx.execute(text("INSERT INTO notes (name) VALUES (:name)"), row)
                return name
            return work

        def told(work):
            try:
                return database.write_now(work)
            except StorageFull:
                return "full"

        with ThreadPoolExecutor(4) as callers:
            callers.submit(database.write_now, hold)
            assert began.wait(10)
            asked = []
            for work in (adding("a"), adding("much", 1_500), adding("b")):
                asked.append(callers.submit(told, work))
                while len(database._lane.waiting) < len(asked):
                    pass
            log = Path(sys.argv[1] + "-wal").stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (log + 100_000, hard))
            may_end.set()
            print([one.result() for one in asked])
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        print(database.write_now(adding("c")))
        database.close()
        pool.close()
    """
    child = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(database.path)],
        env={**os.environ, "PYTHONPATH": str(SOURCE_ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert child.stdout.splitlines() == ["['a', 'full', 'b']", "c"], child.stderr
    found = database.read_now(lambda tx: tx.all(text("SELECT name FROM notes ORDER BY number")))
    assert [row[0] for row in found] == ["a-0", "b-0", "c-0"]


KINDS: dict[str, Callable[..., str]] = {
    "add": add,
    "fails": fails,
    "loses": loses,
    "too much": too_much,
    "breaks the commit": breaks_the_commit,
}

ERRORS: dict[str, type[Exception]] = {
    "fails": ValueError,
    "loses": StorageUnavailable,
    "too much": StorageFull,
    "breaks the commit": IntegrityError,
}


@dataclass(frozen=True)
class Asked:
    """One write of a random mix."""

    kind: str
    name: str
    cancelled: bool


ASKED = st.builds(
    Asked,
    st.sampled_from(["add", "add", "add", *ERRORS]),
    st.sampled_from("abcdefghijkl"),
    st.sampled_from([False, False, False, True]),
)


def modelled(mix: Sequence[Asked]) -> tuple[list[str], list[object]]:
    """What is stored, and what each caller is told, if each write had a transaction to itself."""
    stored: list[str] = []
    told: list[object] = []
    for asked in mix:
        if asked.cancelled:
            told.append(asyncio.CancelledError)
        elif asked.name in stored:
            told.append(IntegrityError)
        elif asked.kind in ERRORS:
            told.append(ERRORS[asked.kind])
        else:
            stored.append(asked.name)
            told.append(asked.name)
    return stored, told


@given(rounds=st.lists(st.lists(ASKED, max_size=12), min_size=1, max_size=3))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_mix_comes_to_what_it_would_come_to_one_by_one(
    database: Database, rounds: list[list[Asked]]
) -> None:
    def clear(tx: Transaction) -> None:
        for table in ("notes", "tags", "words"):
            tx.execute(text(f"DELETE FROM {table}"))

    database.write_now(clear)
    mix: list[Asked] = []
    told: list[object] = []
    for asked in rounds:
        works: list[Work[str]] = [partial(KINDS[one.kind], name=one.name) for one in asked]
        cancelled = [number for number, one in enumerate(asked) if one.cancelled]
        done = asyncio.run(together(database, works, cancelled))
        told += [type(one) if isinstance(one, BaseException) else one for one in done]
        mix += asked
        assert (database.read_now(names), told) == modelled(mix)
    database.write_now(
        lambda tx: tx.execute(text("INSERT INTO words (words) VALUES ('integrity-check')"))
    )
