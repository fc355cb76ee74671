"""Gives jobs to processes of `tests.crash.driver`, and reads what they report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import pagedaemon

ROOT = Path(__file__).parents[2]

Report: TypeAlias = dict[str, Any]

WORKLOADS = ("waking", "approving", "paging", "charging")
"""The longest first, so that all processors are busy to the end."""


def drive(*, patience: float = 900.0, **job: Any) -> Report:
    """Does one job.

    Args:
        patience: seconds it may take.
    """
    source = Path(pagedaemon.__file__).parents[1]
    paths = os.pathsep.join([str(ROOT), str(source)])
    # What is forked has no threads, of numpy neither.
    environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.crash.driver"],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=patience,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    report: Report = json.loads(ended.stdout)
    return report


def drive_all(jobs: Iterable[Report], processes: int = 2) -> list[Report]:
    """Does several, so many at a time."""
    with ThreadPoolExecutor(processes) as several:
        return list(several.map(lambda job: drive(**job), jobs))


PAIRS = 40
"""In each workload, at least."""


def sweeps(kills: int, seed: int, processes: int = 2, patience: float = 900.0) -> list[Report]:
    """Every workload, killed at each of its places and at random pairs.

    Args:
        kills: how many in all, at least.
        seed: decides the pairs.
        patience: seconds that one workload may take.
    """
    each = -(-kills // len(WORKLOADS))
    job = {"do": "sweep", "kills": each, "pairs": PAIRS, "seed": seed, "patience": patience}
    return drive_all([{**job, "workload": name} for name in WORKLOADS], processes)


def stalls(seed: int, processes: int = 2, patience: float = 900.0, *, all: bool) -> list[Report]:
    """Every workload, stopped past its lease at each of its points.

    Args:
        seed: decides at which of the places of a point.
        patience: seconds that one workload may take.
        all: at each of its places.
    """
    job = {"do": "stall", "all": all, "seed": seed, "patience": patience}
    return drive_all([{**job, "workload": name} for name in WORKLOADS], processes)


def unstalled(report: Report) -> list[str]:
    """The points of a run at which no process stood still."""
    return [point for point, number in report["stalls"].items() if not number]


def summary_of_stalls(reports: Sequence[Report]) -> str:
    """What was done, in a line for each workload."""
    stood = sum(sum(report["stalls"].values()) for report in reports)
    lines = [f"{stood} processes stood still"]
    for report in reports:
        ends = Counter(one["end"] for one in report["outcomes"])
        least, most = min(report["stalls"].values()), max(report["stalls"].values())
        told = ", ".join(f"{end} {number}" for end, number in sorted(ends.items()))
        lines.append(
            f"{report['workload']}: {len(report['stalls'])} points, {least} to {most} each; {told}"
        )
    return "\n".join(lines)


def killed(report: Report) -> int:
    """How many processes were killed."""
    return sum(sum(of.values()) for of in report["kills"])


def unkilled(report: Report) -> list[str]:
    """The points of a run at which none was."""
    return [point for point, number in report["kills"][0].items() if not number]


def summary(reports: Sequence[Report]) -> str:
    """What was done, in a line for each workload and kind of place."""
    lines = [f"seed {reports[0]['seed']}; {sum(map(killed, reports))} processes killed"]
    for report in reports:
        run, again = report["kills"]
        lines.append(
            f"{report['workload']}: {killed(report)} killed, {sum(again.values())} of them in a "
            f"recovery; answered within {report['slowest']:.2f} s"
        )
        for kind, places in report["places"].items():
            of = [number for point, number in run.items() if point.startswith(f"{kind}: ")]
            later = sum(n for point, n in again.items() if point.startswith(f"{kind}: "))
            lines.append(
                f"  {kind}: {places} places, {len(of)} points with {min(of)} to {max(of)} kills, "
                f"{later} in recoveries"
            )
    return "\n".join(lines)
