"""A turn of three steps: a memory edit and a passage; a call that must never run twice and a read;
the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from tests.crash.look import ACCEPTED, HEARD, Look
from tests.crash.points import FaultPoints, Tell, unheard
from tests.crash.workload import Workload

from pagedaemon import AsyncRuntime, Block, tool
from pagedaemon.config import LEASE_SECONDS
from pagedaemon.events import StepFinished, StepStarted
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import ScriptedModel, both, call, say, view
from pagedaemon.tools.tool import Tool

AGENT = "clerk"
FACT = "Name: Lin"
NOTE = "Lin asked for order 41 to be charged."


class Charging(Workload):
    """The agent edits core memory, charges a card and reads a balance.

    Attributes:
        asked: which step the model was asked for, each time.
        slow: seconds that the read takes.
    """

    name = "charging"
    task = "I am Lin. Charge order 41 and tell me my balance."
    agents = (AGENT,)
    in_tools = 4

    def __init__(
        self, store: Path, points: FaultPoints | None = None, tell: Tell = unheard
    ) -> None:
        super().__init__(store, points, tell)
        self.asked: list[str] = []
        self.slow = 0.0
        self._model = ScriptedModel(self._answer)
        self._planned: list[int] = []

    @property
    def models(self) -> Mapping[str, ScriptedModel]:
        """One."""
        return {"clerk": self._model}

    def open(self, *, lease_seconds: float = LEASE_SECONDS) -> AsyncRuntime:
        """A runtime on the store, with the agent's model and tools."""
        return AsyncRuntime(
            self.store,
            model="clerk",
            models=self.models,
            tools=self._tools(),
            embedder=None,
            lease_seconds=lease_seconds,
        )

    def _tools(self) -> list[Tool]:
        @tool
        def charge(order: int) -> str:
            """Charges an order to the card."""
            self.points.reach("inside a tool", "charge, before it acts")
            self.affect(f"charged {order}")
            self.points.reach("inside a tool", "charge, after it acted")
            return f"order {order} is charged"

        @tool(effect="read")
        async def balance() -> str:
            """Reads the balance."""
            self.points.reach("inside a tool", "balance, before it reads")
            await asyncio.sleep(self.slow)
            self.points.reach("inside a tool", "balance, after it read")
            return "the balance is 7"

        return [charge, balance]

    def _ask(self, step: str) -> None:
        self.asked.append(step)
        self.tell(f"asked {step}")

    def _answer(self, request: Request) -> Reply:
        seen = view(request)
        if seen.last_user != self.task:
            self._ask("later")
            # What was stopped unanswered stands above it, and is to be found in recall once.
            return say(f"{HEARD}{seen.last_user.splitlines()[-1]}")
        if "archival_memory_insert" not in seen.results:
            self._ask("1")
            return both(
                call("core_memory_append", label="human", content=FACT, heartbeat=True),
                call("archival_memory_insert", content=NOTE, heartbeat=True),
            )
        if "charge" not in seen.results:
            self._ask("2")
            return both(
                call("charge", order=41, heartbeat=True),
                call("balance", heartbeat=True),
            )
        self._ask("3")
        (charged,) = seen.results["charge"]
        (read,) = seen.results["balance"]
        return say(f"{FACT in seen.blocks['human']} / {charged} / {read}")

    async def make(self) -> None:
        """The agent, and one message answered."""
        async with self.open() as runtime:
            agent = await runtime.agents.ensure(
                AGENT,
                blocks=[Block.load("persona/companion"), Block.human("A customer.")],
                tools=self._tools(),
            )
            await agent.send("Good morning.")

    async def act(self, runtime: AsyncRuntime) -> None:
        """The turn, from its message until it has ended."""
        agent = await runtime.agents.get(AGENT)
        async for happened in agent.stream(self.task):
            self.tell(ACCEPTED)
            self.hear(happened)
            if isinstance(happened, StepStarted | StepFinished):
                self.tell(type(happened).__name__)

    def look_before(self, look: Look) -> None:
        """At the step that was open."""
        super().look_before(look)
        self._no_half_step(look, "before recovery")
        planned = "SELECT seq FROM steps WHERE status = 'planned'"
        self._planned = [seq for (seq,) in look.rows(planned)]

    async def look_after(self, look: Look, runtime: AsyncRuntime) -> None:
        """At the memory, and at what the model was asked."""
        self._no_half_step(look, "after recovery")
        for step in self._planned:
            look.require(str(step) not in self.asked, "asked again", f"step {step} was planned")
        steps = look.number("SELECT count(*) FROM steps")
        spent = look.number("SELECT spent_calls FROM agents")
        look.require(spent == steps, "half a step", f"{spent} calls paid, {steps} steps")
        calls = look.number("SELECT count(*) FROM calls WHERE tool = 'charge'")
        look.require(calls <= 1, "ran twice", f"{calls} calls")
        ends = look.rows(
            "SELECT stop_reason FROM turns WHERE id IN"
            " (SELECT turn_id FROM messages WHERE text = ?)",
            self.task,
        )
        look.facts["stop reason"] = ends[0][0] if ends else None
        look.facts["asked"] = self.asked

    def _no_half_step(self, look: Look, when: str) -> None:
        """The edit, its version, the passage and the messages of step 1 are all there, or none
        is."""
        edits = look.number(
            "SELECT count(*) FROM messages WHERE role = 'assistant' AND calls LIKE '%core_memory%'"
        )
        value = look.rows("SELECT value FROM blocks WHERE label = 'human'")[0][0]
        there = {
            "edits": value.count(FACT),
            "versions": look.number(
                "SELECT count(*) - 1 FROM block_versions "
                "JOIN blocks ON blocks.id = block_id WHERE label = 'human'",
            ),
            "passages": look.number("SELECT count(*) FROM passages"),
            "counted": look.number("SELECT archival_count FROM agents"),
            "results": look.number(
                "SELECT count(*) FROM messages WHERE tool = 'core_memory_append'"
            ),
            "steps": look.number(
                "SELECT count(DISTINCT step_id) FROM calls "
                "WHERE tool = 'core_memory_append' AND status = 'ok'",
            ),
        }
        whole = edits <= 1 and all(number == edits for number in there.values())
        look.require(whole, "half a step", (when, edits, there))
