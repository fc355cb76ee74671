"""Steps and their calls: planned, started, brought to their end, and read again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.sql import bindparam

from pagedaemon.events import BlockChange, CallRecord, StepRecord
from pagedaemon.messages import CallStatus, Usage
from pagedaemon.store.journal.shapes import Plan, PlannedCall
from pagedaemon.store.tables import block_versions, blocks, calls, steps
from pagedaemon.store.transaction import Transaction

_ADD_STEP = insert(steps)
_ADD_CALLS = insert(calls)


def plan(tx: Transaction, turn_id: str, planned: Plan) -> None:
    """T3: the whole reply and what it means to do, before any of it is done."""
    _add_step(tx, turn_id, planned, status="planned", record=None)
    _add_calls(tx, turn_id, planned.step_id, planned.calls, None)


def _add_step(
    tx: Transaction, turn_id: str, planned: Plan, *, status: str, record: StepRecord | None
) -> None:
    tx.execute(
        _ADD_STEP,
        {
            "id": planned.step_id,
            "space": tx.space,
            "turn_id": turn_id,
            "seq": planned.seq,
            "heartbeat": planned.heartbeat,
            "status": status,
            "thoughts": "" if record is None else record.thoughts,
            "replies": [] if record is None else list(record.replies),
            "note": "" if record is None else record.note,
            "context_hash": planned.context_hash,
            "block_versions": dict(planned.block_versions),
            "reply": dict(planned.reply) if record is None else None,
            "model": planned.model,
            "usage": asdict(planned.usage),
            "created_at": planned.created_at,
        },
    )


def _add_calls(
    tx: Transaction,
    turn_id: str,
    step_id: str,
    planned: Sequence[PlannedCall],
    ended_at: datetime | None,
) -> None:
    if planned:
        tx.execute(
            _ADD_CALLS,
            [
                {
                    "id": call.id,
                    "space": tx.space,
                    "step_id": step_id,
                    "turn_id": turn_id,
                    "seq": call.seq,
                    "wire_id": call.wire_id,
                    "tool": call.tool,
                    "arguments": dict(call.arguments),
                    "raw": call.raw,
                    "effect": call.effect,
                    "status": call.status,
                    "heartbeat": call.heartbeat,
                    "result": call.result,
                    "verdict": None if call.verdict is None else dict(call.verdict),
                    "ended_at": ended_at,
                }
                for call in planned
            ],
        )


def start(tx: Transaction, call_id: str, now: datetime) -> None:
    """T4: the start mark of a call that must never run twice in silence."""
    tx.execute(update(calls).where(calls.c.id == call_id).values(status="started", started_at=now))


def not_begun(tx: Transaction, call_id: str) -> None:
    """Takes a start mark back: the call is known never to have run, and may be."""
    tx.execute(
        update(calls).where(calls.c.id == call_id).values(status="intended", started_at=None)
    )


def result(tx: Transaction, call_id: str, status: CallStatus, text: str, now: datetime) -> None:
    """T4: what a call with outside effects came to."""
    tx.execute(
        update(calls).where(calls.c.id == call_id).values(status=status, result=text, ended_at=now)
    )


_CLOSE_STEP = (
    update(steps)
    .where(steps.c.id == bindparam("step"))
    .values(
        status="done",
        thoughts=bindparam("said_inside"),
        replies=bindparam("said"),
        note=bindparam("remark"),
        reply=None,
    )
)
_CLOSE_CALL = (
    update(calls)
    .where(calls.c.id == bindparam("call"))
    .values(status=bindparam("state"), result=bindparam("text"), ended_at=bindparam("end"))
)


def close_step(
    tx: Transaction,
    turn_id: str,
    planned: Plan,
    record: StepRecord,
    done: Sequence[PlannedCall],
    *,
    was_planned: bool,
    now: datetime,
) -> None:
    """T5's rows of the step and its calls, written now or brought to their end."""
    if not was_planned:
        _add_step(tx, turn_id, planned, status="done", record=record)
        _add_calls(tx, turn_id, planned.step_id, done, now)
        return
    tx.execute(
        _CLOSE_STEP,
        {
            "step": planned.step_id,
            "said_inside": record.thoughts,
            "said": list(record.replies),
            "remark": record.note,
        },
    )
    if done:
        tx.execute(
            _CLOSE_CALL,
            [
                {"call": call.id, "state": call.status, "text": call.result, "end": now}
                for call in done
            ],
        )


