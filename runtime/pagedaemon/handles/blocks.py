"""Core memory as a user holds it: a block and its versions, the blocks of a space, those of an
agent."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.exc import IntegrityError

from pagedaemon.agent import Block, checked_label, checked_name
from pagedaemon.errors import AlreadyExists, InvalidInput, NotFound
from pagedaemon.memory import blocks as core
from pagedaemon.memory.blocks import Operation
from pagedaemon.messages import Label, checked_text
from pagedaemon.scheduler import Scheduler
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import blocks as rows
from pagedaemon.store.blocks import Author, BlockRow, VersionRow
from pagedaemon.store.transaction import Transaction

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
        """
        return await self._edit("append", lambda: core.append(text))

    async def insert(self, text: str, line: int = -1) -> AsyncBlock:
        """Inserts a line before line `line` (from 0); -1 is after the last.

        Raises:
            EditRefused: empty text, no such line, that line has changed since this handle read it,
                or over the limit.
        """
        return await self._edit("insert", lambda: core.insert_line(text, line, self.value))

    async def replace(self, old: str, new: str) -> AsyncBlock:
        """Replaces text that stands in the value exactly once.

        Raises:
            EditRefused: it stands there never, or more than once, or the result is over the limit.
        """
        return await self._edit("replace", lambda: core.replace(old, new))

    async def rewrite(self, value: str) -> AsyncBlock:
        """Writes a whole new value over the version this handle has read.

        Raises:
            EditRefused: somebody changed the block since, or the value is over the limit.
        """
        return await self._edit("rewrite", lambda: core.rewrite(value, self.version))

    async def restore(self, version: int) -> AsyncBlock:
        """Makes an earlier version the newest one.

        Raises:
            NotFound: there is no such version.
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
            InvalidInput: a limit below 1, or a description that cannot be stored.
            NotFound: it was deleted.
        """
        if description is not None:
            checked_text(description, "the description", empty=True)

        def work(tx: Transaction) -> BlockRow:
            row = self._current(tx)
            fields: dict[str, Any] = {}
            if limit is not None:
                if limit <= 0:
                    raise InvalidInput(f"a limit is at least 1, not {limit}")
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


def add_block(
    tx: Transaction, block: Block, *, name: str | None, owner: str | None, now: datetime
) -> BlockRow:
    """A new block from its definition, through the one check that every write passes.

    Raises:
        AlreadyExists: the name is taken.
        EditRefused: the value is over the limit.
    """
    value = core.check_value(block.label, block.value, block.limit)
    try:
        return rows.add(
            tx,
            label=block.label,
            value=value,
            description=block.description,
            limit=block.limit,
            read_only=block.read_only,
            name=name,
            owner_agent_id=owner,
            author=OWNER,
            now=now,
        )
    except IntegrityError as error:
        raise AlreadyExists(f"a block called {name!r} exists already") from error


