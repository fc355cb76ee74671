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
import os
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine
from tests.crash import scenario, stalls
from tests.crash.bugs import BUGS
from tests.crash.points import KINDS, FaultPoints

from pagedaemon.store import database

PATIENCE = 20.0
"""Seconds a child may take."""

Place = tuple[str, int]
Told = Callable[[str], None]


@dataclass
class Ended:
    """How a child ended, and what it had told by then."""

    said: list[str]
    killed: bool
    code: int


def forked(work: Callable[[Told], Awaitable[None]]) -> Ended:
    """Runs it in a child, on an event loop of its own."""
    assert threading.active_count() == 1, "forking beside threads could copy a lock that is held"
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)

            async def main() -> None:
                await work(lambda line: _write(writing, line))

            asyncio.run(main())
            code = 0
        finally:
            if code:
                traceback.print_exc()
            sys.stderr.flush()
            os._exit(code)
    os.close(writing)
    try:
        said = _read(reading, child)
    finally:
        os.close(reading)
        _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return Ended(said, killed, os.waitstatus_to_exitcode(status))


def _write(pipe: int, line: str) -> None:
    os.write(pipe, f"{line}\n".encode())


def _read(pipe: int, child: int) -> list[str]:
    heard = b""
    until = time.monotonic() + PATIENCE
    while True:
        ready, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            os.kill(child, signal.SIGKILL)
            raise TimeoutError(f"a child did not end in {PATIENCE:g} s; it told {heard!r}")
        piece = os.read(pipe, 65536)
        if not piece:
            return heard.decode().splitlines()
        heard += piece


class Sweep:
    """The children of one job.

    Args:
        folder: where their stores are; on memory where there is such a place, so that waiting for a
            disk takes no time.
        bug: the name of a seeded bug that the killed child has; None for the product as it is.
    """

    def __init__(self, folder: Path, bug: str | None = None) -> None:
        self._folder = folder
        self._bug = bug
        self._template = folder / "template"
        self._made = 0

    def warm(self) -> None:
        """Makes the store that every child gets a copy of, and loads whatever loads late."""
        # A connection-less engine may be forked, and with it what it has compiled: most of the
        # time of a first turn.
        vars(database)["create_engine"] = functools.cache(create_engine)
        asyncio.run(scenario.make(self._template))
        rehearsal = self._copy(self._template)
        asyncio.run(scenario.run_turn(rehearsal, FaultPoints(), lambda _: None))
        gc.collect()
        gc.freeze()

    def places(self) -> dict[str, list[str]]:
        """What a turn comes past, by kind."""
        return self._counted(scenario.run_turn, self._copy(self._template))

    def killed_at(self, place: Place) -> tuple[Path, Ended]:
        """A store whose process died there, in the turn."""
        store = self._copy(self._template)
        return store, self._child(scenario.run_turn, store, place)

    def killed_again(self, store: Path, nth: int) -> tuple[Path, str, bool]:
        """The store after its recovery was killed too, at one of the places that lie in it.

        Args:
            nth: chooses kind and place, spread over all of them.
        """
        seen = self._counted(scenario.recover, self._copy(store))
        kinds = [kind for kind in KINDS if kind in seen]
        kind = kinds[nth % len(kinds)]
        number = (nth * 7) % len(seen[kind])
        again = self._copy(store)
        ended = self.recovery_killed_at(again, (kind, number))
        return again, f"{kind}: {seen[kind][number]}", ended.killed

    def recovery_killed_at(self, store: Path, place: Place) -> Ended:
        """A process that recovers the store, and dies there."""
        return self._child(scenario.recover, store, place)

    def stopped_at(self, place: Place, *, caller: bool) -> tuple[Path, Ended]:
        """A store in which the turn was cancelled there, and a later message answered."""
        store = self._copy(self._template)
        return store, self._child(
            functools.partial(scenario.cancelled_turn, caller=caller), store, place
        )

    def stalling(self) -> Path:
        """A fresh store, for a process that is to stand still."""
        return self._copy(self._template)

    def seed(self) -> None:
        """Gives this process, if it is a child, the job's bug."""
        if self._bug is not None:
            BUGS[self._bug]()

    def findings(
        self, store: Path, said: list[str], ends: tuple[str, ...] = ("end_turn",)
    ) -> dict[str, Any]:
        """What a third process finds. The store is removed."""
        found = self.findings_kept(store, said, ends)
        shutil.rmtree(store)
        return found

    def findings_kept(
        self, store: Path, said: Sequence[str] = (), ends: tuple[str, ...] = ("end_turn",)
    ) -> dict[str, Any]:
        """As `findings`; the store stays."""

        async def work(tell: Told) -> None:
            tell(json.dumps(asdict(await scenario.check(store, list(said), ends))))

        ended = forked(work)
        if ended.code != 0:
            return {"problems": [f"not opened: {ended}"]}
        found: dict[str, Any] = json.loads(ended.said[-1])
        return found

    def _counted(
        self, work: Callable[[Path, FaultPoints, Told], Awaitable[None]], store: Path
    ) -> dict[str, list[str]]:
        async def counting(tell: Told) -> None:
            points = FaultPoints()
            points.watch()
            await work(store, points, lambda _: None)
            tell(json.dumps(points.seen))

        ended = forked(counting)
        assert ended.code == 0, "a run without a kill failed"
        shutil.rmtree(store)
        seen: dict[str, list[str]] = json.loads(ended.said[-1])
        return seen

    def _child(
        self,
        work: Callable[[Path, FaultPoints, Told], Awaitable[None]],
        store: Path,
        place: Place,
    ) -> Ended:
        async def dying(tell: Told) -> None:
            if self._bug is not None:
                BUGS[self._bug]()
            points = FaultPoints(place)
            points.watch()
            await work(store, points, tell)

        return forked(dying)

    def _copy(self, store: Path) -> Path:
        self._made += 1
        copy = self._folder / f"store-{self._made}"
        shutil.copytree(store, copy)
        ledger = store.with_suffix(".ledger")
        if ledger.exists():
            shutil.copy(ledger, copy.with_suffix(".ledger"))
        return copy


