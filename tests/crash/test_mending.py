"""Mending that is killed is finished by whoever mends next, whenever it was.

See `mending.py` for how.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.crash.mending import WRONG

import pagedaemon

ROOT = Path(__file__).parents[2]


def test_mending_that_was_killed_is_finished_and_then_finds_nothing() -> None:
    source = Path(pagedaemon.__file__).parents[1]
    ended = subprocess.run(
        [sys.executable, "-m", "tests.crash.mending", "6"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(source)])},
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    report = json.loads(ended.stdout)
    assert report["found"] == {**dict.fromkeys(WRONG, "mended"), "outcome_unknown": "left"}
    assert report["wrong"] == []
    assert report["places"]["before a statement"] >= 90
    assert report["places"]["after a commit"] >= 10
    # How often a store is looked at while nothing happens is no fixed number.
    assert report["killed"] >= report["tried"] - 3
