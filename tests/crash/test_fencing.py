"""A process that stands still for longer than its lease, and wakes: a second one has brought what
it was at to an end by then, and nothing of the first is written any more.

See `stalls.py` for how; `python -m tests.crash --stalls` does it at every place.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import pytest
from tests.crash.driver import WORKLOADS
from tests.crash.driving import Report, stalls, summary_of_stalls, unstalled
from tests.crash.points import KINDS

SEED = 1
"""Decides at which of the places of a point a process stands still."""

PROMISES = {
    "written late": "a process that has lost its lease writes nothing",
    "not told": "whoever listened to it is told, and so is the model of an unknown outcome",
    "begun late": "no tool is begun by a process that has lost its lease",
    "ran twice": "what acts outside acts at most once",
}


@pytest.fixture(scope="module")
def reports(drive: Callable[..., Report]) -> dict[str, Report]:
    """One process that stands still at each point, by workload."""
    seed = int(os.environ.get("PAGEDAEMON_CRASH_SEED", SEED))
    return {report["workload"]: report for report in stalls(seed, all=False)}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_process_stands_still_at_every_point(reports: dict[str, Report], workload: str) -> None:
    report = reports[workload]
    assert unstalled(report) == []
    kinds = {point.split(": ")[0] for point in report["stalls"]}
    assert kinds == set(KINDS) - ({"inside a tool"} if not WORKLOADS[workload].in_tools else set())
    ends = Counter(one["end"] for one in report["outcomes"])
    assert min(ends[end] for end in ("fenced", "contended", "no turn in hand")) >= 10


def test_it_stands_still_in_every_stage_of_the_turn(
    reports: dict[str, Report], capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = reports["charging"]["outcomes"]
    ends = Counter((one["end"], str(one["place"]).split(":")[0]) for one in outcomes)
    assert ends["fenced", "after a commit"] >= 3
    assert ends["fenced", "before a task runs on"] >= 4
    assert ends["fenced", "after a task gave way"] >= 4
    assert ends["fenced", "inside a tool"] >= 4
    assert ends["contended", "before a commit"] >= 5
    # Before the charge's start mark; after it; with its result in the store.
    stages = {(one["status"], one["effects"]) for one in outcomes if one["end"] == "fenced"}
    assert stages >= {("ok", 1), ("unknown", 1)}
    with capsys.disabled():
        print("\n" + summary_of_stalls(list(reports.values())))


@pytest.mark.parametrize("promise", PROMISES)
def test_a_stalled_process_breaks_no_promise(reports: dict[str, Report], promise: str) -> None:
    assert broken(reports, lambda problem: problem.startswith(promise)) == [], PROMISES[promise]


def test_nothing_else_goes_wrong(reports: dict[str, Report]) -> None:
    assert broken(reports, lambda problem: not problem.startswith(tuple(PROMISES))) == []


def broken(reports: dict[str, Report], wanted: Callable[[str], bool]) -> list[tuple[str, str, str]]:
    """What went wrong, of that sort, and where."""
    return [
        (workload, outcome["place"], problem)
        for workload, report in reports.items()
        for outcome in report["outcomes"]
        for problem in outcome["problems"]
        if wanted(problem)
    ]


def test_a_turn_that_outlasts_its_lease_is_kept_by_the_process_that_renews_it(
    drive: Callable[..., Report],
) -> None:
    assert drive(do="keep")["problems"] == []
