"""T5: the end of a step. Effects, results, messages, window, usage and what follows: one commit,
all or nothing.

The fence stands in the statement that moves the conversation's row: where the lease is lost, it
fails and nothing of the transaction remains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pagedaemon.clock import Clock
from pagedaemon.continuation import Continue, Observed, Outcome, decide
from pagedaemon.events import (
    BlockChange,
    CallRecord,
    Event,
    HeartbeatEvent,
    PagedOut,
    StepFinished,
    StepRecord,
    Turn,
)
from pagedaemon.memory.effects import Acting
from pagedaemon.messages import Label, Message, StopReason, Usage
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import blocks as block_rows
from pagedaemon.store import conversations as rows
from pagedaemon.store import journal, token_factors
from pagedaemon.store.blocks import BlockRow
from pagedaemon.store.database import Database
from pagedaemon.store.journal import PlannedCall, Told
from pagedaemon.store.transaction import Transaction
from pagedaemon.tools.gates import tainted
from pagedaemon.tools.rules import allowed, closed, missing
from pagedaemon.turn.answering import answer
from pagedaemon.turn.applying import Applied, apply_calls
from pagedaemon.turn.approving import keep_waiting
from pagedaemon.turn.draft import Draft, spoken, thoughts
from pagedaemon.turn.lease import require_ours
from pagedaemon.turn.messages import step_messages
from pagedaemon.turn.sharing import sharing
from pagedaemon.turn.state import OpenTurn
from pagedaemon.turn.typed import reviewed
from pagedaemon.turn.waking import invalid_message, next_event


@dataclass(frozen=True)
class Finished:
    """A finished step: what is now in the store, for the turn to carry over once it is
    committed."""

    record: StepRecord
    outcome: Outcome
    queue: list[Message]
    blocks: tuple[BlockRow, ...]
    last_seq: int
    window_version: int
    warned: bool
    hushed: bool
    folds: int
    ended: Turn | None
    stirs: bool
    told: tuple[Told, ...]
    """All the turn has told with it."""
    events: tuple[Event, ...]
    """What it tells, with their numbers, but for the turn's end."""
    stop_asked: bool = False

    def carry_over(self, turn: OpenTurn) -> None:
        """Makes the turn in memory what it is in the store."""
        turn.steps.append(self.record)
        turn.queue = self.queue
        turn.blocks = self.blocks
        turn.last_seq = self.last_seq
        turn.window_version = self.window_version
        turn.warned = self.warned
        turn.hushed = self.hushed
        turn.folds = self.folds
        turn.usage = turn.usage + turn.unrecorded + self.record.usage
        turn.unrecorded = Usage()
        turn.ended = self.ended
        turn.stirs |= self.stirs
        turn.told = self.told
        turn.stop_asked |= self.stop_asked


@dataclass(frozen=True)
class Stopped:
    """Why a turn ends with its step, whatever the agent wanted."""

    reason: StopReason
    error: str | None = None


@dataclass(frozen=True)
class _Decided:
    """What a step has come to and what follows it, before any of it is written."""

    finished: Finished
    new: list[Message]
    """Its messages, with the event that follows."""
    spent: Usage
    """By the step, and since the last commit by calls that belong to none."""


async def finish_step(
    store: Database,
    clock: Clock,
    turn: OpenTurn,
    draft: Draft,
    *,
    factor: float | None,
    stopped: Stopped | None = None,
) -> Finished:
    """Finishes a step in one commit, and carries the turn in memory over.

    Args:
        factor: the learnt correction of token counts, to be kept; None for none.
        stopped: the turn ends with this step. None: as the agent wants.

    Raises:
        LeaseLost: another worker has taken the conversation over.
        StoreError: the store failed; nothing of the step was kept.
    """
    if turn.expected is not None:
        draft = reviewed(draft, turn.expected, turn.body)
    acting = _acting(turn, draft, clock)
    for call in draft.calls:
        if (effect := call.effect) is not None:
            await effect.prepare(acting)
    await require_ours(store, turn)
    left = turn.deadline - clock.monotonic()
    seconds = turn.body.agent.settings.limits.seconds - left
    finished = await store.write(
        lambda tx: finish(tx, turn, draft, acting, seconds, stopped, factor)
    )
    finished.carry_over(turn)
    turn.refusal = draft.refusal
    return finished


def finish(
    tx: Transaction,
    turn: OpenTurn,
    draft: Draft,
    acting: Acting,
    seconds: float,
    stopped: Stopped | None,
    factor: float | None,
) -> Finished:
    """Applies one step, decides what follows, and writes both.

    Args:
        seconds: how long the turn has lasted.
        stopped, factor: as in `finish_step`.

    Raises:
        LeaseLost: another worker has taken the conversation over.
    """
    # What was written is noted in it, and a transaction function may be run again.
    acting = replace(acting, read_versions=dict(acting.read_versions))
    applied = apply_calls(tx, turn.body, draft, acting)
    queue = rows.window(tx, turn.conversation_id) if applied.paged_out else list(turn.queue)
    decided = _decide(turn, draft, applied, queue, acting.now, seconds, stopped)
    return _write(tx, turn, draft, applied, decided, acting.now, factor)


