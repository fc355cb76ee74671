"""Stops a process by SIGSTOP past its lease at one place after another, lets a second one bring
what it was at to an end, and lets the first go on: it must write nothing more.

Where the first stands still within a transaction nobody else can write, and no lease helps. There
the second one waits, the first goes on while it does, and what both make of it must be whole. It
must be, too, where the first has no turn in hand.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sqlite3
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from tests.crash.approving import Approving
from tests.crash.bugs import BUGS
from tests.crash.charging import AGENT, Charging
from tests.crash.forking import PATIENCE, Child, started
from tests.crash.look import Look
from tests.crash.paging import Paging
from tests.crash.points import AT, IN, FaultPoints, Place, Tell
from tests.crash.waking import Waking
from tests.crash.workload import Workload

from pagedaemon import AsyncRuntime
from pagedaemon.errors import LeaseLost

if TYPE_CHECKING:
    from tests.crash.driver import Outcome, Sweep

LEASE = 0.5
"""Seconds that a lease lasts."""

WAITING = 0.3
"""Seconds that a second process is given to come to a lock that is held."""

TOGETHER = 8
"""Places that are tried at the same time: most of it is waiting for a lease to run out."""

GLANCE = 0.005
"""Seconds between two looks at what is waited for."""

TRIES = 5
"""How often a point is tried that no process stood still at, as two threads may meet in another
order."""

HANDED_OVER = ("after a task gave way: _run", "before a task runs on: Toolbox._attempt")
"""Where a call is on its way from the last look at the lease to its function: it may be run after
the lease was lost, as one whose outcome is unknown, but not twice."""

Steps: TypeAlias = "Generator[Callable[[], bool], None, Outcome]"
"""A try that is made beside others: it gives what it waits for."""


class Stalling(Workload):
    """A workload's process, which stands still at its place.

    Attributes:
        usual: the workload.
        listens: whether it is told of its turn's end, and so of the loss of its lease.
        lingers: whether it waits at its end for what it may still do.
    """

    listens: ClassVar[bool] = True
    usual: ClassVar[type[Workload]]

    def __init__(self, store: Path, points: FaultPoints, tell: Tell) -> None:
        super().__init__(store, points, tell)
        self.lingers = True
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
        return self.usual.open(self, lease_seconds=lease_seconds)

    async def act(self, runtime: AsyncRuntime) -> None:
        """What it does, until its end or the loss of its lease."""
        try:
            await self.usual.act(self, runtime)
        except LeaseLost as error:
            self.tell(f"lost: {error.accepted}")
        else:
            self.tell("ended")
        if self.lingers:
            # Whatever else it meant to do, it has time for.
            await asyncio.sleep(LEASE / 2)
        self.tell(f"began {self._begun() - self._begun_before} tools")


class StallingCharge(Stalling, Charging):
    """The turn of three steps."""

    usual = Charging


class StallingPageOut(Stalling, Paging):
    """The turn that pages out."""

    usual = Paging


class StallingApproval(Stalling, Approving):
    """The call that is approved."""

    usual = Approving
    listens = False


class StallingWake(Stalling, Waking):
    """The timer and the letter."""

    usual = Waking
    listens = False


STALLING: dict[str, type[Stalling]] = {
    one.name: one for one in (StallingCharge, StallingPageOut, StallingApproval, StallingWake)
}


def every_stall(sweep: Sweep, job: Outcome) -> Outcome:
    """Processes that stand still, one at each point of the workload or at each of its places. The
    job says:

    - `all`: at each place; otherwise at one of each point.
    - `seed`: decides which one.
    - `bug`: seeded, and looked for no further than to where it breaks what it must. None: no bug.

    Returns:
        the `outcomes`, and of each point how many `stalls` there were.
    """
    places, bug = _places(sweep), job.get("bug")
    of: dict[str, list[Place]] = {}
    for kind, labels in places.items():
        for number, label in enumerate(labels):
            of.setdefault(f"{kind}: {label}", []).append((kind, number))
    drawn = random.Random(job["seed"])
    chosen = [
        place for some in of.values() for place in (some if job["all"] else [drawn.choice(some)])
    ]
    outcomes: list[Outcome] = []
    with closing(side_by_side(_stall(sweep, place, bug) for place in chosen)) as tried:
        for outcome in tried:
            outcomes.append(outcome)
            promises = () if bug is None else BUGS[bug].promises
            if any(problem.startswith(promises) for problem in outcome["problems"]):
                return {"outcomes": outcomes}
    # A lease that is renewed meanwhile moves the numbers.
    points = set(of) & _points(sweep)
    for _ in range(TRIES):
        left = sorted(points - {outcome["place"] for outcome in outcomes})
        again: list[Place] = [(kind, label) for kind, _, label in (p.partition(": ") for p in left)]
        outcomes += side_by_side(_stall(sweep, place, bug) for place in again)
    stood = Counter(outcome["place"] for outcome in outcomes)
    if points - set(stood):
        # Two tasks that met by chance twice, as at a lock, need not meet again.
        points &= set(stood) | _points(sweep)
    return {
        "workload": sweep.workload.name,
        "outcomes": outcomes,
        "stalls": {point: stood[point] for point in sorted(points)},
    }


def _places(sweep: Sweep) -> dict[str, list[str]]:
    async def stalling(process: Workload) -> None:
        counted = STALLING[process.name](process.store, process.points, process.tell)
        counted.lingers = False
        await counted.run()

    return sweep.places(stalling)


def _points(sweep: Sweep) -> set[str]:
    return {f"{kind}: {label}" for kind, labels in _places(sweep).items() for label in labels}


def side_by_side(
    tries: Iterable[Steps], together: int = TOGETHER
) -> Generator[Outcome, None, None]:
    """Makes so many tries at a time, and gives what came of each."""
    waiting = iter(tries)
    running: deque[tuple[Steps, Callable[[], bool]]] = deque()
    try:
        while True:
            more = islice(waiting, together - len(running))
            running.extend((steps, lambda: True) for steps in more)
            if not running:
                return
            for _ in range(len(running)):
                steps, is_there = running.popleft()
                if not is_there():
                    running.append((steps, is_there))
                    continue
                try:
                    running.append((steps, next(steps)))
                except StopIteration as ended:
                    yield ended.value
            time.sleep(GLANCE)
    finally:
        for steps, _ in running:
            steps.close()


@contextmanager
def _ending(child: Child) -> Iterator[Child]:
    """It outlives nobody who waits for it no longer."""
    try:
        yield child
    finally:
        child.kill()


def _after(seconds: float) -> Callable[[], bool]:
    until = time.monotonic() + seconds
    return lambda: time.monotonic() >= until


def _end_of(child: Child) -> Callable[[], bool]:
    """Its end, or so much time that it will not come."""
    late = _after(PATIENCE)
    return lambda: child.has_ended or late()


def _stall(sweep: Sweep, place: Place, bug: str | None) -> Steps:
    store = sweep.copy()
    workload = STALLING[sweep.workload.name]

    async def stalling(tell: Tell) -> None:
        if bug is not None:
            BUGS[bug].seed()
        points = FaultPoints(place, tell)
        points.watch()
        await workload(store, points, tell).run()

    with _ending(started(stalling)) as first:
        found = yield from _stopped(sweep, store, first)
    sweep.remove(store)
    return found


def _stopped(sweep: Sweep, store: Path, first: Child) -> Steps:
    """What comes of a process that is to stand still."""
    stood = False

    def stands_or_ended() -> bool:
        nonlocal stood
        stood = stood or first.stands_still()
        return stood or first.has_ended

    yield stands_or_ended
    if not stood:
        ended = first.end()
        problems = [f"not ended: {ended}"] if ended.code else []
        return {"place": None, "end": "never came there", "problems": problems}
    hand = _hand(store)
    if hand == "locked":
        found = yield from _contended(sweep, store, first)
    else:
        yield _after(LEASE * 1.2)
        found = yield from _fenced(sweep, store, first, running=hand == "running")
    at = next(line for line in found["said"] if line.startswith(AT)).removeprefix(AT)
    late = "began 0 tools" not in found["said"] and at.split(IN)[0] not in HANDED_OVER
    if hand == "running" and late:
        found["problems"].append(f"begun late: {found['said']}")
    return {"place": at, **found}


def _looked(sweep: Sweep, store: Path, said: Sequence[Sequence[str]]) -> Steps:
    """What the process finds that comes next."""
    with _ending(sweep.looking(store, said)) as next_one:
        yield _end_of(next_one)
        return sweep.found_by(next_one.end())


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


def _fenced(sweep: Sweep, store: Path, first: Child, *, running: bool) -> Steps:
    """Another process brings everything to an end while the first stands still.

    Args:
        running: the first has a turn in hand. Otherwise it has nothing to lose, and what it has not
            sent yet it sends when it goes on.
    """
    found = yield from _looked(sweep, store, [])
    before = _everything(store)
    first.go_on()
    yield _end_of(first)
    ended = first.end()
    said, problems = ended.said, list(found["problems"])
    if ended.code:
        problems.append(f"not ended: {ended}")
    if running and _everything(store) != before:
        problems.append("written late: by a process that had lost its lease")
    if not running:
        problems += (yield from _looked(sweep, store, [said]))["problems"]
    told = any(line.startswith("lost: turn-") for line in said)
    if running and STALLING[sweep.workload.name].listens and not told:
        problems.append(f"not told: {said}")
    effects = sweep.workload(store).effects()
    if len(effects) > len(set(effects)):
        problems.append(f"ran twice: {effects}")
    return {
        "end": "fenced" if running else "no turn in hand",
        "said": said,
        "effects": len(effects),
        "status": found.get("status"),
        "problems": problems,
    }


def _contended(sweep: Sweep, store: Path, first: Child) -> Steps:
    """Another process comes while the first holds the file's lock, and waits until it goes on."""

    async def coming(tell: Tell) -> None:
        process = sweep.workload(store, FaultPoints(), tell)
        look = Look(store)
        async with process.open(lease_seconds=LEASE) as runtime:
            # It has to wait for what the first does with its turn.
            await look.answered(runtime, process.agents, PATIENCE)
            await process.take_up(runtime)
        for problem in look.problems:
            tell(f"problem: {problem}")

    with _ending(started(coming)) as second:
        yield _after(WAITING)
        first.go_on()
        yield _end_of(first)
        yield _end_of(second)
        ended, other = first.end(), second.end()
    found = yield from _looked(sweep, store, [ended.said, other.said])
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
