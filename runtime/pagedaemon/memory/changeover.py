"""The way from one embedding model to another, in a space that is in use.

Vectors of two models cannot be compared, and those of the former one cannot be asked once its
embedder is gone. So until every text has come to the new one, search is by words: what is near
among the few that have is not what is near. Only then do the former vectors go, in small bites and
with their index on the disk; whoever turns back before finds them as they were.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial

from pagedaemon.store import outbox, vectors
from pagedaemon.store.database import Database
from pagedaemon.store.index.finder import VectorIndex
from pagedaemon.store.transaction import Transaction

AT_ONCE = 500
"""Vectors that go in one transaction, so that others write in between."""


class Changeover:
    """Whether a space still has vectors of other models, and whether its own are whole.

    Attributes:
        earlier: other models that left vectors here, with their dimensions.
        pending: texts lack vectors of this model while they had some of another: search by meaning
            would be wrong.
        listed: what lacks them stands in the outbox.
    """

    def __init__(self, store: Database, index: VectorIndex) -> None:
        self._store = store
        self._index = index
        self.earlier: tuple[tuple[str, int], ...] = ()
        self.pending = False
        self.listed = False

    async def look(self, now: datetime) -> None:
        """Finds out. Nothing is written."""

        def work(tx: Transaction) -> tuple[list[tuple[str, int]], bool]:
            others = [one for one in vectors.models(tx) if one[0] != self._index.model]
            return others, bool(others) and outbox.lacking(tx, self._index.model, now)

        others, self.pending = await self._store.read(work)
        self.earlier = tuple(others)

    def waiting(self, tx: Transaction, now: datetime) -> int:
        """How many texts wait for their vectors."""
        waits = outbox.waiting(tx)
        if self.pending and not self.listed:
            waits += outbox.count_missing(tx, self._index.model, now)
        return waits

    async def complete(self) -> None:
        """To be called once nothing waits any more but what is refused: removes what other models
        left.

        Raises:
            StoreError: the table could not be written; what is left goes the next time.
        """
        self.pending = False
        if not self.earlier:
            return
        await self._index.forget([name for name, _ in self.earlier])
        for name, _ in self.earlier:
            bite = partial(vectors.forget, model=name, most=AT_ONCE)
            while await self._store.write(bite):
                pass
        self.earlier = ()
