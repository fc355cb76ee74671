"""One index of a space: who answers, what Chroma is given, and that nobody sees a difference."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from socket import socket

import numpy as np
import pytest
from tests.store.index.space import (
    DIMENSION,
    MODEL,
    Open,
    Space,
    draw,
    every,
    ids,
    until_chroma,
    until_taken_up,
)

import pagedaemon
from pagedaemon.errors import Closed, InvalidInput, StoreError
from pagedaemon.store import vectors
from pagedaemon.store.index import exact, finder
from pagedaemon.store.index.finder import IndexStatus, VectorIndex

ROOT = Path(__file__).parents[3]
QUERY = draw(1, seed=77)[0]


def recall(
    space: Space, found: list[tuple[np.ndarray, list[str]]], allowed: Callable[[str], bool] | None
) -> float:
    """How much of the truth was found, over several searches."""
    right = wanted = 0
    for query, owners in found:
        truth = space.truth(query, 10, allowed)
        right += len(set(truth) & set(owners))
        wanted += len(truth)
    return right / wanted


async def test_below_the_threshold_nothing_but_the_table_is_opened(
    space: Space, opened: Open, path: Path
) -> None:
    space.fill(99)
    index = opened(mode="auto", threshold=100, command=["/nowhere"])
    found = await index.search(QUERY, 10)
    await asyncio.sleep(0.2)
    assert found.via == "exact"
    assert ids(found.hits) == space.truth(QUERY, 10)
    assert await index.status() == IndexStatus("exact", 99, 0, None)
    assert not (path.parent / "index").exists()


async def test_at_the_threshold_chroma_takes_over(space: Space, opened: Open) -> None:
    space.fill(99)
    index = opened(mode="auto", threshold=100)
    assert (await index.search(QUERY, 10)).via == "exact"
    space.fill(1, first=99)
    await until_chroma(space, index)
    assert await index.status() == IndexStatus("chroma", 100, 0, None)


async def test_exact_can_be_forced(space: Space, opened: Open) -> None:
    space.fill(200)
    index = opened(mode="exact", threshold=100)
    assert (await index.search(QUERY, 10)).via == "exact"
    done: list[tuple[int, int]] = []
    assert await index.reindex(lambda one, all_of: done.append((one, all_of))) == 200
    assert done == [(200, 200)]
    assert index._task is None


async def test_a_space_without_vectors_has_nothing_to_find(space: Space, opened: Open) -> None:
    index = opened()
    for _ in range(3):
        assert (await index.search(QUERY, 10)).hits == ()
        await asyncio.sleep(0.05)
    space.fill(1)
    await until_chroma(space, index)


@pytest.mark.parametrize(("nth", "via"), [(1, "chroma"), (2, "chroma"), (100, "exact")])
async def test_chroma_finds_what_exact_search_finds(
    space: Space, opened: Open, monkeypatch: pytest.MonkeyPatch, nth: int, via: str
) -> None:
    monkeypatch.setattr(exact, "FEW", 100)
    space.fill(4_000)
    index = opened()
    await until_chroma(space, index)
    found = []
    for number in range(30):
        query = draw(1, seed=900 + number)[0]
        page = await index.search(query, 10, allowed=None if nth == 1 else every(nth))
        assert page.via == via
        assert len(page.hits) == 10
        found.append((query, ids(page.hits)))
    assert recall(space, found, lambda owner: int(owner[1:]) % nth == 0) >= 0.98


@pytest.mark.parametrize("few", [0, 2_000])
async def test_a_filter_that_leaves_almost_nothing_is_followed_exactly(
    space: Space, opened: Open, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    # Also where it cannot be counted as few: widening the search ends in comparing all it leaves.
    monkeypatch.setattr(exact, "FEW", few)
    monkeypatch.setattr(finder, "_WIDEST", 500)
    space.fill(3_000)
    index = opened()
    await until_chroma(space, index)
    page = await index.search(QUERY, 10, allowed=every(1_500))
    assert page.via == "exact"
    assert ids(page.hits) == space.truth(QUERY, 10, lambda owner: owner in ("p0", "p1500"))


async def test_what_was_just_written_or_removed_counts_before_chroma_knows(
    space: Space, opened: Open
) -> None:
    space.fill(500)
    index = opened()
    await until_chroma(space, index)
    async with index._feeding:  # Chroma is given nothing meanwhile
        space.fill(300, first=500)
        assert (await index.status()).waiting == 300
        for owner in space.truth(QUERY, 3):
            page = await index.search(QUERY, 10)
            assert page.via == "chroma"
            assert ids(page.hits)[0] == owner
            assert ids(page.hits) == space.truth(QUERY, 10)
            space.drop(owner)
        halved = await index.search(QUERY, 10, allowed=every(2))
        assert ids(halved.hits) == space.truth(QUERY, 10, lambda owner: int(owner[1:]) % 2 == 0)
    await until_taken_up(index)
    assert ids((await index.search(QUERY, 10)).hits) == space.truth(QUERY, 10)


async def test_a_text_replaced_is_found_by_its_new_vector_alone(space: Space, opened: Open) -> None:
    space.fill(300)
    index = opened()
    await until_chroma(space, index)
    best = space.truth(QUERY, 1)[0]
    done = [vectors.Embedded("passage", best, [-QUERY, -QUERY], "hash")]
    space.database.write_now(lambda tx: vectors.put(tx, MODEL, done))
    for _ in range(2):
        assert best not in ids((await index.search(QUERY, 20)).hits)
        hits = (await index.search(-QUERY, 20)).hits
        assert ids(hits)[0] == best
        assert len(set(ids(hits))) == 20
        await until_taken_up(index)


async def test_an_index_closed_cleanly_is_opened_as_it_was(space: Space, opened: Open) -> None:
    space.fill(400)
    first = opened()
    await until_chroma(space, first)
    await first.aclose()
    await first.aclose()
    space.fill(50, first=400)
    space.drop("p7")

    second = opened()
    await until_chroma(space, second)
    await until_taken_up(second)
    assert second._chroma is not None
    assert second._chroma.count == 400  # what it had when it was opened
    assert generations(second) == ["gen-1"]


def generations(index: VectorIndex) -> list[str]:
    assert index._chroma is not None
    return sorted(path.name for path in index._chroma.where.folder.glob("gen-*"))


async def test_reindexing_tells_how_far_it_is_and_leaves_one_generation(
    space: Space, opened: Open
) -> None:
    space.fill(600)
    index = opened()
    await until_chroma(space, index)
    done: list[tuple[int, int]] = []
    making = asyncio.create_task(index.reindex(lambda one, all_of: done.append((one, all_of))))
    vias = set()
    while not making.done():
        page = await index.search(QUERY, 10)
        vias.add(page.via)
        assert ids(page.hits) == space.truth(QUERY, 10)
    assert await making == 600
    assert "exact" in vias
    assert done == sorted(done)
    assert done[-1] == (600, 600)
    assert len(done) > 3
    assert generations(index) == ["gen-2"]
    assert (await index.search(QUERY, 10)).via == "chroma"


def lies_on_the_disk(folder: Path, wanted: bytes) -> bool:
    return any(wanted in path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("left", [300, 1])
async def test_reindexing_leaves_nothing_of_what_was_removed(
    space: Space, opened: Open, path: Path, left: int
) -> None:
    space.fill(301)
    gone = draw(301, seed=1)[300].tobytes()
    index = opened(mode="auto", threshold=200)
    await until_chroma(space, index)
    await index.aclose()
    assert lies_on_the_disk(path.parent / "index", gone)
    space.drop(*(f"p{number}" for number in range(left, 301)))
    index = opened(mode="auto", threshold=200)
    assert await index.reindex() == left
    await index.aclose()
    assert not lies_on_the_disk(path.parent / "index", gone)


async def test_an_index_that_cannot_be_made_is_an_error_only_to_who_asked_for_it(
    space: Space, opened: Open
) -> None:
    space.fill(10)
    index = opened(command=[sys.executable, "-c", "raise SystemExit('no such module')"])
    with pytest.raises(StoreError, match=r"could not be made anew: .*no such module"):
        await index.reindex()
    assert ids((await index.search(QUERY, 3)).hits) == space.truth(QUERY, 3)
    assert (await index.status()).trouble is not None


async def test_a_child_that_does_not_answer_delays_a_search_once(
    space: Space, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    space.fill(100)
    index = opened(pause=30.0)
    await until_chroma(space, index)
    assert index._chroma is not None
    pid = index._chroma.pid
    assert pid is not None
    monkeypatch.setattr("pagedaemon.store.index.chroma.ANSWERING", 0.3)
    os.kill(pid, 19)  # stopped, not ended
    began = time.monotonic()
    page = await index.search(QUERY, 10)
    assert page.via == "exact"
    assert ids(page.hits) == space.truth(QUERY, 10)
    assert 0.3 <= time.monotonic() - began < 20


async def test_a_query_of_another_dimension_is_refused_by_either(
    space: Space, opened: Open
) -> None:
    space.fill(10)
    index = opened()
    wrong = np.ones(DIMENSION + 1, np.float32)
    with pytest.raises(InvalidInput, match="dimensions"):
        await index.search(wrong, 3)
    await until_chroma(space, index)
    with pytest.raises(InvalidInput, match="dimensions"):
        await index.search(wrong, 3)
    assert (await index.search(QUERY, 3)).via == "chroma"


async def test_a_closed_index_says_so(space: Space, opened: Open) -> None:
    index = opened()
    await index.aclose()
    with pytest.raises(Closed):
        await index.search(QUERY, 3)
    with pytest.raises(Closed):
        await index.reindex()


GUARDED = """
import os
from pagedaemon.testing import network_guard
import chromadb.utils.embedding_functions as given

