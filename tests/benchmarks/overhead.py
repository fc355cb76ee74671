"""What the runtime itself costs, beside the bare client call of the same request.

    python tests/benchmarks/overhead.py [--mock FILE] [--folder FOLDER] [--json OUT] [--tiny]

A local stand-in for the OpenAI API answers at once, in a process of its own. Measured is the CPU
time of our process, all its threads, per turn; figures are medians, and ratios are taken within one
run. SQL statements and commits are counted in turns that are not timed; BEGIN is not counted.

Vectors are made after the turns whose words they are of, and would be counted into whichever turn
is timed then. So turns are timed without an embedder, and one row has what an echo turn costs with
its vectors, all work in the background done.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from figures import ROOT, SHARED, needed, share, table, write_json
from instruments import MODEL, Counted, Mock, bare_client, cpu_ms, file_system, fsync_ms, low, seed

from pagedaemon import AsyncRuntime, Block
from pagedaemon.handles.agents import AsyncAgent

PEERS = "pydantic, sqlalchemy, jinja2"
"""What the import is measured against: the three packages that the core cannot do without."""

HEAVY = ("openai", "chromadb", "litellm", "onnxruntime", "tiktoken", "alembic", "numpy")
"""Must not be loaded by the import."""

HELLO = "Hello there, how are you?"
"""What is sent where it does not matter."""

WARMING = 3
"""Turns before the first that is timed."""

Before = Callable[[int], Awaitable[None]]

EDITS = 10
"""Memory edits of a chain; one step more says that they are done."""

LARGE = 1_000_000
"""Tokens of a window in which nothing is ever paged out."""

_BLOCK_LIMIT = 100_000


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    imports: int = 7
    starts: int = 5
    echoes: int = 60
    chains: int = 10
    window: int = 2_000
    long_turns: int = 12
    history: int = 100_000
    history_turns: int = 40
    syncs: int = 50


TINY = Sizes(1, 1, 4, 2, 60, 3, 300, 4, 5)
"""Enough to see that everything runs."""


async def an_agent(runtime: AsyncRuntime, name: str) -> AsyncAgent:
    """An agent with a persona and a human block that has room for many edits."""
    return await runtime.agents.ensure(
        name,
        blocks=[
            Block.load("persona/companion"),
            Block.human("Name: unknown", limit=_BLOCK_LIMIT),
        ],
    )


async def last_body(mock: Mock, agent: AsyncAgent) -> dict[str, Any]:
    """The body of the request of one more turn."""
    mock.ask("/control", {"capture": 1})
    await agent.send(HELLO)
    body: dict[str, Any] = mock.ask("/captured")[-1]["body"]
    mock.ask("/control", {"capture": 0})
    return body


async def timed(
    mock: Mock, agent: AsyncAgent, text: str, times: int, before: Before | None = None
) -> dict[str, Any]:
    """Turns and bare client calls of the same size by turns: what slows the machine slows both.

    Args:
        text: what is sent.
        times: how many of each.
        before: done before the turn of that number, and not timed.
    """
    for _ in range(WARMING):
        await agent.send(text)
    body = await last_body(mock, agent)
    ours: list[float] = []
    bare: list[float] = []
    async with bare_client(mock.url) as call:
        for _ in range(WARMING):
            await call(body)
        for turn in range(times):
            if before is not None:
                await before(turn)
            ours.append(await cpu_ms(partial(agent.send, text)))
            bare.append(await cpu_ms(partial(call, body)))
    return {
        "cpu_ms": statistics.median(ours),
        "cpu_ms_low": low(ours),
        "bare_client_cpu_ms": statistics.median(bare),
        "messages": len(body["messages"]),
    }


async def echo(mock: Mock, folder: Path, sizes: Sizes) -> dict[str, Any]:
    """A short turn with its answer, in a window of at most ten such turns."""
    async with AsyncRuntime(folder, model=mock.model(LARGE, "echo"), embedder=None) as runtime:
        agent = await an_agent(runtime, "echo")

        async def empty(turn: int) -> None:
            if turn % 10 == 0:
                await agent.reset()

        figures = await timed(mock, agent, HELLO, sizes.echoes, empty)
        with Counted() as counted:
            await agent.send(HELLO)
    return {**figures, "commits": counted.commits, "statements": counted.statements}


async def with_vectors(mock: Mock, folder: Path, sizes: Sizes) -> dict[str, Any]:
    """Short turns with the local embedder, until the vectors of all they said are stored."""
    async with AsyncRuntime(
        folder, model=mock.model(LARGE, "vectors"), embedder="local"
    ) as runtime:
        agent = await an_agent(runtime, "vectors")
        # Loads the embedder.
        await agent.send(HELLO)
        await all_embedded(runtime)
        began = time.process_time()
        for turn in range(sizes.echoes):
            if turn % 10 == 0:
                await agent.reset()
            await agent.send(HELLO)
        await all_embedded(runtime)
        spent = time.process_time() - began
        stored = (await runtime.search_status()).stored
    return {"cpu_ms": 1_000 * spent / sizes.echoes, "stored": stored}


async def all_embedded(runtime: AsyncRuntime) -> None:
    """Waits until no text waits for its vectors."""
    while True:
        if not (await runtime.search_status()).pending:
            return
        await asyncio.sleep(0.25)


async def chain(mock: Mock, folder: Path, sizes: Sizes) -> dict[str, Any]:
    """Ten memory edits and an answer in one turn, on a window and a block that were emptied."""
    text = f"Note what you learn. [[chain:{EDITS}]]"
    async with AsyncRuntime(folder, model=mock.model(LARGE, "chain"), embedder=None) as runtime:
        agent = await an_agent(runtime, "chain")

        async def empty(_: int) -> None:
            await agent.reset()
            await (await agent.blocks.get("human")).rewrite("Name: unknown")

        figures = await timed(mock, agent, text, sizes.chains, empty)
        with Counted() as counted:
            done = await agent.send(text)
    if sum(len(step.changes) for step in done.steps) != EDITS:
        raise SystemExit(f"the chain did not make its {EDITS} edits: {done.steps}")
    steps = len(done.steps)
    return {
        "steps": steps,
        "cpu_ms": figures["cpu_ms"] / steps,
        "cpu_ms_low": figures["cpu_ms_low"] / steps,
        "bare_client_cpu_ms": figures["bare_client_cpu_ms"],
        # The first commit accepts the message, before any step.
        "commits": (counted.commits - 1) / steps,
        "statements": counted.statements / steps,
    }


async def long_window(mock: Mock, folder: Path, sizes: Sizes) -> dict[str, Any]:
    """A turn with thousands of messages in its window."""
    async with AsyncRuntime(folder, model=mock.model(LARGE, "long"), embedder=None) as runtime:
        agent = await an_agent(runtime, "long")
        main = await agent.conversations.get()
        await asyncio.to_thread(seed, folder, agent.id, main.id, sizes.window, window=True)
        return await timed(mock, agent, HELLO, sizes.long_turns)


async def history(mock: Mock, folder: Path, sizes: Sizes) -> dict[str, Any]:
    """A turn in a small window after a long past, beside one after a short past, by turns."""
    times: dict[int, list[float]] = {100: [], sizes.history: []}
    async with AsyncExitStack() as stack:
        agents: list[tuple[int, AsyncAgent]] = []
        for count in times:
            place = folder / str(count)
            model = mock.model(8_192, f"history-{count}")
            runtime = await stack.enter_async_context(
                AsyncRuntime(place, model=model, embedder=None)
            )
            agent = await an_agent(runtime, "history")
            main = await agent.conversations.get()
            await asyncio.to_thread(seed, place, agent.id, main.id, count, window=False)
            agents.append((count, agent))
        for turn in range(sizes.history_turns + WARMING):
            for count, agent in agents:
                cpu = await cpu_ms(partial(agent.send, HELLO))
                if turn >= WARMING:
                    times[count].append(cpu)
    medians = {count: statistics.median(spent) for count, spent in times.items()}
    return {
        "messages": sizes.history,
        "cpu_ms": medians[sizes.history],
        "cpu_ms_low": low(times[sizes.history]),
        "cpu_ms_after_100": medians[100],
        "ratio": medians[sizes.history] / medians[100],
    }


async def prefix(mock: Mock, folder: Path, turns: int = 12) -> dict[str, Any]:
    """Whether each request without an edit in between begins with the whole one before it."""
    async with AsyncRuntime(folder, model=mock.model(LARGE, "prefix"), embedder=None) as runtime:
        agent = await an_agent(runtime, "prefix")
        mock.ask("/control", {"capture": 10_000})
        mock.ask("/reset", {})
        for turn in range(turns):
            await agent.send(f"Hello for the {turn}th time.")
        bodies = [entry["body"] for entry in mock.ask("/captured")]
        stats = mock.ask("/stats")
        mock.ask("/control", {"capture": 0})
    pairs = list(pairwise(bodies))
    kept = sum(_is_prefix(before, after) for before, after in pairs)
    by_mock = stats.get("kept_of_previous") or {}
    return {
        "pairs": len(pairs),
        "kept_whole": share(kept, len(pairs)),
        # By characters of the serialised list, whose closing bracket is never kept.
        "characters_kept_by_mock": by_mock.get("share"),
    }


def _is_prefix(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    messages = before["messages"]
    return bool(
        before.get("tools") == after.get("tools") and after["messages"][: len(messages)] == messages
    )


_IMPORT = """
import sys, time
asked = []
sys.addaudithook(lambda name, _: asked.append(name)
                 if name in ("socket.connect", "socket.getaddrinfo", "socket.sendto") else None)
