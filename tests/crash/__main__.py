"""`python -m tests.crash [KILLS] [--seed N] [--points] [--stalls]`: the crash suite by hand.

Kills so many processes (default 10,000), a quarter of them in each workload: at every place, and
then at random pairs of places, the second while the first is recovered from. With `--stalls` it
kills none, and lets one stand still past its lease at every place. Writes what was done and what
was broken, and ends with 1 where something was.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time

from tests.crash.driving import stalls, summary, summary_of_stalls, sweeps, unkilled, unstalled


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash")
    parser.add_argument("kills", nargs="?", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--points", action="store_true", help="say the kills of every point")
    parser.add_argument("--stalls", action="store_true", help="stop them instead, at every place")
    asked = parser.parse_args()
    begun = time.monotonic()
    if asked.stalls:
        return _stalls(asked.seed, points=asked.points)
    reports = sweeps(asked.kills, asked.seed, os.cpu_count() or 2, patience=86_400)
    print(summary(reports))
    print(f"{time.monotonic() - begun:.0f} s")
    wrong = 0
    for report in reports:
        if asked.points:
            for point, number in report["kills"][0].items():
                print(f"{number:6} {report['workload']}, {point}")
        for point in unkilled(report):
            wrong += 1
            print(f"NOT KILLED {report['workload']}, {point}")
        for outcome in report["broken"]:
            wrong += 1
            print(f"BROKEN {report['workload']}, {outcome['place']}: {outcome['problems']}")
    return 1 if wrong else 0


def _stalls(seed: int, *, points: bool) -> int:
    reports = stalls(seed, os.cpu_count() or 2, patience=86_400, all=True)
    print(summary_of_stalls(reports))
    wrong = 0
    for report in reports:
        if points:
            for point, number in report["stalls"].items():
                print(f"{number:6} {report['workload']}, {point}")
        for point in unstalled(report):
            wrong += 1
            print(f"NOT STOPPED {report['workload']}, {point}")
        for outcome in report["outcomes"]:
            if outcome["problems"]:
                wrong += 1
                print(f"BROKEN {report['workload']}, {outcome['place']}: {outcome['problems']}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
