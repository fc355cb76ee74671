"""A space on the disk, and the indexes a test opens of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.store.index.space import MODEL, Open, Space

from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.index.finder import VectorIndex


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The space's file."""
    return tmp_path / "space.db"


@pytest.fixture
def space(path: Path) -> Iterator[Space]:
    """A space without vectors."""
    pool = StorePool()
    database = Database.open(path, space="lin", pool=pool)
    yield Space(database)
    database.close()
    pool.close()


@pytest.fixture
async def opened(space: Space) -> AsyncIterator[Open]:
    """Opens indexes of the space, closed at the end."""
    async with AsyncExitStack() as stack:

        def open_one(**settings: Any) -> VectorIndex:
            given = {"mode": "chroma", "pause": 0.05, **settings}
            index = VectorIndex(space.database, MODEL, **given)
            stack.push_async_callback(index.aclose)
            return index

        yield open_one
