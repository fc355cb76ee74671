"""What holds at any size: that an index finds what comparing all would, that what was deleted is
not found and what was stored is, and that a change of the embedder is never a wrong answer."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from archives import (
    SHARES,
    WORDS_PER_TEXT,
    Drawn,
    Words,
    children_mb,
    cpu_seconds,
    database_of,
    open_at,
    size_mb,
    until,
)
from sqlalchemy import func, select

from pagedaemon.memory.ranking import DEFAULT
from pagedaemon.store import passages as rows
from pagedaemon.store import vectors
from pagedaemon.store.index.finder import Found, IndexMode, VectorIndex
from pagedaemon.store.passages import PassageFilter
from pagedaemon.store.tables import embeddings, passage_tags, passages
from pagedaemon.store.transaction import Transaction
from pagedaemon.store.vectors import Vector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEPTHS = (10, DEFAULT.candidates)
"""How many of the truly nearest are looked for."""

PATIENCE = 7_200.0
"""Seconds an index has to take everything up."""


class Truth:
    """What is nearest, by comparing with every row of the table."""

    def __init__(self, tx: Transaction, embedder: Drawn, queries: Sequence[Vector]) -> None:
        import numpy as np

        asked = np.stack(queries)
        owners: list[str] = []
        scores: list[NDArray[np.float32]] = []
        for portion in vectors.portions_of(tx, embedder.name, None):
            stored = np.frombuffer(b"".join(row[3] for row in portion), "<f4")
            scores.append(stored.reshape(len(portion), -1) @ asked.T)
            owners += [row[2] for row in portion]
        self._owners = np.array(owners)
        self._scores = np.concatenate(scores)
        self._tagged = {
            tag: {
                row[0]
                for row in tx.all(
                    select(passage_tags.c.passage_id).where(passage_tags.c.tag == tag)
                )
            }
            for tag in SHARES
        }

    def nearest(self, query: int, k: int, tag: str | None) -> list[str]:
        """The nearest to one of the queries, by its number, among those with the tag."""
        import numpy as np

        owners, scores = self._owners, self._scores[:, query]
        if tag is not None:
            kept = np.isin(owners, list(self._tagged[tag]))
            owners, scores = owners[kept], scores[kept]
        return [str(one) for one in owners[np.argsort(-scores, kind="stable")[:k]]]


async def index_figures(
    folder: Path, embedder: Drawn, mode: IndexMode, queries: Sequence[str]
) -> dict[str, Any]:
    """An index alone: how much of the truly nearest it finds, without a filter and under such as
    keep a half, a hundredth and a ten-thousandth, and what it takes."""
    database, pool = database_of(folder)
    index = VectorIndex(database, embedder.name, mode=mode)
    figures: dict[str, Any] = {}
    try:
        asked = [embedder.of(text) for text in queries]
        count = database.read_now(lambda tx: vectors.count(tx, embedder.name))
        began, spent = time.perf_counter(), cpu_seconds()
        await _taken_up(index, asked[0], mode)
        figures["taken_up"] = {
            "seconds": time.perf_counter() - began,
            "cpu_per_second": count / (cpu_seconds() - spent),
        }
        figures["child_mb"] = children_mb()
        truth = database.read_now(lambda tx: Truth(tx, embedder, asked))
        agent_id = database.read_now(lambda tx: tx.scalar(select(passages.c.agent_id).limit(1)))
        for tag in (None, *SHARES):
            figures[tag or "all"] = await _recall(index, asked, truth, agent_id, tag)
    finally:
        await index.aclose()
        database.close()
        pool.close()
    figures["index_disk_mb"] = size_mb(database.path.parent / "index")
    figures["space_disk_mb"] = size_mb(database.path.parent) - figures["index_disk_mb"]
    return figures


async def _taken_up(index: VectorIndex, query: Vector, mode: IndexMode) -> None:
    await index.search(query, 1)
    async with asyncio.timeout(PATIENCE):
        status = await index.status()
        while mode != "exact" and (status.via != mode or status.waiting):
            await asyncio.sleep(0.1)
            index.poke()
            status = await index.status()


async def _recall(
    index: VectorIndex, asked: Sequence[Vector], truth: Truth, agent_id: str, tag: str | None
) -> dict[str, Any]:
    given = PassageFilter(agent_id, datetime.now(UTC), () if tag is None else (tag,))
    allowed = rows.allowed(given)
    shares: dict[int, list[float]] = {depth: [] for depth in DEPTHS}
    answered: list[Found] = []
    spent = cpu_seconds()
    for query in asked:
        answered.append(await index.search(query, DEFAULT.candidates, allowed=allowed))
    spent = cpu_seconds() - spent
    for number, found in enumerate(answered):
        ids = [hit.owner_id for hit in found.hits]
        for depth in DEPTHS:
            nearest = truth.nearest(number, depth, tag)
            shares[depth].append(len(set(nearest).intersection(ids[:depth])) / len(nearest))
    return {
        "via": sorted({found.via for found in answered}),
        "cpu_ms": 1_000 * spent / len(asked),
        **{f"recall@{depth}": fmean(found) for depth, found in shares.items()},
    }


async def changes(folder: Path, embedder: Drawn, index: IndexMode, many: int) -> dict[str, Any]:
    """Records stored and deleted in a full archive: how fast, and whether each search right after
    it knows."""
    words = Words(7)
    async with open_at(folder, embedder, index) as runtime:
        agent = await runtime.agents.get("ada")
        await agent.archive.search("to begin with")
        texts = [f"mark{number} {words.text(WORDS_PER_TEXT)}" for number in range(many)]
        began = time.perf_counter()
        kept = await agent.archive.insert_many(texts)
        stored = time.perf_counter() - began
        unseen = wrong = 0
        for number in random.Random(3).sample(range(many), min(many, 30)):
            found = await agent.archive.search(texts[number], page_size=3)
            unseen += kept[number].id not in [hit.id for hit in found.hits]
            await agent.archive.delete(kept[number].id)
            found = await agent.archive.search(texts[number], page_size=100)
            wrong += kept[number].id in [hit.id for hit in found.hits]
        await until(runtime, lambda status: status.pending == 0)
        embedded = time.perf_counter() - began
        await agent.archive.delete(*(one.id for one in kept))
    return {
        "per_second": many / stored,
        "embedded_per_second": many / embedded,
        "unseen": unseen,
        "deleted_and_found": wrong,
    }


async def embedder_changed(folder: Path, embedder: Drawn, index: IndexMode) -> dict[str, Any]:
    """Another embedder on a store in use: searched without pause until it is done. Each search asks
    for a passage in its own words, which is right only where it comes first."""
    database, pool = database_of(folder)
    # Tags are embedded with their text, and a drawn vector of both has nothing of that of the text.
    tagged = passages.c.id.in_(select(passage_tags.c.passage_id))
    with_texts = select(passages.c.id, passages.c.text).where(~tagged).order_by(passages.c.id)
    known = [(row[0], row[1]) for row in database.read_now(lambda tx: tx.all(with_texts.limit(40)))]
    searches = wrong = empty = silent = 0
    began = time.perf_counter()
    async with open_at(folder, embedder, index) as runtime:
        agent = await runtime.agents.get("ada")
        pending = 1
        while pending:
            passage_id, text = known[searches % len(known)]
            found = await agent.archive.search(text, page_size=3)
            right = bool(found.hits) and found.hits[0].id == passage_id
            searches += 1
            empty += not found.hits
            wrong += bool(found.hits) and not right
            silent += not right and not found.pending
            status = await runtime.search_status()
            pending = status.pending + len(status.earlier)
        seconds = time.perf_counter() - began
    left = database.read_now(
        lambda tx: tx.scalar(
            select(func.count()).select_from(embeddings).where(embeddings.c.model != embedder.name)
        )
    )
    database.close()
    pool.close()
    return {
        "seconds": seconds,
        "searches": searches,
        "wrong": wrong,
        "empty": empty,
        "silent": silent,
        "old_vectors_left": left,
    }
