"""Agents and what is theirs, through the blocking door. Each method is the async one of the same
name, awaited on the loop thread, with the same arguments, results and errors."""

from __future__ import annotations

import builtins
from collections.abc import Generator, Sequence
from datetime import datetime
from typing import Any

from pagedaemon.config import Model, Settings
from pagedaemon.events import ContextReport, Event, Turn
from pagedaemon.handles.agents import AsyncAgent, AsyncAgents
from pagedaemon.handles.conversation import AsyncConversation, AsyncConversations
from pagedaemon.handles.memory import AsyncArchive, AsyncRecall, Page, Passage, RecallHit
from pagedaemon.messages import Message, Role, Usage
from pagedaemon.sync.blocks import AgentBlocks, GivenBlocks, given
from pagedaemon.sync.delegate import Handle, blocking
from pagedaemon.sync.door import Door
from pagedaemon.tools.tool import Tool


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
        behind = [given(block) for block in blocks]
        return self._held(
            self._door.wait(
                self._inner.create(name, blocks=behind, tools=tools, model=model, **settings)
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
        behind = [given(block) for block in blocks]
        return self._held(
            self._door.wait(
                self._inner.ensure(name, blocks=behind, tools=tools, model=model, **settings)
            )
        )

    def get(self, name: str) -> Agent:
        return self._held(self._door.wait(self._inner.get(name)))

    def list(self) -> builtins.list[Agent]:
        return [self._held(agent) for agent in self._door.wait(self._inner.list())]

    def _held(self, agent: AsyncAgent) -> Agent:
        return Agent(self._door, agent)
