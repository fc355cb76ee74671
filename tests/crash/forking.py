"""Children forked from a warm process without threads, each dead or done within milliseconds."""

from __future__ import annotations

import asyncio
import functools
import os
import select
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment
from sqlalchemy import create_engine
from tests.crash.points import Tell

from pagedaemon.llm import tokens
from pagedaemon.memory import embedding
from pagedaemon.scheduler import bodies
from pagedaemon.store import pool

PATIENCE = 60.0
"""Seconds a child may take, on a machine that is busy with others."""


@dataclass
class Ended:
    """How a child ended, and what it had told by then."""

    said: list[str]
    killed: bool
    code: int


class Child:
    """A child that runs.

    Args:
        pid: its number.
        pipe: what it tells.
    """

    def __init__(self, pid: int, pipe: int) -> None:
        self._pid = pid
        self._pipe = pipe
        self._status: int | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it has. Waits for nothing."""
        return not self.stands_still() and self._status is not None

    def stands_still(self) -> bool:
        """Whether it was stopped by SIGSTOP since this was asked last. Waits for nothing."""
        if self._status is not None:
            return False
        found, status = os.waitpid(self._pid, os.WUNTRACED | os.WNOHANG)
        if found and os.WIFSTOPPED(status):
            return True
        if found:
            self._status = status
        return False

    def go_on(self) -> None:
        """After it stood still."""
        os.kill(self._pid, signal.SIGCONT)

    def kill(self) -> None:
        """Ends it, if it has not ended."""
        if self._status is None:
            os.kill(self._pid, signal.SIGKILL)
            _, self._status = os.waitpid(self._pid, 0)

    def end(self) -> Ended:
        """Waits for its end.

        Raises:
            TimeoutError: it does not come.
        """
        try:
            said = _heard(self._pipe)
        except TimeoutError:
            self.kill()
            raise
        finally:
            os.close(self._pipe)
            if self._status is None:
                _, self._status = os.waitpid(self._pid, 0)
        status = self._status
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        return Ended(said, killed, os.waitstatus_to_exitcode(status))


def started(work: Callable[[Tell], Awaitable[None]]) -> Child:
    """Runs it in a child, on an event loop of its own."""
    assert threading.active_count() == 1, "forking beside threads could copy a lock that is held"
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reading)

            async def main() -> None:
                await work(lambda line: _write(writing, line))

            asyncio.run(main())
            code = 0
        finally:
            if code:
                traceback.print_exc()
            sys.stderr.flush()
            os._exit(code)
    os.close(writing)
    return Child(pid, reading)


def forked(work: Callable[[Tell], Awaitable[None]]) -> Ended:
    """As `started`, to its end."""
    return started(work).end()


def _write(pipe: int, line: str) -> None:
    """One line, which is out when this returns."""
    os.write(pipe, f"{line}\n".encode())


def _heard(pipe: int) -> list[str]:
    """All that is written to a pipe until its last writer is gone.

    Raises:
        TimeoutError: that takes longer than `PATIENCE`.
    """
    heard = b""
    until = time.monotonic() + PATIENCE
    while select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
        piece = os.read(pipe, 65536)
        if not piece:
            return heard.decode().splitlines()
        heard += piece
    raise TimeoutError(f"a child did not end in {PATIENCE:g} s; it told {heard!r}")


def keep_warm() -> None:
    """Keeps for all children what each of them would otherwise make anew: most of the time of a
    first turn, and none of what they are killed for."""
    # A connection-less engine may be forked, and with it the statements that it has compiled.
    vars(pool)["create_engine"] = functools.cache(create_engine)
    # All runtimes of these children read the shipped templates, in environments that are alike.
    compiling: Callable[..., Any] = Environment.compile
    code: dict[tuple[Any, ...], Any] = {}

    def compiled(environment: Environment, *template: Any) -> Any:
        if template not in code:
            code[template] = compiling(environment, *template)
        return code[template]

    Environment.compile = compiled  # type: ignore[method-assign, assignment]
    making: Callable[..., Any] = vars(bodies)["memory_tools"]
    made: dict[str, Any] = {}

    def memory_tools(prompts: Any, settings: Any) -> Any:
        key = settings.model_dump_json()
        if key not in made:
            made[key] = making(prompts, settings)
        return made[key]

    vars(bodies)["memory_tools"] = memory_tools
    # A tokenizer is 80 MB, and each child would have pages of it to copy.
    vars(tokens)["encoding"] = lambda _: None
    # What happens when nothing else does would happen in some of them only, the slow ones.
    vars(embedding)["QUIET"] = PATIENCE


@contextmanager
def folder() -> Iterator[Path]:
    """A place for stores, on memory where there is one; removed afterwards."""
    memory = Path("/dev/shm")
    place = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place, prefix="pagedaemon-crash-") as made:
        yield Path(made)
