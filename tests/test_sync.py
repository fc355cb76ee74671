"""The blocking door: the same surface as the async one, from any thread, closed at every exit."""

from __future__ import annotations

import _thread
import asyncio
import gc
import inspect
import os
import re
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pagedaemon import AsyncRuntime, Block, NotFound, Runtime, ToolContext, tool
from pagedaemon.errors import Closed, EditRefused, InvalidInput, NoModel, StorageUnavailable
from pagedaemon.events import ReplyDelta, TurnEnded, TurnStarted
from pagedaemon.handles.agents import AsyncAgent, AsyncAgents
from pagedaemon.handles.approvals import AsyncApproval, AsyncApprovals
from pagedaemon.handles.archive import AsyncArchive
from pagedaemon.handles.blocks import AsyncBlock
from pagedaemon.handles.calls import AsyncCall
from pagedaemon.handles.conversation import AsyncConversation, AsyncConversations
from pagedaemon.handles.holding import AsyncAgentBlocks, AsyncSpaceBlocks
from pagedaemon.handles.outcomes import AsyncOutcome, AsyncOutcomes
from pagedaemon.handles.recall import AsyncRecall
from pagedaemon.handles.timers import AsyncSchedule, AsyncTimed
from pagedaemon.handles.turns import AsyncTurnHandle
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.runtime import AsyncSpace
from pagedaemon.sync import approvals, blocks, calls, handles, outcomes, talking, timers
from pagedaemon.sync.runtime import Space
from pagedaemon.testing import ScriptedModel, call, say, view

SOURCE = Path(__file__).parents[1] / "runtime"
THREAD = "pagedaemon-loop"

PAIRS: dict[type, type] = {
    AsyncRuntime: Runtime,
    AsyncSpace: Space,
    AsyncAgents: handles.Agents,
    AsyncAgent: handles.Agent,
    AsyncConversations: handles.Conversations,
    AsyncConversation: handles.Conversation,
    AsyncTurnHandle: talking.TurnHandle,
    AsyncCall: calls.Call,
    AsyncApprovals: approvals.Approvals,
    AsyncApproval: approvals.Approval,
    AsyncOutcomes: outcomes.Outcomes,
    AsyncOutcome: outcomes.Outcome,
    AsyncSpaceBlocks: blocks.SpaceBlocks,
    AsyncAgentBlocks: blocks.AgentBlocks,
    AsyncBlock: blocks.StoredBlock,
    AsyncRecall: handles.Recall,
    AsyncArchive: handles.Archive,
    AsyncTimed: timers.Timed,
    AsyncSchedule: timers.Schedule,
}
ONLY_ASYNC: dict[type, set[str]] = {AsyncRuntime: {"open"}}
"""The blocking runtime is open from the start."""

both_doors = pytest.mark.parametrize(
    ("of", "blocking"), PAIRS.items(), ids=[pair.__name__ for pair in PAIRS.values()]
)


def public(thing: Any) -> set[str]:
    """Names without an underscore, its own and those it inherits."""
    return {name for name in dir(thing) if not name.startswith("_")}


def in_blocking_words(text: str) -> str:
    """An annotation of the async door as the blocking one must spell it."""
    text = text.replace("AsyncGenerator[Event, None]", "Generator[Event, None, None]")
    return text.replace("AsyncBlock", "StoredBlock").replace("Async", "")


def signature(member: Any, words: Callable[[str], str]) -> str:
    """Parameters, defaults and annotations of a method or property, as text."""
    function: Any = member.fget if isinstance(member, property) else member
    return re.sub(r"builtins\.(?=list)", "", words(str(inspect.signature(function))))


@pytest.fixture
def model() -> ScriptedModel:
    """Echoes the last message of the user."""
    return ScriptedModel(lambda request: say(f"echo {view(request).last_user}"))


@pytest.fixture
def runtime(tmp_path: Path, model: ScriptedModel) -> Iterator[Runtime]:
    """An open blocking runtime."""
    with Runtime(tmp_path / "memory", model="script", models={"script": model}) as runtime:
        yield runtime


