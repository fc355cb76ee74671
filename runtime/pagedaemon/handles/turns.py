"""A turn as a user holds it who does not wait for it: to look, wait or stop, from any process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from pagedaemon.agent import checked_name
from pagedaemon.errors import InvalidInput, NotFound
from pagedaemon.events import Turn
from pagedaemon.handles.arguments import checked_seconds
from pagedaemon.messages import StopReason, TurnState
from pagedaemon.store import journal
from pagedaemon.store.journal import Key, TurnRow, Wake
from pagedaemon.store.transaction import Transaction

if TYPE_CHECKING:
    from pagedaemon.scheduler import Scheduler

OpenState: TypeAlias = Literal["queued", "running", "open"]
"""`open`: either of the other two."""

STATES: Mapping[object, tuple[TurnState, ...]] = {
    "queued": ("queued",),
    "running": ("running",),
    "open": ("queued", "running"),
    "done": ("done",),
}
"""What can be asked for, and the states it stands for."""


@dataclass(frozen=True, slots=True)
class TurnStatus:
    """How far a turn is."""

    state: TurnState
    stop_reason: StopReason | None
    """Why it ended; None for as long as it is open."""
    error: str | None
    """What happened, where it did not end well."""
    stopping: bool
    """It is open, and the process that runs it was asked to stop it."""
    created_at: datetime
    """When its message was accepted."""
    started_at: datetime | None
    ended_at: datetime | None


class AsyncTurnHandle:
    """A turn that goes on whether or not anybody waits for it, in whatever process.

    Args:
        require_outside: raises where a tool asks of the turn it is part of.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        turn_id: str,
        conversation_id: str,
        require_outside: Callable[[], None],
    ) -> None:
        self._scheduler = scheduler
        self._id = turn_id
        self._conversation_id = conversation_id
        self._require_outside = require_outside

    def __repr__(self) -> str:
        return f"<{self.id}>"

    @property
    def id(self) -> str:
        """By which `AsyncConversation.turn` finds it again, also in another process."""
        return self._id

    @property
    def conversation_id(self) -> str:
        """Whose it is."""
        return self._conversation_id

    async def status(self) -> TurnStatus:
        """How far it is now.

        Raises:
            NotFound: it was deleted.
            StoreError: the store could not be read.
        """
        row = await self._scheduler.store.read(self._row)
        return TurnStatus(
            STATES[row.status][0],
            row.stop_reason,
            row.error,
            row.stop_asked and row.status != "done",
            row.created_at,
            row.started_at,
            row.ended_at,
        )

    def _row(self, tx: Transaction) -> TurnRow:
        return turn_row(tx, self._id, self._conversation_id)

    async def wait(self, timeout: float | None = None) -> Turn:  # noqa: ASYNC109
        """Waits for its end, whichever process runs it. To stop waiting changes nothing in the
        turn; where the process that runs it is gone, it is gone on with here.

        However it ends is told by the turn's `stop_reason` and `error`, and never raised.

        Args:
            timeout: seconds to wait at most; with 0 it only looks. None: as long as it takes.

        Raises:
            TimeoutError: it has not ended by then, and goes on.
            InvalidInput: a timeout that is no number of seconds.
            NotFound: it was deleted.
            StoreError: the store could not be read.
            ConfigError: a tool asks it of the conversation whose turn it is part of.
            Closed: the runtime was closed meanwhile, or belongs to another event loop or process.
                What has not ended is gone on with when the space is opened again.
        """
        self._require_outside()
        if timeout is not None:
            timeout = checked_seconds(timeout, "the timeout", least=0.0)
        try:
            async with asyncio.timeout(timeout):
                return await self._scheduler.end_of(self._id, self._conversation_id)
        except TimeoutError:
            # With little time to wait there was none to look.
            ended = await self._scheduler.store.read(self._ended)
            if ended is None:
                raise
            return ended

    def _ended(self, tx: Transaction) -> Turn | None:
        row = self._row(tx)
        return journal.turn_record(tx, row) if row.status == "done" else None

    async def stop(self) -> Turn:
        """Stops it and waits until its end is written: a turn that has ended stays as it ended.

        A step that has begun to act closes whole: see `AsyncConversation.cancel`. One that waited
        for its place is withdrawn. Where another process runs it, that one stops it at its next
        step, or when it renews its lease.

        Raises:
            NotFound: it was deleted.
            StoreError: the store failed.
            ConfigError: a tool asks it of the conversation whose turn it is part of.
            Closed: the runtime was closed meanwhile, or belongs to another event loop or process.
        """
        self._require_outside()
        return await self._scheduler.stop(self._id, self._conversation_id)


def turn_row(tx: Transaction, turn_id: str, conversation_id: str) -> TurnRow:
    """A turn of a conversation.

    Raises:
        NotFound: it has none of that id.
    """
    row = journal.turn_by_id(tx, turn_id)
    if row is None or row.conversation_id != conversation_id:
        raise NotFound(f"this conversation has no turn {turn_id}: `turns` lists what there is")
    return row


def checked_states(status: object) -> tuple[TurnState, ...]:
    """The states that a user asks for.

    Raises:
        InvalidInput: it is none of the words there are.
    """
    if not isinstance(status, str) or status not in STATES:
        raise InvalidInput(f"the status of turns is one of {', '.join(map(str, STATES))}")
    return STATES[status]


def checked_key(key: object, wake: Wake) -> Key | None:
    """The key of what wakes an agent; None for none.

    Raises:
        InvalidInput: it cannot be one.
    """
    return None if key is None else journal.key_of(checked_name(key, "the key"), wake)
