"""One turn of three steps, what its model says, and what must be true of the store after a crash.

Step 1 edits core memory and keeps a passage; step 2 charges a card, which must never happen twice,
and reads a balance; step 3 answers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash.points import FaultPoints

from pagedaemon import AsyncRuntime, Block, tool
from pagedaemon.config import LEASE_SECONDS
from pagedaemon.errors import PagedaemonError
from pagedaemon.events import Event, HeartbeatEvent, StepFinished, StepStarted, TurnEnded
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import ScriptedModel, both, call, say, view
from pagedaemon.tools.tool import Tool

AGENT = "clerk"
TASK = "I am Lin. Charge order 41 and tell me my balance."
FACT = "Name: Lin"
NOTE = "Lin asked for order 41 to be charged."
LATER = "Are you still there?"

Tell = Callable[[str], None]
"""Writes a line to whoever watches from outside; it survives the process."""


class Clerk:
    """The agent's model and tools, in one process.

    The model is a function of the request alone: a process that never saw the turn goes on with it.

    Args:
        store: the store's folder.
        points: told when a tool is inside its work.
        tell: told which step the model is asked for.
    """

    def __init__(self, store: Path, points: FaultPoints, tell: Tell) -> None:
        self.store = store
        self.ledger = store.with_suffix(".ledger")
        self.model = ScriptedModel(self._answer)
        self._points = points
        self._tell = tell

    def open(self, *, recover: bool = True, lease_seconds: float = LEASE_SECONDS) -> AsyncRuntime:
        """A runtime on the store, with the agent's model and tools."""
        return AsyncRuntime(
            self.store,
            model="clerk",
            models={"clerk": self.model},
            tools=self.tools(),
            recover=recover,
            embedder=None,
            lease_seconds=lease_seconds,
        )

    def tools(self) -> list[Tool]:
        """What the agent may do outside."""

        @tool
        def charge(order: int) -> str:
            """Charges an order to the card."""
            self._points.reach("inside a tool", "charge, before it acts")
            with self.ledger.open("a") as ledger:
                ledger.write(f"charged {order}\n")
                ledger.flush()
                os.fsync(ledger.fileno())
            self._points.reach("inside a tool", "charge, after it acted")
            return f"order {order} is charged"

        @tool(effect="read")
        async def balance() -> str:
            """Reads the balance."""
            self._points.reach("inside a tool", "balance, before it reads")
            await asyncio.sleep(0)
            self._points.reach("inside a tool", "balance, after it read")
            return "the balance is 7"

        return [charge, balance]

    def charged(self) -> int:
        """How often the card was charged."""
        return len(self.ledger.read_text().splitlines()) if self.ledger.exists() else 0

    def _answer(self, request: Request) -> Reply:
        seen = view(request)
        if seen.last_user != TASK:
            self._tell("asked later")
            # What was stopped unanswered stands above it, and is to be found in recall once.
            return say(f"heard: {seen.last_user.splitlines()[-1]}")
        if "archival_memory_insert" not in seen.results:
            self._tell("asked 1")
            return both(
                call("core_memory_append", label="human", content=FACT, heartbeat=True),
                call("archival_memory_insert", content=NOTE, heartbeat=True),
            )
        if "charge" not in seen.results:
            self._tell("asked 2")
            return both(
                call("charge", order=41, heartbeat=True),
                call("balance", heartbeat=True),
            )
        self._tell("asked 3")
        (charged,) = seen.results["charge"]
        (read,) = seen.results["balance"]
        return say(f"{FACT in seen.blocks['human']} / {charged} / {read}")


async def make(store: Path) -> None:
    """The store before the turn: the agent, and one message answered."""
    clerk = Clerk(store, FaultPoints(), lambda _: None)
    async with clerk.open() as runtime:
        agent = await runtime.agents.ensure(
            AGENT,
            blocks=[Block.load("persona/companion"), Block.human("A customer.")],
            tools=clerk.tools(),
        )
        await agent.send("Good morning.")


