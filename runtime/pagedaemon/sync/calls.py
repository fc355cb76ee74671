"""What is told of any call of which a person has the last word, through the blocking door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pagedaemon.handles.calls import AsyncCall
from pagedaemon.sync.delegate import Handle, blocking

H = TypeVar("H", bound=AsyncCall[Any])


@blocking(AsyncCall)
class Call(Handle[H]):
    """A call of which a person has the last word, as it was when it was read."""

    @property
    def tool(self) -> str:
        return self._inner.tool

    @property
    def arguments(self) -> Mapping[str, Any]:
        return self._inner.arguments

    @property
    def agent_id(self) -> str:
        return self._inner.agent_id

    @property
    def conversation_id(self) -> str:
        return self._inner.conversation_id