def never(*_, **__):
    os._exit(9)

given.DefaultEmbeddingFunction.__init__ = never
with network_guard(allow_loopback=False) as attempts:
    from pagedaemon.store.index.child import main
    main()
assert not attempts, attempts
"""


async def test_chroma_asks_no_network_and_builds_no_embedding_function_of_its_own(
    space: Space, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    space.fill(300)
    index = opened(command=[sys.executable, "-P", "-c", GUARDED])
    await until_chroma(space, index)
    space.drop("p1")
    await until_taken_up(index)
    assert index._chroma is not None
    process = index._chroma._process
    assert process is not None
    await index.aclose()
    assert process.returncode == 0
    assert list(home.rglob("*")) == []


IMPORTS = """
import asyncio, sys
from pathlib import Path
from tests.store.index.space import *
from pagedaemon.store.database import Database, StorePool

async def main():
    pool = StorePool()
    database = Database.open(Path(sys.argv[1]), space="lin", pool=pool)
    space = Space(database)
    index = VectorIndex(database, MODEL, mode="chroma")
    await until_chroma(space, index)
    await index.aclose()
    database.close()
    pool.close()

asyncio.run(main())
heavy = {"chromadb", "onnxruntime", "tokenizers", "openai", "litellm"} & set(sys.modules)
assert not heavy, heavy
"""


def test_the_users_process_never_imports_chroma(space: Space, path: Path) -> None:
    space.fill(50)
    source = Path(pagedaemon.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORTS, str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(source)])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """The address of a Chroma server of our own, and what stops it."""
    with closing(socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = Path(sys.executable).with_name("chroma")
    where = ["--host", "127.0.0.1", "--port", str(port), "--path", str(tmp_path / "served")]
    running = subprocess.Popen(
        [program, "run", *where], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def stop() -> None:
        running.terminate()
        running.wait(30)

    yield f"http://127.0.0.1:{port}", stop
    stop()


async def test_a_chroma_server_does_as_well(
    space: Space, opened: Open, server: tuple[str, Callable[[], None]]
) -> None:
    url, stop = server
    space.fill(300)
    first = opened(url=url)
    await until_chroma(space, first)
    # Another worker shares what is there, and follows the table too.
    second = opened(url=url)
    await until_chroma(space, second)
    assert second._chroma is not None
    assert second._chroma.count == 300
    space.fill(20, first=300)
    space.drop("p3")
    await until_taken_up(first)
    await until_taken_up(second)
    for index in (first, second):
        page = await index.search(QUERY, 10)
        assert page.via == "chroma"
        assert ids(page.hits) == space.truth(QUERY, 10)
    assert await first.reindex() == 319
    await until_chroma(space, second)
    stop()
    assert ids((await first.search(QUERY, 10)).hits) == space.truth(QUERY, 10)
