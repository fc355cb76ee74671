"""The sweeps find the bugs that they are there for: each is seeded into the processes that are
killed, and must be seen."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.crash.bugs import BUGS
from tests.crash.driver import WORKLOADS
from tests.crash.driving import Report, drive_all

MOST = 40
"""Kills within which a bug is found."""

SEEDED = [name for name, bug in BUGS.items() if bug.workload is not None]


@pytest.fixture(scope="module")
def hunts(drive: Callable[..., Report]) -> dict[str, Report]:
    """What came of the search for each, by bug."""
    jobs = [
        {
            "do": "hunt",
            "workload": workload,
            "bugs": [name for name in SEEDED if BUGS[name].workload == workload],
            "most": MOST,
            "seed": 1,
        }
        for workload in WORKLOADS
    ]
    return {hunt["bug"]: hunt for report in drive_all(jobs) for hunt in report["hunts"]}


@pytest.mark.parametrize("bug", SEEDED)
def test_a_seeded_bug_is_found(hunts: dict[str, Report], bug: str) -> None:
    assert hunts[bug]["kills"] is not None, hunts[bug]["problems"]


def test_a_dozen_bugs_are_looked_for(
    hunts: dict[str, Report], capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(BUGS) >= 12
    assert set(hunts) == set(SEEDED)
    with capsys.disabled():
        print("\nkills until found: " + ", ".join(f"{b} {h['kills']}" for b, h in hunts.items()))


def test_a_missing_fence_is_found(drive: Callable[..., Report]) -> None:
    report = drive(do="stall", all=False, seed=1, bug="no fence")
    found = report["outcomes"][-1]["problems"]
    assert any(problem.startswith(BUGS["no fence"].promises) for problem in found), found


def test_a_lease_that_is_never_renewed_is_found(drive: Callable[..., Report]) -> None:
    found = drive(do="keep", bug="never renewed")["problems"]
    assert any(problem.startswith(BUGS["never renewed"].promises) for problem in found), found
