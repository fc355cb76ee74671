"""What the overhead is measured with: a stand-in for the API, counters, clocks, and long pasts."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, Engine, event, update

from pagedaemon import Model
from pagedaemon.clock import new_id
from pagedaemon.messages import Message, Usage
from pagedaemon.runtime import DEFAULT_SPACE
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import conversations as rows
from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.tables import conversations
from pagedaemon.store.transaction import Transaction

MODEL = "openai/gpt-4o-mini"


class Mock:
    """The stand-in for the API, in a child process."""

    def __init__(self, script: Path) -> None:
        self._child = subprocess.Popen(
            [sys.executable, str(script), "--port", "0"], stdout=subprocess.PIPE, text=True
        )
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        found = [word for word in line.split() if word.startswith("http://")]
        if not found:
            self._child.kill()
            raise SystemExit(f"{script} did not say where it listens: {line!r}")
        self.url = found[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.terminate()
        self._child.wait()

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """A request to its own pages, such as `/stats`."""
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(f"{self.url.removesuffix('/v1')}{path}", data) as answer:
            return json.load(answer)

    def model(self, window: int, group: str) -> Model:
        """It as a model; requests of one group are compared with each other."""
        return Model(MODEL, base_url=self.url, context_window=window, extra={"user": group})


class Counted:
    """Counts SQL statements and commits while it is open."""

    def __init__(self) -> None:
        self.statements = 0
        self.commits = 0

    def __enter__(self) -> Self:
        event.listen(Engine, "before_cursor_execute", self._statement)
        event.listen(Engine, "commit", self._commit)
        return self

    def __exit__(self, *_: object) -> None:
        event.remove(Engine, "before_cursor_execute", self._statement)
        event.remove(Engine, "commit", self._commit)

    def _statement(self, *_: object) -> None:
        self.statements += 1

    def _commit(self, _: Connection) -> None:
        self.commits += 1


async def cpu_ms(work: Callable[[], Awaitable[object]]) -> float:
    """CPU time of the whole process while it waits for that, in milliseconds."""
    began = time.process_time()
    await work()
    return (time.process_time() - began) * 1_000


@asynccontextmanager
async def bare_client(url: str) -> AsyncIterator[Callable[[Mapping[str, Any]], Awaitable[None]]]:
    """The client's low-level call alone: it sends a request and reads the streamed answer."""
    import openai

    client = openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0)

    async def call(body: Mapping[str, Any]) -> None:
        chunks = await client.post(
            "/chat/completions",
            cast_to=object,
            body=dict(body),
            stream=True,
            stream_cls=openai.AsyncStream[object],
        )
        async for _ in chunks:
            pass
        await chunks.close()

    async with client:
        yield call


def low(times: Sequence[float]) -> float:
    """The time that a tenth of them stays under: what it takes on a machine left in peace."""
    return sorted(times)[len(times) // 10]


def spoken(first: int, count: int, since: datetime) -> list[Message]:
    """A long talk: a person and the assistant in turns, numbered on."""
    return [
        Message(
            id=new_id("message"),
            seq=number,
            role="user" if number % 2 else "assistant",
            kind="message" if number % 2 else "reply",
            text=f"Note {number}: the parcel for shelf {number % 97} came by way of gate "
            f"{number % 13}, {number * 7919 % 10_007} grams, and nobody asked for it.",
            created_at=since + timedelta(seconds=number),
        )
        for number in range(first, first + count)
    ]


def seed(folder: Path, agent_id: str, conversation_id: str, count: int, *, window: bool) -> None:
    """Gives a conversation a past, through the store's own functions."""
    since = datetime.now(UTC) - timedelta(days=30)
    pool = StorePool()
    path = folder / "spaces" / DEFAULT_SPACE / "space.db"
    database = Database.open(path, space=DEFAULT_SPACE, pool=pool)

    def add(first: int, many: int) -> Callable[[Transaction], None]:
        def work(tx: Transaction) -> None:
            rows.add_messages(tx, agent_id, conversation_id, spoken(first, many, since))
            tx.execute(
                update(conversations)
                .where(conversations.c.id == conversation_id)
                .values(last_seq=first + many - 1)
            )
            agent_rows.spent(tx, agent_id, many, Usage())
            if window:
                rows.window_changed(tx, conversation_id)
            else:
                rows.reset(tx, conversation_id)

        return work

    begun = database.read_now(
        lambda tx: max((one.seq for one in rows.window(tx, conversation_id)), default=0)
    )
    for first in range(begun + 1, begun + count + 1, 2_000):
        database.write_now(add(first, min(2_000, begun + count + 1 - first)))
    database.close()
    pool.close()


def fsync_ms(folder: Path, times: int) -> float:
    """What one durable write of a page costs in this folder: wall time, median."""
    spent: list[float] = []
    with (folder / "page").open("wb") as file:
        for _ in range(times):
            file.write(b"\0" * 4_096)
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            spent.append((time.perf_counter() - began) * 1_000)
    return statistics.median(spent)


def file_system(folder: Path) -> str:
    """The kind of file system a folder is on, where Linux tells."""
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    found = [line.split()[1:3] for line in mounts]
    fitting = [
        (len(place), kind)
        for place, kind in found
        if folder.is_relative_to(place.encode().decode("unicode_escape"))
    ]
    return max(fitting, default=(0, "unknown"))[1]
