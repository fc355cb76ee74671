"""What waits: calls for a person, timers for their time, and all of it for the next opening."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import strategies as st
from tests.machine.base import AGENTS, PLACES, Machine, operation
from tests.machine.plain import PlainTimer

from pagedaemon.errors import AlreadyAnswered

MINUTE = timedelta(minutes=1)
SECONDS = st.sampled_from((0, 30, 60, 150, 900))


class Waiting(Machine):
    """What wakes agents without anybody talking to them."""

    @operation(6, number=st.integers(0, 15), approve=st.booleans())
    def answer(self, number: int, approve: bool) -> None:
        """A person answers a call that waits, or one that waits no longer."""
        approvals = self.space.world.approvals
        if not approvals:
            return
        pending = [key for key, one in approvals.items() if one.status == "pending"]
        among = pending if pending and number % 4 else list(approvals)
        approval_id = among[number % len(among)]

        async def work() -> None:
            real = await self.space.runtime.approvals.get(approval_id)
            if approvals[approval_id].status != "pending":
                with pytest.raises(AlreadyAnswered):
                    await (real.approve() if approve else real.deny())
                self.counted("answer too late")
                return
            turn = await (real.approve("Lin") if approve else real.deny("No."))
            self.space.world.decided(approval_id, "approved" if approve else "denied")
            assert (await turn.wait()).reply == "ok"
            self.counted("approve" if approve else "deny")

        self.run(work())
        self.touched.add((approvals[approval_id].agent, approvals[approval_id].conversation))

    @operation(
        2,
        agent=AGENTS,
        where=PLACES,
        minutes=st.integers(0, 4),
        every=st.sampled_from((None, None, MINUTE, 3 * MINUTE)),
    )
    def schedule(self, agent: str, where: str, minutes: int, every: timedelta | None) -> None:
        """A timer is set: for once, at once too, or again and again."""
        world = self.space.world

        async def work() -> None:
            await self.space.conversation(agent, where)
            first = self.space.clock.now() + minutes * MINUTE
            when = {"at": first} if every is None else {"start": first}
            timer = await self.space.agents[agent].schedule(
                "Wake up.", every=every, conversation=where, **when
            )
            world.timers[timer.id] = PlainTimer(agent, where, "Wake up.", first, every)
            self.touched |= await self.space.settle()

        self.run(work())
        self.counted("schedule")

    @operation(agent=AGENTS, number=st.integers(0, 9))
    def cancel_timer(self, agent: str, number: int) -> None:
        """A timer is to ring no more."""

        async def work() -> None:
            timers = await self.space.agents[agent].schedules()
            if timers:
                timer = timers[number % len(timers)]
                assert await timer.cancel()
                assert not await timer.cancel()
                del self.space.world.timers[timer.id]
                self.counted("cancel timer")

        self.run(work())

    @operation(agent=AGENTS, seconds=st.sampled_from((None, 60, 300)))
    def hold_timers(self, agent: str, seconds: int | None) -> None:
        """No timer wakes the agent for a while."""
        plain = self.space.world.agents[agent]
        self.run(self.space.agents[agent].pause_heartbeats(seconds=seconds))
        plain.held = True
        now = self.space.world.now
        plain.held_until = None if seconds is None else now + timedelta(seconds=seconds)
        self.counted("hold timers")

    @operation(agent=AGENTS)
    def let_timers_go_on(self, agent: str) -> None:
        """What was held wakes the agent, once each."""

        async def work() -> None:
            plain = self.space.world.agents[agent]
            await self.space.agents[agent].resume_heartbeats()
            plain.held = False
            self.touched |= await self.space.settle()

        self.run(work())
        self.counted("let timers go on")

    @operation(3, seconds=SECONDS)
    def wait(self, seconds: int) -> None:
        """Time passes."""

        async def work() -> None:
            self.space.clock.advance(seconds)
            self.space.world.now = self.space.clock.now()
            self.touched |= await self.space.settle()
            self.counted("wait")

        self.run(work())

    @operation(seconds=SECONDS)
    def reopen(self, seconds: int) -> None:
        """The runtime is closed, time passes, and it is opened again: all is as it was, and what
        was missed has come."""

        async def work() -> None:
            await self.space.close()
            self.space.clock.advance(seconds)
            self.space.world.now = self.space.clock.now()
            await self.space.open()
            self.touched |= await self.space.settle()

        self.run(work())
        self.reopened()
        self.touched.update(self.space.places())
        self.counted("reopen")
