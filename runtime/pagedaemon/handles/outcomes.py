"""Calls whose outcome nobody saw, as a user holds them: to list, and to settle from any process."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pagedaemon.agent import checked_name
from pagedaemon.errors import InvalidInput
from pagedaemon.handles.arguments import checked_flag
from pagedaemon.handles.turns import AsyncTurnHandle
from pagedaemon.messages import checked_text
from pagedaemon.store.outcomes import OutcomeRow

if TYPE_CHECKING:
    from pagedaemon.scheduler import Scheduler

LONGEST_NOTE = 2_000
"""Characters of what a person found out."""


class AsyncOutcome:
    """A call that may have taken effect or not: its process died, or its time was over, before
    anybody saw how it ended. As it was when it was read."""

    def __init__(self, scheduler: Scheduler, row: OutcomeRow) -> None:
        self._scheduler = scheduler
        self._row = row

    def __repr__(self) -> str:
        state = {None: "unknown", True: "happened", False: "never happened"}[self.happened]
        return f"<{self.id} {state} {self.tool}>"

    @property
    def id(self) -> str:
        """Of the call. Its tool was given it as `ToolContext.key`, so that a service that was sent
        the key can be asked about it."""
        return self._row.id

    @property
    def tool(self) -> str:
        """Which tool the agent called."""
        return self._row.tool

    @property
    def arguments(self) -> Mapping[str, Any]:
        """With what, as JSON values."""
        return MappingProxyType(dict(self._row.arguments))

    @property
    def told(self) -> str | None:
        """What the agent was told; None where its turn ended before it could be."""
        return self._row.told

    @property
    def started_at(self) -> datetime | None:
        """When the call was begun, in UTC, where that was stored."""
        return self._row.started_at

    @property
    def agent_id(self) -> str:
        """Whose call it is."""
        return self._row.agent_id

    @property
    def conversation_id(self) -> str:
        """Where it was made, and where the agent is told what was found out."""
        return self._row.conversation_id

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
        if note is not None and len(checked_text(note, "the note")) > LONGEST_NOTE:
            raise InvalidInput(f"a note has at most {LONGEST_NOTE} characters")
        if by is not None:
            by = checked_name(by, "the name of who settles")
        told = await self._scheduler.outcomes.settle(self.id, happened=happened, note=note, by=by)
        self._row = told.row
        return AsyncTurnHandle(
            self._scheduler, told.turn_id, self.conversation_id, require_outside=_anywhere
        )


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


def _anywhere() -> None:
    """What is said of a call is part of no turn."""
