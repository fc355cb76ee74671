"""What `--help` of each command says, to the letter."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import Result

from pagedaemon import __version__
from pagedaemon.cli.commands import commands

Run = Callable[..., Result]

SNAPSHOTS = Path(__file__).with_name("snapshots")


def paths(command: click.Command, *names: str) -> Iterator[tuple[str, ...]]:
    """The words that lead to each command."""
    yield names
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from paths(inner, *names, name)


ALL = sorted(paths(commands))


def snapshot(path: tuple[str, ...]) -> Path:
    """Where the help of that command is kept."""
    return SNAPSHOTS / f"{'_'.join(('pagedaemon', *path))}.txt"


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_of_each_command_is_as_it_was(path: tuple[str, ...], run: Run) -> None:
    shown = run(*path, "--help")
    assert shown.exit_code == 0
    assert shown.stdout == snapshot(path).read_text(encoding="utf-8")


def test_every_snapshot_belongs_to_a_command() -> None:
    assert {snapshot(path) for path in ALL} == set(SNAPSHOTS.iterdir())


def test_the_version_is_that_of_the_package(run: Run) -> None:
    assert __version__ in run("--version").stdout


def test_the_package_is_a_command_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pagedaemon", "--version"],
        env={"PYTHONPATH": str(Path(__file__).parents[2] / "runtime")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert __version__ in done.stdout
