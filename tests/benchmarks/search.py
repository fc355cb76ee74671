"""What search costs, and what it costs to be found.

    python tests/benchmarks/search.py [--folder FOLDER] [--json OUT] [--tiny]

Measured is CPU time: of this process, all its threads, and of the process in which Chroma lives.
The query's embedding is left out: vectors are drawn at random and looked up. Texts are of made-up
words, frequent and rare as words are (Zipf), and so are the queries. Archives are filled through
the store's own functions, and searched and added to through the public API.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from figures import table, write_json
from instruments import file_system, fsync_ms

from pagedaemon import AsyncRuntime
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.llm.embedding.protocol import Embedder, Purpose
from pagedaemon.memory.embedding import SearchStatus
from pagedaemon.runtime import DEFAULT_SPACE
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import passages, vectors
from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.index.finder import THRESHOLD, IndexMode
from pagedaemon.store.passages import NewPassage
from pagedaemon.store.transaction import Transaction
from pagedaemon.store.vectors import Embedded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DIMENSION = 384
WORDS_PER_TEXT = 25
WORDS_PER_QUERY = 6
AT_ONCE = 1_000

BARS = {10_000: 10.0, 100_000: 25.0}
"""CPU milliseconds of one search among so many."""

INSERTS = 500.0
"""A second, without an embedder."""


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    passages: tuple[int, ...] = (1_000, 10_000, 100_000)
    queries: int = 40
    inserts: int = 400
    embedded_inserts: int = 200
    syncs: int = 50
    patience: float = 900.0
    """Seconds that Chroma has to take all vectors up."""


TINY = Sizes((300,), 3, 10, 5, 3, 60.0)


class Words:
    """Made-up words, of which few are frequent and most are rare."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        syllables = [a + b for a in "bcdfghklmnprst" for b in "aeiou"]
        self._words = [
            "".join(self._random.choices(syllables, k=self._random.randint(1, 4)))
            for _ in range(8_000)
        ]
        self._weights = [1 / (rank + 3) for rank in range(len(self._words))]

    def text(self, length: int) -> str:
        """So many words."""
        return " ".join(self._random.choices(self._words, self._weights, k=length))


class Drawn:
    """An embedder whose vectors are drawn at random beforehand: it costs nothing that counts."""

    name, dimension, floor = "drawn", DIMENSION, None

    def __init__(self) -> None:
        self._vectors = drawn(64)
        self._next = 0

    async def embed(self, texts: Sequence[str], *, purpose: Purpose) -> list[NDArray[np.float32]]:
        """The next ones."""
        self._next += len(texts)
        return [self._vectors[(self._next + at) % 64] for at in range(len(texts))]

    async def aclose(self) -> None:
        """Nothing."""


def drawn(count: int) -> NDArray[np.float32]:
    """Vectors of length one, at random."""
    import numpy as np

    found: NDArray[np.float32] = (
        np.random.default_rng(count).standard_normal((count, DIMENSION)).astype(np.float32)
    )
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found


def fill(folder: Path, agent_id: str, count: int, words: Words) -> None:
    """Gives an agent so many passages with their vectors."""
    now = datetime.now(UTC)
    pool = StorePool()
    path = folder / "spaces" / DEFAULT_SPACE / "space.db"
    database = Database.open(path, space=DEFAULT_SPACE, pool=pool)

    def add(tx: Transaction, many: int) -> None:
        archive = passages.archive_of(tx, agent_id) or passages.add_archive(tx, agent_id, now)
        new = [
            NewPassage(words.text(WORDS_PER_TEXT), "semantic", (), None, 1.0, "api", None, "owner")
            for _ in range(many)
        ]
        ids = passages.add_all(tx, archive, agent_id, new, [now] * len(new))
        made = [
            Embedded("passage", one, [vector], "")
            for one, vector in zip(ids, drawn(many), strict=True)
        ]
        vectors.put(tx, Drawn.name, made)
        agent_rows.count_archival(tx, agent_id, many)

    for first in range(0, count, AT_ONCE):
        many = min(AT_ONCE, count - first)
        database.write_now(partial(add, many=many))
    database.close()
    pool.close()


def open_at(
    folder: Path, embedder: Embedder | str | None, index: IndexMode = "exact"
) -> AsyncRuntime:
    """A runtime that never asks a model."""
    return AsyncRuntime(folder, model="offline", embedder=embedder, index=index)


def cpu_seconds() -> float:
    """CPU time of this process and of those that it started and that still run, where the system
    tells."""
    spent = time.process_time()
    ticks = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
    for listed in Path("/proc/self/task").glob("*/children"):
        for child in listed.read_text(encoding="ascii").split():
            stat = Path("/proc", child, "stat").read_text(encoding="utf-8")
            spent += sum(map(int, stat.rsplit(")", 1)[1].split()[11:13])) / ticks
    return spent


