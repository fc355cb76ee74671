"""Following a turn by its committed events, from any number and in any process.

The store is the truth: whoever follows reads what is committed, and where the turn runs in this
process they are also told what happens while it happens. Both carry the same numbers, so that what
comes twice is dropped and what was missed is read.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass

from pagedaemon.errors import NotFound
from pagedaemon.events import Event, TurnEnded
from pagedaemon.scheduler.idle import POLL, News, wait
from pagedaemon.scheduler.running import Running
from pagedaemon.store import journal
from pagedaemon.store.database import Database
from pagedaemon.store.journal import TurnRow
from pagedaemon.store.transaction import Transaction


@dataclass(frozen=True)
class Seen:
    """One look at a turn: its row, and its events after a number."""

    row: TurnRow
    events: list[Event]


def events_of(tx: Transaction, conversation_id: str, turn_id: str, after: int) -> Seen:
    """A turn's committed events with higher numbers than that.

    Raises:
        NotFound: there is no such turn in the conversation.
    """
    row = journal.turn_by_id(tx, turn_id)
    if row is None or row.conversation_id != conversation_id:
        raise NotFound(
            f"no turn {turn_id} in this conversation: take the id from a turn, an event or `turns`"
        )
    return Seen(row, journal.events_after(tx, row, after))


class Following:
    """Tells of the turns of one space by their numbers.

    Args:
        store: the space.
        news: of this process's turns.
        running: those that run here, by id.
        take_over: runs an open turn whose process is gone.
        require_open: raises where the runtime was closed.
    """

    def __init__(
        self,
        store: Database,
        news: News,
        running: Mapping[str, Running],
        take_over: Callable[[TurnRow], None],
        require_open: Callable[[], None],
    ) -> None:
        self._store = store
        self._news = news
        self._running = running
        self._take_over = take_over
        self._require_open = require_open

    async def events(
        self, conversation_id: str, turn_id: str, after: int
    ) -> AsyncGenerator[Event, None]:
        """See `Scheduler.follow`."""
        while True:
            self._require_open()
            news = self._news.of(conversation_id)
            seen = await self._look(conversation_id, turn_id, after)
            for event in seen.events:
                after = event.number or after
                yield event
            if seen.row.status == "done":
                return
            self._take_over(seen.row)
            here = self._running.get(turn_id)
            if here is None:
                await wait(news, POLL)
                continue
            async for event in here.events_after(after):
                if event.number is not None and event.number > after + 1:
                    # Told before this process had the turn.
                    break
                after = event.number or after
                yield event
                if isinstance(event, TurnEnded):
                    return

    async def _look(self, conversation_id: str, turn_id: str, after: int) -> Seen:
        return await self._store.read(lambda tx: events_of(tx, conversation_id, turn_id, after))
