"""The threads of one runtime's store, and the queue of writes of each of its spaces."""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Condition, local
from typing import Any, Generic, TypeAlias, TypeVar

from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from pagedaemon.errors import Closed, ConfigError
from pagedaemon.store.transaction import Transaction, storage_error

T = TypeVar("T")
Work: TypeAlias = Callable[[Transaction], T]

MOST_TOGETHER = 64
"""Writes that are given to a store thread at once."""

_thread = local()


class Write(Generic[T]):
    """A transaction function that may write, and whoever waits for what comes of it.

    Attributes:
        work: the function.
        future: the waiter's. It can be cancelled until the write has begun.
        alone: it must have a transaction to itself: one that it shared was lost.
        error: what the function raised when it last ran.
    """

    __slots__ = ("_begun", "_value", "alone", "error", "future", "work")

    def __init__(self, work: Work[T]) -> None:
        self.work = work
        self.future: Future[T] = Future()
        self.alone = False
        self.error: BaseException | None = None
        self._value: T | None = None
        self._begun = False

    def begin(self) -> bool:
        """Whether it is still wanted. From here on a caller that stops waiting does not take it
        back."""
        if not self._begun:
            self._begun = self.future.set_running_or_notify_cancel()
        return self._begun

    def keep(self, call: Callable[[], T]) -> None:
        """Calls, and keeps what comes of it for `settle`."""
        self._value = self.error = None
        try:
            self._value = call()
        # Whatever it is, it is the waiter's, and raised there: another's write must not fail by it.
        except BaseException as error:  # noqa: BLE001
            self.error = error

    def settle(self) -> None:
        """Tells the waiter what was kept."""
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self._value)  # type: ignore[arg-type]  # a T by now

    def refuse(self, error: BaseException) -> None:
        """Tells the waiter that nothing was stored, if it still waits."""
        if not self.future.done() and self.begin():
            self.future.set_exception(error)


Run: TypeAlias = Callable[[Sequence[Write[Any]]], Sequence[Write[Any]]]


class Lane:
    """The writes of one space that wait, in their order. Guarded by the pool's lock.

    Args:
        run: runs writes that waited together, on a store thread. Returns those that are still to be
            run, in order; every other one was settled, or its waiter had gone.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.waiting: deque[Write[Any]] = deque()
        self.busy = False

    def take(self) -> list[Write[Any]]:
        """Those that run next: all that wait, up to `MOST_TOGETHER`, or one that must be alone.

        The first of them has begun with this, so that a write which finds nobody before it is never
        taken back; the others begin when they are run.
        """
        taken: list[Write[Any]] = []
        while self.waiting and len(taken) < MOST_TOGETHER:
            if taken and (taken[0].alone or self.waiting[0].alone):
                break
            write = self.waiting.popleft()
            wanted = not write.future.cancelled() if taken else write.begin()
            if wanted:
                taken.append(write)
        return taken


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
        require_outside()
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

    def submit_in_order(self, lane: Lane, write: Write[Any]) -> None:
        """Runs it after everything given before it in the same lane, together with what waits
        there with it.

        Raises:
            Closed: the pool was closed, or the process was forked after it was made.
        """
        with self._changed:
            self._require_open()
            lane.waiting.append(write)
            if not lane.busy:
                lane.busy = True
                self._ready.append(lane)
        self._start_writes()

    def _start_writes(self) -> None:
        starting = []
        with self._changed:
            while self._ready and self._writing < self._may_write:
                lane = self._ready.popleft()
                self._writing += 1
                starting.append((lane, lane.take()))
        for lane, batch in starting:
            try:
                inner = self._threads.submit(lane.run, batch)
            except RuntimeError as error:  # the program is ending
                inner = Future()
                inner.set_exception(Closed(f"the store's threads were ended: {error}"))
            inner.add_done_callback(partial(self._written, lane, batch))

    def _written(
        self,
        lane: Lane,
        batch: Sequence[Write[Any]],
        inner: Future[Sequence[Write[Any]]],
    ) -> None:
        left: Sequence[Write[Any]] = ()
        error = inner.exception()
        if error is None:
            left = inner.result()
        else:
            for write in batch:
                write.refuse(error)
        with self._changed:
            self._writing -= 1
            lane.waiting.extendleft(reversed(left))
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


def require_outside() -> None:
    """Makes sure that this is no store thread, which would wait for itself."""
    assert not getattr(_thread, "of_pool", False), (
        "a transaction function waits for the store itself"
    )


def _mark_thread() -> None:
    _thread.of_pool = True


def _dial() -> sqlite3.Connection:
    path, busy_timeout = _thread.dialled
    return sqlite3.connect(
        path,
        timeout=busy_timeout,
        isolation_level=None,  # begin and commit are ours
        check_same_thread=False,
        cached_statements=256,
    )
