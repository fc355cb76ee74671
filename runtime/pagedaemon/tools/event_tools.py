"""Tools beside memory, for agents that want them: timers that wake the agent later, and mail to
other agents. Each returns an effect.

They are off unless a setting says otherwise (`Settings.timers`, `Settings.messaging`), because the
list of tools is paid for with every request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import Field

from pagedaemon.config import Settings
from pagedaemon.memory.effects import Effect
from pagedaemon.memory.mail import SendMail
from pagedaemon.memory.timers import CancelTimer, ListTimers, PauseTimers, SetTimer


def set_timer(
    note: Annotated[str, Field(min_length=1)],
    at: str | None = None,
    in_minutes: int | None = None,
    every_minutes: int | None = None,
    here: bool = False,
) -> Effect:
    """Has the agent woken later."""
    return SetTimer(note, at, in_minutes, every_minutes, here)


def list_timers() -> Effect:
    """Shows what the agent will be woken for."""
    return ListTimers()


def cancel_timer(timer: str) -> Effect:
    """Has a timer ring no more."""
    return CancelTimer(timer)


def pause_heartbeats(minutes: Annotated[int, Field(ge=0)]) -> Effect:
    """Holds all timers for some time."""
    return PauseTimers(minutes)


def send_message_to_agent(
    name: str, message: Annotated[str, Field(min_length=1)], answer: bool = False
) -> Effect:
    """Writes to another agent."""
    return SendMail(name, message, answer)


_TIMERS: tuple[Callable[..., Effect], ...] = (
    set_timer,
    list_timers,
    cancel_timer,
    pause_heartbeats,
)
_MESSAGING: tuple[Callable[..., Effect], ...] = (send_message_to_agent,)

EVENT_NAMES = frozenset(function.__name__ for function in (*_TIMERS, *_MESSAGING))
"""Names that a tool of the user's may not take."""


def event_functions(settings: Settings) -> tuple[Callable[..., Effect], ...]:
    """Those an agent with these settings has, in the order the model sees them."""
    timers = _TIMERS if settings.timers else ()
    return (*timers, *_MESSAGING) if settings.messaging else timers
