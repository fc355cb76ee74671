"""Opens a store, models and tools, and hands out spaces: the async front of everything."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias, get_args

from pagedaemon.agent import AgentRecord
from pagedaemon.clock import Clock, SystemClock
from pagedaemon.config import LEASE_SECONDS, Embedding, Model
from pagedaemon.errors import Closed, ConfigError, InvalidInput
from pagedaemon.handles.agents import AsyncAgent, AsyncAgents, live_handles
from pagedaemon.handles.approvals import AsyncApprovals
from pagedaemon.handles.arguments import checked_flag, checked_seconds
from pagedaemon.handles.conversation import AsyncConversation
from pagedaemon.handles.definition import checked_code
from pagedaemon.handles.holding import AsyncSpaceBlocks
from pagedaemon.handles.outcomes import AsyncOutcomes
from pagedaemon.llm.embedding.protocol import Embedder
from pagedaemon.llm.protocol import ChatModel
from pagedaemon.messages import checked_text
from pagedaemon.resources import Prompts
from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.worker import Worker
from pagedaemon.tools.tool import Tool

if TYPE_CHECKING:
    from pagedaemon.memory.embedding import Progress
    from pagedaemon.memory.meaning import Meaning, SearchStatus
    from pagedaemon.scheduler import Scheduler
    from pagedaemon.store.checkup import Report
    from pagedaemon.store.index.finder import IndexMode

DEFAULT_SPACE = "default"

_SPACE = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
"""A space's name is also a folder's."""


def checked_space(name: str) -> str:
    """The name of a space.

    Raises:
        InvalidInput: it is none.
    """
    if not _SPACE.fullmatch(checked_text(name, "a space's name", empty=True)):
        raise InvalidInput(
            f"{name!r} cannot name a space: use 1 to 63 of a-z, 0-9, '_' and '-', beginning "
            "with a letter or digit"
        )
    return name


BlockingView: TypeAlias = Callable[[AsyncAgent, AsyncConversation], tuple[object, object]]


class AsyncSpace:
    """A wall: its agents, blocks and memories are seen from nowhere else."""

    def __init__(self, name: str, scheduler: Scheduler) -> None:
        self.name = name
        self.agents = AsyncAgents(scheduler)
        self.blocks = AsyncSpaceBlocks(scheduler)
        self.approvals = AsyncApprovals(scheduler)
        self.outcomes = AsyncOutcomes(scheduler)
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

    async def search_status(self) -> SearchStatus:
        """How far search by meaning is: what has its vectors, what waits for them, what failed.

        Raises:
            StoreError: the store could not be read.
        """
        from pagedaemon.memory.meaning import WORDS_ONLY

        meaning = self._scheduler.meaning
        return WORDS_ONLY if meaning is None else await meaning.status()

    async def catch_up(self, progress: Progress | None = None) -> SearchStatus:
        """Waits until every text of the space that has no vectors yet has them, and can be found by
        its meaning: for a program that stores much and ends. What is stored is embedded in the
        background otherwise, and what a program that ends has left waits for the next that stays
        open for a while. Without an embedder there is nothing to wait for.

        An embedder that fails raises nothing: the status says how many texts wait (`pending`), how
        many have failed, and why (`errors`). They are tried again in the background.

        Args:
            progress: called with how many are done, of how many, and of what.

        Raises:
            StoreError: the store failed.
        """
        from pagedaemon.memory.meaning import WORDS_ONLY

        meaning = self._scheduler.meaning
        return WORDS_ONLY if meaning is None else await meaning.catch_up(progress)

    async def reindex(self, progress: Progress | None = None) -> SearchStatus:
        """Embeds every text of the space anew, removes the vectors of other embedding models, and
        makes the index anew. Search answers meanwhile. Without an embedder there is nothing to do.

        Args:
            progress: called with how many are done, of how many, and of what.

        Raises:
            EmbeddingError: the embedder failed. What has no new vectors yet waits for them, and is
                tried again in the background.
            StoreError: the store failed.
        """
        from pagedaemon.memory.meaning import WORDS_ONLY

        meaning = self._scheduler.meaning
        return WORDS_ONLY if meaning is None else await meaning.reindex(progress)

    async def doctor(self, mend: bool = True) -> Report:
        """Looks for what is wrong in the space, mends what can be, and says what it did: turns left
        open, leases and lock files of processes that are gone, approvals and timers whose time is
        over, indexes that cannot be trusted, rows that belong to nothing, the file itself. What
        needs a model or a tool that is not here is left, and so is what only a person can know,
        such as an unknown outcome. Run again, it finds nothing that it has mended.

        Args:
            mend: False: it only looks. `pagedaemon.handles.checkup.examine` does so without
                opening the store.

        Raises:
            StoreError: the store failed.
        """
        from pagedaemon.handles.checkup import Checkup

        return await Checkup(self._scheduler).report(mend=checked_flag(mend, "mend"))


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
        recover: whether opening a space takes up turns that a crash left open, and from then on
            wakes agents when their timers are due.
        embedder: what makes the vectors of search by meaning. `"auto"`: the local model where its
            packages are installed; `"local"`, `"openai/<model>"` or an `Embedding`; an object with
            the methods of `pagedaemon.llm.embedding.protocol.Embedder`, which closing the runtime
            closes; None: search is by words alone.
        index: what finds the nearest vectors. `"auto"`: exact comparison, from 20,000 vectors in a
            space on Chroma; `"exact"` or `"chroma"`: always that.
        chroma_url: a Chroma server that is used instead of one's own, such as
            `http://localhost:8000`.
        lease_seconds: how long a process that stands still keeps its turns before another one that
            has opened the same folder takes them over: at least 0.1. Renewed while a turn lasts; a
            process that is gone keeps nothing.

    Raises:
        ConfigError: settings that cannot work.
        MissingDependency: the embedder needs a package that is not installed.
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
        from pagedaemon.llm.embedding.gateway import connect_embedder
        from pagedaemon.llm.gateway import Connections

        if not isinstance(model, Model | str | None):
            raise ConfigError(
                f"model is a name or a Model, not {type(model).__name__}: give an object of yours "
                'a name, Runtime(model="mine", models={"mine": it})'
            )
        self._folder = _folder(store, "store")
        self._model = Model(model) if isinstance(model, str) else model
        self._tools = checked_code(tools)
        self._prompts = Prompts(None if prompts is None else _folder(prompts, "prompts"))
        self._connections = Connections(_checked_models(models), self._prompts)
        if self._model is not None:
            self._connections.require(self._model)
        self._clock: Clock = SystemClock() if clock is None else _checked_clock(clock)
        self._recover = checked_flag(recover, "recover", refusal=ConfigError)
        self._lease_seconds = checked_seconds(
            lease_seconds, "lease_seconds", least=0.1, refusal=ConfigError
        )
        self._index = _checked_index(index, chroma_url)
        self._chroma_url = chroma_url
        self._embedder = connect_embedder(_checked_embedder(embedder), self._clock)
        self._spaces: dict[str, AsyncSpace] = {}
        self._schedulers: list[tuple[Scheduler, Meaning | None, Database]] = []
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
        checked_space(name)
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
            self._worker = Worker(self._folder / "workers", self._lease_seconds)
        pool = self._pool
        path = self._folder / "spaces" / name / "space.db"
        database = await asyncio.to_thread(Database.open, path, space=name, pool=pool)
        async with AsyncExitStack() as undo:
            undo.push_async_callback(asyncio.to_thread, database.close)
            meaning = self._meaning(database)
            if meaning is not None:
                undo.push_async_callback(meaning.aclose)
                await meaning.open()
            scheduler = await self._scheduler(database, meaning)
            undo.pop_all()
        self._schedulers.append((scheduler, meaning, database))
        if self._recover:
            await scheduler.recover(anyhow=False)
            await scheduler.timers.open()
            scheduler.watch.open()
        return AsyncSpace(name, scheduler)

    def _meaning(self, database: Database) -> Meaning | None:
        if self._embedder is None:
            return None
        from pagedaemon.memory.meaning import Meaning
        from pagedaemon.store.index.finder import VectorIndex

        index = VectorIndex(database, self._embedder.name, mode=self._index, url=self._chroma_url)
        return Meaning(database, self._clock, self._embedder, index)

    async def _scheduler(self, database: Database, meaning: Meaning | None) -> Scheduler:
        # What runs turns is half of the package: whoever only imports it has no use for that yet.
        from pagedaemon.scheduler import Outfit, Scheduler

        assert self._worker is not None, "made before any space is opened"
        scheduler = Scheduler(
            database,
            self._worker,
            self._clock,
            Outfit(self._prompts, self._model, self._connections, self._tools, meaning),
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
    def folder(self) -> Path:
        """The folder that holds the store, as it was given."""
        return self._folder

    @property
    def agents(self) -> AsyncAgents:
        """The agents of the default space."""
        return self._default().agents

    @property
    def blocks(self) -> AsyncSpaceBlocks:
        """The shared blocks of the default space."""
        return self._default().blocks

    @property
    def approvals(self) -> AsyncApprovals:
        """The calls of the default space that wait for a person."""
        return self._default().approvals

    @property
    def outcomes(self) -> AsyncOutcomes:
        """The calls of the default space whose outcome is unknown."""
        return self._default().outcomes

    async def search_status(self) -> SearchStatus:
        """How far search by meaning is in the default space: see `AsyncSpace.search_status`."""
        return await self._default().search_status()

    async def catch_up(self, progress: Progress | None = None) -> SearchStatus:
        """Waits for the vectors of the default space: see `AsyncSpace.catch_up`."""
        return await self._default().catch_up(progress)

    async def reindex(self, progress: Progress | None = None) -> SearchStatus:
        """Makes the default space's vectors and index anew: see `AsyncSpace.reindex`."""
        return await self._default().reindex(progress)

    async def doctor(self, mend: bool = True) -> Report:
        """Looks for what is wrong in the default space, and mends it: see `AsyncSpace.doctor`."""
        return await self._default().doctor(mend)

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
                if self._embedder is not None:
                    stack.push_async_callback(self._embedder.aclose)
                for scheduler, meaning, database in self._schedulers:
                    stack.push_async_callback(asyncio.to_thread, database.close)
                    if meaning is not None:
                        stack.push_async_callback(meaning.aclose)
                    stack.push_async_callback(scheduler.close)


