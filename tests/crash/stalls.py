"""Stops a process by SIGSTOP past its lease at one place after another, lets a second one bring its
turn to an end, and lets the first go on: it must write nothing more.

Where the first stands still within a transaction nobody else can write, and no lease helps. There
the second one waits, the first goes on while it does, and what both make of it must be whole.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from tests.crash.bugs import BUGS
from tests.crash.charging import AGENT, Charging
from tests.crash.forking import Child, started
from tests.crash.look import Look
from tests.crash.points import AT, IN, FaultPoints, Place, Tell

from pagedaemon import AsyncRuntime
from pagedaemon.errors import LeaseLost

if TYPE_CHECKING:
    from tests.crash.driver import Outcome, Sweep

LEASE = 0.5
"""Seconds that a lease lasts."""

WAITING = 0.3
"""Seconds that a second process is given to come to a lock that is held."""

MANY = ("before a statement", "after a statement")
"""Kinds of places that lie close together, most of them within a transaction."""

HANDED_OVER = ("after a task gave way: _run", "before a task runs on: Toolbox._attempt")
"""Where a call is on its way from the last look at the lease to its function: it may be run after
the lease was lost, as one whose outcome is unknown, but not twice."""


class Stalling(Charging):
    """The turn, in a process that stands still at its place."""

    def __init__(self, store: Path, points: FaultPoints, tell: Tell) -> None:
        super().__init__(store, points, tell)
        self._begun_before = 0
        points.act = self._stand_still

    def _begun(self) -> int:
        return sum("before it" in label for label in self.points.seen.get("inside a tool", ()))

    def _stand_still(self) -> None:
        # To this thread: sent to the process, it would let this one run on for a moment.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        self._begun_before = self._begun()

    def open(self, *, lease_seconds: float = LEASE) -> AsyncRuntime:
        """With a short lease."""
        return super().open(lease_seconds=lease_seconds)

    async def act(self, runtime: AsyncRuntime) -> None:
        """The turn, until its end or the loss of its lease."""
        try:
            await super().act(runtime)
        except LeaseLost as error:
            self.tell(f"lost: {error.accepted}")
        else:
            self.tell("ended")
        # Whatever else it meant to do, it has time for.
        await asyncio.sleep(LEASE / 2)
        self.tell(f"began {self._begun() - self._begun_before} tools")


def every_stall(sweep: Sweep, job: Outcome) -> Outcome:
    """One process for each place of the turn, which stands still there. The job says:

    - `every`: of statements only each so manieth; of all else all.
    - `part`: which of how many drivers this is, that share the places among them.
    - `bug`, `until_found`: seeded, and looked for no further than to the first broken promise.
    """
    places = sweep.places()
    chosen = [
        (kind, number)
        for kind in places
        for number in range(len(places[kind]))
        if kind not in MANY or number % job["every"] == 0
    ]
    part, parts = job.get("part", (0, 1))
    outcomes = []
    for kind, number in chosen[part::parts]:
        # A lease that is renewed meanwhile moves the numbers: the process says where it stood.
        planned = f"{kind}: {places[kind][number]}"
        outcome = {"place": planned, **_stall(sweep, (kind, number), job.get("bug"))}
        outcomes.append(outcome)
        if job.get("until_found") and outcome["problems"]:
            break
    return {"outcomes": outcomes}


def _stall(sweep: Sweep, place: Place, bug: str | None) -> Outcome:
    store = sweep.copy()

    async def stalling(tell: Tell) -> None:
        if bug is not None:
            BUGS[bug].seed()
        points = FaultPoints(place, tell)
        points.watch()
        await Stalling(store, points, tell).run()

    first = started(stalling)
    if not first.stands_still():
        first.end()
        return {"end": "never came there", "problems": []}
    hand = _hand(store)
    if hand == "open":
        first.kill()
        first.end()
        return {"end": "no turn in hand", "problems": []}
    time.sleep(LEASE * 1.2)
    found = _contended(sweep, store, first) if hand == "locked" else _fenced(sweep, store, first)
    stood = next(line for line in found["said"] if line.startswith(AT)).removeprefix(AT)
    late = "began 0 tools" not in found["said"] and stood.split(IN)[0] not in HANDED_OVER
    if hand == "running" and late:
        found["problems"].append(f"begun late: {found['said']}")
    sweep.remove(store)
    return {"place": stood, **found}


def _hand(store: Path) -> str:
    """`locked`: somebody holds the file's lock. `running`: a turn runs. `open`: neither."""
    with closing(_opened(store, timeout=0.05)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return "locked"
        query = "SELECT count(*) FROM turns WHERE status = 'running'"
        (running,) = connection.execute(query).fetchone()
        connection.execute("ROLLBACK")
    return "running" if running else "open"


def _fenced(sweep: Sweep, store: Path, first: Child) -> Outcome:
    """Another process brings the turn to its end while the first stands still."""
    found = sweep.findings(store, [], keep=True)
    before = _everything(store)
    first.go_on()
    said = first.end().said
    problems = list(found["problems"])
    if _everything(store) != before:
        problems.append("written late: by a process that had lost its lease")
    if not any(line.startswith("lost: turn-") for line in said):
        problems.append(f"not told: {said}")
    effects = Charging(store).effects()
    if len(effects) > 1:
        problems.append(f"ran twice: {effects}")
    return {
        "end": "fenced",
        "said": said,
        "effects": len(effects),
        "status": found.get("status"),
        "problems": problems,
    }


def _contended(sweep: Sweep, store: Path, first: Child) -> Outcome:
    """Another process comes while the first holds the file's lock, and waits until it goes on."""

    async def coming(tell: Tell) -> None:
        second = Charging(store, FaultPoints(), tell)
        look = Look(store)
        async with second.open(lease_seconds=LEASE) as runtime:
            await look.answered(runtime, second.agents)
            await second.take_up(runtime)
        for problem in look.problems:
            tell(f"problem: {problem}")

    second = started(coming)
    time.sleep(WAITING)
    first.go_on()
    ended, other = first.end(), second.end()
    found = sweep.findings(store, [ended.said, other.said], keep=True)
    problems = list(found["problems"])
    problems += [line for line in other.said if line.startswith("problem")]
    if ended.code or other.code:
        problems.append(f"not ended: {ended}, {other}")
    return {"end": "contended", "said": ended.said, "problems": problems}


def _everything(store: Path) -> str:
    """The whole content of the store."""
    with closing(_opened(store)) as connection:
        return json.dumps(list(connection.iterdump()))


def _opened(store: Path, timeout: float = 30.0) -> sqlite3.Connection:
    file = store / "spaces" / "default" / "space.db"
    return sqlite3.connect(file, timeout=timeout, isolation_level=None)


SLOW_LEASE = 1.5
"""Seconds of a lease that must be renewed: long, for a machine that is busy with others."""


def kept(sweep: Sweep, job: Outcome) -> Outcome:
    """A turn that lasts for two leases, while another process waits to take it over."""
    store, bug = sweep.copy(), job.get("bug")

    async def slow(tell: Tell) -> None:
        if bug is not None:
            BUGS[bug].seed()
        charging = Charging(store, FaultPoints(), tell)
        charging.slow = 2 * SLOW_LEASE + 0.3
        async with charging.open(lease_seconds=SLOW_LEASE) as runtime:
            try:
                await charging.act(runtime)
            except LeaseLost as error:
                tell(f"lost: {error.accepted}")

    async def waiting(tell: Tell) -> None:
        async with Charging(store).open(lease_seconds=SLOW_LEASE) as runtime:
            main = await (await runtime.agents.get(AGENT)).conversations.get()
            for turn in await main.turns(status="open"):
                await turn.wait()
                tell("waited")

    first = started(slow)
    _until_charged(store)
    second = started(waiting)
    said, heard = first.end().said, second.end().said
    with closing(_opened(store)) as connection:
        (epoch,) = connection.execute("SELECT epoch FROM conversations").fetchone()
    found = sweep.findings(store, [said])
    problems = list(found["problems"])
    # One claim was of the store's first message, one of the turn.
    if epoch != 2 or any(line.startswith("lost") for line in said):
        problems.append(f"taken away: epoch {epoch}, {said}")
    if heard != ["waited"]:
        problems.append(f"not told: {heard}")
    return {"problems": problems}


def _until_charged(store: Path) -> None:
    """Until the first of two calls is over, and the slow one has begun."""
    with closing(_opened(store)) as connection:
        query = "SELECT count(*) FROM calls WHERE tool = 'charge' AND status = 'ok'"
        for _ in range(2_000):
            if connection.execute(query).fetchone()[0]:
                return
            time.sleep(0.01)
    raise TimeoutError("the turn got nowhere")
