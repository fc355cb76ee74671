"""A turn that was accepted, as those see it who wait for it or listen to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from pagedaemon.errors import LeaseLost, ModelError
from pagedaemon.events import Event, Turn, TurnEnded
from pagedaemon.store.journal import Lease


class Running:
    """A turn that was accepted: listeners read its events, the caller its result.

    Attributes:
        turn_id: which turn.
        conversation_id: whose.
        taken_up: whether it was left open, and nobody here has sent its message.
        heard: whether anybody has asked how it goes.
        lasting: whether it may be asked for later: who stops waiting for it does not stop it, and
            closing the runtime leaves it to the next who opens the store.
        lost: that another worker has taken it over.
        number: of the last committed event that was told.
        asked_for: the lease of the claim that was last asked of the store, whether or not that is
            committed: whoever asked may have been stopped meanwhile.
    """

    def __init__(
        self, turn_id: str, conversation_id: str, *, taken_up: bool, lasting: bool = False
    ) -> None:
        self.turn_id = turn_id
        self.conversation_id = conversation_id
        self.taken_up = taken_up
        self.heard = False
        self.lasting = lasting
        self.lost: LeaseLost | None = None
        self.number = 0
        self.asked_for: Lease | None = None
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
        if event.number is not None:
            self.number = event.number
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
        async for event in self._from(0):
            yield event
        if self._error is not None:
            raise self._error

    async def events_after(self, number: int) -> AsyncIterator[Event]:
        """The committed events with higher numbers than that, and the provisional ones of no step
        that had ended when they were asked for, until nothing more is told here. Whoever asks is
        no one for whom the turn is kept or whom its error concerns."""
        begin = 0
        for place, event in enumerate(self._events):
            if event.number is not None:
                begin = place + 1
        for event in self._events[:begin]:
            if event.number is not None and event.number > number:
                yield event
        async for event in self._from(begin):
            if event.number is None or event.number > number:
                yield event

    async def _from(self, told: int) -> AsyncIterator[Event]:
        while True:
            self._changed.clear()
            while told < len(self._events):
                yield self._events[told]
                told += 1
            if self._over.is_set():
                break
            await self._changed.wait()

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

    def lose(self, error: LeaseLost) -> None:
        """Another worker has taken it over: nothing more is done, and nothing written."""
        if not self._stopped:
            self.lost = error
            self.stop()

    async def cancel(self) -> None:
        """Stops the turn and waits until that is written."""
        self.stop()
        await self._over.wait()


def error_of(turn: Turn) -> ModelError | None:
    """What whoever waits for a turn is told that has ended with an error out of their sight, as
    they would have been told had they seen it; None for any other end."""
    if turn.stop_reason != "error":
        return None
    return ModelError(f"turn {turn.id} ended with an error: {turn.error}")
