"""Kills a process at one place after another and looks at what it left.

`python -m tests.crash.driver` reads one job as JSON from its standard input and writes one report.
It is a process of its own so that it has no thread when it forks: each child starts warm, within
milliseconds, and opens the store for itself.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import random
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from tests.crash import stalls
from tests.crash.approving import Approving
from tests.crash.bugs import BUGS
from tests.crash.charging import Charging
from tests.crash.forking import Child, Ended, folder, forked, keep_warm, started
from tests.crash.look import ACCEPTED
from tests.crash.mending import Mending
from tests.crash.paging import Paging
from tests.crash.points import AT, KINDS, FaultPoints, Place, Tell
from tests.crash.reconciling import Reconciling, Unsure
from tests.crash.stopping import stopped_turn
from tests.crash.waking import Waking
from tests.crash.workload import Workload

WORKLOADS: dict[str, type[Workload]] = {
    one.name: one for one in (Charging, Paging, Approving, Waking)
}
"""Those that are killed and stopped everywhere."""

SPECIAL: dict[str, type[Workload]] = {one.name: one for one in (Reconciling, Unsure, Mending)}
"""Those that have jobs of their own."""

Outcome: TypeAlias = dict[str, Any]

TELLING = ("before a commit", "after a commit", "inside a tool")
"""Kinds of places at which most bugs show."""

TRIES = 20
"""How often a place is tried that a run did not come past, as two threads may meet in another
order."""


class Sweep:
    """The children of one job.

    Args:
        folder: where their stores are; on memory where there is such a place, so that waiting for a
            disk takes no time.
        workload: what they do.
    """

    def __init__(self, folder: Path, workload: type[Workload]) -> None:
        self.workload = workload
        self._folder = folder
        self._template = folder / "template"
        self._made = 0

    def warm(self) -> None:
        """Makes the store that every child gets a copy of, and loads whatever loads late."""
        asyncio.run(self.workload(self._template).make())
        self.workload(self._template).spoil()
        asyncio.run(self.workload(self.copy()).run())
        # What takes up a store is warm too.
        store, ended = self.killed_at(("before a commit", 2))
        for at_once in (False, True):
            work = self.workload(self.copy(store)).look([ended.said], at_once=at_once)
            asyncio.run(work)
        gc.collect()
        gc.freeze()

    def copy(self, store: Path | None = None) -> Path:
        """A store of one's own, and the effects beside it; default: as it is before."""
        store = store or self._template
        self._made += 1
        copy = self._folder / f"store-{self._made}"
        shutil.copytree(store, copy)
        ledger = store.with_suffix(".ledger")
        if ledger.exists():
            shutil.copy(ledger, copy.with_suffix(".ledger"))
        return copy

    def remove(self, store: Path) -> None:
        """A store that was looked at."""
        shutil.rmtree(store)
        store.with_suffix(".ledger").unlink(missing_ok=True)

    def places(
        self, work: Callable[[Workload], Awaitable[None]] | None = None
    ) -> dict[str, list[str]]:
        """What a process comes past that does this, by kind. Default: a run."""
        store = self.copy()

        async def counting(tell: Tell) -> None:
            points = FaultPoints()
            points.watch()
            process = self.workload(store, points)
            await (process.run() if work is None else work(process))
            tell(json.dumps(points.seen))

        ended = forked(counting)
        assert ended.code == 0, "a run without a kill failed"
        self.remove(store)
        seen: dict[str, list[str]] = json.loads(ended.said[-1])
        return seen

    def at_place(
        self,
        place: Place,
        work: Callable[[Workload], Awaitable[None]],
        store: Path | None = None,
        bug: str | None = None,
    ) -> tuple[Path, Ended]:
        """A store in which a process did this, to that place or, where it never came there or does
        not die of it, to its end.

        Args:
            store: default: one as it is before.
            bug: the name of a seeded bug that it had; None for the product as it is.
        """
        store = store or self.copy()

        async def child(tell: Tell) -> None:
            if bug is not None:
                BUGS[bug].seed()
            points = FaultPoints(place, tell)
            points.watch()
            await work(self.workload(store, points, tell))

        return store, forked(child)

    def killed_at(self, place: Place, bug: str | None = None) -> tuple[Path, Ended]:
        """A store whose process died there, in the run."""
        return self.at_place(place, lambda process: process.run(), bug=bug)

    def recovery_killed_at(self, store: Path, place: Place) -> Ended:
        """A process that takes the store up, and dies there."""
        return self.at_place(place, lambda process: process.recover(), store)[1]

    def looking(
        self,
        store: Path,
        said: Sequence[Sequence[str]],
        *,
        ends: Sequence[str] = (),
        at_once: bool = False,
    ) -> Child:
        """The process that comes after those which were killed, and looks; `found_by` says what it
        found.

        Args:
            said: what each of those told.
            ends, at_once: as in `Workload.look`.
        """

        async def work(tell: Tell) -> None:
            points = FaultPoints()
            points.watch()
            look = await self.workload(store, points).look(said, ends=ends, at_once=at_once)
            again = {kind: len(labels) for kind, labels in points.seen.items() if not at_once}
            tell(json.dumps({"problems": look.problems, "again": again, **look.facts}))

        return started(work)

    def findings(self, store: Path, said: Sequence[Sequence[str]], **how: Any) -> Outcome:
        """What `looking` finds. The store is removed.

        Args:
            how: as in `looking`.
        """
        found = self.found_by(self.looking(store, said, **how).end())
        self.remove(store)
        return found

    @staticmethod
    def found_by(looked: Ended) -> Outcome:
        """What a process found that came after others.

        Returns:
            `problems`, and in `again` how many places of each kind there are while it takes up
            what was left, of one that does nothing before; the rest are facts.
        """
        if looked.code != 0:
            return {"problems": [f"not opened: {looked}"], "again": {}}
        found: Outcome = json.loads(looked.said[-1])
        return found