def every_place(
    sweep: Sweep, *, part: tuple[int, int], again_every: int, until_found: bool
) -> dict[str, Any]:
    """One process for each place of the turn.

    Args:
        part: which of how many drivers this is, that share the places among them.
        again_every: of every so many, the recovery is killed as well. 0: of none.
        until_found: stops at the first broken promise, as the search for a seeded bug does.
    """
    outcomes: list[dict[str, Any]] = []
    places = sweep.places()
    numbered = [(kind, number) for kind in KINDS for number in range(len(places.get(kind, ())))]
    for nth, (kind, number) in list(enumerate(numbered))[part[0] :: part[1]]:
        store, ended = sweep.killed_at((kind, number))
        base = {"kind": kind, "place": f"{kind}: {places[kind][number]}", "said": ended.said}
        if again_every and nth % again_every == 0:
            twice, where, killed = sweep.killed_again(store, nth // again_every)
            outcomes.append(
                {**base, "killed": ended.killed and killed, "again": where}
                | sweep.findings(twice, ended.said)
            )
        outcomes.append({**base, "killed": ended.killed} | sweep.findings(store, ended.said))
        if until_found and outcomes[-1]["problems"]:
            break
    return {"places": places, "outcomes": outcomes}


STOPPABLE = (
    "before a commit",
    "after a commit",
    "before a task runs on",
    "inside a tool",
)
"""Kinds of places that differ for a turn that is cancelled: a write is not given up halfway."""


def every_stop(sweep: Sweep, *, caller: bool) -> dict[str, Any]:
    """One process for each place of the turn, which is cancelled there."""
    outcomes: list[dict[str, Any]] = []
    places = sweep.places()
    for kind in STOPPABLE:
        for number, label in enumerate(places[kind]):
            store, ended = sweep.stopped_at((kind, number), caller=caller)
            found = sweep.findings(store, ended.said, ("end_turn", "cancelled"))
            found["problems"] += [line for line in ended.said if line.startswith("problem")]
            if ended.code != 0:
                found["problems"].append(f"did not end: {ended.code}")
            outcomes.append({"place": f"{kind}: {label}", "said": ended.said} | found)
    return {"outcomes": outcomes}


def restarts(sweep: Sweep, kills: list[list[Any]], ends: tuple[str, ...]) -> dict[str, Any]:
    """A process killed in the turn, then others killed in its recovery, then one that lives.

    Args:
        kills: kind and number of the place of each death.
        ends: stop reasons that are honest.
    """
    (kind, number), *again = kills
    store, ended = sweep.killed_at((kind, number))
    killed = [ended.killed]
    for kind, number in again:
        killed.append(sweep.recovery_killed_at(store, (kind, number)).killed)
    return {"killed": killed, "said": ended.said} | sweep.findings(store, ended.said, ends)


@contextmanager
def folder() -> Iterator[Path]:
    """A place for stores, on memory where there is one; removed afterwards."""
    memory = Path("/dev/shm")
    place = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place, prefix="pagedaemon-crash-") as made:
        yield Path(made)


def main() -> None:
    """Does the job that is on standard input."""
    job = json.load(sys.stdin)
    with folder() as place:
        sweep = Sweep(place, job.get("bug"))
        sweep.warm()
        if job["do"] == "restarts":
            report = restarts(sweep, job["kills"], tuple(job["ends"]))
        elif job["do"] == "stall":
            report = stalls.every_stall(
                sweep,
                every=job["every"],
                part=tuple(job.get("part", (0, 1))),
                until_found=job.get("until_found", False),
            )
        elif job["do"] == "stop":
            report = every_stop(sweep, caller=job["caller"])
        else:
            report = every_place(
                sweep,
                part=tuple(job.get("part", (0, 1))),
                again_every=job.get("again_every", 0),
                until_found=job.get("until_found", False),
            )
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main()
