"""T5: the end of a step. Effects, results, messages, window, usage and what follows: one commit,
all or nothing.

The fence stands in the statement that moves the conversation's row: where the lease is lost, it
fails and nothing of the transaction remains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from pagedaemon.continuation import Continue, Observed, Outcome, decide
from pagedaemon.errors import EditRefused, InvalidInput, NotFound
from pagedaemon.events import BlockChange, CallRecord, PagedOut, StepRecord, Turn
from pagedaemon.memory.effects import Acting, Told
from pagedaemon.messages import Label, Message, StopReason, Usage
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import blocks as block_rows
from pagedaemon.store import conversations as rows
from pagedaemon.store import journal
from pagedaemon.store.blocks import BlockRow
from pagedaemon.store.journal import PlannedCall
from pagedaemon.store.transaction import Transaction
from pagedaemon.tools.toolbox import Outcome as CallOutcome
from pagedaemon.turn.body import Body
from pagedaemon.turn.draft import (
    Draft,
    DraftCall,
    reply_message,
    result_message,
    spoken,
    thoughts,
)
from pagedaemon.turn.state import OpenTurn, lease_until, next_event

SPARE = 400
"""Tokens kept free beside a step's results for the event that follows and a new summary."""

LEAST_SHOWN = 60
"""Tokens up to which a result is shown whole: a digest is no shorter."""


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
    paged_out: PagedOut | None
    ended: Turn | None

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


@dataclass
class _Applied:
    """What the calls of a step came to."""

    calls: list[PlannedCall] = field(default_factory=list)
    changes: list[BlockChange] = field(default_factory=list)
    paged_out: int = 0
    folds: int = 0
    labels: dict[str, Label] = field(default_factory=dict)
    """Of what memory tools showed, by the call's id."""


def finish(
    tx: Transaction,
    turn: OpenTurn,
    draft: Draft,
    acting: Acting,
    *,
    seconds: float,
    cancelled: bool,
    factor: float | None,
) -> Finished:
    """Applies and writes one step, and decides what follows.

    Args:
        seconds: how long the turn has lasted.
        cancelled: the turn ends with this step whatever the agent wanted.
        factor: the learnt correction of token counts, to be kept; None for none.

    Raises:
        LeaseLost: another worker has taken the conversation over.
    """
    body, now = turn.body, acting.now
    # What was written is noted in it, and a transaction function may be run again.
    acting = replace(acting, read_versions=dict(acting.read_versions))
    applied = _apply(tx, turn.body, draft, acting)
    said = spoken(draft, applied.calls, body)
    record = _record(turn, draft, applied, said)
    queue = list(turn.queue)
    last_seq, folds, warned = turn.last_seq, turn.folds, turn.warned
    if applied.paged_out:
        queue = rows.window(tx, turn.conversation_id)
        last_seq, folds = last_seq + applied.folds, folds + applied.folds
    new = _messages(draft, applied, said, body, last_seq, turn.id, now)
    blocks = _with_changes(turn.blocks, applied.changes)
    new = _sharing(turn, new, blocks, queue)
    load = body.weigh(blocks, [*queue, *new])
    over = load.over(body.agent.settings.paging.warn)
    # A page-out that leaves the window above the line is no reason to warn again.
    warned = warned and (over or not applied.paged_out)
    hushed = over and turn.hushed
    crossed = over and not warned and not hushed
    observed = _observed(turn, draft, record, crossed, seconds, cancelled)
    outcome = decide(observed, body.agent.settings)
    new += next_event(
        turn, outcome, [*queue, *new], load.percent, last_seq + len(new) + 1, record.id, now
    )
    alerted = isinstance(outcome, Continue) and outcome.reason == "pressure"
    warned, hushed = warned or alerted, hushed or alerted
    if new:
        rows.add_messages(tx, turn.agent_id, turn.conversation_id, new)
    journal.close_step(
        tx, turn.id, draft.plan, record, applied.calls, was_planned=draft.planned, now=now
    )
    going_on = isinstance(outcome, Continue)
    spent = turn.unrecorded + record.usage
    usage = turn.usage + spent
    reason = None if isinstance(outcome, Continue) else outcome.reason
    error = draft.reply.content or None if reason == "refused" else None
    journal.set_turn(
        tx,
        turn.id,
        usage,
        stop_reason=reason,
        error=error,
        ended_at=None if going_on else now,
    )
    agent_rows.spent(tx, turn.agent_id, len(new), spent)
    if factor is not None:
        journal.set_factor(tx, body.model.name, factor)
    version = turn.window_version + 1
    last_seq += len(new)
    journal.moved(
        tx,
        turn.lease,
        last_seq=last_seq,
        window_version=version,
        warned=warned,
        until=lease_until(now) if going_on else None,
    )
    if going_on:
        blocks = block_rows.of_agent(tx, turn.agent_id)
    return Finished(
        record,
        outcome,
        [*queue, *new],
        blocks,
        last_seq,
        version,
        warned,
        hushed,
        folds,
        _paged_out_event(turn, applied, load.tokens),
        None if reason is None else _ended(turn, record, reason, usage, now, error),
    )


