"""What a user of the blocking door holds. Each method is the async one of the same name, awaited on
the loop thread, with the same arguments, results and errors."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import datetime
from typing import Any, Generic, TypeAlias, TypeVar

from pagedaemon.agent import Block
from pagedaemon.config import Model, Settings
from pagedaemon.events import ContextReport, Event, Turn
from pagedaemon.handles.agents import AsyncAgent, AsyncAgents
from pagedaemon.handles.blocks import AsyncAgentBlocks, AsyncBlock, AsyncSpaceBlocks, BlockVersion
from pagedaemon.handles.conversation import AsyncConversation, AsyncConversations
from pagedaemon.handles.memory import AsyncArchive, AsyncRecall, Page, Passage, RecallHit
from pagedaemon.messages import Message, Role, Usage
from pagedaemon.sync.door import Door
from pagedaemon.tools.tool import Tool

H = TypeVar("H")
C = TypeVar("C", bound=type)


def blocking(of: type) -> Callable[[C], C]:
    """Class decorator: methods and properties that say nothing of themselves say what the async
    ones of the same name say."""

    def documented(cls: C) -> C:
        for name, member in vars(cls).items():
            if not name.startswith("_") and member.__doc__ is None and hasattr(of, name):
                member.__doc__ = getattr(of, name).__doc__
        return cls

    return documented


class Handle(Generic[H]):
    """A blocking handle over the async one of its kind. Usable from any thread."""

    def __init__(self, door: Door, inner: H) -> None:
        self._door = door
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)


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


def _given(block: Block | StoredBlock) -> Block | AsyncBlock:
    return block._inner if isinstance(block, StoredBlock) else block


@blocking(AsyncSpaceBlocks)
class SpaceBlocks(Handle[AsyncSpaceBlocks]):
    """The blocks of a space that stand alone: what agents share. `blocks[name]` is `get(name)`;
    iterating gives the names."""

    def __getitem__(self, name: str) -> StoredBlock:
        return self.get(name)

    def __contains__(self, name: object) -> bool:
        return any(block.name == name for block in self.list())

    def __iter__(self) -> Iterator[str]:
        return iter([block.name for block in self.list() if block.name is not None])

    def __len__(self) -> int:
        return len(self.list())

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

    def _held(self, block: AsyncBlock) -> StoredBlock:
        return StoredBlock(self._door, block)


@blocking(AsyncAgentBlocks)
class AgentBlocks(Handle[AsyncAgentBlocks]):
    """The blocks an agent holds. `blocks[label]` is `get(label)`; iterating gives the labels, in
    the order the model sees them."""

    def __getitem__(self, label: str) -> StoredBlock:
        return self.get(label)

    def __contains__(self, label: object) -> bool:
        return any(block.label == label for block in self.list())

    def __iter__(self) -> Iterator[str]:
        return iter([block.label for block in self.list()])

    def __len__(self) -> int:
        return len(self.list())

    def get(self, label: str) -> StoredBlock:
        return self._held(self._door.wait(self._inner.get(label)))

    def list(self) -> builtins.list[StoredBlock]:
        return [self._held(block) for block in self._door.wait(self._inner.list())]

    def attach(self, block: Block | StoredBlock, *, label: str | None = None) -> StoredBlock:
        return self._held(self._door.wait(self._inner.attach(_given(block), label=label)))

    def detach(self, label: str) -> None:
        self._door.wait(self._inner.detach(label))

    def _held(self, block: AsyncBlock) -> StoredBlock:
        return StoredBlock(self._door, block)


@blocking(AsyncRecall)
class Recall(Handle[AsyncRecall]):
    """Every message of an agent, in and out of the window."""

    def search(
        self,
        query: str | None = None,
        *,
        roles: Sequence[Role] = (),
        author: str | None = None,
        conversation_id: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        page: int = 0,
        page_size: int = 10,
    ) -> Page[RecallHit]:
        return self._door.wait(
            self._inner.search(
                query,
                roles=roles,
                author=author,
                conversation_id=conversation_id,
                start=start,
                end=end,
                page=page,
                page_size=page_size,
            )
        )

    def count(self) -> int:
        return self._door.wait(self._inner.count())


@blocking(AsyncArchive)
class Archive(Handle[AsyncArchive]):
    """An agent's long-term records."""

    def insert(
        self,
        text: str,
        *,
        kind: str = "semantic",
        tags: Sequence[str] = (),
        importance: float | None = None,
        confidence: float = 1.0,
        source: str | None = None,
        happened_at: datetime | None = None,
        expires_at: datetime | None = None,
    ) -> Passage:
        return self._door.wait(
            self._inner.insert(
                text,
                kind=kind,
                tags=tags,
                importance=importance,
                confidence=confidence,
                source=source,
                happened_at=happened_at,
                expires_at=expires_at,
            )
        )

    def search(
        self,
        query: str | None = None,
        *,
        tags: Sequence[str] = (),
        kinds: Sequence[str] = (),
        start: datetime | None = None,
        end: datetime | None = None,
        page: int = 0,
        page_size: int = 10,
    ) -> Page[Passage]:
        return self._door.wait(
            self._inner.search(
                query,
                tags=tags,
                kinds=kinds,
                start=start,
                end=end,
                page=page,
                page_size=page_size,
            )
        )

    def get(self, passage_id: str) -> Passage:
        return self._door.wait(self._inner.get(passage_id))

    def delete(self, *passage_ids: str) -> int:
        return self._door.wait(self._inner.delete(*passage_ids))

    def count(self) -> int:
        return self._door.wait(self._inner.count())


