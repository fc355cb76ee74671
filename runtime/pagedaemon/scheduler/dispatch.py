"""Runs the turns of one space in this process, each as a task of its own over the one loop.

Whoever sends or streams only listens. So a listener that goes away never halves a turn, and a
message that was accepted is answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pagedaemon.agent import AgentRecord
from pagedaemon.clock import Clock
from pagedaemon.config import Model
from pagedaemon.errors import Closed, LeaseLost, StoreError
from pagedaemon.events import Event, Turn, TurnEnded
from pagedaemon.llm.gateway import Absent, Connections
from pagedaemon.llm.tokens import Correction
from pagedaemon.loop import Loop
from pagedaemon.messages import StopReason
from pagedaemon.resources import Prompts
from pagedaemon.scheduler.approvals import Approvals
from pagedaemon.scheduler.bodies import Bodies
from pagedaemon.scheduler.claims import Claimed, Claims
from pagedaemon.scheduler.following import Following, events_of
from pagedaemon.scheduler.idle import LONG_POLL, Idle, News, wait
from pagedaemon.scheduler.leases import Renewal
from pagedaemon.scheduler.outcomes import Outcomes
from pagedaemon.scheduler.places import Places
from pagedaemon.scheduler.running import Running, error_of
from pagedaemon.scheduler.timers import Timers
from pagedaemon.scheduler.watch import Watch
from pagedaemon.store import conversations as rows
from pagedaemon.store import journal, token_factors
from pagedaemon.store.database import Database
from pagedaemon.store.journal import Key, Plan, TurnRow, Wake
from pagedaemon.store.transaction import Transaction
from pagedaemon.store.worker import Worker
from pagedaemon.tools.tool import Tool
from pagedaemon.turn.body import Body
from pagedaemon.turn.calls import Handles
from pagedaemon.turn.expected import Expected
from pagedaemon.turn.state import OpenTurn

if TYPE_CHECKING:
    from pagedaemon.memory.embedding import Meaning

T = TypeVar("T")

logger = logging.getLogger("pagedaemon")

RETRY = 5.0
"""Seconds after which a turn is taken up again whose end could not be stored."""


class Scheduler:
    """Runs the turns of one space in this process. It belongs to the event loop that opened it.

    Args:
        store: the space.
        worker: this process, as the owner of leases.
        clock: the time.
        prompts: the texts the model reads.
        model: the default model; None for none.
        connections: the models that can be asked; whoever gives them closes them.
        tools: Python tools, for agents that were given them in an earlier run.
        handles: makes the live handles that a tool's context carries.
        meaning: finds by meaning; None: search is by words alone. Whoever gives it closes it.

    Raises:
        ToolDefinitionError: the tools cannot be used together.
    """

    def __init__(
        self,
        store: Database,
        worker: Worker,
        clock: Clock,
        prompts: Prompts,
        model: Model | None,
        connections: Connections,
        tools: Iterable[Tool],
        handles: Handles,
        meaning: Meaning | None = None,
    ) -> None:
        self.store = store
        self.meaning = meaning
        self.clock = clock
        self.prompts = prompts
        self._loop = Loop(store, clock, handles)
        asking = self._loop.asking
        self.bodies = Bodies(
            prompts,
            model,
            connections,
            tools,
            lambda name: asking.correction.factor(name),
            meaning,
        )
        self.claims = Claims(worker, clock, self.bodies)
        self.worker = worker
        self._home: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._accepting: set[asyncio.Task[Running]] = set()
        self._running: dict[str, Running] = {}
        self._in_hand: set[str] = set()
        """Conversations of which a turn is in memory: until it is put down nobody else here may
        use its window and body, also after its end is committed."""
        self._given_up: set[str] = set()
        """Turns of ours that are open in the store and run no more, because it failed."""
        self._expected: dict[str, Expected[Any]] = {}
        """The types asked for here, by turn: in the store is only their schema."""
        self._news = News()
        self._idle = Idle(store, self.claims, self._news, self._take_over)
        self._places = Places(
            store,
            self.claims,
            self._news,
            meaning,
            self._running,
            self._in_hand,
            self._take_over,
        )
        self._told_unable: set[str] = set()
        self._following = Following(
            store, self._news, self._running, self._take_over_orphan, self._require_open
        )
        self._looking: set[asyncio.Task[None]] = set()
        self.approvals = Approvals(
            store,
            clock,
            self.claims,
            self._start_queued,
            lambda: self.timers.is_open,
        )
        self.outcomes = Outcomes(
            store, clock, self.claims, self._start_queued, lambda: self.timers.is_open
        )
        self.timers = Timers(
            store,
            clock,
            self.claims,
            worker.id,
            self._start_queued,
            self.approvals.expire_due,
        )
        self.watch = Watch(worker.lease_seconds, lambda: self.recover(anyhow=False))

    async def open(self) -> None:
        """Reads what was learnt about token counts."""
        self._home = asyncio.get_running_loop()
        self._loop.asking.correction = Correction(await self.store.read(token_factors.factors))

    def body(self, agent: AgentRecord) -> Body:
        """What an agent acts with, made anew.

        Raises:
            NoModel, ConfigError: its model cannot be had.
        """
        return self.bodies.make(agent)

    # ------------------------------------------------------------------ accepting

    async def send(
        self,
        conversation_id: str,
        wake: Wake,
        expected: Expected[Any] | None = None,
        *,
        key: Key | None = None,
        lasting: bool = False,
    ) -> Running:
        """Accepts a message: when this returns it is stored, and its turn runs or waits for its
        place. If the caller is cancelled before, the turn is stopped, unless it has a key.

        Args:
            expected: the type that the reply must have, where the wake names its schema.
            key: what was sent with it before is not accepted again: it is that turn.
            lasting: as in `Running`; with a key it always is.

        Raises:
            NotFound: there is no such conversation.
            KeyConflict: something else was sent with the key.
            NoModel, ConfigError: its agent cannot answer; nothing was stored.
            StoreError: the message could not be stored.
            Closed: the runtime was closed, or belongs to another event loop.
        """
        self._require_open()
        while self._idle.paused(conversation_id):
            await wait(self._news.of(conversation_id), LONG_POLL)
            self._require_open()
        accepting = asyncio.create_task(
            self._accept(conversation_id, wake, expected, key, lasting or key is not None)
        )
        self._accepting.add(accepting)
        accepting.add_done_callback(self._accepting.discard)
        try:
            return await asyncio.shield(accepting)
        except asyncio.CancelledError:
            # What is being stored cannot be called back: it is let in, and stopped.
            await asyncio.wait([accepting])
            if key is None and not accepting.cancelled() and accepting.exception() is None:
                await accepting.result().cancel()
            raise

    async def _accept(
        self,
        conversation_id: str,
        wake: Wake,
        expected: Expected[Any] | None,
        key: Key | None,
        lasting: bool,
    ) -> Running:
        turn_id, found = await self.store.write(
            lambda tx: self.claims.accept(
                tx, conversation_id, wake, busy=conversation_id in self._in_hand, key=key
            )
        )
        if isinstance(found, Turn):
            return await self._past(found)
        if expected is not None:
            self._expected[turn_id] = expected
        running = self._start(turn_id, conversation_id, found)
        running.lasting |= lasting
        return running

    async def _past(self, turn: Turn) -> Running:
        """A turn that has ended, for who listens to it anew."""
        running = Running(turn.id, turn.conversation_id, taken_up=True, lasting=True)
        await self._tell_end(running, turn)
        running.close(error_of(turn))
        return running

    async def recover(self, *, anyhow: bool, with_code: bool = False) -> list[Running]:
        """Takes up every turn that a process which is gone left open.

        Args:
            anyhow: also those whose agent has no model now, which then end as interrupted; without,
                they are left as they are, and said in the log.
            with_code: as in `Claims.unable`.

        Returns:
            all that run, those that were taken up earlier too.
        """
        self._require_open()

        def look(tx: Transaction) -> list[tuple[TurnRow, str | None]]:
            unable = partial(self.claims.unable, tx, with_code=with_code)
            return [
                (row, None if anyhow else unable(row.conversation_id, row.wake))
                for row in journal.open_turns(tx)
                if self.abandoned(row)
            ]

        found = await self.store.read(look)
        left = [row for row, unable in found if unable is None]
        if left:
            logger.info("taking up %d turn(s) left open by a process that is gone", len(left))
        for row, unable in found:
            if unable is not None and row.id not in self._told_unable:
                self._told_unable.add(row.id)
                logger.warning("turn %s stays open: %s", row.id, unable)
        for row in left:
            self._take_over(row)
        return [running for running in self._running.values() if running.taken_up]

    def abandoned(self, row: TurnRow) -> bool:
        """Whether nobody works on an open turn: its process is gone, or we gave it up."""
        if row.id in self._running:
            return False
        return row.id in self._given_up or self.claims.orphaned(row)

    def _take_over(self, row: TurnRow) -> None:
        if not self._closed and self.abandoned(row):
            self._start(row.id, row.conversation_id, None, taken_up=True)

    def _take_over_orphan(self, row: TurnRow) -> None:
        """As `_take_over`; what the store has failed is tried again in its own time."""
        if row.id not in self._given_up:
            self._take_over(row)

    def _start_queued(self, turn_id: str, conversation_id: str) -> None:
        """Runs a turn that nobody waits for: when the runtime is closed it stays for later."""
        if not self._closed:
            self._start(turn_id, conversation_id, None, taken_up=True)

    def _look(self) -> None:
        """Sees soon what a commit has queued, and when timers are due."""
        if self._closed:
            return
        self.timers.look()
        looking = asyncio.create_task(self._start_stirred())
        self._looking.add(looking)
        looking.add_done_callback(self._looking.discard)

    async def _start_stirred(self) -> None:
        """Starts the turns that were queued here in another turn's commit."""
        try:
            found = await self.store.read(journal.open_turns)
        except StoreError as error:
            logger.warning("what was queued waits for the store: %s", error)
            asyncio.get_running_loop().call_later(RETRY, self._look)
            return
        for row in found:
            if row.status == "queued" and row.owner == self.worker.id:
                self._start_queued(row.id, row.conversation_id)

    # ------------------------------------------------------------------ running

    def _start(
        self,
        turn_id: str,
        conversation_id: str,
        claimed: Claimed | None,
        *,
        taken_up: bool = False,
    ) -> Running:
        if turn_id in self._running:
            return self._running[turn_id]
        self._given_up.discard(turn_id)
        running = self._running[turn_id] = Running(turn_id, conversation_id, taken_up=taken_up)
        if claimed is not None:
            self._in_hand.add(conversation_id)
        task = asyncio.create_task(self._run(running, claimed))
        running.runs_as(task)
        task.add_done_callback(lambda task: self._over(running, task))
        return running

    def _over(self, running: Running, task: asyncio.Task[None]) -> None:
        """Tells whoever listens how the task ended, also where it ended in a mistake of ours."""
        del self._running[running.turn_id]
        error = Closed("its event loop was ended") if task.cancelled() else task.exception()
        if isinstance(error, StoreError):
            error.accepted = running.turn_id
        if isinstance(error, StoreError) and not isinstance(error, LeaseLost):
            self._given_up.add(running.turn_id)
            asyncio.get_running_loop().call_later(RETRY, self._try_again, running)
        else:
            self._expected.pop(running.turn_id, None)
        if error is not None and not running.heard:
            logger.warning("turn %s ended with nobody listening: %s", running.turn_id, error)
        running.close(error)
        self._news.tell(running.conversation_id)

    def _try_again(self, running: Running) -> None:
        if not self._closed and running.turn_id in self._given_up:
            self._start(running.turn_id, running.conversation_id, None, taken_up=True)

    async def _run(self, running: Running, claimed: Claimed | None) -> None:
        renewal: Renewal | None = None
        try:
            running.begin()
            if claimed is None:
                place = await self._places.claimed(running)
                if isinstance(place, Turn):
                    await self._tell_end(running, place)
                    if (error := error_of(place)) is not None:
                        raise error
                    return
                self._in_hand.add(running.conversation_id)
                claimed = place
            renewal = Renewal(self.store, claimed.turn, running)
            await self._go_on(running, claimed)
        except asyncio.CancelledError:
            if running.lost is not None:
                raise running.lost from None
            await self._tell_end(running, await self._stopped(running, claimed))
            # What it had just committed may not have been carried over.
            self._look()
        finally:
            if renewal is not None:
                renewal.end()
            if claimed is not None and claimed.turn.stirs:
                self._look()
            if claimed is not None:
                self._put_down(claimed.turn)

    async def _go_on(self, running: Running, claimed: Claimed) -> None:
        turn = claimed.turn
        turn.expected = self._expected.get(turn.id, turn.expected)
        if turn.stop_asked:
            running.stop()
        try:
            plan = await self._reconciled(claimed)
            if claimed.hopeless is not None:
                await self._end(running, turn, "interrupted", claimed.hopeless)
                return
            async for event in self._loop.live(turn, plan):
                if isinstance(event, TurnEnded):
                    self._put_down(turn)
                if turn.stirs:
                    turn.stirs = False
                    self._look()
                running.tell(event)
                if turn.stop_asked and turn.ended is None:
                    running.stop()
        except StoreError:
            raise
        except Exception as error:
            # Whatever it was, the turn ends and the next message is answered.
            if turn.ended is None:
                unmanned = isinstance(turn.body.chat, Absent)
                reason: StopReason = "interrupted" if unmanned else "error"
                await self._end(running, turn, reason, f"{type(error).__name__}: {error}")
            raise

    async def _reconciled(self, claimed: Claimed) -> Plan | None:
        return await self._loop.reconcile(claimed.turn, claimed.plan, may_go_on=claimed.may_go_on)

    async def _end(self, running: Running, turn: OpenTurn, reason: StopReason, error: str) -> None:
        ended = await self._loop.close(turn, reason, error)
        self._put_down(turn)
        await self._tell_end(running, ended)

    async def _tell_end(self, running: Running, turn: Turn) -> None:
        """Tells a turn's end, and before it what was committed of it and not told here."""
        if turn.events > running.number + 1:
            missed = await self.store.read(
                lambda tx: events_of(tx, turn.conversation_id, turn.id, running.number)
            )
            for event in missed.events:
                running.tell(event)
            return
        running.tell(TurnEnded.of(turn))

    def _put_down(self, turn: OpenTurn) -> None:
        if turn.conversation_id in self._in_hand:
            self.bodies.keep(turn)
            self._in_hand.discard(turn.conversation_id)

    async def _stopped(self, running: Running, claimed: Claimed | None) -> Turn:
        """The end of a turn that was stopped: written, if it is not yet."""
        if self._closed and (running.lasting or (running.taken_up and not running.heard)):
            return await self._left(running, claimed)
        if claimed is None:
            found = await self._places.withdrawn(running.turn_id)
            if isinstance(found, Turn):
                return found
            claimed = found
            await self._reconciled(claimed)
        if claimed.turn.ended is not None:
            return claimed.turn.ended
        return await self._loop.close(claimed.turn, "cancelled")

    async def _left(self, running: Running, claimed: Claimed | None) -> Turn:
        """Leaves a turn to the next who opens the store; or its end, where it had just ended.

        Raises:
            Closed: it was left.
        """

        def work(tx: Transaction) -> Turn | None:
            row = journal.turn_by_id(tx, running.turn_id)
            if row is not None and row.status == "done":
                return journal.turn_record(tx, row)
            if row is not None and claimed is not None:
                journal.put_back(tx, row.id, claimed.turn.lease)
            # A claim that was on its way when we were stopped is committed before this, or never.
            elif row is not None and (lease := running.asked_for) and journal.holds(tx, lease):
                journal.put_back(tx, row.id, lease)
            return None

        ended = await self.store.write(work)
        if ended is None:
            raise Closed("the runtime was closed; the turn is taken up again when it is opened")
        return ended

    # ------------------------------------------------------------------ beside turns

    def follow(self, conversation_id: str, turn_id: str, after: int) -> AsyncGenerator[Event, None]:
        """A turn's events with higher numbers than that, each once, and what is provisional of the
        step in progress, where the turn runs here. It neither stops the turn nor keeps it.

        Raises:
            NotFound: there is no such turn in the conversation.
            StoreError: the store failed.
            Closed: the runtime was closed, or belongs to another event loop.
        """
        return self._following.events(conversation_id, turn_id, after)

    async def when_idle(self, conversation_id: str, work: Callable[[Transaction], T]) -> T:
        """Runs a transaction on a conversation while no turn of it is open, after those that are.
        Messages sent meanwhile come after it.

        Raises:
            NotFound: there is no such conversation.
        """
        self._require_open()
        with self._idle.pausing([conversation_id]):
            return await self._idle.run(lambda tx: [conversation_id], work)

    async def when_agent_idle(self, agent_id: str, work: Callable[[Transaction], T]) -> T:
        """As `when_idle`, for all conversations of an agent. Its turns that run or wait in this
        process are stopped."""
        self._require_open()

        def conversations(tx: Transaction) -> list[str]:
            return [row.id for row in rows.of_agent(tx, agent_id)]

        ids = await self.store.read(conversations)
        with self._idle.pausing(ids):
            await asyncio.gather(*map(self.cancel, ids))
            value = await self._idle.run(conversations, work)
        self.bodies.forget(agent_id, ids)
        return value

    async def end_of(self, turn_id: str, conversation_id: str) -> Turn:
        """Waits for the end of a turn, whichever process runs it.

        Raises:
            NotFound: it was deleted.
            Closed: the runtime was closed meanwhile.
        """
        self._require_open()
        return await self._places.end_of(turn_id, conversation_id)

    async def stop(self, turn_id: str, conversation_id: str) -> Turn:
        """Stops a turn, whichever process runs it, and waits until its end is written.

        Raises:
            NotFound: it was deleted.
            Closed: the runtime was closed meanwhile.
        """
        self._require_open()
        await self._start(turn_id, conversation_id, None, taken_up=True).cancel()
        return await self._places.end_of(turn_id, conversation_id)

    async def cancel(self, conversation_id: str) -> int:
        """Stops the turns of a conversation that run or wait in this process. Returns how many."""
        self._require_open()
        here = [r for r in self._running.values() if r.conversation_id == conversation_id]
        await _stop_all(here)
        return len(here)

    async def close(self) -> None:
        """Stops what runs and waits until that is written.

        Messages that wait for their turn stay in the store, and so do turns that were left open
        once and that nobody here waits for: they are gone on with when it is opened again.
        """
        self._closed = self._places.closed = True
        await self.timers.close()
        await self.watch.close()
        if self._accepting:
            await asyncio.wait(set(self._accepting))
        await _stop_all(list(self._running.values()))
        await asyncio.gather(*self._looking)

    def _require_open(self) -> None:
        if self._closed:
            raise Closed("this runtime was closed: open a new one")
        if asyncio.get_running_loop() is not self._home:
            raise Closed(
                "this runtime was opened in another event loop or process: open one here, or use "
                "the blocking Runtime, which takes calls from every thread"
            )


async def _stop_all(turns: Sequence[Running]) -> None:
    for running in reversed(turns):
        running.stop()
    await asyncio.gather(*(running.settled() for running in turns))
