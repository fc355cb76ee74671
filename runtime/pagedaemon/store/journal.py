"""The record a turn is written into and recovered from: accept, claim, plan, start, finish, end.

Each function is part of one transaction; which of them share one is the loop's to say (DESIGN: T0
to T5). Every one after the claim begins with the fence: the conversation's epoch is still ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from sqlalchemy import func, insert, select, update
from sqlalchemy.sql import bindparam

from pagedaemon.agent import AgentRecord
from pagedaemon.clock import new_id
from pagedaemon.config import Model, Settings
from pagedaemon.errors import LeaseLost
from pagedaemon.events import BlockChange, CallRecord, StepRecord, Turn
from pagedaemon.messages import CallStatus, HeartbeatReason, Label, StopReason, Usage
from pagedaemon.store.tables import (
    agents,
    block_versions,
    blocks,
    calls,
    conversations,
    steps,
    token_factors,
    turns,
)
from pagedaemon.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Lease:
    """Exclusive use of a conversation, as long as its epoch is ours."""

    conversation_id: str
    owner: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Wake:
    """What wakes an agent: so far, a message."""

    text: str
    label: Label = "user"
    author: str | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """A conversation and its agent as a turn needs them."""

    conversation_id: str
    agent: AgentRecord
    epoch: int
    lease_owner: str | None
    last_seq: int
    last_turn: int
    window_version: int
    warned: bool
    folds: int
    summary_id: str | None
    recall_count: int
    archival_count: int
    first_open: int | None
    """Number of the oldest turn that has not ended."""


@dataclass(frozen=True, slots=True)
class TurnRow:
    """A turn's row."""

    id: str
    conversation_id: str
    seq: int
    status: str
    owner: str | None
    attempts: int
    wake: Wake | None
    stop_reason: StopReason | None
    error: str | None
    usage: Usage
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One call of a planned step, and how far it came."""

    id: str
    seq: int
    wire_id: str
    tool: str
    arguments: Mapping[str, Any]
    raw: str
    effect: str
    status: CallStatus
    heartbeat: bool
    result: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A reply of the model that has been stored: it is never asked for again."""

    step_id: str
    seq: int
    heartbeat: HeartbeatReason | None
    reply: Mapping[str, Any]
    context_hash: str
    block_versions: Mapping[str, int]
    model: str
    usage: Usage
    created_at: datetime
    calls: tuple[PlannedCall, ...] = ()


_first_open = (
    select(func.min(turns.c.seq))
    .where(turns.c.conversation_id == conversations.c.id, turns.c.status != "done")
    .scalar_subquery()
)
_HEAD = (
    select(
        conversations.c.id,
        conversations.c.epoch,
        conversations.c.lease_owner,
        conversations.c.last_seq,
        conversations.c.last_turn,
        conversations.c.window_version,
        conversations.c.warned,
        conversations.c.folds,
        conversations.c.summary_id,
        agents.c.recall_count,
        agents.c.archival_count,
        _first_open,
        agents.c.id,
        agents.c.name,
        agents.c.settings,
        agents.c.model,
        agents.c.tools,
        agents.c.created_at,
        agents.c.updated_at,
    )
    .join(agents, agents.c.id == conversations.c.agent_id)
    .where(conversations.c.id == bindparam("conversation"))
)


def head(tx: Transaction, conversation_id: str) -> Head | None:
    """A conversation and its agent as they are now."""
    row = tx.first(_HEAD, {"conversation": conversation_id})
    if row is None:
        return None
    agent_id, name, settings, model, tools, created, updated = row[12:]
    record = AgentRecord(
        agent_id,
        name,
        Settings.model_validate(settings),
        None if model is None else Model.model_validate(model),
        tools,
        created,
        updated,
    )
    return Head(row[0], record, *row[1:12])


_ADD_TURN = insert(turns)


def accept(
    tx: Transaction, at: Head, wake: Wake, *, owner: str, running: bool, now: datetime
) -> str:
    """T0: the event is durable from this commit on. Returns the turn's id.

    Args:
        running: the turn is claimed in this same transaction, and its message stored with it.
    """
    turn_id = new_id("turn")
    tx.execute(
        _ADD_TURN,
        {
            "id": turn_id,
            "space": tx.space,
            "conversation_id": at.conversation_id,
            "seq": at.last_turn + 1,
            "event": "message",
            "body": None if running else asdict(wake),
            "owner": owner,
            "status": "running" if running else "queued",
            "attempts": 1 if running else 0,
            "usage": asdict(Usage()),
            "options": {},
            "created_at": now,
            "started_at": now if running else None,
        },
    )
    if not running:
        tx.execute(
            update(conversations)
            .where(conversations.c.id == at.conversation_id)
            .values(last_turn=at.last_turn + 1)
        )
    return turn_id


