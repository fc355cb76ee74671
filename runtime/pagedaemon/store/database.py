"""One space's file and the threads that work on it.

A transaction is one plain function, run whole on a store thread: one hop for all of its statements.
Writes of a space run one after another in the order they were given, on one connection; reads run
beside them, each on a connection and a snapshot of its own, so that none waits for a write to reach
the disk.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Condition, local
from typing import Any, TypeVar

from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from pagedaemon.errors import Closed, ConfigError, StorageUnavailable, StoreError
from pagedaemon.store import upgrade
from pagedaemon.store.transaction import Mode, Transaction, driver, run, storage_error

T = TypeVar("T")
Work = Callable[[Transaction], T]

BUSY_TIMEOUT = 30.0
"""Seconds a write waits for another process's lock."""

IDLE_READERS = 2
"""Reader connections a space keeps open: each costs two file handles, and many spaces are open at
once."""

_thread = local()


class Lane:
    """The writes of one space that wait, in their order. Guarded by the pool's lock."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self.busy = False


class StorePool:
    """The threads that run the transactions of every space of one runtime.

    All but one of them may be writing at a time, so that reads go on while writers wait for the
    disk or for another process. Spaces with waiting writes take turns, one transaction each.

    Args:
        threads: how many there are at most. They start when they are needed.

    Raises:
        ConfigError: fewer than one thread.
    """

    def __init__(self, threads: int = 4) -> None:
        if threads < 1:
            raise ConfigError("a store needs at least one thread")
        self._process = os.getpid()
        self._threads = ThreadPoolExecutor(
            threads, thread_name_prefix="pagedaemon-store", initializer=_mark_thread
        )
        self._may_write = max(1, threads - 1)
        self._writing = 0
        self._ready: deque[Lane] = deque()
        self._changed = Condition()
        self._closed = False
        # One engine for all spaces: a statement is compiled once, and not once in each of them.
        self._engine = create_engine("sqlite+pysqlite://", creator=_dial, poolclass=NullPool)

    def close(self) -> None:
        """Waits for what was begun and ends the threads. Nothing is accepted from here on."""
        if self._process != os.getpid():
            return
        _require_outside()
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._ready and self._writing == 0)
        self._threads.shutdown(wait=True)

    def connect(self, path: Path, busy_timeout: float) -> Connection:
        """A connection to a file, which comes into being empty if it is not there. Nothing is set
        on it yet.

        Raises:
            StorageUnavailable: the file cannot be opened.
            Closed: the pool was closed, or the process was forked after it was made.
        """
        self._require_open()
        _thread.dialled = (os.fspath(path), busy_timeout)
        try:
            return self._engine.connect()
        except DBAPIError as error:
            loss = storage_error(error.orig)
            if loss is None:
                raise
            raise loss from error
        finally:
            # Nothing but this may dial: a reconnection by itself could reach another space's file.
            del _thread.dialled

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Runs it as soon as a thread is free.

        Raises:
            Closed: the pool was closed, or the process was forked after it was made.
        """
        self._require_open()
        try:
            return self._threads.submit(work)
        except RuntimeError as error:  # closed this very moment, or the program is ending
            raise Closed("the store's threads were ended") from error

    def submit_in_order(self, lane: Lane, work: Callable[[], T]) -> Future[T]:
        """Runs it after everything given before it in the same lane. It cannot be cancelled.

        Raises:
            Closed: the pool was closed, or the process was forked after it was made.
        """
        outer: Future[T] = Future()
        # Counts as begun from here on: a caller that stops waiting does not take its write back.
        outer.set_running_or_notify_cancel()
        with self._changed:
            self._require_open()
            lane.waiting.append((work, outer))
            if not lane.busy:
                lane.busy = True
                self._ready.append(lane)
        self._start_writes()
        return outer

    def _start_writes(self) -> None:
        starting = []
        with self._changed:
            while self._ready and self._writing < self._may_write:
                lane = self._ready.popleft()
                self._writing += 1
                # The one place where a group commit would take all that wait, and not the first.
                starting.append((lane, *lane.waiting.popleft()))
        for lane, work, outer in starting:
            try:
                inner = self._threads.submit(work)
            except RuntimeError as error:  # the program is ending
                inner = Future()
                inner.set_exception(Closed(f"the store's threads were ended: {error}"))
            inner.add_done_callback(partial(self._written, lane, outer))

    def _written(self, lane: Lane, outer: Future[Any], inner: Future[Any]) -> None:
        error = inner.exception()
        if error is None:
            outer.set_result(inner.result())
        else:
            outer.set_exception(error)
        with self._changed:
            self._writing -= 1
            if lane.waiting:
                self._ready.append(lane)
            else:
                lane.busy = False
            self._changed.notify_all()
        self._start_writes()

    def _require_open(self) -> None:
        if self._process != os.getpid():
            raise Closed(
                "the store belongs to the process this one was forked from: open a new one"
            )
        if self._closed:
            raise Closed("the store's threads were ended: open a new runtime")


