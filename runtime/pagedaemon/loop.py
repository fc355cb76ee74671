"""One turn, from an event until the agent yields. There is one loop, and this is it.

    until told otherwise:
        make room if the window is full
        compile what the model sees and ask it, passing parts on as they come
        store the plan where anything acts outside, and run what does
        finish: effects, messages and window in one commit, and with them the decision
        on continue go round; on yield or stop tell the turn's end

Everything else (sending, streaming, the command line) consumes this generator.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar, get_args

from pagedaemon.clock import Clock
from pagedaemon.continuation import Continue
from pagedaemon.errors import (
    BadReply,
    Closed,
    ContextOverflow,
    ContextTooLong,
    ModelError,
    ModelTimedOut,
    StoreError,
)
from pagedaemon.events import (
    CallRecord,
    Event,
    HeartbeatEvent,
    StepFinished,
    StepRecord,
    StepReset,
    StepStarted,
    Turn,
    TurnEnded,
    TurnStarted,
)
from pagedaemon.llm.assembly import MOST_TOKENS
from pagedaemon.llm.protocol import CallPart, Part, RawCall, ReasoningPart, Reply, TextPart
from pagedaemon.llm.tokens import Correction
from pagedaemon.memory.effects import Acting
from pagedaemon.memory.eviction import evictable
from pagedaemon.messages import HeartbeatReason, StopReason, Usage
from pagedaemon.resources import Prompts
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import conversations as rows
from pagedaemon.store import journal
from pagedaemon.store.database import Database
from pagedaemon.store.transaction import Transaction
from pagedaemon.tools.toolbox import ends_us
from pagedaemon.turn import state
from pagedaemon.turn.body import Body, Compiled
from pagedaemon.turn.calls import Handles, run_outside
from pagedaemon.turn.draft import (
    Draft,
    read_reply,
    reply_message,
    result_message,
    spoken,
    take_up,
    take_up_plainly,
)
from pagedaemon.turn.finish import Finished, finish
from pagedaemon.turn.pageout import make_room, relieve
from pagedaemon.turn.speech import Speech
from pagedaemon.turn.state import LEASE_SECONDS, OpenTurn

T = TypeVar("T")

logger = logging.getLogger("pagedaemon")

_PARTS = get_args(Part)


class OutOfTime(Exception):
    """The turn's own time was up while the model was asked. Never leaves the loop."""


@dataclass
class _Asked:
    """Where asking leaves its reply; None where the step is to be begun anew."""

    draft: Draft | None = None


