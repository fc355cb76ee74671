"""What search costs, and what it costs to be found, at any size.

    python tests/benchmarks/search.py [--sizes N ...] [--even] [--folder FOLDER] [--json OUT]
    python tests/benchmarks/search.py --only keywords [--sizes N ...] [--growing]

Measured is CPU time: of this process, all its threads, and of the process in which Chroma lives.
The query's embedding is left out: vectors are drawn at random, by topics as embeddings lie, or
without any order (`--even`), which is the hardest case for an index. Texts are of made-up words,
frequent and rare as words are (Zipf), and so are the queries. Archives are filled through the
store's own functions, and searched and added to through the public API.

With `--sizes 1000000` some 15 GB of disk and 6 GB of memory are taken, and an hour or two. With
`--only keywords` there are no vectors: 1.6 GB and ten minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from archives import (
    SHARES,
    WORDS_PER_QUERY,
    WORDS_PER_TEXT,
    Drawn,
    Words,
    children_mb,
    cpu_seconds,
    fill,
    open_at,
    resident_mb,
    until,
)
from by_words import by_words
from figures import percentile, table, write_json
from instruments import file_system, fsync_ms
from scale import DEPTHS, changes, embedder_changed, index_figures

from pagedaemon import AsyncRuntime
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.store.index.finder import THRESHOLD, IndexMode

BARS = {10_000: 10.0, 100_000: 25.0}
"""CPU milliseconds of one search among so many."""

RECALL = 0.98
"""Of what comparing all vectors finds: what the index must find, without a filter and under one."""

INSERTS = 500.0
"""A second, without an embedder."""

SUBLINEAR = 0.5
"""Ten times as many may cost this share of ten times as much."""


SORTS = {"drawn": "six words", "known": "words of a text", "single": "one word"}
"""What is asked for by words alone."""


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    passages: tuple[int, ...] = (1_000, 10_000, 100_000)
    queries: int = 40
    inserts: int = 400
    embedded_inserts: int = 200
    syncs: int = 50
    changed_upto: int = 100_000
    """The largest archive in which the embedder is changed: each text is embedded again."""
    patience: float = 7_200.0
    """Seconds that Chroma has to take all vectors up."""


TINY = Sizes((300,), 3, 10, 5, 3, 300, 60.0)


async def searches(folder: Path, count: int, sizes: Sizes, *, even: bool) -> dict[str, Any]:
    """One archive: what a search costs by words alone, with exact search, and with what `auto`
    chooses; what the index finds; and what it takes to change it."""
    words, embedder = Words(count), Drawn(even=even)
    async with open_at(folder, None) as runtime:
        agent = await runtime.agents.ensure("ada")
    await asyncio.to_thread(fill, folder, agent.id, count, words, embedder)
    queries = [words.text(WORDS_PER_QUERY) for _ in range(sizes.queries)]
    found: dict[str, Any] = {"passages": count}
    print(f"{count:,} passages: the index", file=sys.stderr)
    found["index"] = await index_figures(folder, embedder, "chroma", queries)
    for name in ("keywords", "exact", "auto"):
        print(f"{count:,} passages: {name}", file=sys.stderr)
        found[name] = await one_way(folder, name, embedder, queries, sizes)
    print(f"{count:,} passages: changes", file=sys.stderr)
    found["changes"] = await changes(folder, embedder, "auto", max(sizes.inserts, 10))
    if count <= sizes.changed_upto:
        other = Drawn("drawn anew", even=even)
        found["embedder_changed"] = await embedder_changed(folder, other, "auto")
    return found


async def one_way(
    folder: Path, name: str, embedder: Drawn, queries: Sequence[str], sizes: Sizes
) -> dict[str, Any]:
    """What a search costs in one way, and the memory that is taken for it."""
    index: IndexMode = "auto" if name == "auto" else "exact"
    before = resident_mb()
    async with open_at(folder, None if name == "keywords" else embedder, index) as runtime:
        agent = await runtime.agents.get("ada")
        via = await warm(runtime, agent, queries[0], sizes) if name == "auto" else name
        await agent.archive.search(queries[0])
        cpu = await per_search(agent, queries)
        times = []
        for query in queries:
            began = time.perf_counter()
            await agent.archive.search(query)
            times.append((time.perf_counter() - began) * 1_000)
        return {
            "via": via,
            "cpu_ms": cpu,
            "p50_ms": statistics.median(times),
            "p95_ms": percentile(times, 0.95),
            "memory_mb": resident_mb() - before,
            "child_mb": children_mb(),
        }


async def warm(runtime: AsyncRuntime, agent: AsyncAgent, query: str, sizes: Sizes) -> str:
    """Waits until what `auto` chooses for so many has taken them up; which it is."""
    expected = "chroma" if (await runtime.search_status()).stored >= THRESHOLD else "exact"
    await agent.archive.search(query)
    async with asyncio.timeout(sizes.patience):
        await until(runtime, lambda status: status.via == expected)
    return expected


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


async def measured(folder: Path, sizes: Sizes, *, even: bool) -> dict[str, Any]:
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
        "searches": [await searches(folder / str(n), n, sizes, even=even) for n in sizes.passages],
    }


def summary(figures: dict[str, Any]) -> list[tuple[object, ...]]:
    """Rows of (what, ours, bar, verdict)."""
    rows = [row for one in figures["searches"] for row in of_archive(one)]
    for few, many in zip(figures["searches"], figures["searches"][1:], strict=False):
        times = many["passages"] / few["passages"]
        growth = many["auto"]["cpu_ms"] / few["auto"]["cpu_ms"]
        what = f"a search among {many['passages']:,} costs that among {few['passages']:,} times"
        rows.append(judged(what, growth, most=SUBLINEAR * times))
    without, local = figures["inserts"]["without"], figures["inserts"]["local"]
    memory = figures["memory"]
    return [
        *rows,
        judged("inserts a second, without embedder", without["per_second"], least=INSERTS),
        ("inserts a second, local embedder", local["per_second"], None, ""),
        ("the same, until all are embedded", local["embedded_per_second"], None, ""),
        ("memory, runtime open, MB", memory["opened_mb"], None, ""),
        ("memory, local embedder at work, MB", memory["embedding_mb"], None, ""),
    ]


async def words_alone(folder: Path, sizes: Sizes, *, growing: bool) -> dict[str, Any]:
    """The figures of searches by words alone."""
    number = sizes.queries
    return {
        "python": platform.python_version(),
        "file_system": file_system(folder),
        "fsync_ms": fsync_ms(folder, sizes.syncs),
        "growing": growing,
        "searches": [
            await by_words(folder / str(count), count, number, growing=growing)
            for count in sizes.passages
        ],
    }


def summary_of_words(figures: dict[str, Any]) -> list[tuple[object, ...]]:
    """Rows of (what, ours, bar, verdict)."""
    rows: list[tuple[object, ...]] = []
    for one in figures["searches"]:
        among = f"among {one['passages']:,}"
        for sort, what in SORTS.items():
            mine = one[sort]
            rows += [
                (f"{what}, {among}, ms CPU", mine["cpu_ms"], None, ""),
                ("the same, ms CPU p95", mine["p95_ms"], None, ""),
                ("the same, of the ten best by all words", mine["best"], None, ""),
            ]
        rows.append((f"disk {among}, MB", one["disk_mb"], None, ""))
    for few, many in zip(figures["searches"], figures["searches"][1:], strict=False):
        times = many["passages"] / few["passages"]
        for sort, what in SORTS.items():
            growth = many[sort]["cpu_ms"] / few[sort]["cpu_ms"]
            compared = f"{what}, among {many['passages']:,} over {few['passages']:,}, times"
            rows.append(judged(compared, growth, most=SUBLINEAR * times))
    return rows


def judged(
    what: str, value: float, *, most: float | None = None, least: float | None = None
) -> tuple[object, ...]:
    """A row with its bar."""
    if most is not None:
        return what, value, f"<= {most:g}", "ok" if value <= most else "ABOVE"
    assert least is not None, "one of both"
    return what, value, f">= {least:g}", "ok" if value >= least else "BELOW"


def of_archive(one: dict[str, Any]) -> list[tuple[object, ...]]:
    """The rows of one archive."""
    count, index, changed = one["passages"], one["index"], one["changes"]
    among = f"among {count:,}"
    rows: list[tuple[object, ...]] = []
    for way in ("keywords", "exact", "auto"):
        mine = one[way]
        what = f"search {among}, {way} ({mine['via']}), ms CPU"
        bar = BARS.get(count) if way == "auto" else None
        rows.append(
            (what, mine["cpu_ms"], None, "")
            if bar is None
            else judged(what, mine["cpu_ms"], most=bar)
        )
        rows.append((f"search {among}, {way}, ms p95", mine["p95_ms"], None, ""))
        taken = mine["memory_mb"] + mine["child_mb"]
        rows.append((f"memory {among}, {way}, MB", taken, None, ""))
    rows.append((f"memory {among}, Chroma's process, MB", index["child_mb"], None, ""))
    for tag in ("all", *SHARES):
        kept = "" if tag == "all" else f", 1 in {SHARES[tag]:,}"
        via = "/".join(index[tag]["via"])
        what = f"index {among}{kept} ({via}), recall@"
        rows += [judged(f"{what}{n}", index[tag][f"recall@{n}"], least=RECALL) for n in DEPTHS]
        rows.append((f"index {among}{kept}, ms CPU", index[tag]["cpu_ms"], None, ""))
    share = count / 100_000
    rows += [
        (f"disk {among}, store, MB per 100,000", index["space_disk_mb"] / share, None, ""),
        (f"disk {among}, index, MB per 100,000", index["index_disk_mb"] / share, None, ""),
        (f"taken up {among}, vectors a CPU second", index["taken_up"]["cpu_per_second"], None, ""),
        (f"insert_many {among}, a second", changed["per_second"], None, ""),
        (f"the same {among}, until embedded", changed["embedded_per_second"], None, ""),
        judged(f"stored and not found at once {among}", changed["unseen"], most=0),
        judged(f"deleted and found {among}", changed["deleted_and_found"], most=0),
    ]
    anew = one.get("embedder_changed")
    if anew is not None:
        what = f"embedder changed {among}, of {anew['searches']:,} searches"
        rows += [
            judged(f"{what}: wrong", anew["wrong"], most=0),
            judged(f"{what}: silently empty or wrong", anew["silent"], most=0),
            judged(f"{what}: old vectors left", anew["old_vectors_left"], most=0),
        ]
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the arguments, measures, prints. Returns the exit status: 0, whatever was measured."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--sizes", type=int, nargs="+", metavar="N", help="passages; default: 1000 10000 100000"
    )
    parser.add_argument("--even", action="store_true", help="vectors without any order")
    parser.add_argument("--only", choices=["keywords"], help="measure searches by words alone")
    parser.add_argument(
        "--growing", action="store_true", help="by words alone: the more texts, the more words"
    )
    parser.add_argument("--folder", help="where stores are made; default: the temporary folder")
    parser.add_argument("--json", help="where the figures are written")
    parser.add_argument("--tiny", action="store_true", help="only show that it runs")
    given = parser.parse_args(arguments)
    sizes = TINY if given.tiny else Sizes()
    if given.sizes:
        sizes = replace(sizes, passages=tuple(given.sizes))
    with tempfile.TemporaryDirectory(prefix="search-", dir=given.folder) as folder:
        there = Path(folder).resolve()
        if given.only is None:
            figures = asyncio.run(measured(there, sizes, even=given.even))
            rows = summary(figures)
        else:
            figures = asyncio.run(words_alone(there, sizes, growing=given.growing))
            rows = summary_of_words(figures)
    where = f"{figures['file_system']}, fsync {figures['fsync_ms']:.2f} ms"
    print(table(f"Search on {where}", ["", "ours", "bar", ""], rows))
    write_json(given.json, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
