"""Turns: accepted, taken up, moved on, ended, and found again. The lease of their conversation is
in `lease.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import func, insert, select, update
from sqlalchemy.sql import bindparam

from pagedaemon.agent import AgentRecord
from pagedaemon.clock import new_id
from pagedaemon.config import Model, Settings
from pagedaemon.errors import KeyConflict
from pagedaemon.messages import StopReason, TurnState, Usage
from pagedaemon.store import attachments, outbox
from pagedaemon.store.journal.keys import Key
from pagedaemon.store.journal.lease import fence
from pagedaemon.store.journal.shapes import Head, Lease, TurnRow, Wake, wake_data, wake_of
from pagedaemon.store.journal.told import STARTED, Told
from pagedaemon.store.tables import agents, conversations, turns
from pagedaemon.store.transaction import Transaction

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
        conversations.c.lease_until,
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
    agent_id, name, settings, model, tools, created, updated = row[13:]
    record = AgentRecord(
        agent_id,
        name,
        Settings.model_validate(settings),
        None if model is None else Model.model_validate(model),
        tools,
        created,
        updated,
    )
    return Head(row[0], record, *row[1:13])


_ADD_TURN = insert(turns)


def accept(
    tx: Transaction,
    at: Head,
    wake: Wake,
    *,
    owner: str | None,
    running: bool,
    now: datetime,
    key: Key | None = None,
) -> str:
    """T0: the event is durable from this commit on. Returns the turn's id.

    Args:
        owner: the process that will run it; None: whichever comes first.
        running: the turn is claimed in this same transaction, and its message stored with it.
        key: what the turn is found again by; no turn of the conversation has it yet.
    """
    turn_id = new_id("turn")
    tx.execute(
        _ADD_TURN,
        {
            "id": turn_id,
            "space": tx.space,
            "conversation_id": at.conversation_id,
            "seq": at.last_turn + 1,
            "event": wake.kind,
            "key": None if key is None else key.text,
            "body": None if running else wake_data(wake),
            "body_hash": None if key is None else key.body_hash,
            "owner": owner,
            "status": "running" if running else "queued",
            "attempts": 1 if running else 0,
            "usage": asdict(Usage()),
            "options": {} if wake.reply_schema is None else {"reply_schema": wake.reply_schema},
            "created_at": now,
            "started_at": now if running else None,
            "told": [STARTED] if running else [],
        },
    )
    if wake.attachments:
        attachments.add(tx, turn_id, wake.attachments, now)
    if not running:
        tx.execute(
            update(conversations)
            .where(conversations.c.id == at.conversation_id)
            .values(last_turn=at.last_turn + 1)
        )
    return turn_id


def take_up(tx: Transaction, turn: TurnRow, owner: str, now: datetime) -> None:
    """Marks a queued or abandoned turn as ours and running; its event now stands in the window."""
    told = [STARTED] if turn.wake is not None else turn.told
    tx.execute(
        update(turns)
        .where(turns.c.id == turn.id)
        .values(
            status="running",
            owner=owner,
            body=None,
            attempts=turn.attempts + 1,
            started_at=turn.started_at or now,
            told=told,
        )
    )


def put_back(tx: Transaction, turn_id: str, lease: Lease) -> None:
    """Leaves a turn that was begun to the next who opens the store; this time does not count.

    Raises:
        LeaseLost: another worker has claimed the conversation since.
    """
    fence(tx, lease)
    tx.execute(
        update(turns)
        .where(turns.c.id == turn_id, turns.c.status == "running")
        .values(attempts=turns.c.attempts - 1)
    )


def ask_to_stop(tx: Transaction, turn_id: str) -> None:
    """Has the process that runs a turn stop it, at its next step or when it renews its lease."""
    options = tx.scalar(
        select(turns.c.options).where(turns.c.id == turn_id, turns.c.status == "running")
    )
    if options is not None:
        stopping = {**options, _STOP: True}
        tx.execute(update(turns).where(turns.c.id == turn_id).values(options=stopping))


_STOP = "stop"


_TURN = (
    turns.c.id,
    turns.c.conversation_id,
    turns.c.seq,
    turns.c.event,
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
    turns.c.options,
    turns.c.told,
    conversations.c.lease_owner,
    conversations.c.lease_until,
)
_TURNS = select(*_TURN).join(conversations, conversations.c.id == turns.c.conversation_id)


def _turn_row(row: Any) -> TurnRow:
    body = row[7]
    schema = row[14].get("reply_schema")
    wake = wake_of({**body, "reply_schema": schema}, row[3]) if body else None
    told = None if row[15] is None else tuple(row[15])
    spent = Usage(**row[10])
    shown: tuple[Any, ...] = (*row[:7], wake, *row[8:10], spent, *row[11:14], schema, told)
    values: tuple[Any, ...] = (*shown, _STOP in row[14], *row[16:])
    return TurnRow(*values)


def turn_by_id(tx: Transaction, turn_id: str) -> TurnRow | None:
    """A turn's row."""
    row = tx.first(_TURNS.where(turns.c.id == turn_id))
    return None if row is None else _turn_row(row)


