"""A block of core memory as a user holds it, and its versions."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pagedaemon.errors import NotFound
from pagedaemon.handles.arguments import checked_flag, checked_whole
from pagedaemon.memory import blocks as core
from pagedaemon.memory.blocks import Operation
from pagedaemon.messages import Label, checked_text
from pagedaemon.store import blocks as rows
from pagedaemon.store.blocks import Author, BlockRow, VersionRow
from pagedaemon.store.transaction import Transaction

if TYPE_CHECKING:
    from pagedaemon.scheduler import Scheduler

OWNER = Author("api", "owner")
"""Who edits through the Python API: the one who runs the agent."""


@dataclass(frozen=True, slots=True)
class BlockVersion:
    """A block as it was, and who made it so."""

    version: int
    value: str
    operation: str
    """`create`, `append`, `insert`, `replace`, `rewrite`, `overwrite` or `restore`."""
    by: str
    """`agent` or `api`."""
    agent_id: str | None
    turn_id: str | None
    step_id: str | None
    label: Label
    created_at: datetime


class AsyncBlock:
    """A stored block. Its fields are as of the last read; `refresh` reads again."""

    def __init__(self, scheduler: Scheduler, row: BlockRow) -> None:
        self._scheduler = scheduler
        self._row = row

    def __repr__(self) -> str:
        return f"<block {self.label!r} {len(self.value)}/{self.limit} version {self.version}>"

    @property
    def id(self) -> str:
        """Stable over export."""
        return self._row.id

    @property
    def label(self) -> str:
        """What the agent calls it."""
        return self._row.label

    @property
    def name(self) -> str | None:
        """Unique in its space, for a block that stands alone; None for one made for an agent."""
        return self._row.name

    @property
    def value(self) -> str:
        """Its text."""
        return self._row.value

    @property
    def description(self) -> str:
        """What belongs in it."""
        return self._row.description

    @property
    def limit(self) -> int:
        """Characters its value may have."""
        return self._row.limit

    @property
    def read_only(self) -> bool:
        """Whether agents may not edit it."""
        return self._row.read_only

    @property
    def version(self) -> int:
        """Counts from 1 with every change of the value."""
        return self._row.version

    async def refresh(self) -> AsyncBlock:
        """Reads the block again and returns it.

        Raises:
            NotFound: it was deleted.
        """
        self._row = await self._scheduler.store.read(self._current)
        return self

    async def append(self, text: str) -> AsyncBlock:
        """Adds a line. Never conflicts.

        Raises:
            EditRefused: empty text, or over the limit; the block is unchanged.
            InvalidInput: what is no text.
        """
        line = _text(text)
        return await self._edit("append", lambda: core.append(line))

    async def insert(self, text: str, line: int = -1) -> AsyncBlock:
        """Inserts a line before line `line` (from 0); -1 is after the last.

        Raises:
            EditRefused: empty text, no such line, that line has changed since this handle read it,
                or over the limit.
            InvalidInput: what is no text, or no whole number.
        """
        new, at = _text(text), checked_whole(line, "a line")
        return await self._edit("insert", lambda: core.insert_line(new, at, self.value))

    async def replace(self, old: str, new: str) -> AsyncBlock:
        """Replaces text that stands in the value exactly once.

        Raises:
            EditRefused: it stands there never, or more than once, or the result is over the limit.
            InvalidInput: what is no text.
        """
        before, after = _text(old), _text(new)
        return await self._edit("replace", lambda: core.replace(before, after))

    async def rewrite(self, value: str) -> AsyncBlock:
        """Writes a whole new value over the version this handle has read.

        Raises:
            EditRefused: somebody changed the block since, or the value is over the limit.
            InvalidInput: what is no text.
        """
        whole = _text(value)
        return await self._edit("rewrite", lambda: core.rewrite(whole, self.version))

    async def restore(self, version: int) -> AsyncBlock:
        """Makes an earlier version the newest one.

        Raises:
            NotFound: there is no such version.
            InvalidInput: what is no whole number.
        """
        earlier = await self._version(version)
        return await self._edit("restore", lambda: core.overwrite(earlier.value))

    async def update(
        self,
        *,
        description: str | None = None,
        limit: int | None = None,
        read_only: bool | None = None,
    ) -> AsyncBlock:
        """Changes what surrounds the value.

        Raises:
            EditRefused: the value is longer than the new limit.
            InvalidInput: a limit that is no whole number above 0, a description that cannot be
                stored, or a `read_only` that is neither True nor False.
            NotFound: it was deleted.
        """
        if description is not None:
            checked_text(description, "the description", empty=True)
        if limit is not None:
            checked_whole(limit, "a limit", least=1)
        if read_only is not None:
            checked_flag(read_only, "read_only")

        def work(tx: Transaction) -> BlockRow:
            row = self._current(tx)
            fields: dict[str, Any] = {}
            if limit is not None:
                core.check_value(row.label, row.value, limit, block=row)
                fields["limit"] = limit
            if description is not None:
                fields["description"] = description
            if read_only is not None:
                fields["read_only"] = read_only
            if fields:
                rows.set_fields(tx, row.id, fields, self._scheduler.clock.now())
            return self._current(tx)

        self._row = await self._scheduler.store.write(work)
        return self

    async def history(self) -> list[BlockVersion]:
        """Every version, oldest first, with who made it in which step.

        Raises:
            NotFound: the block was deleted.
        """

        def work(tx: Transaction) -> tuple[VersionRow, ...]:
            self._current(tx)
            return rows.versions(tx, self.id)

        return [_version(row) for row in await self._scheduler.store.read(work)]

    async def diff(self, before: int, after: int | None = None) -> str:
        """A unified diff between two versions; `after` is the newest where none is given.

        Raises:
            NotFound: there is no such version.
            InvalidInput: what is no whole number.
        """
        old = await self._version(before)
        new = await self._version(after) if after is not None else (await self.history())[-1]
        lines = difflib.unified_diff(
            old.value.split("\n"),
            new.value.split("\n"),
            f"version {old.version}",
            f"version {new.version}",
            lineterm="",
        )
        return "\n".join(lines)

    async def delete(self) -> None:
        """Deletes the block with its history; agents that held it no longer do.

        Raises:
            NotFound: it was deleted already.
        """

        def work(tx: Transaction) -> None:
            self._current(tx)
            rows.remove(tx, [self.id])

        await self._scheduler.store.write(work)

    def _current(self, tx: Transaction) -> BlockRow:
        row = rows.by_id(tx, self.id)
        if row is None:
            raise NotFound(f"block {self.label!r} was deleted")
        return BlockRow(row.id, self.label, *_after_label(row))

    async def _edit(self, name: str, operation: Callable[[], Operation]) -> AsyncBlock:
        def work(tx: Transaction) -> BlockRow:
            now = self._scheduler.clock.now()
            core.write(tx, self._current(tx), operation(), name, OWNER, now)
            return self._current(tx)

        self._row = await self._scheduler.store.write(work)
        return self

    async def _version(self, version: int) -> BlockVersion:
        checked_whole(version, "a version")
        for found in await self.history():
            if found.version == version:
                return found
        raise NotFound(f"block {self.label!r} has no version {version}")


def _after_label(row: BlockRow) -> tuple[Any, ...]:
    return (
        row.value,
        row.description,
        row.limit,
        row.read_only,
        row.version,
        row.name,
        row.owner_agent_id,
        row.created_at,
        row.updated_at,
    )


def _version(row: VersionRow) -> BlockVersion:
    return BlockVersion(
        row.version,
        row.value,
        row.operation,
        row.actor,
        row.agent_id,
        row.turn_id,
        row.step_id,
        row.label,
        row.created_at,
    )


def _text(value: object) -> str:
    """Text that can be stored; whether it may be empty, the operation says."""
    return checked_text(value, "the text", empty=True)
