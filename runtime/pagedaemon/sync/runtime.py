"""The blocking runtime and its spaces."""

from __future__ import annotations

import weakref
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pagedaemon.clock import Clock
from pagedaemon.config import LEASE_SECONDS, Embedding, Model
from pagedaemon.errors import Closed, ConfigError
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.handles.conversation import AsyncConversation
from pagedaemon.llm.embedding.protocol import Embedder
from pagedaemon.llm.protocol import ChatModel
from pagedaemon.runtime import AsyncRuntime, AsyncSpace
from pagedaemon.sync.approvals import Approvals
from pagedaemon.sync.blocks import SpaceBlocks
from pagedaemon.sync.delegate import Handle, blocking
from pagedaemon.sync.door import CLOSED, Door
from pagedaemon.sync.handles import Agent, Agents, Conversation
from pagedaemon.sync.outcomes import Outcomes
from pagedaemon.tools.tool import Tool

if TYPE_CHECKING:
    from pagedaemon.memory.embedding import Progress
    from pagedaemon.memory.meaning import SearchStatus
    from pagedaemon.store.checkup import Report
    from pagedaemon.store.index.finder import IndexMode


_refusal: ContextVar[str | None] = ContextVar("_refusal", default=None)
"""Why no runtime may be opened here."""


@contextmanager
def none_opened(refusal: str) -> Iterator[None]:
    """Within it, making a `Runtime` raises a ConfigError that says so, before anything is opened:
    for code that must not have begun with a store when it turns out that it has one."""
    token = _refusal.set(refusal)
    try:
        yield
    finally:
        _refusal.reset(token)


@blocking(AsyncSpace)
class Space(Handle[AsyncSpace]):
    """A wall: its agents, blocks and memories are seen from nowhere else."""

    def __init__(self, door: Door, inner: AsyncSpace) -> None:
        super().__init__(door, inner)
        self.name = inner.name
        self.agents = Agents(door, inner.agents)
        self.blocks = SpaceBlocks(door, inner.blocks)
        self.approvals = Approvals(door, inner.approvals)
        self.outcomes = Outcomes(door, inner.outcomes)

    def recover(self) -> int:
        return self._door.wait(self._inner.recover())

    def search_status(self) -> SearchStatus:
        return self._door.wait(self._inner.search_status())

    def catch_up(self, progress: Progress | None = None) -> SearchStatus:
        return self._door.wait(self._inner.catch_up(progress))

    def reindex(self, progress: Progress | None = None) -> SearchStatus:
        return self._door.wait(self._inner.reindex(progress))

    def doctor(self, mend: bool = True) -> Report:
        return self._door.wait(self._inner.doctor(mend))


@blocking(AsyncRuntime)
class Runtime:
    """Agents in your own process, kept in one folder: `AsyncRuntime` for programs that do not
    await.

    `with Runtime("./memory", model="openai/gpt-5-mini") as runtime: …`, or without `with`: it is
    open from the start, and is closed when the program ends or nothing holds it any more. It has an
    event loop in a thread of its own, so it also works where one is running already, as in a
    notebook, and from many threads at once. A tool that is no `async def` is handed blocking
    handles in its `ToolContext`, one that is gets the async ones.

    Args:
        store: the folder; made if missing.
        model: the default model of agents that name none.
        models: model objects by a name of your own, for `Model(name)`: a scripted one, or any
            with the methods of `pagedaemon.llm.protocol.ChatModel`.
        tools: Python tools by which agents of earlier runs find their code again.
        prompts: a folder whose files replace shipped ones of `prompts/` by the same relative path.
        clock: the time; tests hold it still.
        recover: whether opening a space takes up turns that a crash left open.
        embedder: what makes the vectors of search by meaning. `"auto"`: the local model where its
            packages are installed; `"local"`, `"openai/<model>"` or an `Embedding`; an object with
            the methods of `pagedaemon.llm.embedding.protocol.Embedder`; None: search is by words
            alone.
        index: what finds the nearest vectors. `"auto"`: exact comparison, from 20,000 vectors in a
            space on Chroma; `"exact"` or `"chroma"`: always that.
        chroma_url: a Chroma server that is used instead of one's own, such as
            `http://localhost:8000`.
        lease_seconds: how long a process that stands still keeps its turns before another one that
            has opened the same folder takes them over: at least 0.1.

    Raises:
        ConfigError: settings that cannot work.
        MissingDependency: the embedder needs a package that is not installed.
        StoreError: the folder cannot be used.
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
        embedder: Embedding | str | Embedder | None = "auto",
        index: IndexMode = "auto",
        chroma_url: str | None = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        refusal = _refusal.get()
        if refusal is not None:
            raise ConfigError(refusal)
        self._inner = AsyncRuntime(
            store,
            model=model,
            models=models,
            tools=tools,
            prompts=prompts,
            clock=clock,
            recover=recover,
            embedder=embedder,
            index=index,
            chroma_url=chroma_url,
            lease_seconds=lease_seconds,
        )
        self._door = Door(self._inner)
        # Weak: the async runtime must not hold what closes it when it is forgotten.
        door = weakref.ref(self._door)
        self._inner.blocking_view = lambda agent, conversation: _view(door, agent, conversation)
        opened = False
        try:
            self._door.wait(self._open())
            opened = True
        finally:
            if not opened:
                self._door.close()

    def _open(self) -> Coroutine[Any, Any, object]:
        """What opening it is: with its default space."""
        return self._inner.open()

    def __enter__(self) -> Self:
        self._door.require_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def space(self, name: str) -> Space:
        return Space(self._door, self._door.wait(self._inner.space(name)))

    @property
    def folder(self) -> Path:
        return self._inner.folder

    @property
    def agents(self) -> Agents:
        return Agents(self._door, self._inner.agents)

    @property
    def blocks(self) -> SpaceBlocks:
        return SpaceBlocks(self._door, self._inner.blocks)

    @property
    def approvals(self) -> Approvals:
        return Approvals(self._door, self._inner.approvals)

    @property
    def outcomes(self) -> Outcomes:
        return Outcomes(self._door, self._inner.outcomes)

    def search_status(self) -> SearchStatus:
        return self._door.wait(self._inner.search_status())

    def catch_up(self, progress: Progress | None = None) -> SearchStatus:
        return self._door.wait(self._inner.catch_up(progress))

    def reindex(self, progress: Progress | None = None) -> SearchStatus:
        return self._door.wait(self._inner.reindex(progress))

    def doctor(self, mend: bool = True) -> Report:
        return self._door.wait(self._inner.doctor(mend))

    def close(self) -> None:
        self._door.close()


def _view(
    door: weakref.ref[Door], agent: AsyncAgent, conversation: AsyncConversation
) -> tuple[Agent, Conversation]:
    """The blocking handles of a tool that runs in a thread."""
    held = door()
    if held is None:
        raise Closed(CLOSED)
    return Agent(held, agent), Conversation(held, conversation)