def keyed(tx: Transaction, conversation_id: str, key: Key) -> TurnRow | None:
    """The turn that was accepted under that key.

    Raises:
        KeyConflict: it was accepted for something else.
    """
    named = (turns.c.conversation_id == conversation_id, turns.c.key == key.text)
    row = tx.first(_TURNS.add_columns(turns.c.body_hash).where(*named))
    if row is None:
        return None
    if row[-1] != key.body_hash:
        raise KeyConflict(key.text, row[0])
    return _turn_row(row[:-1])


def first_open_turn(tx: Transaction, conversation_id: str) -> TurnRow | None:
    """The oldest turn of a conversation that has not ended."""
    row = tx.first(
        _TURNS.where(turns.c.conversation_id == conversation_id, turns.c.status != "done")
        .order_by(turns.c.seq)
        .limit(1)
    )
    return None if row is None else _turn_row(row)


def open_turns(tx: Transaction) -> list[TurnRow]:
    """All turns of the space that have not ended, in their order."""
    rows = tx.all(
        _TURNS.where(turns.c.space == tx.space, turns.c.status != "done").order_by(
            turns.c.conversation_id, turns.c.seq
        )
    )
    return [_turn_row(row) for row in rows]


def renew(tx: Transaction, lease: Lease, turn_id: str) -> bool:
    """As `fence`, while a turn is in hand. Returns whether it was asked to stop.

    Raises:
        LeaseLost: another worker has claimed the conversation since.
    """
    fence(tx, lease)
    return _STOP in (tx.scalar(select(turns.c.options).where(turns.c.id == turn_id)) or ())


_GOES_ON = (
    update(turns)
    .where(turns.c.id == bindparam("turn"))
    .values(usage=bindparam("spent"), attempts=1, told=bindparam("events"))
    .returning(turns.c.options)
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
        told=bindparam("events"),
    )
)


def set_turn(
    tx: Transaction,
    turn_id: str,
    usage: Usage,
    *,
    told: Sequence[Told],
    stop_reason: StopReason | None = None,
    error: str | None = None,
    ended_at: datetime | None = None,
) -> bool:
    """The turn's usage and events so far and, with a stop reason, its end. Returns whether a turn
    that goes on was asked to stop.

    A turn that goes on has got further: its attempts are counted anew, from the one that got it
    there, so that many restarts in the course of a long turn do not end it.
    """
    if stop_reason is None:
        events = {"turn": turn_id, "spent": asdict(usage), "events": list(told)}
        return _STOP in tx.scalar(_GOES_ON, events)
    tx.execute(
        _CLOSE_TURN,
        {
            "turn": turn_id,
            "reason": stop_reason,
            "problem": error,
            "spent": asdict(usage),
            "end": ended_at,
            "events": list(told),
        },
    )
    if ended_at is not None:
        outbox.queue_turn(tx, turn_id, ended_at)
    return False


def set_told(tx: Transaction, turn_id: str, told: Sequence[Told]) -> None:
    """The turn's events so far, where a commit between two steps has made one more true."""
    tx.execute(update(turns).where(turns.c.id == turn_id).values(told=list(told)))


def turns_of(
    tx: Transaction,
    conversation_id: str,
    *,
    limit: int,
    status: Sequence[TurnState] = ("done",),
) -> list[TurnRow]:
    """The newest turns of a conversation that are in one of these states, newest first."""
    rows = tx.all(
        _TURNS.where(turns.c.conversation_id == conversation_id, turns.c.status.in_(status))
        .order_by(turns.c.seq.desc())
        .limit(limit)
    )
    return [_turn_row(row) for row in rows]