began, cpu = time.perf_counter(), time.process_time()
import {packages}
spent = time.perf_counter() - began, time.process_time() - cpu
import json
print(json.dumps([*spent, sorted(set({heavy!r}) & set(sys.modules)), asked, len(sys.modules)]))
"""

_START = """
import asyncio, json, resource, sys, time
from pagedaemon import AsyncRuntime, Block, Model

async def main():
    model = Model({name!r}, base_url={url!r}, context_window={window})
    async with AsyncRuntime({folder!r}, model=model) as runtime:
        agent = await runtime.agents.ensure(
            "first", blocks=[Block.load("persona/companion"), Block.human("Name: unknown")]
        )
        turn = await agent.send("Hello there, how are you?")
        assert turn.reply, turn
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps([peak / (2**20 if sys.platform == "darwin" else 2**10),
                          time.process_time()]), flush=True)

asyncio.run(main())
"""


def _python(code: str, compiled: Path) -> Any:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "runtime"),
        # An installed package is compiled once. Whether a checkout's is must not decide.
        "PYTHONPYCACHEPREFIX": str(compiled),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def imports(compiled: Path, sizes: Sizes) -> dict[str, Any]:
    """The import, each in a process of its own, by turns with that of its three packages."""
    runs: dict[str, list[Any]] = {PEERS: [], "pagedaemon": []}
    for number in range(sizes.imports + 1):
        for packages, answers in runs.items():
            answer = _python(_IMPORT.format(packages=packages, heavy=HEAVY), compiled)
            if number > 0:  # the first one compiles
                answers.append(answer)
    peers, ours = runs.values()
    own, theirs = (statistics.median(run[0] for run in answers) for answers in (ours, peers))
    return {
        "seconds": own,
        "cpu_seconds": statistics.median(run[1] for run in ours),
        "peers_seconds": theirs,
        "ratio": own / theirs,
        "loaded_too_early": ours[0][2],
        "network": ours[0][3],
        "modules": ours[0][4],
        "peers_modules": peers[0][4],
    }


def cold_start(mock: Mock, folder: Path, compiled: Path, window: int, times: int) -> dict[str, Any]:
    """From the start of the interpreter, in an empty folder, to the first reply."""
    spent: list[float] = []
    answers: list[Any] = []
    # The first start compiles what the import had no need of, and is not counted.
    for number in range(times + 1):
        code = _START.format(
            name=MODEL, url=mock.url, window=window, folder=str(folder / f"{window}-{number}")
        )
        began = time.perf_counter()
        answers.append(_python(code, compiled))
        spent.append(time.perf_counter() - began)
    return {
        "window": window,
        "seconds": statistics.median(spent[1:]),
        "cpu_seconds": statistics.median(answer[1] for answer in answers[1:]),
        "peak_mb": statistics.median(answer[0] for answer in answers[1:]),
    }


async def measured(mock: Mock, folder: Path, sizes: Sizes) -> dict[str, Any]:
    """All figures."""
    compiled = folder / "compiled"
    return {
        "python": platform.python_version(),
        "folder": str(folder),
        "file_system": file_system(folder),
        "fsync_ms": fsync_ms(folder, sizes.syncs),
        "import": imports(compiled, sizes),
        "cold_start": cold_start(mock, folder, compiled, 128_000, sizes.starts),
        "cold_start_8k": cold_start(mock, folder, compiled, 8_192, sizes.starts),
        "echo": await echo(mock, folder / "echo", sizes),
        "echo_with_vectors": await with_vectors(mock, folder / "vectors", sizes),
        "chain": await chain(mock, folder / "chain", sizes),
        "long_window": await long_window(mock, folder / "long", sizes),
        "history": await history(mock, folder / "history", sizes),
        "prefix": await prefix(mock, folder / "prefix"),
    }


Row = tuple[str, object, object, object, str, str]


def summary(figures: Mapping[str, Any]) -> list[Row]:
    """Rows of (what, ours, its lowest tenth, what stands beside it, bar, verdict)."""
    imported, started, early = figures["import"], figures["cold_start"], figures["cold_start_8k"]
    echoed, chained, embedded = figures["echo"], figures["chain"], figures["echo_with_vectors"]
    long, past, kept = figures["long_window"], figures["history"], figures["prefix"]

    def row(what: str, ours: float, bar: float, beside: object = None) -> Row:
        return what, ours, None, beside, f"<= {bar:g}", "ok" if ours <= bar else "ABOVE"

    def spent(what: str, ours: Mapping[str, Any], bar: float) -> Row:
        bare = f"bare call {ours['bare_client_cpu_ms']:.2f}"
        verdict = "ok" if ours["cpu_ms"] <= bar else "ABOVE"
        return f"{what}, ms CPU", ours["cpu_ms"], ours["cpu_ms_low"], bare, f"<= {bar:g}", verdict

    after = f"{past['cpu_ms']:.1f} / {past['cpu_ms_after_100']:.1f} ms"
    whole = "ok" if kept["kept_whole"] == 1 else "BELOW"
    return [
        row("import, ratio to its packages", imported["ratio"], 2, imported["peers_seconds"]),
        row("import, heavy packages loaded", len(imported["loaded_too_early"]), 0),
        row("import, uses of the network", len(imported["network"]), 0),
        spent("echo turn", echoed, 6),
        ("the same with its vectors, ms CPU", embedded["cpu_ms"], None, None, "", ""),
        row("echo turn, commits", echoed["commits"], 2),
        row("echo turn, SQL statements", echoed["statements"], 15),
        spent("chain, per step", chained, 6),
        row("chain, commits per step", chained["commits"], 1),
        spent(f"{long['messages']} messages", long, 25),
        row(f"after {past['messages']} messages, ratio to 100", past["ratio"], 1.2, after),
        row("cold start to first reply, s", started["seconds"], 1.5),
        row("memory after it, MB", started["peak_mb"], 110),
        ("the same in an 8k window, s", early["seconds"], None, None, "", ""),
        ("memory after it, MB", early["peak_mb"], None, None, "", ""),
        (
            "requests kept whole as prefix",
            kept["kept_whole"],
            None,
            f"{kept['pairs']} pairs",
            "= 1",
            whole,
        ),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the arguments, measures, prints. Returns the exit status: 0, whatever was measured."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--mock", help="the API's stand-in, a script; default: $PAGEDAEMON_MOCK")
    parser.add_argument("--folder", help="where stores are made; default: the temporary folder")
    parser.add_argument("--json", help="where the figures are written")
    parser.add_argument("--tiny", action="store_true", help="only show that it runs")
    given = parser.parse_args(arguments)
    usual = SHARED / "bench" / "mock_openai.py"
    script = needed(given.mock, "PAGEDAEMON_MOCK", usual, "--mock", "a stand-in for the OpenAI API")
    with (
        tempfile.TemporaryDirectory(prefix="overhead-", dir=given.folder) as folder,
        Mock(script) as mock,
    ):
        sizes = TINY if given.tiny else Sizes()
        figures = asyncio.run(measured(mock, Path(folder).resolve(), sizes))
    where = f"{figures['file_system']}, fsync {figures['fsync_ms']:.2f} ms"
    head = ["", "ours", "lowest tenth", "beside it", "bar", ""]
    print(table(f"Overhead on {where}", head, summary(figures)))
    write_json(given.json, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
