"""Typed replies as a user holds them: the turn with its value, the stream where that grows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import fields, replace
from typing import Any, TypeVar

from pagedaemon.errors import ReplyInvalid
from pagedaemon.events import Event, Turn, TurnEnded, TypedTurn
from pagedaemon.turn.expected import Expected, Unfit

T = TypeVar("T")


def typed_turn(turn: Turn, expected: Expected[T]) -> TypedTurn[T]:
    """The turn with the value of its last reply.

    Raises:
        ReplyInvalid: it ended without a reply of that type.
    """
    if not turn.replies:
        problems = (turn.error,) if turn.error else ()
        raise ReplyInvalid(turn.id, turn.stop_reason, None, problems)
    verdict = expected.read(turn.replies[-1])
    if isinstance(verdict, Unfit):
        raise ReplyInvalid(turn.id, turn.stop_reason, turn.replies[-1], verdict.problems)
    same: dict[str, Any] = {one.name: getattr(turn, one.name) for one in fields(turn)}
    return TypedTurn(**same, value=verdict.value)


async def typed_events(
    events: AsyncIterator[Event], expected: Expected[Any]
) -> AsyncGenerator[Event, None]:
    """The events of a turn, with the value as it grows and, at the end, as it is.

    Raises:
        ReplyInvalid: it ended without a reply of that type; after its last event.
    """
    from pagedaemon.turn.typed import Growing

    growing = Growing(expected)
    missing: ReplyInvalid | None = None
    async for event in events:
        if isinstance(event, TurnEnded):
            try:
                event = replace(event, turn=typed_turn(event.turn, expected))
            except ReplyInvalid as error:
                missing = error
        yield event
        partial = growing.hear(event)
        if partial is not None:
            yield partial
    if missing is not None:
        raise missing