def _folder(given: object, what: str) -> Path:
    if not isinstance(given, str | Path):
        raise ConfigError(
            f'{what} is the path of a folder, such as "./memory", not {type(given).__name__}'
        )
    text = str(given)
    if not text.strip() or "\x00" in text:
        raise ConfigError(f'{what} is the path of a folder, such as "./memory", not {text!r}')
    if "://" in text:
        raise ConfigError(
            f"{text} is no folder: this release keeps its store in one folder of its own"
        )
    return Path(given)


_MODEL_METHODS = ("complete", "stream", "aclose")


def _checked_models(models: object) -> Mapping[str, ChatModel]:
    if models is None:
        return {}
    if not isinstance(models, Mapping):
        raise ConfigError(
            f"models gives each model object a name, models={{'mine': it}}; it is no "
            f"{type(models).__name__}"
        )
    for name, model in models.items():
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(f"models: {name!r} cannot name a model: give it a text")
        missing = [one for one in _MODEL_METHODS if not callable(getattr(model, one, None))]
        if isinstance(model, type) or missing:
            raise ConfigError(
                f"models: {name!r} is no model object but {model!r:.80}; it needs the methods "
                f"{', '.join(_MODEL_METHODS)} of pagedaemon.llm.protocol.ChatModel. Settings of a "
                "hosted or local model go into model=Model(...)"
            )
    return models


