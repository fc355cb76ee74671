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
from threading import Lock, local
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import Connection, event
from sqlalchemy.engine import Engine
from sqlalchemy.engine.default import DefaultDialect

T = TypeVar("T")

Place: TypeAlias = "tuple[str, int | str]"

Tell: TypeAlias = Callable[[str], None]
"""Writes a line to whoever watches from outside; it survives the process."""

AT = "at "
"""How a line begins that tells where a process has come to its place."""

IN = ", in "
"""Stands between the task and the coroutine within it that awaits."""

KINDS = (
    "before a statement",
    "after a statement",
    "before a commit",
    "after a commit",
    "before a task runs on",
    "after a task gave way",
    "inside a tool",
)


def unheard(_: str) -> None:
    """Nobody watches."""


def die() -> None:
    """SIGKILL: nothing is said, written or let go of."""
    os.kill(os.getpid(), signal.SIGKILL)


class FaultPoints:
    """The places of one process, from `arm` to `disarm`.

    Args:
        place: kind and number (from 0) of the place where something happens, or kind and label: the
            first of its places; None to only count.
        tell: told where it happens, just before.
    """

    def __init__(self, place: Place | None = None, tell: Tell = unheard) -> None:
        self.seen: dict[str, list[str]] = {}
        self.act: Callable[[], None] = die
        """What happens there, on the thread that is there."""
        self._place = place
        self._tell = tell
        self._armed = False
        self._lock = Lock()
        self._thread = local()

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
            here = self._place in ((kind, len(labels) - 1), (kind, label))
            if here:
                self._place = None
        if here:
            self._tell(f"{AT}{kind}: {label}")
            self.act()

    def watch(self) -> None:
        """Listens to every engine and to the running event loop, for the life of this process."""
        event.listen(Engine, "before_cursor_execute", self._statement("before a statement"))
        event.listen(Engine, "after_cursor_execute", self._statement("after a statement"))
        event.listen(Engine, "commit", self._committing)
        committing: Callable[..., None] = DefaultDialect.do_commit

        def do_commit(dialect: DefaultDialect, connection: Any) -> None:
            committing(dialect, connection)
            self.reach("after a commit", self._last())

        DefaultDialect.do_commit = do_commit  # type: ignore[method-assign]
        asyncio.get_running_loop().set_task_factory(self._task)

    def _statement(self, kind: str) -> Callable[..., None]:
        def reached(_connection: Connection, _cursor: object, statement: str, *_: object) -> None:
            self._thread.statement = " ".join(statement.split())[:60]
            self.reach(kind, self._thread.statement)

        return reached

    def _committing(self, _connection: Connection) -> None:
        self.reach("before a commit", self._last())

    def _last(self) -> str:
        """The statement that a commit comes after: what tells it from others."""
        return str(getattr(self._thread, "statement", ""))

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

    def __await__(self) -> Generator[Any, Any, T]:
        return self._work.__await__()

    def _place(self) -> str:
        """The task, and the innermost coroutine of it that awaits."""
        inner: Any = self._work
        while hasattr(deeper := getattr(inner, "cr_await", None), "cr_await"):
            inner = deeper
        names = [getattr(one, "__qualname__", type(one).__name__) for one in (self._work, inner)]
        return IN.join(dict.fromkeys(names))

    def send(self, value: Any) -> Any:
        """The task runs on until its next await."""
        self._points.reach("before a task runs on", self._place())
        given = self._work.send(value)
        self._points.reach("after a task gave way", self._place())
        return given

    def throw(self, *raised: Any) -> Any:
        """The task runs on with what its await raised."""
        self._points.reach("before a task runs on", self._place())
        given = self._work.throw(*raised)
        self._points.reach("after a task gave way", self._place())
        return given

    def close(self) -> None:
        """The task is gone."""
        self._work.close()
