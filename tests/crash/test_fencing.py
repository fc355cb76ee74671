"""A process that stands still for longer than its lease, and wakes (fault O5): a second one has
brought the turn to its end by then, and nothing of the first is written any more.

See `stalls.py` for how.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

PROMISES = {
    "written late": "a process that has lost its lease writes nothing",
    "not told": "whoever listened to it is told, and so is the model of an unknown outcome",
    "begun late": "no tool is begun by a process that has lost its lease",
    "ran twice": "the card is charged at most once",
}


@pytest.fixture(scope="module")
def outcomes(drive: Callable[..., dict[str, Any]]) -> list[dict[str, Any]]:
    """One process that stands still per place."""
    with ThreadPoolExecutor(2) as two:
        parts = [two.submit(drive, do="stall", every=3, part=[n, 2]) for n in range(2)]
    return [outcome for part in parts for outcome in part.result()["outcomes"]]


def test_it_stands_still_in_every_stage_of_the_turn(
    outcomes: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    fenced = [outcome for outcome in outcomes if outcome["end"] == "fenced"]
    kinds = Counter(outcome["place"].split(":")[0] for outcome in fenced)
    assert kinds["after a commit"] >= 3
    assert kinds["before a task runs on"] >= 1
    assert kinds["inside a tool"] == 4
    # Before the charge's start mark; after it; with its result in the store.
    stages = {(outcome["status"], outcome["charged"]) for outcome in fenced}
    assert stages >= {("ok", 1), ("unknown", 1)}
    with capsys.disabled():
        print(f"\nstood still: {dict(kinds)}, {len(outcomes) - len(fenced)} with nothing in hand")


@pytest.mark.parametrize("promise", PROMISES)
def test_a_stalled_process_breaks_no_promise(outcomes: list[dict[str, Any]], promise: str) -> None:
    broken = [
        (outcome["place"], problem)
        for outcome in outcomes
        for problem in outcome["problems"]
        if problem.startswith(promise)
    ]
    assert broken == [], PROMISES[promise]


def test_nothing_else_goes_wrong(outcomes: list[dict[str, Any]]) -> None:
    other = [
        (outcome["place"], problem)
        for outcome in outcomes
        for problem in outcome["problems"]
        if not problem.startswith(tuple(PROMISES))
    ]
    assert other == []


def test_a_missing_fence_is_found(drive: Callable[..., dict[str, Any]]) -> None:
    found = drive(do="stall", every=3, bug="no fence", until_found=True)["outcomes"][-1]
    assert any(problem.startswith("written late") for problem in found["problems"]), found
