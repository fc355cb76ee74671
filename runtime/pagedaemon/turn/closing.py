"""Ending what does not end by itself: a turn that is stopped, and a step that cannot be finished as
it was meant."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from pagedaemon.clock import Clock
from pagedaemon.errors import Closed, LeaseLost, NotFound, StoreError
from pagedaemon.events import StepFinished, StepRecord, Turn
from pagedaemon.messages import Message, StopReason, Usage, storable
from pagedaemon.resources import Prompts
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import blocks as block_rows
from pagedaemon.store import conversations as rows
from pagedaemon.store import journal
from pagedaemon.store.database import Database
from pagedaemon.store.transaction import Transaction
from pagedaemon.turn.answering import answer
from pagedaemon.turn.approving import keep_waiting
from pagedaemon.turn.body import Body
from pagedaemon.turn.draft import (
    Draft,
    spoken,
    take_up_plainly,
    take_up_stopped,
)
from pagedaemon.turn.finish import Finished, Stopped, call_records, finish_step
from pagedaemon.turn.messages import step_messages
from pagedaemon.turn.state import OpenTurn
from pagedaemon.turn.usage import believable
from pagedaemon.turn.withholding import hide, withhold

logger = logging.getLogger("pagedaemon")


async def end(
    store: Database,
    clock: Clock,
    turn: OpenTurn,
    reason: StopReason,
    error: str | None = None,
    *,
    withheld: Sequence[Message] = (),
) -> Turn:
    """Ends a turn outside a step: cancelled, failed, or not to be taken up again.

    Args:
        withheld: messages whose pictures are shown as placeholders from now on.

    Raises:
        LeaseLost: another worker has taken the conversation over.
        StoreError: the store failed.
    """
    # A provider's own words stand in it.
    error = None if error is None else storable(error)
    now = clock.now()
    turn.ended = await store.write(lambda tx: _ended(tx, turn, reason, error, now, withheld))
    if withheld:
        hide(turn, withheld)
    turn.stirs |= turn.asked
    return turn.ended


async def close(
    store: Database,
    clock: Clock,
    turn: OpenTurn,
    reason: StopReason,
    error: str | None,
    factor: float | None,
) -> Turn:
    """Ends a turn from outside: a step that has begun to act closes whole, any other never was.
    A turn that has ended by itself meanwhile stays as it ended.

    A step that cannot be closed whole ends the turn with `error`: its reply and what its
    outside calls came to are kept, its memory edits are not made. Where not even that can be
    written, the error names the tools that may have run.

    Args:
        factor: as in `finish_step`.

    Raises:
        NotFound: it was deleted with its conversation.
        LeaseLost: another worker has taken the conversation over.
        StoreError: the store failed.
    """
    error = None if error is None else storable(error)
    # Among the writes, so that a commit that was on its way when we were stopped is seen.
    plan = await store.write(lambda tx: _refresh(tx, turn))
    if turn.ended is not None:
        return turn.ended
    if plan is None:
        return await end(store, clock, turn, reason, error)
    try:
        draft = take_up_stopped(turn.body, plan, turn.begun)
        stopped = Stopped(reason, error)
        finished = await finish_step(store, clock, turn, draft, factor=factor, stopped=stopped)
    except (StoreError, Closed):
        raise
    # A template, an effect, a value no column holds: whatever it was, it would be met again at
    # each start, and the conversation never be free.
    except Exception as broken:  # noqa: BLE001
        return await _close_plainly(store, clock, turn, plan, error, broken)
    assert finished.ended is not None, "a step that is stopped ends its turn"
    return finished.ended


async def _close_plainly(
    store: Database,
    clock: Clock,
    turn: OpenTurn,
    plan: journal.Plan,
    error: str | None,
    broken: Exception,
) -> Turn:
    logger.warning("a step of turn %s could not be closed", turn.id, exc_info=broken)
    why = f"its last step could not be closed: {type(broken).__name__}: {broken}"
    why = storable(f"{error}; {why}" if error else why)
    now = clock.now()
    try:
        # The shipped texts: the user's own may be what is broken.
        body = replace(turn.body, prompts=Prompts())
        sound = replace(plan, usage=believable(plan.usage))
        draft = take_up_plainly(body, sound, turn.begun)
        # Nobody has held its words against the type that was asked for.
        draft = replace(draft, unspoken=turn.expected is not None)
        turn.ended = await store.write(lambda tx: _closed_plainly(tx, turn, body, draft, why, now))
        turn.stirs |= turn.asked
    except (StoreError, Closed):
        raise
    # As in `close`: the turn ends, whatever stands in the way of more.
    except Exception:
        logger.exception("a step of turn %s is left unfinished", turn.id)
        ran = [call.tool for call in plan.calls if call.status in ("started", "ok", "unknown")]
        if ran:
            why += f"; these tools may have run: {', '.join(dict.fromkeys(ran))}"
        return await end(store, clock, turn, "error", why)
    return turn.ended


def _closed_plainly(
    tx: Transaction, turn: OpenTurn, body: Body, draft: Draft, error: str, now: datetime
) -> Turn:
    """Closes a step as far as it can be without effects, templates of the user's and the like."""
    plan = draft.plan
    calls = [call.row for call in draft.calls]
    said = spoken(draft, calls, body)
    new = step_messages(draft, calls, {}, said, body, turn.last_seq, turn.id, now)
    record = StepRecord(
        id=plan.step_id,
        seq=plan.seq,
        heartbeat=plan.heartbeat,
        thoughts=draft.reply.reasoning,
        replies=said,
        calls=call_records(calls),
        changes=(),
        usage=plan.usage,
        note="it could not be finished as it was meant",
    )
    journal.moved(
        tx,
        turn.lease,
        last_seq=turn.last_seq + len(new),
        window_version=turn.window_version + 1,
        warned=turn.warned,
        ends=True,
    )
    if new:
        rows.add_messages(tx, turn.agent_id, turn.conversation_id, new)
    journal.close_step(tx, turn.id, plan, record, calls, was_planned=True, now=now)
    keep_waiting(tx, turn, calls, now)
    spent = turn.unrecorded + plan.usage
    agent_rows.spent(tx, turn.agent_id, len(new), spent)
    usage = turn.usage + spent
    told, _ = journal.with_events(turn.told, [StepFinished(turn.id, record)])
    told = (*told, journal.ENDED)
    journal.set_turn(tx, turn.id, usage, told=told, stop_reason="error", error=error, ended_at=now)
    steps = (*turn.steps, record)
    ended = Turn(
        turn.id,
        turn.conversation_id,
        steps,
        "error",
        usage,
        turn.started_at,
        now,
        error,
        len(told),
    )
    answer(tx, turn, ended)
    return ended


