"""A process that stands still for longer than its lease, and wakes: a second one has brought the
turn to its end by then, and nothing of the first is written any more.

See `stalls.py` for how.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from tests.crash.driving import Report, drive_all
from tests.crash.points import KINDS

PROCESSES = 4
"""Side by side: most of the time they wait for a lease to run out."""

PROMISES = {
    "written late": "a process that has lost its lease writes nothing",
    "not told": "whoever listened to it is told, and so is the model of an unknown outcome",
    "begun late": "no tool is begun by a process that has lost its lease",
    "ran twice": "the card is charged at most once",
}


@pytest.fixture(scope="module")
def outcomes(drive: Callable[..., Report]) -> list[Report]:
    """One process that stands still per place."""
    jobs = [{"do": "stall", "every": 5, "part": [n, PROCESSES]} for n in range(PROCESSES)]
    return [outcome for report in drive_all(jobs, PROCESSES) for outcome in report["outcomes"]]


def test_it_stands_still_in_every_stage_of_the_turn(
    outcomes: list[Report], capsys: pytest.CaptureFixture[str]
) -> None:
    ends = Counter((outcome["end"], outcome["place"].split(":")[0]) for outcome in outcomes)
    assert ends["fenced", "after a commit"] >= 4
    assert ends["fenced", "before a task runs on"] >= 10
    assert ends["fenced", "after a task gave way"] >= 10
    assert ends["fenced", "inside a tool"] == 4
    assert ends["contended", "before a commit"] == 6
    assert ends["contended", "before a statement"] >= 3
    assert ends["contended", "after a statement"] >= 3
    assert {kind for _, kind in ends} == set(KINDS)
    # Before the charge's start mark; after it; with its result in the store.
    fenced = [outcome for outcome in outcomes if outcome["end"] == "fenced"]
    stages = {(outcome["status"], outcome["effects"]) for outcome in fenced}
    assert stages >= {("ok", 1), ("unknown", 1)}
    with capsys.disabled():
        print(
            "\nstood still: " + "; ".join(f"{kind}: {end} {n}" for (end, kind), n in ends.items())
        )


@pytest.mark.parametrize("promise", PROMISES)
def test_a_stalled_process_breaks_no_promise(outcomes: list[Report], promise: str) -> None:
    broken = [
        (outcome["place"], problem)
        for outcome in outcomes
        for problem in outcome["problems"]
        if problem.startswith(promise)
    ]
    assert broken == [], PROMISES[promise]


def test_nothing_else_goes_wrong(outcomes: list[Report]) -> None:
    other = [
        (outcome["place"], problem)
        for outcome in outcomes
        for problem in outcome["problems"]
        if not problem.startswith(tuple(PROMISES))
    ]
    assert other == []


def test_a_turn_that_outlasts_its_lease_is_kept_by_the_process_that_renews_it(
    drive: Callable[..., Report],
) -> None:
    assert drive(do="keep")["problems"] == []
