"""How turns, agents and stores come to an end (user cases RH-01, MC-07, ST-04, DP-02)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from pagedaemon import AsyncRuntime, Block, tool
from pagedaemon.errors import (
    AuthenticationFailed,
    BadReply,
    Closed,
    ModelError,
    ModelUnavailable,
    NoModel,
    NotFound,
    QuotaExceeded,
    RequestRejected,
)
from pagedaemon.events import Event, Turn, TurnEnded, TurnStarted
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.handles.conversation import AsyncConversation
from pagedaemon.llm import retrying
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.store.tables import metadata
from pagedaemon.testing import ScriptedModel, call, cut, say, view
from pagedaemon.testing.scripted import Answer

SOURCE = Path(__file__).parents[2] / "runtime"


def echo(request: Request) -> Reply:
    """Says what the user said last; messages without an answer in between reach it as one."""
    return say(f"echo {last_words(request)}")


def last_words(request: Request) -> str:
    """The user's last line."""
    return view(request).last_user.split("\n")[-1]


def run(script: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in a Python process of its own, to its end."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=60,
    )


class Gate:
    """A model that answers like another once it is let through."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.free = asyncio.Event()
        self.model = ScriptedModel(self._reply)

    async def _reply(self, request: Request) -> Reply:
        self.asked.set()
        await self.free.wait()
        return echo(request)


@pytest.fixture
def gate() -> Gate:
    """Closed."""
    return Gate()


def opened(store: Path, model: ScriptedModel) -> AsyncRuntime:
    """A runtime with that model as its default."""
    return AsyncRuntime(store, model="script", models={"script": model}, embedder=None)


def rows(store: Path, statement: str) -> list[tuple[object, ...]]:
    """What another connection finds in the default space."""
    with closing(sqlite3.connect(store / "spaces" / "default" / "space.db")) as connection:
        return connection.execute(statement).fetchall()


async def main_of(agent: AsyncAgent) -> AsyncConversation:
    """The conversation every agent has."""
    return await agent.conversations.get()


async def users(agent: AsyncAgent) -> list[str]:
    """What people said, as it stands in the window."""
    messages = await (await main_of(agent)).messages()
    return [message.text for message in messages if message.kind == "message"]


async def stops(agent: AsyncAgent) -> list[str]:
    """Stop reasons of the ended turns, oldest first."""
    return [turn.stop_reason for turn in reversed(await (await main_of(agent)).turns())]


async def accepted(store: Path, count: int) -> None:
    """Waits until so many messages were accepted."""

    def look() -> None:
        deadline = time.monotonic() + 10
        while rows(store, "SELECT count(*) FROM turns") != [(count,)]:
            assert time.monotonic() < deadline, "not accepted"
            time.sleep(0.005)

    await asyncio.to_thread(look)


def nothing_open(store: Path) -> bool:
    """Whether every turn has ended and no lease is held."""
    return rows(store, "SELECT id FROM turns WHERE status != 'done'") == [] and (
        rows(store, "SELECT id FROM conversations WHERE lease_owner IS NOT NULL") == []
    )


class TestCancellation:
    """Somebody stops a turn."""

    async def test_a_time_limit_around_send_ends_the_turn_and_keeps_its_message(
        self, tmp_path: Path, gate: Gate
    ) -> None:
        async with opened(tmp_path, gate.model) as runtime:
            ada = await runtime.agents.ensure("ada")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await ada.send("too slow")
            assert await stops(ada) == ["cancelled"]
            assert nothing_open(tmp_path)
            gate.free.set()
            assert (await ada.send("again")).reply == "echo again"
            assert await users(ada) == ["too slow", "again"]

    async def test_cancel_stops_what_runs_and_withdraws_what_waits(
        self, tmp_path: Path, gate: Gate
    ) -> None:
        async with opened(tmp_path, gate.model) as runtime:
            ada = await runtime.agents.ensure("ada")
            sends = [asyncio.create_task(ada.send(f"{n}")) for n in range(3)]
            await gate.asked.wait()
            await accepted(tmp_path, 3)
            assert await ada.cancel() == 3
            turns = await asyncio.gather(*sends)
            assert [turn.stop_reason for turn in turns] == ["cancelled"] * 3
            assert await users(ada) == ["0"]
            assert nothing_open(tmp_path)
            assert await ada.cancel() == 0
            gate.free.set()
            assert (await ada.send("next")).reply == "echo next"

    async def test_a_caller_that_is_cancelled_in_the_queue_withdraws_only_its_own_message(
        self, tmp_path: Path, gate: Gate
    ) -> None:
        async with opened(tmp_path, gate.model) as runtime:
            ada = await runtime.agents.ensure("ada")
            first = asyncio.create_task(ada.send("first"))
            await gate.asked.wait()
            second = asyncio.create_task(ada.send("second"))
            third = asyncio.create_task(ada.send("third"))
            await accepted(tmp_path, 3)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            gate.free.set()
            assert (await first).reply == "echo first"
            assert (await third).reply == "echo third"
            assert await users(ada) == ["first", "third"]
            assert await stops(ada) == ["end_turn", "cancelled", "end_turn"]

    @pytest.mark.parametrize("pauses", range(0, 24, 2))
    async def test_whenever_the_caller_is_cancelled_the_conversation_goes_on(
        self, tmp_path: Path, pauses: int
    ) -> None:
        """Also while the message, the plan or the step is being committed."""
        ran: list[str] = []

        @tool
        def ring(what: str) -> str:
            """Rings."""
            ran.append(what)
            return "rung"

        def reply(request: Request) -> Reply:
            shown = view(request)
            if last_words(request) == "ring" and "ring" not in shown.results:
                return call("ring", what="bell", heartbeat=True)
            return echo(request)

        async with opened(tmp_path, ScriptedModel(reply)) as runtime:
            ada = await runtime.agents.ensure("ada", tools=[ring])
            sending = asyncio.create_task(ada.send("ring"))
            for _ in range(pauses):
                await asyncio.sleep(0.0005)
            sending.cancel()
            await asyncio.wait([sending])
            assert nothing_open(tmp_path)
            assert (await ada.send("next")).reply == "echo next"
            assert len(ran) <= 1
            messages = await (await main_of(ada)).messages()
            assert [m.seq for m in messages] == list(range(1, len(messages) + 1))
            assert await ada.recall.count() == len(messages)
            calls = {c.id for m in messages for c in m.calls}
            assert calls == {m.call_id for m in messages if m.kind == "result"}
            states = rows(tmp_path, "SELECT DISTINCT status FROM calls")
            assert {state for (state,) in states} <= {"ok", "failed", "unknown"}
            assert rows(tmp_path, "SELECT DISTINCT status FROM steps") == [("done",)]

    async def test_a_step_that_has_begun_to_act_closes_whole(self, tmp_path: Path) -> None:
        rung = threading.Event()
        ran: list[str] = []

        @tool
        async def ring() -> str:
            """Rings."""
            ran.append("ring")
            rung.set()
            await asyncio.sleep(60)
            return "rung"

        @tool
        def sing() -> str:
            """Sings."""
            ran.append("sing")
            return "sung"

        def reply(request: Request) -> Reply:
            if last_words(request) == "go":
                made = [call("ring", heartbeat=True), call("sing", heartbeat=True)]
                return Reply(calls=tuple(c for one in made for c in one.calls), finish="tool_calls")
            return echo(request)

        model = ScriptedModel(reply)
        async with opened(tmp_path, model) as runtime:
            ada = await runtime.agents.ensure("ada", tools=[ring, sing])
            sending = asyncio.create_task(ada.send("go"))
            await asyncio.to_thread(rung.wait, 5)
            assert await ada.cancel() == 1
            turn = await sending
            assert turn.stop_reason == "cancelled"
            [step] = turn.steps
            assert [(c.tool, c.status) for c in step.calls] == [
                ("ring", "unknown"),
                ("sing", "failed"),
            ]
            assert "not run" in step.calls[1].result or "never" in step.calls[1].result
            assert (await ada.send("next")).reply == "echo next"
            assert ran == ["ring"]
            shown = [str(m.get("content")) for m in model.requests[-1].messages]
            assert any(step.calls[0].result in text for text in shown)

    async def test_a_tool_may_stop_its_own_turn(self, tmp_path: Path) -> None:
        agents: list[AsyncAgent] = []

        @tool
        async def stop() -> str:
            """Stops."""
            await agents[0].cancel()
            return "never seen"

        model = ScriptedModel([call("stop", heartbeat=True), say("on")])
        async with opened(tmp_path, model) as runtime:
            agents.append(await runtime.agents.ensure("ada", tools=[stop]))
            async with asyncio.timeout(5):
                turn = await agents[0].send("go")
                assert turn.stop_reason == "cancelled"
                assert (await agents[0].send("go on")).reply == "on"


class TestListeners:
    """RH-01: the listener goes away, or the model does."""

    @pytest.mark.parametrize("heard", [1, 2, 3, 5])
    async def test_a_turn_goes_on_without_its_listener(self, tmp_path: Path, heard: int) -> None:
        ran: list[str] = []

        @tool
        def ring() -> str:
            """Rings."""
            ran.append("ring")
            return "rung"

        def reply(request: Request) -> Reply:
            shown = view(request)
            if last_words(request) == "ring" and "ring" not in shown.results:
                return call("ring", heartbeat=True)
            return echo(request)

        async with opened(tmp_path, ScriptedModel(reply)) as runtime:
            ada = await runtime.agents.ensure("ada", tools=[ring])
            stream = ada.stream("ring")
            for _ in range(heard):
                await anext(stream)
            await stream.aclose()
            assert (await ada.send("next")).reply == "echo next"
            assert await users(ada) == ["ring", "next"]
            assert await stops(ada) == ["end_turn", "end_turn"]
            assert ran == ["ring"]
            found = await ada.recall.search("ring", roles=["user"])
            assert found.total == 1

    async def test_a_stream_that_dies_is_asked_again_and_says_so_to_the_listener(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(retrying, "LONGEST_WAIT", 0.001)
        model = ScriptedModel([cut(say("half of it"), after=2), say("all of it")])
        async with opened(tmp_path, model) as runtime:
            ada = await runtime.agents.ensure("ada")
            events = [event async for event in ada.stream("hello")]
            kinds = [event.type for event in events]
            assert "step_reset" in kinds
            assert isinstance(events[-1], TurnEnded)
            assert events[-1].turn.reply == "all of it"
            assert await users(ada) == ["hello"]

    @pytest.mark.parametrize("after_a_tool", [False, True])
    async def test_a_stream_that_dies_for_good_ends_its_turn_and_the_next_message_is_answered(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after_a_tool: bool
    ) -> None:
        monkeypatch.setattr(retrying, "LONGEST_WAIT", 0.001)
        ran: list[str] = []

        @tool
        def ring() -> str:
            """Rings."""
            ran.append("ring")
            return "rung"

        def reply(request: Request) -> Answer:
            if last_words(request) == "next":
                return echo(request)
            if after_a_tool and "ring" not in view(request).results:
                return call("ring", heartbeat=True)
            return cut(say("half of it"), after=2)

        async with opened(tmp_path, ScriptedModel(reply)) as runtime:
            ada = await runtime.agents.ensure("ada", tools=[ring])
            with pytest.raises(ModelError):
                _ = [event async for event in ada.stream("ring")]
            assert (await ada.send("next")).reply == "echo next"
            assert await users(ada) == ["ring", "next"]
            assert await stops(ada) == ["error", "end_turn"]
            assert ran == ["ring"] * after_a_tool
            # The step that had ended stays, and of the one that broke there is nothing.
            first = (await (await main_of(ada)).turns())[-1]
            assert [step.replies for step in first.steps] == [()] * after_a_tool
            assert (await ada.recall.search("half")).total == 0


async def heard(agent: AsyncAgent, error: type[Exception]) -> list[Event]:
    """The events of a stream that ends with that error."""
    events: list[Event] = []

    async def listen() -> None:
        async for event in agent.stream("hello"):
            events.append(event)

    with pytest.raises(error):
        await listen()
    return events


ERRORS: list[ModelError] = [
    RequestRejected("400: no such field"),
    AuthenticationFailed("401: no such key"),
    QuotaExceeded("the budget is spent"),
    BadReply("not to be put together"),
]


class TestErrors:
    """MC-07: what goes wrong reaches the caller, and nothing else is harmed."""

    async def test_a_stream_ends_with_the_end_of_the_turn_and_then_the_error(
        self, tmp_path: Path
    ) -> None:
        async with opened(tmp_path, ScriptedModel([ERRORS[0]])) as runtime:
            ada = await runtime.agents.ensure("ada")
            events = await heard(ada, RequestRejected)
            assert isinstance(events[0], TurnStarted)
            assert isinstance(events[-1], TurnEnded)
            assert events[-1].turn.stop_reason == "error"

    async def test_what_may_succeed_is_asked_again_so_often_and_no_more(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(retrying, "LONGEST_WAIT", 0.001)
        model = ScriptedModel(lambda request: ModelUnavailable("overloaded"))
        async with opened(tmp_path, model) as runtime:
            ada = await runtime.agents.ensure("ada")
            with pytest.raises(ModelUnavailable):
                await ada.send("hello")
            assert len(model.requests) == 4
            assert await stops(ada) == ["error"]

    @pytest.mark.parametrize("mistake", [RuntimeError("a mistake"), KeyError("x"), OSError("y")])
    async def test_a_mistake_in_a_model_reaches_the_caller_and_bricks_nothing(
        self, tmp_path: Path, mistake: Exception
    ) -> None:
        def reply(request: Request) -> Reply:
            if last_words(request) == "break":
                raise mistake
            return echo(request)

        model = ScriptedModel(reply)
        async with opened(tmp_path, model) as runtime:
            ada = await runtime.agents.ensure("ada")
            with pytest.raises(BadReply) as raised:
                await ada.send("break")
            assert raised.value.__cause__ is mistake
            asked = len(model.requests)
            assert (await ada.send("next")).reply == "echo next"
            assert (asked, len(model.requests)) == (1, 2)
            assert await stops(ada) == ["error", "end_turn"]
            [_, broken] = await (await main_of(ada)).turns()
            assert f"{type(mistake).__name__}: {mistake}" in str(broken.error)

    async def test_the_listener_of_a_mistake_hears_the_end_of_the_turn_first(
        self, tmp_path: Path
    ) -> None:
        def reply(request: Request) -> Reply:
            raise RuntimeError("a mistake")

        async with opened(tmp_path, ScriptedModel(reply)) as runtime:
            ada = await runtime.agents.ensure("ada")
            events = await heard(ada, BadReply)
            assert isinstance(events[-1], TurnEnded)
            assert events[-1].turn.stop_reason == "error"

    async def test_without_a_model_nothing_is_stored_and_three_ways_are_shown(
        self, tmp_path: Path
    ) -> None:
        async with AsyncRuntime(tmp_path) as runtime:
            ada = await runtime.agents.ensure("ada")
            with pytest.raises(NoModel) as raised:
                await ada.send("hello")
            for way in ("OPENAI_API_KEY", "base_url=", '"offline"'):
                assert way in str(raised.value)
            assert await ada.recall.count() == 0
            assert rows(tmp_path, "SELECT count(*) FROM turns") == [(0,)]


class TestClosing:
    """The runtime is closed while it is at work."""

    async def test_what_runs_is_ended_in_writing(self, tmp_path: Path, gate: Gate) -> None:
        async with opened(tmp_path, gate.model) as runtime:
            ada = await runtime.agents.ensure("ada")
            sending = asyncio.create_task(ada.send("hello"))
            await gate.asked.wait()
        assert (await sending).stop_reason == "cancelled"
        assert nothing_open(tmp_path)

    async def test_a_message_that_waits_is_answered_when_the_space_is_opened_again(
        self, tmp_path: Path, gate: Gate
    ) -> None:
        async with opened(tmp_path, gate.model) as runtime:
            ada = await runtime.agents.ensure("ada")
            first = asyncio.create_task(ada.send("first"))
            await gate.asked.wait()
            second = asyncio.create_task(ada.send("second"))
            await accepted(tmp_path, 2)
        assert (await first).stop_reason == "cancelled"
        with pytest.raises(Closed, match="opened again"):
            await second
        async with opened(tmp_path, ScriptedModel(echo)) as runtime:
            ada = await runtime.agents.get("ada")
            assert (await ada.send("third")).reply == "echo third"
            assert await users(ada) == ["first", "second", "third"]
            assert await stops(ada) == ["cancelled", "end_turn", "end_turn"]

    async def test_everything_says_closed_afterwards(self, tmp_path: Path) -> None:
        async with opened(tmp_path, ScriptedModel(echo)) as runtime:
            ada = await runtime.agents.ensure("ada", blocks=[Block.human("x")])
            block = await ada.blocks.get("human")
        for work in (ada.send("x"), ada.reset(), block.append("y"), ada.recall.count()):
            with pytest.raises(Closed):
                await work
        with pytest.raises(Closed):
            _ = runtime.agents
        with pytest.raises(Closed):
            await runtime.space("other")
        await runtime.close()


class TestAfterACrash:
    """A turn is found open whose process is gone."""

    async def _left_open(self, store: Path, *, running: bool) -> None:
        """A runtime that dies: its turns stay as they are, its lock is let go."""
        script = f"""
            import asyncio, os, sqlite3
            from pagedaemon import AsyncRuntime
            from pagedaemon.testing import ScriptedModel

            async def hang(request):
                if {running}:
                    os._exit(0)
                await asyncio.sleep(60)

            async def main():
                models = {{"hang": ScriptedModel(hang)}}
                async with AsyncRuntime({str(store)!r}, model="hang", models=models) as runtime:
                    ada = await runtime.agents.ensure("ada")
                    if {running}:
                        await ada.send("left open")
                    sends = [asyncio.create_task(ada.send(t)) for t in ("first", "waiting")]
                    path = runtime._folder / "spaces" / "default" / "space.db"
                    store = sqlite3.connect(path)
                    while store.execute("SELECT count(*) FROM turns").fetchone() != (2,):
                        await asyncio.sleep(0.01)
                    os._exit(0)
            asyncio.run(main())
        """
        done = await asyncio.to_thread(run, script)
        assert done.returncode == 0, done.stderr

    async def test_without_a_model_it_ends_interrupted_with_the_reason(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        await self._left_open(tmp_path, running=True)
        with caplog.at_level(logging.WARNING, logger="pagedaemon"):
            async with AsyncRuntime(tmp_path, recover=False) as runtime:
                ada = await runtime.agents.get("ada")
                assert await (await runtime.space("default")).recover() == 1
                [turn] = await (await main_of(ada)).turns()
                assert turn.stop_reason == "interrupted"
                assert "has no model" in (turn.error or "")
                assert await users(ada) == ["left open"]
        assert "has no model" in caplog.text
        async with opened(tmp_path, ScriptedModel(echo)) as runtime:
            ada = await runtime.agents.get("ada")
            assert (await ada.send("next")).reply == "echo next"
            assert await users(ada) == ["left open", "next"]

    async def test_without_a_model_a_message_that_waited_is_kept_in_the_conversation(
        self, tmp_path: Path
    ) -> None:
        await self._left_open(tmp_path, running=False)
        async with AsyncRuntime(tmp_path) as runtime:
            ada = await runtime.agents.get("ada")
            # It takes them up, and waits for the end of both.
            async with asyncio.timeout(5):
                assert await ada.reset() == 2
            assert await stops(ada) == ["interrupted", "interrupted"]
            said = (await ada.recall.search()).hits
            assert [hit.text for hit in said] == ["waiting", "first"]
            assert await ada.recall.count() == 2
            assert nothing_open(tmp_path)

    async def test_opening_without_a_model_leaves_it_for_who_has_one(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        await self._left_open(tmp_path, running=True)
        with caplog.at_level(logging.WARNING, logger="pagedaemon"):
            async with AsyncRuntime(tmp_path) as runtime:
                assert await stops(await runtime.agents.get("ada")) == []
        assert "has no model" in caplog.text
        async with opened(tmp_path, ScriptedModel(echo)) as runtime:
            ada = await runtime.agents.get("ada")
            await (await runtime.space("default")).recover()
            assert await stops(ada) == ["end_turn"]

    async def test_whoever_opens_and_closes_in_between_does_not_use_it_up(
        self, tmp_path: Path, gate: Gate
    ) -> None:
        await self._left_open(tmp_path, running=True)
        for _ in range(4):
            async with opened(tmp_path, gate.model):
                await gate.asked.wait()
            gate.asked.clear()
            assert rows(tmp_path, "SELECT status, attempts FROM turns") == [("running", 1)]
        async with opened(tmp_path, ScriptedModel(echo)) as runtime:
            ada = await runtime.agents.get("ada")
            assert (await ada.send("next")).reply == "echo next"
            assert await users(ada) == ["left open", "next"]
            assert await stops(ada) == ["end_turn", "end_turn"]

    async def test_a_turn_that_takes_its_process_down_each_time_is_given_up(
        self, tmp_path: Path
    ) -> None:
        script = f"""
            import asyncio, os
            from pagedaemon import AsyncRuntime
            from pagedaemon.testing import ScriptedModel

            async def main():
                models = {{"die": ScriptedModel(lambda request: os._exit(3))}}
                async with AsyncRuntime({str(tmp_path)!r}, model="die", models=models) as runtime:
                    ada = await runtime.agents.ensure("ada")
                    main = await ada.conversations.get()
                    if not await main.messages():
                        await ada.send("deadly")
                    await (await runtime.space("default")).recover()
            asyncio.run(main())
        """
        codes = [(await asyncio.to_thread(run, script)).returncode for _ in range(4)]
        assert codes == [3, 3, 3, 0]
        async with opened(tmp_path, ScriptedModel(echo)) as runtime:
            ada = await runtime.agents.get("ada")
            [turn] = await (await main_of(ada)).turns()
            assert turn.stop_reason == "interrupted"
            assert "3 times" in (turn.error or "")
            assert (await ada.send("next")).reply == "echo next"


class TestDeletion:
    """ST-04: what goes with an agent, and what does not."""

    async def _busy(self, agent: AsyncAgent) -> None:
        await agent.send("remember the harbour")
        other = await agent.conversations.ensure("other")
        await other.send("remember the lighthouse")
        await agent.archive.insert("the harbour is deep", tags=["sea"], source="me")

    async def test_nothing_of_its_own_stays_and_nothing_of_others_goes(
        self, tmp_path: Path
    ) -> None:
        def reply(request: Request) -> Reply:
            shown = view(request)
            if "archival_memory_insert" in shown.results:
                return say("done")
            made = [
                call("core_memory_append", label="team", content=shown.last_user, heartbeat=True),
                call("archival_memory_insert", content=f"note: {shown.last_user}", heartbeat=True),
            ]
            return Reply(calls=tuple(c for one in made for c in one.calls), finish="tool_calls")

        async with opened(tmp_path, ScriptedModel(reply)) as runtime:
            team = await runtime.blocks.create(label="team")
            bob = await runtime.agents.create("bob", blocks=[team, Block.human("bob's")])
            await self._busy(bob)
            kept = _everything(tmp_path)
            ada = await runtime.agents.create("ada", blocks=[team, Block.human("ada's own")])
            lent = await ada.blocks.get("human")
            private = await ada.blocks.attach(Block(label="diary", value="dear diary"))
            await bob.blocks.attach(lent, label="ada-human")
            await self._busy(ada)
            ids = _ids(tmp_path) - _ids_in(kept)
            await ada.delete()

            assert [block.label for block in await bob.blocks.list()] == [
                "team",
                "human",
                "ada-human",
            ]
            assert (await bob.blocks.get("ada-human")).value == "ada's own"
            assert "lighthouse" in (await bob.blocks.get("team")).value
            assert len(await team.history()) == 5
            with pytest.raises(NotFound):
                await private.refresh()
            left = _everything(tmp_path)
            mine = {
                (table, value)
                for table, found in left.items()
                for row in found
                for value in row
                if value in ids
            }
            # Shared blocks know for good who wrote them; the one that was lent is bob's now.
            assert {table for table, _ in mine} == {"block_versions", "blocks", "agent_blocks"}
            assert {v for t, v in mine if t in ("blocks", "agent_blocks")} == {lent.id}
            for table in left:
                if table not in ("block_versions", "blocks", "agent_blocks"):
                    assert left[table] == kept[table], table
            assert (await bob.recall.search("harbour")).total > 0
            assert (await bob.archive.search("harbour")).total == 2
            with closing(sqlite3.connect(tmp_path / "spaces/default/space.db")) as connection:
                assert connection.execute("PRAGMA foreign_key_check").fetchall() == []

    async def test_a_deleted_agent_is_not_found_by_any_handle(self, tmp_path: Path) -> None:
        async with opened(tmp_path, ScriptedModel(echo)) as runtime:
            ada = await runtime.agents.create("ada")
            await ada.send("hello")
            other = await ada.conversations.ensure("other")
            await ada.delete()
            for work in (
                ada.send("x"),
                ada.usage(),
                ada.update(heartbeats="strict"),
                ada.delete(),
                ada.reset(),
                ada.context(),
                ada.recall.count(),
                ada.archive.count(),
                ada.archive.insert("x"),
                ada.blocks.attach(Block(label="x")),
                ada.conversations.ensure("x"),
                other.send("x"),
                other.delete(),
                runtime.agents.get("ada"),
                runtime.agents.get(ada.id),
            ):
                with pytest.raises(NotFound):
                    await work
            assert rows(tmp_path, "SELECT count(*) FROM blocks") == [(0,)]
            again = await runtime.agents.create("ada")
            assert again.id != ada.id
            assert await again.recall.count() == 0

    async def test_deleting_stops_its_turns_first(self, tmp_path: Path, gate: Gate) -> None:
        async with opened(tmp_path, gate.model) as runtime:
            ada = await runtime.agents.create("ada")
            other = await ada.conversations.ensure("other")
            sends = [
                asyncio.create_task(ada.send("one")),
                asyncio.create_task(other.send("two")),
                asyncio.create_task(other.send("three")),
            ]
            await accepted(tmp_path, 3)
            async with asyncio.timeout(5):
                await ada.delete()
            turns: list[Turn] = await asyncio.gather(*sends)
            assert [turn.stop_reason for turn in turns] == ["cancelled"] * 3
            assert rows(tmp_path, "SELECT count(*) FROM turns") == [(0,)]

    async def test_deleting_waits_for_a_turn_of_another_runtime(
        self, tmp_path: Path, gate: Gate
    ) -> None:
        async with (
            opened(tmp_path, gate.model) as one,
            opened(tmp_path, ScriptedModel(echo)) as two,
        ):
            ada = await one.agents.create("ada")
            sending = asyncio.create_task(ada.send("hello"))
            await gate.asked.wait()
            deleting = asyncio.create_task((await two.agents.get("ada")).delete())
            await asyncio.sleep(0.2)
            assert not deleting.done()
            gate.free.set()
            assert (await sending).reply == "echo hello"
            await deleting
            assert await one.agents.list() == []

    async def test_reset_comes_to_its_turn_however_many_messages_follow(
        self, tmp_path: Path
    ) -> None:
        async with opened(tmp_path, ScriptedModel(echo)) as runtime:
            ada = await runtime.agents.create("ada")
            over = asyncio.Event()

            async def chatter(number: int) -> None:
                while not over.is_set():
                    await ada.send(f"from {number}")

            chatting = [asyncio.create_task(chatter(number)) for number in range(4)]
            await asyncio.sleep(0.2)
            try:
                async with asyncio.timeout(5):
                    assert await ada.reset() > 0
            finally:
                over.set()
                await asyncio.gather(*chatting)


def _everything(store: Path) -> dict[str, list[tuple[object, ...]]]:
    """All rows of all tables, the full-text ones too."""
    names = [
        str(name) for (name,) in rows(store, "SELECT name FROM sqlite_master WHERE type='table'")
    ]
    assert set(metadata.tables) <= set(names)
    plain = [n for n in names if not n.endswith(("_data", "_idx", "_docsize", "_config"))]
    return {
        name: sorted(rows(store, f'SELECT * FROM "{name}"'), key=repr)
        for name in plain
        if name not in ("agents", "token_factors")
    } | {"agent ids": sorted(rows(store, "SELECT id FROM agents"), key=repr)}


def _ids_in(tables: dict[str, list[tuple[object, ...]]]) -> set[object]:
    return {
        value
        for found in tables.values()
        for row in found
        for value in row
        if isinstance(value, str) and value.split("-")[0] in KINDS
    }


def _ids(store: Path) -> set[object]:
    return _ids_in(_everything(store))


KINDS = {
    "agent",
    "archive",
    "block",
    "call",
    "conversation",
    "message",
    "passage",
    "step",
    "turn",
}


class TestImport:
    """DP-02: what an import brings, and what it leaves where it is."""

    def test_a_chat_loads_no_provider_vector_store_or_postgres(self, tmp_path: Path) -> None:
        script = f"""
            import asyncio, json, sys
            from pagedaemon import AsyncRuntime
            at_import = sorted(sys.modules)
            from pagedaemon.testing import ScriptedModel, block_network, say

            async def main():
                models = {{"s": ScriptedModel(lambda request: say("hello"))}}
                async with AsyncRuntime({str(tmp_path)!r}, model="s", models=models) as r:
                    turn = await (await r.agents.ensure("ada")).send("hi")
                    assert turn.reply == "hello"

            block_network()
            asyncio.run(main())
            print(json.dumps([at_import, sorted(sys.modules)]))
        """
        done = run(script)
        assert done.returncode == 0, done.stderr
        at_import, at_end = json.loads(done.stdout)
        heavy = {"openai", "litellm", "chromadb", "onnxruntime", "psycopg", "alembic", "tiktoken"}
        assert heavy.isdisjoint(at_import)
        assert heavy.isdisjoint(at_end)
