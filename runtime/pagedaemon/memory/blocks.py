"""Core memory: blocks are changed by operations on their current value, never by writing a copy
back.

The four operations are pure functions of the value as it is inside the transaction. Appending
commutes, so two agents that append at once both succeed. Inserting conflicts if the line it stands
on changed, replacing needs its old text exactly once, and rewriting needs the version its author
had read. Whatever the way in (a tool, the API, an import, a restore), `write` is the one door with
the one set of checks.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from pagedaemon.agent import check_length
from pagedaemon.errors import EditReason, EditRefused, InvalidInput
from pagedaemon.events import BlockChange
from pagedaemon.memory.effects import Acting, Immediate, Told
from pagedaemon.messages import checked_text
from pagedaemon.store import blocks as rows
from pagedaemon.store.blocks import Author, BlockRow
from pagedaemon.store.transaction import Transaction

Operation: TypeAlias = Callable[[BlockRow], str]
"""From a block as it is now to its next value; raises `EditRefused`."""


def closing_mark(block_id: str) -> str:
    """The line that ends a block in the prompt. It carries the id, so no other text can stand for
    it."""
    return f"[/{block_id}]"


def append(text: str) -> Operation:
    """On a line of its own, after what is there."""

    def operation(block: BlockRow) -> str:
        if not text.strip():
            raise _refused("empty_text", block)
        return f"{block.value}\n{text}" if block.value else text

    return operation


def insert_line(text: str, line: int, seen: str | None = None) -> Operation:
    """Before line `line` (from 0); -1, or one more than there are, is after the last.

    `seen` is the whole value in which the author counted the lines; None is the current one. The
    line must still be what it was there, and the end is still the end.
    """

    def operation(block: BlockRow) -> str:
        if not text.strip():
            raise _refused("empty_text", block)
        lines = _lines(block.value)
        counted = lines if seen is None else _lines(seen)
        if line == -1 or line == len(counted):
            return append(text)(block)
        if not 0 <= line < len(counted):
            raise _refused("no_such_line", block)
        if lines[line : line + 1] != [counted[line]]:
            raise _refused("stale", block)
        return "\n".join([*lines[:line], text, *lines[line:]])

    return operation


def replace(old: str, new: str) -> Operation:
    """`old` must stand in the value exactly once. An empty `new` deletes it."""

    def operation(block: BlockRow) -> str:
        if not old:
            raise _refused("empty_text", block)
        at = block.value.find(old)
        if at < 0:
            raise _refused("not_found", block, nearest=_nearest(old, block.value))
        # Not `count`, which passes over places that overlap.
        if block.value.find(old, at + 1) >= 0:
            raise _refused("ambiguous", block)
        return block.value[:at] + new + block.value[at + len(old) :]

    return operation


def rewrite(value: str, version: int | None) -> Operation:
    """The whole value anew. `version` is the one its author had read; None was not read by
    anyone."""

    def operation(block: BlockRow) -> str:
        if version != block.version:
            raise _refused("stale", block)
        return value

    return operation


def overwrite(value: str) -> Operation:
    """The whole value anew, whatever it was: for a person who means it, never for a model."""
    return lambda block: value


def check_value(label: str, value: object, limit: int, *, block: BlockRow | None = None) -> str:
    """The one check that every way of writing a block passes. Returns the value as text.

    Raises:
        EditRefused: the value is over the limit, or has the mark that closes the block.
        InvalidInput: it is no text that can be stored.
    """
    text = checked_text(value, f"the value of block {label!r}", empty=True)
    current = None if block is None else block.value
    check_length(label, text, limit, current=current)
    if block is not None and closing_mark(block.id) in text:
        raise EditRefused(
            "bad_text",
            label,
            f"the text contains {closing_mark(block.id)}, the mark that closes block {label!r}",
            current=current,
            limit=limit,
            size=len(text),
        )
    return text


def write(
    tx: Transaction,
    block: BlockRow,
    operation: Operation,
    name: str,
    author: Author,
    now: datetime,
) -> BlockChange:
    """Applies an operation to a block just read in this transaction and keeps the new version.

    An operation that leaves the value as it is makes no new version.

    Raises:
        EditRefused: nothing was written.
    """
    if block.read_only and author.actor == "agent":
        raise _refused("read_only", block)
    value = check_value(block.label, operation(block), block.limit, block=block)
    version = block.version
    if value != block.value:
        version = rows.set_value(tx, block, value, name, author, now)
    return BlockChange(block.id, block.label, version, block.value, value)


@dataclass(frozen=True)
class Edit(Immediate):
    """A memory tool's edit of one of the agent's own blocks."""

    label: str
    operation: Operation
    name: str

    def apply(self, tx: Transaction, acting: Acting) -> Told:
        """Reads the block as it is now, applies, and tells its new size, not its whole text."""
        block = held(tx, acting.agent_id, self.label)
        author = Author("agent", acting.label, acting.agent_id, acting.turn_id, acting.step_id)
        change = write(tx, block, self.operation, self.name, author, acting.now)
        return Told(
            "results/edited",
            {
                "label": block.label,
                "size": len(change.after),
                "limit": block.limit,
                "version": change.version,
                "operation": self.name,
            },
            changes=(change,) if change.version != block.version else (),
        )


@dataclass(frozen=True)
class Rethink(Immediate):
    """A memory tool's whole new value: only over the version that stood in the step's prompt."""

    label: str
    value: str

    def apply(self, tx: Transaction, acting: Acting) -> Told:
        """As `Edit`, with the version taken from what this step has read or itself written."""
        block = held(tx, acting.agent_id, self.label)
        seen = acting.read_versions.get(block.id)
        return Edit(self.label, rewrite(self.value, seen), "rewrite").apply(tx, acting)


@dataclass(frozen=True)
class InsertAt(Immediate):
    """A memory tool's new line; conflicts if the line it was aimed at is no longer what the step
    saw."""

    label: str
    text: str
    line: int

    def apply(self, tx: Transaction, acting: Acting) -> Told:
        """As `Edit`. What the step saw is looked up in the version it had read."""
        block = held(tx, acting.agent_id, self.label)
        seen: str | None = None
        version = acting.read_versions.get(block.id)
        if self.line >= 0 and version is not None and version != block.version:
            seen = _value_at(tx, block.id, version)
        operation = insert_line(self.text, self.line, seen)
        return Edit(self.label, operation, "insert").apply(tx, acting)


def held(tx: Transaction, agent_id: str, label: str) -> BlockRow:
    """The block an agent holds under that label.

    Raises:
        EditRefused: it holds none; the message names those it has.
    """
    block = rows.one_of_agent(tx, agent_id, label)
    if block is None:
        labels = tuple(row.label for row in rows.of_agent(tx, agent_id))
        raise EditRefused(
            "no_such_block",
            label,
            f"no block {label!r}; there are: {', '.join(labels) or 'none'}",
            nearest=labels,
        )
    return block


def _value_at(tx: Transaction, block_id: str, version: int) -> str:
    for row in rows.versions(tx, block_id):
        if row.version == version:
            return row.value
    raise InvalidInput(f"block {block_id} has no version {version}")


def _refused(reason: EditReason, block: BlockRow, *, nearest: tuple[str, ...] = ()) -> EditRefused:
    messages: dict[EditReason, str] = {
        "empty_text": "the text is empty",
        "not_found": "the old text does not stand in the block",
        "ambiguous": "the old text stands in the block more than once",
        "read_only": "the block is read-only for agents",
        "stale": "the block has changed since it was read",
        "no_such_line": "the block has no such line",
    }
    return EditRefused(
        reason,
        block.label,
        f"block {block.label!r}: {messages[reason]}",
        current=block.value,
        nearest=nearest,
        limit=block.limit,
        size=len(block.value),
    )


def _lines(value: str) -> list[str]:
    return value.split("\n") if value else []


def _nearest(wanted: str, value: str) -> tuple[str, ...]:
    lines = [line for line in value.split("\n") if line.strip()]
    first = next((line for line in wanted.split("\n") if line.strip()), wanted)
    return tuple(difflib.get_close_matches(first, lines, n=3, cutoff=0.4))
