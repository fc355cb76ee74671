"""What a listener is told."""

from __future__ import annotations

from typing import get_args

from pagedaemon import events
from pagedaemon.events import Event, EventBase


def test_any_event_is_one_of_all_there_are() -> None:
    kinds = [
        kind
        for kind in vars(events).values()
        if isinstance(kind, type) and issubclass(kind, EventBase) and kind is not EventBase
    ]
    assert set(get_args(Event)) == set(kinds)
