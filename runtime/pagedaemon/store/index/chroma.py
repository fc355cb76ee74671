"""Chroma, seen from the process that uses it: a child to whom requests are sent.

Whatever happens to the child, its folder or its server comes out as `IndexUnusable`, and the child
is gone; the next one begins anew. Nothing of Chroma is imported here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock, Timer
from typing import IO, Any

from pagedaemon.store.index.frames import read_frame, write_frame
from pagedaemon.store.vectors import Vector

OPENING = 60.0
"""Seconds until an index must be open; Chroma alone takes one to be imported."""

ANSWERING = 5.0
"""Seconds a search waits for the child before it is answered without it."""

WRITING = 60.0
"""Seconds a portion of vectors may take, and closing."""

COMMAND = (sys.executable, "-P", "-m", "pagedaemon.store.index.child")


class IndexUnusable(Exception):
    """The index cannot answer. Nothing is lost: it is made anew from the table.

    Attributes:
        busy: it is sound, and another process has it.
    """

    def __init__(self, reason: str, *, busy: bool = False) -> None:
        super().__init__(reason)
        self.busy = busy


@dataclass(frozen=True, slots=True)
class Where:
    """What an index is of, and where it is kept.

    Attributes:
        folder: its own; nobody else may write there.
        url: a Chroma server, such as `http://localhost:8000`, instead of the folder.
        name: tells it from others on that server.
        model: whose vectors.
        dimension: of the vectors.
    """

    folder: Path
    url: str | None
    name: str
    model: str
    dimension: int


class Chroma:
    """One child. Its methods block and may be called from any thread.

    Attributes:
        added: it has every vector that changes up to this number added.
        removed: it is without every vector that changes up to this number removed.
        count: how many vectors it had when it was opened.

    Args:
        where: what is opened.
        command: how the child is started.
    """

    def __init__(self, where: Where, command: Sequence[str] = COMMAND) -> None:
        self.where = where
        self.added = 0
        self.removed = 0
        self.count = 0
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._told: IO[bytes] | None = None
        self._lock = Lock()
        self._over = False
        self._file: Path | None = None
        self._known: tuple[int, int] | None = None

    @property
    def pid(self) -> int | None:
        """The child's process, once it was started."""
        return None if self._process is None else self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the child runs."""
        return self._process is not None and self._process.poll() is None

    def open(self) -> None:
        """Starts the child and lets it open the index.

        Raises:
            IndexUnusable: it cannot; `busy` where another process has it.
        """
        where = self.where
        header = {
            "op": "open",
            "folder": str(where.folder),
            "url": where.url,
            "name": where.name,
            "model": where.model,
            "dimension": where.dimension,
        }
        with self._lock:
            if self._over:
                raise IndexUnusable("the index was closed")
            try:
                self._told = TemporaryFile()  # noqa: SIM115 - open as long as the child
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._told,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                )
            except OSError as error:
                if self._told is not None:
                    self._told.close()
                raise IndexUnusable(f"its process cannot be started: {error}") from error
            self._opened(self._ask(header, b"", OPENING))

    def renew(self) -> None:
        """Throws away what there is: an empty generation.

        Raises:
            IndexUnusable: it cannot.
        """
        self._opened(self._request({"op": "renew"}, b"", OPENING))

    def add(self, ids: Sequence[str], vectors: bytes, upto: int) -> None:
        """Adds vectors, one after the other in bytes; now all are in it that changes up to `upto`
        added.

        Raises:
            IndexUnusable: it could not.
        """
        self._request({"op": "add", "ids": list(ids), "upto": upto}, vectors, WRITING)
        self.added = upto

    def remove(self, ids: Sequence[str], upto: int) -> None:
        """Removes vectors; now none is in it that changes up to `upto` removed. An id it does not
        have is passed over.

        Raises:
            IndexUnusable: it could not.
        """
        self._request({"op": "remove", "ids": list(ids), "upto": upto}, b"", WRITING)
        self.removed = upto

    def search(self, query: Vector, k: int) -> list[str]:
        """The ids of the nearest, nearest first; fewer than `k` only where there are no more.

        Raises:
            IndexUnusable: it could not.
        """
        self._require_folder()
        body = query.astype("<f4").tobytes()
        answer = self._request({"op": "query", "k": k}, body, ANSWERING)
        ids: list[str] = answer["ids"]
        # A graph that lost some of its edges, as after damage, no longer reaches all it has.
        if answer["count"] is not None and len(ids) < min(k, answer["count"]) * 0.9:
            raise self._lost(f"it found {len(ids)} of {answer['count']} when asked for {k}")
        return ids

    def close(self) -> None:
        """Has the child close the index cleanly and waits for its end. Twice does nothing.

        Raises:
            IndexUnusable: it could not; the index will be made anew.
        """
        with self._lock:
            if self._over or self._process is None:
                self._over = True
                return
            try:
                self._ask({"op": "close"}, b"", WRITING)
            finally:
                self._end()

    def kill(self) -> None:
        """Ends the child at once."""
        process = self._process
        if process is not None:
            process.kill()
        with self._lock:
            self._end()

    def _request(self, header: dict[str, Any], body: bytes, seconds: float) -> dict[str, Any]:
        with self._lock:
            return self._ask(header, body, seconds)

    def _ask(self, header: dict[str, Any], body: bytes, seconds: float) -> dict[str, Any]:
        process = self._process
        if process is None or self._over:
            raise IndexUnusable("its process has ended")
        assert process.stdin is not None
        assert process.stdout is not None
        clock = Timer(seconds, process.kill)
        clock.daemon = True
        clock.start()
        try:
            write_frame(process.stdin, header, body)
            frame = read_frame(process.stdout)
        except (OSError, ValueError) as error:
            raise self._lost(f"its process has ended ({error}){self._last_words()}") from error
        finally:
            clock.cancel()
        if frame is None:
            raise self._lost(f"its process ended during {header['op']!r}{self._last_words()}")
        answer, _ = frame
        if "error" in answer:
            raise self._lost(answer["error"], busy=answer["busy"])
        return answer

    def _lost(self, reason: str, *, busy: bool = False) -> IndexUnusable:
        if self._process is not None:
            self._process.kill()
        return IndexUnusable(reason, busy=busy)

    def _last_words(self) -> str:
        """The last line the child wrote for people, such as why it could not start."""
        assert self._told is not None
        self._told.seek(0)
        lines = self._told.read().decode(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return f": {said[-1][:300]}" if said else ""

    def _end(self) -> None:
        """Reaps the child, whose pipes are of no more use. The lock is held."""
        self._over = True
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            # What was left to send has nobody to go to.
            with suppress(BrokenPipeError):
                pipe.close()
        try:
            process.wait(WRITING)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._told is not None:
            self._told.close()

    def _opened(self, state: dict[str, Any]) -> None:
        self.added, self.removed = state["added"], state["removed"]
        self.count = state["count"]
        if state["folder"] is not None:
            self._file = Path(state["folder"]) / "chroma.sqlite3"
            self._known = self._identity()

    def _identity(self) -> tuple[int, int] | None:
        assert self._file is not None
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _require_folder(self) -> None:
        # The child would go on with the files of a folder that somebody has removed.
        if self._file is not None and (self._known is None or self._identity() != self._known):
            raise self._lost(f"{self._file} was removed or replaced")
