"""What both searches of the command line have: which hits, in what order, and if there are more."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import click

from pagedaemon.cli.progress import remark
from pagedaemon.cli.screen import amount
from pagedaemon.clock import SystemClock
from pagedaemon.handles.page import Page
from pagedaemon.memory.presets import known_presets
from pagedaemon.memory.recall import date_range

HITS = 10
"""How many hits a search shows unless told otherwise."""

Command = TypeVar("Command", bound=Callable[..., Any])


def search_options(of: str, dated: str) -> Callable[[Command], Command]:
    """The options `limit`, `page`, `ranking`, `start` and `end`.

    Args:
        of: what is searched, `records` or `messages`.
        dated: what their time is, as help says it.
    """
    options = (
        click.option(
            "--limit", type=click.IntRange(1), default=HITS, show_default=True, help="Of hits."
        ),
        click.option(
            "--page",
            type=click.IntRange(0),
            default=0,
            show_default=True,
            help="Which page of so many hits.",
        ),
        click.option(
            "--ranking",
            type=click.Choice(known_presets(of)),
            default="default",
            show_default=True,
            help="By what they are ranked.",
        ),
        click.option(
            "--start",
            metavar="DATE",
            help=f"Only what was {dated} then or later: 2024-05-01, 2024-05-01T09:00, "
            '"last Monday"; UTC.',
        ),
        click.option("--end", metavar="DATE", help="And then or before; a day with all of it."),
    )

    def with_options(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return with_options


def between(start: str | None, end: str | None) -> tuple[datetime | None, datetime | None]:
    """The half-open range that was given.

    Raises:
        InvalidInput: one of them is no date, or the range ends before it starts.
    """
    return date_range(start, end, "UTC", SystemClock().now())


def tell_more(found: Page[Any]) -> None:
    """Remarks that what was shown is not all, and what could not be found."""
    if found.pending:
        remark(
            f"{amount(found.pending, 'text')} cannot be found by meaning yet, only by the words in "
            "them: `pagedaemon reindex` waits for that"
        )
    shown, first = len(found.hits), found.page * found.page_size + 1
    if not shown and found.total:
        remark(f"no page {found.page:,}: there are {found.total:,} hits in all")
    elif found.page and shown:
        remark(f"these are {first:,} to {first + shown - 1:,} of {found.total:,}")
    elif shown < found.total:
        remark(f"these are {shown:,} of {found.total:,}: --limit or --page shows more")
