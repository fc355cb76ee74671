"""Waiting for conversations: until something happens in one, or until nothing does any more."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from pagedaemon.scheduler.claims import Claims
from pagedaemon.store import journal
from pagedaemon.store.database import Database
from pagedaemon.store.journal import TurnRow
from pagedaemon.store.transaction import Transaction

T = TypeVar("T")

POLL = 0.05
"""Seconds between two looks at a conversation that another process has."""

LONG_POLL = 1.0
"""Seconds between two looks at a conversation whose turns end in this process, which says so."""


class News:
    """Wakes those in this process who wait for something to happen in a conversation."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}

    def of(self, conversation_id: str) -> asyncio.Event:
        """Set at the next news. Whoever looks at the store asks for it before they look."""
        return self._events.setdefault(conversation_id, asyncio.Event())

    def tell(self, conversation_id: str) -> None:
        """Something has happened."""
        event = self._events.pop(conversation_id, None)
        if event is not None:
            event.set()


async def wait(event: asyncio.Event, seconds: float) -> None:
    """Until the event is set, but no longer than that."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return


@dataclass(frozen=True)
class _Done(Generic[T]):
    value: T


class Idle:
    """Work on conversations while no turn of theirs is open.

    Args:
        store: the space.
        claims: who may run what.
        news: of this process's turns.
        take_over: runs an open turn whose process is gone.
    """

    def __init__(
        self,
        store: Database,
        claims: Claims,
        news: News,
        take_over: Callable[[TurnRow], None],
    ) -> None:
        self._store = store
        self._claims = claims
        self._news = news
        self._take_over = take_over
        self._paused: Counter[str] = Counter()

    def paused(self, conversation_id: str) -> bool:
        """Whether a conversation takes nothing for a moment, so that it can become idle."""
        return conversation_id in self._paused

    @contextmanager
    def pausing(self, conversation_ids: Sequence[str]) -> Iterator[None]:
        """Holds back what would wake the conversations, and tells of it when it goes on."""
        self._paused.update(conversation_ids)
        try:
            yield
        finally:
            for conversation_id in conversation_ids:
                self._paused[conversation_id] -= 1
                if not self._paused[conversation_id]:
                    del self._paused[conversation_id]
                self._news.tell(conversation_id)

    async def run(
        self,
        conversations: Callable[[Transaction], Sequence[str]],
        work: Callable[[Transaction], T],
    ) -> T:
        """Runs a transaction once no turn of the conversations is open.

        Raises:
            NotFound: there is no such conversation any more.
        """

        def first_open(tx: Transaction) -> TurnRow | None:
            for conversation_id in conversations(tx):
                self._claims.head(tx, conversation_id)
                first = journal.first_open_turn(tx, conversation_id)
                if first is not None:
                    return first
            return None

        def guarded(tx: Transaction) -> _Done[T] | TurnRow:
            return first_open(tx) or _Done(work(tx))

        while True:
            # Looking is left to a snapshot: a write would make everyone else wait at each look.
            waiting = await self._store.read(first_open)
            if waiting is None:
                done = await self._store.write(guarded)
                if isinstance(done, _Done):
                    return done.value
                waiting = done
            self._take_over(waiting)
            await wait(self._news.of(waiting.conversation_id), POLL)
