"""Calls whose outcome nobody saw, and what was found out of them since.

What the model was told of such a call stands in its history and is not changed: the call stays
`unknown`. What a person says of it later is kept with what was decided of the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, func, or_, select, update

from pagedaemon.store.tables import calls, conversations, turns
from pagedaemon.store.transaction import AnyRow, Transaction

_SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class Settled:
    """What a person has said of a call whose outcome was unknown."""

    happened: bool
    """Whether it took effect."""
    note: str | None
    by: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """A call whose outcome is unknown."""

    id: str
    """Of the call; the key that its tool was given."""
    agent_id: str
    conversation_id: str
    turn_id: str
    tool: str
    arguments: Mapping[str, Any]
    told: str | None
    """What the model read; None where the step could not be finished, so that it read nothing."""
    started_at: datetime | None
    """None where the call was planned in the same commit as its result."""
    settled: Settled | None


_UNKNOWN = or_(
    and_(calls.c.status == "unknown", calls.c.effect != "read"),
    # The step could not even be closed plainly: the turn has ended over it.
    and_(calls.c.status == "started", calls.c.effect == "once", turns.c.status == "done"),
)
_ROWS = (
    select(
        calls.c.id,
        conversations.c.agent_id,
        conversations.c.id,
        turns.c.id,
        calls.c.tool,
        calls.c.arguments,
        calls.c.result,
        calls.c.started_at,
        calls.c.verdict,
    )
    .join(turns, turns.c.id == calls.c.turn_id)
    .join(conversations, conversations.c.id == turns.c.conversation_id)
    .where(_UNKNOWN)
)
_IS_SETTLED = func.json_extract(calls.c.verdict, f"$.{_SETTLED}").is_not(None)


def listed(
    tx: Transaction, *, settled: bool | None = False, agent_id: str | None = None
) -> list[OutcomeRow]:
    """The calls of the space, or of an agent, whose outcome is or was unknown, oldest first.

    Args:
        settled: those of which a person has said what happened, or those of which nobody has; None:
            both.
    """
    which: list[ColumnElement[bool]] = [calls.c.space == tx.space]
    if settled is not None:
        which.append(_IS_SETTLED if settled else ~_IS_SETTLED)
    if agent_id is not None:
        which.append(conversations.c.agent_id == agent_id)
    rows = tx.all(_ROWS.where(*which).order_by(turns.c.created_at, turns.c.seq, calls.c.seq))
    return [_row(row) for row in rows]


def by_id(tx: Transaction, call_id: str) -> OutcomeRow | None:
    """The call of that id, where its outcome is or was unknown."""
    row = tx.first(_ROWS.where(calls.c.space == tx.space, calls.c.id == call_id))
    return None if row is None else _row(row)


def settle(tx: Transaction, call_id: str, settled: Settled) -> None:
    """Keeps what a person has said of a call."""
    mine = (calls.c.space == tx.space, calls.c.id == call_id)
    verdict = tx.scalar(select(calls.c.verdict).where(*mine)) or {}
    kept = {**verdict, _SETTLED: {**asdict(settled), "at": settled.at.isoformat()}}
    tx.execute(update(calls).where(*mine).values(verdict=kept))


def _row(row: AnyRow) -> OutcomeRow:
    kept = (row[8] or {}).get(_SETTLED)
    settled = None
    if kept is not None:
        settled = Settled(**{**kept, "at": datetime.fromisoformat(kept["at"])})
    values: tuple[Any, ...] = (*row[:8], settled)
    return OutcomeRow(*values)
