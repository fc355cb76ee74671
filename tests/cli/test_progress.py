"""How far long work is: counted lines, and a bar at a terminal."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress as Bars

from pagedaemon.cli.progress import Bar, Lines, counted, progress
from pagedaemon.testing import FakeClock

SOURCE = Path(__file__).parents[2] / "runtime"

WORK = """
import click
from pagedaemon.cli.progress import progress, remark

with progress(printing=PRINTING) as report:
    for number in range(1, 4):
        click.echo(f"result {number}")
        report(number, 3, "documents loaded")
    remark("no document")
"""


@pytest.fixture
def said() -> list[str]:
    """The lines so far."""
    return []


def test_a_count_is_a_line_with_and_without_a_total() -> None:
    assert counted(1_200, 5_000, "documents loaded") == "1,200 of 5,000 documents loaded"
    assert counted(7, None, "messages answered") == "7 messages answered"
    assert counted(7, None, "a\nb\x1b") == "7 a b\ufffd"


class TestLines:
    """Where no bar can be drawn."""

    def test_a_line_comes_now_and_then_and_at_the_end(self, said: list[str]) -> None:
        clock = FakeClock()
        lines = Lines(said.append, every=5.0, clock=clock)
        for done in range(1, 13):
            clock.advance(1.0)
            lines(done, 12, "done")
        assert said == ["5 of 12 done", "10 of 12 done"]
        lines.close()
        lines.close()
        assert said == ["5 of 12 done", "10 of 12 done", "12 of 12 done"]

    def test_little_work_is_not_told_of(self, said: list[str]) -> None:
        lines = Lines(said.append, after=2, clock=FakeClock())
        lines(2, None, "done")
        lines.close()
        assert said == []
        lines(3, None, "done")
        lines.close()
        assert said == ["3 done"]

    def test_other_words_end_a_count_and_begin_one(self, said: list[str]) -> None:
        lines = Lines(said.append, clock=FakeClock())
        lines(2, 2, "read")
        lines(1, 2, "stored")
        lines.close()
        assert said == ["2 of 2 read", "1 of 2 stored"]

    def test_no_work_says_nothing(self, said: list[str]) -> None:
        Lines(said.append, clock=FakeClock()).close()
        assert said == []


class TestBar:
    """At a terminal."""

    def test_one_bar_stands_for_the_count_of_now(self) -> None:
        bars = Bars(console=Console(file=io.StringIO()))
        bar = Bar(bars, after=1)
        bar(1, 4, "read")
        assert bars.tasks == []
        bar(2, 4, "read")
        bar(3, 4, "read")
        [task] = bars.tasks
        assert (task.completed, task.total, task.description) == (3, 4, "3 of 4 read")
        bar(2, None, "stored")
        [task] = bars.tasks
        assert (task.completed, task.total, task.description) == (2, None, "2 stored")


def test_in_a_pipe_the_last_count_is_told_on_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress() as report:
        report(1, 2, "documents loaded")
        report(2, 2, "documents loaded")
    assert capsys.readouterr() == ("", "2 of 2 documents loaded\n")


def test_how_far_it_came_is_told_before_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        with progress() as report:
            report(1, 2, "documents loaded")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        work()
    assert capsys.readouterr().err == "1 of 2 documents loaded\n"


def at_terminal(folder: Path, *, printing: bool, redirected: bool) -> tuple[str, str]:
    """What `WORK` shows at a terminal, and what it leaves in the file it may be redirected to."""
    results = folder / "results.txt"
    mine, its = pty.openpty()
    with (
        results.open("wb") as file,
        subprocess.Popen(
            [sys.executable, "-c", WORK.replace("PRINTING", str(printing))],
            env={**os.environ, "PYTHONPATH": str(SOURCE), "TERM": "xterm"},
            stdout=file if redirected else its,
            stderr=its,
        ) as process,
    ):
        os.close(its)
        shown = b""
        while part := read(mine):
            shown += part
        process.wait(60)
    os.close(mine)
    assert process.returncode == 0
    return shown.decode(), results.read_text()


def read(end: int) -> bytes:
    """The next bytes of a terminal; none when nobody writes to it any more."""
    try:
        return os.read(end, 65_536)
    except OSError:
        return b""


@pytest.mark.parametrize("printing", [True, False])
def test_a_bar_leaves_redirected_results_alone(folder: Path, printing: bool) -> None:
    shown, results = at_terminal(folder, printing=printing, redirected=True)
    assert results == "result 1\nresult 2\nresult 3\n"
    assert "━" in shown
    assert "\x1b[2Kno document\r\n" in shown  # the bar makes way for it
    assert shown.endswith("3 of 3 documents loaded\r\n")


def test_no_bar_is_drawn_among_results(folder: Path) -> None:
    shown, _ = at_terminal(folder, printing=True, redirected=False)
    assert shown.splitlines() == [
        "result 1",
        "result 2",
        "result 3",
        "no document",
        "3 of 3 documents loaded",
    ]
