"""A space with vectors of passages, and what is truly nearest among them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

import numpy as np
from sqlalchemy import insert, select

from pagedaemon.store import vectors
from pagedaemon.store.candidates import Allowed
from pagedaemon.store.database import Database
from pagedaemon.store.index.exact import Hit
from pagedaemon.store.index.finder import VectorIndex
from pagedaemon.store.tables import agents, archives, passages
from pagedaemon.store.transaction import Transaction
from pagedaemon.store.vectors import Embedded, Vector

NOW = datetime(2026, 11, 30, tzinfo=UTC)
MODEL = "small/32"
DIMENSION = 32


class Space:
    """One process's view of a space whose passages are numbered, and their vectors drawn.

    Attributes:
        database: the space's.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        database.write_now(_prepare)

    def fill(self, count: int, *, first: int = 0, prefix: str = "p") -> None:
        """Adds passages `p0`, `p1`, … with a vector each; `position` is their number."""
        drawn = draw(count, seed=first + 1)
        self.database.write_now(lambda tx: store(tx, prefix, first, drawn))

    def drop(self, *owners: str) -> None:
        """Removes passages and their vectors."""

        def work(tx: Transaction) -> None:
            vectors.drop(tx, owners)
            tx.execute(passages.delete().where(passages.c.id.in_(owners)))

        self.database.write_now(work)

    def truth(
        self, query: Vector, k: int, allowed: Callable[[str], bool] | None = None
    ) -> list[str]:
        """What is nearest, by comparing with every row of the table."""

        def work(tx: Transaction) -> list[Hit]:
            found = [
                Hit(row[1], row[2], float(np.frombuffer(row[3], "<f4") @ query))
                for rows in vectors.portions_of(tx, MODEL, None)
                for row in rows
                if allowed is None or allowed(row[2])
            ]
            return sorted(found, key=lambda hit: -hit.score)

        return list(dict.fromkeys(hit.owner_id for hit in self.database.read_now(work)))[:k]


def draw(count: int, *, seed: int) -> Vector:
    """Directions of no order at all: the hardest case for an index."""
    drawn = np.random.default_rng(seed).standard_normal((count, DIMENSION)).astype(np.float32)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return drawn


def store(tx: Transaction, prefix: str, first: int, drawn: Vector) -> None:
    """Passages with these vectors."""
    ids = [f"{prefix}{first + number}" for number in range(len(drawn))]
    tx.execute(
        insert(passages),
        [
            {
                "id": owner,
                "space": tx.space,
                "archive_id": "archive",
                "text": owner,
                "content_hash": "",
                "kind": "semantic",
                "purposes": [],
                "source_kind": "agent",
                "trust": "agent",
                "position": first + number,
                "created_at": NOW,
            }
            for number, owner in enumerate(ids)
        ],
    )
    done = [
        Embedded("passage", owner, [row], "hash") for owner, row in zip(ids, drawn, strict=True)
    ]
    vectors.put(tx, MODEL, done)


def _prepare(tx: Transaction) -> None:
    if tx.scalar(select(archives.c.id)) is not None:
        return
    tx.execute(
        insert(agents),
        {
            "id": "agent",
            "space": tx.space,
            "name": "ada",
            "settings": {},
            "tools": [],
            "created_at": NOW,
            "updated_at": NOW,
        },
    )
    tx.execute(
        insert(archives),
        {"id": "archive", "space": tx.space, "owner_agent_id": "agent", "created_at": NOW},
    )


def every(nth: int) -> Allowed:
    """A filter that keeps every n-th passage."""
    return Allowed(select(passages.c.id).where(passages.c.position % nth == 0), {})


def ids(hits: tuple[Hit, ...] | list[Hit]) -> list[str]:
    """The owners that were found."""
    return [hit.owner_id for hit in hits]


Open: TypeAlias = Callable[..., VectorIndex]

PATIENCE = 60.0
"""Seconds: a machine may be busy."""


async def until_chroma(space: Space, index: VectorIndex) -> int:
    """Searches until Chroma answers, and wants the truth of every answer. Returns how many there
    were."""
    deadline = time.monotonic() + PATIENCE
    query = draw(1, seed=4242)[0]
    truth = space.truth(query, 10)
    answers = 0
    while True:
        found = await index.search(query, 10)
        answers += 1
        assert ids(found.hits) == truth
        if found.via == "chroma":
            return answers
        assert time.monotonic() < deadline, (await index.status()).trouble
        await asyncio.sleep(0.02)


async def until_taken_up(index: VectorIndex) -> None:
    """Waits until Chroma has everything."""
    deadline = time.monotonic() + PATIENCE
    while True:
        index.poke()
        status = await index.status()
        if status.via == "chroma" and status.waiting == 0:
            return
        assert time.monotonic() < deadline, status
        await asyncio.sleep(0.02)