class Loop:
    """Runs turns over one space's store.

    Args:
        store: where everything is.
        clock: the time.
        handles: makes the live handles that a tool's context carries.
    """

    def __init__(self, store: Database, clock: Clock, handles: Handles) -> None:
        self._store = store
        self._clock = clock
        self._handles = handles
        self.correction = Correction()

    async def live(
        self, turn: OpenTurn, plan: journal.Plan | None = None
    ) -> AsyncGenerator[Event, None]:
        """The turn's events, in order; the last is `TurnEnded`. Where it is stopped before that,
        `close` brings the turn to its end.

        Args:
            turn: claimed, with its event in the window.
            plan: of a turn taken up after a crash: the step whose reply is stored already.

        Raises:
            ModelError: the model gave no usable reply. The turn has ended with `error`.
            ContextOverflow: what must be in the request does not fit. As above.
            LeaseLost: another worker has taken the conversation over; nothing more was written.
            StoreError: the store failed; nothing of the step was kept.
        """
        draft = None if plan is None else take_up(turn.body, plan)
        try:
            yield TurnStarted(turn.id, turn.conversation_id)
            while turn.ended is None:
                if draft is None:
                    async for event in _contained(make_room(self._store, self._clock, turn)):
                        yield event
                    turn.unrecorded = _believable(turn.unrecorded)
                    asked = _Asked()
                    async for event in self._ask(turn, asked):
                        yield event
                    draft = asked.draft
                    if draft is None:
                        continue
                if draft.has_outside:
                    draft = await run_outside(self._store, self._clock, turn, draft, self._handles)
                finished = await self._finish_or_keep(turn, draft)
                draft = None
                for event in _told(turn, finished):
                    yield event
        except OutOfTime:
            await self._end(turn, "max_seconds")
        except (ModelError, ContextOverflow) as error:
            yield TurnEnded(turn.id, await self._end(turn, "error", str(error)))
            raise
        assert turn.ended is not None
        yield TurnEnded(turn.id, turn.ended)

    async def _ask(self, turn: OpenTurn, asked: _Asked) -> AsyncGenerator[Event, None]:
        """Asks the model once. Its reply is left in `asked`.

        Where the request turns out to be too long for the provider, or so long that it times out,
        the window is emptied once and the step begun anew.
        """
        compiled = turn.body.compile(turn.blocks, turn.queue)
        step, heartbeat = len(turn.steps) + 1, woken_by(turn)
        yield StepStarted(turn.id, step, heartbeat)
        speech = Speech(turn.id, step, turn.body.agent.settings.style)
        reply: Reply | None = None
        heard = False
        limit = asyncio.timeout(turn.deadline - self._clock.monotonic())
        try:
            async with limit:
                async for part in _contained(turn.body.chat.stream(compiled.request)):
                    _require_part(part)
                    heard = True
                    if isinstance(part, Reply):
                        reply = part
                    for event in speech.hear(part):
                        yield event
        except TimeoutError:
            if limit.expired():
                raise OutOfTime from None
            raise
        except (ContextTooLong, ModelTimedOut) as error:
            if isinstance(error, ContextTooLong):
                self._learn_refusal(turn, compiled)
            if turn.relieved or not _may_relieve(turn, compiled, error):
                raise
            turn.relieved = True
            if heard:
                yield StepReset(turn.id, step, str(error))
            async for event in _contained(relieve(self._store, self._clock, turn)):
                yield event
            turn.unrecorded = _believable(turn.unrecorded)
            return
        if reply is None:
            raise BadReply("the model's stream ended without a reply")
        usage = _usage(reply, compiled)
        if not usage.estimated and usage.prompt_tokens <= turn.body.model.window:
            self._learn(turn, usage.prompt_tokens, compiled.load.raw)
        asked.draft = read_reply(
            turn.body,
            reply,
            turn.queue,
            seq=step,
            heartbeat=heartbeat,
            context_hash=compiled.hash,
            block_versions={block.id: block.version for block in turn.blocks},
            usage=usage,
            now=self._clock.now(),
        )

    def _learn(self, turn: OpenTurn, reported: int, counted: int) -> None:
        name = turn.body.model.name
        self.correction = self.correction.learn(name, reported, counted)
        turn.body.gauge.factor = self.correction.factor(name)

    def _learn_refusal(self, turn: OpenTurn, compiled: Compiled) -> None:
        """What was refused has at least as many tokens as the budget, whatever we counted.

        But no more is believed than leaves room for what must be in every request: a provider that
        refuses for a reason of its own must not make all later sends impossible.
        """
        body, request = turn.body, compiled.request
        load = body.gauge.counted(request.messages, request.tools)
        leaving = {m.id for group in evictable(turn.queue, turn.keep) for m in group.messages}
        staying = [message for message in turn.queue if message.id not in leaving]
        least = body.compile(turn.blocks, staying).request
        fixed = body.gauge.counted(least.messages, least.tools).raw
        room = body.agent.settings.paging.evict * load.budget
        learnt = min(load.budget, int(load.raw * room / fixed))
        if load.tokens < learnt:
            self._learn(turn, learnt, load.raw)

    async def _finish_or_keep(self, turn: OpenTurn, draft: Draft) -> Finished:
        """Finishes a step; where that fails, what its outside calls came to is stored all the
        same, for `close`."""
        try:
            return await self._finish(turn, draft)
        except (StoreError, Closed):
            raise
        except Exception:
            if draft.planned:
                now = self._clock.now()
                await self._store.write(lambda tx: _keep_results(tx, turn, draft, now))
            raise

    async def _finish(self, turn: OpenTurn, draft: Draft, *, cancelled: bool = False) -> Finished:
        acting = _acting(turn, draft, self._clock)
        for call in draft.calls:
            if (effect := call.effect) is not None:
                await effect.prepare(acting)
        left = turn.deadline - self._clock.monotonic()
        finished = await self._store.write(
            lambda tx: finish(
                tx,
                turn,
                draft,
                acting,
                seconds=turn.body.agent.settings.limits.seconds - left,
                cancelled=cancelled,
                factor=self.correction.factors.get(turn.body.model.name),
            )
        )
        finished.carry_over(turn)
        return finished

    async def _end(self, turn: OpenTurn, reason: StopReason, error: str | None = None) -> Turn:
        now = self._clock.now()
        turn.ended = await self._store.write(
            lambda tx: state.record_end(tx, turn, reason, error, now)
        )
        return turn.ended

    async def close(self, turn: OpenTurn, reason: StopReason, error: str | None = None) -> Turn:
        """Ends a turn from outside: a step that has begun to act closes whole, any other never was.
        A turn that has ended by itself meanwhile stays as it ended.

        A step that cannot be closed whole ends the turn with `error`: its reply and what its
        outside calls came to are kept, its memory edits are not made. Where not even that can be
        written, the error names the tools that may have run.

        Raises:
            NotFound: it was deleted with its conversation.
            LeaseLost: another worker has taken the conversation over.
            StoreError: the store failed.
        """
        # Among the writes, so that a commit that was on its way when we were stopped is seen.
        plan = await self._store.write(lambda tx: state.refresh(tx, turn))
        if turn.ended is not None:
            return turn.ended
        if plan is None:
            return await self._end(turn, reason, error)
        try:
            ended = (await self._finish(turn, take_up(turn.body, plan), cancelled=True)).ended
        except (StoreError, Closed):
            raise
        # A template, an effect, a value no column holds: whatever it was, it would be met again at
        # each start, and the conversation never be free.
        except Exception as broken:  # noqa: BLE001
            return await self._close_plainly(turn, plan, error, broken)
        assert ended is not None, "a cancelled step ends its turn"
        if reason == "cancelled":
            return ended
        ended = turn.ended = replace(ended, stop_reason=reason, error=error)
        await self._store.write(
            lambda tx: journal.set_turn(
                tx,
                turn.id,
                ended.usage,
                stop_reason=ended.stop_reason,
                error=ended.error,
                ended_at=ended.ended_at,
            )
        )
        return ended

    async def _close_plainly(
        self, turn: OpenTurn, plan: journal.Plan, error: str | None, broken: Exception
    ) -> Turn:
        logger.warning("a step of turn %s could not be closed", turn.id, exc_info=broken)
        why = f"its last step could not be closed: {type(broken).__name__}: {broken}"
        why = f"{error}; {why}" if error else why
        now = self._clock.now()
        try:
            # The shipped texts: the user's own may be what is broken.
            body = replace(turn.body, prompts=Prompts())
            draft = take_up_plainly(body, replace(plan, usage=_believable(plan.usage)))
            turn.ended = await self._store.write(
                lambda tx: _closed_plainly(tx, turn, body, draft, why, now)
            )
        except (StoreError, Closed):
            raise
        # As in `close`: the turn ends, whatever stands in the way of more.
        except Exception:
            logger.exception("a step of turn %s is left unfinished", turn.id)
            ran = [call.tool for call in plan.calls if call.status not in ("intended", "failed")]
            if ran:
                why += f"; these tools may have run: {', '.join(dict.fromkeys(ran))}"
            return await self._end(turn, "error", why)
        return turn.ended


