"""An approved call is run at most once and its agent told, whenever the process is killed.

See `approving.py` for how.
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
        [sys.executable, "-m", "tests.crash.approving", *arguments],
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


def test_an_approved_call_is_run_at_most_once_whenever_the_process_is_killed() -> None:
    report = swept("3")
    assert report["wrong"] == []
    assert report["places"]["before a statement"] >= 60
    assert report["places"]["after a commit"] >= 5
    # How often a store is looked at while nothing happens is no fixed number.
    assert report["killed"] >= report["tried"] - 3


@pytest.mark.parametrize(
    ("bug", "seen"), [("no_start_mark", "mailed ['bob', 'bob']"), ("no_plan", "told 0 times")]
)
def test_the_sweep_finds_a_bug_that_was_put_in(bug: str, seen: str) -> None:
    assert seen in "; ".join(swept("0", bug)["wrong"])
