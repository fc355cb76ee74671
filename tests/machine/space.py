"""The real thing: a space in a folder, its agents by name, and the model that speaks for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.machine.acts import Step, calls, word
from tests.machine.plain import (
    Change,
    PlainAgent,
    PlainBlock,
    PlainConversation,
    Refused,
    appended,
)
from tests.machine.world import EXPIRES, World

from pagedaemon import AsyncRuntime, Block, EditRefused, Gates, Model, ToolFailure, tool
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.handles.blocks import AsyncBlock
from pagedaemon.handles.conversation import AsyncConversation
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import FakeClock, RequestView, ScriptedModel, text, view
from pagedaemon.tools.tool import Tool

LIMIT = 120
"""Characters of a block: few enough to be used up."""

STYLES = {"ada": "memgpt", "bob": "memgpt", "cyd": "native", "dee": "native"}
SETS = {"ada": "memgpt", "bob": "edit", "cyd": "edit", "dee": "edit"}
SMALL = "dee"
"""Whose window is small, and filled."""

WINDOW = Model("small", context_window=8_192, max_output_tokens=256)
SUMMARY = "They spoke of this and that."
"""What a model says of messages that leave a window."""


class Script:
    """A turn whose steps are written out; it ends with a word to the user."""

    def __init__(self, agent: str, where: str, steps: Sequence[Step]) -> None:
        self.agent = agent
        self.where = where
        self.left = list(steps)
        self.statuses: list[list[str]] = []
        """Of the calls of each step so far."""
        self.ends = False
        """Whether it has said all it has to say."""


class Gate:
    """Holds the model back until it is opened."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.open = asyncio.Event()


