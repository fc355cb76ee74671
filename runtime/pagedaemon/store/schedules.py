"""Rows of schedules: when agents are to be woken, and whose schedules are held for a while."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import case, delete, func, insert, or_, select, update

from pagedaemon.clock import new_id
from pagedaemon.messages import Label
from pagedaemon.store.tables import pauses, schedules
from pagedaemon.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule's row."""

    id: str
    agent_id: str
    conversation_id: str
    text: str
    due: datetime
    every: float | None
    """Seconds; None for once."""
    label: Label
    """Who set it: `owner` or `agent`, or lower where the agent was told to."""
    turn_id: str | None
    """The turn it queued last."""
    created_at: datetime


_COLUMNS = (
    schedules.c.id,
    schedules.c.agent_id,
    schedules.c.conversation_id,
    schedules.c.text,
    schedules.c.due,
    schedules.c.every,
    schedules.c.trust,
    schedules.c.turn_id,
    schedules.c.created_at,
)


def add(
    tx: Transaction,
    *,
    agent_id: str,
    conversation_id: str,
    text: str,
    due: datetime,
    every: float | None,
    label: Label,
    step_id: str | None,
    now: datetime,
) -> ScheduleRow:
    """A new schedule. `every` is in seconds."""
    row = ScheduleRow(
        new_id("schedule"), agent_id, conversation_id, text, due, every, label, None, now
    )
    tx.execute(
        insert(schedules),
        {
            "id": row.id,
            "space": tx.space,
            "agent_id": agent_id,
            "conversation_id": conversation_id,
            "text": text,
            "due": due,
            "every": every,
            "trust": label,
            "step_id": step_id,
            "created_at": now,
        },
    )
    return row


def by_id(tx: Transaction, schedule_id: str) -> ScheduleRow | None:
    """The schedule of that id."""
    row = tx.first(
        select(*_COLUMNS).where(schedules.c.space == tx.space, schedules.c.id == schedule_id)
    )
    return None if row is None else ScheduleRow(*row)


def of_agent(tx: Transaction, agent_id: str) -> tuple[ScheduleRow, ...]:
    """An agent's schedules, the next due first."""
    rows = tx.all(
        select(*_COLUMNS)
        .where(schedules.c.agent_id == agent_id)
        .order_by(schedules.c.due, schedules.c.id)
    )
    return tuple(ScheduleRow(*row) for row in rows)


def count(tx: Transaction, agent_id: str) -> int:
    """How many schedules an agent has."""
    return int(
        tx.scalar(
            select(func.count()).select_from(schedules).where(schedules.c.agent_id == agent_id)
        )
    )


def remove(tx: Transaction, agent_id: str, schedule_id: str) -> bool:
    """Deletes one of an agent's schedules. Returns whether it was there."""
    gone = tx.execute(
        delete(schedules).where(schedules.c.agent_id == agent_id, schedules.c.id == schedule_id)
    )
    return gone.rowcount == 1


def move_on(tx: Transaction, schedule_id: str, due: datetime, turn_id: str) -> None:
    """Sets when a schedule is due next, and notes the turn that it has queued now."""
    tx.execute(
        update(schedules).where(schedules.c.id == schedule_id).values(due=due, turn_id=turn_id)
    )


def _held(now: datetime) -> Any:
    return pauses.c.agent_id.is_not(None) & or_(pauses.c.until.is_(None), pauses.c.until > now)


_JOINED = schedules.outerjoin(pauses, pauses.c.agent_id == schedules.c.agent_id)


def due_now(tx: Transaction, now: datetime, schedule_id: str | None = None) -> list[ScheduleRow]:
    """The schedules of the space whose time has come and which nobody holds, longest due first.

    Args:
        schedule_id: this one only.
    """
    query = (
        select(*_COLUMNS)
        .select_from(_JOINED)
        .where(schedules.c.space == tx.space, schedules.c.due <= now, ~_held(now))
        .order_by(schedules.c.due, schedules.c.id)
    )
    if schedule_id is not None:
        query = query.where(schedules.c.id == schedule_id)
    return [ScheduleRow(*row) for row in tx.all(query)]


def next_due(tx: Transaction, after: datetime) -> datetime | None:
    """The first instant after this one at which a schedule of the space will be due and not held;
    None for never, as things stand."""
    held_longer = pauses.c.agent_id.is_not(None) & (pauses.c.until > schedules.c.due)
    instant = case((held_longer, pauses.c.until), else_=schedules.c.due)
    query = (
        select(func.min(instant))
        .select_from(_JOINED)
        .where(
            schedules.c.space == tx.space,
            instant > after,
            or_(pauses.c.agent_id.is_(None), pauses.c.until.is_not(None)),
        )
    )
    found: datetime | None = tx.scalar(query)
    return found


def pause(tx: Transaction, agent_id: str, until: datetime | None) -> None:
    """Holds an agent's schedules until then; None until `resume`."""
    resume(tx, agent_id)
    tx.execute(insert(pauses), {"agent_id": agent_id, "space": tx.space, "until": until})


def resume(tx: Transaction, agent_id: str) -> bool:
    """Lets an agent's schedules go on. Returns whether they were held."""
    return tx.execute(delete(pauses).where(pauses.c.agent_id == agent_id)).rowcount == 1
