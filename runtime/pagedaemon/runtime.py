"""Opens a store, models and tools, and hands out spaces: the async front of everything."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from pagedaemon.agent import AgentRecord
from pagedaemon.clock import Clock, SystemClock
from pagedaemon.config import Model
from pagedaemon.errors import Closed, ConfigError, InvalidInput
from pagedaemon.handles.agents import AsyncAgent, AsyncAgents, live_handles
from pagedaemon.handles.blocks import AsyncSpaceBlocks
from pagedaemon.handles.conversation import AsyncConversation
from pagedaemon.llm.gateway import Connections
from pagedaemon.llm.protocol import ChatModel
from pagedaemon.resources import Prompts
from pagedaemon.scheduler import Scheduler
from pagedaemon.scheduler.bodies import checked_tools
from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.worker import Worker
from pagedaemon.tools.tool import Tool

DEFAULT_SPACE = "default"

_SPACE = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
"""A space's name is also a folder's."""


BlockingView: TypeAlias = Callable[[AsyncAgent, AsyncConversation], tuple[object, object]]


class AsyncSpace:
    """A wall: its agents, blocks and memories are seen from nowhere else."""

    def __init__(self, name: str, scheduler: Scheduler) -> None:
        self.name = name
        self.agents = AsyncAgents(scheduler)
        self.blocks = AsyncSpaceBlocks(scheduler)
        self._scheduler = scheduler

    def __repr__(self) -> str:
        return f"<space {self.name!r}>"

    async def recover(self) -> int:
        """Takes up every turn that a process which is gone left open, and waits for their end.

        Opening a space does the same in the background, but for turns whose agent has no model: it
        leaves those as they are, and here they end as interrupted. Returns how many there were.
        """
        taken_up = await self._scheduler.recover(anyhow=True)
        await asyncio.gather(*(running.settled() for running in taken_up))
        return len(taken_up)


class AsyncRuntime:
    """Agents in your own process, kept in one folder.

    `async with AsyncRuntime("./memory", model="openai/gpt-5-mini") as runtime: …`

    Args:
        store: the folder; made if missing.
        model: the default model of agents that name none.
        models: model objects by a name of your own, for `Model(name)`: a scripted one, or any
            with the methods of `pagedaemon.llm.protocol.ChatModel`.
            Closing the runtime closes those that were asked for.
        tools: Python tools by which agents of earlier runs find their code again.
        prompts: a folder whose files replace shipped ones of `prompts/` by the same relative path.
        clock: the time; tests hold it still.
        recover: whether opening a space takes up turns that a crash left open.

    Raises:
        ConfigError: settings that cannot work.
    """

    def __init__(
        self,
        store: str | Path,
        *,
        model: Model | str | None = None,
        models: Mapping[str, ChatModel] | None = None,
        tools: Sequence[Tool] = (),
        prompts: str | Path | None = None,
        clock: Clock | None = None,
        recover: bool = True,
    ) -> None:
        if "://" in str(store):
            raise ConfigError(
                f"{store!s} is no folder: this release keeps its store in one folder of its own"
            )
        if not isinstance(model, Model | str | None):
            raise ConfigError(
                f"model is a name or a Model, not {type(model).__name__}: give an object of yours "
                'a name, Runtime(model="mine", models={"mine": it})'
            )
        self._folder = Path(store)
        self._model = Model(model) if isinstance(model, str) else model
        self._connections = Connections(models or {})
        self._tools = checked_tools(tools)
        self._prompts = Prompts(None if prompts is None else Path(prompts))
        self._clock: Clock = clock or SystemClock()
        self._recover = recover
        self._spaces: dict[str, AsyncSpace] = {}
        self._schedulers: list[tuple[Scheduler, Database]] = []
        self._opening = asyncio.Lock()
        self._pool: StorePool | None = None
        self._worker: Worker | None = None
        self._closed = False
        self.blocking_view: BlockingView | None = None
        """Set by the blocking door: its own handles for tools that are not async."""

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self) -> Self:
        """Opens the default space. `async with` does it for you.

        Raises:
            StoreError: the folder cannot be used.
        """
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.close)
            await self.space(DEFAULT_SPACE)
            undo.pop_all()
        return self

    async def space(self, name: str) -> AsyncSpace:
        """The space of that name, made if there is none.

        Args:
            name: 1 to 63 of `a-z 0-9 _ -`, beginning with a letter or digit.

        Raises:
            InvalidInput: the name is none.
            StoreTooNew, StorageUnavailable, StorageFull: the store cannot be opened.
            Closed: the runtime was closed.
        """
        if not _SPACE.fullmatch(name):
            raise InvalidInput(
                f"{name!r} cannot name a space: use 1 to 63 of a-z, 0-9, '_' and '-', beginning "
                "with a letter or digit"
            )
        async with self._opening:
            if self._closed:
                raise Closed("this runtime was closed: open a new one")
            if name not in self._spaces:
                self._spaces[name] = await self._opened(name)
            return self._spaces[name]

    async def _opened(self, name: str) -> AsyncSpace:
        if self._pool is None:
            self._pool = StorePool()
        if self._worker is None:
            self._worker = Worker(self._folder / "workers")
        pool = self._pool
        path = self._folder / "spaces" / name / "space.db"
        database = await asyncio.to_thread(Database.open, path, space=name, pool=pool)
        async with AsyncExitStack() as undo:
            undo.push_async_callback(asyncio.to_thread, database.close)
            scheduler = await self._scheduler(database)
            undo.pop_all()
        self._schedulers.append((scheduler, database))
        if self._recover:
            await scheduler.recover(anyhow=False)
        return AsyncSpace(name, scheduler)

    async def _scheduler(self, database: Database) -> Scheduler:
        assert self._worker is not None, "made before any space is opened"
        scheduler = Scheduler(
            database,
            self._worker,
            self._clock,
            self._prompts,
            self._model,
            self._connections,
            self._tools,
            lambda record, conversation_id, is_async: self._live_handles(
                scheduler, record, conversation_id, is_async
            ),
        )
        await scheduler.open()
        return scheduler

    def _live_handles(
        self, scheduler: Scheduler, record: AgentRecord, conversation_id: str, is_async: bool
    ) -> tuple[object, object]:
        """What a tool's context carries: these handles, or what the blocking door makes of them."""
        agent, conversation = live_handles(scheduler, record, conversation_id)
        if is_async or self.blocking_view is None:
            return agent, conversation
        return self.blocking_view(agent, conversation)

    @property
    def agents(self) -> AsyncAgents:
        """The agents of the default space."""
        return self._default().agents

    @property
    def blocks(self) -> AsyncSpaceBlocks:
        """The shared blocks of the default space."""
        return self._default().blocks

    def _default(self) -> AsyncSpace:
        if self._closed:
            raise Closed("this runtime was closed: open a new one")
        if DEFAULT_SPACE not in self._spaces:
            raise Closed("this runtime is not open: use `async with AsyncRuntime(...)`")
        return self._spaces[DEFAULT_SPACE]

    async def close(self) -> None:
        """Stops what runs, waits until that is written, and closes the files. Twice does nothing.

        A message that still waits for its turn stays in the store, and is answered when its space
        is opened again.
        """
        async with self._opening:
            if self._closed:
                return
            self._closed = True
            # Whatever fails, the rest is closed too; in the order opposite to this one.
            async with AsyncExitStack() as stack:
                if self._worker is not None:
                    stack.callback(self._worker.close)
                if self._pool is not None:
                    stack.callback(self._pool.close)
                stack.push_async_callback(self._connections.aclose)
                for scheduler, database in self._schedulers:
                    stack.push_async_callback(asyncio.to_thread, database.close)
                    stack.push_async_callback(scheduler.close)
