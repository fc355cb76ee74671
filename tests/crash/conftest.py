"""Runs the process that forks and kills."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import pagedaemon

ROOT = Path(__file__).parents[2]

Drive: TypeAlias = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def drive() -> Drive:
    """Gives a job to `tests.crash.driver` and returns its report."""
    if not hasattr(os, "fork"):
        pytest.fail("these tests fork: run them on Linux or macOS")
    source = Path(pagedaemon.__file__).parents[1]

    def driven(**job: Any) -> dict[str, Any]:
        ended = subprocess.run(
            [sys.executable, "-m", "tests.crash.driver"],
            input=json.dumps(job),
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

    return driven
