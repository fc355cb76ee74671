"""Rings the timers of a space when their time has come, one task for each open space.

It sleeps until the next one is due by the clock that it is given, and looks again now and then,
because other processes set timers too. Several processes may do so on one folder: whoever's
transaction comes first queues the turn and moves the timer on, and the others find nothing due.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime

from pagedaemon.errors import StoreError
from pagedaemon.memory.timers import ring
from pagedaemon.scheduler.idle import wait
from pagedaemon.scheduler.waker import Waker
from pagedaemon.store import schedules
from pagedaemon.store.journal import Wake, waiting
from pagedaemon.store.schedules import ScheduleRow
from pagedaemon.store.transaction import Transaction

logger = logging.getLogger("pagedaemon")

LOOK = 30.0
"""Seconds between two looks at the store where nothing is known to be due: what another process
has set is noticed after that at the latest, and so is an agent that can be asked again."""

GLANCE = 0.5
"""Seconds between two looks at the clock while a timer is waited for: a clock may be set, and a
machine may sleep."""


class Timers:
    """The timers of one space in this process.

    Args:
        waker: wakes their agents.
        expire: ends the wait of approvals whose time is over; when that of the next one is.
    """

    def __init__(self, waker: Waker, expire: Callable[[], Awaitable[datetime | None]]) -> None:
        self._waker = waker
        self._store = waker.store
        self._clock = waker.clock
        self._claims = waker.claims
        self._expire = expire
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._told: set[str] = set()
        """Agents of which was said that they cannot be asked."""

    async def open(self) -> None:
        """Rings what is due, and from now on whatever becomes due.

        Raises:
            StoreError: the store failed.
        """
        due = await self.ring_due()
        self._task = asyncio.create_task(self._keep_time(due))
        self._waker.takes_part = True
        self._task.add_done_callback(_over)

    async def close(self) -> None:
        """Rings nothing more."""
        # In Python 3.11 a wait that ends just as it is cancelled may swallow that.
        self._closed = True
        self._waker.takes_part = False
        self._changed.set()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    def look(self) -> None:
        """A timer was set, cancelled or held: the next one may be another."""
        self._changed.set()

    async def ring_due(self, *, with_code: bool = False) -> datetime | None:
        """Queues and starts a turn for each timer that is due. Those of an agent that cannot be
        asked now stay due.

        Args:
            with_code: as in `Claims.unable`.

        Returns:
            when the next one is; None where none is known.

        Raises:
            StoreError: the store failed; each timer has rung whole or not at all.
        """
        now = self._clock.now()

        def look(tx: Transaction) -> tuple[list[ScheduleRow], datetime | None]:
            return schedules.due_now(tx, now), schedules.next_due(tx, now)

        due, following = await self._store.read(look)
        for row in due:
            await self._ring(row, with_code)
        if due:
            following = await self._store.read(lambda tx: schedules.next_due(tx, now))
        expiry = await self._expire()
        return min((one for one in (following, expiry) if one is not None), default=None)

    async def _ring(self, row: ScheduleRow, with_code: bool) -> None:
        rung = await self._store.write(lambda tx: self._queue(tx, row.id, with_code))
        if isinstance(rung, str):
            if row.agent_id not in self._told:
                self._told.add(row.agent_id)
                logger.warning("timers of agent %s wait: %s", row.agent_id, rung)
            return
        self._told.discard(row.agent_id)
        if rung is not None:
            self._waker.start(*rung)

    def _queue(
        self, tx: Transaction, schedule_id: str, with_code: bool
    ) -> tuple[str, str] | str | None:
        """One ring: the turn and when the timer rings next, in one transaction.

        Returns:
            the turn and its conversation; why the agent cannot be asked; None where there is
            nothing to start.
        """
        now = self._clock.now()
        found = schedules.due_now(tx, now, schedule_id)
        if not found:
            return None
        (row,) = found
        rung, following = ring(row, now)
        last, more = row.turn_id, rung.missed + 1
        # Where the agent has not come to the last turn yet, that one tells it of this ring too.
        if last is not None and following is not None and waiting.missed(tx, last, more):
            schedules.move_on(tx, row.id, following, last)
            return None
        unable = self._claims.unable(tx, row.conversation_id, with_code=with_code)
        if unable is not None:
            return unable
        wake = Wake(row.text, label=row.label, kind="timer", ring=rung)
        turn_id = self._claims.queue(tx, row.conversation_id, wake, here=True)
        if following is None:
            schedules.remove(tx, row.agent_id, row.id)
        else:
            schedules.move_on(tx, row.id, following, turn_id)
        return turn_id, row.conversation_id

    async def _keep_time(self, due: datetime | None) -> None:
        while True:
            await self._until(due)
            if self._closed:
                return
            self._changed.clear()
            try:
                due = await self.ring_due()
            except StoreError as error:
                logger.warning("timers wait for the store: %s", error)
                due = None

    async def _until(self, due: datetime | None) -> None:
        """Until that instant, or until something has changed; no longer than `LOOK`."""
        left = LOOK
        while left > 0 and not self._changed.is_set():
            glance = left
            if due is not None:
                seconds = (due - self._clock.now()).total_seconds()
                if seconds <= 0:
                    return
                glance = min(left, seconds, GLANCE)
            await wait(self._changed, glance)
            left -= glance


def _over(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("timers of this space ring no more", exc_info=error)