_CALL = (
    calls.c.id,
    calls.c.seq,
    calls.c.wire_id,
    calls.c.tool,
    calls.c.arguments,
    calls.c.raw,
    calls.c.effect,
    calls.c.status,
    calls.c.heartbeat,
    calls.c.result,
)


def open_plan(tx: Transaction, turn_id: str) -> Plan | None:
    """The step of a turn that was planned and not finished."""
    column = steps.c
    row = tx.first(
        select(
            column.id,
            column.seq,
            column.heartbeat,
            column.reply,
            column.context_hash,
            column.block_versions,
            column.model,
            column.usage,
            column.created_at,
        ).where(column.turn_id == turn_id, column.status == "planned")
    )
    if row is None:
        return None
    found = tx.all(
        select(*_CALL, calls.c.verdict).where(calls.c.step_id == row[0]).order_by(calls.c.seq)
    )
    planned = tuple(PlannedCall(*call) for call in found)
    values: tuple[Any, ...] = (*row[:7], Usage(**row[7]), row[8], planned)
    return Plan(*values)


def step_records(tx: Transaction, turn_id: str) -> tuple[StepRecord, ...]:
    """The finished steps of a turn, with their calls and block changes."""
    column = steps.c
    rows = tx.all(
        select(
            column.id,
            column.seq,
            column.heartbeat,
            column.thoughts,
            column.replies,
            column.usage,
            column.note,
        )
        .where(column.turn_id == turn_id, column.status == "done")
        .order_by(column.seq)
    )
    made = _calls_made(tx, turn_id)
    changes = _changes(tx, turn_id)
    return tuple(
        StepRecord(
            row[0],
            row[1],
            row[2],
            row[3],
            tuple(row[4]),
            tuple(made.get(row[0], ())),
            tuple(changes.get(row[0], ())),
            Usage(**row[5]),
            row[6],
        )
        for row in rows
    )


def _calls_made(tx: Transaction, turn_id: str) -> dict[str, list[CallRecord]]:
    """The calls of each step of a turn."""
    column = calls.c
    rows = tx.all(
        select(
            column.step_id,
            column.wire_id,
            column.tool,
            column.arguments,
            column.result,
            column.status,
            column.heartbeat,
        )
        .where(column.turn_id == turn_id)
        .order_by(column.seq)
    )
    made: dict[str, list[CallRecord]] = {}
    for step_id, wire_id, tool, arguments, text, status, heartbeat in rows:
        call = CallRecord(wire_id, tool, arguments, text or "", status, heartbeat)
        made.setdefault(step_id, []).append(call)
    return made


def _changes(tx: Transaction, turn_id: str) -> dict[str, list[BlockChange]]:
    before = block_versions.alias("before")
    after = block_versions
    rows = tx.all(
        select(
            after.c.step_id,
            after.c.block_id,
            blocks.c.label,
            after.c.version,
            before.c.value,
            after.c.value,
        )
        .join(blocks, blocks.c.id == after.c.block_id)
        .join(
            before,
            (before.c.block_id == after.c.block_id) & (before.c.version == after.c.version - 1),
        )
        .where(after.c.turn_id == turn_id)
        .order_by(blocks.c.label, after.c.version)
    )
    changes: dict[str, list[BlockChange]] = {}
    for step_id, *change in rows:
        changes.setdefault(step_id, []).append(BlockChange(*change))
    return changes
