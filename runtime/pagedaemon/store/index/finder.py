"""The vector index of one open space and model: who answers a search, and how Chroma is fed.

Exact search answers below a threshold, while Chroma is opened or made anew, wherever Chroma fails,
and where a filter leaves so few that they are quicker compared one by one. What Chroma names is
read from the table again: scores are computed from the stored vectors, and what the table no longer
has is not found. Vectors that Chroma does not have yet are compared exactly and merged, so that
writes are seen at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from pagedaemon.errors import Closed, StoreError
from pagedaemon.store import vectors
from pagedaemon.store.candidates import Allowed
from pagedaemon.store.database import INDEXES, Database
from pagedaemon.store.index.chroma import COMMAND, Chroma, IndexUnusable, Where
from pagedaemon.store.index.exact import (
    Hit,
    Matrix,
    few_allowed,
    keeping,
    ranked,
    require_dimension,
    scan,
)
from pagedaemon.store.index.generations import folder_name, remove
from pagedaemon.store.transaction import AnyRow, Transaction
from pagedaemon.store.vectors import Vector

logger = logging.getLogger(__name__)

IndexMode = Literal["auto", "exact", "chroma"]
Via = Literal["exact", "chroma"]
Progress = Callable[[int, int], None]

THRESHOLD = 20_000
"""Vectors from which on `auto` uses Chroma. Below, comparing them all costs less of CPU (3 ms in
place of 5) and of memory (30 MB in place of a process of 70 and more)."""

FEED = 128
"""Vectors handed over at once: a search waits for no more than these, some 0.1 s."""

_WIDEST = 4_096
"""Names asked of Chroma for one page, at most; then a page that a filter left short is filled by
exact search."""

_PROBES = 8
_SAME = 0.999
_LONGEST_PAUSE = 300.0
_WELL = 60.0


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found.

    Attributes:
        hits: best first, each owner once.
        via: which search answered.
    """

    hits: tuple[Hit, ...]
    via: Via


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """How an index is doing.

    Attributes:
        via: which search answers now.
        stored: vectors in the table.
        waiting: of these, those that Chroma does not have yet; 0 where it is not used.
        trouble: why Chroma does not answer although it should; None where nothing is wrong.
    """

    via: Via
    stored: int
    waiting: int
    trouble: str | None


