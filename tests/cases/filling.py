"""A small disk that is full from one write of a turn after another on (fault O6).

`python -m tests.cases.filling FOLDER` mounts it within FOLDER, where nobody but that process sees
it, and prints a line for each try. It ends with `NOT_PERMITTED` where the system lets it mount
nothing.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine, ExceptionContext
from tests.cases.disk import WRITES, FullAt, Workload
from tests.cases.small_disk import PAGE, SmallDisk, unshare_mounts

from pagedaemon.errors import StorageFull

NOT_PERMITTED = 77
"""Exit code of a process that may not mount."""

SIZE = 5 << 18
"""Bytes: a megabyte and a quarter. The empty store is half of one; with the log of the turn, and of
what is asked when there is room again, a whole one is not enough."""

LARGE = 20 << 20
"""Bytes, for a log of as many pages as one piece of the shared-memory file counts."""

PIECE = 4_062
"""Pages of the log that the first 32 KiB of the shared-memory file (`-shm`) can count
(sqlite.org/walformat.html)."""

WRITE_AT_ONCE = ("cache_size = 1",)
"""Then a statement that needs a page writes another to the log, and leaves that to no commit."""

LONG_LOG = ("wal_autocheckpoint = 0",)
"""Then it is not moved into the file by itself."""

Try: TypeAlias = dict[str, Any]


class FilledAt(FullAt):
    """A small disk that is full from one of a turn's writes on: statements that write, and commits.

    Args:
        place: which, from 0; None for none of them.
        disk: the disk.
        free: pages that are left there.
        settings: pragmas of every connection that writes.

    Attributes:
        met: number of the write that found no space, or of the last before a read that did; None
            where nothing did.
        reads: whether it was a read: one that needs a page writes another's, too.
        code: what SQLite said of that.
    """

    def __init__(
        self,
        place: int | None,
        disk: SmallDisk,
        *,
        free: int = 0,
        settings: Sequence[str] = (),
    ) -> None:
        super().__init__(place)
        self.met: int | None = None
        self.reads = False
        self.code: str | None = None
        self._disk = disk
        self._free = free
        self._settings = settings

    def make_room(self) -> None:
        """It is full no more, and counts no more."""
        super().make_room()
        self._disk.make_room()

    def reach(self, what: str) -> bool:
        """Another write; where it is the one, the disk is filled."""
        here = super().reach(what)
        if here:
            self._disk.fill(self._free)
        return here

    def _writing(self, _: Connection, cursor: Any, statement: str, *rest: object) -> None:
        if statement.startswith(WRITES):
            for setting in self._settings:
                cursor.connection.execute(f"PRAGMA {setting}")
            self.reach(" ".join(statement.split())[:60])

    def _committing(self, _: Connection) -> None:
        last = self.seen[-1] if self.seen else "nothing"
        self.reach(f"COMMIT of {last}")

    def _failed(self, context: ExceptionContext) -> None:
        code = getattr(context.original_exception, "sqlite_errorname", None)
        if code is None or self.code is not None:
            return
        self.code = code
        self.met = len(self.seen) - 1
        self.reads = not (context.statement or "INSERT").startswith(WRITES)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listens to every engine."""
        listeners: dict[str, Callable[..., None]] = {
            "before_cursor_execute": self._writing,
            "commit": self._committing,
            "handle_error": self._failed,
        }
        for name, listener in listeners.items():
            event.listen(Engine, name, listener)
        try:
            yield
        finally:
            for name, listener in listeners.items():
                event.remove(Engine, name, listener)


def log_of(store: Path) -> Path:
    """Where commits are written to."""
    return store / "spaces" / "default" / "space.db-wal"


@contextmanager
def _database(store: Path) -> Iterator[sqlite3.Connection]:
    """One's own connection, in SQLite's own words."""
    file = store / "spaces" / "default" / "space.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as raw:
        yield raw


def lengthen(store: Path) -> None:
    """Makes the log almost as long as one piece of the shared-memory file counts."""
    with _database(store) as raw:
        raw.execute("PRAGMA wal_autocheckpoint = 0")
        raw.execute("PRAGMA synchronous = OFF")
        while log_of(store).stat().st_size < (PIECE - 3) * (PAGE + 24):
            # What writes the same again writes nothing.
            raw.execute("UPDATE blocks SET value = value || '.'")
            raw.execute("UPDATE blocks SET value = rtrim(value, '.')")


