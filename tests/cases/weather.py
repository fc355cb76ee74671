"""What the cases of bad models share: an agent that may ask for the weather."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

from pagedaemon import tool
from pagedaemon.events import Event, TurnEnded
from pagedaemon.handles.agents import AsyncAgent

Open: TypeAlias = Callable[..., AbstractAsyncContextManager[AsyncAgent]]
RAN: list[str] = []


@tool(effect="read")
def weather(city: str) -> str:
    """Today's weather in a city.

    Args:
        city: where.
    """
    RAN.append(city)
    return f"sunny in {city}"


def ended(events: list[Event]) -> Any:
    last = events[-1]
    assert isinstance(last, TurnEnded)
    return last.turn
