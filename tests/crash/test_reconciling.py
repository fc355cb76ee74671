"""A call whose tool can be asked what became of it runs once, and its result is never unknown.

See `reconciling.py` for how.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pagedaemon

ROOT = Path(__file__).parents[2]


def swept(*arguments: str) -> dict[str, Any]:
    """The report of a sweep."""
    source = Path(pagedaemon.__file__).parents[1]
    ended = subprocess.run(
        [sys.executable, "-m", "tests.crash.reconciling", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(source)])},
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    report: dict[str, Any] = json.loads(ended.stdout)
    return report


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    """Of a sweep over every commit, every place in the tool and each third statement."""
    return swept("3")


def test_the_effect_is_there_once_with_its_result_whenever_the_process_is_killed(
    report: dict[str, Any],
) -> None:
    assert report["wrong"] == []
    assert report["places"]["inside a tool"] == 2
    assert report["places"]["after a commit"] >= 4
    # How often a store is looked at while nothing happens is no fixed number.
    assert report["killed"] >= report["tried"] - 3


def test_a_kill_while_the_tool_is_asked_or_runs_again_changes_nothing(
    report: dict[str, Any],
) -> None:
    # A call that has acted is asked about, and not run again.
    assert report["twice"] == [[True, True], [True, True], [True, True], [True, False]]
    assert report["wrong twice"] == []


def test_a_tool_that_does_not_know_leaves_the_outcome_unknown_and_is_not_run_again(
    report: dict[str, Any],
) -> None:
    unsure = report["unsure"]
    assert (unsure["charged"], unsure["statuses"]) == (1, ["unknown"])
    assert "Whether it took effect is unknown" in unsure["replies"][0]


def test_the_sweep_finds_a_bug_that_was_put_in() -> None:
    wrong = swept("0", "no_start_mark")["wrong"]
    assert any(found["charged"] == 2 for found in wrong), wrong
