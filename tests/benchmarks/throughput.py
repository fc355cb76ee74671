"""How much one process does at once, beside what the disk allows.

    python tests/benchmarks/throughput.py [--folder FOLDER] [--json OUT] [--tiny]

The model answers at once, so what is measured is the runtime and the disk. Beside each rate stand
the fsync of a page and the commits per second of a loop that does nothing else, both measured right
before it in the same folder: on another disk, or beside other work, all three move together. The
cores are how much of the processor the machine gave us: where they are few and the disk is idle,
it was busy with something else.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from figures import table, write_json
from instruments import Counted, file_system, fsync_ms

from pagedaemon import AsyncRuntime, Block
from pagedaemon.events import Turn
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.llm.protocol import CallPart, Part, Reply, Request
from pagedaemon.messages import Usage
from pagedaemon.testing import say

HELLO = "Hello there, how are you?"
"""What is sent."""

TURNS_BAR = 160.0
"""Turns per second of 16 agents."""

AGENTS_BAR = 500.0
"""Agents created per second."""


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    agents: int = 16
    turns: int = 10
    rounds: int = 5
    created: int = 500
    conversations: int = 200
    idle: int = 1_000
    syncs: int = 50
    commits: int = 200


TINY = Sizes(3, 2, 1, 6, 8, 5, 3, 5)
"""Enough to see that everything runs."""


class Instant:
    """A model that always says the same, at once, and keeps nothing of what it was asked."""

    def __init__(self) -> None:
        self._numbers = count(1)

    async def complete(self, request: Request) -> Reply:
        """The reply."""
        reply = say("Very well, thank you.")
        calls = tuple(replace(call, id=f"call_{next(self._numbers)}") for call in reply.calls)
        return replace(reply, calls=calls, usage=Usage(1_000, 20))

    async def stream(self, request: Request) -> AsyncIterator[Part]:
        """The reply in one part."""
        reply = await self.complete(request)
        for index, call in enumerate(reply.calls):
            yield CallPart(index, call.name, call.arguments)
        yield reply

    async def aclose(self) -> None:
        """There is nothing to let go of."""


def runtime_in(folder: Path) -> AsyncRuntime:
    """A runtime whose agents are answered at once, and which makes no vectors."""
    models = {"instant": Instant()}
    return AsyncRuntime(folder, model="instant", models=models, embedder=None)


async def an_agent(runtime: AsyncRuntime, name: str) -> AsyncAgent:
    """A new agent with a persona and a human block."""
    blocks = [Block.load("persona/companion"), Block.human("Name: unknown")]
    return await runtime.agents.ensure(name, blocks=blocks)


def bare_commits(folder: Path, times: int) -> float:
    """Commits per second of one row each, on a connection with the store's own settings."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS rows (number INTEGER PRIMARY KEY, said TEXT)")
    began = time.perf_counter()
    for _ in range(times):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO rows (said) VALUES (?)", (HELLO,))
        connection.execute("COMMIT")
    spent = time.perf_counter() - began
    connection.close()
    return times / spent


async def rate(
    folder: Path, sizes: Sizes, many: int, rounds: int, work: Callable[[int], Awaitable[None]]
) -> dict[str, Any]:
    """How many per second, in the median of some rounds, and the disk beside it.

    Args:
        many: how many a round does.
        work: a round, by its number.
    """
    fsync = await asyncio.to_thread(fsync_ms, folder, sizes.syncs)
    bare = await asyncio.to_thread(bare_commits, folder, sizes.commits)
    rates: list[float] = []
    cpu = time.process_time()
    start = time.perf_counter()
    with Counted() as counted:
        for number in range(rounds):
            began = time.perf_counter()
            await work(number)
            rates.append(many / (time.perf_counter() - began))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - start
    done = many * rounds
    middle = statistics.median(rates)
    return {
        "per_second": middle,
        "best": max(rates),
        "cpu_ms_each": cpu * 1_000 / done,
        "cores": cpu / wall,
        "commits_each": counted.commits / done,
        "fsync_ms": fsync,
        "bare_commits_per_second": bare,
        "ratio_to_bare": middle / bare,
    }


def _require_replies(turns: Sequence[Turn]) -> None:
    silent = [turn for turn in turns if not turn.reply]
    if silent:
        raise SystemExit(f"{len(silent)} of {len(turns)} turns had no reply: {silent[0]}")


async def turns(folder: Path, sizes: Sizes) -> dict[str, Any]:
    """Several agents at once, each with its turns one after another."""
    async with runtime_in(folder) as runtime:
        agents = [await an_agent(runtime, f"agent-{number}") for number in range(sizes.agents)]

        async def talk(agent: AsyncAgent) -> None:
            _require_replies([await agent.send(HELLO) for _ in range(sizes.turns)])

        async def round_of_all(_: int) -> None:
            await asyncio.gather(*map(talk, agents))

        await round_of_all(0)
        many = sizes.agents * sizes.turns
        return await rate(folder, sizes, many, sizes.rounds, round_of_all)


