"""Thirty-two SIGKILLs while vectors are written: no search fails, no process dies of it, and the
index is whole again after each."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.store.index.space import MODEL, Space, draw, ids, until_chroma, until_taken_up

import pagedaemon
from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.index.finder import VectorIndex

ROOT = Path(__file__).parents[3]
CHILDREN, PARENTS = 10, 6
"""Kills in each of two spaces at once."""


@asynccontextmanager
async def opening(path: Path) -> AsyncIterator[tuple[Space, VectorIndex]]:
    pool = StorePool()
    database = Database.open(path, space="lin", pool=pool)
    index = VectorIndex(database, MODEL, mode="chroma", pause=0.001)
    try:
        yield Space(database), index
    finally:
        await index.aclose()
        database.close()
        pool.close()


async def kill_children(path: Path, chance: random.Random) -> int:
    """Kills the child again and again while rows are added and removed. Returns how many searches
    there were; each must be right."""
    answers = 0
    async with opening(path) as (space, index):
        space.fill(300)
        for kill in range(CHILDREN):
            await until_chroma(space, index)
            assert index._chroma is not None
            pid = index._chroma.pid
            assert pid is not None
            space.fill(200, first=1_000 * (kill + 1))
            space.drop(f"p{kill}")
            index.poke()
            await asyncio.sleep(chance.uniform(0, 0.15))
            os.kill(pid, signal.SIGKILL)
            for number in range(5):
                query = draw(1, seed=100 * kill + number)[0]
                truth = space.truth(query, 10)
                assert ids((await index.search(query, 10)).hits) == truth
                answers += 1
        await until_chroma(space, index)
        await until_taken_up(index)
        assert (await index.status()).stored == 300 + 199 * CHILDREN
    return answers


async def test_a_child_killed_while_it_writes_is_replaced(tmp_path: Path) -> None:
    answers = await asyncio.gather(
        kill_children(tmp_path / "one" / "space.db", random.Random(1)),
        kill_children(tmp_path / "two" / "space.db", random.Random(2)),
    )
    assert list(answers) == [5 * CHILDREN, 5 * CHILDREN]


WRITES = """
import asyncio, sys
from pathlib import Path
from tests.store.index.space import *
from tests.store.index.test_kill import opening

async def main():
    async with opening(Path(sys.argv[1])) as (space, index):
        print("open", flush=True)
        for turn in range(1_000_000):
            first = int(sys.argv[2]) * 100_000 + 40 * turn
            space.fill(40, first=first)
            space.drop(f"p{first}")
            query = draw(1, seed=turn)[0]
            page = await index.search(query, 10)
            assert ids(page.hits) == space.truth(query, 10)
            print(page.via, first, flush=True)

asyncio.run(main())
"""


async def kill_parents(path: Path, chance: random.Random) -> int:
    """Kills the process that uses an index. Returns how many searches there were."""
    answers, wanted = 0, 0
    source = Path(pagedaemon.__file__).parents[1]
    for kill in range(PARENTS):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", WRITES, str(path), str(kill)),
            stdout=PIPE,
            stderr=PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(source)])},
        )
        assert process.stdout is not None
        assert process.stderr is not None
        begun = await process.stdout.readline()
        assert begun == b"open\n", (await process.stderr.read()).decode()
        # Some are killed while the index is made or opened, some long after.
        await asyncio.sleep(chance.choice([0, 0.3, 1.2, 2]) + chance.uniform(0, 0.3))
        process.kill()
        told = (await process.stdout.read()).decode().splitlines()
        assert await process.stderr.read() == b""
        assert await process.wait() == -signal.SIGKILL
        answers += len(told)
        wanted += 39 * len(told)
    async with opening(path) as (space, index):
        await until_chroma(space, index)
        await until_taken_up(index)
        assert (await index.status()).stored >= wanted
    return answers


async def test_a_process_killed_while_it_writes_leaves_an_index_that_can_be_trusted(
    tmp_path: Path,
) -> None:
    answers = await asyncio.gather(
        kill_parents(tmp_path / "one" / "space.db", random.Random(1)),
        kill_parents(tmp_path / "two" / "space.db", random.Random(2)),
    )
    assert min(answers) > PARENTS
