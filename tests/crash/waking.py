"""A timer and a letter, killed at statements and commits: each wakes its agent once.

`python -m tests.crash.waking [n]` kills a child at every commit and at each nth statement (default:
every one), and writes what was wrong as JSON. Two
turns run without anybody who sends: one that a timer wakes, in which the agent asks another, and
the other's, whose answer wakes the first again.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from tests.crash.driver import Told, folder, forked
from tests.crash.points import FaultPoints

from pagedaemon import AsyncRuntime
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import FakeClock, ScriptedModel, call, say, text

KINDS = ("before a statement", "before a commit", "after a commit")
EVENTS = {("ada", "timer"): 1, ("bob", "question"): 1, ("ada", "answer"): 1}
"""What must have woken whom, and how often."""


def ada(request: Request) -> Reply:
    """Asks bob when the timer rings."""
    last = str(request.messages[-1]["content"])
    if request.messages[-1]["role"] == "user" and '"reason": "timer"' in last:
        return call("send_message_to_agent", name="bob", message="Ready?", answer=True)
    return text("")


def bob(request: Request) -> Reply:
    """Answers."""
    return say("Ready.")


def opened(store: Path, *, late: float = 3_600.0, recover: bool = True) -> AsyncRuntime:
    """The clock stands so many seconds after the timer was due."""
    models = {"ada": ScriptedModel(ada), "bob": ScriptedModel(bob)}
    clock = FakeClock()
    clock.advance(late)
    return AsyncRuntime(store, models=models, clock=clock, recover=recover, embedder=None)


async def make(store: Path) -> None:
    """Two agents, and a timer that nobody has been there for."""
    async with opened(store, late=0.0, recover=False) as runtime:
        one = await runtime.agents.create("ada", model="ada", messaging=True)
        await runtime.agents.create("bob", model="bob")
        await one.schedule("Ask bob.", at=FakeClock().now())


def woken(store: Path) -> Mapping[tuple[str, str], int]:
    """Who was woken by what, and how often."""
    query = (
        "SELECT agents.name, event, count(*) FROM turns JOIN conversations ON"
        " conversations.id = conversation_id JOIN agents ON agents.id = agent_id"
        " WHERE status = 'done' GROUP BY 1, 2"
    )
    with closing(sqlite3.connect(store / "spaces" / "default" / "space.db")) as raw:
        return {(name, event): count for name, event, count in raw.execute(query)}


def left(store: Path) -> int:
    """Timers that are still to ring, and turns that have not ended."""
    query = "SELECT (SELECT count(*) FROM schedules) + count(*) FROM turns WHERE status != 'done'"
    with closing(sqlite3.connect(store / "spaces" / "default" / "space.db")) as raw:
        return int(raw.execute(query).fetchone()[0])


async def run(store: Path, points: FaultPoints) -> None:
    """Opens the store and lets happen what is due."""
    points.arm()
    async with opened(store):
        for _ in range(400):
            if woken(store) == EVENTS and not left(store):
                break
            await asyncio.sleep(0.005)
        points.disarm()


def places(store: Path) -> dict[str, int]:
    """How many places of each kind there are."""

    async def counting(tell: Told) -> None:
        points = FaultPoints()
        points.watch()
        await run(store, points)
        tell(json.dumps({kind: len(points.seen.get(kind, ())) for kind in KINDS}))

    ended = forked(counting)
    assert ended.code == 0, "a run without a kill failed"
    found: dict[str, int] = json.loads(ended.said[-1])
    return found


def killed_at(template: Path, store: Path, place: tuple[str, int]) -> tuple[bool, str | None]:
    """Whether a child was killed there, and what is wrong with what the next one makes of it."""
    shutil.copytree(template, store)

    async def dying(tell: Told) -> None:
        points = FaultPoints(place)
        points.watch()
        await run(store, points)

    async def recovering(tell: Told) -> None:
        await run(store, FaultPoints())

    killed = forked(dying).killed
    recovered = forked(recovering)
    found = woken(store)
    wrong = None
    if recovered.code or found != EVENTS or left(store):
        wrong = f"{place}: {recovered.code}, {found}, {left(store)} left"
    shutil.rmtree(store)
    return killed, wrong


def main(nth: int) -> None:
    """Kills at every commit and each nth statement."""
    with folder() as where:
        template = where / "template"
        asyncio.run(make(template))
        shutil.copytree(template, where / "counted")
        there = places(where / "counted")
        outcomes = [
            killed_at(template, where / "store", (kind, number))
            for kind, count in there.items()
            for number in range(0, count, nth if kind == "before a statement" else 1)
        ]
    killed = sum(killed for killed, _ in outcomes)
    wrong = [problem for _, problem in outcomes if problem]
    report = {"places": there, "tried": len(outcomes), "killed": killed, "wrong": wrong}
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
