"""A call that must not run twice, of a tool that can be asked what became of it, killed at
statements, commits and inside the tool: the effect is there once, and its result is known.

`python -m tests.crash.reconciling [n] [bug]` kills a child at every place inside the tool, at every
commit and at each nth statement (default: every one; 0: none), with a bug of `bugs.py` in it, and
writes what was wrong as JSON.

The ledger beside the database stands for the outside: it holds the key of each charge, and
`reconcile` looks there. Without being asked, a crash would leave some of these outcomes unknown.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from tests.crash import bugs
from tests.crash.forking import folder, forked
from tests.crash.points import FaultPoints, Tell

from pagedaemon import AsyncRuntime, NeverRan, ToolContext, tool
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import ScriptedModel, call, say, view
from pagedaemon.tools.tool import Tool

KINDS = ("inside a tool", "before a statement", "before a commit", "after a commit")


def charged(store: Path) -> list[str]:
    """The keys of what was charged."""
    ledger = store / "ledger"
    return ledger.read_text().split() if ledger.exists() else []


def charging(store: Path, points: FaultPoints, answer: Callable[[str], object] | None) -> Tool:
    """The tool.

    Args:
        answer: what `reconcile` says of a key; None: what the ledger says of it.
    """

    def look(key: str) -> object:
        points.reach("inside a tool", "reconcile, before it answers")
        if answer is not None:
            return answer(key)
        return "order 41 is charged" if key in charged(store) else NeverRan()

    @tool(reconcile=look)
    def charge(order: int, context: ToolContext) -> str:
        """Charges an order to the card."""
        points.reach("inside a tool", "charge, before it acts")
        with (store / "ledger").open("a") as file:
            file.write(f"{context.key}\n")
        points.reach("inside a tool", "charge, after it acted")
        return f"order {order} is charged"

    return charge


def answer(request: Request) -> Reply:
    """Charges once, and says what came of it."""
    results = view(request).results
    if "charge" not in results:
        return call("charge", order=41, heartbeat=True)
    return say(results["charge"][0])


def opened(
    store: Path, points: FaultPoints, says: Callable[[str], object] | None = None
) -> AsyncRuntime:
    """With the code of the tool."""
    return AsyncRuntime(
        store / "memory",
        model="script",
        models={"script": ScriptedModel(answer)},
        tools=[charging(store, points, says)],
        embedder=None,
    )


async def make(store: Path) -> None:
    """The agent, before anything is said."""
    async with opened(store, FaultPoints()) as runtime:
        await runtime.agents.create("ada", tools=[charging(store, FaultPoints(), None)])


async def run(
    store: Path, points: FaultPoints, says: Callable[[str], object] | None = None
) -> str | None:
    """Sends once, whatever was done before, and waits for the reply."""
    points.arm()
    async with opened(store, points, says) as runtime:
        ada = await runtime.agents.get("ada")
        turn = await (await ada.send_later("Charge order 41.", key="once")).wait()
        points.disarm()
        return turn.reply


def statuses(store: Path) -> list[str]:
    """What became of the calls of the tool."""
    with closing(sqlite3.connect(store / "memory" / "spaces" / "default" / "space.db")) as raw:
        return [row[0] for row in raw.execute("SELECT status FROM calls WHERE tool = 'charge'")]


def places(store: Path) -> dict[str, int]:
    """How many places of each kind there are."""

    async def counting(tell: Tell) -> None:
        points = FaultPoints()
        points.watch()
        await run(store, points)
        tell(json.dumps({kind: len(points.seen.get(kind, ())) for kind in KINDS}))

    ended = forked(counting)
    assert ended.code == 0, "a run without a kill failed"
    seen: dict[str, int] = json.loads(ended.said[-1])
    return seen


def killed_at(
    template: Path,
    store: Path,
    place: tuple[str, int],
    *,
    again: tuple[str, int] | None = None,
    bug: str | None = None,
    says: Callable[[str], object] | None = None,
) -> dict[str, object]:
    """A child killed there, one that recovers killed at another place, and one that goes on.

    Args:
        says: what `reconcile` says.
    """
    shutil.copytree(template, store)

    async def dying(where: tuple[str, int], tell: Tell) -> None:
        if bug is not None:
            getattr(bugs, bug)()
        points = FaultPoints(where)
        points.watch()
        await run(store, points, says)

    async def recovering(tell: Tell) -> None:
        tell(str(await run(store, FaultPoints(), says)))

    deadly = [place] if again is None else [place, again]
    deaths = [forked(partial(dying, where)).killed for where in deadly]
    recovered = forked(recovering)
    found = {
        "place": place,
        "killed": deaths,
        "code": recovered.code,
        "replies": recovered.said,
        "charged": len(charged(store)),
        "keys": len(set(charged(store))),
        "statuses": statuses(store),
    }
    shutil.rmtree(store)
    return found


def is_wrong(found: dict[str, object]) -> bool:
    """Whether the effect is not there once, under one key, with its result."""
    told = found["replies"] == ["order 41 is charged"]
    return not told or (found["charged"], found["statuses"]) != (1, ["ok"])


def swept(nth: int, bug: str | None = None) -> dict[str, object]:
    """Kills at every place but of statements at each nth, and some recoveries too."""
    with folder() as where:
        template = where / "template"
        template.mkdir()
        asyncio.run(make(template))
        shutil.copytree(template, where / "counted")
        there = places(where / "counted")
        outcomes = []
        for kind, count in there.items():
            step = nth if kind == "before a statement" else 1
            for number in range(0, count, step) if step else ():
                place = (kind, number)
                outcomes.append(killed_at(template, where / "store", place, bug=bug))
        # In the recovery the first place inside a tool is in `reconcile`.
        twice = [
            killed_at(template, where / "store", ("inside a tool", first), again=again)
            for first in range(there["inside a tool"])
            for again in (("inside a tool", 0), ("inside a tool", 1))
        ]
        unsure = killed_at(template, where / "store", ("inside a tool", 1), says=lambda key: None)
    return {
        "places": there,
        "killed": sum(found["killed"] == [True] for found in outcomes),
        "tried": len(outcomes),
        "wrong": [found for found in outcomes if is_wrong(found)],
        "twice": [found["killed"] for found in twice],
        "wrong twice": [found for found in twice if is_wrong(found)],
        "unsure": unsure,
    }


if __name__ == "__main__":
    json.dump(swept(int([*sys.argv, "1"][1]), *sys.argv[2:]), sys.stdout)
