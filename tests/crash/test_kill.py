"""A process killed by SIGKILL at every statement, commit and await of a turn of three steps.

See `driver.py` for how, `scenario.py` for the turn and what must be true afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

KINDS = {
    "before a statement": 40,
    "after a statement": 40,
    "before a commit": 6,
    "after a commit": 6,
    "before a task runs on": 15,
    "after a task gave way": 10,
    "inside a tool": 4,
}
"""Kinds of places, and how many there are of each at least."""

PROMISES = {
    "message lost": "a message that was accepted is stored, one that was not is whole or absent",
    "message doubled": "no message is stored twice",
    "half a step": "an edit, its passage, its version and its messages are all there or all absent",
    "result missing": "every call has one result, in order",
    "ran twice": "the card is charged at most once, and the store knows of it",
    "not told": "a charge nobody saw the end of is unknown, to the owner and to the model",
    "asked again": "a reply of the model that was stored is not asked for again",
    "event lost": "a committed event keeps its number, and each is told once",
    "not ended": "the turn is brought to its end, and nothing is left open",
    "not answered": "the next message is answered, by a request that is valid for every provider",
    "error logged": "nothing goes wrong on the way",
    "not opened": "the store opens again",
}


@pytest.fixture(scope="module")
def sweep(drive: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """One killed process per place; at every fifth the recovery is killed too."""
    with ThreadPoolExecutor(2) as two:
        parts = [two.submit(drive, do="sweep", again_every=5, part=[n, 2]) for n in range(2)]
    first, second = (part.result() for part in parts)
    assert first["places"] == second["places"], "the places are the same in every process"
    return {"places": first["places"], "outcomes": first["outcomes"] + second["outcomes"]}


def test_a_process_is_killed_at_every_kind_of_place(
    sweep: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    places, outcomes = sweep["places"], sweep["outcomes"]
    alive = [outcome for outcome in outcomes if not outcome["killed"]]
    assert alive == [], "these processes were not killed"
    kills = Counter(outcome["kind"] for outcome in outcomes if "again" not in outcome)
    assert kills == {kind: len(labels) for kind, labels in places.items()}
    for kind, least in KINDS.items():
        assert kills[kind] >= least, kind
    twice = Counter(outcome["again"].split(":")[0] for outcome in outcomes if "again" in outcome)
    # Inside a tool only if one is left to run.
    assert set(twice) >= set(KINDS) - {"inside a tool"}
    with capsys.disabled():
        print(f"\nkilled in the turn: {dict(kills)}; and again in recovery: {dict(twice)}")


@pytest.mark.parametrize("promise", PROMISES)
def test_a_crash_breaks_no_promise(sweep: dict[str, Any], promise: str) -> None:
    broken = [
        (outcome["place"], outcome.get("again"), problem)
        for outcome in sweep["outcomes"]
        for problem in outcome["problems"]
        if problem.startswith(promise)
    ]
    assert broken == [], PROMISES[promise]


def test_every_broken_promise_has_a_test_of_its_own(sweep: dict[str, Any]) -> None:
    named = {
        problem.split(":")[0] for outcome in sweep["outcomes"] for problem in outcome["problems"]
    }
    assert named <= set(PROMISES)


def test_the_kills_lie_on_both_sides_of_every_change(sweep: dict[str, Any]) -> None:
    """Otherwise the sweep would prove little: each end that a crash can lead to has occurred."""
    ends = {(outcome["status"], outcome["charged"]) for outcome in sweep["outcomes"]}
    assert ends == {(None, 0), ("ok", 1), ("unknown", 0), ("unknown", 1)}
    heard = {"accepted" in outcome["said"] for outcome in sweep["outcomes"]}
    assert heard == {False, True}


@pytest.mark.parametrize(
    ("bug", "promise"),
    [
        ("two commits", "half a step"),
        ("no start mark", "ran twice"),
        ("no plan", "ran twice"),
        ("message in the finish", "message lost"),
        ("events in memory", "event lost"),
    ],
)
def test_a_seeded_bug_is_found(
    drive: Callable[..., dict[str, Any]], bug: str, promise: str
) -> None:
    found = drive(do="sweep", bug=bug, until_found=True)["outcomes"][-1]["problems"]
    assert any(problem.startswith(promise) for problem in found), found
