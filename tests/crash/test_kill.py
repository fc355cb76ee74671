"""Processes killed by SIGKILL at every statement, commit and await of four workloads, and again at
random places while another recovers from that.

See `look.py` for what must hold, `driver.py` for how; `python -m tests.crash` does more of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from tests.crash.driver import WORKLOADS
from tests.crash.driving import Report, killed, summary, sweeps, unkilled
from tests.crash.look import PROMISES

KILLS = 1_100
"""How many processes are killed, at least."""

LEAST = {
    "before a statement": 40,
    "after a statement": 40,
    "before a commit": 6,
    "after a commit": 6,
    "before a task runs on": 20,
    "after a task gave way": 15,
}
"""Kinds of places, and how many there are of each at least."""

SEED = 1
"""Decides the pairs."""


@pytest.fixture(scope="module")
def reports(drive: Callable[..., Report]) -> dict[str, Report]:
    """What came of it, by workload."""
    seed = int(os.environ.get("PAGEDAEMON_CRASH_SEED", SEED))
    return {report["workload"]: report for report in sweeps(KILLS, seed)}


def test_more_than_a_thousand_processes_are_killed(
    reports: dict[str, Report], capsys: pytest.CaptureFixture[str]
) -> None:
    assert sum(map(killed, reports.values())) >= KILLS > 1_000
    with capsys.disabled():
        print("\n" + summary(list(reports.values())))


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_process_is_killed_at_every_point(reports: dict[str, Report], workload: str) -> None:
    report = reports[workload]
    assert unkilled(report) == []
    for kind, least in LEAST.items():
        assert report["places"][kind] >= least, kind
    assert report["places"].get("inside a tool", 0) == WORKLOADS[workload].in_tools


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_second_kill_comes_at_every_kind_of_place(
    reports: dict[str, Report], workload: str
) -> None:
    again = {point.split(": ")[0] for point in reports[workload]["kills"][1]}
    assert {"before a statement", "after a statement", "before a task runs on"} <= again


@pytest.mark.parametrize("promise", PROMISES)
def test_a_crash_breaks_no_promise(reports: dict[str, Report], promise: str) -> None:
    broken = [
        (workload, outcome["place"], problem)
        for workload, report in reports.items()
        for outcome in report["broken"]
        for problem in outcome["problems"]
        if problem.startswith(promise)
    ]
    assert broken == [], PROMISES[promise]


def test_the_kills_lie_on_both_sides_of_every_change(reports: dict[str, Report]) -> None:
    """Otherwise the sweep would prove little: each end that a crash can lead to has occurred."""
    ended = {
        workload: {tuple(end) for end in report["ended"]} for workload, report in reports.items()
    }
    # The status of the call in the store, its effects, and whether the message was acknowledged.
    charging = {(status, effects) for status, effects, _ in ended["charging"]}
    assert charging == {("None", 0), ("ok", 1), ("unknown", 0), ("unknown", 1)}
    assert {heard for _, _, heard in ended["charging"]} == {False, True}
    for workload in ("approving", "waking"):
        ends = {(status, effects) for status, effects, _ in ended[workload]}
        assert ends == {("ok", 1), ("unknown", 0), ("unknown", 1)}, workload