class Gate:
    """A model that answers only once it is let through."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.model = ScriptedModel(self._answer)
        self._opened: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def open(self) -> None:
        """Lets through what it was asked, and all that comes."""
        assert self.asked.wait(10), "the model was not asked"
        assert self._opened is not None
        loop, opened = self._opened
        loop.call_soon_threadsafe(opened.set)

    async def _answer(self, request: Request) -> Reply:
        if self._opened is None:
            self._opened = asyncio.get_running_loop(), asyncio.Event()
        self.asked.set()
        await self._opened[1].wait()
        return say("at last")


def loop_threads() -> list[threading.Thread]:
    """Threads of blocking runtimes that live."""
    return [thread for thread in threading.enumerate() if thread.name == THREAD]


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class TestSurface:
    """One surface, two doors."""

    @both_doors
    def test_both_doors_have_the_same_names(self, of: type, blocking: type) -> None:
        assert public(blocking) == public(of) - ONLY_ASYNC.get(of, set())

    @both_doors
    def test_signatures_differ_in_nothing_but_the_door(self, of: type, blocking: type) -> None:
        for name in public(blocking):
            ours = signature(getattr(blocking, name), str)
            assert ours == signature(getattr(of, name), in_blocking_words), name

    @both_doors
    def test_nothing_of_the_blocking_door_is_left_to_await(self, of: type, blocking: type) -> None:
        for name in public(blocking):
            member = getattr(blocking, name)
            assert not inspect.iscoroutinefunction(member), name
            assert not inspect.isasyncgenfunction(member), name

    @both_doors
    def test_every_name_says_what_it_does(self, of: type, blocking: type) -> None:
        assert [name for name in public(blocking) if not getattr(blocking, name).__doc__] == []

    def test_the_constructors_take_the_same(self) -> None:
        assert signature(Runtime.__init__, str) == signature(AsyncRuntime.__init__, str)

    def test_handles_carry_the_same_fields(self, runtime: Runtime) -> None:
        agent = runtime.agents.ensure("ada")
        assert public(agent) == public(agent._inner)
        space = runtime.space("default")
        assert public(space) == public(space._inner)

    def test_a_handle_shows_itself_as_the_async_one_does(self, runtime: Runtime) -> None:
        agent = runtime.agents.ensure("ada")
        assert repr(agent) == f"<agent 'ada' {agent.id}>"


class TestEverydayUse:
    """What a program does with it."""

    def test_an_agent_answers(self, runtime: Runtime) -> None:
        turn = runtime.agents.ensure("ada").send("hello")
        assert turn.reply == "echo hello"
        assert turn.stop_reason == "end_turn"

    def test_a_block_shows_what_another_agent_wrote(self, tmp_path: Path) -> None:
        model = ScriptedModel(
            [
                call(
                    "core_memory_append",
                    label="team",
                    content="On Thursdays.",
                    heartbeat=False,
                )
            ]
        )
        with Runtime(tmp_path, model="script", models={"script": model}) as runtime:
            team = runtime.blocks.ensure(label="team", value="We ship.")
            ada = runtime.agents.ensure("ada", blocks=[team], heartbeats="strict")
            bob = runtime.agents.ensure("bob", blocks=[team])
            held = bob.blocks["team"]
            ada.send("from now on")
            assert held.value == team.value == "We ship.\nOn Thursdays."

    def test_agents_read_a_block_through_mapping_access(self, runtime: Runtime) -> None:
        agent = runtime.agents.ensure("ada", blocks=[Block.human("Lin"), Block.persona("Ada")])
        assert list(agent.blocks) == ["human", "persona"]
        assert len(agent.blocks) == 2
        assert "human" in agent.blocks
        assert "team" not in agent.blocks
        assert agent.blocks["human"].value == "Lin"
        with pytest.raises(NotFound):
            agent.blocks["team"]

    def test_blocks_that_stand_alone_are_found_by_name(self, runtime: Runtime) -> None:
        runtime.blocks.create(label="team", value="x", name="sales")
        assert list(runtime.blocks) == ["sales"]
        assert len(runtime.blocks) == 1
        assert "sales" in runtime.blocks
        assert runtime.blocks["sales"].label == "team"

    def test_agents_and_conversations_are_found_by_name(self, runtime: Runtime) -> None:
        for name in ("eve", "Am\u00e9lie"):
            runtime.agents.create(name)
        eve = runtime.agents["eve"]
        eve.conversations.ensure("side")
        assert list(runtime.agents) == ["Am\u00e9lie", "eve"]
        assert list(eve.conversations) == ["main", "side"]
        for things, name in ((runtime.agents, "eve"), (eve.conversations, "side")):
            assert len(things) == 2
            assert things[name].name == name
            assert name in things
            assert "nobody" not in things
            assert "two\nlines" not in things
            assert 5 not in things
            with pytest.raises(NotFound, match="nobody"):
                things["nobody"]
        assert runtime.agents["Ame\u0301lie"].name == "Am\u00e9lie"
        assert runtime.agents[eve.id].name == "eve"
        assert eve.id in runtime.agents

    def test_a_place_without_anything_in_it_is_not_false(self, runtime: Runtime) -> None:
        assert len(runtime.agents) == 0
        assert runtime.agents
        assert runtime.blocks

    @pytest.mark.parametrize("wrong", [Block.human("Lin"), None, "human", [5]])
    def test_what_is_no_list_of_blocks_is_said(self, runtime: Runtime, wrong: Any) -> None:
        for make in (runtime.agents.create, runtime.agents.ensure):
            with pytest.raises(InvalidInput, match="block"):
                make("ada", blocks=wrong)
        assert list(runtime.agents) == []

    def test_an_agent_goes_back_to_the_runtimes_model(self, runtime: Runtime) -> None:
        ada = runtime.agents.create("ada", model="offline")
        assert ada.update(name="eve").model is not None
        assert ada.update(model=None).model is None
        assert ada.send("hello").reply == "echo hello"

    def test_rewriting_what_was_read_before_another_change_is_refused(
        self, runtime: Runtime
    ) -> None:
        mine = runtime.blocks.ensure(label="team", value="one")
        read = mine.value
        runtime.blocks["team"].append("two")
        assert mine.version == 1  # telling the version does not read the new value in passing
        with pytest.raises(EditRefused):
            mine.rewrite(read + "!")
        assert mine.rewrite(mine.value + "!").value == "one\ntwo!"

    def test_every_edit_of_a_block_has_its_version(self, runtime: Runtime) -> None:
        block = runtime.blocks.create(Block(label="team", value="a"))
        block.append("b").insert("c", 0).replace("b", "d").restore(1).update(limit=10)
        assert [version.value for version in block.history()] == [
            "a",
            "a\nb",
            "c\na\nb",
            "c\na\nd",
            "a",
        ]
        assert "-c" in block.diff(4)
        assert block.limit == 10
        block.delete()
        with pytest.raises(NotFound):
            block.refresh()

    def test_a_block_is_attached_to_an_agent_and_taken_off(self, runtime: Runtime) -> None:
        team = runtime.blocks.create(label="team", value="x")
        ada = runtime.agents.create("ada")
        assert ada.blocks.attach(team, label="crew").value == "x"
        assert list(ada.blocks) == ["crew"]
        ada.blocks.detach("crew")
        ada.blocks.attach(team, label="crew")
        ada.blocks.detach(team)
        assert list(ada.blocks) == []

    def test_recall_archive_conversations_and_usage_answer(self, runtime: Runtime) -> None:
        agent = runtime.agents.ensure("ada")
        side = agent.conversations.ensure("side")
        assert side.send("about tea").reply == "echo about tea"
        assert [one.name for one in agent.conversations.list()] == ["main", "side"]
        assert agent.recall.search("tea").total == 2
        passage = agent.archive.insert("Lin moved to Berlin", tags=["lin"])
        assert agent.archive.search("Berlin").hits[0].id == passage.id
        assert agent.archive.delete(passage.id) == 1
        assert agent.usage().calls == 1
        assert len(side.messages()) > 0
        assert side.turns()[0].reply == "echo about tea"
        assert side.context().tokens > 0
        assert side.delete() > 0
        with pytest.raises(NotFound):
            agent.conversations.get("side")

    def test_an_agent_is_renamed_and_deleted(self, runtime: Runtime) -> None:
        agent = runtime.agents.create("ada").update(name="eve", timezone="Europe/Berlin")
        assert (agent.name, agent.settings.timezone) == ("eve", "Europe/Berlin")
        agent.delete()
        assert runtime.agents.list() == []

    def test_a_space_is_a_wall(self, runtime: Runtime) -> None:
        runtime.agents.ensure("ada")
        assert runtime.space("lin").agents.list() == []
        assert runtime.space("lin").recover() == 0


class TestStreaming:
    """Events of a turn."""

    def test_events_come_through_a_plain_generator(self, runtime: Runtime) -> None:
        events = list(runtime.agents.ensure("ada").stream("hello"))
        assert isinstance(events[0], TurnStarted)
        assert "".join(e.text for e in events if isinstance(e, ReplyDelta)) == "echo hello"
        assert isinstance(events[-1], TurnEnded)
        assert events[-1].turn.reply == "echo hello"

    def test_a_listener_goes_on_from_the_number_it_had(self, runtime: Runtime) -> None:
        agent = runtime.agents.ensure("ada")
        heard = [event for event in agent.stream("hello") if not event.provisional]
        main = agent.conversations.get()
        assert list(main.events(heard[0].turn_id)) == heard
        assert list(main.events(heard[0].turn_id, after=1)) == heard[1:]

    def test_an_error_is_raised_where_the_events_are_read(self, tmp_path: Path) -> None:
        with Runtime(tmp_path) as runtime, pytest.raises(NoModel):
            list(runtime.agents.ensure("ada").stream("hello"))

    def test_a_listener_that_leaves_early_lets_the_turn_go_on(self, tmp_path: Path) -> None:
        gate = Gate()
        with Runtime(tmp_path, model="gate", models={"gate": gate.model}) as runtime:
            agent = runtime.agents.ensure("ada")
            listening = agent.stream("hello")
            next(listening)
            listening.close()
            gate.open()
            agent.reset()  # waits for the turn to end
            [turn] = agent.conversations.get().turns()
            assert turn.reply == "at last"


class TestThreads:
    """Many callers, one loop."""

    async def test_it_works_where_an_event_loop_is_running(self, tmp_path: Path) -> None:
        model = ScriptedModel([say("hi")])
        with Runtime(tmp_path, model="script", models={"script": model}) as runtime:
            assert runtime.agents.ensure("ada").send("hello").reply == "hi"

    def test_many_threads_lose_nothing(self, runtime: Runtime) -> None:
        team = runtime.blocks.ensure(label="team", limit=10_000)

        def work(number: int) -> str | None:
            agent = runtime.agents.ensure(f"agent {number}", blocks=[team])
            for line in range(10):
                agent.blocks["team"].append(f"{number}/{line}")
            return agent.send(f"hello {number}").reply

        with ThreadPoolExecutor(8) as threads:
            replies = list(threads.map(work, range(8)))
        assert replies == [f"echo hello {number}" for number in range(8)]
        assert sorted(team.value.split()) == sorted(f"{n}/{k}" for n in range(8) for k in range(10))

    def test_an_interrupt_cancels_the_turn_and_keeps_the_message(self, tmp_path: Path) -> None:
        gate = Gate()

        def interrupt() -> None:
            gate.asked.wait(10)
            _thread.interrupt_main()

        with Runtime(tmp_path, model="gate", models={"gate": gate.model}) as runtime:
            agent = runtime.agents.ensure("ada")
            threading.Thread(target=interrupt).start()
            with pytest.raises(KeyboardInterrupt):
                agent.send("hello")
            [turn] = agent.conversations.get().turns()
            assert turn.stop_reason == "cancelled"
            assert [message.text for message in agent.conversations.get().messages()] == ["hello"]
            gate.open()
            assert agent.send("again").reply == "at last"

    def test_closing_ends_a_call_that_waits_in_another_thread(self, tmp_path: Path) -> None:
        gate = Gate()
        runtime = Runtime(tmp_path, model="gate", models={"gate": gate.model})
        agent = runtime.agents.ensure("ada")
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(agent.send, "hello")
            gate.asked.wait(10)
            runtime.close()
            assert waiting.result(10).stop_reason == "cancelled"


class TestTools:
    """Which handles a tool is given."""

    def test_a_plain_tool_edits_a_block_through_its_context(self, tmp_path: Path) -> None:
        seen: list[object] = []

        @tool
        def note(text: str, context: ToolContext) -> str:
            """Notes something.

            Args:
                text: what.
            """
            seen.extend([context.agent, context.conversation])
            context.agent.blocks["human"].append(text)
            return str(context.agent.blocks["human"].value).upper()

        model = ScriptedModel([call("note", text="tea", heartbeat=True), say("noted")])
        with Runtime(tmp_path, model="script", models={"script": model}) as runtime:
            agent = runtime.agents.ensure("ada", blocks=[Block.human("Lin")], tools=[note])
            turn = agent.send("I like tea")
            assert turn.steps[0].calls[0].result == "LIN\nTEA"
            assert turn.reply == "noted"
            assert agent.blocks["human"].value == "Lin\ntea"
        assert [type(handle) for handle in seen] == [handles.Agent, handles.Conversation]

    def test_an_async_tool_gets_handles_to_await(self, tmp_path: Path) -> None:
        @tool
        async def count(context: ToolContext) -> str:
            """Counts what was said."""
            assert isinstance(context.agent, AsyncAgent)
            assert isinstance(context.conversation, AsyncConversation)
            return f"{await context.agent.recall.count()} so far"

        model = ScriptedModel([call("count", heartbeat=True), say("done")])
        with Runtime(tmp_path, model="script", models={"script": model}) as runtime:
            turn = runtime.agents.ensure("ada", tools=[count]).send("how many?")
        assert turn.steps[0].calls[0].result == "1 so far"

    def test_a_blocking_handle_in_an_async_tool_fails_instead_of_waiting_for_ever(
        self, tmp_path: Path
    ) -> None:
        agents: list[handles.Agent] = []

        @tool
        async def stuck() -> str:
            """Uses the wrong door."""
            return agents[0].blocks["human"].value

        model = ScriptedModel([call("stuck", heartbeat=False), say("sorry")])
        with Runtime(tmp_path, model="script", models={"script": model}) as runtime:
            agents.append(runtime.agents.ensure("ada", tools=[stuck]))
            [called] = agents[0].send("go").steps[0].calls
        assert called.status == "failed"
        assert "await the handles of its ToolContext" in called.result


class TestClosing:
    """Every way it ends."""

    def test_what_was_closed_says_so(self, runtime: Runtime) -> None:
        agent = runtime.agents.ensure("ada")
        before = set(loop_threads())
        runtime.close()
        runtime.close()
        assert len(before - set(loop_threads())) == 1
        uses: list[Callable[[], object]] = [
            lambda: agent.send("hello"),
            lambda: list(agent.stream("hello")),
            lambda: agent.blocks["human"],
            lambda: runtime.space("lin"),
            lambda: runtime.agents,
            lambda: runtime.blocks,
        ]
        for use in uses:
            with pytest.raises(Closed):
                use()

    def test_a_runtime_that_was_closed_is_not_entered_again(self, runtime: Runtime) -> None:
        runtime.close()
        with pytest.raises(Closed, match="open a new one"), runtime:
            pytest.fail("it was entered")

    def test_everything_is_there_when_the_folder_is_opened_again(
        self, runtime: Runtime, tmp_path: Path
    ) -> None:
        runtime.agents.ensure("ada", blocks=[Block.human("Lin")]).send("hello")
        runtime.close()
        with Runtime(tmp_path / "memory") as again:
            agent = again.agents.get("ada")
            assert agent.blocks["human"].value == "Lin"
            assert agent.recall.search("hello").total == 2

    def test_a_store_that_cannot_be_opened_leaves_no_thread(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("not a folder")
        before = loop_threads()
        with pytest.raises(StorageUnavailable):
            Runtime(tmp_path / "file")
        assert loop_threads() == before

    def test_a_forgotten_runtime_closes_itself(self, tmp_path: Path) -> None:
        before = set(loop_threads())
        agent = Runtime(tmp_path).agents.ensure("ada")
        [thread] = set(loop_threads()) - before
        gc.collect()
        assert agent.blocks.list() == []  # a handle keeps it open
        del agent
        gc.collect()
        thread.join(10)
        assert not thread.is_alive()
        assert list((tmp_path / "workers").glob("*.lock")) == []

    def test_the_end_of_the_program_ends_a_turn_in_writing(self, tmp_path: Path) -> None:
        script = """
            import asyncio, sys
            from pagedaemon import Runtime
            from pagedaemon.testing import ScriptedModel

            async def never(request):
                await asyncio.sleep(1_000)

            runtime = Runtime(sys.argv[1], model="m", models={"m": ScriptedModel(never)})
            events = runtime.agents.ensure("ada").stream("hello")
            print(next(events).type, next(events).type)
        """
        began = time.monotonic()
        ended = run(script, str(tmp_path))
        assert (ended.returncode, ended.stderr) == (0, "")
        assert ended.stdout.split() == ["turn_started", "step_started"]
        assert time.monotonic() - began < 20
        with Runtime(tmp_path, recover=False) as runtime:
            [turn] = runtime.agents.get("ada").conversations.get().turns()
            assert turn.stop_reason == "cancelled"

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
    def test_a_forked_child_is_refused_and_the_parent_goes_on(self, tmp_path: Path) -> None:
        script = """
            import os, sys, warnings
            warnings.simplefilter("ignore")  # that a program with threads forks is the point here
            from pagedaemon import Runtime
            from pagedaemon.errors import Closed

            runtime = Runtime(sys.argv[1])
            agent = runtime.agents.ensure("ada")
            child = os.fork()
            if child == 0:
                try:
                    agent.blocks.list()
                except Closed as error:
                    print("child:", error, flush=True)
                runtime.close()
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
            print("parent:", agent.blocks.list(), flush=True)
        """
        ended = run(script, str(tmp_path))
        assert (ended.returncode, ended.stderr) == (0, "")
        child, parent = ended.stdout.splitlines()
        assert child.startswith("child: this runtime belongs to the process")
        assert parent == "parent: []"

    def test_whoever_waits_when_the_loop_is_ended_is_told_and_so_is_who_comes_after(
        self, tmp_path: Path
    ) -> None:
        script = """
            import asyncio, sys, threading
            from pagedaemon import Runtime
            from pagedaemon.errors import Closed
            from pagedaemon.testing import ScriptedModel

            threading.excepthook = lambda args: None
            asked = threading.Event()

            async def never(request):
                asked.set()
                await asyncio.sleep(3600)

            runtime = Runtime(sys.argv[1], model="m", models={"m": ScriptedModel(never)})
            agent = runtime.agents.ensure("ada")

            def wait(text):
                try:
                    agent.send(text)
                except Closed as error:
                    print(text, error, flush=True)

            waiting = threading.Thread(target=wait, args=["waits:"], daemon=True)
            waiting.start()
            asked.wait(10)
            door = runtime.agents._door
            door._loop.call_soon_threadsafe(door._loop.stop)
            waiting.join(10)
            wait("comes:")
            runtime.close()
            print("closed")
        """
        ended = run(script, str(tmp_path))
        assert ended.returncode == 0
        waits, comes, closed = ended.stdout.splitlines()
        assert waits.startswith("waits: this runtime's event loop was ended")
        assert comes.startswith("comes: this runtime's event loop was ended")
        assert closed == "closed"
