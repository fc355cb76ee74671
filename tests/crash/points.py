"""Where a process can be killed: seen from outside, by watching SQLAlchemy and asyncio.

A watched process counts the places it comes past, each kind by itself (statements run on a store
thread while the event loop goes on, so only within its kind is the order always the same), and at
the one it was given it dies by SIGKILL, or does whatever else the test wants there.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from threading import Lock
from typing import Any, TypeVar

from sqlalchemy import Connection, event
from sqlalchemy.engine import Engine
from sqlalchemy.engine.default import DefaultDialect

T = TypeVar("T")

KINDS = (
    "before a statement",
    "after a statement",
    "before a commit",
    "after a commit",
    "before a task runs on",
    "after a task gave way",
    "inside a tool",
)


def die() -> None:
    """SIGKILL: nothing is said, written or let go of."""
    os.kill(os.getpid(), signal.SIGKILL)


class FaultPoints:
    """The places of one process, from `arm` to `disarm`.

    Args:
        place: kind and number (from 0) of the place where something happens; None to only count.
    """

    def __init__(self, place: tuple[str, int] | None = None) -> None:
        self.seen: dict[str, list[str]] = {}
        self.act: Callable[[], None] = die
        """What happens there, on the thread that is there."""
        self._place = place
        self._armed = False
        self._lock = Lock()

    def arm(self) -> None:
        """Counts from here on."""
        self._armed = True

    def disarm(self) -> None:
        """Counts no more."""
        self._armed = False

    def reach(self, kind: str, label: str) -> None:
        """The process is at a place."""
        if not self._armed:
            return
        with self._lock:
            labels = self.seen.setdefault(kind, [])
            labels.append(label)
            here = (kind, len(labels) - 1) == self._place
        if here:
            self.act()

    def watch(self) -> None:
        """Listens to every engine and to the running event loop, for the life of this process."""
        event.listen(Engine, "before_cursor_execute", self._statement("before a statement"))
        event.listen(Engine, "after_cursor_execute", self._statement("after a statement"))
        event.listen(Engine, "commit", self._committing)
        committing: Callable[..., None] = DefaultDialect.do_commit

        def do_commit(dialect: DefaultDialect, connection: Any) -> None:
            committing(dialect, connection)
            self.reach("after a commit", "COMMIT")

        DefaultDialect.do_commit = do_commit  # type: ignore[method-assign]
        asyncio.get_running_loop().set_task_factory(self._task)

    def _statement(self, kind: str) -> Callable[..., None]:
        def reached(_connection: Connection, _cursor: object, statement: str, *_: object) -> None:
            self.reach(kind, " ".join(statement.split())[:60])

        return reached

    def _committing(self, _connection: Connection) -> None:
        self.reach("before a commit", "COMMIT")

    def _task(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Coroutine[Any, Any, T] | Generator[Any, None, T],
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        assert isinstance(work, Coroutine)
        return asyncio.Task(_Watched(work, self), loop=loop, context=context)


class _Watched(Coroutine[Any, Any, T]):
    """A coroutine whose task tells when it runs on and when it gives way: every await that waits.

    asyncio's task is written in C and calls no method of a subclass between two awaits; what it
    does call is the coroutine.
    """

    def __init__(self, work: Coroutine[Any, Any, T], points: FaultPoints) -> None:
        self._work = work
        self._points = points
        self._label = getattr(work, "__qualname__", type(work).__name__)

    def __await__(self) -> Generator[Any, Any, T]:
        return self._work.__await__()

    def send(self, value: Any) -> Any:
        """The task runs on until its next await."""
        self._points.reach("before a task runs on", self._label)
        given = self._work.send(value)
        self._points.reach("after a task gave way", self._label)
        return given

    def throw(self, *raised: Any) -> Any:
        """The task runs on with what its await raised."""
        self._points.reach("before a task runs on", self._label)
        given = self._work.throw(*raised)
        self._points.reach("after a task gave way", self._label)
        return given

    def close(self) -> None:
        """The task is gone."""
        self._work.close()
