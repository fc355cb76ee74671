"""The loop thread of one blocking runtime, and how any thread waits for what runs on it."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from pagedaemon.errors import Closed, ConfigError
from pagedaemon.runtime import AsyncRuntime

T = TypeVar("T")

SLICE = 0.25
"""Seconds until a waiting thread looks whether it was interrupted."""

CLOSED = "this runtime was closed: open a new one"
GONE = "this runtime's event loop was ended: open a new one"


class Door:
    """An event loop in a daemon thread, on which one `AsyncRuntime` lives.

    Usable from any thread, also from one with a running event loop. Every handle holds it; when the
    last of them is gone, or the program ends, the runtime is closed.
    """

    def __init__(self, runtime: AsyncRuntime) -> None:
        self._runtime = runtime
        self._process = os.getpid()
        self._lock = threading.RLock()  # a generator can be collected while it is held
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(
            target=_live,
            args=(self._loop, self._stop, runtime),
            name="pagedaemon-loop",
            daemon=True,
        )
        self._thread.start()
        # It can run in any thread, this loop's too, so it only asks the loop to close and waits for
        # nothing.
        forgotten = weakref.finalize(self, _ask_to_stop, self._loop, self._stop, self._process)
        forgotten.atexit = False
        _close_at_exit(self)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns or raises, once it has ended on the loop.

        An interrupt (Ctrl-C) cancels it, waits for its end, and goes on. A second one does not
        wait.

        Raises:
            Closed: the runtime was closed, also meanwhile, or the process was forked.
            ConfigError: called on the loop itself, which would wait for itself for ever.
        """
        try:
            self._require_usable()
            with self._lock:
                self._require_living()
                ended, cancel = self._begin(work)
        except (Closed, ConfigError):
            work.close()
            raise
        return self._result(ended, cancel)

    def require_open(self) -> None:
        """Raises what `wait` would, where nothing can be waited for any more.

        Raises:
            Closed: the runtime was closed, or the process was forked.
            ConfigError: called on the loop itself.
        """
        self._require_usable()
        with self._lock:
            self._require_living()

    def iterate(self, items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """The generator's items, one by one. Closing it early closes the other one too."""
        try:
            while True:
                found = self.wait(_next(items))
                if not found:
                    return
                yield found[0]
        finally:
            # A forgotten generator ends here in whatever thread collects it: so it does not wait.
            if os.getpid() == self._process:
                with self._lock:
                    if not self._closed and self._thread.is_alive():
                        self._begin(items.aclose())

    def close(self) -> None:
        """Closes the runtime, waits until that is written, and ends the thread. Twice does
        nothing; in a forked child it does nothing at all: the runtime is the parent's.

        Raises:
            ConfigError: called on the loop itself.
        """
        if os.getpid() != self._process:
            return
        self._require_usable()
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if not self._thread.is_alive():
                return
            ended, cancel = self._begin(self._runtime.close())
        try:
            self._result(ended, cancel)
        finally:
            _ask_to_stop(self._loop, self._stop, self._process)
            self._thread.join()

    def _require_usable(self) -> None:
        if os.getpid() != self._process:
            raise Closed("this runtime belongs to the process this one was forked from: open one")
        if threading.current_thread() is self._thread:
            raise ConfigError(
                "a blocking handle was used on the runtime's own event loop, which would wait for "
                "itself: in an async tool await the handles of its ToolContext"
            )

    def _require_living(self) -> None:
        if self._closed:
            raise Closed(CLOSED)
        if not self._thread.is_alive():
            raise Closed(GONE)

    def _begin(self, work: Coroutine[Any, Any, T]) -> tuple[Future[T], Callable[[], None]]:
        """Starts the coroutine on the loop: how it ends, and what cancels it."""
        ended: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            task = self._loop.create_task(work)
            tasks.append(task)
            task.add_done_callback(lambda task: _settle(ended, task))

        def cancel() -> None:
            with suppress(RuntimeError):  # the loop was ended meanwhile: nothing runs any more
                self._loop.call_soon_threadsafe(lambda: tasks[0].cancel())

        try:
            self._loop.call_soon_threadsafe(begin)
        except RuntimeError:
            work.close()
            raise Closed(GONE) from None
        return ended, cancel

    def _result(self, ended: Future[T], cancel: Callable[[], None]) -> T:
        try:
            _wait_for(ended, self._thread)
        finally:
            # An interrupt, or what a signal's handler raised.
            if not ended.done() and self._thread.is_alive():
                cancel()
                _wait_for(ended, self._thread)
        return ended.result()


def _wait_for(ended: Future[T], thread: threading.Thread) -> None:
    # In slices: not every interrupt wakes a thread that waits (none does on Windows, nor where a
    # notebook or an editor sends it), and between two of them it is seen.
    while not ended.done():
        if not thread.is_alive() and not ended.done():  # it may have settled it as it ended
            raise Closed(GONE)
        with suppress(TimeoutError):
            ended.exception(SLICE)


def _settle(ended: Future[T], task: asyncio.Task[T]) -> None:
    if task.cancelled():
        ended.set_exception(Closed("this call was cancelled, or the runtime closed, as it waited"))
    elif (error := task.exception()) is not None:
        ended.set_exception(error)
    else:
        ended.set_result(task.result())


async def _next(items: AsyncGenerator[T, None]) -> tuple[T] | tuple[()]:
    """The next item; nothing after the last."""
    try:
        return (await anext(items),)
    except StopAsyncIteration:
        return ()


# ---------------------------------------------------------------------- the thread's life


def _live(loop: asyncio.AbstractEventLoop, stop: asyncio.Event, runtime: AsyncRuntime) -> None:
    """All that the thread does. It must not hold the door, or nothing would ever forget it."""
    try:
        loop.run_until_complete(_until(stop, runtime))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


async def _until(stop: asyncio.Event, runtime: AsyncRuntime) -> None:
    await stop.wait()
    try:
        await runtime.close()
    finally:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)


def _ask_to_stop(loop: asyncio.AbstractEventLoop, stop: asyncio.Event, process: int) -> None:
    if os.getpid() == process and not loop.is_closed():
        loop.call_soon_threadsafe(stop.set)


_doors: weakref.WeakSet[Door] = weakref.WeakSet()
_registered = threading.Event()


def _close_at_exit(door: Door) -> None:
    _doors.add(door)
    if not _registered.is_set():
        _registered.set()
        # `atexit` comes after the standard library has ended the store's pool of threads, too late
        # to write how a turn was stopped. What runs before that has no public name.
        register: Callable[[Callable[[], None]], Any]
        register = getattr(threading, "_register_atexit", atexit.register)
        register(_close_all)


def _close_all() -> None:
    for door in list(_doors):
        door.close()