class VectorIndex:
    """Finds the nearest vectors of one model in one space. Belongs to one event loop.

    Args:
        database: the space's.
        model: whose vectors.
        mode: `auto` uses Chroma from the threshold on, the others force one of both.
        folder: where indexes are kept; default `index` beside the database.
        url: a Chroma server to use in place of a folder, such as `http://localhost:8000`.
        threshold: vectors from which on `auto` uses Chroma.
        pause: seconds until Chroma is tried again after a failure; doubled each time, up to 300.
        command: how Chroma's process is started.
    """

    def __init__(
        self,
        database: Database,
        model: str,
        *,
        mode: IndexMode = "auto",
        folder: Path | None = None,
        url: str | None = None,
        threshold: int = THRESHOLD,
        pause: float = 2.0,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self.model = model
        self.mode: IndexMode = mode
        self._database = database
        self._folder = folder or database.path.parent / INDEXES
        self._kept = self._folder / folder_name(model)
        self._url = url
        self._threshold = threshold
        self._first_pause = pause
        self._command = command
        self._matrix = Matrix(model)
        self._chroma: Chroma | None = None
        self._serving: tuple[Chroma, Matrix] | None = None
        """Chroma, once it is sound, and the vectors it does not have."""
        self._seen = -1
        self._total = 0
        self._trouble: str | None = None
        self._wanted = asyncio.Event()
        self._feeding = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def search(
        self,
        query: Vector,
        k: int,
        *,
        allowed: Allowed | None = None,
    ) -> Found:
        """The nearest texts, by the best of their chunks.

        The page is full if there are as many. Between this search and what the caller does with it
        a text may change or go: read it again under the same conditions.

        Args:
            query: of unit length, by the same model.
            k: how many texts.
            allowed: the messages or passages that may be found; None for all.

        Raises:
            InvalidInput: the query has another dimension than the stored vectors.
            StoreError: the table could not be read.
            Closed: the index was closed.
        """
        self.poke()
        serving = self._serving
        if serving is not None:
            try:
                found = await self._by_chroma(*serving, query, k, allowed)
                # Had it been emptied meanwhile, to be made anew, it would not have failed.
                if self._serving is serving:
                    return found
            except IndexUnusable as error:
                self._lose(serving[0], error)
        matrix = self._matrix
        hits = await self._database.read(lambda tx: matrix.search(tx, query, k, allowed))
        return Found(tuple(hits), "exact")

    def poke(self) -> None:
        """Has the index look, in the background, whether there is something new to take up. Every
        search does; a writer of vectors may.

        Raises:
            Closed: the index was closed.
        """
        if self._closed:
            raise Closed("this index was closed: open the space again")
        if self.mode == "exact":
            return
        self._wanted.set()
        if self._task is None:
            self._task = asyncio.create_task(self._tend())

    async def status(self) -> IndexStatus:
        """Who answers now, and how much there is.

        Raises:
            StoreError: the table could not be read.
        """
        serving = self._serving
        after = 0 if serving is None else serving[0].added

        def count(tx: Transaction) -> tuple[int, int]:
            stored = vectors.count(tx, self.model)
            return stored, vectors.count(tx, self.model, after=after) if serving else 0

        stored, waiting = await self._database.read(count)
        via: Via = "exact" if serving is None else "chroma"
        return IndexStatus(via, stored, waiting, self._trouble)

    async def reindex(self, progress: Progress | None = None) -> int:
        """Makes the index anew from the table while exact search answers, and leaves nothing on the
        disk of what was removed. Returns how many vectors there are.

        Args:
            progress: told how many are done, and how many there are.

        Raises:
            StoreError: the table could not be read, or the index could not be made.
            Closed: the index was closed.
        """
        if self._closed:
            raise Closed("this index was closed: open the space again")
        async with self._feeding:
            self._serving = None
            self._matrix = Matrix(self.model)
            wanted = await self._is_for_chroma()
            if not wanted and progress is not None:
                progress(self._total, self._total)
            # What an index once held must go from the disk even where none is wanted any more.
            if wanted or self._chroma is not None or await asyncio.to_thread(self._kept.exists):
                try:
                    await self._remake(wanted, progress)
                except IndexUnusable as error:
                    await self._give_up(error)
                    raise StoreError(f"The index could not be made anew: {error}") from error
            return self._total

    async def _remake(self, wanted: bool, progress: Progress | None) -> None:
        if self._chroma is None:
            await self._open()
        assert self._chroma is not None
        await asyncio.to_thread(self._chroma.renew)
        if wanted:
            await self._feed(self._chroma, progress)
        else:
            chroma, self._chroma = self._chroma, None
            await asyncio.to_thread(chroma.close)

    async def forget(self, models: Sequence[str]) -> None:
        """Removes what indexes of other models left on the disk, but not from another process that
        has one open, nor from a Chroma server."""
        for model in models:
            folder = self._folder / folder_name(model)
            if folder != self._kept and not await asyncio.to_thread(remove, folder):
                logger.warning("%s, the index of %s, is in use and stays", folder, model)

    async def aclose(self) -> None:
        """Closes the index cleanly, so that it need not be made anew. Twice does nothing."""
        self._closed = True
        self._serving = None
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        chroma, self._chroma = self._chroma, None
        if chroma is not None:
            try:
                await asyncio.to_thread(chroma.close)
            except IndexUnusable as error:
                logger.warning("the vector index was not closed cleanly: %s", error)

    async def _by_chroma(
        self,
        chroma: Chroma,
        waiting: Matrix,
        query: Vector,
        k: int,
        allowed: Allowed | None,
    ) -> Found:
        require_dimension(query, self.model, chroma.where.dimension)

        near = await self._database.read(lambda tx: waiting.search(tx, query, k, allowed))
        first = asked = max(k + k // 4, 16)
        while asked <= max(first, _WIDEST):
            names = await asyncio.to_thread(chroma.search, query, asked)
            check = partial(_checked, model=self.model, names=names, query=query, allowed=allowed)
            best: dict[str, Hit] = {}
            for hit in ranked([*near, *await self._database.read(check)]):
                best.setdefault(hit.owner_id, hit)
            if len(best) >= k or len(names) < asked:
                return Found(tuple(ranked(best.values(), k)), "chroma")
            # Most filters leave enough among the first; only one that did not is asked whether it
            # leaves so few that they are quicker compared one by one.
            if asked == first and allowed is not None:
                few = partial(_among_few, model=self.model, query=query, k=k, allowed=allowed)
                alone = await self._database.read(few)
                if alone is not None:
                    return Found(tuple(alone), "exact")
            asked *= 4
        hits = await self._database.read(
            lambda tx: scan(vectors.portions_of(tx, self.model, allowed), query, k)
        )
        return Found(tuple(hits), "exact")

    async def _tend(self) -> None:
        pause, failed = self._first_pause, 0.0
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                async with self._feeding:
                    await self._catch_up()
                continue
            except IndexUnusable as error:
                await self._give_up(error)
            except StoreError as error:
                # Whoever searches or writes is told by that; here it only is tried again.
                logger.warning("the vector index waits for the store: %s", error)
            # What was well for a while may be tried again soon.
            now = time.monotonic()
            pause = self._first_pause if now - failed > _WELL else min(2 * pause, _LONGEST_PAUSE)
            failed = now + pause
            await asyncio.sleep(pause)
            self._wanted.set()

    async def _catch_up(self) -> None:
        if self._chroma is not None and not self._chroma.alive:
            raise IndexUnusable(self._trouble or "its process has ended")
        last, _ = await self._database.read(vectors.changes)
        if last == self._seen and (self._serving is not None or self._chroma is None):
            return
        if self._chroma is not None or await self._is_for_chroma():
            if self._chroma is None:
                await self._open()
            assert self._chroma is not None
            await self._feed(self._chroma, None)
        self._seen = last

    async def _is_for_chroma(self) -> bool:
        self._total = await self._database.read(lambda tx: vectors.count(tx, self.model))
        if self.mode == "exact" or self._total == 0:
            return False
        return self.mode == "chroma" or self._total >= self._threshold

    async def _open(self) -> None:
        size = await self._database.read(lambda tx: vectors.dimension(tx, self.model))
        store = f"{socket.gethostname()}:{self._database.path.resolve()}:{self._database.space}"
        where = Where(
            folder=self._kept,
            url=self._url,
            name=f"{hashlib.sha256(store.encode()).hexdigest()[:24]}-{self._kept.name}",
            model=self.model,
            dimension=size or 0,
        )
        # Known before it starts: whatever happens from here on, `aclose` reaches its process.
        chroma = self._chroma = Chroma(where, self._command)
        await asyncio.to_thread(chroma.open)
        if not await self._is_sound(chroma):
            logger.info("the vector index of %s is made anew", self._database.path)
            await asyncio.to_thread(chroma.renew)

    async def _is_sound(self, chroma: Chroma) -> bool:
        """Whether an index is of this table: that it has as many vectors as it should have, and
        finds some of them."""

        def compare(tx: Transaction) -> tuple[bool, Sequence[AnyRow]]:
            last, floor = vectors.changes(tx)
            if not floor <= chroma.removed <= last or chroma.added > last:
                return False, ()
            kept = vectors.count(tx, self.model, upto=chroma.added)
            gone = vectors.removed(tx, self.model, after=chroma.removed, upto=last)
            left = sum(seq <= chroma.added for _, _, seq in gone)
            fits = kept <= chroma.count <= kept + left
            return fits, vectors.samples(tx, self.model, upto=chroma.added, count=_PROBES)

        fits, probes = await self._database.read(compare)
        if not fits:
            return False
        import numpy as np

        missed = 0
        for row in probes:
            query = np.frombuffer(row[3], "<f4")
            names = await asyncio.to_thread(chroma.search, query, 4)
            check = partial(_checked, model=self.model, names=names, query=query, allowed=None)
            found = await self._database.read(check)
            missed += not any(hit.score > _SAME for hit in found)
        # An approximate index may miss one of them; one of another table misses all.
        return missed <= len(probes) // 4

    async def _feed(self, chroma: Chroma, progress: Progress | None) -> None:
        """Brings Chroma up to the table, and lets it answer."""
        while True:
            last, floor = await self._database.read(vectors.changes)
            if chroma.removed < floor and chroma.count:
                raise IndexUnusable("it is too old for what was removed to be told")
            await self._feed_added(chroma, last, progress)
            left = partial(vectors.removed, model=self.model, after=chroma.removed, upto=last)
            gone = await self._database.read(left)
            if chroma.removed < last:
                await asyncio.to_thread(chroma.remove, [_name(*row) for row in gone], last)
            if chroma.added == chroma.removed == last:
                break
        if self._serving is None:
            self._serving = chroma, Matrix(self.model, chroma.added)
            self._matrix = Matrix(self.model)
            self._trouble = None
        else:
            await asyncio.to_thread(self._serving[1].forget_upto, chroma.added)

    async def _feed_added(self, chroma: Chroma, last: int, progress: Progress | None) -> None:
        done = 0
        while chroma.added < last:
            rows = await self._database.read(
                lambda tx: vectors.added(tx, self.model, after=chroma.added, upto=last, limit=FEED)
            )
            upto = rows[-1][0] if len(rows) == FEED else last
            names = [_name(row[1], row[2], row[0]) for row in rows]
            await asyncio.to_thread(chroma.add, names, b"".join(row[3] for row in rows), upto)
            done += len(rows)
            if progress is not None:
                progress(done, max(done, self._total))

    def _lose(self, chroma: Chroma, error: IndexUnusable) -> None:
        if self._serving is not None and self._serving[0] is chroma:
            self._serving = None
            self._trouble = str(error)
            logger.warning("the vector index failed, exact search answers: %s", error)
            self._seen = -1
            self._wanted.set()

    async def _give_up(self, error: IndexUnusable) -> None:
        self._serving = None
        self._seen = -1
        if self._trouble is None and not error.busy:
            logger.warning("the vector index failed, exact search answers: %s", error)
        self._trouble = str(error)
        chroma, self._chroma = self._chroma, None
        if chroma is not None:
            await asyncio.to_thread(chroma.kill)


def _name(kind: str, owner: str, seq: int) -> str:
    return f"{kind}:{owner}:{seq}"


def _among_few(
    tx: Transaction, *, model: str, query: Vector, k: int, allowed: Allowed
) -> list[Hit] | None:
    """The best of those a filter leaves, or None where they are many."""
    few = few_allowed(tx, allowed)
    return None if few is None else scan(vectors.of_owners(tx, model, few), query, k)


def _checked(
    tx: Transaction,
    *,
    model: str,
    names: Sequence[str],
    query: Vector,
    allowed: Allowed | None,
) -> list[Hit]:
    """What the table still has of the named vectors, scored by it, under the filter."""
    try:
        seqs = [int(name.rsplit(":", 1)[1]) for name in names]
    except (IndexError, ValueError) as error:
        raise IndexUnusable("it named what it was never given") from error
    there = {_name(row[1], row[2], row[0]): row for row in vectors.by_number(tx, model, seqs)}
    rows = [there[name] for name in dict.fromkeys(names) if name in there]
    hits = scan([rows], query, len(rows)) if rows else []
    if allowed is None:
        return hits
    kept = keeping(tx, allowed, [hit.owner_id for hit in hits])
    return [hit for hit in hits if hit.owner_id in kept]