@blocking(AsyncConversation)
class Conversation(Handle[AsyncConversation]):
    """One queue of messages with an agent. The agent's memory is shared by all of its
    conversations."""

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def agent_id(self) -> str:
        return self._inner.agent_id

    def send(self, text: str, *, author: str | None = None) -> Turn:
        return self._door.wait(self._inner.send(text, author=author))

    def stream(self, text: str, *, author: str | None = None) -> Generator[Event, None, None]:
        return self._door.iterate(self._inner.stream(text, author=author))

    def cancel(self) -> int:
        return self._door.wait(self._inner.cancel())

    def context(self) -> ContextReport:
        return self._door.wait(self._inner.context())

    def messages(self) -> list[Message]:
        return self._door.wait(self._inner.messages())

    def turns(self, *, limit: int = 20) -> list[Turn]:
        return self._door.wait(self._inner.turns(limit=limit))

    def reset(self) -> int:
        return self._door.wait(self._inner.reset())

    def delete(self) -> int:
        return self._door.wait(self._inner.delete())


@blocking(AsyncConversations)
class Conversations(Handle[AsyncConversations]):
    """An agent's conversations, by name."""

    def ensure(self, name: str) -> Conversation:
        return Conversation(self._door, self._door.wait(self._inner.ensure(name)))

    def get(self, name: str = "main") -> Conversation:
        return Conversation(self._door, self._door.wait(self._inner.get(name)))

    def list(self) -> builtins.list[Conversation]:
        return [Conversation(self._door, one) for one in self._door.wait(self._inner.list())]


@blocking(AsyncAgent)
class Agent(Handle[AsyncAgent]):
    """An agent: settings, blocks, archive, tools, and one or more conversations."""

    def __init__(self, door: Door, inner: AsyncAgent) -> None:
        super().__init__(door, inner)
        self.blocks = AgentBlocks(door, inner.blocks)
        self.recall = Recall(door, inner.recall)
        self.archive = Archive(door, inner.archive)
        self.conversations = Conversations(door, inner.conversations)

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def settings(self) -> Settings:
        return self._inner.settings

    @property
    def model(self) -> Model | None:
        return self._inner.model

    @property
    def tools(self) -> tuple[str, ...]:
        return self._inner.tools

    def send(self, text: str, *, author: str | None = None) -> Turn:
        return self._door.wait(self._inner.send(text, author=author))

    def stream(self, text: str, *, author: str | None = None) -> Generator[Event, None, None]:
        return self._door.iterate(self._inner.stream(text, author=author))

    def context(self) -> ContextReport:
        return self._door.wait(self._inner.context())

    def reset(self) -> int:
        return self._door.wait(self._inner.reset())

    def cancel(self) -> int:
        return self._door.wait(self._inner.cancel())

    def usage(self) -> Usage:
        return self._door.wait(self._inner.usage())

    def update(
        self,
        *,
        name: str | None = None,
        model: Model | str | None = None,
        tools: Sequence[Tool] | None = None,
        **settings: Any,
    ) -> Agent:
        self._door.wait(self._inner.update(name=name, model=model, tools=tools, **settings))
        return self

    def delete(self) -> None:
        self._door.wait(self._inner.delete())


@blocking(AsyncAgents)
class Agents(Handle[AsyncAgents]):
    """The agents of a space, by name."""

    def create(
        self,
        name: str,
        *,
        blocks: GivenBlocks = (),
        tools: Sequence[Tool] = (),
        model: Model | str | None = None,
        **settings: Any,
    ) -> Agent:
        given = [_given(block) for block in blocks]
        return self._held(
            self._door.wait(
                self._inner.create(name, blocks=given, tools=tools, model=model, **settings)
            )
        )

    def ensure(
        self,
        name: str,
        *,
        blocks: GivenBlocks = (),
        tools: Sequence[Tool] = (),
        model: Model | str | None = None,
        **settings: Any,
    ) -> Agent:
        given = [_given(block) for block in blocks]
        return self._held(
            self._door.wait(
                self._inner.ensure(name, blocks=given, tools=tools, model=model, **settings)
            )
        )

    def get(self, name: str) -> Agent:
        return self._held(self._door.wait(self._inner.get(name)))

    def list(self) -> builtins.list[Agent]:
        return [self._held(agent) for agent in self._door.wait(self._inner.list())]

    def _held(self, agent: AsyncAgent) -> Agent:
        return Agent(self._door, agent)