def _decide(
    turn: OpenTurn,
    draft: Draft,
    applied: Applied,
    queue: list[Message],
    now: datetime,
    seconds: float,
    stopped: Stopped | None,
) -> _Decided:
    """What the step comes to in a window that holds this queue."""
    body, last_seq = turn.body, turn.last_seq + applied.folds
    said = spoken(draft, applied.calls, body)
    record = _record(turn, draft, applied, said)
    blocks = _with_changes(turn.blocks, applied.changes)
    new = step_messages(draft, applied.calls, applied.labels, said, body, last_seq, turn.id, now)
    new, load = sharing(turn, new, blocks, queue)
    over = load.over(body.agent.settings.paging.warn)
    # A page-out that leaves the window above the line is no reason to warn again.
    warned = turn.warned and (over or not applied.paged_out)
    hushed = over and turn.hushed
    crossed = over and not warned and not hushed
    observed = _observed(turn, draft, applied, record, crossed, seconds, stopped is not None)
    outcome = decide(observed, body.agent.settings)
    seq = last_seq + len(new) + 1
    if isinstance(outcome, Continue) and draft.refusal is not None:
        new.append(invalid_message(turn, draft.refusal, seq, record.id, now))
        seq += 1
    if draft.granted is None or outcome != Continue("requested"):
        new += next_event(turn, outcome, [*queue, *new], load.percent, seq, record.id, now)
    alerted = isinstance(outcome, Continue) and outcome.reason == "pressure"
    spent = turn.unrecorded + record.usage
    told, events = journal.with_events(
        turn.told, _events(turn, applied, record, outcome, load.tokens)
    )
    if not isinstance(outcome, Continue):
        told = (*told, journal.ENDED)
    ended = _ended(turn, draft, record, outcome, turn.usage + spent, now, stopped)
    finished = Finished(
        record=record,
        outcome=outcome,
        queue=[*queue, *new],
        blocks=blocks,
        last_seq=last_seq + len(new),
        window_version=turn.window_version + 1,
        warned=warned or alerted,
        hushed=hushed or alerted,
        folds=turn.folds + applied.folds,
        ended=None if ended is None else replace(ended, events=len(told)),
        # An approval that waits is the next thing whose time may be over.
        stirs=applied.stirs or turn.asked or observed.approval_pending,
        told=told,
        events=events,
    )
    return _Decided(finished, new, spent)


def _write(
    tx: Transaction,
    turn: OpenTurn,
    draft: Draft,
    applied: Applied,
    decided: _Decided,
    now: datetime,
    factor: float | None,
) -> Finished:
    """The rows of what was decided. Returns it, with the blocks that the next step sees."""
    finished, new, ended = decided.finished, decided.new, decided.finished.ended
    # First, so that who has lost the lease learns that, and not what stands in its way now.
    journal.moved(
        tx,
        turn.lease,
        last_seq=finished.last_seq,
        window_version=finished.window_version,
        warned=finished.warned,
        ends=ended is not None,
    )
    if new:
        rows.add_messages(tx, turn.agent_id, turn.conversation_id, new)
    journal.close_step(
        tx,
        turn.id,
        draft.plan,
        finished.record,
        applied.calls,
        was_planned=draft.planned,
        now=now,
    )
    keep_waiting(tx, turn, applied.calls, now)
    stop_asked = journal.set_turn(
        tx,
        turn.id,
        turn.usage + decided.spent,
        told=finished.told,
        stop_reason=None if ended is None else ended.stop_reason,
        error=None if ended is None else ended.error,
        ended_at=None if ended is None else now,
    )
    agent_rows.spent(tx, turn.agent_id, len(new), decided.spent)
    if factor is not None:
        token_factors.set_factor(tx, turn.body.model.name, factor)
    if ended is not None:
        answer(tx, turn, ended)
        return finished
    blocks = block_rows.of_agent(tx, turn.agent_id)
    return replace(finished, blocks=blocks, stop_asked=stop_asked)


def _record(turn: OpenTurn, draft: Draft, applied: Applied, said: tuple[str, ...]) -> StepRecord:
    silent = not draft.calls and not draft.reply.content.strip()
    return StepRecord(
        id=draft.plan.step_id,
        seq=draft.plan.seq,
        heartbeat=draft.plan.heartbeat,
        thoughts=thoughts(draft, said, turn.body),
        replies=said,
        calls=call_records(applied.calls),
        changes=tuple(sorted(applied.changes, key=lambda one: (one.label, one.version))),
        usage=draft.plan.usage,
        note="the model said nothing" if silent else "",
    )


