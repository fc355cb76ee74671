"""`pagedaemon doctor`: what is wrong with a store found, mended, and told."""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import click

from pagedaemon.cli.app import loaded
from pagedaemon.cli.opening import DEFAULT_STORE, shown_folder
from pagedaemon.cli.screen import Screen, amount
from pagedaemon.errors import NotFound, StoreError
from pagedaemon.handles.checkup import examine
from pagedaemon.llm.embedding.gateway import bundled
from pagedaemon.runtime import DEFAULT_SPACE, checked_space
from pagedaemon.store.checkup import Finding, Kind, Report
from pagedaemon.store.checkup.findings import TREATMENTS
from pagedaemon.store.transaction import tells_of_damage
from pagedaemon.sync.runtime import Runtime
from pagedaemon.tools.tool import Tool

SHOWN = 3
"""Ids of one finding that are shown."""


@click.command()
@click.argument("folder", envvar="PAGEDAEMON_STORE", required=False)
@click.option("--space", "names", multiple=True, help="Only this one, or these.  [default: all]")
@click.option(
    "--app",
    metavar="MODULE:NAME",
    help="Your own code: a Runtime, a function that returns one, or a list of tools. MODULE is "
    "looked for in the working directory first.",
)
@click.option("--dry-run", is_flag=True, help="Only look: write nothing, not a byte.")
def doctor(folder: str | None, names: Sequence[str], app: str | None, dry_run: bool) -> None:
    """Find what is wrong with the store in FOLDER (default: ./memory), and mend it.

    With an --app that is a Runtime, its store is looked at, and FOLDER is left away.

    Turns that a crash left open, leases of processes that are gone, approvals and timers whose time
    is over, indexes that cannot be trusted, rows that belong to nothing, and the file itself. What
    was done is told, and what is left to do. It may run beside processes that have the store open.

    A turn is only taken up where its agent's model can be asked and its tools are here: give them
    with --app. The exit code is 0 where nothing is left to do, and 1 otherwise.
    """
    for name in names:
        checked_space(name)
    if dry_run and app is not None:
        raise click.UsageError("--dry-run opens nothing, so --app has no use")
    given = [] if app is None else loaded(app, store=None if folder is None else "FOLDER")
    if isinstance(given, Runtime):
        with given:
            reports = _mended_by(given, names)
    else:
        place = Path(folder or DEFAULT_STORE)
        reports = [
            _seen(place, name) if dry_run else _mended(place, name, given)
            for name in names or _spaces(place)
        ]
    _show(reports)
    if not all(report.sound for report in reports):
        sys.exit(1)


def _spaces(place: Path) -> list[str]:
    found = sorted(path.parent.name for path in place.glob("spaces/*/space.db"))
    if not found:
        raise NotFound(
            f"there is no store in {shown_folder(place)}: give FOLDER, the folder that --store "
            "names for the other commands"
        )
    return found


def _mended_by(runtime: Runtime, names: Sequence[str]) -> list[Report]:
    """Mends the spaces of a runtime that is open; of those that nobody named, only the ones with
    something wrong are opened."""
    reports = []
    for name in names or _spaces(runtime.folder):
        report = _seen(runtime.folder, name)
        if not _must_not_be_opened(report) and (names or name == DEFAULT_SPACE or report.findings):
            report = _opened_and_mended(runtime, report)
        reports.append(report)
    return reports


def _seen(place: Path, name: str) -> Report:
    """A look at a space; one that cannot be looked at is no reason to leave the others out."""
    try:
        return examine(place, name)
    except StoreError as error:
        return _with_failure(Report(name, ()), error)


def _must_not_be_opened(seen: Report) -> bool:
    kinds = ("file_damaged", "file_unreachable", "schema_new")
    return any(finding.kind in kinds for finding in seen.findings)


def _opened_and_mended(runtime: Runtime, seen: Report) -> Report:
    try:
        return runtime.space(seen.space).doctor()
    except StoreError as error:
        return _with_failure(seen, error)


def _with_failure(seen: Report, error: StoreError) -> Report:
    """The report, with what the store failed with."""
    kind: Kind = "file_damaged" if tells_of_damage(error) else "file_unreachable"
    failure = Finding(kind, str(error), ("space.db",), "left", TREATMENTS[kind].advice)
    # An earlier store that opening has not upgraded is what the failure speaks of.
    others = [one for one in seen.findings if one.kind != "schema_old"]
    return Report(seen.space, (failure, *others), seen.embedders)


class _OneSpace(Runtime):
    """A runtime without its default space: that one may be what is damaged, or not be there."""

    def __init__(self, name: str, store: Path, **options: Any) -> None:
        self._name = name
        super().__init__(store, **options)

    def _open(self) -> Coroutine[Any, Any, object]:
        return self._inner.space(self._name)


def _mended(place: Path, name: str, tools: Sequence[Tool]) -> Report:
    """Opens a space and mends it, unless it cannot be opened or must not be."""
    seen = _seen(place, name)
    if _must_not_be_opened(seen):
        return seen
    # Another embedder than the one whose vectors are there would make them all anew.
    embedder = "auto" if seen.embedders == (bundled(),) else None
    try:
        opened = _OneSpace(name, place, tools=tools, recover=False, embedder=embedder)
        with opened as runtime:
            report = runtime.space(name).doctor()
    except StoreError as error:
        return _with_failure(seen, error)
    return _with_upgrade(seen, report)


def _with_upgrade(seen: Report, report: Report) -> Report:
    """The report, with the upgrade that opening the store has made."""
    made = [
        Finding(finding.kind, finding.what, finding.where, "mended", "upgraded")
        for finding in seen.findings
        if finding.kind == "schema_old"
    ]
    return Report(report.space, (*report.findings, *made), report.embedders)


def _show(reports: Sequence[Report]) -> None:
    rows = [
        (report.space, finding.state, finding.kind, _where(finding), finding.what, finding.advice)
        for report in reports
        for finding in report.findings
    ]
    if rows:
        Screen().table(("space", "state", "kind", "where", "what", "done, or to do"), rows)
    sick = sum(not report.sound for report in reports)
    looked = amount(len(reports), "space")
    click.echo(f"{looked} looked at: {f'{sick:,} with something left to do' if sick else 'sound'}")


def _where(finding: Finding) -> str:
    more = len(finding.where) - SHOWN
    shown = " ".join(finding.where[:SHOWN])
    return f"{shown} and {more:,} more" if more > 0 else shown
