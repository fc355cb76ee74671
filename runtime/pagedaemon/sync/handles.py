"""Agents and what is theirs, through the blocking door. Each method is the async one of the same
name, awaited on the loop thread, with the same arguments, results and errors."""

from __future__ import annotations

import builtins
from collections.abc import Generator, Iterable, Mapping, Sequence
from datetime import datetime
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from pagedaemon.config import CHUNK_CHARS, IMPORTED, Model, Settings
from pagedaemon.events import Event, Turn
from pagedaemon.handles.agents import AsyncAgent, AsyncAgents
from pagedaemon.handles.archive import AsyncArchive, Passage
from pagedaemon.handles.arguments import UNCHANGED, NotGiven
from pagedaemon.handles.conversation import AsyncConversation, AsyncConversations
from pagedaemon.handles.page import Page
from pagedaemon.handles.recall import AsyncRecall, RecallHit
from pagedaemon.handles.records import Record
from pagedaemon.handles.turns import OpenState
from pagedaemon.messages import Label, Message, Role, Usage
from pagedaemon.sync.approvals import Approvals
from pagedaemon.sync.blocks import AgentBlocks, GivenBlocks, all_given
from pagedaemon.sync.delegate import Handle, Named, blocking
from pagedaemon.sync.door import Door
from pagedaemon.sync.outcomes import Outcomes
from pagedaemon.sync.talking import Talking, TurnHandle
from pagedaemon.sync.timers import Timed
from pagedaemon.tools.tool import Tool

if TYPE_CHECKING:
    from pagedaemon.memory.documents import Document, Loaded, Progress
    from pagedaemon.memory.history import Imported, OnError
    from pagedaemon.memory.markup import Format

