"""What stands on the terminal: a turn as it happens, memory, context, search hits, tables."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime

import click
from rich.console import Console
from rich.progress_bar import ProgressBar
from rich.status import Status
from rich.table import Table
from rich.text import Text

from pagedaemon.clock import zone
from pagedaemon.config import Paging
from pagedaemon.events import (
    BlockChange,
    CallRecord,
    ContextReport,
    Event,
    HeartbeatEvent,
    PagedOut,
    ReplyDelta,
    StepFinished,
    StepReset,
    StepStarted,
    ThoughtDelta,
    Turn,
    TurnEnded,
)
from pagedaemon.handles.archive import Passage
from pagedaemon.handles.recall import RecallHit
from pagedaemon.sync.blocks import StoredBlock

QUIET_ENDS = ("end_turn", "no_reply")
"""Stop reasons that are the agent's own yield."""

LONGEST_LINE = 160
"""Characters of a call or result that are shown."""


def printable(text: str) -> str:
    """The text without what steers a terminal: words of a model or a web page must not."""
    return "".join(
        letter if letter in "\n\t" or unicodedata.category(letter) != "Cc" else "\ufffd"
        for letter in text
    )


def one_line(text: str, longest: int = LONGEST_LINE) -> str:
    """The text on one line, shortened."""
    line = " ".join(printable(text).split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def amount(number: int, thing: str) -> str:
    """How many of a thing: `1 passage`, `1,200 passages`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def stamp(instant: datetime, zone_name: str = "UTC") -> str:
    """An instant for people, in that zone: `2026-11-30 15:53`."""
    return instant.astimezone(zone(zone_name)).strftime("%Y-%m-%d %H:%M")


def ending(turn: Turn) -> str | None:
    """One line on a turn that did not end by itself; None on any other."""
    if turn.stop_reason in QUIET_ENDS:
        return None
    said = f"the turn stopped: {turn.stop_reason.replace('_', ' ')}"
    return one_line(f"{said}: {turn.error}" if turn.error else said)


def difference(before: str, after: str) -> list[str]:
    """The lines that went (`- `) and came (`+ `)."""
    lines = difflib.ndiff(before.split("\n"), after.split("\n"))
    return [line for line in lines if line[:2] in ("- ", "+ ") and line[2:]]


class Screen:
    """A console on which a conversation is shown. Nothing is ever read as markup."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self._status: Status | None = None
        self._writing = ""
        self._replied = False

    # ------------------------------------------------------------------ a turn as it happens

    def hear(self, event: Event) -> None:
        """Shows an event of a turn."""
        if isinstance(event, StepStarted):
            self._replied = False
            self._wait()
        elif isinstance(event, ReplyDelta):
            self._replied = True
            self._write(event.text, "")
        elif isinstance(event, ThoughtDelta):
            self._write(event.text, "dim italic")
        elif isinstance(event, StepReset):
            self.note(f"asked again: {one_line(event.reason)}")
            self._replied = False
        elif isinstance(event, StepFinished):
            if not self._replied:
                for reply in event.record.replies:
                    self._write(reply, "")
            for call in event.record.calls:
                self._call(call)
            for change in event.record.changes:
                self.change(change)
        elif isinstance(event, HeartbeatEvent):
            self.note(f"heartbeat ({event.reason})")
        elif isinstance(event, PagedOut):
            self.note(
                f"paged out {event.messages} messages: {event.tokens_before:,} -> "
                f"{event.tokens_after:,} tokens (by the {event.by}; summary: {event.summary})"
            )
        elif isinstance(event, TurnEnded):
            self.settle()
            if (end := ending(event.turn)) is not None:
                self.problem(end)
            elif event.turn.reply is None:
                self.note("(no reply)")

    def settle(self) -> None:
        """Ends the line that is being written, and the waiting sign."""
        if self._status is not None:
            self._status.stop()
            self._status = None
        if self._writing:
            self.console.print()
            self._writing = ""

    def _wait(self) -> None:
        self.settle()
        self._status = self.console.status("thinking", spinner="line")
        self._status.start()

    def _write(self, text: str, style: str) -> None:
        # Named, since a reply has no style of its own.
        kind = style or "reply"
        if self._writing != kind:
            self.settle()
            self._writing = kind
        self.console.print(Text(printable(text), style), end="", soft_wrap=True)

    def _call(self, call: CallRecord) -> None:
        if call.status == "ok" and call.tool == "send_message":
            return
        given = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
        self.note(one_line(f"{call.tool}({given})"))
        if call.status != "ok":
            self.line(f"  {call.status}: {one_line(call.result)}", "red")

    def change(self, change: BlockChange) -> None:
        """Shows what became of a block."""
        self.note(f"memory: {change.label}, version {change.version}")
        self._difference(change.before, change.after)

    def took_back(self, label: str, before: str, after: str) -> None:
        """Shows an edit that was undone."""
        self.note(f"memory: {label}, taken back")
        self._difference(before, after)

    def _difference(self, before: str, after: str) -> None:
        for line in difference(before, after):
            self.line(f"  {line}", "green" if line.startswith("+") else "red")

    # ------------------------------------------------------------------ single lines

    def line(self, text: str, style: str = "") -> None:
        """One line, or as many as the text has."""
        self.settle()
        self.console.print(Text(printable(text), style), soft_wrap=True)

    def note(self, text: str) -> None:
        """Something beside the conversation."""
        self.line(text, "dim")

    def problem(self, text: str) -> None:
        """Something that went wrong."""
        self.line(text, "yellow")

    # ------------------------------------------------------------------ what a person asks for

    def blocks(self, blocks: Sequence[StoredBlock]) -> None:
        """Core memory, as the model sees it."""
        if not blocks:
            self.note("no blocks")
        for block in blocks:
            value = block.value
            only = ", read only" if block.read_only else ""
            self.line(f"{block.label}  {len(value)}/{block.limit}{only}", "bold")
            self.line("\n".join(f"  {line}" for line in value.split("\n")))

    def context(self, report: ContextReport) -> None:
        """What the model would see, by section."""
        rows = [
            (part.name, f"{part.tokens:,}", f"{part.tokens / report.budget:.1%}")
            for part in report.parts
        ]
        rows.append(("together", f"{report.tokens:,}", f"{report.tokens / report.budget:.1%}"))
        self.table(("section", "tokens", "of the budget"), rows, right=(1, 2))
        self.note(f"budget {report.budget:,} tokens, window {report.window:,}")

    def pressure(self, report: ContextReport, paging: Paging) -> None:
        """How full the window is, and what happens when."""
        self.settle()
        share = report.tokens / report.budget
        if self.console.is_terminal:
            self.console.print(ProgressBar(total=1.0, completed=min(share, 1.0), width=50))
        self.line(f"{share:.0%} of {report.budget:,} tokens")
        self.note(
            f"the agent is warned at {paging.warn:.0%}; at {paging.evict:.0%} the oldest messages "
            f"are paged out, down to {paging.target:.0%}"
        )

    def hits(
        self, said: Sequence[RecallHit], kept: Sequence[Passage], totals: tuple[int, int], zone: str
    ) -> None:
        """What a search found in recall and in the archive."""
        for name, total, lines in (
            ("recall", totals[0], [(h.message.created_at, h.message.role, h.text) for h in said]),
            ("archive", totals[1], [(p.created_at, p.kind, p.text) for p in kept]),
        ):
            more = f", the first {len(lines)}" if total > len(lines) else ""
            self.line(f"{name}: {total}{more}", "bold")
            for when, what, text in lines:
                self.line(f"  {stamp(when, zone)}  {what}: {one_line(text)}")

    def table(
        self, head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()
    ) -> None:
        """A table; in a pipe one line for each row, with tabs between its cells.

        Args:
            head: names of the columns; empty: the rows speak for themselves.
            right: columns whose cells stand at the right.
        """
        self.settle()
        if not self.console.is_terminal:
            for row in (head, *rows):
                if row:
                    click.echo("\t".join(one_line(cell, 10_000) for cell in row), self.console.file)
            return
        shown = Table(box=None, pad_edge=False, show_header=bool(head))
        for number, name in enumerate(head):
            shown.add_column(name, justify="right" if number in right else "left")
        for row in rows:
            shown.add_row(*(Text(one_line(cell, 10_000)) for cell in row))
        self.console.print(shown)
