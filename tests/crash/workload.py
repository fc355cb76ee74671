"""The frame of all workloads: what a process does in which it is killed, and how its store is
looked at afterwards."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from tests.crash.look import ACCEPTED, Log, Look, event_line
from tests.crash.points import FaultPoints, Tell, unheard

from pagedaemon import AsyncRuntime
from pagedaemon.config import LEASE_SECONDS
from pagedaemon.events import Event
from pagedaemon.testing import ScriptedModel
from pagedaemon.testing.views import message_text


class Workload(ABC):
    """One process of a workload.

    Args:
        store: the store's folder.
        points: where it is killed.
        tell: told what is to be known outside.

    Attributes:
        name: of the workload.
        task: what is sent; None where nothing is.
        in_tools: how many places lie inside of tools.
        agents: who is asked `LATER`.
        ends: stop reasons that are honest.
        closed_calls: states in which calls may end.
        can_be_asked: its tools know what became of a call, so that none is unknown.
        ledger: effects outside the database, a line each.
    """

    name: ClassVar[str]
    task: ClassVar[str | None] = None
    in_tools: ClassVar[int] = 0
    agents: ClassVar[tuple[str, ...]]
    ends: ClassVar[tuple[str, ...]] = ("end_turn",)
    closed_calls: ClassVar[tuple[str, ...]] = ("ok", "failed", "unknown")
    can_be_asked: ClassVar[bool] = False

    def __init__(self, store: Path, points: FaultPoints | None = None, tell: Tell = unheard):
        self.store = store
        self.points = points or FaultPoints()
        self.tell = tell
        self.ledger = store.with_suffix(".ledger")

    @property
    @abstractmethod
    def models(self) -> Mapping[str, ScriptedModel]:
        """Its models, by name. They are functions of the request alone: a process that never saw
        the turn goes on with it."""

    @abstractmethod
    def open(self, *, lease_seconds: float = LEASE_SECONDS) -> AsyncRuntime:
        """A runtime on the store, with its models and tools."""

    @abstractmethod
    async def make(self) -> None:
        """The store as it is before."""

    def spoil(self) -> None:
        """What a process that died has left of that, outside of any event loop, where one may be
        forked. Default: nothing."""
        return

    @abstractmethod
    async def act(self, runtime: AsyncRuntime) -> None:
        """What is done, to its end; what an earlier process has done of it is not done again."""

    async def take_up(self, runtime: AsyncRuntime) -> None:
        """What the next process does of what was left, to its end. Default: it recovers."""
        await (await runtime.space("default")).recover()

    def look_before(self, look: Look) -> None:
        """At the store as it was left."""
        look.legal()

    @abstractmethod
    async def look_after(self, look: Look, runtime: AsyncRuntime) -> None:
        """At what this workload must have left; what all must is looked at anyway."""

    async def run(self) -> None:
        """The first process. All of it is armed."""
        self.points.arm()
        async with self.open() as runtime:
            # As a task, whose awaits are seen.
            await asyncio.create_task(self.act(runtime))
            self.points.disarm()

    async def recover(self) -> None:
        """The next process. All of it is armed."""
        self.points.arm()
        async with self.open() as runtime:
            await asyncio.create_task(self.take_up(runtime))
            self.points.disarm()

    def affect(self, what: str) -> None:
        """Acts outside."""
        with self.ledger.open("a") as ledger:
            ledger.write(f"{what}\n")
            ledger.flush()
            os.fsync(ledger.fileno())

    def effects(self) -> list[str]:
        """What was done outside."""
        return self.ledger.read_text().splitlines() if self.ledger.exists() else []

    def hear(self, event: Event) -> None:
        """Tells a committed event outside; what is provisional is no promise."""
        if event.number is not None:
            self.tell(event_line(event))

    async def look(
        self,
        said: Sequence[Sequence[str]],
        *,
        ends: Sequence[str] = (),
        at_once: bool = False,
    ) -> Look:
        """Everything that must be true of a store whose processes were killed; recovers it on the
        way.

        Args:
            said: what each of the killed processes told.
            ends: stop reasons that are honest here beside those of the workload.
            at_once: nobody looks at the file before, and the next message comes before what was
                left open is taken up.
        """
        with_log = Log()
        look = Look(self.store, said)
        try:
            if not at_once:
                self.look_before(look)
            started = look.number("SELECT count(*) FROM calls WHERE status = 'started'")
            begun = time.monotonic()
            self.points.arm()
            async with self.open() as runtime:
                if at_once:
                    await look.answered(runtime, self.agents)
                    look.facts["seconds"] = time.monotonic() - begun
                await asyncio.create_task(self.take_up(runtime))
                self.points.disarm()
                self._messages_once(look)
                await look.sound(runtime, (*self.ends, *ends), self.closed_calls)
                self._effects_once(look, started)
                await self.look_after(look, runtime)
                if not at_once:
                    begun = time.monotonic()
                    await look.answered(runtime, self.agents)
                    look.facts["seconds"] = time.monotonic() - begun
            look.legal()
        finally:
            look.close()
            with_log.close()
        for line in with_log.lines:
            look.require(line.levelno < logging.ERROR, "error logged", line.getMessage())
        look.facts["taken up"] = sum("taking up" in line.getMessage() for line in with_log.lines)
        return look

    def _messages_once(self, look: Look) -> None:
        if self.task is None:
            return
        stored = look.number("SELECT count(*) FROM messages WHERE text = ?", self.task)
        look.require(stored <= 1, "message doubled", stored)
        look.require(stored == 1 or not look.told(ACCEPTED), "message lost", look.said)
        query = "SELECT count(*) FROM messages_fts WHERE messages_fts MATCH ?"
        words = " AND ".join(f'"{word}"' for word in self.task.split()[:8])
        found = look.number(query, f"text : ({words})")
        look.require(found == stored, "message lost", f"{found} of {stored} in recall")

    def _effects_once(self, look: Look, started: int) -> None:
        """What acts outside acts at most once; what nobody saw the end of is `unknown`, and told
        the model as that."""
        done = self.effects()
        look.facts["effects"] = len(done)
        look.require(len(done) == len(set(done)), "ran twice", done)
        ends = Counter(
            status for (status,) in look.rows("SELECT status FROM calls WHERE effect = 'once'")
        )
        look.facts["status"] = next((one for one in ("ok", "unknown") if ends[one]), None)
        known = ends["ok"] <= len(done) <= ends["ok"] + ends["unknown"]
        look.require(known, "ran twice", f"{len(done)} effects, {dict(ends)}")
        started = 0 if self.can_be_asked else started
        look.require(ends["unknown"] >= started, "not told", f"{started} started, {dict(ends)}")
        stored = look.number(
            "SELECT count(*) FROM messages WHERE text LIKE '%it took effect is unknown%'"
        )
        look.require(stored == ends["unknown"], "not told", f"{stored} of {ends['unknown']}")
        if started:
            shown = any(
                "it took effect is unknown" in message_text(message)
                for model in self.models.values()
                for request in model.requests
                for message in request.messages
            )
            look.require(shown, "not told", "no request says so")
