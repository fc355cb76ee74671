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
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace

from pagedaemon.clock import Clock
from pagedaemon.continuation import Continue
from pagedaemon.errors import (
    BadReply,
    ContextOverflow,
    ContextTooLong,
    ModelError,
    ModelUnavailable,
)
from pagedaemon.events import (
    Event,
    HeartbeatEvent,
    StepFinished,
    StepStarted,
    Turn,
    TurnEnded,
    TurnStarted,
)
from pagedaemon.llm.protocol import Reply
from pagedaemon.llm.tokens import Correction
from pagedaemon.memory.effects import Acting
from pagedaemon.memory.eviction import evictable
from pagedaemon.messages import HeartbeatReason, StopReason, Usage
from pagedaemon.store import journal
from pagedaemon.store.database import Database
from pagedaemon.turn import state
from pagedaemon.turn.body import Compiled
from pagedaemon.turn.calls import Handles, run_outside
from pagedaemon.turn.draft import Draft, read_reply, take_up
from pagedaemon.turn.finish import Finished, finish
from pagedaemon.turn.pageout import make_room, relieve
from pagedaemon.turn.speech import Speech
from pagedaemon.turn.state import OpenTurn


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
                    async for event in make_room(self._store, self._clock, turn):
                        yield event
                    asked = _Asked()
                    async for event in self._ask(turn, asked):
                        yield event
                    draft = asked.draft
                    if draft is None:
                        continue
                if draft.has_outside:
                    draft = await run_outside(self._store, self._clock, turn, draft, self._handles)
                finished = await self._finish(turn, draft)
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
        limit = asyncio.timeout(turn.deadline - self._clock.monotonic())
        try:
            async with limit:
                async for part in turn.body.chat.stream(compiled.request):
                    if isinstance(part, Reply):
                        reply = part
                    for event in speech.hear(part):
                        yield event
        except TimeoutError:
            if limit.expired():
                raise OutOfTime from None
            raise
        except (ContextTooLong, ModelUnavailable) as error:
            if isinstance(error, ContextTooLong):
                self._learn_refusal(turn, compiled)
            if turn.relieved or not _may_relieve(turn, compiled, error):
                raise
            turn.relieved = True
            async for event in relieve(self._store, self._clock, turn):
                yield event
            return
        if reply is None:
            raise BadReply("the model's stream ended without a reply")
        if reply.usage is not None:
            self._learn(turn, reply.usage.prompt_tokens, compiled.load.raw)
        asked.draft = read_reply(
            turn.body,
            reply,
            turn.queue,
            seq=step,
            heartbeat=heartbeat,
            context_hash=compiled.hash,
            block_versions={block.id: block.version for block in turn.blocks},
            usage=_usage(reply, compiled),
            now=self._clock.now(),
        )

    def _learn(self, turn: OpenTurn, reported: int, counted: int) -> None:
        name = turn.body.model.name
        self.correction = self.correction.learn(name, reported, counted)
        turn.body.gauge.factor = self.correction.factor(name)

    def _learn_refusal(self, turn: OpenTurn, compiled: Compiled) -> None:
        """What was refused has at least as many tokens as the budget, whatever we counted."""
        gauge, request = turn.body.gauge, compiled.request
        load = gauge.counted(request.messages, request.tools)
        if load.tokens < load.budget:
            self._learn(turn, load.budget, load.raw)

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
        ended = (await self._finish(turn, take_up(turn.body, plan), cancelled=True)).ended
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
    # A long request is also what makes a call time out; a short one times out for other reasons.
    long = isinstance(error, ContextTooLong) or compiled.load.over(
        turn.body.agent.settings.paging.target
    )
    return long and bool(evictable(turn.queue, turn.keep))


def _usage(reply: Reply, compiled: Compiled) -> Usage:
    if reply.usage is not None and reply.usage.total_tokens:
        return reply.usage
    said = len(reply.content) + sum(len(call.arguments) for call in reply.calls)
    return Usage(1, compiled.load.tokens, said // 4, estimated=True)
