"""Core memory through the blocking door: a block, the blocks of a space, those of an agent."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, TypeAlias

from pagedaemon.agent import Block
from pagedaemon.handles.arguments import checked_many
from pagedaemon.handles.blocks import AsyncBlock, BlockVersion
from pagedaemon.handles.holding import AsyncAgentBlocks, AsyncSpaceBlocks
from pagedaemon.sync.delegate import Handle, Named, blocking


@blocking(AsyncBlock)
class StoredBlock(Handle[AsyncBlock]):
    """A stored block. Its `value` is read anew each time; its other fields are as of the last
    read.

    `rewrite` writes over the value that this handle has read last, so threads that rewrite a block
    each need a handle of their own.
    """

    @property
    def value(self) -> str:
        """Its text, as it is now.

        Raises:
            NotFound: the block was deleted.
        """
        return self._door.wait(self._inner.refresh()).value

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def label(self) -> str:
        return self._inner.label

    @property
    def name(self) -> str | None:
        return self._inner.name

    @property
    def description(self) -> str:
        return self._inner.description

    @property
    def limit(self) -> int:
        return self._inner.limit

    @property
    def read_only(self) -> bool:
        return self._inner.read_only

    @property
    def version(self) -> int:
        return self._inner.version

    def refresh(self) -> StoredBlock:
        self._door.wait(self._inner.refresh())
        return self

    def append(self, text: str) -> StoredBlock:
        self._door.wait(self._inner.append(text))
        return self

    def insert(self, text: str, line: int = -1) -> StoredBlock:
        self._door.wait(self._inner.insert(text, line))
        return self

    def replace(self, old: str, new: str) -> StoredBlock:
        self._door.wait(self._inner.replace(old, new))
        return self

    def rewrite(self, value: str) -> StoredBlock:
        self._door.wait(self._inner.rewrite(value))
        return self

    def restore(self, version: int) -> StoredBlock:
        self._door.wait(self._inner.restore(version))
        return self

    def update(
        self,
        *,
        description: str | None = None,
        limit: int | None = None,
        read_only: bool | None = None,
    ) -> StoredBlock:
        self._door.wait(
            self._inner.update(description=description, limit=limit, read_only=read_only)
        )
        return self

    def history(self) -> list[BlockVersion]:
        return self._door.wait(self._inner.history())

    def diff(self, before: int, after: int | None = None) -> str:
        return self._door.wait(self._inner.diff(before, after))

    def delete(self) -> None:
        self._door.wait(self._inner.delete())


GivenBlocks: TypeAlias = Sequence[Block | StoredBlock]


def given(block: Block | StoredBlock) -> Block | AsyncBlock:
    """What the async door takes in its place."""
    return block._inner if isinstance(block, StoredBlock) else block


def all_given(blocks: GivenBlocks) -> list[Block | AsyncBlock]:
    """As `given`, of each.

    Raises:
        InvalidInput: one block in place of a list.
    """
    return [given(block) for block in checked_many(blocks, "blocks", "blocks=[Block.human(...)]")]


@blocking(AsyncSpaceBlocks)
class SpaceBlocks(Named[AsyncSpaceBlocks, StoredBlock]):
    """The blocks of a space that stand alone: what agents share. `blocks[name]` is `get(name)`;
    iterating gives the names."""

    def create(
        self, block: Block | None = None, *, name: str | None = None, **fields: Any
    ) -> StoredBlock:
        return self._held(self._door.wait(self._inner.create(block, name=name, **fields)))

    def ensure(
        self, block: Block | None = None, *, name: str | None = None, **fields: Any
    ) -> StoredBlock:
        return self._held(self._door.wait(self._inner.ensure(block, name=name, **fields)))

    def get(self, name: str) -> StoredBlock:
        return self._held(self._door.wait(self._inner.get(name)))

    def list(self) -> builtins.list[StoredBlock]:
        return [self._held(block) for block in self._door.wait(self._inner.list())]

    def _name(self, one: StoredBlock) -> str:
        return one.name or one.id

    def _held(self, block: AsyncBlock) -> StoredBlock:
        return StoredBlock(self._door, block)


@blocking(AsyncAgentBlocks)
class AgentBlocks(Named[AsyncAgentBlocks, StoredBlock]):
    """The blocks an agent holds. `blocks[label]` is `get(label)`; iterating gives the labels, in
    the order the model sees them."""

    def get(self, label: str) -> StoredBlock:
        return self._held(self._door.wait(self._inner.get(label)))

    def list(self) -> builtins.list[StoredBlock]:
        return [self._held(block) for block in self._door.wait(self._inner.list())]

    def attach(self, block: Block | StoredBlock, *, label: str | None = None) -> StoredBlock:
        return self._held(self._door.wait(self._inner.attach(given(block), label=label)))

    def detach(self, block: str | StoredBlock) -> None:
        inner = block._inner if isinstance(block, StoredBlock) else block
        self._door.wait(self._inner.detach(inner))

    def _name(self, one: StoredBlock) -> str:
        return one.label

    def _held(self, block: AsyncBlock) -> StoredBlock:
        return StoredBlock(self._door, block)