_CLAIM = (
    update(conversations)
    .where(conversations.c.id == bindparam("conversation"))
    .values(
        epoch=bindparam("next_epoch"),
        lease_owner=bindparam("owner"),
        lease_until=bindparam("until"),
        last_turn=bindparam("turn_seq"),
        last_seq=bindparam("seq"),
        window_version=bindparam("version"),
        warned=bindparam("is_warned"),
    )
)


def claim(
    tx: Transaction,
    at: Head,
    *,
    owner: str,
    last_turn: int,
    last_seq: int,
    warned: bool,
    until: datetime,
) -> Lease:
    """T1: takes the conversation, fencing off whoever had it before."""
    tx.execute(
        _CLAIM,
        {
            "conversation": at.conversation_id,
            "next_epoch": at.epoch + 1,
            "owner": owner,
            "until": until,
            "turn_seq": last_turn,
            "seq": last_seq,
            "version": at.window_version + 1,
            "is_warned": warned,
        },
    )
    return Lease(at.conversation_id, owner, at.epoch + 1)


def take_up(tx: Transaction, turn: TurnRow, owner: str, now: datetime) -> None:
    """Marks a queued or abandoned turn as ours and running; its event now stands in the window."""
    tx.execute(
        update(turns)
        .where(turns.c.id == turn.id)
        .values(
            status="running",
            owner=owner,
            body=None,
            attempts=turn.attempts + 1,
            started_at=turn.started_at or now,
        )
    )


def put_back(tx: Transaction, turn_id: str) -> None:
    """Leaves a turn that was taken up to the next who opens the store; this time does not count."""
    tx.execute(
        update(turns)
        .where(turns.c.id == turn_id, turns.c.status == "running")
        .values(attempts=turns.c.attempts - 1)
    )


_TURN = (
    turns.c.id,
    turns.c.conversation_id,
    turns.c.seq,
    turns.c.status,
    turns.c.owner,
    turns.c.attempts,
    turns.c.body,
    turns.c.stop_reason,
    turns.c.error,
    turns.c.usage,
    turns.c.created_at,
    turns.c.started_at,
    turns.c.ended_at,
)


def _turn_row(row: Any) -> TurnRow:
    body = row[6]
    wake = Wake(**body) if body else None
    values: tuple[Any, ...] = (*row[:6], wake, *row[7:9], Usage(**row[9]), *row[10:])
    return TurnRow(*values)


def turn_by_id(tx: Transaction, turn_id: str) -> TurnRow | None:
    """A turn's row."""
    row = tx.first(select(*_TURN).where(turns.c.id == turn_id))
    return None if row is None else _turn_row(row)


def first_open_turn(tx: Transaction, conversation_id: str) -> TurnRow | None:
    """The oldest turn of a conversation that has not ended."""
    row = tx.first(
        select(*_TURN)
        .where(turns.c.conversation_id == conversation_id, turns.c.status != "done")
        .order_by(turns.c.seq)
        .limit(1)
    )
    return None if row is None else _turn_row(row)


def open_turns(tx: Transaction) -> list[TurnRow]:
    """All turns of the space that have not ended, in their order."""
    rows = tx.all(
        select(*_TURN)
        .where(turns.c.space == tx.space, turns.c.status != "done")
        .order_by(turns.c.conversation_id, turns.c.seq)
    )
    return [_turn_row(row) for row in rows]


_FENCE = (
    update(conversations)
    .where(
        conversations.c.id == bindparam("conversation"),
        conversations.c.epoch == bindparam("ours"),
        conversations.c.lease_owner == bindparam("me"),
    )
    .values(lease_until=bindparam("until"))
)


def fence(tx: Transaction, lease: Lease, now: datetime, seconds: float) -> None:
    """Renews the lease, or finds out that it is no longer ours.

    Raises:
        LeaseLost: another worker has claimed the conversation since.
    """
    _fenced(tx, lease, _FENCE, {"until": now + timedelta(seconds=seconds)})


def _fenced(tx: Transaction, lease: Lease, statement: Any, values: dict[str, Any]) -> None:
    keys = {"conversation": lease.conversation_id, "ours": lease.epoch, "me": lease.owner}
    if tx.execute(statement, {**keys, **values}).rowcount != 1:
        raise LeaseLost(
            f"conversation {lease.conversation_id} was taken over by another worker; "
            "nothing of this step was written"
        )


_MOVED = _FENCE.values(
    last_seq=bindparam("seq"),
    window_version=bindparam("version"),
    warned=bindparam("is_warned"),
    lease_owner=bindparam("next_owner"),
    lease_until=bindparam("until"),
)


