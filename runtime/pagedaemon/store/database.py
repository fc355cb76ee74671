"""One space's file and the threads that work on it.

A transaction is one plain function, run whole on a store thread: one hop for all of its statements.
Writes of a space run one after another in the order they were given, on one connection; those that
wait together are committed together. Reads run beside them, each on a connection and a snapshot of
its own, so that none waits for a write to reach the disk.

The file under an open connection can be deleted or replaced, and SQLite would go on writing into
what nobody can open again. So each write looks, before it commits, whether the path still leads to
the file that was opened.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Condition
from typing import Any, TypeVar

from sqlalchemy import Connection

from pagedaemon.errors import Closed, StorageUnavailable, StoreError
from pagedaemon.store import upgrade
from pagedaemon.store.group import Group, run_together
from pagedaemon.store.pool import Lane, StorePool, Work, Write, require_outside
from pagedaemon.store.transaction import Mode, Transaction, driver, run, storage_error

__all__ = ["INDEXES", "Database", "StorePool"]

T = TypeVar("T")

BUSY_TIMEOUT = 30.0
"""Seconds a write waits for another process's lock."""

IDLE_READERS = 2
"""Reader connections a space keeps open: each costs two file handles, and many spaces are open at
once."""


INDEXES = "index"
"""The folder beside the file where its vector indexes are kept."""