def _keep_results(tx: Transaction, turn: OpenTurn, draft: Draft, now: datetime) -> None:
    journal.fence(tx, turn.lease, now, LEASE_SECONDS)
    for call in draft.calls:
        if call.row.result is not None:
            journal.result(tx, call.row.id, call.row.status, call.row.result, now)


def _closed_plainly(
    tx: Transaction, turn: OpenTurn, body: Body, draft: Draft, error: str, now: datetime
) -> Turn:
    """Closes a step as far as it can be without effects, templates of the user's and the like."""
    plan = draft.plan
    calls = [call.row for call in draft.calls]
    said = spoken(draft, calls, body)
    first = turn.last_seq + 1
    reply = reply_message(draft, said, body, first, turn.id)
    results = [
        result_message(row, body.toolbox.get(row.tool), body, seq, turn.id, plan.step_id, now, None)
        for seq, row in enumerate(calls, start=first + 1)
    ]
    record = StepRecord(
        id=plan.step_id,
        seq=plan.seq,
        heartbeat=plan.heartbeat,
        thoughts=draft.reply.reasoning,
        replies=said,
        calls=tuple(
            CallRecord(
                row.wire_id, row.tool, row.arguments, row.result or "", row.status, row.heartbeat
            )
            for row in calls
        ),
        changes=(),
        usage=plan.usage,
        note="it could not be finished as it was meant",
    )
    rows.add_messages(tx, turn.agent_id, turn.conversation_id, [reply, *results])
    journal.close_step(tx, turn.id, plan, record, calls, was_planned=True, now=now)
    spent = turn.unrecorded + plan.usage
    agent_rows.spent(tx, turn.agent_id, 1 + len(results), spent)
    usage = turn.usage + spent
    journal.set_turn(tx, turn.id, usage, stop_reason="error", error=error, ended_at=now)
    journal.moved(
        tx,
        turn.lease,
        last_seq=turn.last_seq + 1 + len(results),
        window_version=turn.window_version + 1,
        warned=turn.warned,
        until=None,
    )
    steps = (*turn.steps, record)
    return Turn(turn.id, turn.conversation_id, steps, "error", usage, turn.started_at, now, error)