def died_at(ended: Ended) -> str | None:
    """Kind and label of the place where a process was killed; None if it was not."""
    if not ended.killed:
        return None
    return next(line.removeprefix(AT) for line in reversed(ended.said) if line.startswith(AT))


def points_of(places: Mapping[str, Sequence[str]]) -> list[str]:
    """Kind and label of all places, each once: statements that are alike are one point."""
    return list(dict.fromkeys(f"{kind}: {label}" for kind in places for label in places[kind]))


def split_point(point: str) -> tuple[str, str]:
    """Its kind and its label."""
    kind, label = point.split(": ", 1)
    return kind, label


def every_place(
    sweep: Sweep,
    places: Mapping[str, Sequence[str]],
    points: Sequence[str],
    *,
    sparse: bool = False,
) -> Iterator[tuple[Place, Outcome]]:
    """One killed process for each place of a run, in the order of their kinds; then one for each
    point at which, by a chance of threads, none was killed.

    Args:
        sparse: of statements and awaits that are alike only the first is taken.
    """
    left = set(points)
    numbered: list[Place] = [
        (kind, number)
        for kind in KINDS
        for number, label in enumerate(places.get(kind, ()))
        if not sparse or kind in TELLING or places[kind].index(label) == number
    ]
    for nth, place in enumerate(numbered):
        outcome = _killed_once(sweep, place, at_once=nth % 2 == 1)
        left.discard(outcome["points"][0])
        yield place, outcome
    for point in sorted(left):
        for _ in range(TRIES):
            outcome = _killed_once(sweep, split_point(point), at_once=False)
            yield split_point(point), outcome
            if outcome["points"][0] == point:
                break


def _killed_once(sweep: Sweep, place: Place, *, at_once: bool) -> Outcome:
    store, ended = sweep.killed_at(place)
    found = sweep.findings(store, [ended.said], at_once=at_once)
    return _outcome(place, found, ended)


def pairs(
    sweep: Sweep,
    again: Sequence[tuple[Place, dict[str, int]]],
    seed: int,
    *,
    least: int,
    kills: int,
) -> Iterator[Outcome]:
    """Pairs of a place in the run and one in the recovery that follows, each pair as likely as any
    other.

    Args:
        again: places of the run, and how many of each kind then lie in the recovery.
        least: in how many pairs both are killed, at least.
        kills: how many processes are to be killed at least.
    """
    drawn = random.Random(seed)
    weights = [sum(there.values()) for _, there in again]
    while again and (kills > 0 or least > 0):
        first, there = drawn.choices(again, weights)[0]
        kind = drawn.choices(list(there), list(there.values()))[0]
        second = (kind, drawn.randrange(there[kind]))
        at_once = drawn.random() < 0.5
        store, ended = sweep.killed_at(first)
        ended_again = sweep.recovery_killed_at(store, second)
        kills -= ended.killed + ended_again.killed
        least -= ended.killed and ended_again.killed
        found = sweep.findings(store, [ended.said, ended_again.said], at_once=at_once)
        yield _outcome([first, second], found, ended, ended_again)


def _outcome(place: object, found: Outcome, *ended: Ended) -> Outcome:
    """What came of processes that were killed: where the first was, and the one after it."""
    points = [died_at(one) for one in ended]
    heard = ACCEPTED in ended[0].said
    found["problems"] += [f"not ended: {one}" for one in ended if not one.killed and one.code]
    return {"place": place, "points": points, "heard": heard, **found}


