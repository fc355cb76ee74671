"""What waits for its vectors in one space, embedded in the background.

What is said and kept is put in the outbox in the transaction that stores it, so that no turn waits
for an embedder. A task embeds what waits there once the space has been quiet for a moment. Where
the embedder fails, words still find everything, and what waits is tried again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from pagedaemon.clock import Clock
from pagedaemon.errors import ConfigError, EmbeddingError, InvalidInput
from pagedaemon.llm.embedding.answers import vectors_of
from pagedaemon.llm.embedding.chunking import chunks
from pagedaemon.llm.embedding.protocol import Embedder
from pagedaemon.memory.changeover import Changeover, Sight
from pagedaemon.memory.recall import speaker
from pagedaemon.messages import Message
from pagedaemon.store import conversations as message_rows
from pagedaemon.store import outbox, vectors
from pagedaemon.store import passages as passage_rows
from pagedaemon.store import recall as queries
from pagedaemon.store.database import Database
from pagedaemon.store.index.finder import VectorIndex
from pagedaemon.store.outbox import Pending
from pagedaemon.store.transaction import Transaction
from pagedaemon.store.vectors import Embedded

if TYPE_CHECKING:
    from pagedaemon.llm.embedding.protocol import Vector

logger = logging.getLogger("pagedaemon")

QUIET = 2.0
"""Seconds without a new text after which those that wait are embedded. Loading an embedder takes
half a second and much memory: not while a program starts, or says one thing after another."""

MANY = 64
"""Texts that are not kept waiting for a quiet moment; also those that are read at once."""

BATCH = 32
"""Chunks that an embedder is given at once."""

PATIENCE = 0.5
"""Seconds that a search waits for the texts before it to be embedded."""

MOST_ATTEMPTS = 8
"""How often a text is tried that the embedder refuses, until its space is opened again."""

ALWAYS = 2**31 - 1

LONGEST_PAUSE = 300.0
"""Seconds between two attempts, at most; the first pause is a second, and each is twice as long as
the one before."""

LISTED = 50_000
"""Texts without vectors that are looked for at once: each look reads all that has them."""

AT_ONCE = 500
"""Texts that are put in the outbox in one transaction."""

Progress: TypeAlias = Callable[[int, int | None, str], None]
"""Told how many are done, of how many (None: not known), and of what."""


class Backlog:
    """Embeds what is stored in one space. It belongs to one event loop.

    Args:
        store: the space.
        clock: the time.
        embedder: makes the vectors.
        index: finds among those that are stored.
    """

    def __init__(
        self, store: Database, clock: Clock, embedder: Embedder, index: VectorIndex
    ) -> None:
        self.changeover = Changeover(store, index)
        """From another embedder to this one."""
        self._store = store
        self._clock = clock
        self._embedder = embedder
        self._index = index
        self._home: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._new = 0
        """Texts that were stored since the last run began."""
        self._look = True
        """Whether there may be texts without vectors that nobody put in the outbox."""
        self._unsettled = True
        """Whether something may wait, be it only what is refused."""
        self._failures = 0
        """How often in a row the embedder was out of order: search is by words until it answers."""
        self._one_at_a_time = asyncio.Lock()
        self._said: str | None = None
        self._closed = False

    def open(self) -> None:
        """From now on what is stored is embedded. Nothing is loaded and nothing is written."""
        self._home = asyncio.get_running_loop()
        self._store.when_queued = self._queued
        self._start_after(QUIET)

    @property
    def out_of_order(self) -> bool:
        """Whether the embedder has failed, and is waited for."""
        return self._failures > 0

    def failed(self, what: str) -> None:
        """The embedder has failed at something else: it is waited for until it answers again."""
        self._failures += 1
        self.say(what)
        self._start_after(self._pause())

    @property
    def settled(self) -> bool:
        """Whether nothing waits, known without asking the store."""
        busy = self._task is not None or self.changeover.displaced
        return not (busy or self._unsettled or self._new or self._failures)

    async def notice(self) -> None:
        """Looks whether another process has changed the embedder over. It costs one small read."""
        now = self._clock.now()
        sight = await self._store.read(lambda tx: self.changeover.sight(tx, now))
        self.changeover.take(sight)
        if sight.lacking and not self.changeover.displaced:
            # The other one has taken texts from the outbox that have no vectors of this model now.
            self._look = self._unsettled = True
            self.start()

    async def caught_up(self) -> None:
        """Waits a moment for what was stored just now, unless the embedder is out of order."""
        if self._new and not self._failures:
            self.start()
        if self._task is not None and not self._failures:
            await asyncio.wait([self._task], timeout=PATIENCE)

    async def catch_up(self, progress: Progress | None = None) -> None:
        """Embeds what waits, also what has failed, and what has no vectors yet; waits for that.

        Raises:
            StoreError: the store failed.
        """
        async with self._one_at_a_time:
            self._failures = 0
            await self.changeover.look(self._clock.now())
            await self._find_missing()
            self.changeover.listed = True
            total = await self._store.read(outbox.waiting)
            if await self._embed_waiting(_counting(progress, total)):
                await self._complete()

    async def embed_anew(self, progress: Progress | None = None) -> None:
        """Embeds every text anew and removes vectors of other models.

        Raises:
            EmbeddingError: the embedder failed; what is not embedded waits and is tried again.
        """
        async with self._one_at_a_time:
            now = self._clock.now()
            await self.changeover.look(now)
            total = await self._store.write(lambda tx: outbox.queue_all(tx, now))
            self.changeover.listed = True
            self._failures = 0
            ended = await self._embed_waiting(_counting(progress, total))
            left = await self._store.read(lambda tx: vectors.status(tx, self._embedder.name))
            # What was stored since, here or by another process, waits as any new text does.
            if left.failed or not ended:
                raise EmbeddingError(
                    f"{left.pending} of {total} texts have no new vectors yet; they wait, and are "
                    f"tried again. {'; '.join(left.errors)}",
                    kind="unavailable",
                )
            await self.changeover.look(now)
            await self._complete()

    async def aclose(self) -> None:
        """Stops. What waits for vectors waits until the space is opened again."""
        self._closed = True
        self._store.when_queued = None
        if self._timer is not None:
            self._timer.cancel()
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _queued(self, count: int) -> None:
        """Called on a store thread."""
        assert self._home is not None, "set when it was opened"
        # The loop may be gone already; then there is nobody to embed.
        with suppress(RuntimeError):
            self._home.call_soon_threadsafe(self._heard, count)

    def _heard(self, count: int) -> None:
        self._new += count
        if self._failures:
            return  # it is tried again in its own time
        if self._new >= MANY:
            self.start()
        else:
            self._start_after(QUIET)

    def _start_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._closed or self._home is None:
            return
        self._timer = self._home.call_later(seconds, self.start)

    def start(self) -> None:
        """Embeds what waits, now, unless that is under way."""
        if self._closed or self._task is not None or self.changeover.displaced:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if task.cancelled() or self._closed:
            return
        error = task.exception()
        if error is not None:
            self._failures += 1
            self.say(f"texts could not be embedded, and wait: {error}")
        if self._failures:
            self._start_after(self._pause())
        elif self._new:
            self._start_after(QUIET)

    def _pause(self) -> float:
        return min(2.0 ** (self._failures - 1), LONGEST_PAUSE)

    async def _run(self) -> None:
        async with self._one_at_a_time:
            if self._look:
                await self._find_missing()
                self._look = False
                self.changeover.listed = True
            if await self._embed_waiting():
                await self._complete()
                self._unsettled = bool(await self._store.read(outbox.waiting))

    async def _complete(self) -> None:
        """Removes the vectors of other models, once no text lacks those of this one."""
        while not await self.changeover.complete(self._clock.now()):
            await self._find_missing()
            if not await self._embed_waiting():
                return

    async def _find_missing(self) -> None:
        """Puts texts without vectors in the outbox: of a store that had no embedder, or another."""
        if (await self._store.read(lambda tx: vectors.status(tx, self._embedder.name))).failed:
            await self._store.write(outbox.retry)
        now = self._clock.now()
        missing = partial(outbox.missing, model=self._embedder.name, now=now, limit=LISTED)
        while found := await self._store.read(missing):
            # One that came to the outbox meanwhile stands there twice, and is embedded once.
            for at in range(0, len(found), AT_ONCE):
                some = found[at : at + AT_ONCE]
                await self._store.write(partial(outbox.enqueue, owners=some, now=now))

    async def _embed_waiting(self, told: Callable[[int], None] | None = None) -> bool:
        """Embeds until nothing waits that was not tried just now, or the embedder is out of order.
        Returns whether it came to the end.

        Args:
            told: called with how many more are done.
        """
        refused: set[int] = set()
        while not (self._closed or self.changeover.displaced):
            self._new = 0
            # While the embedder is out of order no text is given up for failing too often.
            most = ALWAYS if self._failures else MOST_ATTEMPTS
            waiting = [
                one
                for one in await self._store.read(partial(_waiting, most_attempts=most))
                if one.pending.seq not in refused
            ]
            if not waiting:
                self._failures = 0
                return True
            if not await self._embed(waiting, refused):
                return False
            if told is not None:
                told(len(waiting))
        return False

    async def _embed(self, waiting: Sequence[_Waiting], refused: set[int]) -> bool:
        """Embeds and stores a batch, one by one where it is refused as a whole. Returns whether the
        embedder answers."""
        try:
            done = await self._embedded(waiting)
            recovered = self._failures > 0
            now = self._clock.now()
            sight = await self._store.write(lambda tx: self._put(tx, done, recovered, now))
            self.changeover.take(sight)
            if self.changeover.displaced:
                return False
        except (EmbeddingError, InvalidInput, ConfigError) as error:
            lasting = not isinstance(error, EmbeddingError) or error.kind == "refused"
            if lasting and len(waiting) > 1:
                for one in waiting:
                    if not await self._embed([one], refused):
                        return False
                return True
            seqs = [one.pending.seq for one in waiting]
            told = str(error)
            self.say(f"texts could not be embedded, and wait: {told}")
            await self._store.write(lambda tx: outbox.failed(tx, seqs, told))
            refused.update(seqs)
            self._failures += not lasting
            return lasting
        self._failures = 0
        self._said = None
        self._index.poke()
        return True

    def _put(
        self, tx: Transaction, done: Sequence[Embedded], recovered: bool, now: datetime
    ) -> Sight:
        sight = self.changeover.sight(tx, now)
        if sight.by is None:
            vectors.put(tx, self._embedder.name, done)
            if recovered:
                outbox.retry(tx)
        return sight

    async def _embedded(self, waiting: Sequence[_Waiting]) -> list[Embedded]:
        pieces = [chunks(one.text) for one in waiting]
        flat = [piece for some in pieces for piece in some]
        found: list[Vector] = []
        for at in range(0, len(flat), BATCH):
            found += await vectors_of(self._embedder, flat[at : at + BATCH], "document")
        done = []
        for one, some in zip(waiting, pieces, strict=True):
            mine, found = found[: len(some)], found[len(some) :]
            pending = one.pending
            digest = hashlib.sha256(one.text.encode()).hexdigest()
            done.append(Embedded(pending.owner_kind, pending.owner_id, mine, digest, pending.seq))
        return done

    def say(self, what: str) -> None:
        """In the log, once in a row."""
        if what != self._said:
            self._said = what
            logger.warning("%s: %s", self._store.space, what)


def _counting(progress: Progress | None, total: int) -> Callable[[int], None]:
    """Told how many more are done, it tells how many are, of so many. It begins with none."""
    done = 0

    def told(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(min(done, total), total, "texts embedded")

    told(0)
    return told


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A text that waits. An empty one is gone meanwhile."""

    pending: Pending
    text: str


def _waiting(tx: Transaction, *, most_attempts: int) -> list[_Waiting]:
    """The next texts that wait."""
    pending = outbox.pending(tx, MANY, most_attempts=most_attempts)
    said = [one.owner_id for one in pending if one.owner_kind == "message"]
    kept = [one.owner_id for one in pending if one.owner_kind == "passage"]
    texts = passage_rows.searched_texts(tx, kept)
    for message, _ in queries.by_ids(tx, said).values():
        texts[message.id] = message_text(message)
    return [_Waiting(one, texts.get(one.owner_id, "")) for one in pending]


def message_text(message: Message) -> str:
    """What is embedded of a message: "speaker: text". Without the speaker a vector finds much
    less (0.31 of the turns asked for in place of 0.50, on the open LoCoMo conversations)."""
    said = message_rows.searched_text(replace(message, author=None))
    return f"{speaker(message)}: {said}" if said else ""
