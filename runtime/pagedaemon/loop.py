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

from collections.abc import AsyncGenerator

from pagedaemon.clock import Clock
from pagedaemon.errors import ContextOverflow, ModelError, ReplyInvalid, RequestRejected
from pagedaemon.events import Event, Turn, TurnEnded
from pagedaemon.messages import StopReason
from pagedaemon.store import journal
from pagedaemon.store.database import Database
from pagedaemon.store.journal import told_again
from pagedaemon.turn.asking import Asked, Asking, OutOfTime, contained
from pagedaemon.turn.calls import Handles, run_outside
from pagedaemon.turn.closing import close, end, finish_or_keep
from pagedaemon.turn.draft import take_up
from pagedaemon.turn.pageout import make_room
from pagedaemon.turn.state import OpenTurn
from pagedaemon.turn.usage import believable
from pagedaemon.turn.withholding import explained, suspected


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
        self.asking = Asking(store, clock)

    async def live(
        self, turn: OpenTurn, plan: journal.Plan | None = None
    ) -> AsyncGenerator[Event, None]:
        """The turn's events, in order, of one taken up after a crash those that were told before
        too; the last is `TurnEnded`. Where it is stopped before that, `close` brings the turn to
        its end.

        Args:
            turn: claimed, with its event in the window.
            plan: of a turn taken up after a crash: the step whose reply is stored already.

        Raises:
            ModelError: the model gave no usable reply. The turn has ended with `error`.
            ReplyInvalid: none of the type asked for. The turn has ended with `invalid_reply`.
            ContextOverflow: what must be in the request does not fit. As above.
            LeaseLost: another worker has taken the conversation over; nothing more was written.
            StoreError: the store failed; nothing of the step was kept.
        """
        store, clock = self._store, self._clock
        draft = None if plan is None else take_up(turn.body, plan)
        try:
            for event in told_again(turn.id, turn.conversation_id, turn.told, turn.steps, None):
                yield event
            while turn.ended is None:
                if draft is None:
                    async for event in contained(make_room(store, clock, turn)):
                        yield event
                    turn.unrecorded = believable(turn.unrecorded)
                    asked = Asked()
                    async for event in self.asking.ask(turn, asked):
                        yield event
                    draft = asked.draft
                    if draft is None:
                        continue
                if draft.has_outside:
                    draft = await run_outside(store, clock, turn, draft, self._handles)
                factor = self._factor(turn)
                finished = await finish_or_keep(store, clock, turn, draft, factor=factor)
                draft = None
                for event in finished.events:
                    yield event
        except OutOfTime:
            await end(store, clock, turn, "max_seconds")
        except (ModelError, ContextOverflow) as error:
            withheld = suspected(turn, error)
            if not withheld or not isinstance(error, RequestRejected):
                yield TurnEnded.of(await end(store, clock, turn, "error", str(error)))
                raise
            told = explained(error, withheld)
            yield TurnEnded.of(await end(store, clock, turn, "error", str(told), withheld=withheld))
            raise told from error
        assert turn.ended is not None
        yield TurnEnded.of(turn.ended)
        if turn.ended.stop_reason == "invalid_reply" and turn.refusal is not None:
            refusal = turn.refusal
            raise ReplyInvalid(turn.id, "invalid_reply", refusal.text, refusal.problems)

    async def close(self, turn: OpenTurn, reason: StopReason, error: str | None = None) -> Turn:
        """Ends a turn from outside: see `pagedaemon.turn.closing.close`."""
        return await close(self._store, self._clock, turn, reason, error, self._factor(turn))

    def _factor(self, turn: OpenTurn) -> float | None:
        return self.asking.correction.factors.get(turn.body.model.name)