class Database:
    """One space: an SQLite file, its connections and its queue of writes.

    Usable from any thread and any event loop of the process that opened it, and beside other
    processes on the same file. Made by `open`.

    Attributes:
        path: the file.
        space: the space's name, which every row carries.
    """

    def __init__(
        self, path: Path, space: str, pool: StorePool, writer: Connection, busy_timeout: float
    ) -> None:
        self.path = path
        self.space = space
        self._pool = pool
        self._busy_timeout = busy_timeout
        self._writer: Connection | None = writer
        self._lane = Lane()
        self._readers: list[Connection] = []
        self._changed = Condition()
        self._running = 0
        self._closed = False
        self._process = os.getpid()

    @classmethod
    def open(
        cls, path: Path, *, space: str, pool: StorePool, busy_timeout: float = BUSY_TIMEOUT
    ) -> Database:
        """Opens a space's file; makes it if it is not there, upgrades it if it is older. Blocks.

        Args:
            path: the file; folders on the way are made.
            space: the name its rows carry.
            pool: whose threads run its transactions.
            busy_timeout: seconds to wait for another process's lock.

        Raises:
            StoreTooNew: a newer release wrote it. It is left as it was.
            StorageUnavailable: it cannot be read or written, or is no store of ours.
            StorageFull: there is no room to make or upgrade it.
            Closed: the pool was closed.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageUnavailable(f"the folder of {path} cannot be made: {error}") from error
        with _opening(pool, path, busy_timeout) as writer:
            raw = driver(writer)
            # Nothing is set before the file is known to be ours: setting the journal mode writes to
            # it.
            found = _patiently(busy_timeout, lambda: upgrade.recognise(raw, path))
            _configure(raw, busy_timeout)
            upgrade.bring_to_head(writer, path, found)
        return cls(path, space, pool, writer, busy_timeout)

    async def write(self, work: Work[T]) -> T:
        """Runs a function in one transaction that may write, after all writes given before it.

        It runs to its end also when the awaiting task is cancelled; it may be run again, so it must
        have no effect outside the transaction.

        Raises:
            StorageFull: there is no room; nothing was stored.
            StorageUnavailable: the file cannot be read or written, or stayed locked; nothing was
                stored.
            Closed: the database was closed, or the process was forked after it was opened.
        """
        return await asyncio.wrap_future(self._submit_write(work))

    async def read(self, work: Work[T]) -> T:
        """Runs a function on a snapshot of what is committed now. It cannot write and waits for no
        write.

        Raises:
            StorageUnavailable: the file cannot be read, or the function tried to write.
            Closed: the database was closed, or the process was forked after it was opened.
        """
        return await asyncio.wrap_future(self._submit_read(work))

    def write_now(self, work: Work[T]) -> T:
        """`write` for callers without an event loop: blocks until it is stored."""
        _require_outside()
        return self._submit_write(work).result()

    def read_now(self, work: Work[T]) -> T:
        """`read` for callers without an event loop."""
        _require_outside()
        return self._submit_read(work).result()

    def close(self) -> None:
        """Waits for the transactions that were begun and closes the file. Blocks; a second call
        does nothing.

        In a forked child it does nothing at all: the connections are the parent's.
        """
        if self._process != os.getpid():
            return
        _require_outside()
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: self._running == 0)
            connections, self._readers = self._readers, []
            if self._writer is not None:
                connections.append(self._writer)
                self._writer = None
        for connection in connections:
            connection.close()

    def _submit_write(self, work: Work[T]) -> Future[T]:
        self._begin()
        try:
            future = self._pool.submit_in_order(self._lane, partial(self._run_write, work))
        except Closed:
            self._end()
            raise
        future.add_done_callback(self._end)
        return future

    def _submit_read(self, work: Work[T]) -> Future[T]:
        self._begin()
        try:
            future = self._pool.submit(partial(self._run_read, work))
        except Closed:
            self._end()
            raise
        future.add_done_callback(self._end)
        return future

    def _begin(self) -> None:
        if self._process != os.getpid():
            raise Closed(
                f"{self.path} was opened before this process was forked: open it again here"
            )
        with self._changed:
            if self._closed:
                raise Closed(f"{self.path} was closed: open it again")
            self._running += 1

    def _end(self, _: Future[Any] | None = None) -> None:
        with self._changed:
            self._running -= 1
            if self._running == 0:
                self._changed.notify_all()

    def _run_write(self, work: Work[T]) -> T:
        # One write runs at a time, so the writer needs no lock.
        connection, self._writer = self._writer, None
        return self._run(connection or self._connect("write"), "write", work)

    def _run_read(self, work: Work[T]) -> T:
        with self._changed:
            connection = self._readers.pop() if self._readers else None
        return self._run(connection or self._connect("read"), "read", work)

    def _run(self, connection: Connection, mode: Mode, work: Work[T]) -> T:
        sound = True
        try:
            return run(connection, self.space, mode, work)
        except StoreError as error:
            error.add_note(f"file: {self.path}")
            # Whatever went wrong with the file may be gone for whoever opens it anew.
            sound = not isinstance(error, StorageUnavailable)
            raise
        finally:
            self._give_back(connection, mode, sound and not connection.invalidated)

    def _give_back(self, connection: Connection, mode: Mode, sound: bool) -> None:
        if sound and mode == "write":
            self._writer = connection
            return
        with self._changed:
            keep = sound and len(self._readers) < IDLE_READERS
            if keep:
                self._readers.append(connection)
        if not keep:
            connection.close()

    def _connect(self, mode: Mode) -> Connection:
        with _opening(self._pool, self.path, self._busy_timeout) as connection:
            _configure(driver(connection), self._busy_timeout)
            if mode == "read":
                driver(connection).execute("PRAGMA query_only=ON")
        return connection


def _mark_thread() -> None:
    _thread.of_pool = True


def _require_outside() -> None:
    assert not getattr(_thread, "of_pool", False), (
        "a transaction function waits for the store itself"
    )


def _dial() -> sqlite3.Connection:
    path, busy_timeout = _thread.dialled
    return sqlite3.connect(
        path,
        timeout=busy_timeout,
        isolation_level=None,  # begin and commit are ours
        check_same_thread=False,
        cached_statements=256,
    )


@contextmanager
def _opening(pool: StorePool, path: Path, busy_timeout: float) -> Iterator[Connection]:
    """A new connection that is closed again if making it ready fails."""
    connection = pool.connect(path, busy_timeout)
    ready = False
    try:
        yield connection
        ready = True
    except sqlite3.Error as error:
        loss = storage_error(error)
        if loss is None:
            raise
        loss.add_note(f"file: {path}")
        raise loss from error
    finally:
        if not ready:
            connection.close()


def _patiently(seconds: float, action: Callable[[], T]) -> T:
    """Repeats what SQLite refuses as busy without asking its own busy handler, as it does while the
    journal mode of a new file changes."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.005)


def _configure(raw: sqlite3.Connection, busy_timeout: float) -> None:
    (mode,) = _patiently(busy_timeout, lambda: raw.execute("PRAGMA journal_mode=WAL").fetchone())
    if mode != "wal":
        raise StorageUnavailable(
            "the file system cannot share a database (no WAL): use a local disk"
        )
    raw.execute("PRAGMA synchronous=FULL")
    raw.execute("PRAGMA foreign_keys=ON")
    raw.execute("PRAGMA secure_delete=ON")
