"""Talking to an agent, and its turns in the background, through the blocking door."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeVar, overload

from pagedaemon.events import ContextReport, Event, Turn, TypedTurn
from pagedaemon.handles.content import Content
from pagedaemon.handles.talking import AsyncTalking
from pagedaemon.handles.turns import AsyncTurnHandle, TurnStatus
from pagedaemon.messages import Message
from pagedaemon.sync.delegate import Handle, blocking

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")
A = TypeVar("A", bound=AsyncTalking)


@blocking(AsyncTurnHandle)
class TurnHandle(Handle[AsyncTurnHandle]):
    """A turn that goes on whether or not anybody waits for it, in whatever process."""

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def conversation_id(self) -> str:
        return self._inner.conversation_id

    def status(self) -> TurnStatus:
        return self._door.wait(self._inner.status())

    def wait(self, timeout: float | None = None) -> Turn:
        return self._door.wait(self._inner.wait(timeout))

    def stop(self) -> Turn:
        return self._door.wait(self._inner.stop())


@blocking(AsyncTalking)
class Talking(Handle[A]):
    """What can be talked to: a conversation, or an agent, whose conversation is then `main`."""

    @overload
    def send(
        self,
        content: Content,
        *,
        author: str | None = None,
        reply_type: None = None,
        key: str | None = None,
    ) -> Turn: ...

    @overload
    def send(
        self,
        content: Content,
        *,
        author: str | None = None,
        reply_type: TypeForm[T],
        key: str | None = None,
    ) -> TypedTurn[T]: ...

    def send(
        self,
        content: Content,
        *,
        author: str | None = None,
        reply_type: TypeForm[Any] | None = None,
        key: str | None = None,
    ) -> Turn:
        return self._door.wait(
            self._inner.send(content, author=author, reply_type=reply_type, key=key)
        )

    def send_later(
        self, content: Content, *, author: str | None = None, key: str | None = None
    ) -> TurnHandle:
        held = self._door.wait(self._inner.send_later(content, author=author, key=key))
        return TurnHandle(self._door, held)

    def stream(
        self,
        content: Content,
        *,
        author: str | None = None,
        reply_type: TypeForm[Any] | None = None,
        key: str | None = None,
    ) -> Generator[Event, None, None]:
        return self._door.iterate(
            self._inner.stream(content, author=author, reply_type=reply_type, key=key)
        )

    def heartbeat(self, *, key: str | None = None) -> Turn:
        return self._door.wait(self._inner.heartbeat(key=key))

    def stream_heartbeat(self, *, key: str | None = None) -> Generator[Event, None, None]:
        return self._door.iterate(self._inner.stream_heartbeat(key=key))

    def cancel(self) -> int:
        return self._door.wait(self._inner.cancel())

    def context(self) -> ContextReport:
        return self._door.wait(self._inner.context())

    def reset(self) -> int:
        return self._door.wait(self._inner.reset())

    def pop(self) -> list[Message]:
        return self._door.wait(self._inner.pop())