def resident_mb() -> float:
    """Memory of this process, where the system tells; else 0."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return 0.0
    lines = status.read_text(encoding="utf-8").splitlines()
    (size,) = [line.split()[1] for line in lines if line.startswith("VmRSS")]
    return int(size) / 1_024


async def searches(folder: Path, count: int, sizes: Sizes) -> dict[str, Any]:
    """CPU of one search, by words alone, with exact search, and with what `auto` chooses."""
    words = Words(count)
    async with open_at(folder, None) as runtime:
        agent = await runtime.agents.ensure("ada")
    await asyncio.to_thread(fill, folder, agent.id, count, words)
    queries = [words.text(WORDS_PER_QUERY) for _ in range(sizes.queries)]
    found: dict[str, Any] = {"passages": count}
    ways: list[tuple[str, Embedder | None, IndexMode]] = [
        ("keywords", None, "exact"),
        ("exact", Drawn(), "exact"),
        ("auto", Drawn(), "auto"),
    ]
    for name, embedder, index in ways:
        async with open_at(folder, embedder, index) as runtime:
            agent = await runtime.agents.get("ada")
            via = await warm(runtime, agent, queries[0], sizes) if name == "auto" else name
            await agent.archive.search(queries[0])
            found[name] = {"via": via, "cpu_ms": await per_search(agent, queries)}
    return found


async def warm(runtime: AsyncRuntime, agent: AsyncAgent, query: str, sizes: Sizes) -> str:
    """Waits until what `auto` chooses for so many has taken them up; which it is."""
    expected = "chroma" if (await runtime.search_status()).stored >= THRESHOLD else "exact"
    await agent.archive.search(query)
    async with asyncio.timeout(sizes.patience):
        await until(runtime, lambda status: status.via == expected)
    return expected


async def until(runtime: AsyncRuntime, true: Callable[[SearchStatus], bool]) -> None:
    """Waits for a state of the default space's search."""
    status = await runtime.search_status()
    while not true(status):
        await asyncio.sleep(0.05)
        status = await runtime.search_status()


async def per_search(agent: AsyncAgent, queries: Sequence[str]) -> float:
    """CPU milliseconds of one search: the median of five rounds over all queries."""
    rounds = []
    for _ in range(5):
        began = cpu_seconds()
        for query in queries:
            await agent.archive.search(query)
        rounds.append((cpu_seconds() - began) * 1_000 / len(queries))
    return statistics.median(rounds)


async def inserts(folder: Path, embedder: str | None, count: int) -> dict[str, Any]:
    """How many records are stored a second, one by one, and when all are embedded."""
    words = Words(count)
    texts = [words.text(WORDS_PER_TEXT) for _ in range(count)]
    async with open_at(folder, embedder) as runtime:
        agent = await runtime.agents.ensure("ada")
        await agent.archive.insert("the first one")
        began = time.perf_counter()
        for text in texts:
            await agent.archive.insert(text)
        stored = time.perf_counter() - began
        await until(runtime, lambda status: status.pending == 0)
        embedded = time.perf_counter() - began
    return {
        "per_second": count / stored,
        "embedded_per_second": count / embedded if embedder is not None else None,
    }


async def embedder_memory(folder: Path) -> dict[str, float]:
    """Memory before and after the local embedder has come to work."""
    before = resident_mb()
    async with open_at(folder, "local") as runtime:
        agent = await runtime.agents.ensure("ada")
        opened = resident_mb()
        await agent.archive.insert("Lin drinks tea in the garden")
        await until(runtime, lambda status: status.stored > 0)
        await agent.archive.search("what does Lin drink?")
        return {"started_mb": before, "opened_mb": opened, "embedding_mb": resident_mb()}


async def measured(folder: Path, sizes: Sizes) -> dict[str, Any]:
    """All figures."""
    return {
        "python": platform.python_version(),
        "file_system": file_system(folder),
        "fsync_ms": fsync_ms(folder, sizes.syncs),
        "memory": await embedder_memory(folder / "memory"),
        "inserts": {
            "without": await inserts(folder / "without", None, sizes.inserts),
            "local": await inserts(folder / "local", "local", sizes.embedded_inserts),
        },
        "searches": [await searches(folder / str(n), n, sizes) for n in sizes.passages],
    }


def summary(figures: dict[str, Any]) -> list[tuple[object, ...]]:
    """Rows of (what, ours, bar, verdict)."""
    rows: list[tuple[object, ...]] = []
    for one in figures["searches"]:
        bar = BARS.get(one["passages"])
        for way in ("keywords", "exact", "auto"):
            spent = one[way]["cpu_ms"]
            what = f"search among {one['passages']:,}, {way} ({one[way]['via']}), ms CPU"
            judged = bar is not None and way == "auto"
            verdict = ("ok" if spent <= bar else "ABOVE") if judged else ""
            rows.append((what, spent, f"<= {bar:g}" if judged else None, verdict))
    without, local = figures["inserts"]["without"], figures["inserts"]["local"]
    verdict = "ok" if without["per_second"] >= INSERTS else "BELOW"
    rows += [
        ("inserts a second, without embedder", without["per_second"], f">= {INSERTS:g}", verdict),
        ("inserts a second, local embedder", local["per_second"], None, ""),
        ("the same, until all are embedded", local["embedded_per_second"], None, ""),
    ]
    memory = figures["memory"]
    rows += [
        ("memory, runtime open, MB", memory["opened_mb"], None, ""),
        ("memory, local embedder at work, MB", memory["embedding_mb"], None, ""),
    ]
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the arguments, measures, prints. Returns the exit status: 0, whatever was measured."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--folder", help="where stores are made; default: the temporary folder")
    parser.add_argument("--json", help="where the figures are written")
    parser.add_argument("--tiny", action="store_true", help="only show that it runs")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="search-", dir=given.folder) as folder:
        figures = asyncio.run(measured(Path(folder).resolve(), TINY if given.tiny else Sizes()))
    where = f"{figures['file_system']}, fsync {figures['fsync_ms']:.2f} ms"
    print(table(f"Search on {where}", ["", "ours", "bar", ""], summary(figures)))
    write_json(given.json, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
