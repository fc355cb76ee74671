"""What blocks, conversations, approvals and timers are, in plain lists and dicts: what the store is
held against. Nothing here knows how any of it is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta


class Refused(Exception):
    """An edit that must not be made.

    Attributes:
        reason: one of `EditRefused`'s.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


Change = Callable[["PlainBlock"], str]
"""From a block to its next value; raises `Refused`."""


@dataclass
class PlainBlock:
    """A block: every version it ever had, as (value, operation, by)."""

    limit: int
    versions: list[tuple[str, str, str]]
    read_only: bool = False

    @property
    def value(self) -> str:
        """Its text now."""
        return self.versions[-1][0]

    @property
    def version(self) -> int:
        """Counts from 1."""
        return len(self.versions)

    def at(self, version: int) -> str:
        """Its text as it was."""
        return self.versions[version - 1][0]

    def write(self, operation: str, by: str, change: Change) -> bool:
        """Makes a new version, unless the value stays as it is. Returns whether it did."""
        if self.read_only and by == "agent":
            raise Refused("read_only")
        value = change(self)
        if len(value) > self.limit:
            raise Refused("too_long")
        if value == self.value:
            return False
        self.versions.append((value, operation, by))
        return True


def appended(text: str) -> Change:
    """A line after the last."""

    def change(block: PlainBlock) -> str:
        if not text.strip():
            raise Refused("empty_text")
        return "\n".join(filter(None, [block.value, text]))

    return change


def inserted(text: str, line: int, seen: str) -> Change:
    """A line before that one, which was counted in the value that was seen."""

    def change(block: PlainBlock) -> str:
        if not text.strip():
            raise Refused("empty_text")
        now, counted = _lines(block.value), _lines(seen)
        if line in (-1, len(counted)):
            return appended(text)(block)
        if not 0 <= line < len(counted):
            raise Refused("no_such_line")
        if line >= len(now) or now[line] != counted[line]:
            raise Refused("stale")
        now.insert(line, text)
        return "\n".join(now)

    return change


def replaced(old: str, new: str) -> Change:
    """Another text where that one stands exactly once."""

    def change(block: PlainBlock) -> str:
        if not old:
            raise Refused("empty_text")
        value = block.value
        places = [at for at in range(len(value)) if value.startswith(old, at)]
        if not places:
            raise Refused("not_found")
        if len(places) > 1:
            raise Refused("ambiguous")
        return value[: places[0]] + new + value[places[0] + len(old) :]

    return change


def rewritten(value: str, version: int) -> Change:
    """A whole new value over that version."""

    def change(block: PlainBlock) -> str:
        if block.version != version:
            raise Refused("stale")
        return value

    return change


def _lines(value: str) -> list[str]:
    return value.split("\n") if value else []


@dataclass(frozen=True)
class Entry:
    """A message, as far as it can be known beforehand.

    Attributes:
        turn: which turn of its conversation it belongs to.
        wakes: it is what that turn began with.
        words: what was said, then the tools that were called; of a result, the tool; of a
            heartbeat, its reason.
    """

    seq: int
    turn: int
    kind: str
    words: tuple[str, ...]
    wakes: bool = False


