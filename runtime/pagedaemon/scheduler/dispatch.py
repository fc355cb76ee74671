"""Runs the turns of one space in this process, each as a task of its own over the one loop.

Whoever sends or streams only listens. So a listener that goes away never halves a turn, and a
message that was accepted is answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from pagedaemon.agent import AgentRecord
from pagedaemon.clock import Clock
from pagedaemon.config import Model
from pagedaemon.errors import Closed, ConfigError, LeaseLost, NotFound, StoreError
from pagedaemon.events import Turn, TurnEnded
from pagedaemon.llm.gateway import Connections
from pagedaemon.llm.tokens import Correction
from pagedaemon.loop import Loop
from pagedaemon.messages import StopReason
from pagedaemon.resources import Prompts
from pagedaemon.scheduler.bodies import Bodies
from pagedaemon.scheduler.claims import Claimed, Claims
from pagedaemon.scheduler.running import Running
from pagedaemon.store import conversations as rows
from pagedaemon.store import journal
from pagedaemon.store.database import Database
from pagedaemon.store.journal import Head, TurnRow, Wake
from pagedaemon.store.transaction import Transaction
from pagedaemon.store.worker import Worker
from pagedaemon.tools.tool import Tool
from pagedaemon.turn.body import Body
from pagedaemon.turn.calls import Handles
from pagedaemon.turn.state import OpenTurn

T = TypeVar("T")

logger = logging.getLogger("pagedaemon")

POLL = 0.05
"""Seconds between two looks at a conversation that another process has."""

LONG_POLL = 1.0
"""Seconds between two looks at a conversation whose turns end in this process, which says so."""

RETRY = 5.0
"""Seconds after which a turn is taken up again whose end could not be stored."""


@dataclass(frozen=True)
class _Done(Generic[T]):
    value: T


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
    ) -> None:
        self.store = store
        self.clock = clock
        self.prompts = prompts
        self._loop = Loop(store, clock, handles)
        self.bodies = Bodies(
            prompts, model, connections, tools, lambda name: self._loop.correction.factor(name)
        )
        self._claims = Claims(worker, clock, self.bodies)
        self._owner = worker.id
        self._home: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._accepting: set[asyncio.Task[Running]] = set()
        self._running: dict[str, Running] = {}
        self._in_hand: set[str] = set()
        """Conversations of which a turn is in memory: until it is put down nobody else here may
        use its window and body, also after its end is committed."""
        self._given_up: set[str] = set()
        """Turns of ours that are open in the store and run no more, because it failed."""
        self._paused: Counter[str] = Counter()
        """Conversations that take no message for a moment, so that they can become idle."""
        self._news: dict[str, asyncio.Event] = {}

    async def open(self) -> None:
        """Reads what was learnt about token counts."""
        self._home = asyncio.get_running_loop()
        self._loop.correction = Correction(await self.store.read(journal.factors))

    def body(self, agent: AgentRecord) -> Body:
        """What an agent acts with, made anew.

        Raises:
            NoModel, ConfigError: its model cannot be had.
        """
        return self.bodies.make(agent)

    # ------------------------------------------------------------------ accepting

    async def send(self, conversation_id: str, wake: Wake) -> Running:
        """Accepts a message: when this returns it is stored, and its turn runs or waits for its
        place. If the caller is cancelled before, the turn is stopped.

        Raises:
            NotFound: there is no such conversation.
            NoModel, ConfigError: its agent cannot answer; nothing was stored.
            StoreError: the message could not be stored.
            Closed: the runtime was closed, or belongs to another event loop.
        """
        self._require_open()
        while conversation_id in self._paused:
            await _wait(self._news_of(conversation_id), LONG_POLL)
            self._require_open()
        accepting = asyncio.create_task(self._accept(conversation_id, wake))
        self._accepting.add(accepting)
        accepting.add_done_callback(self._accepting.discard)
        try:
            return await asyncio.shield(accepting)
        except asyncio.CancelledError:
            # What is being stored cannot be called back: it is let in, and stopped.
            await asyncio.wait([accepting])
            if not accepting.cancelled() and accepting.exception() is None:
                await accepting.result().cancel()
            raise

    async def _accept(self, conversation_id: str, wake: Wake) -> Running:
        turn_id, claimed = await self.store.write(
            lambda tx: self._claims.accept(
                tx, conversation_id, wake, busy=conversation_id in self._in_hand
            )
        )
        return self._start(turn_id, conversation_id, claimed)

    async def recover(self, *, anyhow: bool) -> list[Running]:
        """Takes up every turn that a process which is gone left open.

        Args:
            anyhow: also those whose agent has no model now, which then end as interrupted; without,
                they are left as they are, and said in the log.

        Returns:
            all that run, those that were taken up earlier too.
        """
        self._require_open()

        def look(tx: Transaction) -> list[tuple[TurnRow, str | None]]:
            return [
                (row, None if anyhow else self._claims.unable(tx, row.conversation_id))
                for row in journal.open_turns(tx)
                if self._abandoned(row)
            ]

        found = await self.store.read(look)
        left = [row for row, unable in found if unable is None]
        if left:
            logger.info("taking up %d turn(s) left open by a process that is gone", len(left))
        for row, unable in found:
            if unable is not None:
                logger.warning("turn %s stays open: %s", row.id, unable)
        for row in left:
            self._take_over(row)
        return [running for running in self._running.values() if running.taken_up]

    def _abandoned(self, row: TurnRow) -> bool:
        """Whether nobody works on an open turn: its process is gone, or we gave it up."""
        if row.id in self._running:
            return False
        return row.id in self._given_up or self._claims.orphaned(row)

    def _take_over(self, row: TurnRow) -> None:
        if not self._closed and self._abandoned(row):
            self._start(row.id, row.conversation_id, None, taken_up=True)

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
        if isinstance(error, StoreError) and not isinstance(error, LeaseLost):
            error.accepted = running.turn_id
            self._given_up.add(running.turn_id)
            asyncio.get_running_loop().call_later(RETRY, self._try_again, running)
        if error is not None and not running.heard:
            logger.warning("turn %s ended with nobody listening: %s", running.turn_id, error)
        running.close(error)
        self._tell_news(running.conversation_id)

    def _try_again(self, running: Running) -> None:
        if not self._closed and running.turn_id in self._given_up:
            self._start(running.turn_id, running.conversation_id, None, taken_up=True)

    async def _run(self, running: Running, claimed: Claimed | None) -> None:
        try:
            running.begin()
            if claimed is None:
                place = await self._its_place(running)
                if isinstance(place, Turn):
                    running.tell(TurnEnded(running.turn_id, place))
                    return
                self._in_hand.add(running.conversation_id)
                claimed = place
            await self._go_on(running, claimed)
        except asyncio.CancelledError:
            running.tell(TurnEnded(running.turn_id, await self._stopped(running, claimed)))
        finally:
            if claimed is not None:
                self._put_down(claimed.turn)

    async def _go_on(self, running: Running, claimed: Claimed) -> None:
        turn = claimed.turn
        if claimed.hopeless is not None:
            await self._end(running, turn, "interrupted", claimed.hopeless)
            return
        try:
            async for event in self._loop.live(turn, claimed.plan):
                if isinstance(event, TurnEnded):
                    self._put_down(turn)
                running.tell(event)
        except StoreError:
            raise
        except Exception as error:
            # Whatever it was, the turn ends and the next message is answered.
            if turn.ended is None:
                reason: StopReason = "interrupted" if isinstance(error, ConfigError) else "error"
                await self._end(running, turn, reason, f"{type(error).__name__}: {error}")
            raise

    async def _end(self, running: Running, turn: OpenTurn, reason: StopReason, error: str) -> None:
        ended = await self._loop.close(turn, reason, error)
        self._put_down(turn)
        running.tell(TurnEnded(turn.id, ended))

    def _put_down(self, turn: OpenTurn) -> None:
        if turn.conversation_id in self._in_hand:
            self.bodies.keep(turn)
            self._in_hand.discard(turn.conversation_id)

    async def _stopped(self, running: Running, claimed: Claimed | None) -> Turn:
        """The end of a turn that was stopped: written, if it is not yet."""
        if self._closed and running.taken_up and not running.heard:
            if claimed is not None:
                await self.store.write(lambda tx: journal.put_back(tx, running.turn_id))
            raise Closed("the runtime was closed; the turn is taken up again when it is opened")
        if claimed is None:
            # A claim that was on its way when we were stopped is committed before this.
            end = await self.store.write(lambda tx: self._withdrawn(tx, running.turn_id))
            if isinstance(end, Turn):
                return end
            claimed = end
        if claimed.turn.ended is not None:
            return claimed.turn.ended
        return await self._loop.close(claimed.turn, "cancelled")

    def _withdrawn(self, tx: Transaction, turn_id: str) -> Turn | Claimed:
        row = journal.turn_by_id(tx, turn_id)
        if row is None:
            raise NotFound(f"turn {turn_id} was deleted")
        if row.status == "done":
            return journal.turn_record(tx, row)
        if row.status == "queued" and self._closed:
            raise Closed(
                "the runtime was closed while this message waited for its turn; it is stored, and "
                "answered when the space is opened again"
            )
        found = self._claims.withdraw(tx, turn_id) or self._claims.take_up(tx, turn_id)
        if found is None:
            raise LeaseLost(f"turn {turn_id} was taken up by another worker")
        return found

    async def _its_place(self, running: Running) -> Claimed | Turn:
        """Waits until a turn is the first of its conversation, and claims it; or its end, where
        another process has brought it there.

        Raises:
            NotFound: it was deleted.
        """
        turn_id, conversation_id = running.turn_id, running.conversation_id

        def look(tx: Transaction) -> tuple[TurnRow, Head, TurnRow | None] | Turn:
            row = journal.turn_by_id(tx, turn_id)
            if row is None:
                raise NotFound(f"turn {turn_id} was deleted")
            if row.status == "done":
                return journal.turn_record(tx, row)
            first = journal.first_open_turn(tx, conversation_id)
            return row, self._claims.head(tx, conversation_id), first

        while True:
            news = self._news_of(conversation_id)
            seen = await self.store.read(look)
            if isinstance(seen, Turn):
                return seen
            _, head, first = seen
            mine = first is not None and first.id == turn_id
            if mine and not self._claims.held(head) and conversation_id not in self._in_hand:
                claimed = await self.store.write(lambda tx: self._claims.take_up(tx, turn_id))
                if claimed is not None:
                    return claimed
            elif first is not None and not mine:
                self._take_over(first)
            ours = first is not None and not mine and first.id in self._running
            await _wait(news, LONG_POLL if ours else POLL)

    # ------------------------------------------------------------------ beside turns

    async def when_idle(self, conversation_id: str, work: Callable[[Transaction], T]) -> T:
        """Runs a transaction on a conversation while no turn of it is open, after those that are.
        Messages sent meanwhile come after it.

        Raises:
            NotFound: there is no such conversation.
        """
        self._require_open()
        with self._pausing([conversation_id]):
            return await self._when_idle(lambda tx: [conversation_id], work)

    async def when_agent_idle(self, agent_id: str, work: Callable[[Transaction], T]) -> T:
        """As `when_idle`, for all conversations of an agent. Its turns that run or wait in this
        process are stopped."""
        self._require_open()

        def conversations(tx: Transaction) -> list[str]:
            return [row.id for row in rows.of_agent(tx, agent_id)]

        ids = await self.store.read(conversations)
        with self._pausing(ids):
            await asyncio.gather(*map(self.cancel, ids))
            value = await self._when_idle(conversations, work)
        self.bodies.forget(agent_id, ids)
        return value

    async def _when_idle(
        self,
        conversations: Callable[[Transaction], Sequence[str]],
        work: Callable[[Transaction], T],
    ) -> T:
        def first_open(tx: Transaction) -> TurnRow | None:
            for conversation_id in conversations(tx):
                self._claims.head(tx, conversation_id)
                first = journal.first_open_turn(tx, conversation_id)
                if first is not None:
                    return first
            return None

        def guarded(tx: Transaction) -> _Done[T] | TurnRow:
            return first_open(tx) or _Done(work(tx))

        while True:
            # Looking is left to a snapshot: a write would make everyone else wait at each look.
            waiting = await self.store.read(first_open)
            if waiting is None:
                done = await self.store.write(guarded)
                if isinstance(done, _Done):
                    return done.value
                waiting = done
            self._take_over(waiting)
            await _wait(self._news_of(waiting.conversation_id), POLL)

    @contextmanager
    def _pausing(self, conversation_ids: Sequence[str]) -> Iterator[None]:
        self._paused.update(conversation_ids)
        try:
            yield
        finally:
            for conversation_id in conversation_ids:
                self._paused[conversation_id] -= 1
                if not self._paused[conversation_id]:
                    del self._paused[conversation_id]
                self._tell_news(conversation_id)

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
        self._closed = True
        if self._accepting:
            await asyncio.wait(set(self._accepting))
        await _stop_all(list(self._running.values()))

    def _require_open(self) -> None:
        if self._closed:
            raise Closed("this runtime was closed: open a new one")
        if asyncio.get_running_loop() is not self._home:
            raise Closed(
                "this runtime was opened in another event loop or process: open one here, or use "
                "the blocking Runtime, which takes calls from every thread"
            )

    def _news_of(self, conversation_id: str) -> asyncio.Event:
        return self._news.setdefault(conversation_id, asyncio.Event())

    def _tell_news(self, conversation_id: str) -> None:
        event = self._news.pop(conversation_id, None)
        if event is not None:
            event.set()


async def _stop_all(turns: Sequence[Running]) -> None:
    for running in reversed(turns):
        running.stop()
    await asyncio.gather(*(running.settled() for running in turns))


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return
