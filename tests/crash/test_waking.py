"""Timers and mail survive a process killed at any moment: each wakes its agent, and once.

See `waking.py` for how.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pagedaemon

ROOT = Path(__file__).parents[2]


def test_a_timer_and_a_letter_wake_once_whenever_the_process_is_killed() -> None:
    source = Path(pagedaemon.__file__).parents[1]
    ended = subprocess.run(
        [sys.executable, "-m", "tests.crash.waking", "5"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(source)])},
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    report = json.loads(ended.stdout)
    assert report["wrong"] == []
    assert report["places"]["before a statement"] >= 50
    assert report["places"]["after a commit"] >= 5
    # How often a store is looked at while nothing happens is no fixed number.
    assert report["killed"] >= report["tried"] - 3
