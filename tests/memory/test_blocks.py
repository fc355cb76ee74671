"""Core memory: operations against a plain-string model, one check for every way in, versions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedaemon import AsyncRuntime, Block
from pagedaemon.errors import EditRefused, InvalidInput, NotFound
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.handles.blocks import AsyncBlock
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.memory import blocks as core
from pagedaemon.memory.blocks import Operation
from pagedaemon.store.blocks import BlockRow
from pagedaemon.testing import ScriptedModel, call, say, view

NOW = datetime(2026, 11, 30, tzinfo=UTC)
ROW = BlockRow("block-7", "human", "", "", 40, False, 1, None, None, NOW, NOW)


def block(value: str, **changes: Any) -> BlockRow:
    return replace(ROW, value=value, **changes)


def refusal(operation: Operation, value: str, **changes: Any) -> EditRefused:
    with pytest.raises(EditRefused) as caught:
        operation(block(value, **changes))
    return caught.value


# ------------------------------------------------------------------ operations

few = st.text(alphabet="ab\n ", max_size=12)
words = few.filter(lambda text: bool(text.strip()))


@given(few, words)
def test_append_adds_a_line_and_keeps_all_there_was(value: str, text: str) -> None:
    assert core.append(text)(block(value)) == (f"{value}\n{text}" if value else text)


@given(few, words, words)
def test_appends_commute_but_for_their_order(value: str, one: str, two: str) -> None:
    first = core.append(two)(block(core.append(one)(block(value))))
    second = core.append(one)(block(core.append(two)(block(value))))
    assert sorted(first.split("\n")) == sorted(second.split("\n"))


@given(few, words, st.integers(-3, 8))
def test_insert_puts_text_before_the_line_and_nothing_else_moves(
    value: str, text: str, line: int
) -> None:
    lines = value.split("\n") if value else []
    operation = core.insert_line(text, line)
    if line == -1:
        assert operation(block(value)).split("\n") == [*lines, *text.split("\n")]
    elif 0 <= line <= len(lines):
        expected = [*lines[:line], *text.split("\n"), *lines[line:]]
        assert operation(block(value)).split("\n") == expected
    else:
        assert refusal(operation, value).reason == "no_such_line"


@given(few, st.text(alphabet="ab\n ", max_size=4), few)
def test_replace_needs_the_old_text_exactly_once(value: str, old: str, new: str) -> None:
    places = [at for at in range(len(value)) if value.startswith(old, at)]
    operation = core.replace(old, new)
    if not old:
        assert refusal(operation, value).reason == "empty_text"
    elif len(places) == 1:
        at = places[0]
        assert operation(block(value)) == value[:at] + new + value[at + len(old) :]
    else:
        reason = refusal(operation, value).reason
        assert reason == ("ambiguous" if places else "not_found")


def test_places_that_overlap_are_two_places() -> None:
    assert refusal(core.replace("aba", "x"), "ababa").reason == "ambiguous"


@given(few, st.none() | st.integers(1, 4), st.integers(1, 4))
def test_rewrite_needs_the_version_that_was_read(
    value: str, read: int | None, current: int
) -> None:
    operation = core.rewrite("new", read)
    if read == current:
        assert operation(block(value, version=current)) == "new"
    else:
        refused = refusal(operation, value, version=current)
        assert refused.reason == "stale"
        assert refused.current == value


@given(few, few, words, st.integers(-1, 6))
def test_insert_conflicts_exactly_when_its_line_is_no_longer_what_was_seen(
    seen: str, value: str, text: str, line: int
) -> None:
    old = seen.split("\n") if seen else []
    lines = value.split("\n") if value else []
    operation = core.insert_line(text, line, seen)
    if line in (-1, len(old)):
        assert operation(block(value)) == core.append(text)(block(value))
    elif line > len(old):
        assert refusal(operation, value).reason == "no_such_line"
    elif line < len(lines) and lines[line] == old[line]:
        assert operation(block(value)) == core.insert_line(text, line)(block(value))
    else:
        refused = refusal(operation, value)
        assert refused.reason == "stale"
        assert refused.current == value


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_nothing_cannot_be_added(blank: str) -> None:
    assert refusal(core.append(blank), "x").reason == "empty_text"
    assert refusal(core.insert_line(blank, 0), "x").reason == "empty_text"


def test_text_that_is_not_there_is_answered_with_the_nearest_lines() -> None:
    value = "First name:  Chad\nLast name: Wu\nLikes “tea”"
    for wrong, right in [
        ("First name: chad", "First name:  Chad"),
        ('Likes "tea"', "Likes “tea”"),
        ("Last name: Wu\r\nLikes", "Last name: Wu"),
    ]:
        refused = refusal(core.replace(wrong, "x"), value)
        assert refused.reason == "not_found"
        assert refused.nearest[0] == right
        assert refused.current == value


@given(few, st.integers(1, 30))
def test_check_counts_characters_and_says_how_many(value: str, limit: int) -> None:
    given_block = block("old", limit=limit)
    if len(value) <= limit:
        assert core.check_value("human", value, limit, block=given_block) == value
        return
    with pytest.raises(EditRefused) as caught:
        core.check_value("human", value, limit, block=given_block)
    refused = caught.value
    assert (refused.reason, refused.limit, refused.size) == ("too_long", limit, len(value))
    assert refused.current == "old"


def test_closing_mark_cannot_stand_in_a_value() -> None:
    mark = core.closing_mark(ROW.id)
    with pytest.raises(EditRefused) as caught:
        core.check_value("human", f"a {mark} b", 400, block=ROW)
    assert caught.value.reason == "bad_text"


# ------------------------------------------------------------------ through the store


@asynccontextmanager
async def world(
    folder: Path, script: Any = (), *, blocks: Any = (), **changes: Any
) -> AsyncIterator[tuple[AsyncRuntime, AsyncAgent, ScriptedModel]]:
    model = ScriptedModel(script)
    async with AsyncRuntime(folder, model="script", models={"script": model}) as runtime:
        agent = await runtime.agents.ensure(
            "ada",
            blocks=blocks or [Block(label="human", value="Name: Lin", limit=20)],
            **changes,
        )
        yield runtime, agent, model


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


# ------------------------------------------------------------------ sharing


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
