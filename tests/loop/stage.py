"""What the tests of the loop share: an agent over a script, a tool, and what they look at."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TypeAlias

from pagedaemon import tool
from pagedaemon.events import Event, ReplyDelta, Turn, TurnEnded
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.llm.protocol import Request
from pagedaemon.testing import (
    ScriptedModel,
    view,
)


@dataclass
class Stage:
    """An agent and the model behind it."""

    agent: AsyncAgent
    model: ScriptedModel


Open: TypeAlias = Callable[..., AbstractAsyncContextManager[Stage]]


@tool(effect="read")
def weather(city: str) -> str:
    """Today's weather in a city.

    Args:
        city: where.
    """
    if city == "Atlantis":
        raise LookupError("no such city")
    return f"sunny in {city}"


def beats(turn: Turn) -> list[str | None]:
    return [step.heartbeat for step in turn.steps]


def results(turn: Turn) -> list[list[tuple[str, str]]]:
    return [[(made.tool, made.status) for made in step.calls] for step in turn.steps]


def events_of(request: Request) -> list[tuple[str, str | None]]:
    return [(event["type"], event.get("reason")) for event in view(request).events]


def ended(events: list[Event]) -> Turn:
    last = events[-1]
    assert isinstance(last, TurnEnded)
    return last.turn


def spoken(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, ReplyDelta))
