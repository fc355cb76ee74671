"""Accepts what wakes the agents of one space, and takes up what a process that is gone left open.

What is accepted runs as a task of its own (`tasks.py`), and whoever sends or streams only listens.
So a listener that goes away never halves a turn, and a message that was accepted is answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any, TypeVar

from pagedaemon.agent import AgentRecord
from pagedaemon.clock import Clock
from pagedaemon.errors import Closed, StoreError
from pagedaemon.events import Event, Turn
from pagedaemon.llm.tokens import Correction
from pagedaemon.loop import Loop
from pagedaemon.scheduler.approvals import Approvals
from pagedaemon.scheduler.bodies import Bodies, Outfit
from pagedaemon.scheduler.claims import Claims
from pagedaemon.scheduler.following import Following
from pagedaemon.scheduler.idle import LONG_POLL, Idle, News, wait
from pagedaemon.scheduler.outcomes import Outcomes
from pagedaemon.scheduler.running import Running
from pagedaemon.scheduler.tasks import RETRY, Tasks
from pagedaemon.scheduler.timers import Timers
from pagedaemon.scheduler.waker import Waker
from pagedaemon.scheduler.watch import Watch
from pagedaemon.store import conversations as rows
from pagedaemon.store import journal, token_factors
from pagedaemon.store.database import Database
from pagedaemon.store.journal import Key, TurnRow, Wake
from pagedaemon.store.transaction import Transaction
from pagedaemon.store.worker import Worker
from pagedaemon.turn.body import Body
from pagedaemon.turn.calls import Handles
from pagedaemon.turn.expected import Expected

T = TypeVar("T")

logger = logging.getLogger("pagedaemon")


class Scheduler:
    """Runs the turns of one space in this process. It belongs to the event loop that opened it.

    Args:
        store: the space.
        worker: this process, as the owner of leases.
        clock: the time.
        outfit: what its agents are given; whoever gives it closes what is in it.
        handles: makes the live handles that a tool's context carries.

    Raises:
        ToolDefinitionError: the tools cannot be used together.
    """

    def __init__(
        self, store: Database, worker: Worker, clock: Clock, outfit: Outfit, handles: Handles
    ) -> None:
        self.store = store
        self.worker = worker
        self.clock = clock
        self.prompts = outfit.prompts
        self.meaning = outfit.meaning
        self._loop = Loop(store, clock, handles)
        asking = self._loop.asking
        self.bodies = Bodies(outfit, lambda model: asking.correction.factor(model))
        self.claims = Claims(worker, clock, self.bodies)
        self._home: asyncio.AbstractEventLoop | None = None
        self._news = News()
        self._tasks = Tasks(
            store,
            clock,
            self._loop,
            self.bodies,
            self.claims,
            self._news,
            self.meaning,
            self._look,
        )
        tasks = self._tasks
        self._idle = Idle(store, self.claims, self._news, tasks.take_over)
        self._following = Following(
            store, self._news, tasks.here, tasks.take_over_orphan, self._require_open
        )
        self._accepting: set[asyncio.Task[Running]] = set()
        self._looking: set[asyncio.Task[None]] = set()
        self._told_unable: set[str] = set()
        waker = Waker(store, clock, self.claims, tasks.start_queued)
        self.approvals = Approvals(waker)
        self.outcomes = Outcomes(waker)
        self.timers = Timers(waker, self.approvals.expire_due)
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
                tx, conversation_id, wake, busy=conversation_id in self._tasks.in_hand, key=key
            )
        )
        if isinstance(found, Turn):
            return await self._tasks.past(found)
        if expected is not None:
            self._tasks.expected[turn_id] = expected
        running = self._tasks.start(turn_id, conversation_id, found)
        running.lasting |= lasting
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
                if self._tasks.abandoned(row)
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
            self._tasks.take_over(row)
        return [running for running in self._tasks.here.values() if running.taken_up]

    def abandoned(self, row: TurnRow) -> bool:
        """Whether nobody works on an open turn: its process is gone, or we gave it up."""
        return self._tasks.abandoned(row)

    def _look(self) -> None:
        """Sees soon what a commit has queued, and when timers are due."""
        if self._tasks.closed:
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
                self._tasks.start_queued(row.id, row.conversation_id)

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
        return await self._tasks.places.end_of(turn_id, conversation_id)

    async def stop(self, turn_id: str, conversation_id: str) -> Turn:
        """Stops a turn, whichever process runs it, and waits until its end is written.

        Raises:
            NotFound: it was deleted.
            Closed: the runtime was closed meanwhile.
        """
        self._require_open()
        await self._tasks.start(turn_id, conversation_id, taken_up=True).cancel()
        return await self._tasks.places.end_of(turn_id, conversation_id)

    async def cancel(self, conversation_id: str) -> int:
        """Stops the turns of a conversation that run or wait in this process. Returns how many."""
        self._require_open()
        return await self._tasks.stop_of(conversation_id)

    async def close(self) -> None:
        """Stops what runs and waits until that is written.

        Messages that wait for their turn stay in the store, and so do turns that were left open
        once and that nobody here waits for: they are gone on with when it is opened again.
        """
        self._tasks.refuse()
        await self.timers.close()
        await self.watch.close()
        if self._accepting:
            await asyncio.wait(set(self._accepting))
        await self._tasks.stop_all()
        await asyncio.gather(*self._looking)

    def _require_open(self) -> None:
        if self._tasks.closed:
            raise Closed("this runtime was closed: open a new one")
        if asyncio.get_running_loop() is not self._home:
            raise Closed(
                "this runtime was opened in another event loop or process: open one here, or use "
                "the blocking Runtime, which takes calls from every thread"
            )
