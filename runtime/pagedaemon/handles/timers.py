"""Timers as a user holds them: when an agent is woken without anybody sending to it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pagedaemon.agent import MAIN, AgentRecord, checked_name
from pagedaemon.errors import NotFound
from pagedaemon.memory import timers
from pagedaemon.messages import Label
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import conversations as conversation_rows
from pagedaemon.store import schedules as rows
from pagedaemon.store.schedules import ScheduleRow
from pagedaemon.store.transaction import Transaction

if TYPE_CHECKING:
    from pagedaemon.scheduler import Scheduler


class AsyncSchedule:
    """A timer of an agent, as it was when it was read."""

    def __init__(self, scheduler: Scheduler, row: ScheduleRow) -> None:
        self._scheduler = scheduler
        self._row = row

    def __repr__(self) -> str:
        return f"<schedule {self.id} due {self.due.isoformat()}>"

    @property
    def id(self) -> str:
        """As the agent sees it too."""
        return self._row.id

    @property
    def text(self) -> str:
        """What the agent is told when it is woken."""
        return self._row.text

    @property
    def due(self) -> datetime:
        """When it rings next, in UTC."""
        return self._row.due

    @property
    def every(self) -> timedelta | None:
        """The time between two rings; None for once."""
        return None if self._row.every is None else timedelta(seconds=self._row.every)

    @property
    def conversation_id(self) -> str:
        """Where it wakes the agent."""
        return self._row.conversation_id

    @property
    def label(self) -> Label:
        """Who set it: `owner` through this API, `agent` with its own tool."""
        return self._row.label

    async def cancel(self) -> bool:
        """It rings no more. A turn it has queued already stays.

        Returns:
            whether it was still to ring: False also where it was cancelled already, or its agent
            was deleted.
        """
        row = self._row
        gone = await self._scheduler.store.write(lambda tx: rows.remove(tx, row.agent_id, row.id))
        self._scheduler.timers.look()
        return gone


class AsyncTimed:
    """An agent, as far as time wakes it.

    A timer is stored, and rings at most once for each instant, in whichever process has the space
    open. Its turn is an event like a message: it waits in order behind those that run, and what
    the agent says in it is in `conversation.turns()`. What was missed, because no process was
    there, the agent was busy or its timers were held, is one turn that says how often.
    """

    _scheduler: Scheduler
    _record: AgentRecord

    async def schedule(
        self,
        text: str,
        *,
        at: datetime | None = None,
        every: timedelta | None = None,
        start: datetime | None = None,
        conversation: str = MAIN,
    ) -> AsyncSchedule:
        """Has the agent woken later: once, or again and again.

        Args:
            text: what it is told then, at most 4,000 characters.
            at: the instant, with a timezone; one in the past is due at once.
            every: in place of `at`: the time between two rings, from 1 second to ten years. It is a
                length of time: where the clocks change, 24 hours later is another hour of the day.
            start: the first of them; default: one interval from now. One in the past keeps its
                grid, and what was before now is not made up for.
            conversation: where it wakes the agent.

        Raises:
            InvalidInput: none or both of `at` and `every`, an instant without a timezone, a value
                out of bounds, or more than 100 timers. Nothing was stored.
            NotFound: the agent has no such conversation, or was deleted.
        """
        now = self._scheduler.clock.now()
        ringing = timers.when(at, every, start, now)
        name = checked_name(conversation, "a conversation's name")
        agent_id = self._record.id

        def work(tx: Transaction) -> ScheduleRow:
            agent_rows.require(tx, agent_id)
            found = conversation_rows.by_name(tx, agent_id, name)
            if found is None:
                raise NotFound(
                    f"this agent has no conversation {name!r}: make it with conversations.ensure"
                )
            return timers.keep(
                tx, agent_id, found.id, text, ringing, label="owner", step_id=None, now=now
            )

        row = await self._scheduler.store.write(work)
        self._scheduler.timers.look()
        return AsyncSchedule(self._scheduler, row)

    async def schedules(self) -> list[AsyncSchedule]:
        """Its timers that are still to ring, the next first; also those it has set itself.

        Raises:
            NotFound: the agent was deleted.
        """

        def work(tx: Transaction) -> tuple[ScheduleRow, ...]:
            agent_rows.require(tx, self._record.id)
            return rows.of_agent(tx, self._record.id)

        found = await self._scheduler.store.read(work)
        return [AsyncSchedule(self._scheduler, row) for row in found]

    async def pause_heartbeats(
        self, *, until: datetime | None = None, seconds: float | None = None
    ) -> None:
        """No timer wakes the agent for a while; what was due meanwhile comes once, afterwards.

        Only timers are held. Messages, mail and `heartbeat()` wake it as ever, and a heartbeat that
        it asks for itself goes on within its turn. A new pause takes the place of the last one.

        Args:
            until: an instant to come, with a timezone.
            seconds: in place of it, from now.
                Neither: until `resume_heartbeats`.

        Raises:
            InvalidInput: both are given, or a value that cannot be.
            NotFound: the agent was deleted.
        """
        end = timers.pause_end(until, seconds, self._scheduler.clock.now())

        def work(tx: Transaction) -> None:
            agent_rows.require(tx, self._record.id)
            rows.pause(tx, self._record.id, end)

        await self._scheduler.store.write(work)
        self._scheduler.timers.look()

    async def resume_heartbeats(self) -> bool:
        """Its timers wake it again, also where it has held them itself. Returns whether they were
        held.

        Raises:
            NotFound: the agent was deleted.
        """

        def work(tx: Transaction) -> bool:
            agent_rows.require(tx, self._record.id)
            return rows.resume(tx, self._record.id)

        held = await self._scheduler.store.write(work)
        self._scheduler.timers.look()
        return held
