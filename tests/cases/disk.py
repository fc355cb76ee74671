"""A turn that writes all there is to write, a disk that is full at one of its writes, and what must
be so afterwards (fault O6).

`python -m tests.cases.disk FOLDER SPARE` fills it by a limit on the size of files, which holds for
a whole process, at each commit in turn; it prints one line for each.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine

from pagedaemon import AsyncRuntime, Block, tool
from pagedaemon.errors import StorageFull
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import FakeClock, ScriptedModel, both, call, check_request, say, view

WRITES = ("INSERT", "UPDATE", "DELETE")


class Workload:
    """One agent, and a turn with an edit, a tool that must not run twice, a passage, a timer, a
    search and a page-out.

    Args:
        store: where it is; made anew.
    """

    def __init__(self, store: Path) -> None:
        self.store = store
        self.rung: list[str] = []

        @tool(effect="once")
        def ring(whom: str) -> str:
            """Rings somebody up."""
            self.rung.append(whom)
            return f"{whom} answered"

        self._ring = ring

    def runtime(self) -> AsyncRuntime:
        """A runtime on the store."""
        return AsyncRuntime(
            self.store,
            model="script",
            models={"script": ScriptedModel(_answer)},
            tools=[self._ring],
            clock=FakeClock(),
            embedder=None,
        )

    async def begin(self, runtime: AsyncRuntime) -> AsyncAgent:
        """The agent, with something in its window."""
        agent = await runtime.agents.create(
            "ada", blocks=[Block(label="human", value="Lin")], tools=[self._ring], timers=True
        )
        await agent.send("hello")
        return agent

    async def check(self, agent: AsyncAgent, full: StorageFull | None) -> None:
        """There is room again: everything has happened once or not at all, and the next message is
        answered.

        Args:
            full: what was raised; None where nothing was.
        """
        assert (await agent.send("next")).reply == "echo next"
        accepted = full is None or full.accepted is not None
        if full is not None:
            assert ("do not send it once more" in str(full)) == accepted
        main = await agent.conversations.get()
        messages = await agent.recall.search(page_size=1_000)
        users = [hit.text for hit in messages.hits[::-1] if hit.message.kind == "message"]
        assert users == ["hello", *(["work"] if accepted else []), "next"]
        block = await agent.blocks.get("human")
        assert block.value == ("Lin\nLikes tea." if accepted else "Lin")
        assert [one.version for one in await block.history()] == list(range(1, 2 + accepted))
        assert await agent.archive.count() == accepted
        assert len(await agent.schedules()) == accepted
        assert self.rung == ["bob"] * accepted
        turns = (await main.turns())[::-1]
        assert [turn.stop_reason for turn in turns] == ["end_turn"] * (2 + accepted)
        results = [hit.message.call_id for hit in messages.hits if hit.message.kind == "result"]
        calls = [made.id for hit in messages.hits for made in hit.message.calls]
        assert sorted(map(str, results)) == sorted(calls)
        report = await main.context()
        check_request([*report.messages, {"role": "user", "content": "?"}], report.tools)


def _answer(request: Request) -> Reply:
    seen = view(request)
    if seen.last_user != "work":
        return say(f"echo {seen.last_user}")
    if "ring" in seen.results:
        return say("done")
    return both(
        call("core_memory_append", label="human", content="Likes tea.", heartbeat=True),
        call("ring", whom="bob", heartbeat=True),
        call("archival_memory_insert", content="Bob has a boat.", heartbeat=True),
        call("set_timer", note="tea", in_minutes=5, heartbeat=True),
        call("conversation_search", query="hello", heartbeat=True),
        call("page_out", through=3, note="They said hello.", heartbeat=True),
    )


class FullAt:
    """A disk that is full at one of a workload's writes and from then on, until there is room.

    Args:
        place: which, from 0; None for none of them.
    """

    def __init__(self, place: int | None) -> None:
        self.seen: list[str] = []
        """The writes that came by."""
        self._place = place
        self._armed = False
        self._has_room = False

    def arm(self) -> None:
        """Counts from here on."""
        self._armed = True

    def make_room(self) -> None:
        """It is full no more, and counts no more."""
        self._armed, self._has_room = False, True

    def reach(self, what: str) -> bool:
        """Another write. Returns whether the disk is full at this one."""
        if not self._armed:
            return False
        self.seen.append(what)
        return len(self.seen) - 1 == self._place

    def _statement(
        self,
        _: Connection,
        cursor: Any,
        statement: str,
        parameters: Any,
        context: Any,
        many: bool,
    ) -> tuple[str, Any]:
        if self._has_room:
            cursor.connection.execute("PRAGMA max_page_count = 1000000")
        if not statement.startswith(WRITES) or not self.reach(statement.split("(")[0]):
            return statement, parameters
        # A number below the file's own counts as that; and in its place one that needs more.
        cursor.connection.execute("PRAGMA max_page_count = 1")
        return "CREATE TABLE filler AS SELECT zeroblob(10000000)", [()] if many else ()

    @contextmanager
    def database(self) -> Iterator[None]:
        """No page more than there are, at a statement that writes (`PRAGMA max_page_count`)."""
        event.listen(Engine, "before_cursor_execute", self._statement, retval=True)
        try:
            yield
        finally:
            event.remove(Engine, "before_cursor_execute", self._statement)


class LimitAt(FullAt):
    """The same by a limit on the size of files (`RLIMIT_FSIZE`), at a commit.

    Args:
        place: as `FullAt`.
        log: the file that commits are written to.
        spare: bytes that it may still grow.
    """

    def __init__(self, place: int | None, log: Path, spare: int) -> None:
        super().__init__(place)
        self._log = log
        self._spare = spare

    def make_room(self) -> None:
        """No limit any more."""
        super().make_room()
        _limit(None)

    def _commit(self, _: Connection) -> None:
        if self.reach("COMMIT"):
            _limit(self._log.stat().st_size + self._spare)

    @contextmanager
    def process(self) -> Iterator[None]:
        """Listens to commits."""
        event.listen(Engine, "commit", self._commit)
        try:
            yield
        finally:
            event.remove(Engine, "commit", self._commit)


def _limit(size: int | None) -> None:
    import resource

    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if size is None else size, hard))


async def work(workload: Workload, disk: FullAt) -> StorageFull | None:
    """Does the work with that disk, makes room, and looks at what is there. Returns what was
    raised."""
    full: StorageFull | None = None
    async with workload.runtime() as runtime:
        agent = await workload.begin(runtime)
        disk.arm()
        try:
            assert (await agent.send("work")).reply == "done"
        except StorageFull as error:
            full = error
        disk.make_room()
        await workload.check(agent, full)
    return full


def sweep(folder: Path, spare: int) -> Iterator[dict[str, object]]:
    """A limit at each commit in turn, until the work is done without coming to the place."""
    for place in range(1_000):
        store = folder / str(place)
        log = store / "spaces" / "default" / "space.db-wal"
        disk = LimitAt(place, log, spare)
        with disk.process():
            full = asyncio.run(work(Workload(store), disk))
        if len(disk.seen) <= place:
            return
        yield {"place": place, "full": full is not None}


if __name__ == "__main__":
    for line in sweep(Path(sys.argv[1]), int(sys.argv[2])):
        print(json.dumps(line), flush=True)
