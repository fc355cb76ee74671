"""A disk that is full at any write of a turn (fault O6): the error is typed, nothing of the step
lands, and once there is room everything goes on, each thing once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cases.disk import FullAt, Workload, work
from tests.crash.forking import folder

ROOT = Path(__file__).parents[2]


async def test_full_at_any_statement_that_writes_is_typed_and_loses_nothing() -> None:
    with folder() as place:
        disk = FullAt(None)
        with disk.database():
            assert await work(Workload(place / "none"), disk) is None
        assert len(disk.seen) > 20
        for number, statement in enumerate(disk.seen):
            disk = FullAt(number)
            with disk.database():
                full = await work(Workload(place / str(number)), disk)
            assert full is not None, (number, statement)


@pytest.mark.parametrize("spare", [0, 5_000], ids=["nothing fits", "one page fits"])
def test_full_at_any_commit_is_typed_and_loses_nothing(spare: int) -> None:
    with folder() as place:
        ended = subprocess.run(
            [sys.executable, "-m", "tests.cases.disk", str(place), str(spare)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "runtime")])},
            timeout=300,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr[-4000:]
    reached = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(reached) >= 4
    assert all(one["full"] for one in reached), reached
