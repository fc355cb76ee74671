"""Turns read again: as they ended, and as they were told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from pagedaemon.events import Event, StepRecord, Turn
from pagedaemon.store.journal.shapes import TurnRow
from pagedaemon.store.journal.steps import step_records
from pagedaemon.store.journal.told import Told, retold, told_again
from pagedaemon.store.transaction import Transaction


def told_so_far(row: TurnRow, steps: Sequence[StepRecord]) -> tuple[Told, ...]:
    """A turn's events, also of one that was begun before they were kept."""
    if row.told is not None:
        return row.told
    return () if row.status == "queued" else retold(steps, done=row.status == "done")


def events_after(tx: Transaction, row: TurnRow, number: int) -> list[Event]:
    """A turn's committed events with higher numbers than that."""
    if row.told is not None and len(row.told) <= number:
        return []
    steps = step_records(tx, row.id)
    ended = _turn_record(row, steps) if row.status == "done" else None
    told = told_so_far(row, steps)
    return told_again(row.id, row.conversation_id, told, steps, ended, after=number)


def turn_record(tx: Transaction, row: TurnRow) -> Turn:
    """A turn that has ended, as a listener was told of it."""
    return _turn_record(row, step_records(tx, row.id))


def _turn_record(row: TurnRow, steps: tuple[StepRecord, ...]) -> Turn:
    assert row.stop_reason is not None, "the turn has not ended"
    return Turn(
        row.id,
        row.conversation_id,
        steps,
        row.stop_reason,
        row.usage,
        row.started_at or row.created_at,
        cast(datetime, row.ended_at),
        row.error,
        len(told_so_far(row, steps)),
    )