async def run_turn(store: Path, points: FaultPoints, tell: Tell) -> None:
    """The turn, from its message until it has ended. Everything in between is armed."""
    clerk = Clerk(store, points, tell)
    async with clerk.open() as runtime:
        agent = await runtime.agents.get(AGENT)

        async def listen() -> None:
            async for happened in agent.stream(TASK):
                tell("accepted")
                if happened.number is not None:
                    tell(_line(happened))
                if isinstance(happened, StepStarted | StepFinished):
                    tell(type(happened).__name__)
                if isinstance(happened, TurnEnded):
                    tell("ended")

        points.arm()
        await asyncio.create_task(listen())
        points.disarm()


async def cancelled_turn(
    store: Path, points: FaultPoints, tell: Tell, *, caller: bool = False
) -> None:
    """The turn, stopped at the place of `points`; then, in the same process and with the window it
    keeps in memory, the next message.

    Args:
        caller: the task that sends is cancelled. Default: another one calls `cancel`.
    """
    loop = asyncio.get_running_loop()
    stopping: list[asyncio.Task[int]] = []
    async with Clerk(store, points, tell).open() as runtime:
        main = await (await runtime.agents.get(AGENT)).conversations.get()

        def stop() -> None:
            if caller:
                sending.cancel()
            else:
                stopping.append(asyncio.create_task(main.cancel()))

        def stop_soon() -> None:
            loop.call_soon_threadsafe(stop)

        points.act = stop_soon
        points.arm()
        sending = asyncio.create_task(main.send(TASK))
        await asyncio.wait({sending, *stopping}, timeout=5)
        points.disarm()
        if not sending.cancelled():
            tell("accepted")
            tell(f"stopped: {sending.result().stop_reason}")
        await asyncio.wait_for(asyncio.gather(*stopping), 5)
        findings = Findings()
        await _answered(findings, main.send(LATER))
        for problem in findings.problems:
            tell(f"problem: {problem}")


async def recover(store: Path, points: FaultPoints, tell: Tell) -> None:
    """Opens the store and takes up what is open, to its end. All of it is armed."""
    points.arm()
    async with Clerk(store, points, tell).open(recover=False) as runtime:
        await asyncio.create_task(_recovered(runtime))
        points.disarm()


async def _recovered(runtime: AsyncRuntime) -> None:
    await (await runtime.space("default")).recover()


@dataclass
class Findings:
    """What a look at a store after a crash came to.

    Attributes:
        problems: broken promises, each beginning with which one. Empty: all were kept.
        status: of the `charge` call in the end; None where the turn was never accepted.
    """

    problems: list[str] = field(default_factory=list)
    status: str | None = None
    stop_reason: str | None = None
    charged: int = 0
    asked: list[str] = field(default_factory=list)
    """What the model was asked for by the process that recovered."""
    taken_up: int = 0
    """How many lines the log has on a turn that was taken up."""

    def require(self, holds: bool, promise: str, what: object) -> None:
        """Notes a promise that does not hold."""
        if not holds:
            self.problems.append(f"{promise}: {what}")


async def check(store: Path, said: list[str], ends: tuple[str, ...]) -> Findings:
    """Everything that must be true of a store whose process was killed; recovers it on the way.

    Args:
        said: what the killed process told.
        ends: stop reasons that are honest here.
    """
    findings = Findings()
    clerk = Clerk(store, FaultPoints(), findings.asked.append)
    logged: list[logging.LogRecord] = []
    _listen(logged)
    _no_half_step(findings, store, "before recovery")
    planned = _rows(store, "SELECT seq FROM steps WHERE status = 'planned'")
    started = _rows(store, "SELECT id FROM calls WHERE status = 'started'")
    async with clerk.open(recover=False) as runtime:
        await _recovered(runtime)
        agent = await runtime.agents.get(AGENT)
        _messages_once(findings, store, said)
        _turns_ended(findings, store, ends)
        await _events_once(findings, store, runtime, said)
        findings.charged = clerk.charged()
        for step in planned:
            findings.require(
                f"asked {step[0]}" not in findings.asked,
                "asked again",
                f"step {step[0]} was planned",
            )
        await _unknown_told(findings, clerk, runtime, bool(started))
        _no_half_step(findings, store, "after recovery")
        _one_result_each(findings, store)
        findings.require(findings.charged <= 1, "ran twice", f"{findings.charged} charges")
        if findings.status == "ok":
            findings.require(findings.charged == 1, "ran twice", "a charge that was none")
        await _answered(findings, agent.send(LATER))
    _one_result_each(findings, store)
    _numbered(findings, store)
    for line in logged:
        findings.require(line.levelno < logging.ERROR, "error logged", line.getMessage())
        findings.taken_up += "taking up" in line.getMessage()
    return findings


