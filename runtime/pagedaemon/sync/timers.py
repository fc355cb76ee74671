"""Timers, through the blocking door."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypeVar

from pagedaemon.handles.timers import AsyncSchedule, AsyncTimed
from pagedaemon.messages import Label
from pagedaemon.sync.delegate import Handle, blocking

T = TypeVar("T", bound=AsyncTimed)


@blocking(AsyncSchedule)
class Schedule(Handle[AsyncSchedule]):
    """A timer of an agent, as it was when it was read."""

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def text(self) -> str:
        return self._inner.text

    @property
    def due(self) -> datetime:
        return self._inner.due

    @property
    def every(self) -> timedelta | None:
        return self._inner.every

    @property
    def conversation_id(self) -> str:
        return self._inner.conversation_id

    @property
    def label(self) -> Label:
        return self._inner.label

    def cancel(self) -> bool:
        return self._door.wait(self._inner.cancel())


@blocking(AsyncTimed)
class Timed(Handle[T]):
    """An agent, as far as time wakes it."""

    def schedule(
        self,
        text: str,
        *,
        at: datetime | None = None,
        every: timedelta | None = None,
        start: datetime | None = None,
        conversation: str = "main",
    ) -> Schedule:
        waited = self._inner.schedule(
            text, at=at, every=every, start=start, conversation=conversation
        )
        return Schedule(self._door, self._door.wait(waited))

    def schedules(self) -> list[Schedule]:
        return [Schedule(self._door, one) for one in self._door.wait(self._inner.schedules())]

    def pause_heartbeats(
        self, *, until: datetime | None = None, seconds: float | None = None
    ) -> None:
        self._door.wait(self._inner.pause_heartbeats(until=until, seconds=seconds))

    def resume_heartbeats(self) -> bool:
        return self._door.wait(self._inner.resume_heartbeats())
