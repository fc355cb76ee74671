"""Whatever becomes of the index on the disk, every search is right and the index comes back."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.store.index.space import MODEL, Open, Space, draw, ids, until_chroma, until_taken_up

from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.index.finder import VectorIndex

COUNT = 300
QUERY = draw(1, seed=77)[0]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a space and an index that was closed cleanly."""
    folder = tmp_path_factory.mktemp("sound")

    async def make() -> None:
        pool = StorePool()
        database = Database.open(folder / "space.db", space="lin", pool=pool)
        space = Space(database)
        space.fill(COUNT)
        index = VectorIndex(database, MODEL, mode="chroma")
        await until_chroma(space, index)
        await index.aclose()
        database.close()
        pool.close()

    asyncio.run(make())
    return folder


@pytest.fixture
def path(sound: Path, tmp_path: Path) -> Path:
    """A copy of it for each test."""
    shutil.copytree(sound, tmp_path, dirs_exist_ok=True)
    return tmp_path / "space.db"


@pytest.fixture
def root(path: Path) -> Path:
    """The folder of the model's generations."""
    (root,) = (path.parent / "index").iterdir()
    return root


def generations(root: Path) -> list[str]:
    return sorted(path.name for path in root.glob("gen-*"))


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def scribble(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def scribble_all(root: Path, pattern: str) -> None:
    for path in root.rglob(pattern):
        if path.is_file():
            scribble(path)


def remark(root: Path, **changes: Any) -> None:
    marker = root / "gen-1" / "closed.json"
    marker.write_text(json.dumps({**json.loads(marker.read_text()), **changes}))


def of_another_model(root: Path) -> None:
    marker = json.loads((root / "gen-1" / "closed.json").read_text())
    remark(root, made_of={**marker["made_of"], "model": "other"})


def of_another_version(root: Path) -> None:
    marker = json.loads((root / "gen-1" / "closed.json").read_text())
    remark(root, made_of={**marker["made_of"], "chroma": "0.4.0"})


def crashed_before(root: Path) -> None:
    (root / "gen-1" / "closed.json").unlink()
    shutil.copytree(root / "gen-1", root / "gen-2")


DAMAGE: dict[str, Callable[[Path], None]] = {
    "database truncated": lambda root: truncate(root / "gen-1/chroma/chroma.sqlite3"),
    "database emptied": lambda root: empty(root / "gen-1/chroma/chroma.sqlite3"),
    "database with one bit turned": lambda root: flip(root / "gen-1/chroma/chroma.sqlite3"),
    "vectors truncated": lambda root: truncate(next(root.rglob("data_level0.bin"))),
    "vectors with one bit turned": lambda root: flip(next(root.rglob("data_level0.bin"))),
    "every file of random bytes": lambda root: scribble_all(root, "*"),
    "marker missing": lambda root: (root / "gen-1/closed.json").unlink(),
    "marker cut short": lambda root: truncate(root / "gen-1/closed.json"),
    "marker of another shape": lambda root: remark(root, place=[]),
    "another model's": of_another_model,
    "another version's": of_another_version,
    "of an older table": lambda root: remark(root, place={"added": 100, "removed": 100}),
    "of a newer table": lambda root: remark(root, place={"added": 9_000, "removed": 9_000}),
    "files removed": lambda root: shutil.rmtree(root / "gen-1/chroma"),
    "two crashed generations": crashed_before,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
async def test_a_doubtful_folder_is_thrown_away_and_made_anew(
    space: Space, opened: Open, root: Path, damage: Callable[[Path], None]
) -> None:
    damage(root)
    index = opened()
    await until_chroma(space, index)
    await until_taken_up(index)
    assert generations(root) in (["gen-2"], ["gen-3"])
    page = await index.search(QUERY, 10)
    assert page.via == "chroma"
    assert ids(page.hits) == space.truth(QUERY, 10)


async def test_a_lock_nobody_holds_is_no_hindrance(space: Space, opened: Open, root: Path) -> None:
    (root / "lock").write_text("12345")
    index = opened()
    await until_chroma(space, index)
    assert generations(root) == ["gen-1"]


async def test_a_folder_that_cannot_be_used_is_tried_again(
    space: Space, opened: Open, path: Path, root: Path
) -> None:
    # Permissions do not stop every user; a file in the folder's place does.
    shutil.rmtree(path.parent / "index")
    (path.parent / "index").write_text("")
    index = opened()
    for _ in range(20):
        page = await index.search(QUERY, 10)
        assert page.via == "exact"
        assert ids(page.hits) == space.truth(QUERY, 10)
        await asyncio.sleep(0.1)
    assert "index" in str((await index.status()).trouble)
    (path.parent / "index").unlink()
    await until_chroma(space, index)
    assert (await index.status()).trouble is None


async def test_a_folder_removed_while_it_is_open_is_noticed(
    space: Space, opened: Open, root: Path
) -> None:
    index = opened()
    await until_chroma(space, index)
    shutil.rmtree(root)
    page = await index.search(QUERY, 10)
    assert page.via == "exact"
    assert ids(page.hits) == space.truth(QUERY, 10)
    await until_chroma(space, index)
    assert generations(root) == ["gen-1"]


async def test_files_damaged_while_open_do_not_come_back_as_sound(
    space: Space, opened: Open, root: Path
) -> None:
    first = opened()
    await until_chroma(space, first)
    scribble_all(root, "*.bin")
    truncate(root / "gen-1/chroma/chroma.sqlite3")
    space.fill(20, first=COUNT)
    for _ in range(10):
        page = await first.search(QUERY, 10)
        assert ids(page.hits) == space.truth(QUERY, 10)
        await asyncio.sleep(0.02)
    await first.aclose()
    second = opened()
    await until_chroma(space, second)
    await until_taken_up(second)
    assert ids((await second.search(QUERY, 10)).hits) == space.truth(QUERY, 10)


LIMITED = """
import resource, sys
from pathlib import Path
if Path(sys.argv[1]).exists():
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))
from pagedaemon.store.index.child import main
main()
"""


async def test_a_full_disk_costs_the_index_and_no_search(
    space: Space, opened: Open, tmp_path: Path, root: Path
) -> None:
    shutil.rmtree(root)
    full = tmp_path / "full"
    full.touch()
    index = opened(command=[sys.executable, "-P", "-c", LIMITED, str(full)])
    trouble = None
    while trouble is None:
        page = await index.search(QUERY, 10)
        assert page.via == "exact"
        assert ids(page.hits) == space.truth(QUERY, 10)
        trouble = (await index.status()).trouble
        await asyncio.sleep(0.02)
    full.unlink()
    await until_chroma(space, index)


async def test_of_two_on_one_folder_one_has_the_index_and_both_the_truth(
    space: Space, opened: Open, root: Path
) -> None:
    first, second = opened(), opened()
    await until_chroma(space, first)
    for number in range(10):
        space.fill(10, first=COUNT + 10 * number)
        space.drop(f"p{number}")
        for index in (first, second):
            page = await index.search(QUERY, 10)
            assert page.via == ("chroma" if index is first else "exact")
            assert ids(page.hits) == space.truth(QUERY, 10)
        await asyncio.sleep(0.1)
    assert "another process" in str((await second.status()).trouble)
    await until_taken_up(first)
    await first.aclose()
    await until_chroma(space, second)
    await until_taken_up(second)
    assert second._chroma is not None
    assert second._chroma.count == COUNT + 100 - 10
    assert generations(root) == ["gen-1"]
