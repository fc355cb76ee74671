"""What a turn has told: its committed events, in order, as its row keeps them.

An event's number is its place, from 1. It is written by the statement of the commit that makes the
event true, so that there is none before its commit and none is lost with it. Kept is only what no
other row says: a step's record and the turn's end are read from their own rows, so that nothing
said or remembered stands in a second place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, TypeAlias

from pagedaemon.events import (
    Event,
    HeartbeatEvent,
    PagedOut,
    StepFinished,
    StepRecord,
    Turn,
    TurnEnded,
    TurnStarted,
)

Told: TypeAlias = dict[str, Any]

STARTED: Told = {"type": "turn_started"}
"""The first of every turn that was begun."""

ENDED: Told = {"type": "turn_ended"}
"""The last of every turn."""


def with_events(
    told: Sequence[Told], events: Sequence[Event]
) -> tuple[tuple[Told, ...], tuple[Event, ...]]:
    """What a turn has told when these events are committed too, and the events with their numbers.

    Args:
        told: before them.
        events: finished steps, page-outs and heartbeats.
    """
    first = len(told) + 1
    numbered = tuple(
        replace(event, number=number) for number, event in enumerate(events, start=first)
    )
    return (*told, *map(_kept, events)), numbered


def _kept(event: Event) -> Told:
    if isinstance(event, StepFinished):
        return {"type": event.type, "step": event.record.seq}
    if isinstance(event, HeartbeatEvent | PagedOut):
        kept = asdict(event)
        del kept["turn_id"], kept["number"]
        return kept
    raise TypeError(f"{type(event).__name__} is not kept in this way")


def told_again(
    turn_id: str,
    conversation_id: str,
    told: Sequence[Told],
    steps: Sequence[StepRecord],
    ended: Turn | None,
    *,
    after: int = 0,
) -> list[Event]:
    """The events of a turn, as they were told.

    Args:
        steps: its finished steps.
        ended: the turn, where it has ended.
        after: the number after which to begin.
    """
    records = {step.seq: step for step in steps}
    events: list[Event] = []
    for number, kept in enumerate(told[after:], start=after + 1):
        fields = {name: value for name, value in kept.items() if name != "type"}
        match kept["type"]:
            case "turn_started":
                events.append(TurnStarted(turn_id, conversation_id, number=number))
            case "step_finished":
                events.append(StepFinished(turn_id, records[kept["step"]], number=number))
            case "heartbeat":
                events.append(HeartbeatEvent(turn_id, **fields, number=number))
            case "paged_out":
                events.append(PagedOut(turn_id, **fields, number=number))
            case _:
                assert ended is not None, "a turn that has told its end has ended"
                events.append(TurnEnded.of(ended))
    return events


def retold(steps: Sequence[StepRecord], *, done: bool) -> tuple[Told, ...]:
    """What a turn has told that was begun before that was kept: its page-outs are not known."""
    told = [STARTED]
    for number, step in enumerate(steps):
        if number and step.heartbeat is not None:
            told.append({"type": "heartbeat", "reason": step.heartbeat})
        told.append({"type": "step_finished", "step": step.seq})
    return (*told, ENDED) if done else tuple(told)
