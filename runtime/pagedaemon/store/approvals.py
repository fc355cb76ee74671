"""Rows of approvals: calls that wait for a person, and what was answered."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import func, insert, select, update

from pagedaemon.store.tables import approvals, calls, steps
from pagedaemon.store.transaction import Transaction

Status = Literal["pending", "approved", "denied", "expired", "used"]
"""`approved`: to be run as soon as its conversation is free. `used`: it has been, or was begun."""


@dataclass(frozen=True, slots=True)
class ApprovalRow:
    """An approval's row."""

    id: str
    agent_id: str
    conversation_id: str
    turn_id: str
    """The turn whose reply made the call."""
    call_id: str
    seq: int
    """The call's number in its step."""
    tool: str
    arguments: Mapping[str, Any]
    hash: str
    """Of tool and arguments as they were shown: `call_hash`."""
    schema_hash: str
    """`Tool.schema_hash` when the call was made."""
    why: str
    is_tainted: bool
    """Whether text from outside stood in the window."""
    status: Status
    reason: str | None
    created_at: datetime
    expires_at: datetime
    answered_at: datetime | None = None
    answered_by: str | None = None


_COLUMNS = (
    approvals.c.id,
    approvals.c.agent_id,
    approvals.c.conversation_id,
    approvals.c.turn_id,
    approvals.c.call_id,
    approvals.c.seq,
    approvals.c.tool,
    approvals.c.arguments,
    approvals.c.hash,
    approvals.c.schema_hash,
    approvals.c.why,
    approvals.c.is_tainted,
    approvals.c.status,
    approvals.c.reason,
    approvals.c.created_at,
    approvals.c.expires_at,
    approvals.c.answered_at,
    approvals.c.answered_by,
)


def call_hash(tool: str, arguments: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of a call as canonical JSON: what an answer is bound to."""
    text = json.dumps([tool, arguments], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def add(tx: Transaction, row: ApprovalRow) -> None:
    """A call that waits."""
    values = {column.name: getattr(row, column.name) for column in _COLUMNS}
    tx.execute(insert(approvals), {**values, "space": tx.space, "arguments": dict(row.arguments)})


def by_id(tx: Transaction, approval_id: str) -> ApprovalRow | None:
    """The approval of that id."""
    row = tx.first(
        select(*_COLUMNS).where(approvals.c.space == tx.space, approvals.c.id == approval_id)
    )
    return None if row is None else ApprovalRow(*row)


def listed(
    tx: Transaction, *, status: Status | None = None, agent_id: str | None = None
) -> list[ApprovalRow]:
    """The approvals of the space, or of an agent, in that state or in any, oldest first."""
    query = select(*_COLUMNS).where(approvals.c.space == tx.space)
    if status is not None:
        query = query.where(approvals.c.status == status)
    if agent_id is not None:
        query = query.where(approvals.c.agent_id == agent_id)
    rows = tx.all(query.order_by(approvals.c.created_at, approvals.c.seq, approvals.c.id))
    return [ApprovalRow(*row) for row in rows]


def overdue(tx: Transaction, now: datetime) -> list[ApprovalRow]:
    """The pending approvals of the space whose time is over, longest first."""
    rows = tx.all(
        select(*_COLUMNS)
        .where(
            approvals.c.space == tx.space,
            approvals.c.status == "pending",
            approvals.c.expires_at <= now,
        )
        .order_by(approvals.c.expires_at, approvals.c.id)
    )
    return [ApprovalRow(*row) for row in rows]


def next_expiry(tx: Transaction) -> datetime | None:
    """When the time of the next pending approval of the space is over; None where there is none."""
    found: datetime | None = tx.scalar(
        select(func.min(approvals.c.expires_at)).where(
            approvals.c.space == tx.space, approvals.c.status == "pending"
        )
    )
    return found


def move(
    tx: Transaction,
    approval_id: str,
    before: Status,
    after: Status,
    *,
    reason: str | None = None,
    by: str | None = None,
    now: datetime,
) -> bool:
    """Brings an approval from one state to another, with who did it and why; what was answered
    before stays where nothing new is given.

    Returns:
        whether it was in that state.
    """
    values: dict[str, Any] = {"status": after}
    if before == "pending":
        values |= {"answered_at": now, "answered_by": by}
    if reason is not None:
        values["reason"] = reason
    moved = tx.execute(
        update(approvals)
        .where(
            approvals.c.space == tx.space,
            approvals.c.id == approval_id,
            approvals.c.status == before,
        )
        .values(**values)
    )
    return moved.rowcount == 1


def versions_seen(tx: Transaction, call_id: str) -> dict[str, int]:
    """Block id to the version that stood in the prompt when a call was made."""
    seen = tx.scalar(
        select(steps.c.block_versions)
        .join(calls, calls.c.step_id == steps.c.id)
        .where(calls.c.id == call_id)
    )
    return dict(seen or {})