def _checked_index(index: IndexMode, chroma_url: object) -> IndexMode:
    from pagedaemon.store.index.finder import IndexMode

    if index not in get_args(IndexMode):
        raise ConfigError(f"index is one of {', '.join(get_args(IndexMode))}, not {index!r}")
    if chroma_url is None:
        return index
    if not isinstance(chroma_url, str) or not chroma_url.startswith(("http://", "https://")):
        raise ConfigError(
            f"chroma_url is the address of a server, such as http://localhost:8000, not "
            f"{chroma_url!r:.80}"
        )
    if index == "exact":
        raise ConfigError("chroma_url names a server that index='exact' never asks: leave out one")
    return index


def _checked_embedder(embedder: object) -> Embedding | str | Embedder | None:
    if isinstance(embedder, type) or not isinstance(embedder, Embedding | str | Embedder | None):
        raise ConfigError(
            f"embedder is 'auto', 'local', 'openai/<model>', an Embedding(...), None, or an object "
            "with name, dimension, floor, embed and aclose as "
            f"pagedaemon.llm.embedding.protocol.Embedder has them, not {embedder!r:.80}"
        )
    return embedder


def _checked_clock(clock: Clock) -> Clock:
    if isinstance(clock, type) or not all(
        callable(getattr(clock, one, None)) for one in ("now", "monotonic")
    ):
        raise ConfigError(
            f"clock is an object with now() and monotonic(), such as "
            f"pagedaemon.testing.FakeClock(), not {clock!r:.80}"
        )
    return clock
