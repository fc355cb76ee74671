"""A timer and a letter: each wakes its agent once.

A timer that rings every hour, and that nobody was there for twice, wakes one agent. It waters the
plants, which must not be done twice, and asks another, whose answer wakes it again. Nobody sends
anything.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from tests.crash.look import HEARD, LATER, Look
from tests.crash.points import FaultPoints, Tell, unheard
from tests.crash.workload import Workload

from pagedaemon import AsyncRuntime, tool
from pagedaemon.config import LEASE_SECONDS
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import FakeClock, ScriptedModel, call, say, text, view
from pagedaemon.tools.tool import Tool

EVERY = timedelta(hours=1)
"""Between two rings."""

LATE = 3.5 * EVERY
"""After the timer was set, when the store is opened again."""

EVENTS = [("ada", "answer", 1), ("ada", "timer", 1), ("bob", "question", 1)]
"""What must have woken whom, and how often."""

DONE = (
    "SELECT EXISTS (SELECT 1 FROM turns WHERE event = 'answer')"
    " AND NOT EXISTS (SELECT 1 FROM turns WHERE status != 'done')"
)

GLANCE = 0.005
"""Seconds between two looks whether all is done."""

GLANCES = 600
"""Looks after which it is not waited for any longer."""


class Waking(Workload):
    """Ada is woken, waters, and asks Bob."""

    name = "waking"
    agents = ("ada", "bob")
    in_tools = 2

    def __init__(
        self, store: Path, points: FaultPoints | None = None, tell: Tell = unheard
    ) -> None:
        super().__init__(store, points, tell)
        self._models = {"ada": ScriptedModel(_ada), "bob": ScriptedModel(_bob)}
        self._late = LATE

    @property
    def models(self) -> Mapping[str, ScriptedModel]:
        """One of each."""
        return self._models

    def open(self, *, lease_seconds: float = LEASE_SECONDS) -> AsyncRuntime:
        """When the timer has been due for a while."""
        clock = FakeClock()
        clock.advance(self._late.total_seconds())
        return AsyncRuntime(
            self.store,
            models=self.models,
            tools=[self._water()],
            clock=clock,
            embedder=None,
            lease_seconds=lease_seconds,
        )

    def _water(self) -> Tool:
        @tool
        def water(plants: str) -> str:
            """Waters plants.

            Args:
                plants: which.
            """
            self.points.reach("inside a tool", "water, before it runs")
            self.affect(f"watered {plants}")
            self.points.reach("inside a tool", "water, after it ran")
            return f"{plants} are watered"

        return water

    async def make(self) -> None:
        """Two agents, and a timer that is not due yet."""
        self._late = timedelta()
        async with self.open() as runtime:
            one = await runtime.agents.create(
                "ada", model="ada", messaging=True, tools=[self._water()]
            )
            await runtime.agents.create("bob", model="bob")
            await one.schedule("Water the ferns.", every=EVERY)

    async def act(self, runtime: AsyncRuntime) -> None:
        """Lets happen what is due. Nobody waits for it as a user of the runtime, and the looks from
        outside are no awaits of its own."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        file = self.store / "spaces" / "default" / "space.db"
        with closing(sqlite3.connect(file, isolation_level=None)) as raw:

            def look(left: int) -> None:
                if not left or raw.execute(DONE).fetchone()[0]:
                    done.set_result(None)
                else:
                    loop.call_later(GLANCE, look, left - 1)

            look(GLANCES)
            await done

    async def take_up(self, runtime: AsyncRuntime) -> None:
        """It goes on by itself."""
        await self.act(runtime)

    async def look_after(self, look: Look, runtime: AsyncRuntime) -> None:
        """At who was woken by what, and at the timer."""
        woken = look.rows(
            "SELECT agents.name, event, count(*) FROM turns JOIN conversations ON"
            " conversations.id = conversation_id JOIN agents ON agents.id = agent_id"
            " WHERE event != 'message' GROUP BY 1, 2 ORDER BY 1, 2"
        )
        look.require(woken == EVENTS, "woken wrongly", woken)
        rung = look.rows('SELECT text FROM messages WHERE text LIKE \'%"reason": "timer"%\'')
        once = len(rung) == 1 and '"missed": 2' in rung[0][0]
        look.require(once, "woken wrongly", rung)
        ada = await runtime.agents.get("ada")
        due = [one.due - FakeClock().now() for one in await ada.schedules()]
        look.require(due == [4 * EVERY], "woken wrongly", due)


def _ada(request: Request) -> Reply:
    """Waters when the timer rings, and then asks bob."""
    seen, last = view(request), request.messages[-1]
    if last["role"] == "user" and '"reason": "timer"' in str(last["content"]):
        return call("water", plants="ferns", heartbeat=True)
    if last["role"] == "user" and LATER in str(last["content"]):
        return say(f"{HEARD}{LATER}")
    if "water" in seen.results and "send_message_to_agent" not in seen.results:
        return call("send_message_to_agent", name="bob", message="Ready?", answer=True)
    return text("")


def _bob(request: Request) -> Reply:
    """Answers."""
    if LATER in str(request.messages[-1]["content"]):
        return say(f"{HEARD}{LATER}")
    return say("Ready.")