class Space:
    """A folder with a runtime on it, and what is expected of it.

    Args:
        folder: where the store is.
    """

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.world = World(self.clock.now())
        self.called: list[str] = []
        """What the tools have really been run for."""
        self.script: Script | None = None
        self.gate: Gate | None = None
        self.mistake: AssertionError | None = None
        """What the model found wrong with a request."""
        self.agents: dict[str, AsyncAgent] = {}
        self._conversations: dict[tuple[str, str], AsyncConversation] = {}
        self._folder = folder
        self._tools = self._made_tools()

    def _made_tools(self) -> list[Tool]:
        def outside(to: str) -> str:
            self.called.append(to)
            if to == "nobody":
                raise ToolFailure("there is nobody")
            return "done"

        @tool(effect="once")
        def ring(to: str) -> str:
            """Rings somebody up."""
            return outside(to)

        @tool(effect="once", approval="always")
        def mail(to: str) -> str:
            """Mails somebody."""
            return outside(to)

        return [ring, mail]

    # -------------------------------------------------------------- opening

    async def open(self) -> None:
        """Opens the store, and finds again what is in it."""
        self.runtime = await AsyncRuntime(
            self._folder,
            model="script",
            models={
                "script": ScriptedModel(self._answer),
                WINDOW.name: ScriptedModel(self._answer, usage=None),
            },
            tools=self._tools,
            clock=self.clock,
            embedder=None,
        ).open()
        self.agents = {agent.name: agent for agent in await self.runtime.agents.list()}
        self._conversations = {}

    async def close(self) -> None:
        """Closes it."""
        await self.runtime.close()

    async def furnish(self) -> None:
        """Three agents with a block of their own each, two blocks that they share, and one agent
        that is never talked to."""
        await self.add_block("team")
        await self.add_block("plan")
        for name in STYLES:
            await self.add_agent(name)
            for label in ("team", "plan"):
                await self.attach(name, label)
        self.agents["idle"] = await self.runtime.agents.create("idle")

    async def add_agent(self, name: str) -> None:
        """A new agent with a block of its own."""
        native, edits = STYLES[name] == "native", SETS[name] == "edit"
        own = PlainBlock(LIMIT, [("", "create", "api")])
        self.world.agents[name] = PlainAgent(name, native, edits, {name: own})
        self.agents[name] = await self.runtime.agents.create(
            name,
            model=WINDOW if name == SMALL else "script",
            style=STYLES[name],
            tool_set=SETS[name],
            blocks=[Block(label=name, limit=LIMIT)],
            tools=self._tools,
            timers=True,
            messaging=True,
            gates=Gates(expires=EXPIRES.total_seconds()),
        )

    async def add_block(self, label: str) -> None:
        """A new block that stands alone."""
        self.world.shared[label] = PlainBlock(LIMIT, [("Rules", "create", "api")])
        await self.runtime.blocks.create(label=label, value="Rules", limit=LIMIT)

    async def attach(self, agent: str, label: str) -> None:
        """An agent holds a shared block from now on."""
        self.world.agents[agent].blocks[label] = self.world.shared[label]
        await self.agents[agent].blocks.attach(await self.runtime.blocks.get(label))

    # -------------------------------------------------------------- finding

    async def block(self, label: str) -> tuple[AsyncBlock, PlainBlock]:
        """A shared block, or that of the agent of that name."""
        if label in self.world.shared:
            return await self.runtime.blocks.get(label), self.world.shared[label]
        return await self.agents[label].blocks.get(label), self.world.agents[label].blocks[label]

    async def conversation(self, agent: str, where: str) -> AsyncConversation:
        """An agent's conversation, made if there is none."""
        known = self._conversations.get((agent, where))
        if known is None:
            self.world.agents[agent].conversations.setdefault(where, PlainConversation())
            known = await self.agents[agent].conversations.ensure(where)
            self._conversations[agent, where] = known
        return known

    def forget(self, agent: str, places: Sequence[str]) -> None:
        """Conversations that were deleted, and what waited in them."""
        self.world.forget(agent, places)
        for where in places:
            self._conversations.pop((agent, where), None)

    def places(self) -> Iterator[tuple[str, str]]:
        """Every conversation there is: its agent and its name."""
        for name, agent in self.world.agents.items():
            for where in agent.conversations:
                yield name, where

    # -------------------------------------------------------------- the model

    async def _answer(self, request: Request) -> Reply:
        if request.purpose == "summary":
            return text(SUMMARY)
        try:
            return await self._reply(view(request))
        except AssertionError as wrong:
            self.mistake = wrong
            raise

    async def _reply(self, seen: RequestView) -> Reply:
        (name,) = set(STYLES) & set(seen.blocks)
        agent = self.world.agents[name]
        if self.world.letters and (self.script is None or self.script.agent != name):
            # It reads a letter while another agent still edits what they share.
            for label, value in seen.blocks.items():
                assert value in [version[0] for version in agent.blocks[label].versions]
            return word(agent, "ok")
        expected = {label: block.value for label, block in agent.blocks.items()}
        assert dict(seen.blocks) == expected, "every edit is in the next request"
        if self.gate is not None:
            self.gate.asked.set()
            await self.gate.open.wait()
        if self.script is None:
            return word(agent, "ok")
        return await self._scripted(agent, self.script)

    async def _scripted(self, agent: PlainAgent, script: Script) -> Reply:
        assert not script.ends, "a turn that has ended asks no more"
        if not script.left:
            script.ends = True
            self.world.answered(agent.name, script.where)
            return word(agent, "ok")
        step = script.left.pop(0)
        read = self.world.seen(agent.name)
        reply = calls(agent, step, len(agent.conversations[script.where].log))
        if step.meanwhile:
            await self._meanwhile()
        statuses, goes_on = self.world.acted(agent.name, script.where, step, read)
        script.statuses.append(statuses)
        script.ends = not goes_on
        return reply

    async def _meanwhile(self) -> None:
        """Somebody edits a shared block after the request was made."""
        block, plain = await self.block("team")
        await edited(plain, "append", appended("more"), block.append("more"))

    # -------------------------------------------------------------- mail

    async def read_mail(self) -> set[tuple[str, str]]:
        """Waits until every letter is read, and every answer too. Returns in which
        conversations."""
        letters, world = self.world.letters, self.world
        asked = [letter for letter in letters if letter.question]
        places = [(letter.to, "main") for letter in letters]
        places += [(letter.sender, letter.conversation) for letter in asked]
        for agent, where in places:
            for turn in await (await self.conversation(agent, where)).turns(status="open"):
                await turn.wait()
        for letter in letters:
            world.read(letter)
        if asked:
            # Those that were asked answer side by side, each its own letters in their order.
            ((agent, where),) = {(letter.sender, letter.conversation) for letter in asked}
            known = len(world.agents[agent].conversations[where].log)
            for message in await (await self.conversation(agent, where)).messages():
                if message.seq > known and message.kind == "message":
                    letter = next(one for one in asked if one.to == message.author)
                    asked.remove(letter)
                    world.heard(letter)
            assert not asked, "every question is answered once"
        self.world.letters = []
        return set(places)

    # -------------------------------------------------------------- time

    async def settle(self) -> set[tuple[str, str]]:
        """Waits until all that is due by now has woken its agent, and those turns have ended.
        Returns in which conversations."""
        world = self.world
        timers = {key: world.timers[key] for key in world.due()}
        woken = {(one.agent, one.conversation) for one in timers.values()}
        woken |= {
            (one.agent, one.conversation)
            for one in (world.approvals[key] for key in world.overdue())
        }
        if woken:
            # Whatever is said of timers has the runtime look at the clock.
            await self.agents["idle"].resume_heartbeats()
        async with asyncio.timeout(60):
            for timer_id, timer in timers.items():
                await self._rung(timer.agent, timer_id)
            # To look at approvals ends the wait of those whose time is over.
            await self.runtime.approvals.list()
            for agent, where in woken:
                for turn in await (await self.conversation(agent, where)).turns(status="open"):
                    await turn.wait()
        world.time_passed()
        return woken

    async def _rung(self, agent: str, timer_id: str) -> None:
        now = self.clock.now()
        while any(
            timer.id == timer_id and timer.due <= now
            for timer in await self.agents[agent].schedules()
        ):
            continue


async def edited(
    plain: PlainBlock, operation: str, change: Change, edit: Awaitable[object]
) -> str | None:
    """Edits a block through the API as it is and as it is expected to be. Returns why both refused
    it; None where both did it."""
    try:
        plain.write(operation, "api", change)
        refusal = None
    except Refused as refused:
        refusal = refused.reason
    if refusal is None:
        await edit
        return None
    with pytest.raises(EditRefused) as caught:
        await edit
    assert (caught.value.reason, caught.value.current) == (refusal, plain.value)
    return refusal
