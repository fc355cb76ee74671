"""Transactions: whole or absent, in order, beside readers, over full disks and other processes."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Engine,
    Integer,
    MetaData,
    Table,
    Text,
    bindparam,
    event,
    insert,
    select,
    text,
)
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.schema import CreateTable

import pagedaemon
from pagedaemon.errors import Closed, ConfigError, StorageFull, StorageUnavailable
from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.transaction import Transaction

SOURCE_ROOT = Path(pagedaemon.__file__).parents[1]

notes = Table(
    "notes", MetaData(), Column("name", Text, primary_key=True), Column("number", Integer)
)
"""A table of our own beside the store's: what is tried here does not depend on theirs."""


@pytest.fixture
def pool() -> Iterator[StorePool]:
    pool = StorePool()
    yield pool
    pool.close()


@pytest.fixture
def database(tmp_path: Path, pool: StorePool) -> Iterator[Database]:
    database = opened(tmp_path / "space.db", pool, busy_timeout=10)
    yield database
    database.close()


def opened(path: Path, pool: StorePool, **settings: float) -> Database:
    database = Database.open(path, space="lin", pool=pool, **settings)
    database.write_now(lambda tx: tx.execute(CreateTable(notes, if_not_exists=True)))
    return database


def add(tx: Transaction, name: str, number: int = 0) -> str:
    tx.execute(insert(notes), {"name": name, "number": number})
    return name


def names(tx: Transaction) -> list[str]:
    return [row[0] for row in tx.all(select(notes.c.name).order_by(notes.c.number))]