def _require_part(part: object) -> None:
    """Refuses what a model may not give, whatever its types promised.

    Raises:
        BadReply: it is no part of a reply, or holds what is no text.
    """
    if not isinstance(part, _PARTS):
        raise BadReply(f"the model gave what is no part of a reply: {type(part).__name__}")
    texts: list[object] = []
    if isinstance(part, Reply):
        if not isinstance(part.calls, Sequence):
            raise BadReply(f"the calls of a reply are no sequence: {type(part.calls).__name__}")
        for call in part.calls:
            if not isinstance(call, RawCall):
                raise BadReply(f"a call of a reply is no RawCall: {type(call).__name__}")
            texts += [call.id, call.name, call.arguments]
        texts += [part.content, part.reasoning]
    elif isinstance(part, TextPart | ReasoningPart):
        texts += [part.text]
    elif isinstance(part, CallPart):
        texts += [part.name, part.arguments]
    for text in texts:
        if not isinstance(text, str):
            raise BadReply(f"a text of the model's reply is none: {type(text).__name__}")


async def _contained(items: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """What a model gives, where it may raise what would end the program or our own task.

    Raises:
        BadReply: in place of a cancellation that nobody asked for, and of what is no `Exception`.
    """
    try:
        while True:
            try:
                item = await anext(items)
            except StopAsyncIteration:
                return
            except Exception:
                raise
            # The interpreter's own exceptions would end the thread that every other turn runs on.
            except BaseException as error:
                if ends_us(error):
                    raise
                raise BadReply(f"the model raised {type(error).__name__}: {error}") from error
            yield item
    finally:
        if isinstance(items, AsyncGenerator):
            await items.aclose()


def _told(turn: OpenTurn, finished: Finished) -> list[Event]:
    events: list[Event] = [StepFinished(turn.id, finished.record)]
    if finished.paged_out is not None:
        events.append(finished.paged_out)
    if isinstance(finished.outcome, Continue):
        events.append(HeartbeatEvent(turn.id, finished.outcome.reason))
    return events


def woken_by(turn: OpenTurn) -> HeartbeatReason | None:
    """Which heartbeat wakes the turn's next step; None for its first.

    Read from the queue, so that a turn taken up after a crash knows it too.
    """
    if not turn.steps:
        return None
    last = turn.latest
    if last is not None and last.turn_id == turn.id and last.kind in ("heartbeat", "alert"):
        reason: HeartbeatReason = last.data["reason"]
        return reason
    return "requested"


def _acting(turn: OpenTurn, draft: Draft, clock: Clock) -> Acting:
    return Acting(
        agent_id=turn.agent_id,
        conversation_id=turn.conversation_id,
        turn_id=turn.id,
        step_id=draft.plan.step_id,
        now=clock.now(),
        timezone=turn.body.agent.settings.timezone,
        read_versions=dict(draft.plan.block_versions),
        keep=turn.keep,
        page_chars=turn.body.page_chars,
    )


def _may_relieve(turn: OpenTurn, compiled: Compiled, error: ModelError) -> bool:
    # A long request is what makes a call time out; a short one times out for other reasons.
    long = isinstance(error, ContextTooLong) or compiled.load.over(
        turn.body.agent.settings.paging.target
    )
    return long and bool(evictable(turn.queue, turn.keep))


def _usage(reply: Reply, compiled: Compiled) -> Usage:
    if isinstance(reply.usage, Usage):
        reported = _believable(reply.usage)
        if reported.total_tokens:
            return reported
    said = len(reply.content) + sum(len(call.arguments) for call in reply.calls)
    return Usage(1, compiled.load.tokens, said // 4, estimated=True)


def _believable(usage: Usage) -> Usage:
    """A report without what no count can be."""
    return Usage(
        _count(usage.calls),
        _count(usage.prompt_tokens),
        _count(usage.completion_tokens),
        _count(usage.cached_tokens),
        _count(usage.reasoning_tokens),
        estimated=bool(usage.estimated),
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value <= MOST_TOKENS else 0
