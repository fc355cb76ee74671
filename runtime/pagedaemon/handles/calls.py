"""Calls of which a person has the last word, as a user holds them: what is told of any of them, and
what becomes of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pagedaemon.agent import checked_name
from pagedaemon.errors import InvalidInput
from pagedaemon.handles.turns import AsyncTurnHandle
from pagedaemon.messages import checked_text

if TYPE_CHECKING:
    from pagedaemon.scheduler import Scheduler
    from pagedaemon.scheduler.calls import Answered, CallRow

LONGEST_REMARK = 2_000
"""Characters of what a person says of a call."""


R = TypeVar("R", bound="CallRow")


class AsyncCall(Generic[R]):
    """A call of which a person has the last word, as it was when it was read."""

    def __init__(self, scheduler: Scheduler, row: R) -> None:
        self._scheduler = scheduler
        self._row = row

    @property
    def tool(self) -> str:
        """Which tool the agent called."""
        return self._row.tool

    @property
    def arguments(self) -> Mapping[str, Any]:
        """With what, as JSON values. What is said of the call is said of exactly these."""
        return MappingProxyType(dict(self._row.arguments))

    @property
    def agent_id(self) -> str:
        """Whose call it is."""
        return self._row.agent_id

    @property
    def conversation_id(self) -> str:
        """Where it was made, and where the agent is told what was said of it."""
        return self._row.conversation_id

    def _told_in(self, answered: Answered[R]) -> AsyncTurnHandle:
        """The call is as the answer left it; the turn in which its agent is told."""
        self._row = answered.row
        return AsyncTurnHandle(
            self._scheduler, answered.turn_id, self.conversation_id, require_outside=_anywhere
        )


def checked_remark(text: str | None, what: str) -> str | None:
    """What a person says of a call, if it can be stored; None for nothing.

    Args:
        what: how the message names it.

    Raises:
        InvalidInput: it is no text, or too long.
    """
    if text is not None and len(checked_text(text, f"the {what}")) > LONGEST_REMARK:
        raise InvalidInput(f"a {what} has at most {LONGEST_REMARK} characters")
    return text


def checked_person(by: str | None, what: str) -> str | None:
    """Who says it, if that can be a name; None where they do not say.

    Args:
        what: what they do, as the message says it.

    Raises:
        InvalidInput: it is none.
    """
    return None if by is None else checked_name(by, f"the name of who {what}")


def _anywhere() -> None:
    """An answer is part of no turn."""