def moved(
    tx: Transaction,
    lease: Lease,
    *,
    last_seq: int,
    window_version: int,
    warned: bool,
    until: datetime | None,
) -> None:
    """Fence and conversation row of a finished step; with `until` None the lease is given back.

    Raises:
        LeaseLost: another worker has claimed the conversation since.
    """
    _fenced(
        tx,
        lease,
        _MOVED,
        {
            "seq": last_seq,
            "version": window_version,
            "is_warned": warned,
            "until": until,
            "next_owner": None if until is None else lease.owner,
        },
    )


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
                    "ended_at": ended_at,
                }
                for call in planned
            ],
        )


def start(tx: Transaction, call_id: str, now: datetime) -> None:
    """T4: the start mark of a call that must never run twice in silence."""
    tx.execute(update(calls).where(calls.c.id == call_id).values(status="started", started_at=now))


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


_GOES_ON = (
    update(turns)
    .where(turns.c.id == bindparam("turn"))
    .values(usage=bindparam("spent"), attempts=1)
)
_CLOSE_TURN = (
    update(turns)
    .where(turns.c.id == bindparam("turn"))
    .values(
        status="done",
        stop_reason=bindparam("reason"),
        error=bindparam("problem"),
        usage=bindparam("spent"),
        ended_at=bindparam("end"),
    )
)


def set_turn(
    tx: Transaction,
    turn_id: str,
    usage: Usage,
    *,
    stop_reason: StopReason | None = None,
    error: str | None = None,
    ended_at: datetime | None = None,
) -> None:
    """The turn's usage so far and, with a stop reason, its end.

    A turn that goes on has got further: its attempts are counted anew, from the one that got it
    there, so that many restarts in the course of a long turn do not end it.
    """
    if stop_reason is None:
        tx.execute(_GOES_ON, {"turn": turn_id, "spent": asdict(usage)})
        return
    tx.execute(
        _CLOSE_TURN,
        {
            "turn": turn_id,
            "reason": stop_reason,
            "problem": error,
            "spent": asdict(usage),
            "end": ended_at,
        },
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
    found = tx.all(select(*_CALL).where(calls.c.step_id == row[0]).order_by(calls.c.seq))
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
    made: dict[str, list[CallRecord]] = {row[0]: [] for row in rows}
    done = tx.all(
        select(calls.c.step_id, *_CALL).where(calls.c.turn_id == turn_id).order_by(calls.c.seq)
    )
    for (
        step_id,
        _id,
        _seq,
        wire_id,
        tool,
        arguments,
        _raw,
        _effect,
        status,
        heartbeat,
        text,
    ) in done:
        if step_id in made:
            made[step_id].append(
                CallRecord(wire_id, tool, arguments, text or "", status, heartbeat)
            )
    changes = _changes(tx, turn_id)
    return tuple(
        StepRecord(
            row[0],
            row[1],
            row[2],
            row[3],
            tuple(row[4]),
            tuple(made[row[0]]),
            tuple(changes.get(row[0], ())),
            Usage(**row[5]),
            row[6],
        )
        for row in rows
    )


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
        .order_by(after.c.block_id, after.c.version)
    )
    changes: dict[str, list[BlockChange]] = {}
    for step_id, *change in rows:
        changes.setdefault(step_id, []).append(BlockChange(*change))
    return changes


def turn_record(tx: Transaction, row: TurnRow) -> Turn:
    """A turn that has ended, as a listener was told of it."""
    assert row.stop_reason is not None, "the turn has not ended"
    return Turn(
        row.id,
        row.conversation_id,
        step_records(tx, row.id),
        row.stop_reason,
        row.usage,
        row.started_at or row.created_at,
        cast(datetime, row.ended_at),
        row.error,
    )


def turns_of(tx: Transaction, conversation_id: str, *, limit: int) -> list[TurnRow]:
    """The newest turns of a conversation that have ended, newest first."""
    rows = tx.all(
        select(*_TURN)
        .where(turns.c.conversation_id == conversation_id, turns.c.status == "done")
        .order_by(turns.c.seq.desc())
        .limit(limit)
    )
    return [_turn_row(row) for row in rows]


def factors(tx: Transaction) -> dict[str, float]:
    """Per model: the learnt correction of our token counts."""
    table = token_factors.c
    rows = tx.all(select(table.model, table.factor).where(table.space == tx.space))
    return {row[0]: row[1] for row in rows}


def set_factor(tx: Transaction, model: str, factor: float) -> None:
    """Keeps a model's correction."""
    keys = (token_factors.c.model == model) & (token_factors.c.space == tx.space)
    if tx.execute(update(token_factors).where(keys).values(factor=factor)).rowcount == 0:
        tx.execute(insert(token_factors), {"model": model, "space": tx.space, "factor": factor})
