"""Archives of any size for the benchmarks of search: made-up words, vectors that cost nothing, and
what of a machine they take."""

from __future__ import annotations

import asyncio
import os
import random
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from pagedaemon import AsyncRuntime
from pagedaemon.llm.embedding.protocol import Embedder, Purpose
from pagedaemon.memory.meaning import SearchStatus
from pagedaemon.runtime import DEFAULT_SPACE
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import passages, vectors
from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.index.finder import IndexMode
from pagedaemon.store.passages import NewPassage
from pagedaemon.store.transaction import Transaction
from pagedaemon.store.vectors import Embedded, Vector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DIMENSION = 384
WORDS_PER_TEXT = 25
WORDS_PER_QUERY = 6
AT_ONCE = 1_000
TOPICS = 1_000

SHARES = {"half": 2, "hundredth": 100, "rare": 10_000}
"""Tags, and every how many-th passage has each."""


DIFFERENT_WORDS = 8_000


class Words:
    """Made-up words, of which few are frequent and most are rare, as words are (Zipf)."""

    def __init__(self, seed: int, different: int = DIFFERENT_WORDS) -> None:
        self._random = random.Random(seed)
        syllables = [a + b for a in "bcdfghklmnprst" for b in "aeiou"]
        self._words = [
            "".join(self._random.choices(syllables, k=self._random.randint(1, 4)))
            for _ in range(different)
        ]
        self._weights = list(accumulate(1 / (rank + 3) for rank in range(len(self._words))))

    def text(self, length: int) -> str:
        """So many words."""
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=length))


class Drawn:
    """An embedder whose vectors are drawn at random, by the checksum of the text: the same text has
    the same one, and it costs next to nothing.

    Args:
        name: another one draws others.
        even: without any order, the hardest case for an index. Otherwise as embeddings lie: by
            topics, and in some directions more than in others.
    """

    dimension, floor = DIMENSION, None

    def __init__(self, name: str = "drawn", *, even: bool = False) -> None:
        import numpy as np

        self.name = f"{name}, even" if even else name
        self._seed = zlib.crc32(name.encode())
        self._spectrum: NDArray[np.float32] | None = None
        if not even:
            self._spectrum = (np.arange(1, DIMENSION + 1) ** -0.5).astype(np.float32)
            chance = np.random.default_rng(self._seed)
            self._topics = chance.standard_normal((TOPICS, DIMENSION)).astype(np.float32)

    def of(self, text: str) -> Vector:
        """The vector of a text."""
        import numpy as np

        number = zlib.crc32(text.encode())
        chance = np.random.default_rng((self._seed, number))
        found: Vector = chance.standard_normal(DIMENSION, dtype=np.float32)
        if self._spectrum is not None:
            found = (self._topics[number % TOPICS] + found) * self._spectrum
        found /= np.sqrt(found @ found)
        return found

    async def embed(self, texts: Sequence[str], *, purpose: Purpose) -> list[Vector]:
        """Theirs."""
        return [self.of(text) for text in texts]

    async def aclose(self) -> None:
        """Nothing."""


def database_of(folder: Path) -> tuple[Database, StorePool]:
    """The default space of a store; both are to be closed."""
    pool = StorePool()
    path = folder / "spaces" / DEFAULT_SPACE / "space.db"
    return Database.open(path, space=DEFAULT_SPACE, pool=pool), pool


def tags_of(number: int) -> tuple[str, ...]:
    """The tags of a passage, by its number in the archive."""
    return tuple(tag for tag, every in SHARES.items() if number % every == 0)


def fill(folder: Path, agent_id: str, count: int, words: Words, embedder: Drawn | None) -> None:
    """Gives an agent so many passages, a millisecond apart, with their vectors unless there is no
    embedder, through the store's own functions."""
    now = datetime.now(UTC)
    first_kept = now - timedelta(milliseconds=count)
    database, pool = database_of(folder)

    def add(tx: Transaction, numbers: Sequence[int]) -> None:
        archive = passages.archive_of(tx, agent_id) or passages.add_archive(tx, agent_id, now)
        new = [
            NewPassage(
                words.text(WORDS_PER_TEXT),
                "semantic",
                tags_of(number),
                None,
                1.0,
                "api",
                None,
                "owner",
            )
            for number in numbers
        ]
        kept = [first_kept + timedelta(milliseconds=number) for number in numbers]
        ids = passages.add_all(tx, archive, agent_id, new, kept)
        if embedder is not None:
            made = [
                Embedded(
                    "passage", one, [embedder.of(passages.searched_text(text.text, text.tags))], ""
                )
                for one, text in zip(ids, new, strict=True)
            ]
            vectors.put(tx, embedder.name, made)
        agent_rows.count_archival(tx, agent_id, len(new))

    for first in range(0, count, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, count))
        database.write_now(partial(add, numbers=numbers))
    database.close()
    pool.close()


def open_at(
    folder: Path, embedder: Embedder | str | None, index: IndexMode = "exact"
) -> AsyncRuntime:
    """A runtime that never asks a model."""
    return AsyncRuntime(folder, model="offline", embedder=embedder, index=index)


async def until(runtime: AsyncRuntime, true: Callable[[SearchStatus], bool]) -> None:
    """Waits for a state of the default space's search."""
    status = await runtime.search_status()
    while not true(status):
        await asyncio.sleep(0.05)
        status = await runtime.search_status()


def _children() -> Iterator[str]:
    for listed in Path("/proc/self/task").glob("*/children"):
        yield from listed.read_text(encoding="ascii").split()


def cpu_seconds() -> float:
    """CPU time of this process and of those that it started and that still run, where the system
    tells."""
    spent = time.process_time()
    ticks = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
    for child in _children():
        stat = Path("/proc", child, "stat").read_text(encoding="utf-8")
        spent += sum(map(int, stat.rsplit(")", 1)[1].split()[11:13])) / ticks
    return spent


def resident_mb(process: str = "self") -> float:
    """Memory of a process, where the system tells; else 0."""
    status = Path("/proc", process, "status")
    if not status.is_file():
        return 0.0
    lines = status.read_text(encoding="utf-8").splitlines()
    (size,) = [line.split()[1] for line in lines if line.startswith("VmRSS")]
    return int(size) / 1_024


def children_mb() -> float:
    """Memory of the processes that this one started."""
    return sum(map(resident_mb, _children()))


def size_mb(folder: Path) -> float:
    """What is on the disk under a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 2**20
