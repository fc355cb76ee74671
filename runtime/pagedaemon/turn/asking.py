"""Asking the model for one reply, whatever it does: its turn's time is kept, and what it reports or
refuses teaches how to count."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import TypeVar

from pagedaemon.clock import Clock
from pagedaemon.errors import BadReply, ContextTooLong, ModelError, ModelTimedOut
from pagedaemon.events import Event, StepReset, StepStarted
from pagedaemon.llm.protocol import Reply
from pagedaemon.llm.tokens import Correction
from pagedaemon.memory.eviction import evictable
from pagedaemon.store.database import Database
from pagedaemon.turn.body import Compiled
from pagedaemon.turn.draft import Draft, read_reply
from pagedaemon.turn.pageout import foreign_ends, relieve
from pagedaemon.turn.speech import Speech
from pagedaemon.turn.state import OpenTurn
from pagedaemon.turn.usage import believable, usage_of

T = TypeVar("T")


class OutOfTime(Exception):
    """The turn's own time was up while the model was asked. Never leaves the loop."""


@dataclass
class Asked:
    """Where asking leaves its reply; None where the step is to be begun anew."""

    draft: Draft | None = None


class Asking:
    """Asks the models of one space.

    Args:
        store: where everything is.
        clock: the time.

    Attributes:
        correction: what their reports have taught about our token counts.
    """

    def __init__(self, store: Database, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.correction = Correction()

    async def ask(self, turn: OpenTurn, asked: Asked) -> AsyncGenerator[Event, None]:
        """Asks the model once. Its reply is left in `asked`.

        Where the request turns out to be too long for the provider, or so long that it times out,
        the window is emptied once and the step begun anew.
        """
        compiled = turn.body.compile(turn.blocks, turn.queue)
        step, heartbeat = len(turn.steps) + 1, turn.woken_by
        yield StepStarted(turn.id, step, heartbeat)
        speech = Speech(turn.id, step, turn.body.agent.settings.style)
        reply: Reply | None = None
        heard = False
        limit = asyncio.timeout(turn.deadline - self._clock.monotonic())
        try:
            async with limit:
                async for part in contained(turn.body.chat.stream(compiled.request)):
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
            async for event in contained(relieve(self._store, self._clock, turn)):
                yield event
            turn.unrecorded = believable(turn.unrecorded)
            return
        if reply is None:
            raise BadReply("the model's stream ended without a reply")
        usage = usage_of(reply, compiled)
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
            past=[call for made in turn.steps for call in made.calls],
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


def _may_relieve(turn: OpenTurn, compiled: Compiled, error: ModelError) -> bool:
    # A long request is what makes a call time out; a short one times out for other reasons.
    long = isinstance(error, ContextTooLong) or compiled.load.over(
        turn.body.agent.settings.paging.target
    )
    return long and bool(evictable(turn.queue, turn.keep))


async def contained(items: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """What a model gives, where it may raise what would end the program or our own task.

    Raises:
        BadReply: in place of a cancellation that nobody asked for, and of what is no `Exception`.
    """
    try:
        while True:
            with foreign_ends():
                try:
                    item = await anext(items)
                except StopAsyncIteration:
                    return
            yield item
    finally:
        if isinstance(items, AsyncGenerator):
            await items.aclose()
