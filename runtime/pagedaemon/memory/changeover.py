"""The way from one embedding model to another, in a space that is in use.

Vectors of two models cannot be compared, and those of the former one cannot be asked once its
embedder is gone. So until every text has come to the new one, search is by words: what is near
among the few that have is not what is near. Only then do the former vectors go, in small bites and
with their index on the disk; whoever turns back before finds them as they were.

Two processes may have different embedders. The vectors that stay are those of the process that was
opened last, or asked to embed anew. The other one sees that most of its own are gone, searches by
words, and embeds nothing more by itself: else each would remove what the other made, for ever.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from pagedaemon.store import outbox, vectors
from pagedaemon.store.database import Database
from pagedaemon.store.index.finder import VectorIndex
from pagedaemon.store.transaction import Transaction

logger = logging.getLogger("pagedaemon")

AT_ONCE = 500
"""Vectors that go in one transaction, so that others write in between."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What a look at a space's vectors has shown.

    Attributes:
        change: the number of the newest change of any vector.
        lacking: texts lack vectors of this model, and there are some of another that came later.
        by: the model that has more than this one then; None where none has.
    """

    change: int
    lacking: bool = False
    by: str | None = None


class Changeover:
    """Whether a space still has vectors of other models, and whether its own are whole.

    Attributes:
        earlier: other models that left vectors here, with their dimensions.
        pending: texts lack vectors of this model while they had some of another: search by meaning
            would be wrong.
        listed: what lacks them stands in the outbox.
        displaced: another process has changed the embedder over, so that nothing is embedded here.
    """

    def __init__(self, store: Database, index: VectorIndex) -> None:
        self._store = store
        self._index = index
        self.earlier: tuple[tuple[str, int], ...] = ()
        self.pending = False
        self.listed = False
        self.displaced = False
        self._change = -1

    async def look(self, now: datetime) -> None:
        """Finds out, and takes the vectors of other models for former ones. Nothing is written."""

        def work(tx: Transaction) -> tuple[list[tuple[str, int]], bool]:
            others = [one for one in vectors.models(tx) if one[0] != self._index.model]
            return others, bool(others) and outbox.lacking(tx, self._index.model, now)

        others, self.pending = await self._store.read(work)
        self.earlier = tuple(others)
        self.displaced = False

    def sight(self, tx: Transaction, now: datetime) -> Sight:
        """What there is to notice of other processes: one small read where nothing has changed."""
        change, _ = vectors.changes(tx)
        former = {self._index.model, *(name for name, _ in self.earlier)}
        if change == self._change or self.displaced:
            return Sight(change)
        later = [name for name, _ in vectors.models(tx) if name not in former]
        if not later or not outbox.lacking(tx, self._index.model, now):
            return Sight(change)
        mine = vectors.count(tx, self._index.model)
        counts = {name: vectors.count(tx, name) for name in later}
        most = max(later, key=counts.__getitem__)
        return Sight(change, True, most if counts[most] > mine else None)

    def take(self, sight: Sight) -> None:
        """Goes by what was seen."""
        self._change = sight.change
        if sight.by is None or self.displaced:
            return
        self.displaced = self.pending = True
        self.listed = False
        logger.warning(
            "%s: another process uses the embedder %s and has replaced the vectors of %s: search "
            "is by words here, and nothing is embedded until the space is opened again. Give all "
            "the same embedder, or reindex() with this one",
            self._store.space,
            sight.by,
            self._index.model,
        )

    def waiting(self, tx: Transaction, now: datetime) -> int:
        """How many texts wait for their vectors."""
        waits = outbox.waiting(tx)
        if self.pending and not self.listed:
            waits += outbox.count_missing(tx, self._index.model, now)
        return waits

    async def complete(self, now: datetime) -> bool:
        """To be called once nothing waits any more but what is refused: removes what other models
        left. Returns whether that was so: where another process has embedded a text by another
        model meanwhile, it lacks vectors of this one and nothing is removed.

        Raises:
            StoreError: the table could not be written; what is left goes the next time.
        """
        if self.displaced:
            return True
        self.pending = False
        if not self.earlier:
            return True

        def first(tx: Transaction, model: str) -> int | None:
            # In one transaction: what another process embeds is seen by one of both.
            if outbox.missing(tx, self._index.model, now, 1):
                return None
            return vectors.forget(tx, model=model, most=AT_ONCE)

        await self._index.forget([name for name, _ in self.earlier])
        for name, _ in self.earlier:
            gone = await self._store.write(partial(first, model=name))
            if gone is None:
                self.pending = True
                return False
            bite = partial(vectors.forget, model=name, most=AT_ONCE)
            while gone:
                gone = await self._store.write(bite)
        self.earlier = ()
        return True