async def _answered(findings: Findings, sending: Awaitable[Any]) -> None:
    try:
        turn = await asyncio.wait_for(sending, 5)
    except (PagedaemonError, AssertionError, TimeoutError) as error:
        findings.require(False, "not answered", repr(error))
        return
    # A message that got no answer stands before it, in the same words of the user.
    heard = turn.reply is not None and turn.reply.startswith("heard: ")
    findings.require(heard and turn.reply.endswith(LATER), "not answered", turn.reply)


def _rows(store: Path, query: str, *values: object) -> list[Any]:
    with closing(sqlite3.connect(store / "spaces" / "default" / "space.db")) as connection:
        return connection.execute(query, values).fetchall()


def _number(store: Path, query: str, *values: object) -> int:
    ((number,),) = _rows(store, query, *values)
    assert isinstance(number, int)
    return number


def _messages_once(findings: Findings, store: Path, said: list[str]) -> None:
    stored = _number(store, "SELECT count(*) FROM messages WHERE text = ?", TASK)
    findings.require(stored <= 1, "message doubled", stored)
    findings.require(stored == 1 or "accepted" not in said, "message lost", said)
    turns = _number(store, "SELECT count(*) FROM turns")
    words = _number(store, "SELECT count(*) FROM messages WHERE kind = 'message'")
    findings.require(turns == words, "message lost", f"{turns} turns, {words} messages")
    query = "SELECT count(*) FROM messages_fts WHERE messages_fts MATCH ?"
    found = _number(store, query, 'text : ("I am Lin" AND balance)')
    findings.require(found == stored, "message lost", f"{found} of {stored} in recall")


def _turns_ended(findings: Findings, store: Path, ends: tuple[str, ...]) -> None:
    rows = _rows(store, "SELECT status, stop_reason, error FROM turns ORDER BY seq")
    for number, (status, reason, error) in enumerate(rows):
        # The first is of the store as it was made.
        honest = status == "done" and reason in (ends if number else ("end_turn",))
        findings.require(honest, "not ended", (status, reason, error))
    task = _rows(
        store,
        "SELECT stop_reason FROM turns JOIN messages ON turn_id = turns.id WHERE text = ?",
        TASK,
    )
    findings.stop_reason = task[0][0] if task else None
    left = _number(store, "SELECT count(*) FROM conversations WHERE lease_owner IS NOT NULL")
    findings.require(left == 0, "not ended", "a lease is held by nobody")
    left = _number(store, "SELECT count(*) FROM steps WHERE status != 'done'")
    findings.require(left == 0, "not ended", "a step is open")


EVENT = "event "
"""How a line begins that tells a committed event of the turn."""


def _line(event: Event) -> str:
    """A committed event as it is told outside: its number, and what must not change."""
    what: object = event.turn_id
    if isinstance(event, StepFinished):
        what = [(made.tool, made.status, made.result) for made in event.record.calls]
    elif isinstance(event, HeartbeatEvent):
        what = event.reason
    elif isinstance(event, TurnEnded):
        what = (event.turn.stop_reason, event.turn.replies)
    return f"{EVENT}{event.number} {type(event).__name__} {what}"


async def _events_once(
    findings: Findings, store: Path, runtime: AsyncRuntime, said: list[str]
) -> None:
    """What was told before the process died is told again under its number, and goes on."""
    task = _rows(store, "SELECT turn_id FROM messages WHERE text = ?", TASK)
    if not task:
        return
    main = await (await runtime.agents.get(AGENT)).conversations.get()
    found = [event async for event in main.events(task[0][0])]
    told = [_line(event) for event in found]
    before = [line for line in said if line.startswith(EVENT)]
    findings.require(told[: len(before)] == before, "event lost", (before, told))
    numbers = [event.number for event in found]
    whole = numbers == list(range(1, len(found) + 1)) and isinstance(found[-1], TurnEnded)
    findings.require(whole, "event lost", told)
    steps = [event.record.seq for event in found if isinstance(event, StepFinished)]
    done = _number(store, "SELECT count(*) FROM steps WHERE turn_id = ?", task[0][0])
    findings.require(steps == list(range(1, done + 1)), "event lost", (steps, done))