async def creation(folder: Path, sizes: Sizes, at_once: int) -> dict[str, Any]:
    """Agents made by so many callers at once."""
    async with runtime_in(folder) as runtime:

        async def make(number: int) -> None:
            names = iter(range(sizes.created))

            async def caller() -> None:
                for name in names:
                    await an_agent(runtime, f"agent-{number}-{name}")

            await asyncio.gather(*(caller() for _ in range(at_once)))

        await an_agent(runtime, "first")
        return await rate(folder, sizes, sizes.created, max(1, sizes.rounds - 2), make)


async def conversations(folder: Path, sizes: Sizes) -> dict[str, Any]:
    """One message in each of many conversations of one agent, all at once."""
    async with runtime_in(folder) as runtime:
        agent = await an_agent(runtime, "busy")
        all_of_them = [
            await agent.conversations.ensure(f"c-{number}") for number in range(sizes.conversations)
        ]

        async def round_of_all(_: int) -> None:
            _require_replies(await asyncio.gather(*(one.send(HELLO) for one in all_of_them)))

        rounds = max(1, sizes.rounds - 2)
        return await rate(folder, sizes, sizes.conversations, rounds, round_of_all)


async def idle(folder: Path, sizes: Sizes) -> dict[str, Any]:
    """Memory of agents that have answered once and are held."""
    async with runtime_in(folder) as runtime:
        await (await an_agent(runtime, "first")).send(HELLO)
        before = resident_mb()
        held = [await an_agent(runtime, f"agent-{number}") for number in range(sizes.idle)]
        created = resident_mb()
        for first in range(0, len(held), 50):
            await asyncio.gather(*(agent.send(HELLO) for agent in held[first : first + 50]))
        after = resident_mb()
    return {
        "agents": len(held),
        "mb_before": before,
        "mb_created": created,
        "mb_after": after,
        "kb_each": (after - before) * 1_024 / len(held),
    }


def resident_mb() -> float:
    """Memory of this process now; where Linux does not tell, the most it ever had."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (2**20 if sys.platform == "darwin" else 2**10)
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def measured(folder: Path, sizes: Sizes) -> dict[str, Any]:
    """All figures. Memory comes first, before the process has grown by anything else."""
    return {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "folder": str(folder),
        "file_system": file_system(folder),
        "idle": await idle(folder / "idle", sizes),
        "turns": await turns(folder / "turns", sizes),
        "created": await creation(folder / "created", sizes, 1),
        "created_16": await creation(folder / "created-16", sizes, 16),
        "conversations": await conversations(folder / "conversations", sizes),
    }


def summary(figures: Mapping[str, Any], sizes: Sizes) -> list[Sequence[object]]:
    """Rows of the table of rates."""

    def row(what: str, of: Mapping[str, Any], bar: float | None = None) -> Sequence[object]:
        verdict = "" if bar is None else "ok" if of["per_second"] >= bar else "BELOW"
        return (
            what,
            of["per_second"],
            of["best"],
            "" if bar is None else f">= {bar:g}",
            verdict,
            of["cpu_ms_each"],
            of["cores"],
            of["commits_each"],
            of["fsync_ms"],
            of["bare_commits_per_second"],
            of["ratio_to_bare"],
        )

    return [
        row(f"turns, {sizes.agents} agents x {sizes.turns}", figures["turns"], TURNS_BAR),
        row("agents created, 1 caller", figures["created"]),
        row("agents created, 16 callers", figures["created_16"], AGENTS_BAR),
        row(f"turns, {sizes.conversations} conversations", figures["conversations"]),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the arguments, measures, prints. Returns the exit status: 0, whatever was measured."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--folder", help="where stores are made; default: the temporary folder")
    parser.add_argument("--json", help="where the figures are written")
    parser.add_argument("--tiny", action="store_true", help="only show that it runs")
    given = parser.parse_args(arguments)
    sizes = TINY if given.tiny else Sizes()
    with tempfile.TemporaryDirectory(prefix="throughput-", dir=given.folder) as folder:
        figures = asyncio.run(measured(Path(folder).resolve(), sizes))
    head = [
        "",
        "per s",
        "best",
        "bar",
        "",
        "CPU ms",
        "cores",
        "commits",
        "fsync ms",
        "bare/s",
        "ratio",
    ]
    print(table(f"At once, on {figures['file_system']}", head, summary(figures, sizes)))
    held = figures["idle"]
    print(
        f"{held['agents']} idle agents: {held['mb_before']:.0f} MB -> {held['mb_after']:.0f} MB, "
    )
    grown = f"{held['mb_before']:.0f} MB -> {held['mb_after']:.0f} MB"
    print(f"{held['agents']} idle agents: {grown}, {held['kb_each']:.1f} KB each")
    write_json(given.json, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