def _apply(tx: Transaction, body: Body, draft: Draft, acting: Acting) -> _Applied:
    """Internal effects and built-in reads, in call order; outside calls bring their results."""
    applied = _Applied()
    for call in draft.calls:
        row = call.row
        if row.result is None:
            row = _came_to(tx, body, call, acting, applied).row
        applied.calls.append(row)
    return applied


def _came_to(
    tx: Transaction, body: Body, call: DraftCall, acting: Acting, applied: _Applied
) -> DraftCall:
    effect = call.effect
    if effect is None:
        # It was planned, and the turn was cancelled before it ran.
        told = body.prompts.render("results/not_run", tool=call.row.tool)
        return call.came_to(CallOutcome("failed", told))
    try:
        told_by_effect = effect.apply(tx, acting)
    except EditRefused as refusal:
        return call.came_to(CallOutcome("failed", _refusal(tx, body, refusal, acting)))
    except (InvalidInput, NotFound) as refusal:
        text = body.prompts.render("results/refused", message=str(refusal))
        return call.came_to(CallOutcome("failed", text))
    _note(told_by_effect, acting, applied)
    applied.labels[call.row.id] = told_by_effect.label
    text = body.prompts.render(told_by_effect.template, **told_by_effect.values)
    return call.came_to(CallOutcome("ok", text))


def _note(told: Told, acting: Acting, applied: _Applied) -> None:
    applied.changes += told.changes
    for change in told.changes:
        # A later call of this step knows what this one wrote, unless somebody wrote in between.
        if acting.read_versions.get(change.block_id) == change.version - 1:
            acting.read_versions[change.block_id] = change.version
    if told.paged_out is not None:
        applied.paged_out += told.paged_out.messages
        applied.folds += 1


def _refusal(tx: Transaction, body: Body, refusal: EditRefused, acting: Acting) -> str:
    labels = [row.label for row in block_rows.of_agent(tx, acting.agent_id)]
    return body.prompts.render(
        "results/edit_refused",
        reason=refusal.reason,
        label=refusal.label,
        current=refusal.current,
        nearest=list(refusal.nearest),
        limit=refusal.limit,
        size=refusal.size,
        labels=labels,
    )


def _record(turn: OpenTurn, draft: Draft, applied: _Applied, said: tuple[str, ...]) -> StepRecord:
    silent = not draft.calls and not draft.reply.content.strip()
    return StepRecord(
        id=draft.plan.step_id,
        seq=draft.plan.seq,
        heartbeat=draft.plan.heartbeat,
        thoughts=thoughts(draft, said, turn.body),
        replies=said,
        calls=tuple(
            CallRecord(
                call.wire_id,
                call.tool,
                call.arguments,
                call.result or "",
                call.status,
                call.heartbeat,
            )
            for call in applied.calls
        ),
        changes=tuple(applied.changes),
        usage=draft.plan.usage,
        note="the model said nothing" if silent else "",
    )


def _messages(
    draft: Draft,
    applied: _Applied,
    said: tuple[str, ...],
    body: Body,
    last_seq: int,
    turn_id: str,
    now: datetime,
) -> list[Message]:
    """The reply and its results.

    A reply that says nothing at all is no message: the step's record has it.
    """
    if not draft.calls and not draft.reply.content.strip() and not draft.reply.opaque:
        return []
    reply = reply_message(draft, said, body, last_seq + 1, turn_id)
    results = [
        result_message(
            call,
            body.toolbox.get(call.tool),
            body,
            last_seq + 2 + number,
            turn_id,
            draft.plan.step_id,
            now,
            applied.labels.get(call.id),
        )
        for number, call in enumerate(applied.calls)
    ]
    return [reply, *results]


