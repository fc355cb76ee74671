"""Searches by words alone, at any size: what they cost, and how many of the texts that are best by
all words of a query they find."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

from archives import (
    DIFFERENT_WORDS,
    WORDS_PER_QUERY,
    Words,
    cpu_seconds,
    database_of,
    fill,
    open_at,
    size_mb,
)
from figures import percentile
from sqlalchemy import select

from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.store.fulltext import MATCHING
from pagedaemon.store.tables import passages
from pagedaemon.store.terms import telling_terms
from pagedaemon.store.transaction import Transaction

GROWING_WORDS = 1_000_000
"""Different words to draw from where the vocabulary is to grow with the archive, as in real text:
of 25,000 words that are drawn, 8,400 differ, of 25 million 750,000."""

DEPTH = 10

ROUNDS = 3


async def by_words(folder: Path, count: int, number: int, *, growing: bool) -> dict[str, Any]:
    """One archive without vectors.

    Args:
        number: how many queries of each sort: words `drawn` as those of texts are, three words of a
            text and two others (`known`), and one word of a text (`single`).
    """
    words = Words(count, GROWING_WORDS if growing else DIFFERENT_WORDS)
    async with open_at(folder, None) as runtime:
        agent = await runtime.agents.ensure("ada")
    await asyncio.to_thread(fill, folder, agent.id, count, words, None)
    texts = _texts(folder, number)
    chance = random.Random(number)
    asked = {
        "drawn": [words.text(WORDS_PER_QUERY) for _ in texts],
        "known": [" ".join([*chance.sample(text.split(), 3), words.text(2)]) for text in texts],
        "single": [chance.choice(text.split()) for text in texts],
    }
    found: dict[str, Any] = {"passages": count, "disk_mb": size_mb(folder)}
    async with open_at(folder, None) as runtime:
        agent = await runtime.agents.get("ada")
        for sort, queries in asked.items():
            found[sort] = await _measured(agent, queries)
            found[sort]["best"] = await _share_of_best(folder, agent, queries)
    return found


def _texts(folder: Path, number: int) -> list[str]:
    """Of so many passages, from the oldest to the newest."""
    database, pool = database_of(folder)
    query = select(passages.c.text).order_by(passages.c.created_at)
    rows = database.read_now(lambda tx: tx.all(query))
    database.close()
    pool.close()
    return [rows[at * len(rows) // number][0] for at in range(number)]


async def _measured(agent: AsyncAgent, queries: Sequence[str]) -> dict[str, Any]:
    """CPU milliseconds of one search: of each query the least of several rounds."""
    least = [float("inf")] * len(queries)
    for _ in range(ROUNDS):
        for at, query in enumerate(queries):
            began = cpu_seconds()
            await agent.archive.search(query)
            least[at] = min(least[at], (cpu_seconds() - began) * 1_000)
    return {"cpu_ms": fmean(least), "p50_ms": median(least), "p95_ms": percentile(least, 0.95)}


async def _share_of_best(folder: Path, agent: AsyncAgent, queries: Sequence[str]) -> float | None:
    """How much of the first page is among the best `DEPTH` by the bm25 of all words, or as good as
    the last of them; None where no text has any of them."""
    match = MATCHING["passage"]
    best = select(match.c.score).order_by(match.c.score.desc()).limit(DEPTH)
    database, pool = database_of(folder)
    shares = []
    for query in queries:
        asked = {"match": " OR ".join(telling_terms(query))}
        rows = await database.read(partial(Transaction.all, statement=best, parameters=asked))
        page = await agent.archive.search(query, page_size=DEPTH)
        if rows:
            as_good = select(match.c.id).where(
                match.c.id.in_([hit.id for hit in page.hits]), match.c.score >= rows[-1].score
            )
            shown = partial(Transaction.all, statement=as_good, parameters=asked)
            shares.append(len(await database.read(shown)) / len(rows))
    database.close()
    pool.close()
    return fmean(shares) if shares else None
