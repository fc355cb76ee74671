"""Search by meaning in one space: the query's vector, and what is near to it among those that are
stored.

Whoever searches does not wait for an embedder that is out of order: words still find everything,
and `status` says why. An agent that keeps a note waits a moment, to be told what is near to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pagedaemon.clock import Clock
from pagedaemon.errors import ConfigError, EmbeddingError, InvalidInput
from pagedaemon.llm.embedding.answers import vectors_of
from pagedaemon.llm.embedding.chunking import chunks
from pagedaemon.llm.embedding.protocol import Embedder, WordEmbedder
from pagedaemon.memory import assurance
from pagedaemon.memory.assurance import Doubt
from pagedaemon.memory.embedding import Backlog, Progress
from pagedaemon.memory.repeats import ASKED, Placed
from pagedaemon.memory.sameness import LONGEST
from pagedaemon.memory.search import Near
from pagedaemon.store import vectors
from pagedaemon.store.candidates import Allowed
from pagedaemon.store.database import Database
from pagedaemon.store.index.finder import VectorIndex
from pagedaemon.store.transaction import Transaction
from pagedaemon.store.vectors import EmbeddingStatus

logger = logging.getLogger("pagedaemon")

MOMENT = 1.0
"""Seconds in which a text that is kept has its vectors and what is near to it, or is kept without:
as long as it takes to load the local embedder."""


@dataclass(frozen=True, slots=True)
class SearchStatus:
    """How far search by meaning is in a space."""

    model: str | None
    """The embedding model; None: search is by words alone."""
    stored: int
    """Texts that have their vectors."""
    pending: int
    """Texts that wait for them, and are found by words meanwhile."""
    failed: int
    """Of those: how many have failed, and are tried again."""
    errors: tuple[str, ...]
    """What went wrong last, each once."""
    via: str
    """What answers now: `keywords`, `exact` or `chroma`."""
    earlier: tuple[str, ...] = ()
    """Other models that left vectors here, which are not used. They are removed as soon as every
    text has its vectors of this one; until then search is by words."""


WORDS_ONLY = SearchStatus(None, 0, 0, 0, (), "keywords")


class Meaning:
    """Finds by meaning in one space, and embeds what is stored there. It belongs to one event loop.

    Args:
        store: the space.
        clock: the time.
        embedder: makes the vectors; whoever gives it closes it.
        index: finds among those that are stored; closed with this.
    """

    def __init__(
        self, store: Database, clock: Clock, embedder: Embedder, index: VectorIndex
    ) -> None:
        self._store = store
        self._clock = clock
        self._embedder = embedder
        self._index = index
        self._backlog = Backlog(store, clock, embedder, index)
        self._filled = False

    @property
    def model(self) -> str:
        """The embedder's name, which its vectors carry."""
        return self._embedder.name

    async def open(self) -> None:
        """Looks whether the vectors that are stored are this embedder's, and says so if not; from
        now on what is stored is embedded. Nothing is loaded and nothing is written.

        Raises:
            ConfigError: vectors of this name have another dimension.
        """
        stored = await self._store.read(vectors.models)
        self._require_same_size(dict(stored))
        others = [f"{name} ({size} dimensions)" for name, size in stored if name != self.model]
        if others:
            size = self._embedder.dimension
            logger.warning(
                "%s: vectors here are of %s, and the embedder is now %s (%s dimensions): texts are "
                "embedded anew in the background and found by words meanwhile, and then the old "
                "vectors are removed; reindex() waits for that",
                self._store.space,
                ", ".join(others),
                self.model,
                "unknown" if size is None else size,
            )
            await self._backlog.changeover.look(self._clock.now())
        self._backlog.open()

    def _require_same_size(self, stored: Mapping[str, int]) -> None:
        before, now = stored.get(self.model), self._embedder.dimension
        if before is not None and now is not None and before != now:
            raise ConfigError(
                f"embedding model {self.model!r} has vectors of {before} dimensions in space "
                f"{self._store.space!r} and makes such of {now} now: give it another name, and "
                "the texts are embedded anew"
            )

    async def near(self, words: str, allowed: Allowed, limit: int) -> Near | None:
        """What is near to these words in meaning; None where that cannot be said, and search is by
        words.

        Args:
            allowed: the texts that may be found.
            limit: how many at most.
        """
        if self._backlog.changeover.pending:
            if not self._backlog.out_of_order:
                self._backlog.start()
            return None
        await self._backlog.caught_up()
        if not await self._any_stored():
            return None
        # Of a long query the beginning: it is as much as an embedder reads.
        asked = chunks(words)[:1]
        if not asked or self._backlog.out_of_order:
            return None
        try:
            (vector,) = await vectors_of(self._embedder, asked, "query")
            found = await self._index.search(vector, limit, allowed=allowed)
        except (EmbeddingError, InvalidInput) as error:
            self._backlog.failed(
                f"a query could not be embedded, so search is by words for now: {error}"
            )
            return None
        cosines = {hit.owner_id: hit.score for hit in found.hits}
        if not cosines:
            return None
        # Not part of the protocol: embedders were written before there was one.
        sure = getattr(self._embedder, "sure", None)
        return Near(cosines, found.via, self._embedder.floor, self.model, sure)

    async def read(self, near: Near, doubts: Callable[[Transaction], Doubt | None]) -> Near:
        """The same with what was read closely of what was found, where the embedder can and that is
        in doubt. Where it fails, what is near is judged by its cosines.

        Args:
            doubts: what is in doubt.
        """
        embedder = self._embedder
        if not isinstance(embedder, WordEmbedder):
            return near
        doubt = await self._store.read(doubts)
        if doubt is None:
            return near
        try:
            found = await assurance.read(embedder, doubt)
        except EmbeddingError as error:
            self._backlog.say(f"what was found could not be read closely: {error}")
            return near
        return replace(near, read=found, covered=embedder.covered)

    async def placed(self, text: str, allowed: Allowed) -> Placed | None:
        """A new text's vectors and what is nearest to it; None where that is not known in a moment:
        the embedder is out of order or slow, or being changed, or the text is long. It waits for
        its vectors then as any other, and whoever keeps it does not.

        Args:
            text: as it will be embedded.
            allowed: the texts it is compared with.
        """
        await self._backlog.notice()
        if self._backlog.changeover.pending or self._backlog.out_of_order or len(text) > LONGEST:
            return None
        try:
            async with asyncio.timeout(MOMENT):
                await self._backlog.caught_up()
                pieces = await vectors_of(self._embedder, chunks(text), "document")
                seen, _ = await self._store.read(vectors.changes)
                found = await self._index.search(pieces[0], ASKED, allowed=allowed)
        except (TimeoutError, EmbeddingError, InvalidInput):
            return None  # it will be tried again in the background, and told there
        nearest = tuple(hit.owner_id for hit in found.hits)
        return Placed(self.model, tuple(pieces), nearest, seen)

    async def waiting(self, *, changing: bool = False) -> int:
        """How many texts meaning cannot find yet, because they wait for their vectors.

        Args:
            changing: only where they do because the embedder was changed; else 0.
        """
        if changing:
            await self._backlog.notice()
            if not self._backlog.changeover.pending:
                return 0
        if self._backlog.settled:
            return 0
        now = self._clock.now()
        found = await self._store.read(lambda tx: self._backlog.changeover.waiting(tx, now))
        # Of a change the end is told a moment after the last text: until then search is by words.
        return max(found, 1) if changing else found

    async def _any_stored(self) -> bool:
        if not self._filled:
            found = await self._store.read(lambda tx: vectors.dimension(tx, self.model))
            self._filled = found is not None
        return self._filled

    async def status(self) -> SearchStatus:
        """How far it is."""
        await self._backlog.notice()
        now = self._clock.now()

        def work(tx: Transaction) -> tuple[EmbeddingStatus, int, list[tuple[str, int]]]:
            waiting = self._backlog.changeover.waiting(tx, now)
            return vectors.status(tx, self.model), waiting, vectors.models(tx)

        found, waiting, stored = await self._store.read(work)
        by_meaning = found.stored and not self._backlog.changeover.pending
        via = (await self._index.status()).via if by_meaning else "keywords"
        return SearchStatus(
            self.model,
            found.stored,
            waiting,
            found.failed,
            found.errors,
            via,
            tuple(name for name, _ in stored if name != self.model),
        )

    async def catch_up(self, progress: Progress | None = None) -> SearchStatus:
        """Embeds what waits, also what has failed, and what has no vectors yet; waits for that.
        Where the embedder fails, what is left waits on, and is tried again.

        Raises:
            StoreError: the store failed.
        """
        await self._backlog.catch_up(progress)
        return await self.status()

    async def reindex(self, progress: Progress | None = None) -> SearchStatus:
        """Embeds every text anew, removes vectors of other models, and builds the index anew.

        Raises:
            EmbeddingError: the embedder failed; what is not embedded waits and is tried again.
        """
        await self._backlog.embed_anew(progress)
        await self._index.reindex(
            None
            if progress is None
            else lambda done, total: progress(done, total, "vectors indexed")
        )
        return await self.status()

    async def aclose(self) -> None:
        """Stops, and closes the index. What waits for vectors waits until the space is opened
        again."""
        await self._backlog.aclose()
        await self._index.aclose()
