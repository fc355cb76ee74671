"""The command line in an empty folder, without a key or a setting of the machine it runs on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pagedaemon.cli.commands import commands

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    for name in ("PAGEDAEMON_STORE", "PAGEDAEMON_MODEL", "PAGEDAEMON_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # --app adds the working directory
    return tmp_path


@pytest.fixture
def run() -> Run:
    """Runs `pagedaemon` with arguments and, as `input`, what comes through the pipe."""

    def run(*arguments: str, input: str = "") -> Result:
        return CliRunner().invoke(
            commands,
            arguments,
            input=input,
            prog_name="pagedaemon",
            catch_exceptions=False,
            terminal_width=80,
        )

    return run
