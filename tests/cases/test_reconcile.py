"""Calls cut off by a crash whose tools are asked what became of them, in the process that opens the
store next (user case RH-02)."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from pagedaemon import AsyncRuntime, NeverRan, tool
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.scheduler.claims import ATTEMPTS
from pagedaemon.store.locks import hold
from pagedaemon.testing import ScriptedModel, call, say, view
from pagedaemon.tools.tool import Tool

Reconcile = Callable[[str], object]


class Till:
    """An agent whose tool charges a card, with a count of how often."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.charged = 0
        self.asked: list[str] = []
        self.model = ScriptedModel(self._answer)
        self.inside = asyncio.Event()

    def tools(self, says: Reconcile | None, *, hangs: bool = False) -> list[Tool]:
        """The tool; `says` answers for a key, None: it cannot be asked."""

        def look(key: str) -> object:
            assert says is not None
            self.asked.append(key)
            return says(key)

        @tool(reconcile=None if says is None else look)
        async def charge(order: int) -> str:
            """Charges an order to the card."""
            self.charged += 1
            self.inside.set()
            if hangs:
                await asyncio.sleep(60)
            return f"order {order} is charged"

        return [charge]

    def opened(self, tools: list[Tool], *, recover: bool = False) -> AsyncRuntime:
        """A runtime with those tools."""
        models = {"script": self.model}
        return AsyncRuntime(
            self.store, model="script", models=models, tools=tools, recover=recover, embedder=None
        )

    async def cut_off(self) -> None:
        """Leaves the store as a crash in the middle of the call does: a copy made in the midst."""
        tools = self.tools(None, hangs=True)
        copy = self.store.with_name("copy")
        async with self.opened(tools) as runtime:
            ada = await runtime.agents.ensure("ada", tools=tools)
            turn = await ada.send_later("Charge order 41.")
            await asyncio.wait_for(self.inside.wait(), 10)
            shutil.copytree(self.store, copy)
            await turn.stop()
        shutil.rmtree(self.store)
        copy.rename(self.store)
        shutil.rmtree(self.store / "workers")  # of a process that is gone

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """What stands in the store."""
        with closing(sqlite3.connect(self.store / "spaces/default/space.db")) as raw:
            found = raw.execute(query).fetchall()
            raw.commit()
        return found

    def _answer(self, request: Request) -> Reply:
        seen = view(request)
        if not seen.last_user.startswith("Charge"):
            return say(f"heard: {seen.last_user}")
        if "charge" not in seen.results:
            return call("charge", order=41, heartbeat=True)
        return say(seen.results["charge"][0])


@pytest.fixture
async def till(tmp_path: Path) -> Till:
    """A store whose process is gone, in the middle of a charge."""
    till = Till(tmp_path / "memory")
    await till.cut_off()
    assert till.rows("SELECT tool, status FROM calls") == [("charge", "started")]
    assert till.charged == 1
    return till


async def test_what_the_tool_says_is_the_result_and_it_is_not_run_again(till: Till) -> None:
    tools = till.tools(lambda key: "it was charged")
    async with till.opened(tools) as runtime:
        space = await runtime.space("default")
        assert await space.recover() == 1
        turn = (await (await (await runtime.agents.get("ada")).conversations.get()).turns())[0]
    assert turn.reply == "it was charged"
    assert [made.status for made in turn.steps[0].calls] == ["ok"]
    assert till.charged == 1
    ((key,),) = till.rows("SELECT id FROM calls WHERE tool = 'charge'")
    assert till.asked == [key]


async def test_a_call_that_never_ran_is_run(till: Till) -> None:
    async with till.opened(till.tools(lambda key: NeverRan())) as runtime:
        await (await runtime.space("default")).recover()
    assert till.charged == 2
    assert till.rows("SELECT status, result FROM calls WHERE tool = 'charge'") == [
        ("ok", "order 41 is charged")
    ]