class Filling:
    """Tries on one disk.

    Args:
        folder: where the store is made that each try gets a copy of.
        disk: the disk.
    """

    def __init__(self, folder: Path, disk: SmallDisk) -> None:
        self._template = folder / "template"
        self._disk = disk

    async def make(self) -> None:
        """The store as it is before."""
        workload = Workload(self._template)
        async with workload.runtime() as runtime:
            await workload.begin(runtime)

    def full_at(
        self,
        place: int | None,
        *,
        leaving: bool = False,
        free: int = 0,
        settings: Sequence[str] = (),
        before: Callable[[Path], None] | None = None,
    ) -> tuple[Try, list[str]]:
        """The work, on a disk that is full at that write; then with room again.

        Args:
            place, free, settings: as in `FilledAt`.
            leaving: the store is closed while the disk is full, and opened again with room.
            before: what is done to the store while it is open, before the work.

        Returns:
            What came of it, and the writes up to where it ended.
        """
        store = self._copy()
        disk = FilledAt(place, self._disk, free=free, settings=settings)
        workload = Workload(store)
        with disk.listening():
            full = asyncio.run(_work(workload, disk, leaving=leaving, before=before))
        with _database(store) as raw:
            query = "SELECT count(*) FROM calls WHERE status = 'unknown'"
            (unknown,) = raw.execute(query).fetchone()
            (told,) = raw.execute(
                "SELECT count(*) FROM messages WHERE text LIKE '%it took effect is unknown%'"
            ).fetchone()
        shutil.rmtree(store)
        assert unknown == told, "who asked is not told"
        found: Try = {"place": place, "free": free, "leaving": leaving, "full": full is not None}
        found |= {"met": disk.met, "reads": disk.reads, "code": disk.code, "unknown": unknown}
        return found, disk.seen

    def statements(self) -> Iterator[Try]:
        """Full at every statement that writes and every commit, which write at once."""
        _, writes = self.full_at(None, settings=WRITE_AT_ONCE)
        yield {"writes": writes}
        for place in range(len(writes)):
            yield self.full_at(place, leaving=place % 2 == 1, settings=WRITE_AT_ONCE)[0]

    def commits(self) -> Iterator[Try]:
        """Full at every commit, which writes all of its pages, and after some of them."""
        _, writes = self.full_at(None)
        for place, what in enumerate(writes):
            for free in (0, 3) if what.startswith("COMMIT") else ():
                yield self.full_at(place, leaving=free == 0, free=free)[0]

    def opening(self, *, new: bool) -> Iterator[Try]:
        """Opens a store, with ever more space until it opens; then with enough.

        Args:
            new: one that is to be made.
        """
        for free in range(0, SIZE // PAGE, 16 if new else 1):
            store = self._disk.folder / "store" if new else self._copy()
            self._disk.fill(free)
            full = asyncio.run(_opens(Workload(store)))
            self._disk.make_room()
            assert not asyncio.run(_opens(Workload(store)))
            if not new:
                asyncio.run(_checked(Workload(store)))
            shutil.rmtree(store)
            yield {"free": free, "full": full}
            if not full:
                return

    def moving(self) -> Iterator[Try]:
        """The log is to be moved into the file, with ever more space until it can be: for another
        connection, and for who closes the store."""
        for free in range(SIZE // PAGE):
            store = self._copy()
            workload = Workload(store)
            full = asyncio.run(self._moved(workload, free))
            left = log_of(store).exists()
            self._disk.make_room()
            asyncio.run(_checked(workload, worked=True))
            shutil.rmtree(store)
            yield {"free": free, "full": full, "left": left}
            if not full:
                return

    async def _moved(self, workload: Workload, free: int) -> bool:
        """Whether there was no space for it; the store is closed either way."""
        disk = FilledAt(None, self._disk, settings=LONG_LOG)
        with disk.listening():
            async with workload.runtime() as runtime:
                agent = await runtime.agents.get("ada")
                assert (await agent.send("work")).reply == "done"
                self._disk.fill(free)
                with _database(workload.store) as raw:
                    try:
                        raw.execute("PRAGMA wal_checkpoint(FULL)")
                    except sqlite3.OperationalError as error:
                        if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                            raise
                        return True
        return False

    def growing(self) -> Iterator[Try]:
        """The shared-memory file has to grow with the log, and there is space for that alone."""
        for free in (20, 24, 28):
            yield self.full_at(0, free=free, settings=LONG_LOG, before=lengthen)[0]

    def _copy(self) -> Path:
        store = self._disk.folder / "store"
        shutil.copytree(self._template, store)
        return store


async def _work(
    workload: Workload,
    disk: FilledAt,
    *,
    leaving: bool,
    before: Callable[[Path], None] | None,
) -> StorageFull | None:
    full: StorageFull | None = None
    async with workload.runtime() as runtime:
        agent = await runtime.agents.get("ada")
        if before is not None:
            before(workload.store)
        disk.arm()
        try:
            assert (await agent.send("work")).reply == "done"
        except StorageFull as error:
            full = error
        if not leaving:
            disk.make_room()
            await workload.check(agent, full)
    disk.make_room()
    if leaving:
        async with workload.runtime() as runtime:
            await workload.check(await runtime.agents.get("ada"), full)
    return full


async def _opens(workload: Workload) -> bool:
    """Whether there is no room to open it."""
    try:
        async with workload.runtime() as runtime:
            await runtime.agents.list()
    except StorageFull:
        return True
    return False


async def _checked(workload: Workload, *, worked: bool = False) -> None:
    """The agent has lost nothing, and answers."""
    async with workload.runtime() as runtime:
        agent = await runtime.agents.get("ada")
        if worked:
            # It rang in a process that is gone.
            assert workload.rung in ([], ["bob"])
            workload.rung[:] = ["bob"]
            await workload.check(agent, None)
        else:
            assert (await agent.send("next")).reply == "echo next"


def tries(folder: Path, small: SmallDisk, large: SmallDisk) -> Iterator[tuple[str, Try]]:
    """All tries, each with the name of its kind."""
    filling = Filling(folder, small)
    asyncio.run(filling.make())
    kinds: dict[str, Iterator[Try]] = {
        "statement": filling.statements(),
        "commit": filling.commits(),
        "opening": filling.opening(new=False),
        "making": filling.opening(new=True),
        "moving": filling.moving(),
        "shared memory": Filling(folder, large).growing(),
    }
    for kind, found in kinds.items():
        for one in found:
            yield kind, one


def main(folder: Path) -> int:
    """Prints the tries. Returns the exit code."""
    small, large = folder / "small", folder / "large"
    small.mkdir()
    large.mkdir()
    try:
        unshare_mounts()
        disks = SmallDisk(small, SIZE), SmallDisk(large, LARGE)
    except OSError as error:
        print(error, file=sys.stderr)
        return NOT_PERMITTED
    for kind, found in tries(folder, *disks):
        print(json.dumps({"kind": kind, **found}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
