"""A turn and its place in its conversation, whichever process runs it: waiting until that has come,
waiting for its end, and taking back what has not begun."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import TYPE_CHECKING

from pagedaemon.errors import Closed, NotFound
from pagedaemon.events import Turn
from pagedaemon.memory.recollection import seek
from pagedaemon.scheduler.claims import Claimed, Claims
from pagedaemon.scheduler.idle import LONG_POLL, POLL, News, wait
from pagedaemon.scheduler.running import Running
from pagedaemon.store import journal
from pagedaemon.store.database import Database
from pagedaemon.store.journal import Head, TurnRow
from pagedaemon.store.transaction import Transaction

if TYPE_CHECKING:
    from pagedaemon.memory.meaning import Meaning


class Places:
    """The places of a space's turns, as this process sees them.

    Args:
        store: the space.
        claims: who may run what.
        news: of this process's turns.
        meaning: finds by meaning; None: search is by words alone.
        here: the turns that run or wait in this process, by id.
        in_hand: conversations of which a turn is in this process's memory.
        take_over: runs an open turn whose process is gone.

    Attributes:
        closed: the runtime is being closed, and nothing is begun any more.
    """

    def __init__(
        self,
        store: Database,
        claims: Claims,
        news: News,
        meaning: Meaning | None,
        here: Mapping[str, Running],
        in_hand: Set[str],
        take_over: Callable[[TurnRow], None],
    ) -> None:
        self._store = store
        self._claims = claims
        self._news = news
        self._meaning = meaning
        self._here = here
        self._in_hand = in_hand
        self._take_over = take_over
        self.closed = False

    async def claimed(self, running: Running) -> Claimed | Turn:
        """Waits until a turn is the first of its conversation, and claims it; or its end, where
        another process has brought it there.

        Raises:
            NotFound: it was deleted.
            asyncio.CancelledError: the caller was stopped. A claim that was on its way may be
                committed all the same: `Running.asked_for`.
        """
        turn_id, conversation_id = running.turn_id, running.conversation_id

        def look(tx: Transaction) -> tuple[TurnRow, Head, TurnRow | None] | Turn:
            row = _open(tx, turn_id)
            if isinstance(row, Turn):
                return row
            first = journal.first_open_turn(tx, conversation_id)
            return row, self._claims.head(tx, conversation_id), first

        while True:
            news = self._news.of(conversation_id)
            seen = await self._store.read(look)
            if isinstance(seen, Turn):
                return seen
            row, head, first = seen
            mine = first is not None and first.id == turn_id
            if mine and not self._claims.held(head) and conversation_id not in self._in_hand:
                claimed = await self._take_up(running, row, head)
                if claimed is not None:
                    return claimed
            elif first is not None and not mine:
                self._take_over(first)
            ours = first is not None and not mine and first.id in self._here
            await wait(news, LONG_POLL if ours else POLL)

    async def _take_up(self, running: Running, row: TurnRow, head: Head) -> Claimed | None:
        """Claims a turn, after memory was searched for what wakes its agent, where it shall be."""
        asked = self._claims.asked(row, head)
        found = () if asked is None else await seek(self._store, self._meaning, asked)

        def work(tx: Transaction) -> Claimed | None:
            claimed = self._claims.take_up(tx, row.id, asked, found)
            running.asked_for = None if claimed is None else claimed.turn.lease
            return claimed

        return await self._store.write(work)

    async def end_of(self, turn_id: str, conversation_id: str) -> Turn:
        """Waits for the end of a turn, whoever runs it, and sees to it that somebody does.

        Raises:
            NotFound: it was deleted.
            Closed: the runtime was closed meanwhile.
        """

        def look(tx: Transaction) -> Turn | TurnRow | None:
            row = _open(tx, turn_id)
            if isinstance(row, Turn):
                return row
            first = journal.first_open_turn(tx, conversation_id)
            if first is None or not self._claims.orphaned(first):
                return None
            # Without its model here it would end, which nobody has asked for.
            return None if self._claims.unable(tx, conversation_id) else first

        while True:
            self._require_open()
            news = self._news.of(conversation_id)
            seen = await self._store.read(look)
            if isinstance(seen, Turn):
                return seen
            if seen is not None:
                self._take_over(seen)
            await wait(news, LONG_POLL if turn_id in self._here else POLL)

    async def withdrawn(self, turn_id: str) -> Turn | Claimed:
        """Takes back a turn that nobody here has in hand: its end, or the turn for who asks to end
        it. Where another process runs it, that one is asked to stop it, and this waits.

        Raises:
            NotFound: it was deleted.
            Closed: it waited for its place, or another process runs it, and the runtime was closed.
        """
        while True:
            # A claim that was on its way when we were stopped is committed before this.
            found = await self._store.write(lambda tx: self._withdraw(tx, turn_id))
            if found is not None:
                return found
            await self._out_of_hand(turn_id)

    def _withdraw(self, tx: Transaction, turn_id: str) -> Turn | Claimed | None:
        row = _open(tx, turn_id)
        if isinstance(row, Turn):
            return row
        if row.status == "queued" and self.closed:
            raise Closed(
                "the runtime was closed while this message waited for its turn; it is stored, and "
                "answered when the space is opened again"
            )
        found = self._claims.withdraw(tx, turn_id) or self._claims.take_up(tx, turn_id)
        if found is None:
            journal.ask_to_stop(tx, turn_id)
        return found

    async def _out_of_hand(self, turn_id: str) -> None:
        """Waits until a turn has ended, or the process that runs it is gone."""
        while True:
            self._require_open()
            row = await self._store.read(lambda tx: _open(tx, turn_id))
            if isinstance(row, Turn) or self._claims.orphaned(row):
                return
            await wait(self._news.of(row.conversation_id), POLL)

    def _require_open(self) -> None:
        if self.closed:
            raise Closed("the runtime was closed; another process, or the next to open it, goes on")


def _open(tx: Transaction, turn_id: str) -> TurnRow | Turn:
    """The row of a turn; its end, where it has ended.

    Raises:
        NotFound: it was deleted.
    """
    row = journal.turn_by_id(tx, turn_id)
    if row is None:
        raise NotFound(f"turn {turn_id} was deleted")
    return journal.turn_record(tx, row) if row.status == "done" else row
