"""Calls whose outcome nobody saw, as a user holds them: to list, and to settle from any process."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from pagedaemon.agent import checked_name
from pagedaemon.handles.arguments import checked_flag
from pagedaemon.handles.calls import AsyncCall, checked_person, checked_remark
from pagedaemon.handles.turns import AsyncTurnHandle
from pagedaemon.store.outcomes import OutcomeRow

if TYPE_CHECKING:
    from pagedaemon.scheduler import Scheduler


class AsyncOutcome(AsyncCall[OutcomeRow]):
    """A call that may have taken effect or not: its process died, or its time was over, before
    anybody saw how it ended. As it was when it was read."""

    def __repr__(self) -> str:
        state = {None: "unknown", True: "happened", False: "never happened"}[self.happened]
        return f"<{self.id} {state} {self.tool}>"

    @property
    def id(self) -> str:
        """Of the call. Its tool was given it as `ToolContext.key`, so that a service that was sent
        the key can be asked about it."""
        return self._row.id

    @property
    def told(self) -> str | None:
        """What the agent was told; None where its turn ended before it could be."""
        return self._row.told

    @property
    def started_at(self) -> datetime | None:
        """When the call was begun, in UTC, where that was stored."""
        return self._row.started_at

    @property
    def turn_id(self) -> str:
        """The turn that made it."""
        return self._row.turn_id

    @property
    def happened(self) -> bool | None:
        """What a person has found out: whether it took effect. None: it is unknown still."""
        return None if self._row.settled is None else self._row.settled.happened

    @property
    def note(self) -> str | None:
        """What else was said of it."""
        return None if self._row.settled is None else self._row.settled.note

    @property
    def settled_at(self) -> datetime | None:
        """When it was settled, in UTC."""
        return None if self._row.settled is None else self._row.settled.at

    @property
    def settled_by(self) -> str | None:
        """Who settled it, where that was said."""
        return None if self._row.settled is None else self._row.settled.by

    async def settle(
        self, happened: bool, note: str | None = None, by: str | None = None
    ) -> AsyncTurnHandle:
        """Says what became of the call. Its agent is told, in a turn of its own, here or in the
        first process that has the space open and can ask it; the call itself is not run again, but
        an agent that learns that it never happened may call the tool anew.

        Args:
            happened: whether it took effect.
            note: more about it, for the agent, at most 2,000 characters.
            by: who says so, for the record and the agent.

        Raises:
            AlreadyAnswered: it was settled before; nothing was changed.
            NotFound: its agent was deleted.
            InvalidInput: a note or a name that cannot be.
            StoreError: the store failed; nothing was changed.
        """
        checked_flag(happened, "happened")
        note = checked_remark(note, "note")
        by = checked_person(by, "settles")
        outcomes = self._scheduler.outcomes
        return self._told_in(await outcomes.settle(self.id, happened=happened, note=note, by=by))


class AsyncOutcomes:
    """Calls whose outcome is unknown: of a space, or of an agent.

    The agent was told so, and the call is never run again by itself. It stays on this list until a
    person has said what happened.
    """

    def __init__(self, scheduler: Scheduler, agent_id: str | None = None) -> None:
        self._scheduler = scheduler
        self._agent_id = agent_id

    async def list(self, settled: bool | None = False) -> list[AsyncOutcome]:
        """Those of which nobody has said yet what happened, oldest first.

        Args:
            settled: True: those of which somebody has; None: both.

        Raises:
            InvalidInput: `settled` is none of these.
            StoreError: the store could not be read.
        """
        if settled is not None:
            checked_flag(settled, "settled")
        found = await self._scheduler.outcomes.listed(settled, self._agent_id)
        return [AsyncOutcome(self._scheduler, row) for row in found]

    async def get(self, call_id: str) -> AsyncOutcome:
        """The one of that call.

        Raises:
            NotFound: there is none here.
            InvalidInput: what cannot be an id.
            StoreError: the store could not be read.
        """
        wanted = checked_name(call_id, "a call's id")
        row = await self._scheduler.outcomes.find(wanted, self._agent_id)
        return AsyncOutcome(self._scheduler, row)
