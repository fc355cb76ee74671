"""Stops a process by SIGSTOP past its lease at one place after another, lets a second one bring its
turn to an end, and lets the first go on: it must write nothing more."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import sqlite3
import time
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.crash import scenario
from tests.crash.points import FaultPoints

from pagedaemon.errors import LeaseLost

if TYPE_CHECKING:
    from tests.crash.driver import Place, Sweep

LEASE = 0.5
"""Seconds that a lease lasts."""

PATIENCE = 20.0
"""Seconds a process may take, once it goes on."""

KINDS = ("after a commit", "before a task runs on", "after a task gave way", "inside a tool")
"""Kinds of places where a process can stand still without holding the file's lock, which no lease
can help against."""

HANDED_OVER = ("after a task gave way: _run", "before a task runs on: Toolbox._attempt")
"""Where a call is on its way from the last look at the lease to its function: it may be run after
the lease was lost, as one whose outcome is unknown, but not twice."""


@dataclass
class Stalled:
    """A process that stands still."""

    pid: int
    pipe: int

    def go_on(self) -> list[str]:
        """What it told, to its end."""
        os.kill(self.pid, signal.SIGCONT)
        heard, until = b"", time.monotonic() + PATIENCE
        while select.select([self.pipe], [], [], max(0.0, until - time.monotonic()))[0]:
            piece = os.read(self.pipe, 65536)
            if not piece:
                return heard.decode().splitlines()
            heard += piece
        raise TimeoutError(f"it did not end; it told {heard!r}")


@contextmanager
def standing_still(sweep: Sweep, store: Path, place: Place) -> Iterator[Stalled | None]:
    """A process that runs the turn and stops at a place; None where it never came there."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reading)
            sweep.seed()
            asyncio.run(_turn(store, FaultPoints(place), writing))
            code = 0
        finally:
            if code:
                traceback.print_exc()
            os._exit(code)
    os.close(writing)
    ended = False
    try:
        _, status = os.waitpid(pid, os.WUNTRACED)
        ended = not os.WIFSTOPPED(status)
        yield None if ended else Stalled(pid, reading)
    finally:
        os.close(reading)
        if not ended:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


async def _turn(store: Path, points: FaultPoints, writing: int) -> None:
    points.watch()
    begun_before: list[int] = []

    def begun() -> int:
        return sum("before it" in label for label in points.seen.get("inside a tool", ()))

    def stand_still() -> None:
        os.kill(os.getpid(), signal.SIGSTOP)
        begun_before.append(begun())

    points.act = stand_still
    clerk = scenario.Clerk(store, points, lambda _: None)
    async with clerk.open(lease_seconds=LEASE) as runtime:
        agent = await runtime.agents.get(scenario.AGENT)

        async def listen() -> str:
            # As the turn that was looked at for its places is listened to.
            try:
                async for _ in agent.stream(scenario.TASK):
                    pass
            except LeaseLost as error:
                return f"lost: {error.accepted}"
            return "ended"

        points.arm()
        heard = await asyncio.create_task(listen())
        points.disarm()
        os.write(writing, f"{heard}\n".encode())
        # Whatever else it meant to do, it has time for.
        await asyncio.sleep(LEASE / 2)
        os.write(writing, f"began {begun() - sum(begun_before)} tools\n".encode())


def every_stall(
    sweep: Sweep, *, every: int, part: tuple[int, int], until_found: bool
) -> dict[str, Any]:
    """One process for each place of the turn, which stands still there.

    Args:
        every: of every so many places of a kind only one; of commits and tools all.
        part: which of how many drivers this is, that share the places among them.
        until_found: stops at the first broken promise, as the search for a seeded bug does.
    """
    places = sweep.places()
    chosen = [
        (kind, number)
        for kind in KINDS
        for number in range(len(places[kind]))
        if "task" not in kind or number % every == 0
    ]
    outcomes = []
    for place in chosen[part[0] :: part[1]]:
        label = f"{place[0]}: {places[place[0]][place[1]]}"
        outcomes.append({"place": label, **_stall(sweep, place, label)})
        if until_found and outcomes[-1]["problems"]:
            break
    return {"outcomes": outcomes}


def _stall(sweep: Sweep, place: Place, label: str) -> dict[str, Any]:
    store = sweep.stalling()
    with standing_still(sweep, store, place) as stalled:
        if stalled is None:
            return {"end": "never came there", "problems": []}
        if not _in_hand(store):
            return {"end": "not in hand", "problems": []}
        time.sleep(LEASE * 1.2)
        found = sweep.findings_kept(store)
        before = _everything(store)
        said = stalled.go_on()
        problems = list(found["problems"])
        if _everything(store) != before:
            problems.append("written late: by a process that had lost its lease")
        if not said or not said[0].startswith("lost: turn-"):
            problems.append(f"not told: {said}")
        if said[1:] != ["began 0 tools"] and label not in HANDED_OVER:
            problems.append(f"begun late: {said}")
        ledger = store.with_suffix(".ledger")
        charged = len(ledger.read_text().splitlines()) if ledger.exists() else 0
        if charged > 1:
            problems.append(f"ran twice: {charged} charges")
        return {
            "end": "fenced",
            "charged": charged,
            "status": found["status"],
            "problems": problems,
        }


def _in_hand(store: Path) -> bool:
    """Whether a turn runs there, and nobody holds the file's lock."""
    file = store / "spaces" / "default" / "space.db"
    with closing(sqlite3.connect(file, timeout=0.05, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        (running,) = connection.execute(
            "SELECT count(*) FROM turns WHERE status = 'running'"
        ).fetchone()
        connection.execute("ROLLBACK")
    return bool(running)


def _everything(store: Path) -> str:
    """The whole content of the store."""
    file = store / "spaces" / "default" / "space.db"
    with closing(sqlite3.connect(file)) as connection:
        return json.dumps(list(connection.iterdump()))
