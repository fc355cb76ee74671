"""A call that waits for a person, approved: it is run at most once, and its agent is told.

The program sends a message, approves the call that comes of it, and waits until the agent was told.
Run again after a crash it does what is left of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.crash.look import ACCEPTED, HEARD, Look
from tests.crash.points import FaultPoints, Tell, unheard
from tests.crash.workload import Workload

from pagedaemon import AsyncRuntime, tool
from pagedaemon.config import LEASE_SECONDS
from pagedaemon.errors import AlreadyAnswered
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import FakeClock, ScriptedModel, call, say, view
from pagedaemon.tools.tool import Tool

AGENT = "ada"


class Approving(Workload):
    """The agent mails, once it may."""

    name = "approving"
    task = "Mail bob that we are ready."
    agents = (AGENT,)
    ends = ("end_turn", "no_reply")
    in_tools = 2
    closed_calls = ("ok", "failed", "unknown", "awaiting")

    def __init__(
        self, store: Path, points: FaultPoints | None = None, tell: Tell = unheard
    ) -> None:
        super().__init__(store, points, tell)
        self._model = ScriptedModel(_answer)

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
            tools=[self._mail()],
            clock=FakeClock(),
            embedder=None,
            lease_seconds=lease_seconds,
        )

    def _mail(self) -> Tool:
        @tool(approval="always")
        def mail(to: str) -> str:
            """Sends a mail.

            Args:
                to: whom.
            """
            self.points.reach("inside a tool", "mail, before it is sent")
            self.affect(f"mailed {to}")
            self.points.reach("inside a tool", "mail, after it was sent")
            return f"sent to {to}"

        return mail

    async def make(self) -> None:
        """The agent, before anything is said."""
        async with self.open() as runtime:
            await runtime.agents.create(AGENT, tools=[self._mail()])

    async def act(self, runtime: AsyncRuntime) -> None:
        """Sends, approves, and waits for what comes of it; what was done before is not done
        again."""
        ada = await runtime.agents.get(AGENT)
        assert self.task is not None
        sent = await ada.send_later(self.task, key="once")
        self.tell(ACCEPTED)
        await sent.wait()
        for one in await runtime.approvals.list():
            # A process that was taken for dead may have been faster.
            with suppress(AlreadyAnswered):
                await one.approve()
        main = await ada.conversations.get()
        for turn in await main.turns(status="open"):
            await turn.wait()

    async def take_up(self, runtime: AsyncRuntime) -> None:
        """The program is run again."""
        await self.act(runtime)

    async def look_after(self, look: Look, runtime: AsyncRuntime) -> None:
        """At the approval, and what came of it."""
        turns = look.rows(
            "SELECT event FROM turns WHERE key IS NOT NULL OR event = 'approval' ORDER BY seq"
        )
        look.require(turns == [("message",), ("approval",)], "approved wrongly", turns)
        states = look.rows("SELECT status FROM approvals")
        look.require(states == [("used",)], "approved wrongly", states)
        told = look.number(
            """SELECT count(*) FROM messages WHERE text LIKE '%"reason": "approved_call"%'"""
        )
        look.require(told == 1, "approved wrongly", f"its outcome is told {told} times")


def _answer(request: Request) -> Reply:
    """Mails once, and says what it was told."""
    seen = view(request)
    if '"reason": "approv' in str(request.messages[-1]["content"]):
        told = seen.events[-1]
        return say(str(told.get("status", told.get("decision"))))
    if seen.last_user != Approving.task:
        return say(f"{HEARD}{seen.last_user.splitlines()[-1]}")
    if "mail" not in seen.results:
        return call("mail", to="bob")
    return say("It waits.")