@dataclass
class PlainConversation:
    """A queue of messages: all that ever were, and those in the window."""

    log: list[Entry] = field(default_factory=list)
    window: list[Entry] = field(default_factory=list)
    ended: list[tuple[str, str | None]] = field(default_factory=list)
    """The stop reason and the reply of every turn that has ended, oldest first."""

    @property
    def turn(self) -> int:
        """The number of the turn that is open or comes next."""
        return len(self.ended)

    def add(self, kind: str, *words: str, wakes: bool = False) -> None:
        """A new message at the end of the window."""
        entry = Entry(len(self.log) + 1, self.turn, kind, words, wakes)
        self.log.append(entry)
        self.window.append(entry)

    def end(self, reason: str, reply: str | None = None) -> None:
        """The open turn ends."""
        self.ended.append((reason, reply))

    def reset(self) -> int:
        """Empties the window. Returns how many left it."""
        left = len(self.window)
        self.window = []
        return left

    def pop(self) -> list[Entry]:
        """The last exchange leaves the window, but for a summary."""
        queue = [entry for entry in self.window if entry.kind != "summary"]
        gone = [entry for entry in queue if entry.turn == queue[-1].turn]
        self.window = [entry for entry in self.window if entry not in gone]
        return gone

    def page_out(self, through: int, note: str) -> int:
        """Whole groups up to that number leave the window for a note. What began the open turn and
        its newest heartbeat stay. Returns how many messages left; 0 where none may."""
        leaving = [
            entry for group in self._may_leave() if group[-1].seq <= through for entry in group
        ]
        if not leaving:
            return 0
        notes = [word for entry in self.window if entry.kind == "summary" for word in entry.words]
        self._leave(leaving, "\n".join([*notes, note]))
        return len(leaving)

    def forced_out(self, count: int, summary: str) -> None:
        """So many messages left the window for want of room: the oldest that may, in whole groups.
        One summary stands for them and for what had left before."""
        leaving: list[Entry] = []
        for group in self._may_leave():
            if len(leaving) < count:
                leaving += group
        assert len(leaving) == count, "whole groups leave"
        self._leave(leaving, summary)

    def _leave(self, leaving: list[Entry], summary: str) -> None:
        self.window = [
            entry for entry in self.window if entry not in leaving and entry.kind != "summary"
        ]
        self.add("summary", summary)

    def _may_leave(self) -> Iterator[list[Entry]]:
        """Groups, oldest first, without what began the open turn and its newest heartbeat."""
        events = [entry for entry in self.window if entry.turn == self.turn]
        beats = [entry for entry in events if entry.kind in ("heartbeat", "alert")]
        staying = [*(entry for entry in events if entry.wakes), *beats[-1:]]
        for group in self._groups():
            if not any(entry in staying for entry in group):
                yield group

    def _groups(self) -> Iterator[list[Entry]]:
        """A reply with its results, or any other single message; without the summary."""
        group: list[Entry] = []
        for entry in self.window:
            if entry.kind == "summary":
                continue
            if entry.kind != "result" and group:
                yield group
                group = []
            group.append(entry)
        if group:
            yield group


@dataclass
class PlainApproval:
    """A call that waits for a person, or has."""

    agent: str
    conversation: str
    to: str
    expires: datetime
    status: str = "pending"


@dataclass(frozen=True)
class PlainLetter:
    """What an agent wrote to another that has not read it yet.

    Attributes:
        conversation: where it was written, and where an answer goes.
    """

    sender: str
    conversation: str
    to: str
    question: bool


@dataclass
class PlainTimer:
    """When an agent is woken next, and where."""

    agent: str
    conversation: str
    text: str
    due: datetime
    every: timedelta | None

    def ring(self, now: datetime) -> bool:
        """Moves on over all instants that have passed. Returns whether it rings again."""
        if self.every is None:
            return False
        while self.due <= now:
            self.due += self.every
        return True


@dataclass
class PlainAgent:
    """Who holds which blocks and has which conversations."""

    name: str
    native: bool
    edits: bool
    """Whether its tools are those of the set `edit`."""
    blocks: dict[str, PlainBlock]
    conversations: dict[str, PlainConversation] = field(
        default_factory=lambda: {"main": PlainConversation()}
    )
    held: bool = False
    held_until: datetime | None = None
    """Until when its timers are held; None for ever, where they are."""

    def holds_timers(self, now: datetime) -> bool:
        """Whether they are held at that instant."""
        return self.held and (self.held_until is None or self.held_until > now)

    @property
    def messages(self) -> int:
        """How many it has in all its conversations."""
        return sum(len(one.log) for one in self.conversations.values())
