"""A call that must not run twice, of a tool that can be asked what became of it: its effect is
there once, and its result is known.

The ledger beside the database stands for the outside: it holds the key of each charge, and
`reconcile` looks there. Without being asked, a crash would leave some of these outcomes unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from tests.crash.look import ACCEPTED, HEARD, Look
from tests.crash.points import FaultPoints, Tell, unheard
from tests.crash.workload import Workload

from pagedaemon import AsyncRuntime, NeverRan, ToolContext, tool
from pagedaemon.config import LEASE_SECONDS
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import ScriptedModel, call, say, view
from pagedaemon.tools.tool import Tool

AGENT = "ada"
CHARGED = "order 41 is charged"


class Reconciling(Workload):
    """The agent charges a card, by a tool that knows its keys."""

    name = "reconciling"
    task = "Take what order 41 costs from the card of Lin."
    agents = (AGENT,)
    in_tools = 2
    closed_calls: ClassVar[tuple[str, ...]] = ("ok",)
    can_be_asked = True

    knows: ClassVar[bool] = True
    """Whether it has an answer where it is asked."""
    recovers: ClassVar[bool] = True
    """Whether what was left open is taken up with the opening."""

    def __init__(
        self, store: Path, points: FaultPoints | None = None, tell: Tell = unheard
    ) -> None:
        super().__init__(store, points, tell)
        self._model = ScriptedModel(_answer)
        self._reply: str | None = None

    @property
    def models(self) -> Mapping[str, ScriptedModel]:
        """One."""
        return {AGENT: self._model}

    def open(self, *, lease_seconds: float = LEASE_SECONDS) -> AsyncRuntime:
        """With the code of the tool."""
        return AsyncRuntime(
            self.store,
            model=AGENT,
            models=self.models,
            tools=[self._charge()],
            recover=self.recovers,
            embedder=None,
            lease_seconds=lease_seconds,
        )

    def _charge(self) -> Tool:
        def look(key: str) -> object:
            self.points.reach("inside a tool", "reconcile, before it answers")
            if not self.knows:
                return None
            return CHARGED if key in self.effects() else NeverRan()

        @tool(reconcile=look)
        def charge(order: int, context: ToolContext) -> str:
            """Charges an order to the card."""
            self.points.reach("inside a tool", "charge, before it acts")
            self.affect(str(context.key))
            self.points.reach("inside a tool", "charge, after it acted")
            return f"order {order} is charged"

        return charge

    async def make(self) -> None:
        """The agent, before anything is said."""
        async with self.open() as runtime:
            await runtime.agents.create(AGENT, tools=[self._charge()])

    async def act(self, runtime: AsyncRuntime) -> None:
        """Sends once, whatever was done before, and waits for the reply."""
        agent = await runtime.agents.get(AGENT)
        assert self.task is not None
        sent = await agent.send_later(self.task, key="once")
        self.tell(ACCEPTED)
        self._reply = (await sent.wait()).reply

    async def take_up(self, runtime: AsyncRuntime) -> None:
        """The program is run again."""
        await self.act(runtime)

    async def look_after(self, look: Look, runtime: AsyncRuntime) -> None:
        """At the effect, and what the agent says of it."""
        done = self.effects()
        look.require(len(done) == 1, "ran twice", f"{len(done)} charges")
        look.require(self._reply is not None, "not answered", "no reply")
        if self.knows:
            look.require(self._reply == CHARGED, "not told", self._reply)


class Unsure(Reconciling):
    """The same, where the tool does not know."""

    name = "unsure"
    closed_calls = ("ok", "unknown")
    can_be_asked = False
    knows = False


def _answer(request: Request) -> Reply:
    """Charges once, and says what came of it."""
    seen = view(request)
    if seen.last_user != Reconciling.task:
        return say(f"{HEARD}{seen.last_user.splitlines()[-1]}")
    if "charge" not in seen.results:
        return call("charge", order=41, heartbeat=True)
    return say(seen.results["charge"][0])