def sweep_all(sweep: Sweep, job: Outcome) -> Outcome:
    """A kill at every place, and as many `pairs` as the job asks for, and more until there are as
    many `kills`. The job may name the `kinds` of places, and be `sparse` as `every_place`.

    Returns:
        `kills` of each point, in the run and, after it, in a recovery; `slowest`, the seconds that
        the last question waited for its answer; of all outcomes what they `ended` with; and those
        that are `broken`.
    """
    kinds = job.get("kinds", KINDS)
    places, twice = (
        {kind: there[kind] for kind in kinds if kind in there}
        for there in (sweep.places(), sweep.places())
    )
    # A timer may ring in a run that the machine had little time for, and in no other.
    points = [point for point in points_of(places) if point in points_of(twice)]
    again: list[tuple[Place, dict[str, int]]] = []
    outcomes: list[Outcome] = []
    there: dict[str, int] = {}
    for place, outcome in every_place(sweep, places, points, sparse=job.get("sparse", False)):
        outcomes.append(outcome)
        # Where that is not known, it is much as after the place before.
        there = outcome["again"] or there
        if there and not outcome["problems"] and outcome["points"][0] is not None:
            again.append((place, there))
    killed = sum(outcome["points"][0] is not None for outcome in outcomes)
    more = {"least": job["pairs"], "kills": job["kills"] - killed}
    outcomes += pairs(sweep, again, job["seed"], **more)
    kills = [dict.fromkeys(points, 0), dict[str, int]()]
    for outcome in outcomes:
        for of, point in zip(kills, outcome["points"], strict=False):
            if point is not None:
                of[point] = of.get(point, 0) + 1
    ended = {(str(one.get("status")), one.get("effects"), one["heard"]) for one in outcomes}
    return {
        "workload": sweep.workload.name,
        "seed": job["seed"],
        "places": {kind: len(labels) for kind, labels in places.items()},
        "kills": kills,
        "slowest": max(one.get("seconds", 0.0) for one in outcomes),
        "ended": sorted(ended, key=str),
        "broken": [one for one in outcomes if one["problems"]],
    }


def hunt(sweep: Sweep, bug: str, most: int, seed: int) -> Outcome:
    """Kills processes that have a seeded bug, until it is seen to break what it must.

    Args:
        most: kills after which it is given up.
    """
    places = sweep.places()
    drawn = random.Random(seed)
    numbered = [(kind, number) for kind in places for number in range(len(places[kind]))]
    drawn.shuffle(numbered)
    numbered.sort(key=lambda place: place[0] not in TELLING)
    seen: set[str] = set()
    for kills, place in enumerate(numbered[:most], start=1):
        store, ended = sweep.killed_at(place, bug)
        problems = sweep.findings(store, [ended.said])["problems"]
        if any(problem.startswith(BUGS[bug].promises) for problem in problems):
            return {"bug": bug, "kills": kills, "point": died_at(ended), "problems": problems}
        seen.update(problems)
    return {"bug": bug, "kills": None, "point": None, "problems": sorted(seen)}


def restarts(sweep: Sweep, kills: list[list[Any]], ends: Sequence[str]) -> Outcome:
    """A process killed in the turn, then others killed in its recovery, then one that lives.

    Args:
        kills: kind and number of the place of each death.
        ends: stop reasons that are honest beside those of the workload.
    """
    (kind, number), *again = kills
    store, ended = sweep.killed_at((kind, number))
    killed, said = [ended.killed], [ended.said]
    for kind, number in again:
        ended = sweep.recovery_killed_at(store, (kind, number))
        killed.append(ended.killed)
        said.append(ended.said)
    return {"killed": killed} | sweep.findings(store, said, ends=ends)


STOPPABLE = (
    "before a commit",
    "after a commit",
    "before a task runs on",
    "inside a tool",
)
"""Kinds of places that differ for a turn that is cancelled: a write is not given up halfway."""


def every_stop(sweep: Sweep, *, caller: bool) -> Outcome:
    """One process for each place of the turn, which is cancelled there."""
    outcomes: list[Outcome] = []
    stopping = functools.partial(stopped_turn, caller=caller)
    places = sweep.places(stopping)
    for kind in STOPPABLE:
        for number, label in enumerate(places[kind]):
            store, ended = sweep.at_place((kind, number), stopping)
            found = sweep.findings(store, [ended.said], ends=("cancelled",))
            found["problems"] += [line for line in ended.said if line.startswith("problem")]
            if ended.code != 0:
                found["problems"].append(f"did not end: {ended.code}")
            outcomes.append({"place": f"{kind}: {label}", **found})
    return {"outcomes": outcomes}


JOBS: dict[str, Callable[[Sweep, Outcome], Outcome]] = {
    "sweep": sweep_all,
    "hunt": lambda sweep, job: {
        "hunts": [hunt(sweep, bug, job["most"], job["seed"]) for bug in job["bugs"]]
    },
    "restarts": lambda sweep, job: restarts(sweep, job["kills"], job.get("ends", ())),
    "stop": lambda sweep, job: every_stop(sweep, caller=job["caller"]),
    "stall": stalls.every_stall,
    "keep": stalls.kept,
    # One after another, by one process that is warm.
    "several": lambda sweep, job: {
        "reports": [JOBS[one["do"]](sweep, one) for one in job["jobs"]],
    },
}


def main() -> None:
    """Does the job that is on standard input."""
    job = json.load(sys.stdin)
    keep_warm()
    with folder() as place:
        sweep = Sweep(place, (WORKLOADS | SPECIAL)[job.get("workload", Charging.name)])
        sweep.warm()
        report = JOBS[job["do"]](sweep, job)
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main()
