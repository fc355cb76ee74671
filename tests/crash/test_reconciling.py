"""A call whose tool can be asked what became of it runs once, and its result is never unknown.

See `reconciling.py` for how.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.crash.driving import Report, unkilled

KINDS = ["inside a tool", "before a statement", "before a commit", "after a commit"]

ACTED = ["inside a tool", 1]
"""The card is charged, and the result not stored."""

TWICE = [
    [["inside a tool", first], ["inside a tool", again]] for first in (0, 1) for again in (0, 1)
]
"""Kills in the tool, and then at a place of the recovery: the first is in `reconcile`."""


@pytest.fixture(scope="module")
def reports(drive: Callable[..., Report]) -> list[Report]:
    """Of kills at every point, and at two places one after the other."""
    sweep = {"do": "sweep", "kinds": KINDS, "sparse": True, "pairs": 0, "kills": 0, "seed": 1}
    twice = [{"do": "restarts", "kills": kills} for kills in TWICE]
    found: list[Report] = drive(do="several", workload="reconciling", jobs=[sweep, *twice])[
        "reports"
    ]
    return found


def test_the_effect_is_there_once_with_its_result_whenever_the_process_is_killed(
    reports: list[Report],
) -> None:
    report = reports[0]
    assert report["broken"] == []
    assert unkilled(report) == []
    assert report["places"]["inside a tool"] == 2
    assert report["places"]["after a commit"] >= 4


def test_a_kill_while_the_tool_is_asked_or_runs_again_changes_nothing(
    reports: list[Report],
) -> None:
    # A call that has acted is asked about, and not run again.
    killed = [report["killed"] for report in reports[1:]]
    assert killed == [[True, True], [True, True], [True, True], [True, False]]
    assert [report["problems"] for report in reports[1:]] == [[]] * len(TWICE)


def test_a_tool_that_does_not_know_leaves_the_outcome_unknown_and_is_not_run_again(
    drive: Callable[..., Report],
) -> None:
    report = drive(do="restarts", workload="unsure", kills=[ACTED])
    assert (report["problems"], report["killed"]) == ([], [True])
    assert (report["effects"], report["status"]) == (1, "unknown")


def test_the_sweep_finds_a_bug_that_was_put_in(drive: Callable[..., Report]) -> None:
    job = {"most": 40, "seed": 1, "bugs": ["no start mark"]}
    (hunt,) = drive(do="hunt", workload="reconciling", **job)["hunts"]
    assert hunt["kills"] is not None, hunt["problems"]