async def finish_or_keep(
    store: Database, clock: Clock, turn: OpenTurn, draft: Draft, *, factor: float | None
) -> Finished:
    """Finishes a step; where that fails or is stopped, what its outside calls came to is stored
    all the same, for `close` or for whoever takes the turn up.

    Args:
        factor: as in `finish_step`.
    """
    try:
        return await finish_step(store, clock, turn, draft, factor=factor)
    except (StoreError, Closed):
        raise
    except (Exception, asyncio.CancelledError):
        if draft.planned:
            now = clock.now()
            await store.write(lambda tx: _keep_results(tx, turn, draft, now))
        raise


def _keep_results(tx: Transaction, turn: OpenTurn, draft: Draft, now: datetime) -> None:
    plan = journal.open_plan(tx, turn.id)
    if plan is None or plan.step_id != draft.plan.step_id:
        return  # it was finished after all, by a commit that was not waited for
    journal.fence(tx, turn.lease)
    for call in draft.calls:
        if call.row.result is not None:
            journal.result(tx, call.row.id, call.row.status, call.row.result, now)


def _refresh(tx: Transaction, turn: OpenTurn) -> journal.Plan | None:
    """Brings a turn in memory up to what is committed of it, where a commit was not waited for.

    Returns:
        the step that was planned and not finished.

    Raises:
        NotFound: the turn was deleted.
        LeaseLost: another worker has taken it over, and maybe ended it.
    """
    row = journal.turn_by_id(tx, turn.id)
    head = journal.head(tx, turn.conversation_id)
    if row is None or head is None:
        raise NotFound(f"turn {turn.id} was deleted with its conversation")
    if row.owner != turn.lease.owner:
        raise LeaseLost(f"turn {turn.id} was taken over by another worker")
    # Set either way: what an earlier run of this transaction read may never have been committed.
    turn.ended = journal.turn_record(tx, row) if row.status == "done" else None
    turn.queue = rows.window(tx, turn.conversation_id)
    turn.blocks = block_rows.of_agent(tx, turn.agent_id)
    turn.last_seq, turn.window_version = head.last_seq, head.window_version
    turn.warned, turn.folds = head.warned, head.folds
    turn.steps = list(journal.step_records(tx, turn.id))
    turn.told = journal.told_so_far(row, turn.steps)
    if row.usage != turn.usage:
        turn.usage, turn.unrecorded = row.usage, Usage()
    return journal.open_plan(tx, turn.id)


def _ended(
    tx: Transaction,
    turn: OpenTurn,
    reason: StopReason,
    error: str | None,
    now: datetime,
    withheld: Sequence[Message],
) -> Turn:
    """The turn's end outside a step: cancelled, failed, or not to be taken up again. Frees the
    lease.

    Raises:
        LeaseLost: somebody else has taken the conversation over.
    """
    journal.moved(
        tx,
        turn.lease,
        last_seq=turn.last_seq,
        window_version=turn.window_version + bool(withheld),
        warned=turn.warned,
        ends=True,
    )
    if withheld:
        withhold(tx, withheld)
    usage = turn.usage + turn.unrecorded
    told = (*turn.told, journal.ENDED)
    journal.set_turn(tx, turn.id, usage, told=told, stop_reason=reason, error=error, ended_at=now)
    if turn.unrecorded.calls:
        agent_rows.spent(tx, turn.agent_id, 0, turn.unrecorded)
    ended = Turn(
        turn.id,
        turn.conversation_id,
        tuple(turn.steps),
        reason,
        usage,
        turn.started_at,
        now,
        error,
        len(told),
    )
    answer(tx, turn, ended)
    return ended
