"""Of whose turn the running code is part, whatever handle it has of the conversation: a tool that
waited for the turn it is part of would wait for itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class _Calling:
    conversation_id: str
    lasts: bool = True
    """What the tool has begun and left behind is part of the turn no longer than the call."""


_calling: ContextVar[_Calling | None] = ContextVar("pagedaemon_calling", default=None)


@contextmanager
def calling(conversation_id: str) -> Iterator[None]:
    """While a tool is called in a turn of that conversation: holds in the threads and tasks that
    the call is run in, too."""
    call = _Calling(conversation_id)
    token = _calling.set(call)
    try:
        yield
    finally:
        call.lasts = False
        _calling.reset(token)


def is_within(conversation_id: str) -> bool:
    """Whether this is run by a tool, in a turn of that conversation."""
    call = _calling.get()
    return call is not None and call.lasts and call.conversation_id == conversation_id