async def _unknown_told(
    findings: Findings, clerk: Clerk, runtime: AsyncRuntime, started: bool
) -> None:
    """A charge nobody saw the end of is `unknown`, to the owner and in the model's next request."""
    agent = await runtime.agents.get(AGENT)
    turns = await (await agent.conversations.get()).turns()
    steps = [step for turn in turns for step in turn.steps]
    calls = [made for step in steps for made in step.calls if made.tool == "charge"]
    findings.require(len(calls) <= 1, "ran twice", f"{len(calls)} calls")
    if not calls:
        return
    findings.status = calls[0].status
    findings.require(not started or calls[0].status == "unknown", "not told", calls[0])
    if started:
        told = [
            message["content"]
            for message in clerk.model.requests[0].messages
            if message["role"] == "tool" and "charge" in message["content"]
        ]
        findings.require(
            len(told) == 1 and "Whether it took effect is unknown" in told[0], "not told", told
        )


def _no_half_step(findings: Findings, store: Path, when: str) -> None:
    """The edit, its version, the passage and the messages of step 1 are all there, or none is."""
    edits = _number(
        store,
        "SELECT count(*) FROM messages WHERE role = 'assistant' AND calls LIKE '%core_memory%'",
    )
    value = _rows(store, "SELECT value FROM blocks WHERE label = 'human'")[0][0]
    there = {
        "edits": value.count(FACT),
        "versions": _number(
            store,
            "SELECT count(*) - 1 FROM block_versions "
            "JOIN blocks ON blocks.id = block_id WHERE label = 'human'",
        ),
        "passages": _number(store, "SELECT count(*) FROM passages"),
        "counted": _number(store, "SELECT archival_count FROM agents"),
        "results": _number(
            store, "SELECT count(*) FROM messages WHERE tool = 'core_memory_append'"
        ),
        "steps": _number(
            store,
            "SELECT count(DISTINCT step_id) FROM calls "
            "WHERE tool = 'core_memory_append' AND status = 'ok'",
        ),
    }
    whole = edits <= 1 and all(number == edits for number in there.values())
    findings.require(whole, "half a step", (when, edits, there))


def _one_result_each(findings: Findings, store: Path) -> None:
    for step, made in _rows(
        store, "SELECT step_id, json_array_length(calls) FROM messages WHERE calls IS NOT NULL"
    ):
        results = _rows(
            store, "SELECT call_id FROM messages WHERE role = 'tool' AND step_id = ?", step
        )
        rows = _rows(store, "SELECT wire_id FROM calls WHERE step_id = ? ORDER BY seq", step)
        findings.require(results == rows and len(rows) == made, "result missing", (results, rows))
    left = _rows(
        store, "SELECT tool, status FROM calls WHERE status NOT IN ('ok', 'failed', 'unknown')"
    )
    findings.require(not left, "result missing", left)


def _numbered(findings: Findings, store: Path) -> None:
    numbers = [row[0] for row in _rows(store, "SELECT seq FROM messages ORDER BY seq")]
    findings.require(numbers == list(range(1, len(numbers) + 1)), "half a step", numbers)
    last = _number(store, "SELECT last_seq FROM conversations")
    findings.require(last == len(numbers), "half a step", f"last_seq {last} of {len(numbers)}")
    counted = _number(store, "SELECT recall_count FROM agents")
    findings.require(counted == len(numbers), "half a step", f"{counted} of {len(numbers)} counted")
    spent = _number(store, "SELECT spent_calls FROM agents")
    steps = _number(store, "SELECT count(*) FROM steps")
    findings.require(spent == steps, "half a step", f"{spent} calls paid, {steps} steps")


def _listen(logged: list[logging.LogRecord]) -> None:
    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logged.append(record)

    logger = logging.getLogger("pagedaemon")
    logger.setLevel(logging.INFO)
    logger.addHandler(Kept())