class AsyncSpaceBlocks:
    """The blocks of a space that stand alone, by name: what agents share."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def create(
        self, block: Block | None = None, *, name: str | None = None, **fields: Any
    ) -> AsyncBlock:
        """A new block. Give a `Block`, or its fields: `create(label="team", value="…")`.

        Args:
            name: unique in the space; default: the label.

        Raises:
            AlreadyExists: the name is taken.
            InvalidInput: a field, or the name, that cannot be.
            EditRefused: the value is over the limit.
        """
        definition = _defined(block, fields)
        wanted = _named(name, definition)
        row = await self._scheduler.store.write(
            lambda tx: add_block(
                tx, definition, name=wanted, owner=None, now=self._scheduler.clock.now()
            )
        )
        return AsyncBlock(self._scheduler, row)

    async def ensure(
        self, block: Block | None = None, *, name: str | None = None, **fields: Any
    ) -> AsyncBlock:
        """The block of that name, made if there is none. What is there is never overwritten."""
        definition = _defined(block, fields)
        wanted = _named(name, definition)

        def work(tx: Transaction) -> BlockRow:
            found = rows.by_name(tx, wanted)
            if found is not None:
                return found
            now = self._scheduler.clock.now()
            return add_block(tx, definition, name=wanted, owner=None, now=now)

        return AsyncBlock(self._scheduler, await self._scheduler.store.write(work))

    async def get(self, name: str) -> AsyncBlock:
        """The block of that name or id.

        Raises:
            NotFound: there is none.
            InvalidInput: what cannot be a name.
        """
        wanted = checked_name(name, "a block's name")
        row = await self._scheduler.store.read(
            lambda tx: rows.by_name(tx, wanted) or rows.by_id(tx, wanted)
        )
        if row is None:
            raise NotFound(f"no block called {name!r} stands alone in this space")
        return AsyncBlock(self._scheduler, row)

    async def list(self) -> list[AsyncBlock]:
        """All of them, by name."""
        found = await self._scheduler.store.read(rows.standing_alone)
        return [AsyncBlock(self._scheduler, row) for row in found]


class AsyncAgentBlocks:
    """The blocks an agent holds, by label."""

    def __init__(self, scheduler: Scheduler, agent_id: str) -> None:
        self._scheduler = scheduler
        self._agent_id = agent_id

    async def get(self, label: str) -> AsyncBlock:
        """The block with that label.

        Raises:
            NotFound: the agent holds none.
            InvalidInput: what cannot be a label.
        """
        wanted = checked_label(label)
        row = await self._scheduler.store.read(
            lambda tx: rows.one_of_agent(tx, self._agent_id, wanted)
        )
        if row is None:
            raise NotFound(f"this agent holds no block {label!r}")
        return AsyncBlock(self._scheduler, row)

    async def list(self) -> list[AsyncBlock]:
        """All of them, in the order the model sees them."""
        found = await self._scheduler.store.read(lambda tx: rows.of_agent(tx, self._agent_id))
        return [AsyncBlock(self._scheduler, row) for row in found]

    async def attach(self, block: Block | AsyncBlock, *, label: str | None = None) -> AsyncBlock:
        """Attaches a shared block, or makes one for this agent from a definition.

        Args:
            label: what this agent calls it; default: the block's own label.

        Raises:
            AlreadyExists: the agent holds a block with that label.
            NotFound: the block is of another space, or it or the agent was deleted.
            InvalidInput: what cannot be a block or a label.
        """
        wanted = checked_label(checked_block(block).label if label is None else label)

        def work(tx: Transaction) -> BlockRow:
            agent_rows.require(tx, self._agent_id)
            now = self._scheduler.clock.now()
            return hold(tx, self._agent_id, block, wanted, now)

        return AsyncBlock(self._scheduler, await self._scheduler.store.write(work))

    async def detach(self, label: str) -> None:
        """Takes a block off this agent. One made for it alone is kept, as a block that stands
        alone.

        Raises:
            NotFound: the agent holds none with that label.
            InvalidInput: what cannot be a label.
        """
        wanted = checked_label(label)

        def work(tx: Transaction) -> None:
            row = rows.one_of_agent(tx, self._agent_id, wanted)
            if row is None or rows.detach(tx, self._agent_id, wanted) == 0:
                raise NotFound(f"this agent holds no block {label!r}")
            if row.owner_agent_id == self._agent_id:
                rows.set_owner(tx, row.id, None)

        await self._scheduler.store.write(work)


def hold(
    tx: Transaction, agent_id: str, block: Block | AsyncBlock, label: str, now: datetime
) -> BlockRow:
    """Attaches a stored block, or makes one for the agent.

    Raises:
        AlreadyExists: the agent holds a block with that label.
        NotFound: the stored block is of another space, or was deleted.
    """
    if rows.one_of_agent(tx, agent_id, label) is not None:
        raise AlreadyExists(f"the agent holds a block {label!r} already: detach it first")
    if isinstance(block, AsyncBlock):
        found = rows.by_id(tx, block.id)
        if found is None:
            raise NotFound(f"block {block.label!r} is not in this space")
        row = found
    else:
        row = add_block(tx, block, name=None, owner=agent_id, now=now)
    rows.attach(tx, agent_id, row.id, label)
    held = rows.one_of_agent(tx, agent_id, label)
    assert held is not None, "it was attached a line above"
    return held


def checked_block(block: object) -> Block | AsyncBlock:
    """The block, if it is one.

    Raises:
        InvalidInput: it is neither a definition nor a stored block.
    """
    if not isinstance(block, Block | AsyncBlock):
        raise InvalidInput(f"{block!r} is no block: give a Block, or one that is stored")
    return block


def _defined(block: Block | None, fields: dict[str, Any]) -> Block:
    if block is None:
        return Block(**fields)
    if fields:
        raise InvalidInput("give a Block or its fields, not both")
    if not isinstance(block, Block):
        raise InvalidInput(f"{block!r} is no Block")
    return block


def _named(name: str | None, definition: Block) -> str:
    return definition.label if name is None else checked_name(name, "a block's name")
