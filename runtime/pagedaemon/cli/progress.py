"""How far a long command is: a bar at a terminal, now and then a counted line anywhere else.

All of it stands on standard error, so that standard output has nothing but results.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import click
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from pagedaemon.cli.screen import one_line
from pagedaemon.clock import Clock, SystemClock

Progress: TypeAlias = Callable[[int, int | None, str], None]
"""What long work calls as it goes on: how many are done, of how many (None: nobody knows yet), and
what is counted, in words that follow a number: `documents loaded`. Other words begin a new
count."""

EVERY = 5.0
"""Seconds between two counted lines."""


def counted(done: int, total: int | None, what: str) -> str:
    """The count as one line: `1,200 of 5,000 documents loaded`."""
    number = f"{done:,}" if total is None else f"{done:,} of {total:,}"
    return one_line(f"{number} {what}")


class Lines:
    """Progress as counted lines: one now and then, and the last of each count always.

    Args:
        write: takes a line.
        after: nothing is said of a count until more than so many are done.
        every: seconds between two lines; None: only the last of each count.
        clock: the time; tests hold it still.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        *,
        after: int = 0,
        every: float | None = EVERY,
        clock: Clock | None = None,
    ) -> None:
        self._write = write
        self._after = after
        self._every = every
        self._clock: Clock = clock or SystemClock()
        self._said_at = self._clock.monotonic()
        self._unsaid: tuple[int, int | None, str] | None = None
        self._what: str | None = None

    def __call__(self, done: int, total: int | None, what: str) -> None:
        """Takes note of a count, and says it if it is time to."""
        if what != self._what:
            self.close()
            self._what = what
        if done <= self._after:
            return
        self._unsaid = (done, total, what)
        since = self._clock.monotonic() - self._said_at
        if self._every is not None and since >= self._every:
            self.close()

    def close(self) -> None:
        """Says the newest count, where that was not said yet."""
        if self._unsaid is not None:
            self._write(counted(*self._unsaid))
            self._unsaid = None
            self._said_at = self._clock.monotonic()


class Bar:
    """Progress as a bar that is drawn over and over, and is gone at the end.

    Args:
        bars: what draws; it must be running.
        after: no bar is drawn for a count until more than so many are done.
    """

    def __init__(self, bars: Bars, *, after: int = 0) -> None:
        self._bars = bars
        self._after = after

    def __call__(self, done: int, total: int | None, what: str) -> None:
        """Draws the count."""
        if done <= self._after:
            return
        line = counted(done, total, what)
        for task in self._bars.tasks:
            if task.fields["what"] == what:
                self._bars.update(task.id, completed=done, total=total, description=line)
                return
            self._bars.remove_task(task.id)
        self._bars.add_task(line, total=total, completed=done, what=what)


@contextmanager
def progress(*, after: int = 0, printing: bool = False) -> Iterator[Progress]:
    """Something to hand to long work, for as long as that goes on.

    Args:
        after: nothing is shown of a count until more than so many are done, for work that seldom is
            long.
        printing: the command prints results meanwhile. Where those go to a terminal they are
            progress enough: no bar is drawn between them and no line stands among them, but the
            last.
    """
    console = Console(stderr=True)
    crowded = printing and sys.stdout.isatty()
    drawn = console.is_terminal and not crowded
    lines = Lines(remark, after=after, every=None if drawn or crowded else EVERY)
    try:
        if drawn:
            # What the command prints must not be taken along to standard error.
            with Bars(
                BarColumn(),
                TextColumn("{task.description}", markup=False),
                TimeElapsedColumn(),
                console=console,
                transient=True,
                redirect_stdout=False,
            ) as bars:
                bar = Bar(bars, after=after)

                def both(done: int, total: int | None, what: str) -> None:
                    lines(done, total, what)
                    bar(done, total, what)

                yield both
        else:
            yield lines
    finally:
        lines.close()


def remark(line: str) -> None:
    """A line on standard error; above the bar, if one is drawn."""
    # Not `err=True`: that reaches past what stands in for standard error while a bar is drawn.
    click.echo(line, file=sys.stderr)
