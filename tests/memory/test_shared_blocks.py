"""Core memory that several agents hold: no edit is lost unseen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.memory.world import world

from pagedaemon import AsyncRuntime, Block
from pagedaemon.errors import EditRefused
from pagedaemon.handles.blocks import AsyncBlock
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import ScriptedModel, call, say, view


async def test_two_agents_that_edit_one_block_at_once_lose_nothing(tmp_path: Path) -> None:
    """Forty steps of two agents race for one block; the models look at nothing but their count."""

    def busy(name: str) -> Callable[[Request], Reply]:
        left = iter(range(20))

        def mind(request: Request) -> Reply:
            number = next(left, None)
            if number is None:
                return say("done")
            line = f"{name} {number}"
            if number % 2:
                return call("memory_insert", label="team", new_str=line, heartbeat=True)
            return call("memory_insert", label="team", new_str=line, insert_line=0, heartbeat=True)

        return mind

    models = {name: ScriptedModel(busy(name)) for name in ("ada", "bob")}
    async with AsyncRuntime(tmp_path, models=models) as runtime:
        team = await runtime.blocks.create(label="team", value="Rules")
        agents = [
            await runtime.agents.create(name, model=name, blocks=[team], tool_set="edit")
            for name in models
        ]
        turns = await asyncio.gather(*(agent.send("go") for agent in agents))
        await team.refresh()
    done = {
        made.arguments["new_str"]
        for turn in turns
        for step in turn.steps
        for made in step.calls
        if made.tool == "memory_insert" and made.status == "ok"
    }
    lines = team.value.split("\n")
    assert sorted(lines) == sorted([*done, "Rules"]), "each once, and only what was told as saved"
    assert {f"{name} {number}" for name in models for number in range(1, 20, 2)} <= done
    assert team.version == 1 + len(done)


async def test_rewrite_over_a_block_that_changed_meanwhile_is_refused_with_its_value(
    tmp_path: Path,
) -> None:
    """Another hand edits between the request and the end of the step; the retry knows the value."""
    handle: list[AsyncBlock] = []

    async def mind(request: Request) -> Reply:
        seen = view(request)
        refused = seen.results.get("memory_rethink", ())
        if not refused:
            await handle[0].append("Tea")
            return call("memory_rethink", label="human", new_memory="Wu", heartbeat=False)
        if len(refused) == 1:
            assert "Name: Lin\nTea" in refused[0]
            assert seen.blocks["human"] == "Name: Lin\nTea"
            return call("memory_rethink", label="human", new_memory="Wu, tea", heartbeat=True)
        return say("Tidied")

    async with world(tmp_path, mind, tool_set="edit") as (_, agent, _):
        handle.append(await agent.blocks.get("human"))
        turn = await agent.send("tidy up")
        assert [made.status for step in turn.steps for made in step.calls] == [
            "failed",
            "ok",
            "ok",
        ]
        assert (await handle[0].refresh()).value == "Wu, tea"


async def test_insert_at_a_line_that_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    handle: list[AsyncBlock] = []

    async def mind(request: Request) -> Reply:
        tried = view(request).results.get("memory_insert", ())
        if not tried:
            await handle[0].replace("two", "zwei")
            return call("memory_insert", label="human", new_str="new", insert_line=1)
        if len(tried) == 1:
            assert "one\nzwei" in tried[0]
            return call(
                "memory_insert", label="human", new_str="new", insert_line=1, heartbeat=True
            )
        return say("Inserted")

    block = Block(label="human", value="one\ntwo", limit=40)
    async with world(tmp_path, mind, blocks=[block], tool_set="edit") as (_, agent, _):
        handle.append(await agent.blocks.get("human"))
        turn = await agent.send("insert")
        assert [made.status for step in turn.steps for made in step.calls] == [
            "failed",
            "ok",
            "ok",
        ]
        assert (await handle[0].refresh()).value == "one\nnew\nzwei"


async def test_insert_at_the_end_as_it_was_seen_is_still_at_the_end(tmp_path: Path) -> None:
    handle: list[AsyncBlock] = []

    async def mind(request: Request) -> Reply:
        if not view(request).results:
            await handle[0].append("two\nthree")
            return call(
                "memory_insert", label="human", new_str="last", insert_line=1, heartbeat=True
            )
        return say("Inserted")

    block = Block(label="human", value="one", limit=40)
    async with world(tmp_path, mind, blocks=[block], tool_set="edit") as (_, agent, _):
        handle.append(await agent.blocks.get("human"))
        await agent.send("insert")
        assert (await handle[0].refresh()).value == "one\ntwo\nthree\nlast"


async def test_handle_that_read_an_old_version_does_not_write_over_a_newer_one(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as (_, agent, _):
        mine, theirs = await agent.blocks.get("human"), await agent.blocks.get("human")
        await theirs.append("Tea")
        with pytest.raises(EditRefused) as caught:
            await mine.rewrite("Wu")
        assert caught.value.reason == "stale"
        assert caught.value.current == "Name: Lin\nTea"
        await theirs.replace("Name", "Nom")
        with pytest.raises(EditRefused) as caught:
            await mine.insert("first", 0)
        assert caught.value.reason == "stale"
        assert (await mine.refresh()).value == "Nom: Lin\nTea"


async def test_each_holder_calls_a_shared_block_by_its_own_label(tmp_path: Path) -> None:
    script = [
        call("core_memory_append", label="crew", content="Thursdays", heartbeat=True),
        say("Ok"),
    ]
    async with world(tmp_path, script) as (runtime, ada, model):
        team = await runtime.blocks.create(label="team", value="Fridays")
        await ada.blocks.attach(team, label="crew")
        bob = await runtime.agents.create("bob", blocks=[team])
        turn = await ada.send("we ship on Thursdays")
        assert turn.steps[0].changes[0].label == "crew"
        assert (await bob.blocks.get("team")).value == "Fridays\nThursdays"
        assert view(model.requests[1]).blocks["crew"] == "Fridays\nThursdays"