def _sharing(
    turn: OpenTurn, new: list[Message], blocks: Sequence[BlockRow], queue: Sequence[Message]
) -> list[Message]:
    """The step's messages, the largest results shortened where together they leave the request no
    room, even when all that can go has gone: the model must be shown each of them once."""
    results = [message for message in new if message.role == "tool"]
    if not results:
        return new
    body = turn.body
    line = int(body.agent.settings.paging.evict * body.model.budget)
    if body.weigh(blocks, [*queue, *new]).tokens <= line:
        return new
    stays = [
        message
        for message in queue
        if message.pinned or message.kind == "summary" or message.id in turn.keep
    ]
    replies = [message for message in new if message.role != "tool"]
    # What stays, counted exactly: each kept message and the reply, on top of the fixed part.
    room = line - SPARE - body.gauge.counted((body.system(blocks).wire,), body.tools).tokens
    room -= sum(body.size(message) for message in (*stays, *replies))
    sizes = {message.id: body.size(message) for message in results}
    if sum(sizes.values()) <= room:
        return new
    share = max(LEAST_SHOWN, _share(sorted(sizes.values()), room))
    shared: list[Message] = []
    for message in new:
        if sizes.get(message.id, 0) > share:
            shorter = replace(message, digest=_shown_in(body, message, share))
            body.renderer.forget(message)
            if body.size(shorter) < sizes[message.id]:
                message = shorter
            else:
                body.renderer.forget(shorter)
        shared.append(message)
    return shared


def _share(sizes: Sequence[int], room: int) -> int:
    """The most tokens each result may have so that all fit: what small ones leave, large ones get.

    Args:
        sizes: smallest first.
    """
    left = max(0, room)
    for number, size in enumerate(sizes):
        share = left // (len(sizes) - number)
        if size > share:
            return share
        left -= size
    return left


def _shown_in(body: Body, message: Message, tokens: int) -> str | None:
    """The digest of a result that fits so many tokens; the shortest there is, where none does."""
    chars = tokens * 4
    while True:
        digest = body.digest(message.text, "result", f"#{message.seq}", cap=0, shown=chars)
        assert digest is not None, "a text over its cap has a digest"
        if chars == 0 or body.gauge.text(digest) <= tokens:
            return digest
        chars //= 2


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
    record: StepRecord,
    crossed: bool,
    seconds: float,
    cancelled: bool,
) -> Observed:
    terminal = {
        call.row.tool for call in draft.calls if call.tool is not None and call.tool.terminal
    }
    called = {call.tool for step in (*turn.steps, record) for call in step.calls}
    required = turn.body.agent.settings.required_tools
    spent = turn.usage + turn.unrecorded + record.usage
    return Observed(
        user_waits=turn.user_message_id is not None,
        replied=turn.replied or bool(record.replies),
        terminal=any(call.tool in terminal and call.status == "ok" for call in record.calls),
        called=any(call.tool not in terminal for call in record.calls),
        heartbeat_requested=any(call.heartbeat for call in record.calls),
        failed=tuple(call.tool for call in record.calls if call.status in ("failed", "unknown")),
        same_failure=turn.failures(record),
        crossed_warning=crossed,
        required_missing=tuple(
            name for name in required if name not in called and turn.body.toolbox.get(name)
        ),
        nudges=turn.nudges() + (record.heartbeat == "nudge"),
        steps=len(turn.steps) + 1,
        seconds=seconds,
        tokens=spent.total_tokens,
        cancelled=cancelled,
        refused=draft.reply.finish == "refusal",
    )


def _paged_out_event(turn: OpenTurn, applied: _Applied, tokens: int) -> PagedOut | None:
    if not applied.paged_out:
        return None
    before = turn.body.weigh(turn.blocks, turn.queue).tokens
    return PagedOut(turn.id, applied.paged_out, before, tokens, "agent", "note")


def _ended(
    turn: OpenTurn,
    record: StepRecord,
    reason: StopReason,
    usage: Usage,
    now: datetime,
    error: str | None,
) -> Turn:
    steps = (*turn.steps, record)
    return Turn(turn.id, turn.conversation_id, steps, reason, usage, turn.started_at, now, error)
