"""Many at once: senders, agents, threads, processes (user cases CO-01 to CO-03, ST-02, ST-03,
ST-06)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.cases.children import PATIENCE, Children, appeared

from pagedaemon import AsyncRuntime, Runtime, ToolContext, tool
from pagedaemon.errors import Closed
from pagedaemon.handles.conversation import AsyncConversation
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import FakeClock, ScriptedModel, both, call, say, view
from pagedaemon.testing.views import message_text


def echo(request: Request) -> Reply:
    """Says what the user said last."""
    return say(f"echo {view(request).last_user}")


def echoing(store: Path) -> AsyncRuntime:
    """A runtime whose model echoes."""
    return AsyncRuntime(store, model="echo", models={"echo": ScriptedModel(echo)})


def appending(marker: str, count: int) -> Callable[[Request], Reply]:
    """A model that adds lines to the block `team`, so many a step, each with a name of its own."""
    made = iter(range(10_000))

    def reply(request: Request) -> Reply:
        lines = [
            call("core_memory_append", label="team", content=f"{marker}-{next(made)}")
            for _ in range(count)
        ]
        return both(*lines, say("done"))

    return reply


async def said(conversation: AsyncConversation) -> list[str]:
    """The window, in short: `user hello`, `reply`, `result`."""
    return [
        f"user {message.text}" if message.kind == "message" else message.kind
        for message in await conversation.messages()
    ]


class TestOneAgent:
    """CO-01: several messages at once to one agent."""

    async def test_each_of_twenty_senders_hears_its_own_answer(self, tmp_path: Path) -> None:
        async with echoing(tmp_path) as runtime:
            ada = await runtime.agents.ensure("ada")
            turns = await asyncio.gather(*(ada.send(f"number {n}") for n in range(20)))
            assert [turn.reply for turn in turns] == [f"echo number {n}" for n in range(20)]
            main = await ada.conversations.get()
            expected = [x for n in range(20) for x in (f"user number {n}", "reply", "result")]
            assert await said(main) == expected
            numbers = [message.seq for message in await main.messages()]
            assert numbers == list(range(1, 61))

    def test_each_of_twenty_threads_hears_its_own_answer(self, tmp_path: Path) -> None:
        models = {"echo": ScriptedModel(echo)}
        with Runtime(tmp_path, model="echo", models=models) as runtime:
            ada = runtime.agents.ensure("ada")
            with ThreadPoolExecutor(20) as threads:
                replies = list(threads.map(lambda n: ada.send(f"number {n}").reply, range(20)))
            assert replies == [f"echo number {n}" for n in range(20)]
            kinds = [message.kind for message in ada.conversations.get().messages()]
            assert kinds == ["message", "reply", "result"] * 20

    async def test_conversations_of_one_agent_do_not_wait_for_each_other(
        self, tmp_path: Path
    ) -> None:
        both_asked = asyncio.Barrier(2)

        async def meet(request: Request) -> Reply:
            await both_asked.wait()
            return echo(request)

        models = {"meet": ScriptedModel(meet)}
        async with AsyncRuntime(tmp_path, model="meet", models=models) as runtime:
            ada = await runtime.agents.ensure("ada")
            other = await ada.conversations.ensure("other")
            async with asyncio.timeout(5):
                one, two = await asyncio.gather(ada.send("one"), other.send("two"))
            assert (one.reply, two.reply) == ("echo one", "echo two")

    async def test_two_processes_share_one_conversation(
        self, tmp_path: Path, children: Children
    ) -> None:
        script = """
            async def main():
                models = {"echo": ScriptedModel(lambda r: say(f"echo {view(r).last_user}"))}
                async with AsyncRuntime(folder / "store", model="echo", models=models) as runtime:
                    ada = await runtime.agents.ensure("ada")
                    await started()
                    for number in range(8):
                        turn = await ada.send(f"{name} {number}")
                        assert turn.reply == f"echo {name} {number}", turn
            asyncio.run(main())
        """
        async with echoing(tmp_path / "store") as runtime:
            ada = await runtime.agents.ensure("ada")
            children.start("one", script)
            children.start("two", script)
            await children.ready("one", "two")
            await children.ended()
            main = await ada.conversations.get()
            messages = await main.messages()
            assert [m.kind for m in messages] == ["message", "reply", "result"] * 16
            for start in range(0, 48, 3):
                assert messages[start + 1].data["said"] == [f"echo {messages[start].text}"]
            for name in ("one", "two"):
                mine = [m.text for m in messages if m.text.startswith(name)]
                assert mine == [f"{name} {number}" for number in range(8)]
            assert len(await main.turns(limit=100)) == 16


class TestManyAgents:
    """CO-03: one slow model holds nobody else up."""

    async def test_ten_agents_wait_for_their_models_side_by_side(self, tmp_path: Path) -> None:
        async def slow(request: Request) -> Reply:
            await asyncio.sleep(0.4)
            return echo(request)

        lags: list[float] = []

        async def tick() -> None:
            while True:
                before = time.perf_counter()
                await asyncio.sleep(0.01)
                lags.append(time.perf_counter() - before - 0.01)

        models = {"slow": ScriptedModel(slow)}
        async with AsyncRuntime(tmp_path, model="slow", models=models) as runtime:
            agents = [await runtime.agents.ensure(f"agent {n}") for n in range(10)]
            ticking = asyncio.create_task(tick())
            before = time.perf_counter()
            turns = await asyncio.gather(
                *(agent.send(f"{n}.{k}") for n, agent in enumerate(agents) for k in range(2))
            )
            took = time.perf_counter() - before
            ticking.cancel()
        # One after another they would take 8 seconds; two in a row of each agent take 0.8.
        assert 0.8 <= took < 2.5
        assert sorted(lags)[-2] < 0.1
        assert [turn.reply for turn in turns] == [
            f"echo {n}.{k}" for n in range(10) for k in range(2)
        ]


class TestSharedBlock:
    """CO-02: no edit of a shared block is lost."""

    def test_two_agents_in_threads_lose_no_line(self, tmp_path: Path) -> None:
        models = {name: ScriptedModel(appending(name, 20)) for name in ("ada", "bob")}
        with Runtime(tmp_path, models=models) as runtime:
            team = runtime.blocks.ensure(label="team", limit=100_000)
            agents = [runtime.agents.ensure(n, model=n, blocks=[team]) for n in models]

            def work(number: int) -> None:
                for _ in range(10):
                    turn = agents[number].send("go on")
                    assert all(c.status == "ok" for step in turn.steps for c in step.calls)

            with ThreadPoolExecutor(2) as threads:
                list(threads.map(work, range(2)))
            expected = [f"{name}-{n}" for name in models for n in range(200)]
            assert sorted(team.refresh().value.split()) == sorted(expected)
            assert len(team.history()) == 401

    async def test_two_agents_in_two_processes_lose_no_line(
        self, tmp_path: Path, children: Children
    ) -> None:
        script = """
            made = iter(range(10_000))

            def reply(request):
                lines = [
                    call("core_memory_append", label="team", content=f"{name}-{next(made)}")
                    for _ in range(20)
                ]
                return both(*lines, say("done"))

            async def main():
                models = {"append": ScriptedModel(reply)}
                async with AsyncRuntime(folder / "store", model="append", models=models) as runtime:
                    team = await runtime.blocks.get("team")
                    agent = await runtime.agents.ensure(name, blocks=[team])
                    await started()
                    for _ in range(10):
                        turn = await agent.send("go on")
                        assert all(c.status == "ok" for s in turn.steps for c in s.calls), turn
            asyncio.run(main())
        """
        async with echoing(tmp_path / "store") as runtime:
            team = await runtime.blocks.ensure(label="team", limit=100_000)
            children.start("ada", script)
            children.start("bob", script)
            await children.ready("ada", "bob")
            await children.ended()
            expected = [f"{name}-{n}" for name in ("ada", "bob") for n in range(200)]
            assert Counter((await team.refresh()).value.split()) == Counter(expected)
            versions = [version.version for version in await team.history()]
            assert versions == list(range(1, 402))


TURNS = 167
"""Of each writer: a turn stores three messages, so that it writes 501, and edits its block as
often."""


class TestManyWriters:
    """ST-02: threads and processes on one file."""

    async def test_threads_and_processes_write_side_by_side(
        self, tmp_path: Path, children: Children
    ) -> None:
        script = """
            async def main():
                models = {"echo": ScriptedModel(lambda r: say(f"echo {view(r).last_user}"))}
                async with AsyncRuntime(folder / "store", model="echo", models=models) as runtime:
                    agent = await runtime.agents.ensure(name)
                    block = await agent.blocks.get("notes")
                    await started()
                    for number in range(int((folder / "turns").read_text())):
                        await agent.send(f"{number}")
                        await block.append(f"line {number}")
                        if number % 20 == 19:
                            await agent.reset()
            asyncio.run(main())
        """
        (tmp_path / "turns").write_text(str(TURNS))
        names = [f"thread {n}" for n in range(8)] + ["one", "two"]

        def work(runtime: Runtime, name: str, go: threading.Event) -> None:
            agent = runtime.agents.get(name)
            block = agent.blocks["notes"]
            go.wait(PATIENCE)
            for number in range(TURNS):
                agent.send(f"{number}")
                block.append(f"line {number}")
                if number % 20 == 19:
                    agent.reset()  # a long window makes a turn slow

        def all_of_it(go: threading.Event) -> None:
            models = {"echo": ScriptedModel(echo)}
            with (
                Runtime(tmp_path / "store", model="echo", models=models) as runtime,
                ThreadPoolExecutor(8) as threads,
            ):
                list(threads.map(lambda name: work(runtime, name, go), names[:8]))

        async with echoing(tmp_path / "store") as runtime:
            for name in names:
                agent = await runtime.agents.create(name)
                block = await runtime.blocks.create(label="notes", name=f"notes of {name}")
                await agent.blocks.attach(block)
            children.start("one", script)
            children.start("two", script)
            go = threading.Event()
            threads = asyncio.create_task(asyncio.to_thread(all_of_it, go))
            await children.ready("one", "two")
            go.set()
            await threads
            await children.ended()
            for name in names:
                agent = await runtime.agents.get(name)
                assert await agent.recall.count() == 3 * TURNS > 500
                found = await agent.recall.search(roles=["user"], page_size=1_000)
                users = [hit.text for hit in found.hits[::-1]]
                assert users == [str(number) for number in range(TURNS)], name
                block = await agent.blocks.get("notes")
                expected = [f"line {number}" for number in range(TURNS)]
                assert block.value.split("\n") == expected, name
                assert block.version == TURNS + 1


def open_files() -> int:
    """How many this process has open."""
    return len(list(Path("/dev/fd").iterdir()))


class TestWhoseItIs:
    """ST-03: used from elsewhere than where it was opened."""

    async def test_made_in_one_thread_it_is_used_from_all_and_leaves_no_file_open(
        self, tmp_path: Path
    ) -> None:
        async def talks(store: Path) -> list[str | None]:
            with Runtime(store, model="echo", models={"echo": ScriptedModel(echo)}) as runtime:
                ada = runtime.agents.ensure("ada")
                with ThreadPoolExecutor(4) as threads:
                    pooled = list(threads.map(lambda n: ada.send(f"{n}").reply, range(4)))
                aside = await asyncio.to_thread(lambda: ada.send("aside").reply)
                return [*sorted(map(str, pooled)), aside, ada.send("here").reply]

        # What is opened once and for all is open after the first.
        await talks(tmp_path / "first")
        before = open_files()
        heard = await talks(tmp_path / "second")
        assert heard == [*(f"echo {n}" for n in range(4)), "echo aside", "echo here"]
        assert open_files() == before

    async def test_another_event_loop_is_told_to_open_its_own(self, tmp_path: Path) -> None:
        async with echoing(tmp_path) as runtime:
            ada = await runtime.agents.ensure("ada")
            main = await ada.conversations.get()

            def elsewhere(work: Callable[[], Awaitable[object]]) -> None:
                async def main() -> None:
                    await work()

                asyncio.run(main())

            for work in (lambda: ada.send("hello"), ada.reset, main.cancel, ada.delete):
                with pytest.raises(Closed, match="another event loop"):
                    await asyncio.to_thread(elsewhere, work)
            assert await main.messages() == []
            assert (await ada.send("still here?")).reply == "echo still here?"

    def test_a_runtime_outlives_no_event_loop(self, tmp_path: Path) -> None:
        runtime = echoing(tmp_path)

        async def first() -> None:
            await runtime.open()
            await (await runtime.agents.ensure("ada")).send("hello")

        async def second() -> None:
            with pytest.raises(Closed):
                await (await runtime.agents.get("ada")).send("again")
            await runtime.close()

        asyncio.run(first())
        asyncio.run(second())

    async def test_a_forked_child_is_told_to_open_its_own(
        self, tmp_path: Path, children: Children
    ) -> None:
        children.start(
            "parent",
            """
            import json, os
            from pagedaemon.errors import Closed

            def in_child(ada):
                told = []
                for work in (lambda: ada.send("x"), ada.blocks.list, ada.reset, ada.recall.count):
                    try:
                        asyncio.new_event_loop().run_until_complete(work())
                    except Closed as error:
                        told.append(str(error))
                return told

            async def main():
                models = {"echo": ScriptedModel(lambda r: say(f"echo {view(r).last_user}"))}
                async with AsyncRuntime(folder / "store", model="echo", models=models) as runtime:
                    ada = await runtime.agents.ensure("ada")
                    await ada.send("before")
                    reading, writing = os.pipe()
                    child = os.fork()
                    if child == 0:
                        asyncio.set_event_loop(None)
                        asyncio.events._set_running_loop(None)
                        told = in_child(ada)
                        os.write(writing, json.dumps(told).encode())
                        os._exit(0)
                    os.waitpid(child, 0)
                    print(os.read(reading, 10_000).decode())
                    assert (await ada.send("after")).reply == "echo after"
            asyncio.run(main())
            """,
        )
        [printed] = await children.ended()
        assert len(json.loads(printed)) == 4

    async def test_a_child_that_lives_on_holds_no_lease_of_its_dead_parent(
        self, tmp_path: Path, children: Children
    ) -> None:
        parent = children.start(
            "parent",
            """
            import os, time

            async def hang(request):
                child = os.fork()
                if child == 0:
                    time.sleep(30)
                    os._exit(0)
                (folder / "pid").write_text(str(child))
                (folder / "forked").touch()
                await asyncio.sleep(60)

            async def main():
                models = {"hang": ScriptedModel(hang)}
                async with AsyncRuntime(folder / "store", model="hang", models=models) as runtime:
                    await (await runtime.agents.ensure("ada")).send("left open")
            asyncio.run(main())
            """,
        )
        await asyncio.to_thread(appeared, tmp_path / "forked")
        parent.kill()
        await asyncio.to_thread(parent.wait)
        assert parent.stdout is not None
        assert parent.stderr is not None
        parent.stdout.close()
        parent.stderr.close()
        async with echoing(tmp_path / "store") as runtime:
            ada = await runtime.agents.get("ada")
            async with asyncio.timeout(5):
                assert (await ada.send("next")).reply == "echo next"
            assert await said(await ada.conversations.get()) == [
                "user left open",
                "reply",
                "result",
                "user next",
                "reply",
                "result",
            ]
        # It lived through all of that.
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


class TestDeadProcess:
    """A conversation whose process was killed."""

    SCRIPT = """
        import sqlite3

        async def hang(request):
            await asyncio.sleep(60)

        async def tell():
            store = sqlite3.connect(folder / "store" / "spaces" / "default" / "space.db")
            while store.execute("SELECT count(*) FROM turns").fetchone() != (2,):
                await asyncio.sleep(0.01)
            (folder / "accepted").touch()

        async def main():
            models = {"hang": ScriptedModel(hang)}
            async with AsyncRuntime(folder / "store", model="hang", models=models) as runtime:
                ada = await runtime.agents.ensure("ada")
                await asyncio.gather(ada.send("running"), ada.send("waiting"), tell())
        asyncio.run(main())
    """

    async def _killed(self, folder: Path, children: Children) -> None:
        child = children.start("victim", self.SCRIPT)
        await asyncio.to_thread(appeared, folder / "accepted")
        child.kill()
        await asyncio.to_thread(child.communicate)

    async def test_what_it_had_accepted_is_answered_before_the_next_message(
        self, tmp_path: Path, children: Children
    ) -> None:
        async with echoing(tmp_path / "store") as runtime:
            ada = await runtime.agents.ensure("ada")
            await self._killed(tmp_path, children)
            # Nothing was opened anew: the message itself finds the dead process's turns.
            async with asyncio.timeout(5):
                assert (await ada.send("next")).reply == "echo next"
            main = await ada.conversations.get()
            expected = [x for t in ("running", "waiting", "next") for x in (f"user {t}", "reply")]
            assert [line for line in await said(main) if line != "result"] == expected
            stops = [turn.stop_reason for turn in await main.turns()]
            assert stops == ["end_turn"] * 3

    async def test_reset_and_delete_do_not_wait_for_it(
        self, tmp_path: Path, children: Children
    ) -> None:
        async with echoing(tmp_path / "store") as runtime:
            ada = await runtime.agents.ensure("ada")
            await self._killed(tmp_path, children)
            async with asyncio.timeout(5):
                assert await ada.reset() == 6
                await ada.delete()
            assert await runtime.agents.list() == []


class TestFrozenClock:
    """ST-06: order is insertion order, whatever the clock says."""

    async def test_messages_keep_their_order_within_one_instant(self, tmp_path: Path) -> None:
        @tool(effect="read")
        def look(what: str) -> str:
            """Looks at something."""
            return f"seen {what}"

        def reply(request: Request) -> Reply:
            word = (view(request).last_user or "").split()[-1]
            if f"seen {word}" in str(request.messages[-2]["content"]):
                return say(f"it is {word}")
            return call("look", what=word, heartbeat=True)

        model = ScriptedModel(reply)

        def at(clock: FakeClock) -> AsyncRuntime:
            models = {"look": model}
            return AsyncRuntime(tmp_path, clock=clock, model="look", models=models, tools=[look])

        async with at(FakeClock()) as runtime:
            ada = await runtime.agents.ensure("ada", tools=[look])
            for word in ("one", "two", "three"):
                assert (await ada.send(f"look at {word}")).reply == f"it is {word}"
            before = await (await ada.conversations.get()).messages()
        past = FakeClock()
        past.jump(-3600)
        async with at(past) as runtime:
            ada = await runtime.agents.get("ada")
            main = await ada.conversations.get()
            assert await main.messages() == before
            assert [m.seq for m in before] == list(range(1, len(before) + 1))
            # An hour earlier by the clock, and last all the same.
            await ada.send("look at four")
            sent = [message_text(m).split("\n")[0] for m in model.requests[-1].messages]
            users = [text for text in sent if text.startswith("look at")]
            assert users == [f"look at {word}" for word in ("one", "two", "three", "four")]
            found = await ada.recall.search(roles=["user"], end=FakeClock().now(), page_size=50)
            assert [hit.text for hit in found.hits] == ["look at four"]
            turns = [turn.steps[-1].replies for turn in await main.turns()]
            assert turns == [(f"it is {word}",) for word in ("four", "three", "two", "one")]


@pytest.mark.parametrize("asked", ["send", "reset"])
async def test_a_tool_that_waits_for_its_own_turn_is_told_so_at_once(
    tmp_path: Path, asked: str
) -> None:
    @tool
    async def ask_myself(context: ToolContext) -> str:
        """Asks its own conversation."""
        if asked == "send":
            await context.agent.send("Are you there?")
        else:
            await context.conversation.reset()
        return "done"

    model = ScriptedModel([call("ask_myself", heartbeat=True), say("No.")])
    async with AsyncRuntime(tmp_path, model="m", models={"m": model}) as runtime:
        agent = await runtime.agents.ensure("ada", tools=[ask_myself])
        turn = await agent.send("Ask yourself.")
    assert turn.steps[0].calls[0].status == "failed"
    assert "part of" in turn.steps[0].calls[0].result
    assert turn.reply == "No."
