"""The turns that run or wait in this process, each a task of its own over the one loop.

A task waits until its turn has its place, claims it, keeps its lease, goes through the loop and
sees to it that the turn's end is written, whatever stops it. Whoever sends or streams only listens.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pagedaemon.clock import Clock
from pagedaemon.errors import Closed, LeaseLost, StoreError
from pagedaemon.events import Turn, TurnEnded
from pagedaemon.llm.gateway import Absent
from pagedaemon.loop import Loop
from pagedaemon.messages import StopReason
from pagedaemon.scheduler.bodies import Bodies
from pagedaemon.scheduler.claims import Claimed, Claims
from pagedaemon.scheduler.following import events_of
from pagedaemon.scheduler.idle import News
from pagedaemon.scheduler.leases import Renewal
from pagedaemon.scheduler.places import Places
from pagedaemon.scheduler.running import Running, error_of
from pagedaemon.store import journal
from pagedaemon.store.database import Database
from pagedaemon.store.journal import Plan, TurnRow
from pagedaemon.store.transaction import Transaction
from pagedaemon.turn.expected import Expected
from pagedaemon.turn.reconciling import reconcile
from pagedaemon.turn.state import OpenTurn

if TYPE_CHECKING:
    from pagedaemon.memory.meaning import Meaning

logger = logging.getLogger("pagedaemon")

RETRY = 5.0
"""Seconds after which a turn is taken up again whose end could not be stored."""


class Tasks:
    """The turns of one space that run or wait in this process.

    Args:
        store: the space.
        clock: the time.
        loop: what a turn goes through.
        bodies: what agents act with, and the windows kept between their turns.
        claims: who may run what.
        news: of this process's turns.
        meaning: finds by meaning; None: search is by words alone.
        stirred: a commit may have queued more turns, or changed when timers are due.

    Attributes:
        here: those turns, by id.
        in_hand: conversations of which a turn is in memory: until it is put down nobody else here
            may use its window and body, also after its end is committed.
        given_up: turns of ours that are open in the store and run no more, because it failed.
        expected: the types asked for here, by turn: in the store is only their schema.
        places: where each stands in its conversation.
        closed: the runtime is being closed, and nothing is begun any more.
    """

    def __init__(
        self,
        store: Database,
        clock: Clock,
        loop: Loop,
        bodies: Bodies,
        claims: Claims,
        news: News,
        meaning: Meaning | None,
        stirred: Callable[[], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._loop = loop
        self._bodies = bodies
        self._claims = claims
        self._news = news
        self._stirred = stirred
        self.here: dict[str, Running] = {}
        self.in_hand: set[str] = set()
        self.given_up: set[str] = set()
        self.expected: dict[str, Expected[Any]] = {}
        self.closed = False
        self.places = Places(store, claims, news, meaning, self.here, self.in_hand, self.take_over)

    # ------------------------------------------------------------------ beginning

    def start(
        self,
        turn_id: str,
        conversation_id: str,
        claimed: Claimed | None = None,
        *,
        taken_up: bool = False,
    ) -> Running:
        """Runs a turn, if it does not run here yet.

        Args:
            claimed: where it was claimed as it was accepted.
            taken_up: nobody here has sent its message.
        """
        if turn_id in self.here:
            return self.here[turn_id]
        self.given_up.discard(turn_id)
        running = self.here[turn_id] = Running(turn_id, conversation_id, taken_up=taken_up)
        if claimed is not None:
            self.in_hand.add(conversation_id)
        task = asyncio.create_task(self._run(running, claimed))
        running.runs_as(task)
        task.add_done_callback(lambda task: self._over(running, task))
        return running

    def start_queued(self, turn_id: str, conversation_id: str) -> None:
        """Runs a turn that nobody waits for: when the runtime is closed it stays for later."""
        if not self.closed:
            self.start(turn_id, conversation_id, taken_up=True)

    def take_over(self, row: TurnRow) -> None:
        """Runs an open turn, if nobody works on it."""
        if not self.closed and self.abandoned(row):
            self.start(row.id, row.conversation_id, taken_up=True)

    def take_over_orphan(self, row: TurnRow) -> None:
        """As `take_over`; what the store has failed is tried again in its own time."""
        if row.id not in self.given_up:
            self.take_over(row)

    def abandoned(self, row: TurnRow) -> bool:
        """Whether nobody works on an open turn: its process is gone, or we gave it up."""
        if row.id in self.here:
            return False
        return row.id in self.given_up or self._claims.orphaned(row)

    async def past(self, turn: Turn) -> Running:
        """A turn that has ended, for who listens to it anew."""
        running = Running(turn.id, turn.conversation_id, taken_up=True, lasting=True)
        await self._tell_end(running, turn)
        running.close(error_of(turn))
        return running

    # ------------------------------------------------------------------ running

    async def _run(self, running: Running, claimed: Claimed | None) -> None:
        renewal: Renewal | None = None
        try:
            running.begin()
            if claimed is None:
                place = await self.places.claimed(running)
                if isinstance(place, Turn):
                    await self._tell_end(running, place)
                    if (error := error_of(place)) is not None:
                        raise error
                    return
                self.in_hand.add(running.conversation_id)
                claimed = place
            renewal = Renewal(self._store, claimed.turn, running)
            await self._go_on(running, claimed)
        except asyncio.CancelledError:
            if running.lost is not None:
                raise running.lost from None
            await self._tell_end(running, await self._stopped(running, claimed))
            # What it had just committed may not have been carried over.
            self._stirred()
        finally:
            if renewal is not None:
                renewal.end()
            if claimed is not None and claimed.turn.stirs:
                self._stirred()
            if claimed is not None:
                self._put_down(claimed.turn)

    async def _go_on(self, running: Running, claimed: Claimed) -> None:
        turn = claimed.turn
        turn.expected = self.expected.get(turn.id, turn.expected)
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
                    self._stirred()
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
        """The plan of a turn taken up after a crash, with what its tools know of the calls that the
        crash cut off."""
        if claimed.plan is None:
            return None
        return await reconcile(
            self._store, self._clock, claimed.turn, claimed.plan, may_go_on=claimed.may_go_on
        )

    def _put_down(self, turn: OpenTurn) -> None:
        if turn.conversation_id in self.in_hand:
            self._bodies.keep(turn)
            self.in_hand.discard(turn.conversation_id)

    # ------------------------------------------------------------------ ending

    async def _end(self, running: Running, turn: OpenTurn, reason: StopReason, error: str) -> None:
        ended = await self._loop.close(turn, reason, error)
        self._put_down(turn)
        await self._tell_end(running, ended)

    async def _tell_end(self, running: Running, turn: Turn) -> None:
        """Tells a turn's end, and before it what was committed of it and not told here."""
        if turn.events > running.number + 1:
            missed = await self._store.read(
                lambda tx: events_of(tx, turn.conversation_id, turn.id, running.number)
            )
            for event in missed.events:
                running.tell(event)
            return
        running.tell(TurnEnded.of(turn))

    async def _stopped(self, running: Running, claimed: Claimed | None) -> Turn:
        """The end of a turn that was stopped: written, if it is not yet."""
        if self.closed and (running.lasting or (running.taken_up and not running.heard)):
            return await self._left(running, claimed)
        if claimed is None:
            found = await self.places.withdrawn(running.turn_id)
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

        ended = await self._store.write(work)
        if ended is None:
            raise Closed("the runtime was closed; the turn is taken up again when it is opened")
        return ended

    def _over(self, running: Running, task: asyncio.Task[None]) -> None:
        """Tells whoever listens how the task ended, also where it ended in a mistake of ours."""
        del self.here[running.turn_id]
        error = Closed("its event loop was ended") if task.cancelled() else task.exception()
        if isinstance(error, StoreError):
            error.accepted = running.turn_id
        if isinstance(error, StoreError) and not isinstance(error, LeaseLost):
            self.given_up.add(running.turn_id)
            asyncio.get_running_loop().call_later(RETRY, self._try_again, running)
        else:
            self.expected.pop(running.turn_id, None)
        if error is not None and not running.heard:
            logger.warning("turn %s ended with nobody listening: %s", running.turn_id, error)
        running.close(error)
        self._news.tell(running.conversation_id)

    def _try_again(self, running: Running) -> None:
        if running.turn_id in self.given_up:
            self.start_queued(running.turn_id, running.conversation_id)

    # ------------------------------------------------------------------ stopping

    async def stop_of(self, conversation_id: str) -> int:
        """Stops those of a conversation, and waits until that is written. Returns how many."""
        found = [one for one in self.here.values() if one.conversation_id == conversation_id]
        await _stop_all(found)
        return len(found)

    def refuse(self) -> None:
        """The runtime is being closed: what waits in the store stays there."""
        self.closed = self.places.closed = True

    async def stop_all(self) -> None:
        """Stops all, and waits until that is written."""
        await _stop_all(self.here.values())


async def _stop_all(turns: Iterable[Running]) -> None:
    stopped = list(turns)
    for running in reversed(stopped):
        running.stop()
    await asyncio.gather(*(running.settled() for running in stopped))
