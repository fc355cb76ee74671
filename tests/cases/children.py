"""Python processes of their own that work on one folder, for the cases of many at once."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "runtime"
PATIENCE = 120.0
"""Seconds after which a child process counts as stuck."""

CHILD = """
import asyncio, sys
from pathlib import Path
from pagedaemon import AsyncRuntime
from pagedaemon.testing import ScriptedModel, both, call, say, view

folder, name = Path(sys.argv[1]), sys.argv[2]

async def started():
    # All processes begin at once.
    (folder / f"{name}.ready").touch()
    while not (folder / "go").exists():
        await asyncio.sleep(0.005)

"""


def appeared(*files: Path) -> None:
    """Waits until all of them are there."""
    deadline = time.monotonic() + PATIENCE
    while not all(file.exists() for file in files):
        assert time.monotonic() < deadline, f"still waiting for {files}"
        time.sleep(0.01)


class Children:
    """Python processes that work on one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[subprocess.Popen[str]] = []

    def start(self, name: str, script: str) -> subprocess.Popen[str]:
        """Starts one; the script goes on from `CHILD`."""
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD + textwrap.dedent(script), str(self._folder), name],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._running.append(child)
        return child

    async def ready(self, *names: str) -> None:
        """Waits until they stand at the line, and lets them go."""
        await asyncio.to_thread(appeared, *(self._folder / f"{name}.ready" for name in names))
        (self._folder / "go").touch()

    async def ended(self) -> list[str]:
        """What each printed; a child that failed fails the test."""
        printed = []
        for child in self._running:
            out, err = await asyncio.to_thread(child.communicate, timeout=PATIENCE)
            assert child.returncode == 0, err
            printed.append(out)
        return printed