@pytest.mark.parametrize("says", [None, lambda key: None], ids=["not asked", "does not know"])
async def test_the_owner_is_told_of_what_stays_unknown(
    till: Till, says: Reconcile | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with till.opened(till.tools(says)) as runtime:
        await (await runtime.space("default")).recover()
        (outcome,) = await runtime.outcomes.list()
    told = [line for line in caplog.messages if "nobody saw how call" in line]
    assert len(told) == 1
    assert outcome.id in told[0]
    assert outcome.tool == "charge"


async def test_a_tool_whose_question_fails_leaves_it_unknown_and_the_model_reads_why(
    till: Till,
) -> None:
    def lost(key: str) -> object:
        raise ConnectionError("no route")

    async with till.opened(till.tools(lost)) as runtime:
        await (await runtime.space("default")).recover()
    assert till.charged == 1
    ((status, told),) = till.rows("SELECT status, result FROM calls WHERE tool = 'charge'")
    assert status == "unknown"
    assert "ConnectionError: no route" in str(told)


@pytest.mark.parametrize(
    ("says", "told"),
    [(NeverRan(), "may still be at it"), ("it was charged", "it was charged")],
    ids=["never ran", "a result"],
)
async def test_of_a_process_that_only_stands_still_nothing_but_a_result_is_believed(
    till: Till, says: object, told: str
) -> None:
    ((owner,),) = till.rows("SELECT owner FROM turns")
    till.rows("UPDATE conversations SET lease_until = '2020-01-01T00:00:00.000000+00:00'")
    (till.store / "workers").mkdir()
    with (till.store / "workers" / f"{owner}.lock").open("xb") as lock:
        hold(lock)
        async with till.opened(till.tools(lambda key: says)) as runtime:
            await (await runtime.space("default")).recover()
    assert till.charged == 1
    ((status, result),) = till.rows("SELECT status, result FROM calls WHERE tool = 'charge'")
    assert status == ("ok" if told == says else "unknown")
    assert told in str(result)


async def test_a_turn_that_is_given_up_asks_before_it_ends(till: Till) -> None:
    till.rows(f"UPDATE turns SET attempts = {2 * ATTEMPTS}")
    async with till.opened(till.tools(lambda key: "it was charged")) as runtime:
        await (await runtime.space("default")).recover()
    assert till.rows("SELECT stop_reason FROM turns") == [("interrupted",)]
    assert till.rows("SELECT status, result FROM calls WHERE tool = 'charge'") == [
        ("ok", "it was charged")
    ]


async def test_a_planned_turn_is_begun_six_times_and_then_given_up(till: Till) -> None:
    till.rows(f"UPDATE turns SET attempts = {2 * ATTEMPTS - 1}")
    async with till.opened(till.tools(None)) as runtime:
        await (await runtime.space("default")).recover()
    assert till.rows("SELECT stop_reason FROM turns") == [("end_turn",)]


async def test_a_turn_given_up_does_not_run_what_never_ran(till: Till) -> None:
    till.rows(f"UPDATE turns SET attempts = {2 * ATTEMPTS}")
    async with till.opened(till.tools(lambda key: NeverRan())) as runtime:
        await (await runtime.space("default")).recover()
    assert till.charged == 1
    ((status, told),) = till.rows("SELECT status, result FROM calls WHERE tool = 'charge'")
    assert status == "failed"
    assert "not run" in str(told)


async def test_a_turn_that_is_stopped_instead_asks_before_it_ends(till: Till) -> None:
    async with till.opened(till.tools(lambda key: "it was charged")) as runtime:
        main = await (await runtime.agents.get("ada")).conversations.get()
        (left,) = await main.turns(status="open")
        await left.stop()
    assert till.charged == 1
    ((status,),) = till.rows("SELECT status FROM calls WHERE tool = 'charge'")
    assert status == "ok"


async def test_the_agent_answers_afterwards(till: Till) -> None:
    async with till.opened(till.tools(lambda key: None), recover=True) as runtime:
        turn = await (await runtime.agents.get("ada")).send("Are you there?")
    assert turn.reply == "heard: Are you there?"
    assert till.charged == 1
