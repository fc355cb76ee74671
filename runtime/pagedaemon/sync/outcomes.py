"""Calls whose outcome is unknown, through the blocking door."""

from __future__ import annotations

import builtins
from datetime import datetime

from pagedaemon.handles.outcomes import AsyncOutcome, AsyncOutcomes
from pagedaemon.sync.calls import Call
from pagedaemon.sync.delegate import Handle, blocking
from pagedaemon.sync.talking import TurnHandle


@blocking(AsyncOutcome)
class Outcome(Call[AsyncOutcome]):
    """A call that may have taken effect or not, as it was when it was read."""

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def told(self) -> str | None:
        return self._inner.told

    @property
    def started_at(self) -> datetime | None:
        return self._inner.started_at

    @property
    def turn_id(self) -> str:
        return self._inner.turn_id

    @property
    def happened(self) -> bool | None:
        return self._inner.happened

    @property
    def note(self) -> str | None:
        return self._inner.note

    @property
    def settled_at(self) -> datetime | None:
        return self._inner.settled_at

    @property
    def settled_by(self) -> str | None:
        return self._inner.settled_by

    def settle(self, happened: bool, note: str | None = None, by: str | None = None) -> TurnHandle:
        return TurnHandle(self._door, self._door.wait(self._inner.settle(happened, note, by)))


@blocking(AsyncOutcomes)
class Outcomes(Handle[AsyncOutcomes]):
    """Calls whose outcome is unknown: of a space, or of an agent."""

    def list(self, settled: bool | None = False) -> builtins.list[Outcome]:
        found = self._door.wait(self._inner.list(settled))
        return [Outcome(self._door, one) for one in found]

    def get(self, call_id: str) -> Outcome:
        return Outcome(self._door, self._door.wait(self._inner.get(call_id)))