T = TypeVar("T")


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
        floor: float | None = None,
        sure: bool = False,
        ranking: str = "default",
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
                floor=floor,
                sure=sure,
                ranking=ranking,
                page=page,
                page_size=page_size,
            )
        )

    def count(self) -> int:
        return self._door.wait(self._inner.count())

    def attachment(self, attachment_id: str) -> bytes | str:
        return self._door.wait(self._inner.attachment(attachment_id))

    def import_jsonl(
        self,
        source: str | PathLike[str] | Iterable[str | Mapping[str, object]],
        *,
        conversation: str = IMPORTED,
        on_error: OnError = "raise",
        encoding: str | None = None,
        progress: Progress | None = None,
    ) -> Imported:
        return self._door.wait(
            self._inner.import_jsonl(
                source,
                conversation=conversation,
                on_error=on_error,
                encoding=encoding,
                progress=progress,
            )
        )

    def import_openai(
        self,
        source: str | PathLike[str],
        *,
        conversation: str | None = None,
        on_error: OnError = "raise",
        encoding: str | None = None,
        progress: Progress | None = None,
    ) -> Imported:
        return self._door.wait(
            self._inner.import_openai(
                source,
                conversation=conversation,
                on_error=on_error,
                encoding=encoding,
                progress=progress,
            )
        )


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
        purposes: Sequence[str] = (),
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
                purposes=purposes,
                happened_at=happened_at,
                expires_at=expires_at,
            )
        )

    def insert_many(self, records: Iterable[Record | str]) -> list[Passage]:
        return self._door.wait(self._inner.insert_many(records))

    def near_repeats(self, text: str, *, tags: Sequence[str] = ()) -> list[Passage]:
        return self._door.wait(self._inner.near_repeats(text, tags=tags))

    def search(
        self,
        query: str | None = None,
        *,
        tags: Sequence[str] = (),
        kinds: Sequence[str] = (),
        purposes: Sequence[str] = (),
        start: datetime | None = None,
        end: datetime | None = None,
        floor: float | None = None,
        sure: bool = False,
        ranking: str = "default",
        refresh: bool = False,
        page: int = 0,
        page_size: int = 10,
    ) -> Page[Passage]:
        return self._door.wait(
            self._inner.search(
                query,
                tags=tags,
                kinds=kinds,
                purposes=purposes,
                start=start,
                end=end,
                floor=floor,
                sure=sure,
                ranking=ranking,
                refresh=refresh,
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

    def load(
        self,
        source: str | PathLike[str],
        *,
        name: str | None = None,
        format: Format = "auto",
        tags: Sequence[str] = (),
        label: Label = "tool",
        chunk_chars: int = CHUNK_CHARS,
        encoding: str | None = None,
        progress: Progress | None = None,
    ) -> Loaded:
        return self._door.wait(
            self._inner.load(
                source,
                name=name,
                format=format,
                tags=tags,
                label=label,
                chunk_chars=chunk_chars,
                encoding=encoding,
                progress=progress,
            )
        )

    def load_text(
        self,
        text: str,
        *,
        name: str,
        format: Format = "auto",
        tags: Sequence[str] = (),
        label: Label = "tool",
        chunk_chars: int = CHUNK_CHARS,
        progress: Progress | None = None,
    ) -> Loaded:
        return self._door.wait(
            self._inner.load_text(
                text,
                name=name,
                format=format,
                tags=tags,
                label=label,
                chunk_chars=chunk_chars,
                progress=progress,
            )
        )

    def documents(self) -> list[Document]:
        return self._door.wait(self._inner.documents())

    def unload(self, name: str) -> int:
        return self._door.wait(self._inner.unload(name))


@blocking(AsyncConversation)
class Conversation(Talking[AsyncConversation]):
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

    def events(self, turn_id: str, *, after: int = 0) -> Generator[Event, None, None]:
        return self._door.iterate(self._inner.events(turn_id, after=after))

    def messages(self) -> list[Message]:
        return self._door.wait(self._inner.messages())

    def summarised(self) -> list[Message]:
        return self._door.wait(self._inner.summarised())

    def turn(self, turn_id: str) -> TurnHandle:
        return TurnHandle(self._door, self._door.wait(self._inner.turn(turn_id)))

    @overload
    def turns(self, *, limit: int = 20, status: Literal["done"] = "done") -> list[Turn]: ...

    @overload
    def turns(self, *, limit: int = 20, status: OpenState) -> list[TurnHandle]: ...

    def turns(
        self, *, limit: int = 20, status: Literal["done"] | OpenState = "done"
    ) -> list[Turn] | list[TurnHandle]:
        if status == "done":
            return self._door.wait(self._inner.turns(limit=limit, status=status))
        found = self._door.wait(self._inner.turns(limit=limit, status=status))
        return [TurnHandle(self._door, one) for one in found]

    def delete(self) -> int:
        return self._door.wait(self._inner.delete())


@blocking(AsyncConversations)
class Conversations(Named[AsyncConversations, Conversation]):
    """An agent's conversations, by name. `conversations[name]` is `get(name)`; iterating gives the
    names."""

    def ensure(self, name: str, *, continue_from: str | None = None) -> Conversation:
        made = self._door.wait(self._inner.ensure(name, continue_from=continue_from))
        return Conversation(self._door, made)

    def get(self, name: str = "main") -> Conversation:
        return Conversation(self._door, self._door.wait(self._inner.get(name)))

    def list(self) -> builtins.list[Conversation]:
        return [Conversation(self._door, one) for one in self._door.wait(self._inner.list())]

    def _name(self, one: Conversation) -> str:
        return one.name


@blocking(AsyncAgent)
class Agent(Talking[AsyncAgent], Timed[AsyncAgent]):
    """An agent: settings, blocks, archive, tools, and one or more conversations."""

    def __init__(self, door: Door, inner: AsyncAgent) -> None:
        super().__init__(door, inner)
        self.blocks = AgentBlocks(door, inner.blocks)
        self.recall = Recall(door, inner.recall)
        self.archive = Archive(door, inner.archive)
        self.approvals = Approvals(door, inner.approvals)
        self.outcomes = Outcomes(door, inner.outcomes)
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

    def usage(self) -> Usage:
        return self._door.wait(self._inner.usage())

    def update(
        self,
        *,
        name: str | None = None,
        model: Model | str | NotGiven | None = UNCHANGED,
        tools: Sequence[Tool] | None = None,
        **settings: Any,
    ) -> Agent:
        self._door.wait(self._inner.update(name=name, model=model, tools=tools, **settings))
        return self

    def delete(self) -> None:
        self._door.wait(self._inner.delete())


@blocking(AsyncAgents)
class Agents(Named[AsyncAgents, Agent]):
    """The agents of a space, by name. `agents[name]` is `get(name)`; iterating gives the names."""

    def create(
        self,
        name: str,
        *,
        blocks: GivenBlocks = (),
        tools: Sequence[Tool] = (),
        model: Model | str | None = None,
        **settings: Any,
    ) -> Agent:
        behind = all_given(blocks)
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
        behind = all_given(blocks)
        return self._held(
            self._door.wait(
                self._inner.ensure(name, blocks=behind, tools=tools, model=model, **settings)
            )
        )

    def get(self, name: str) -> Agent:
        return self._held(self._door.wait(self._inner.get(name)))

    def list(self) -> builtins.list[Agent]:
        return [self._held(agent) for agent in self._door.wait(self._inner.list())]

    def _name(self, one: Agent) -> str:
        return one.name

    def _held(self, agent: AsyncAgent) -> Agent:
        return Agent(self._door, agent)