class Database:
    """One space: an SQLite file, its connections and its queue of writes.

    Usable from any thread and any event loop of the process that opened it, and beside other
    processes on the same file. Made by `open`.

    Attributes:
        path: the file.
        space: the space's name, which every row carries.
        when_queued: called on a store thread after a commit that put texts in the outbox, with how
            many. None: nobody here makes vectors of them, and none are put there.
    """

    def __init__(
        self, path: Path, space: str, pool: StorePool, writer: Connection, busy_timeout: float
    ) -> None:
        self.path = path
        self._identity = _identity(path)
        self.space = space
        self.when_queued: Callable[[int], None] | None = None
        self._pool = pool
        self._busy_timeout = busy_timeout
        self._writer: Connection | None = writer
        self._lane = Lane(self._run_writes)
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
            StorageUnavailable: it cannot be read or written, is no store of ours, or is empty or
                missing where there was one.
            StorageFull: there is no room to make or upgrade it.
            Closed: the pool was closed.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageUnavailable(f"the folder of {path} cannot be made: {error}") from error
        _refuse_remains(path)
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

        When the awaiting task is cancelled, a write that still waits its turn is taken back, and
        one that has begun runs to its end. It may be run again, so it must have no effect outside
        the transaction; and it may see what writes given before it have not committed yet, but is
        then never committed without them.

        Raises:
            StorageFull: there is no room; nothing was stored.
            StorageUnavailable: the file cannot be read or written, stayed locked, or was deleted
                or replaced since it was opened; nothing was stored.
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
        require_outside()
        return self._submit_write(work).result()

    def read_now(self, work: Work[T]) -> T:
        """`read` for callers without an event loop."""
        require_outside()
        return self._submit_read(work).result()

    def close(self) -> None:
        """Waits for the transactions that were begun and closes the file. Blocks; a second call
        does nothing.

        In a forked child it does nothing at all: the connections are the parent's.
        """
        if self._process != os.getpid():
            return
        require_outside()
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
        write = Write(work)
        write.future.add_done_callback(self._end)
        try:
            self._pool.submit_in_order(self._lane, write)
        except Closed:
            write.future.cancel()
            raise
        return write.future

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

    def _run_writes(self, batch: Sequence[Write[Any]]) -> Sequence[Write[Any]]:
        """Runs writes that waited together. Returns those that are still to be run."""
        wanted = [write for write in batch if not write.future.cancelled()]
        if len(wanted) > 1:
            return self._run_together(wanted)
        for write in wanted:
            write.keep(partial(self._run_write, write.work))
            write.settle()
        return ()

    def _run_together(self, writes: Sequence[Write[Any]]) -> Sequence[Write[Any]]:
        when_queued = self.when_queued
        try:
            group = self._grouped(writes, embeds=when_queued is not None)
        except StoreError as error:
            group = Group(deque(writes), loss=error)
        if group.loss is None:
            if group.queued and when_queued is not None:
                when_queued(group.queued)
            for write in group.begun:
                if isinstance(write.error, StoreError):
                    self._name_file(write.error)
                write.settle()
            return group.left
        if group.begun:
            for write in group.begun:
                write.alone = True
            return [*group.begun, *group.left]
        if not isinstance(group.loss, StoreError):
            raise group.loss
        # All of them have waited for what cannot be begun.
        for write in writes:
            told = type(group.loss)(*group.loss.args)
            told.__cause__ = group.loss
            self._name_file(told)
            write.refuse(told)
        return ()

    def _grouped(self, writes: Sequence[Write[Any]], *, embeds: bool) -> Group:
        connection = self._take_writer()
        sound = False
        try:
            group = run_together(
                connection, self.space, writes, embeds=embeds, ready=self._require_same_file
            )
            sound = not isinstance(group.loss, StorageUnavailable)
            return group
        finally:
            self._give_back(connection, "write", sound and not connection.invalidated)

    def _take_writer(self) -> Connection:
        # Writes of a space are run by one thread at a time, so the writer needs no lock.
        connection, self._writer = self._writer, None
        return connection or self._connect("write")

    def _run_write(self, work: Work[T]) -> T:
        when_queued = self.when_queued
        queued = 0

        def whole(tx: Transaction) -> T:
            nonlocal queued
            tx.embeds = when_queued is not None
            value = work(tx)
            queued = tx.queued
            self._require_same_file()
            return value

        value = self._run(self._take_writer(), "write", whole)
        if queued and when_queued is not None:
            when_queued(queued)
        return value

    def _run_read(self, work: Work[T]) -> T:
        with self._changed:
            connection = self._readers.pop() if self._readers else None
        return self._run(connection or self._connect("read"), "read", work)

    def _run(self, connection: Connection, mode: Mode, work: Work[T]) -> T:
        sound = True
        try:
            return run(connection, self.space, mode, work)
        except StoreError as error:
            self._name_file(error)
            # Whatever went wrong with the file may be gone for whoever opens it anew.
            sound = not isinstance(error, StorageUnavailable)
            raise
        finally:
            self._give_back(connection, mode, sound and not connection.invalidated)

    def _name_file(self, error: StoreError) -> None:
        error.add_note(f"file: {self.path}")

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

    def _require_same_file(self) -> None:
        found = _identity(self.path)
        if found != self._identity:
            what = "deleted or moved" if found is None else "replaced by another file"
            raise StorageUnavailable(
                f"{self.path} was {what} while it was open, so nothing more is written to it. "
                "Close this runtime, put the store's folder back (from a backup), and open a new "
                "one."
            )

    def _connect(self, mode: Mode) -> Connection:
        self._require_same_file()  # or an empty file would be made in its place
        with _opening(self._pool, self.path, self._busy_timeout) as connection:
            _configure(driver(connection), self._busy_timeout)
            if mode == "read":
                driver(connection).execute("PRAGMA query_only=ON")
        return connection


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file a path leads to: device and inode. None: to none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _refuse_remains(path: Path) -> None:
    """An empty or missing file is a new store, unless something beside it is left of an older one.

    A first opening that was killed leaves an empty file and nothing else: SQLite makes the log only
    once the file has its first page. Therefore the log is looked at first: another process may be
    making the store at this moment.
    """
    log = path.with_name(f"{path.name}-wal")
    remains = [log] if log.is_file() and log.stat().st_size else []
    remains += sorted(path.parent.glob(f"{path.name}.before-*"))
    # Made only for vectors that are in the store already.
    index = path.parent / INDEXES
    remains += [index] if index.is_dir() and any(index.iterdir()) else []
    if remains and not (path.is_file() and path.stat().st_size):
        raise StorageUnavailable(
            f"{path} is empty or missing, but {remains[0].name} beside it is left of a store in "
            "use. Put the file back from a backup; or move the whole folder away to begin anew."
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
