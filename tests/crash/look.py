"""A look at a store after a crash: what must hold of it, whatever was done there."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

from pagedaemon import AsyncRuntime
from pagedaemon.errors import PagedaemonError
from pagedaemon.events import Event, HeartbeatEvent, PagedOut, StepFinished, TurnEnded
from pagedaemon.handles.conversation import AsyncConversation

LATER = "Are you still there?"
"""What every agent is asked in the end."""

HEARD = "heard: "
"""How the answer to that begins; the message follows."""

SOON = 2.0
"""Seconds within which it must be answered."""

EVENT = "event "
"""How a line begins that tells a committed event of a turn."""

ACCEPTED = "accepted"
"""The line that tells that the message was acknowledged."""

PROMISES = {
    "message lost": "a message that was accepted is stored, one that was not is whole or absent",
    "message doubled": "no message is stored twice",
    "half a step": "an edit, its passage, its version and its messages are all there or all absent",
    "half paged out": "messages leave the window with the summary that stands for them, or stay",
    "not searched": "a text that has no vector waits for one",
    "result missing": "every call has one result, in order",
    "ran twice": "what acts outside acts at most once, and the store knows of it",
    "not told": "an effect nobody saw the end of is unknown, to the owner and to the model",
    "asked again": "a reply of the model that was stored is not asked for again",
    "event lost": "a committed event keeps its number, and each is told once",
    "woken wrongly": "timers, letters and answers wake their agent, each once",
    "approved wrongly": "what a person approved is used, and is used once",
    "not mended": "what is wrong with a store is mended, and found no more",
    "not ended": "the turn is brought to its end, and nothing is left open",
    "not answered": "the next message is answered, by a request that is valid for every provider",
    "error logged": "nothing goes wrong on the way",
    "not opened": "the store opens again",
}
"""What must hold, by the first words of what is found where it does not."""


class Look:
    """A look at a store after a crash, and what it comes to.

    Args:
        said: what each of the processes told that were killed.

    Attributes:
        problems: broken promises, each beginning with which one. Empty: all were kept.
        facts: what else was seen.
    """

    def __init__(self, store: Path, said: Sequence[Sequence[str]] = ()) -> None:
        self.said = said
        self.problems: list[str] = []
        self.facts: dict[str, Any] = {}
        self._file = store / "spaces" / "default" / "space.db"
        self._connection: sqlite3.Connection | None = None

    def require(self, holds: bool, promise: str, what: object) -> None:
        """Notes a promise that does not hold."""
        assert promise in PROMISES, promise
        if not holds:
            self.problems.append(f"{promise}: {what}")

    def told(self, line: str) -> bool:
        """Whether one of the killed processes told that."""
        return any(line in lines for lines in self.said)

    def rows(self, query: str, *values: object) -> list[Any]:
        """What a query gives."""
        if self._connection is None:
            self._connection = sqlite3.connect(self._file, isolation_level=None)
        return self._connection.execute(query, values).fetchall()

    def number(self, query: str, *values: object) -> int:
        """The one number that a query gives."""
        ((number,),) = self.rows(query, *values)
        assert isinstance(number, int)
        return number

    def close(self) -> None:
        """Looks no more."""
        if self._connection is not None:
            self._connection.close()

    async def answered(
        self, runtime: AsyncRuntime, agents: Sequence[str], soon: float = SOON
    ) -> None:
        """Asks each agent whether it still answers, within so many seconds."""
        for name in agents:
            agent = await runtime.agents.get(name)
            try:
                turn = await _within(soon, agent.send(LATER))
            except (PagedaemonError, AssertionError, TimeoutError) as error:
                self.require(False, "not answered", repr(error))
                continue
            # A message that got no answer stands before it, in the same words of the user.
            reply = turn.reply or ""
            heard = reply.startswith(HEARD) and reply.endswith(LATER)
            self.require(heard, "not answered", turn.reply)

    async def sound(
        self, runtime: AsyncRuntime, ends: Sequence[str], closed_calls: Sequence[str]
    ) -> None:
        """What holds of every store in which nothing is open.

        Args:
            ends: stop reasons that are honest.
            closed_calls: states in which calls may end.
        """
        woken = self.number(
            "SELECT count(*) FROM messages WHERE step_id IS NULL AND turn_id IS NOT NULL"
            " AND kind != 'alert'"
        )
        turns = self.number("SELECT count(*) FROM turns")
        self.require(turns == woken, "message lost", f"{turns} turns, {woken} that woke")
        rows = self.rows("SELECT status, stop_reason, error FROM turns")
        wrong = [row for row in rows if row[0] != "done" or row[1] not in ends]
        self.require(not wrong, "not ended", wrong)
        held = self.number("SELECT count(*) FROM conversations WHERE lease_owner IS NOT NULL")
        self.require(held == 0, "not ended", "a lease is held by nobody")
        left = self.number("SELECT count(*) FROM steps WHERE status != 'done'")
        self.require(left == 0, "not ended", "a step is open")
        marks = ", ".join("?" for _ in closed_calls)
        query = f"SELECT tool, status FROM calls WHERE status NOT IN ({marks})"
        calls = self.rows(query, *closed_calls)
        self.require(not calls, "result missing", calls)
        self.legal()
        await self._events_once(runtime)

    def legal(self) -> None:
        """What holds of every history."""
        for step, made in self.rows(
            "SELECT step_id, json_array_length(calls) FROM messages WHERE calls IS NOT NULL"
        ):
            results = self.rows(
                "SELECT call_id FROM messages WHERE role = 'tool' AND step_id = ? ORDER BY seq",
                step,
            )
            query = "SELECT wire_id FROM calls WHERE step_id = ? ORDER BY seq"
            rows = self.rows(query, step)
            whole = results == rows and len(rows) == made
            self.require(whole, "result missing", (results, rows))
        for conversation, last in self.rows("SELECT id, last_seq FROM conversations"):
            query = "SELECT seq FROM messages WHERE conversation_id = ? ORDER BY seq"
            numbers = [row[0] for row in self.rows(query, conversation)]
            whole = numbers == list(range(1, last + 1))
            self.require(whole, "half a step", f"last is {last} of {numbers}")
        counted = self.rows(
            "SELECT name, recall_count, (SELECT count(*) FROM messages WHERE agent_id = agents.id)"
            " FROM agents"
        )
        for name, number, there in counted:
            self.require(number == there, "half a step", f"{name}: {number} of {there} counted")
        spent = self.number("SELECT coalesce(sum(spent_calls), 0) FROM agents")
        of = "coalesce(sum(json_extract(usage, '$.calls')), 0)"
        used = self.number(f"SELECT {of} FROM turns")
        self.require(spent == used, "half a step", f"{spent} calls paid, {used} in the turns")

    async def _events_once(self, runtime: AsyncRuntime) -> None:
        """What was told before a process died is told again under its number, and goes on."""
        before: dict[str, list[list[str]]] = {}
        for lines in self.said:
            told: dict[str, list[str]] = {}
            for line in lines:
                if line.startswith(EVENT):
                    told.setdefault(line.split()[1], []).append(line)
            for turn, of_turn in told.items():
                before.setdefault(turn, []).append(of_turn)
        for turn, name, conversation, steps in self.rows(
            "SELECT turns.id, agents.name, conversations.name,"
            " (SELECT count(*) FROM steps WHERE turn_id = turns.id) FROM turns"
            " JOIN conversations ON conversations.id = conversation_id"
            " JOIN agents ON agents.id = agent_id"
        ):
            main = await _conversation(runtime, name, conversation)
            found = [event async for event in main.events(turn)]
            now = [event_line(event) for event in found]
            for earlier in before.pop(turn, []):
                self.require(now[: len(earlier)] == earlier, "event lost", (earlier, now))
            numbers = [event.number for event in found]
            whole = numbers == list(range(1, len(found) + 1)) and isinstance(found[-1], TurnEnded)
            self.require(whole, "event lost", now)
            seqs = [event.record.seq for event in found if isinstance(event, StepFinished)]
            self.require(seqs == list(range(1, steps + 1)), "event lost", (seqs, steps))
        self.require(not before, "event lost", before)


async def _conversation(runtime: AsyncRuntime, agent: str, name: str) -> AsyncConversation:
    return await (await runtime.agents.get(agent)).conversations.get(name)


def event_line(event: Event) -> str:
    """A committed event as it is told outside: its turn, its number, and what must not change."""
    what: object = None
    if isinstance(event, StepFinished):
        what = [(made.tool, made.status, made.result) for made in event.record.calls]
    elif isinstance(event, HeartbeatEvent):
        what = event.reason
    elif isinstance(event, PagedOut):
        what = event.messages
    elif isinstance(event, TurnEnded):
        what = (event.turn.stop_reason, event.turn.replies)
    return f"{EVENT}{event.turn_id} {event.number} {type(event).__name__} {json.dumps(what)}"


TICK = 0.01
"""Seconds between two looks at what is waited for."""


async def _within(seconds: float, sending: Awaitable[Any]) -> Any:
    """What comes of it within so many seconds of this process's own. They pass in ticks, of which a
    process that the machine has no time for gets fewer.

    Raises:
        TimeoutError: nothing came.
    """
    task = asyncio.ensure_future(sending)
    for _ in range(int(seconds / TICK)):
        await asyncio.wait([task], timeout=TICK)
        if task.done():
            return task.result()
    task.cancel()
    await asyncio.wait([task])
    raise TimeoutError(f"no answer within {seconds:g} s")


class Log(logging.Handler):
    """Keeps what is logged, until `close`."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[logging.LogRecord] = []
        self._logger = logging.getLogger("pagedaemon")
        self._level = self._logger.level
        self._logger.setLevel(logging.INFO)
        self._logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps a line."""
        self.lines.append(record)

    def close(self) -> None:
        """Keeps no more."""
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)
        super().close()
