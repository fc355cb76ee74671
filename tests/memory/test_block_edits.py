"""Core memory through the store: one check for every way in, versions, history."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.memory.world import world

from pagedaemon import AsyncRuntime, Block
from pagedaemon.errors import EditRefused, InvalidInput, NotFound
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.handles.blocks import AsyncBlock
from pagedaemon.testing import call, say

few = st.text(alphabet="ab\n ", max_size=12)
ops = st.one_of(
    st.tuples(st.just("append"), few),
    st.tuples(st.just("insert"), few, st.integers(-2, 4)),
    st.tuples(st.just("replace"), st.text(alphabet="ab\n ", max_size=3), few),
    st.tuples(st.just("rewrite"), few),
)


def expected(value: str, name: str, *given_values: Any) -> str | None:
    """What a plain string would become; None where it may not."""
    text = given_values[0]
    if name == "append":
        after = None if not text.strip() else f"{value}\n{text}" if value else text
    elif name == "insert":
        lines = value.split("\n") if value else []
        line = len(lines) if given_values[1] == -1 else given_values[1]
        fits = bool(text.strip()) and 0 <= line <= len(lines)
        after = "\n".join([*lines[:line], text, *lines[line:]]) if fits else None
    elif name == "replace":
        places = [at for at in range(len(value)) if text and value.startswith(text, at)]
        after = value.replace(text, given_values[1]) if len(places) == 1 else None
    else:
        after = text
    return after if after is not None and len(after) <= 20 else None


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(ops, max_size=8), max_size=4))
def test_any_edits_leave_what_a_plain_string_would_be(
    tmp_path_factory: pytest.TempPathFactory, runs: list[list[tuple[Any, ...]]]
) -> None:
    """Versions grow by one with each change of the value; a refused edit leaves both alone."""

    async def check() -> None:
        async with world(tmp_path_factory.mktemp("store")) as (runtime, agent, _):
            for number, run in enumerate(runs):
                held = await agent.blocks.attach(Block(label=f"b{number}", limit=20))
                value, versions = "", [""]
                for name, *given_values in run:
                    after = expected(value, name, *given_values)
                    if after is None:
                        with pytest.raises(EditRefused):
                            await getattr(held, name)(*given_values)
                        await held.refresh()
                    else:
                        await getattr(held, name)(*given_values)
                        versions += [after] if after != value else []
                        value = after
                    assert (held.value, held.version) == (value, len(versions))
                history = await held.history()
                assert [(row.version, row.value) for row in history] == [
                    (version, text) for version, text in enumerate(versions, start=1)
                ]
                assert (await runtime.agents.get("ada")).id == agent.id

    asyncio.run(check())


LONG = "x" * 21
Way = Callable[[AsyncRuntime, AsyncAgent, AsyncBlock], Awaitable[Any]]
WAYS: dict[str, Way] = {
    "append": lambda r, a, b: b.append("x" * 12),
    "insert": lambda r, a, b: b.insert("x" * 12, 0),
    "replace": lambda r, a, b: b.replace("Lin", "x" * 20),
    "rewrite": lambda r, a, b: b.rewrite(LONG),
    "limit": lambda r, a, b: b.update(limit=8),
    "attach": lambda r, a, b: a.blocks.attach(Block(label="new", value=LONG, limit=20)),
    "create": lambda r, a, b: r.blocks.create(label="new", value=LONG, limit=20),
    "ensure": lambda r, a, b: r.blocks.ensure(label="new", value=LONG, limit=20),
    "agent": lambda r, a, b: r.agents.create(
        "bob", blocks=[Block(label="new", value=LONG, limit=20)]
    ),
    "ensured agent": lambda r, a, b: r.agents.ensure(
        "bob", blocks=[Block(label="new", value=LONG, limit=20)]
    ),
    "ensured again": lambda r, a, b: r.agents.ensure(
        "ada", blocks=[Block(label="new", value=LONG, limit=20)]
    ),
}


SIZES = {"append": 22, "insert": 22, "replace": 26, "limit": 9}


@pytest.mark.parametrize("way", WAYS)
async def test_no_way_of_the_api_writes_over_the_limit(tmp_path: Path, way: str) -> None:
    """CB-03. One shared check, one unit: characters."""
    async with world(tmp_path) as (runtime, agent, _):
        human = await agent.blocks.get("human")
        with pytest.raises(EditRefused) as caught:
            await WAYS[way](runtime, agent, human)
        assert caught.value.reason == "too_long"
        refused = caught.value
        assert refused.size == SIZES.get(way, 21)
        assert refused.limit == (8 if way == "limit" else 20)
        assert str(refused.size) in str(refused)
        (left,) = await agent.blocks.list()
        assert (left.value, left.limit, left.version) == ("Name: Lin", 20, 1)
        assert await runtime.blocks.list() == []
        assert [found.name for found in await runtime.agents.list()] == ["ada"]


async def test_restore_passes_the_check_too(tmp_path: Path) -> None:
    """CB-03. An earlier version may be over a limit that was lowered since."""
    async with world(tmp_path) as (_, agent, _):
        human = await agent.blocks.get("human")
        await human.rewrite("Lin")
        await human.update(limit=5)
        with pytest.raises(EditRefused) as caught:
            await human.restore(1)
        assert caught.value.reason == "too_long"
        assert (await human.refresh()).value == "Lin"


@pytest.mark.parametrize("bad", ["nul \x00", "half \ud800"])
@pytest.mark.parametrize("way", ["append", "insert", "rewrite", "replace"])
async def test_no_way_writes_what_no_store_can_hold(tmp_path: Path, way: str, bad: str) -> None:
    async with world(tmp_path) as (_, agent, _):
        human = await agent.blocks.get("human")
        given_values = ("Lin", bad) if way == "replace" else (bad,)
        with pytest.raises(InvalidInput):
            await getattr(human, way)(*given_values)
        assert (await human.refresh()).version == 1


async def test_read_only_binds_agents_and_not_the_api(tmp_path: Path) -> None:
    policy = Block(label="policy", value="Be kind", read_only=True)
    script = [
        call("core_memory_append", label="policy", content="Obey me", heartbeat=True),
        call("core_memory_replace", label="policy", old_content="kind", new_content="rude"),
        say("I may not"),
    ]
    async with world(tmp_path, script, blocks=[policy]) as (_, agent, _):
        turn = await agent.send("change your policy")
        block = await agent.blocks.get("policy")
        assert block.value == "Be kind"
        refused = [made.result for step in turn.steps[:2] for made in step.calls]
        assert all("read-only" in result for result in refused)
        await block.append("Be brief")
        assert block.value == "Be kind\nBe brief"


async def test_history_tells_who_made_each_version_and_restore_makes_another(
    tmp_path: Path,
) -> None:
    script = [call("core_memory_append", label="human", content="Tea", heartbeat=True), say("Ok")]
    async with world(tmp_path, script) as (_, agent, _):
        turn = await agent.send("I like tea")
        human = await agent.blocks.get("human")
        await human.replace("Lin", "Wu")
        await human.restore(1)
        history = await human.history()
        assert [(row.version, row.value, row.operation, row.by) for row in history] == [
            (1, "Name: Lin", "create", "api"),
            (2, "Name: Lin\nTea", "append", "agent"),
            (3, "Name: Wu\nTea", "replace", "api"),
            (4, "Name: Lin", "restore", "api"),
        ]
        assert history[1].agent_id == agent.id
        assert (history[1].turn_id, history[1].step_id) == (turn.id, turn.steps[0].id)
        assert [row.label for row in history] == ["owner", "agent", "owner", "owner"]
        assert await human.diff(1, 2) == (
            "--- version 1\n+++ version 2\n@@ -1 +1,2 @@\n Name: Lin\n+Tea"
        )
        assert await human.diff(1) == ""
        with pytest.raises(NotFound):
            await human.restore(9)
        with pytest.raises(NotFound):
            await human.diff(1, 9)
