"""Keeps the lease of a turn while it is in hand, however long its model or a tool takes."""

from __future__ import annotations

import asyncio
import logging

from pagedaemon.errors import LeaseLost, StoreError
from pagedaemon.scheduler.running import Running
from pagedaemon.store import journal
from pagedaemon.store.database import Database
from pagedaemon.turn.lease import renew
from pagedaemon.turn.state import OpenTurn

logger = logging.getLogger("pagedaemon")


class Renewal:
    """Renews the lease of one turn whenever a third of its duration has passed, until `end`. Where
    it is lost, the turn is dropped; where another process wants the turn stopped, it is.

    Args:
        store: the space.
        turn: the turn; it was just claimed.
        running: the same, as those see it who listen.
    """

    def __init__(self, store: Database, turn: OpenTurn, running: Running) -> None:
        self._store = store
        self._turn = turn
        self._running = running
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._timer = self._wait()

    def end(self) -> None:
        """The turn is out of hand."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _wait(self) -> asyncio.TimerHandle:
        return self._loop.call_later(self._turn.lease.seconds / 3, self._begin)

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._renew())

    async def _renew(self) -> None:
        turn = self._turn
        try:
            await renew(self._store, turn)
        except LeaseLost as error:
            row = await self._store.read(lambda tx: journal.turn_by_id(tx, turn.id))
            # Our own last commit gives the lease back.
            if row is None or row.owner != turn.lease.owner:
                self._running.lose(error)
            return
        except StoreError as error:
            logger.warning("the lease of turn %s could not be renewed: %s", turn.id, error)
        if turn.stop_asked and turn.ended is None:
            self._running.stop()
        self._timer = self._wait()