def run_child(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(SOURCE_ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


OPENED = """
import sys
from pathlib import Path
from sqlalchemy import text
from pagedaemon.errors import Closed, StorageFull
from pagedaemon.store.database import Database, StorePool

pool = StorePool()
database = Database.open(Path(sys.argv[1]), space="lin", pool=pool)
database.write_now(
    lambda tx: tx.execute(
        text("CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, number INTEGER)")
    )
)

def adding(name, size=0):
    row = {"name": name + "x" * size}
    return lambda tx: tx.execute(text("INSERT INTO notes VALUES (:name, 0)"), row)

def names(tx):
    return [row[0] for row in tx.all(text("SELECT name FROM notes ORDER BY name DESC"))]

"""


async def test_what_was_written_is_read(database: Database) -> None:
    assert await database.write(lambda tx: add(tx, "a")) == "a"
    assert await database.read(names) == ["a"]
    assert database.write_now(lambda tx: tx.space) == "lin"
    assert await database.read(lambda tx: tuple(tx.one(select(notes)))) == ("a", 0)


async def test_a_function_that_raises_leaves_nothing(database: Database) -> None:
    def broken(tx: Transaction) -> None:
        add(tx, "a")
        raise ValueError("changed my mind")

    with pytest.raises(ValueError, match="changed my mind"):
        await database.write(broken)
    await database.write(lambda tx: add(tx, "b"))
    assert await database.read(names) == ["b"]


def test_a_constraint_that_fails_is_the_callers_and_the_transaction_stands(
    database: Database,
) -> None:
    def twice(tx: Transaction) -> None:
        add(tx, "a")
        with pytest.raises(IntegrityError):
            add(tx, "a")
        add(tx, "b", 1)

    database.write_now(twice)
    assert database.read_now(names) == ["a", "b"]


def test_a_mistaken_statement_is_no_storage_error(database: Database) -> None:
    with pytest.raises(OperationalError, match="no such table"):
        database.read_now(lambda tx: tx.scalar(text("SELECT it FROM nowhere")))
    assert database.read_now(names) == []


PRAGMAS = {
    "journal_mode": "wal",
    "synchronous": 2,
    "foreign_keys": 1,
    "secure_delete": 1,
    "busy_timeout": 10_000,
}


@pytest.mark.parametrize("name", PRAGMAS)
def test_settings_hold_on_every_connection(database: Database, name: str) -> None:
    def ask(tx: Transaction) -> Any:
        return tx.scalar(text(f"PRAGMA {name}"))

    assert database.write_now(ask) == PRAGMAS[name]
    assert database.read_now(ask) == PRAGMAS[name]
    with pytest.raises(StorageUnavailable):
        database.write_now(lambda tx: tx.execute(text("ROLLBACK")))
    assert database.write_now(ask) == PRAGMAS[name]


def test_a_read_cannot_write(database: Database) -> None:
    with pytest.raises(StorageUnavailable):
        database.read_now(lambda tx: add(tx, "a"))
    assert database.read_now(names) == []


def test_a_read_does_not_wait_for_a_write(database: Database) -> None:
    may_end = threading.Event()

    def slow(tx: Transaction) -> None:
        add(tx, "slow")
        assert may_end.wait(10)

    with ThreadPoolExecutor(1) as caller:
        writing = caller.submit(database.write_now, slow)
        assert database.read_now(names) == []
        may_end.set()
        writing.result()
    assert database.read_now(names) == ["slow"]


def test_reads_get_a_thread_while_writers_of_many_spaces_wait(
    tmp_path: Path, pool: StorePool
) -> None:
    spaces = [opened(tmp_path / f"{number}.db", pool) for number in range(6)]
    may_end = threading.Event()

    def slow(tx: Transaction) -> None:
        add(tx, "a")
        assert may_end.wait(5)

    with ThreadPoolExecutor(6) as callers:
        writing = [callers.submit(space.write_now, slow) for space in spaces]
        time.sleep(0.05)
        assert spaces[5].read_now(names) == []
        may_end.set()
        for one in writing:
            one.result()
    assert [space.read_now(names) for space in spaces] == [["a"]] * 6
    threads = [t for t in threading.enumerate() if t.name.startswith("pagedaemon-store")]
    assert 1 < len(threads) <= 4
    for space in spaces:
        space.close()


def test_a_read_sees_one_snapshot(database: Database) -> None:
    began, go_on = threading.Event(), threading.Event()

    def twice(tx: Transaction) -> tuple[list[str], list[str]]:
        first = names(tx)
        began.set()
        assert go_on.wait(10)
        return first, names(tx)

    with ThreadPoolExecutor(1) as caller:
        reading = caller.submit(database.read_now, twice)
        assert began.wait(10)
        database.write_now(lambda tx: add(tx, "a"))
        go_on.set()
        assert reading.result() == ([], [])
    assert database.read_now(names) == ["a"]


async def test_writes_keep_their_order(database: Database) -> None:
    written: list[int] = []

    def note(number: int) -> Callable[[Transaction], None]:
        def work(tx: Transaction) -> None:
            add(tx, f"{number}", number)
            written.append(number)

        return work

    await asyncio.gather(*(database.write(note(number)) for number in range(100)))
    assert written == list(range(100))
    assert await database.read(names) == [f"{number}" for number in range(100)]


async def test_a_write_whose_caller_gave_up_ends_whole_if_it_has_begun(database: Database) -> None:
    may_end, began = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> None:
        add(tx, "a")
        began.set()
        assert may_end.wait(10)
        add(tx, "b", 1)

    running = asyncio.create_task(database.write(slow))
    waiting = asyncio.create_task(database.write(lambda tx: add(tx, "c", 2)))
    assert await asyncio.to_thread(began.wait, 10)
    running.cancel()
    waiting.cancel()
    done = await asyncio.gather(running, waiting, return_exceptions=True)
    assert [type(one) for one in done] == [asyncio.CancelledError] * 2
    may_end.set()
    await database.write(lambda tx: add(tx, "d", 3))
    assert await database.read(names) == ["a", "b", "d"]


def test_any_thread_and_any_event_loop_may_call(database: Database) -> None:
    def from_a_loop(number: int) -> str:
        return asyncio.run(database.write(lambda tx: add(tx, f"{number}", number)))

    with ThreadPoolExecutor(8) as callers:
        assert list(callers.map(from_a_loop, range(20))) == [f"{n}" for n in range(20)]
    assert len(database.read_now(names)) == 20


def test_a_full_store_keeps_nothing_of_the_transaction_and_works_again(
    database: Database,
) -> None:
    database.write_now(lambda tx: add(tx, "before"))
    pages = database.write_now(lambda tx: tx.scalar(text("PRAGMA page_count")))
    database.write_now(lambda tx: tx.scalar(text(f"PRAGMA max_page_count = {pages + 2}")))

    def swallows(tx: Transaction) -> None:
        add(tx, "first", 1)
        with pytest.raises(StorageFull):
            add(tx, "much" * 20_000, 1)
        with pytest.raises(StorageFull):
            add(tx, "after", 2)

    with pytest.raises(StorageFull):
        database.write_now(swallows)
    assert database.read_now(names) == ["before"]
    database.write_now(lambda tx: tx.scalar(text("PRAGMA max_page_count = 1000000")))
    database.write_now(lambda tx: add(tx, "later", 3))
    assert database.read_now(names) == ["before", "later"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_a_file_that_may_not_grow_is_full_and_works_again(tmp_path: Path) -> None:
    child = run_child(
        OPENED
        + """
import resource

database.write_now(adding("before"))
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
log = Path(sys.argv[1] + "-wal").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (log + 20_000, hard))

def much(tx):
    for number in range(2_000):
        adding(str(number), 1_000)(tx)

for _ in range(2):
    try:
        database.write_now(much)
    except StorageFull as error:
        print("full")
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
database.write_now(adding("after"))
print(database.read_now(names))
database.close()
""",
        tmp_path / "space.db",
    )
    assert child.stdout.splitlines() == ["full", "full", "['before', 'after']"], child.stderr


@pytest.mark.parametrize("last", [True, False])
def test_a_transaction_that_is_gone_takes_no_statement_and_is_not_committed(
    database: Database, last: bool
) -> None:
    def loses(tx: Transaction) -> None:
        add(tx, "a")
        tx.execute(text("ROLLBACK"))
        if not last:
            add(tx, "b", 1)

    with pytest.raises(StorageUnavailable, match="rolled back"):
        database.write_now(loses)
    assert database.read_now(names) == []


def test_a_file_locked_for_too_long_is_unavailable_and_works_again(
    tmp_path: Path, pool: StorePool
) -> None:
    path = tmp_path / "space.db"
    database = opened(path, pool, busy_timeout=0.1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageUnavailable, match="another process") as caught:
        database.write_now(lambda tx: add(tx, "a"))
    assert caught.value.__notes__ == [f"file: {path}"]
    other.execute("COMMIT")
    other.close()
    database.write_now(lambda tx: add(tx, "b"))
    assert database.read_now(names) == ["b"]
    database.close()


def test_damage_is_told_and_not_hidden(tmp_path: Path, pool: StorePool) -> None:
    path = tmp_path / "space.db"
    database = opened(path, pool)
    database.write_now(lambda tx: [add(tx, f"{n}" * 200, n) for n in range(200)])
    database.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StorageUnavailable, match="damaged"):
        Database.open(path, space="lin", pool=pool)


def test_two_processes_write_one_file(tmp_path: Path, database: Database) -> None:
    code = (
        OPENED
        + """
from concurrent.futures import ThreadPoolExecutor

def caller(thread):
    for number in range(60):
        database.write_now(adding(f"{sys.argv[2]}-{thread}-{number}"))

with ThreadPoolExecutor(8) as callers:
    list(callers.map(caller, range(8)))
database.close()
print("done")
"""
    )
    with ThreadPoolExecutor(2) as children:
        ended = list(children.map(lambda n: run_child(code, database.path, n), range(2)))
    assert [child.stdout for child in ended] == ["done\n"] * 2, ended
    written = set(database.read_now(names))
    assert written == {f"{p}-{t}-{n}" for p in range(2) for t in range(8) for n in range(60)}


def test_a_process_killed_inside_a_transaction_leaves_nothing_of_it(database: Database) -> None:
    child = run_child(
        OPENED
        + """
import os, signal

def dies(tx):
    adding("half")(tx)
    os.kill(os.getpid(), signal.SIGKILL)

database.write_now(adding("whole"))
database.write_now(dies)
""",
        database.path,
    )
    assert child.returncode != 0
    assert database.read_now(names) == ["whole"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform does not fork")
def test_after_a_fork_the_child_must_open_its_own(database: Database) -> None:
    child = run_child(
        OPENED
        + """
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)

database.write_now(adding("before"))
database.read_now(names)
sys.stdout.flush()
child = os.fork()
if child == 0:
    for call in (database.read_now, database.write_now):
        try:
            call(names)
        except Closed:
            print("closed")
    try:
        Database.open(Path(sys.argv[1]), space="lin", pool=pool)
    except Closed:
        print("closed")
    database.close()
    pool.close()
    own = StorePool()
    again = Database.open(Path(sys.argv[1]), space="lin", pool=own)
    again.write_now(adding("child"))
    again.close()
    own.close()
    sys.exit(0)
os.waitpid(child, 0)
database.write_now(adding("after"))
print(sorted(database.read_now(names)))
database.close()
pool.close()
""",
        database.path,
    )
    assert child.stdout.splitlines() == ["closed"] * 3 + ["['after', 'before', 'child']"], (
        child.stderr
    )


async def test_a_closed_database_says_so_and_kept_what_was_begun(
    tmp_path: Path, pool: StorePool
) -> None:
    path = tmp_path / "space.db"
    database = opened(path, pool)
    begun = [
        asyncio.create_task(database.write(partial(add, name=f"{number}", number=number)))
        for number in range(20)
    ]
    await asyncio.sleep(0)
    await asyncio.to_thread(database.close)
    await asyncio.gather(*begun)
    database.close()
    with pytest.raises(Closed):
        await database.write(names)
    with pytest.raises(Closed):
        database.read_now(names)
    assert not path.with_name("space.db-wal").exists()
    again = opened(path, pool)
    assert again.read_now(names) == [f"{number}" for number in range(20)]
    again.close()


def test_a_closed_pool_runs_nothing_more(tmp_path: Path) -> None:
    pool = StorePool(threads=1)
    database = opened(tmp_path / "space.db", pool)
    database.write_now(lambda tx: add(tx, "a"))
    pool.close()
    with pytest.raises(Closed):
        database.write_now(names)
    with pytest.raises(Closed):
        database.read_now(names)
    with pytest.raises(Closed):
        Database.open(tmp_path / "other.db", space="lin", pool=pool)
    database.close()


def test_a_pool_needs_a_thread() -> None:
    with pytest.raises(ConfigError):
        StorePool(threads=0)


def test_a_transaction_function_may_not_wait_for_the_store(database: Database) -> None:
    with pytest.raises(AssertionError, match="waits for the store"):
        database.write_now(lambda tx: database.read_now(names))


def test_statements_and_commits_can_be_watched_on_the_engine(database: Database) -> None:
    seen: list[str] = []

    def statement(*arguments: Any) -> None:
        seen.append(arguments[2].split()[0])

    def committed(connection: Any) -> None:
        seen.append("commit")

    event.listen(Engine, "before_cursor_execute", statement)
    event.listen(Engine, "commit", committed)
    try:
        database.write_now(lambda tx: (add(tx, "a"), names(tx)))
        database.read_now(names)
    finally:
        event.remove(Engine, "before_cursor_execute", statement)
        event.remove(Engine, "commit", committed)
    assert seen == ["INSERT", "SELECT", "commit", "SELECT"]


def test_thirteen_statements_stay_under_six_milliseconds(database: Database) -> None:
    find = select(notes.c.number).where(notes.c.name == bindparam("name"))

    def turn(number: int) -> Any:
        def work(tx: Transaction) -> None:
            for part in range(6):
                add(tx, f"{number}-{part}", number)
                tx.first(find, {"name": f"{number}-{part}"})
            names(tx)

        return work

    database.write_now(turn(0))
    begin = time.process_time()
    for number in range(1, 21):
        database.write_now(turn(number))
    assert (time.process_time() - begin) / 20 < 0.006


def test_the_store_loads_neither_alembic_nor_the_orm(tmp_path: Path) -> None:
    child = run_child(
        OPENED
        + """
database.close()
heavy = ("alembic", "sqlalchemy.orm", "openai", "litellm", "chromadb", "tiktoken")
print([name for name in heavy if name in sys.modules])
""",
        tmp_path / "space.db",
    )
    assert child.stdout == "[]\n", child.stderr
