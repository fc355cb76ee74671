"""Who holds which block: the blocks that stand alone in a space, and those of an agent."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import IntegrityError

from pagedaemon.agent import Block, checked_label, checked_name
from pagedaemon.errors import AlreadyExists, InvalidInput, NotFound
from pagedaemon.handles.arguments import checked_whole
from pagedaemon.handles.blocks import OWNER, AsyncBlock
from pagedaemon.memory import blocks as core
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import blocks as rows
from pagedaemon.store.blocks import BlockRow
from pagedaemon.store.transaction import Transaction

if TYPE_CHECKING:
    from pagedaemon.scheduler import Scheduler


def add_block(
    tx: Transaction, block: Block, *, name: str | None, owner: str | None, now: datetime
) -> BlockRow:
    """A new block from its definition, through the one check that every write passes.

    Raises:
        AlreadyExists: the name is taken.
        EditRefused: the value is over the limit.
        InvalidInput: no store can hold the limit.
    """
    checked_whole(block.limit, f"the limit of block {block.label!r}")
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
        """The block of that name, made if there is none. What is there is never overwritten.

        Raises:
            InvalidInput: a field, or the name, that cannot be.
            EditRefused: the value is over the limit.
        """
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
        """All of them, by name. A block without a name is found with the agents that hold it."""
        found = await self._scheduler.store.read(rows.standing_alone)
        return [AsyncBlock(self._scheduler, row) for row in found if row.name is not None]


class AsyncAgentBlocks:
    """The blocks an agent holds, by label."""

    def __init__(self, scheduler: Scheduler, agent_id: str) -> None:
        self._scheduler = scheduler
        self._agent_id = agent_id

    async def get(self, label: str) -> AsyncBlock:
        """The block with that label.

        Raises:
            NotFound: the agent holds none, or was deleted.
            InvalidInput: what cannot be a label.
        """
        wanted = checked_label(label)
        row = await self._scheduler.store.read(lambda tx: self._held(tx, wanted))
        return AsyncBlock(self._scheduler, row)

    async def list(self) -> list[AsyncBlock]:
        """All of them, in the order the model sees them.

        Raises:
            NotFound: the agent was deleted.
        """

        def work(tx: Transaction) -> tuple[BlockRow, ...]:
            found = rows.of_agent(tx, self._agent_id)
            if not found:
                agent_rows.require(tx, self._agent_id)
            return found

        found = await self._scheduler.store.read(work)
        return [AsyncBlock(self._scheduler, row) for row in found]

    async def attach(self, block: Block | AsyncBlock, *, label: str | None = None) -> AsyncBlock:
        """Attaches a shared block, or makes one for this agent from a definition.

        Args:
            label: what this agent calls it; default: the block's own label.

        Raises:
            AlreadyExists: the agent holds a block with that label, or this one under another.
            NotFound: the block is of another space, or it or the agent was deleted.
            InvalidInput: what cannot be a block or a label.
        """
        wanted = checked_label(checked_block(block).label if label is None else label)

        def work(tx: Transaction) -> BlockRow:
            agent_rows.require(tx, self._agent_id)
            now = self._scheduler.clock.now()
            return hold(tx, self._agent_id, block, wanted, now)

        return AsyncBlock(self._scheduler, await self._scheduler.store.write(work))

    async def detach(self, block: str | AsyncBlock) -> None:
        """Takes a block off this agent.

        A block that stands alone, one with a name, stays in its space. One without, made for an
        agent, goes with the last agent that holds it: it is deleted with its history, as it would
        be with the agent. To keep it, attach it to another agent first.

        Args:
            block: the label that this agent has for it, or the stored block, whatever it is called
                here.

        Raises:
            NotFound: the agent holds none with that label, or not this one, or was deleted.
            InvalidInput: what cannot be a label.
        """
        wanted = block if isinstance(block, AsyncBlock) else checked_label(block)

        def work(tx: Transaction) -> None:
            label = wanted if isinstance(wanted, str) else self._label_of(tx, wanted)
            row = self._held(tx, label)
            if held_only_by(tx, row, self._agent_id):
                rows.remove(tx, [row.id])
                return
            rows.detach(tx, self._agent_id, label)
            if row.owner_agent_id == self._agent_id:
                rows.set_owner(tx, row.id, None)

        await self._scheduler.store.write(work)

    def _label_of(self, tx: Transaction, block: AsyncBlock) -> str:
        label = held_as(tx, self._agent_id, block)
        if label is None:
            agent_rows.require(tx, self._agent_id)
            raise NotFound(f"this agent does not hold the block {block.label!r}")
        return label

    def _held(self, tx: Transaction, label: str) -> BlockRow:
        row = rows.one_of_agent(tx, self._agent_id, label)
        if row is None:
            agent_rows.require(tx, self._agent_id)
            raise NotFound(f"this agent holds no block {label!r}")
        return row


def held_only_by(tx: Transaction, row: BlockRow, agent_id: str) -> bool:
    """Whether nobody would find a block again once this agent lets go of it."""
    return row.name is None and set(rows.holders(tx, row.id)) == {agent_id}


def hold(
    tx: Transaction, agent_id: str, block: Block | AsyncBlock, label: str, now: datetime
) -> BlockRow:
    """Attaches a stored block, or makes one for the agent.

    Raises:
        AlreadyExists: the agent holds a block with that label, or this one under another.
        NotFound: the stored block is of another space, or was deleted.
    """
    if rows.one_of_agent(tx, agent_id, label) is not None:
        raise AlreadyExists(f"the agent holds a block {label!r} already: detach it first")
    if isinstance(block, AsyncBlock):
        if (as_label := held_as(tx, agent_id, block)) is not None:
            raise AlreadyExists(f"the agent holds this block already, as {as_label!r}")
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


def held_as(tx: Transaction, agent_id: str, block: AsyncBlock) -> str | None:
    """The label under which an agent holds a stored block."""
    return next((row.label for row in rows.of_agent(tx, agent_id) if row.id == block.id), None)


def checked_block(block: object) -> Block | AsyncBlock:
    """The block, if it is one.

    Raises:
        InvalidInput: it is neither a definition nor a stored block.
    """
    if not isinstance(block, Block | AsyncBlock):
        raise InvalidInput(f"{block!r:.200} is no block: give a Block, or one that is stored")
    return block


def _defined(block: Block | None, fields: dict[str, Any]) -> Block:
    if block is None:
        return Block(**fields)
    if fields:
        raise InvalidInput("give a Block or its fields, not both")
    if not isinstance(block, Block):
        raise InvalidInput(f"{block!r:.200} is no Block: give one, or its fields by name")
    return block


def _named(name: str | None, definition: Block) -> str:
    return definition.label if name is None else checked_name(name, "a block's name")