def call_records(calls: Sequence[PlannedCall]) -> tuple[CallRecord, ...]:
    """Finished calls as a listener is told of them."""
    return tuple(
        CallRecord(
            call.wire_id,
            call.tool,
            call.arguments,
            call.result or "",
            call.status,
            call.heartbeat,
        )
        for call in calls
    )


def _with_changes(
    blocks: Sequence[BlockRow], changes: Sequence[BlockChange]
) -> tuple[BlockRow, ...]:
    latest = {change.block_id: change for change in changes}
    return tuple(
        replace(block, value=latest[block.id].after, version=latest[block.id].version)
        if block.id in latest
        else block
        for block in blocks
    )


def _observed(
    turn: OpenTurn,
    draft: Draft,
    applied: Applied,
    record: StepRecord,
    crossed: bool,
    seconds: float,
    cancelled: bool,
) -> Observed:
    terminal = {
        call.row.tool for call in draft.calls if call.tool is not None and call.tool.terminal
    }
    rules, tools = turn.body.agent.settings.rules, turn.body.toolbox.names
    history = [call for step in (*turn.steps, record) for call in step.calls]
    spent = turn.usage + turn.unrecorded + record.usage
    replied = turn.replied or bool(record.replies)
    refused = frozenset() if draft.refusal is None else draft.refusal.calls
    return Observed(
        user_waits=turn.user_waits,
        replied=replied,
        terminal=any(call.tool in terminal and call.status == "ok" for call in record.calls),
        called=any(call.tool not in terminal for call in record.calls),
        heartbeat_requested=any(call.heartbeat for call in record.calls),
        failed=tuple(
            call.tool
            for call in applied.calls
            if call.status in ("failed", "unknown") and call.id not in refused
        ),
        same_failure=turn.failures(record),
        crossed_warning=crossed,
        required_missing=missing(rules, history, tools),
        closed=closed(rules, history),
        stuck=bool(rules) and not allowed(rules, history, tools).names,
        approval_pending=any(call.status == "awaiting" for call in applied.calls),
        invalid_reply=draft.refusal is not None and not replied,
        retries=turn.woken("invalid", record),
        nudges=turn.woken("nudge", record),
        steps=len(turn.steps) + 1,
        seconds=seconds,
        tokens=spent.total_tokens,
        cost=spent.cost or 0.0,
        cancelled=cancelled,
        refused=draft.reply.finish == "refusal",
    )


def _events(
    turn: OpenTurn, applied: Applied, record: StepRecord, outcome: Outcome, tokens: int
) -> list[Event]:
    """What the step tells, but for the turn's end."""
    events: list[Event] = [StepFinished(turn.id, record)]
    if applied.paged_out:
        before = turn.body.weigh(turn.blocks, turn.queue).tokens
        events.append(PagedOut(turn.id, applied.paged_out, before, tokens, "agent", "note"))
    if isinstance(outcome, Continue):
        events.append(HeartbeatEvent(turn.id, outcome.reason))
    return events


def _ended(
    turn: OpenTurn,
    draft: Draft,
    record: StepRecord,
    outcome: Outcome,
    usage: Usage,
    now: datetime,
    stopped: Stopped | None,
) -> Turn | None:
    if isinstance(outcome, Continue):
        return None
    reason = outcome.reason if stopped is None else stopped.reason
    error = draft.reply.content or None if outcome.reason == "refused" else None
    if outcome.reason == "invalid_reply" and draft.refusal is not None:
        error = "; ".join(draft.refusal.problems)
    if stopped is not None:
        error = stopped.error
    return Turn(
        turn.id,
        turn.conversation_id,
        (*turn.steps, record),
        reason,
        usage,
        turn.started_at,
        now,
        error,
    )


def _acting(turn: OpenTurn, draft: Draft, clock: Clock) -> Acting:
    return Acting(
        agent_id=turn.agent_id,
        conversation_id=turn.conversation_id,
        turn_id=turn.id,
        step_id=draft.plan.step_id,
        now=clock.now(),
        timezone=turn.body.agent.settings.timezone,
        label=_label(turn, draft),
        read_versions=dict(draft.plan.block_versions),
        keep=turn.keep,
        page_chars=turn.body.page_chars,
        letter=turn.letter,
        meaning=turn.body.meaning,
        ranking=turn.body.agent.settings.ranking,
        near_repeats=turn.body.agent.settings.near_repeats,
    )


def _label(turn: OpenTurn, draft: Draft) -> Label:
    """Who stands behind what the step writes elsewhere: whatever it was derived from, it is trusted
    no more than the worst of that."""
    granted = draft.granted
    was = granted is not None and bool(granted.verdict and granted.verdict["tainted"])
    return "external" if was or tainted(turn.queue) else "agent"
