"""A turn that was accepted, as those see it who wait for it or listen to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from pagedaemon.events import Event, Turn, TurnEnded


class Running:
    """A turn that was accepted: listeners read its events, the caller its result.

    Attributes:
        turn_id: which turn.
        conversation_id: whose.
        taken_up: whether it was left open, and nobody here has sent its message.
        heard: whether anybody has asked how it goes.
    """

    def __init__(self, turn_id: str, conversation_id: str, *, taken_up: bool) -> None:
        self.turn_id = turn_id
        self.conversation_id = conversation_id
        self.taken_up = taken_up
        self.heard = False
        self._events: list[Event] = []
        self._changed = asyncio.Event()
        self._over = asyncio.Event()
        self._error: BaseException | None = None
        self._turn: Turn | None = None
        self._task: asyncio.Task[None] | None = None
        self._begun = False
        self._stopped = False

    # ------------------------------------------------------------------ for who runs it

    def runs_as(self, task: asyncio.Task[None]) -> None:
        """The task whose cancellation stops the turn."""
        self._task = task

    def begin(self) -> None:
        """The task's first words.

        Raises:
            asyncio.CancelledError: it was stopped before it had begun.
        """
        self._begun = True
        if self._stopped:
            raise asyncio.CancelledError

    def tell(self, event: Event) -> None:
        """One more event for everyone who listens."""
        self._events.append(event)
        if isinstance(event, TurnEnded):
            self._turn = event.turn
        self._changed.set()

    def close(self, error: BaseException | None) -> None:
        """No more events; with what went wrong."""
        self._error = error
        self._over.set()
        self._changed.set()

    # ------------------------------------------------------------------ for who waits for it

    async def events(self) -> AsyncIterator[Event]:
        """All events from the first, as they come.

        Raises:
            PagedaemonError: what the turn ended with, after its last event.
        """
        self.heard = True
        told = 0
        while True:
            self._changed.clear()
            while told < len(self._events):
                yield self._events[told]
                told += 1
            if self._over.is_set():
                break
            await self._changed.wait()
        if self._error is not None:
            raise self._error

    async def result(self) -> Turn:
        """The turn, once it has ended.

        Raises:
            PagedaemonError: what it ended with.
        """
        self.heard = True
        await self._over.wait()
        if self._error is not None:
            raise self._error
        assert self._turn is not None, "a turn without error has a result"
        return self._turn

    async def settled(self) -> None:
        """Waits for the end of the turn, whatever it is."""
        await self._over.wait()

    def stop(self) -> None:
        """Asks the turn to stop; asking again changes nothing, so that its last words are written
        undisturbed."""
        if self._stopped:
            return
        self._stopped = True
        # A task that is cancelled before its first step never runs, and could write nothing.
        if self._begun and self._task is not None:
            self._task.cancel()

    async def cancel(self) -> None:
        """Stops the turn and waits until that is written."""
        self.stop()
        await self._over.wait()
