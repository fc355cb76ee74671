"""Turns and conversations: saying, stopping, resetting, deleting."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import strategies as st
from tests.machine.acts import STEPS, Step
from tests.machine.base import AGENTS, PLACES, Machine, operation
from tests.machine.space import SMALL, SUMMARY, Gate, Script

from pagedaemon import KeyConflict
from pagedaemon.events import HeartbeatEvent, PagedOut, StepFinished, TurnEnded


class Talking(Machine):
    """What is said to agents, and what becomes of their queues."""

    def __init__(self, place: Path, done: Counter[str]) -> None:
        super().__init__(place, done)
        self.keys: dict[tuple[str, str], tuple[str, str]] = {}
        """By agent and conversation: the words that were sent with a key, and their turn."""

    # ------------------------------------------------------------- turns

    @operation(
        8, agent=AGENTS, where=PLACES, steps=st.lists(STEPS, max_size=2), streamed=st.booleans()
    )
    def say(self, agent: str, where: str, steps: list[Step], streamed: bool) -> None:
        """A turn with what the agent does in it."""
        self.run(self._say(agent, where, steps, streamed))

    async def _say(self, agent: str, where: str, steps: list[Step], streamed: bool) -> None:
        space, words = self.space, next(self.words)
        conversation = await space.conversation(agent, where)
        space.world.said(agent, where, words)
        space.script = script = Script(agent, where, steps)
        if streamed:
            told = [event async for event in conversation.stream(words)]
            assert isinstance(told[-1], TurnEnded)
            turn = told[-1].turn
        else:
            turn = await conversation.send(words)
        space.script = None
        assert script.ends
        statuses = [[call.status for call in step.calls] for step in turn.steps]
        assert statuses[: len(script.statuses)] == script.statuses
        self.touched.add((agent, where))
        self.touched |= await space.read_mail()
        self.edited |= {*space.world.shared, agent}
        self.counted("say")
        for step in script.statuses:
            for status in step:
                self.counted(f"call {status}")

    @operation(3, places=st.lists(st.tuples(AGENTS, PLACES), min_size=2, max_size=5))
    def say_at_once(self, places: list[tuple[str, str]]) -> None:
        """Several at the same time, to several or to one: each conversation keeps its order."""

        async def work() -> None:
            sends = []
            for agent, where in places:
                conversation = await self.space.conversation(agent, where)
                words = next(self.words)
                sends.append((agent, where, words, conversation))
            turns = await asyncio.gather(*(one.send(words) for _, _, words, one in sends))
            assert [turn.reply for turn in turns] == ["ok"] * len(places)
            for agent, where, words, _ in sends:
                self.space.world.said(agent, where, words)
                self.space.world.answered(agent, where)

        self.run(work())
        self.touched.update(places)
        self.counted("say at once", len(places))

    @operation(agent=AGENTS, where=PLACES, running=st.booleans())
    def stop(self, agent: str, where: str, running: bool) -> None:
        """Of two turns the one that runs is stopped, or the one that waits for it."""

        async def work() -> None:
            space, world = self.space, self.space.world
            conversation = await space.conversation(agent, where)
            space.gate = gate = Gate()
            words = [next(self.words), next(self.words)]
            turns = [await conversation.send_later(one) for one in words]
            await gate.asked.wait()
            stopped = await turns[0 if running else 1].stop()
            assert stopped.stop_reason == "cancelled"
            gate.open.set()
            space.gate = None
            for turn in turns:
                await turn.wait()
            world.said(agent, where, words[0])
            ended = world.agents[agent].conversations[where]
            if running:
                ended.end("cancelled")
                world.said(agent, where, words[1])
                world.answered(agent, where)
            else:
                world.answered(agent, where)
                ended.end("cancelled")

        self.run(work())
        self.touched.add((agent, where))
        self.counted("stop", 3)

    @operation(agent=AGENTS, where=PLACES)
    def send_again(self, agent: str, where: str) -> None:
        """With the key of an earlier message: nothing is said again, and nothing else."""

        async def work() -> None:
            conversation = await self.space.conversation(agent, where)
            if (agent, where) not in self.keys:
                words = next(self.words)
                turn = await conversation.send(words, key="key")
                self.space.world.said(agent, where, words)
                self.space.world.answered(agent, where)
                self.keys[agent, where] = words, turn.id
            words, turn_id = self.keys[agent, where]
            assert (await conversation.send(words, key="key")).id == turn_id
            with pytest.raises(KeyConflict):
                await conversation.send("other words", key="key")

        self.run(work())
        self.touched.add((agent, where))
        self.counted("send again", 2)

    @operation(4, size=st.integers(100, 220))
    def fill(self, size: int) -> None:
        """A long message to an agent with a small window: the runtime makes room where it must.

        How much that is depends on how many tokens all of it takes. That there is one summary for
        what left, that only whole groups do, the oldest first, and that nothing is lost, does not.
        """

        async def work() -> None:
            words = f"{next(self.words)} {'of ships and of their sails ' * size}".strip()
            conversation = await self.space.conversation(SMALL, "main")
            told = [event async for event in conversation.stream(words)]
            assert isinstance(told[-1], TurnEnded)
            plain = self.space.world.agents[SMALL].conversations["main"]
            self.space.world.said(SMALL, "main", words)
            for message in await conversation.messages():
                if message.kind == "alert" and message.seq == len(plain.log) + 1:
                    plain.add("alert", "alert")
                    self.counted("alert")
            steps = 0
            for event in told:
                if isinstance(event, PagedOut):
                    assert (event.by, event.summary) == ("runtime", "model")
                    plain.forced_out(event.messages, SUMMARY)
                    self.counted("page out")
                elif isinstance(event, StepFinished):
                    plain.add("reply", "ok")
                    steps += 1
                elif isinstance(event, HeartbeatEvent):
                    assert event.reason == "pressure"
                    plain.add("alert", "alert")
                    self.counted("alert")
            plain.end("end_turn", "\n\n".join(["ok"] * steps))
            report = await conversation.context()
            assert report.tokens <= report.budget

        self.run(work())
        self.touched.add((SMALL, "main"))
        self.counted("fill")

    # ------------------------------------------------------------- queues

    @operation(agent=AGENTS, where=PLACES)
    def reset(self, agent: str, where: str) -> None:
        """The window is emptied."""

        async def work() -> None:
            conversation = await self.space.conversation(agent, where)
            left = self.space.world.agents[agent].conversations[where].reset()
            assert await conversation.reset() == left

        self.run(work())
        self._window_changed("reset", agent, where)

    @operation(2, agent=AGENTS, where=PLACES)
    def pop(self, agent: str, where: str) -> None:
        """The last exchange is taken out of the window."""

        async def work() -> None:
            conversation = await self.space.conversation(agent, where)
            gone = self.space.world.agents[agent].conversations[where].pop()
            assert [one.seq for one in await conversation.pop()] == [one.seq for one in gone]

        self.run(work())
        self._window_changed("pop", agent, where)

    def _window_changed(self, kind: str, agent: str, where: str) -> None:
        self.touched.add((agent, where))
        self.counted(kind)

    @operation(agent=AGENTS, where=st.sampled_from(("x", "y")))
    def delete_conversation(self, agent: str, where: str) -> None:
        """With its messages, and whatever waits in it."""

        async def work() -> None:
            conversation = await self.space.conversation(agent, where)
            plain = self.space.world.agents[agent].conversations.pop(where)
            assert await conversation.delete() == len(plain.log)
            assert await self.space.agents[agent].recall.count() == (
                self.space.world.agents[agent].messages
            )
            self.space.forget(agent, [where])
            self.keys.pop((agent, where), None)

        self.run(work())
        self.counted("delete conversation")

    @operation(agent=AGENTS)
    def replace_agent(self, agent: str) -> None:
        """An agent is deleted, with all that was its own, and another one takes its name."""

        async def work() -> None:
            world = self.space.world
            places = list(world.agents[agent].conversations)
            await self.space.agents[agent].delete()
            self.space.forget(agent, places)
            for where in places:
                self.keys.pop((agent, where), None)
            await self.space.add_agent(agent)
            await self.space.attach(agent, "team")

        self.run(work())
        self.touched.add((agent, "main"))
        self.edited |= {*self.space.world.shared, agent}
        self.counted("replace agent", 2)
