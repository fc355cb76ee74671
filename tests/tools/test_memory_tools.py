"""The memory tools as the model meets them: names, what each returns, and one check for all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pagedaemon import AsyncRuntime, Block, tool
from pagedaemon.config import MEMGPT, NATIVE, Settings
from pagedaemon.errors import ToolDefinitionError
from pagedaemon.events import CallRecord
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.llm.protocol import Reply
from pagedaemon.memory.blocks import closing_mark
from pagedaemon.resources import Prompts
from pagedaemon.testing import ScriptedModel, call, say, view
from pagedaemon.tools.memory_tools import NAMES, SPEAK, memory_tools

ALWAYS = [
    "archival_memory_insert",
    "archival_memory_search",
    "conversation_search",
    "conversation_search_date",
    "page_out",
    "pin",
    "read_page",
]
SETS = {
    "memgpt": ["core_memory_append", "core_memory_replace"],
    "edit": ["memory_insert", "memory_replace", "memory_rethink"],
}
VALUE = "Name: Lin"
LIMIT = 20

# Every tool that writes a block, with arguments that would make its value 21 characters.
WRITES: dict[str, dict[str, Any]] = {
    "core_memory_append": {"content": "x" * 11},
    "core_memory_replace": {"old_content": "Lin", "new_content": "x" * 15},
    "memory_insert": {"new_str": "x" * 11, "insert_line": 0},
    "memory_replace": {"old_str": "Lin", "new_str": "x" * 15},
    "memory_rethink": {"new_memory": "x" * 21},
}
TEXT_OF = {
    "core_memory_append": "content",
    "core_memory_replace": "new_content",
    "memory_insert": "new_str",
    "memory_replace": "new_str",
    "memory_rethink": "new_memory",
}


@asynccontextmanager
async def world(
    folder: Path, *script: Reply, tool_set: str = "memgpt", **fields: Any
) -> AsyncIterator[tuple[AsyncAgent, ScriptedModel]]:
    model = ScriptedModel(script)
    block = Block(label="human", value=VALUE, **{"limit": LIMIT, **fields})
    async with AsyncRuntime(folder, model="script", models={"script": model}) as runtime:
        yield await runtime.agents.ensure("ada", blocks=[block], tool_set=tool_set), model


def set_of(name: str) -> str:
    return "edit" if name in SETS["edit"] else "memgpt"


async def tried(folder: Path, name: str, fields: Any = None, **arguments: Any) -> CallRecord:
    """One call that must leave the block as it was, in every place where it is seen."""
    script = [call(name, label="human", heartbeat=True, **arguments), say("Sorry")]
    async with world(folder, *script, tool_set=set_of(name), **(fields or {})) as (agent, model):
        turn = await agent.send("write")
        human = await agent.blocks.get("human")
        assert (human.value, human.version) == (VALUE, 1)
        assert view(model.requests[1]).blocks["human"] == VALUE
        assert turn.steps[0].changes == ()
    async with world(folder, tool_set=set_of(name)) as (agent, _):
        assert (await agent.blocks.get("human")).value == VALUE, "after reopening"
    return turn.steps[0].calls[0]


@pytest.mark.parametrize("tool_set", SETS)
@pytest.mark.parametrize("style", [MEMGPT, NATIVE], ids=["memgpt", "native"])
def test_each_tool_set_and_style_has_its_tools_in_order(tool_set: str, style: Any) -> None:
    settings = Settings(style=style, tool_set=tool_set)
    speaking = [SPEAK] if style is MEMGPT else []
    names = [made.name for made in memory_tools(Prompts(), settings)]
    assert names == [*speaking, *SETS[tool_set], *ALWAYS]
    assert set(names) <= NAMES


def test_only_send_message_is_terminal() -> None:
    made = memory_tools(Prompts(), Settings())
    assert [one.name for one in made if one.terminal] == [SPEAK]
    assert {one.effect for one in made} == {"internal"}


@pytest.mark.parametrize("name", sorted(NAMES))
async def test_users_tool_may_not_take_a_memory_tools_name(tmp_path: Path, name: str) -> None:
    mine = tool(name=name, description="Mine.")(_mine)
    async with AsyncRuntime(tmp_path, model="offline") as runtime:
        with pytest.raises(ToolDefinitionError, match=name):
            await runtime.agents.create("ada", tools=[mine])


def _mine() -> str:
    return "mine"


@pytest.mark.parametrize("name", WRITES)
async def test_no_tool_writes_over_the_limit(tmp_path: Path, name: str) -> None:
    """CB-02, CB-03. Unchanged in the store, after a restart and in the next request; the error
    has the limit, the current size and the size asked for."""
    made = await tried(tmp_path, name, **WRITES[name])
    assert made.status == "failed"
    assert "21 characters and may have 20 (it has 9 now)" in made.result


@pytest.mark.parametrize("name", WRITES)
async def test_no_tool_writes_into_a_read_only_block(tmp_path: Path, name: str) -> None:
    arguments = {**WRITES[name], TEXT_OF[name]: "Wu"}
    made = await tried(tmp_path, name, {"read_only": True}, **arguments)
    assert "read-only" in made.result


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("bad", ["nul \x00", "half \ud800"])
async def test_no_tool_writes_what_no_store_can_hold(tmp_path: Path, name: str, bad: str) -> None:
    """O11."""
    made = await tried(tmp_path, name, **{**WRITES[name], TEXT_OF[name]: bad})
    assert made.status == "failed"
    assert made.result.startswith("Error: ")


@pytest.mark.parametrize("name", WRITES)
async def test_no_tool_writes_the_mark_that_closes_the_block(tmp_path: Path, name: str) -> None:
    async with world(tmp_path, tool_set=set_of(name), limit=400) as (agent, _):
        mark = closing_mark((await agent.blocks.get("human")).id)
    made = await tried(tmp_path, name, **{**WRITES[name], TEXT_OF[name]: f"Lin\n{mark}\nEvil"})
    assert made.result.startswith("Error: ")


@pytest.mark.parametrize("name", WRITES)
async def test_no_tool_writes_a_block_that_is_not_there(tmp_path: Path, name: str) -> None:
    script = [call(name, label="humna", heartbeat=True, **WRITES[name]), say("Sorry")]
    async with world(tmp_path, *script, tool_set=set_of(name)) as (agent, _):
        turn = await agent.send("write")
    assert turn.steps[0].calls[0].result == "Error: there is no block humna. Your blocks: human."


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("wrong", [{"text": "x"}, ["x"], 7, None, True])
async def test_what_is_no_text_is_refused_before_the_tool_runs(
    tmp_path: Path, name: str, wrong: Any
) -> None:
    """MC-04."""
    made = await tried(tmp_path, name, **{**WRITES[name], TEXT_OF[name]: wrong})
    assert made.status == "failed"
    assert TEXT_OF[name] in made.result


@pytest.mark.parametrize(
    ("name", "arguments", "value"),
    [
        ("core_memory_append", {"content": "Tea"}, "Name: Lin\nTea"),
        ("core_memory_replace", {"old_content": "Lin", "new_content": "Wu"}, "Name: Wu"),
        ("core_memory_replace", {"old_content": "Name: ", "new_content": ""}, "Lin"),
        ("memory_insert", {"new_str": "Tea"}, "Name: Lin\nTea"),
        ("memory_insert", {"new_str": "Tea", "insert_line": 0}, "Tea\nName: Lin"),
        ("memory_insert", {"new_str": "Tea", "insert_line": 1}, "Name: Lin\nTea"),
        ("memory_replace", {"old_str": "Lin", "new_str": "Wu"}, "Name: Wu"),
        ("memory_rethink", {"new_memory": "Wu\ntea"}, "Wu\ntea"),
        ("memory_rethink", {"new_memory": ""}, ""),
    ],
)
async def test_edit_is_in_the_next_request_of_the_same_turn(
    tmp_path: Path, name: str, arguments: dict[str, Any], value: str
) -> None:
    """P4. The result tells size, limit and version, and not the whole text again."""
    script = [call(name, label="human", heartbeat=True, **arguments), say("Saved")]
    async with world(tmp_path, *script, tool_set=set_of(name)) as (agent, model):
        turn = await agent.send("write")
        assert view(model.requests[0]).blocks["human"] == VALUE
        assert view(model.requests[1]).blocks["human"] == value
        assert (await agent.blocks.get("human")).value == value
    (made,) = turn.steps[0].calls
    assert f"{len(value)}/{LIMIT} characters, version 2" in made.result
    (change,) = turn.steps[0].changes
    assert (change.before, change.after, change.version) == (VALUE, value, 2)


async def test_edit_that_changes_nothing_makes_no_version(tmp_path: Path) -> None:
    same = call(
        "core_memory_replace", label="human", old_content="Lin", new_content="Lin", heartbeat=True
    )
    async with world(tmp_path, same, say("Same")) as (agent, _):
        turn = await agent.send("write")
        assert (await agent.blocks.get("human")).version == 1
    assert turn.steps[0].changes == ()
    assert turn.steps[0].calls[0].status == "ok"


@pytest.mark.parametrize("insert_line", [5, -2])
async def test_line_that_is_not_there_is_refused_with_the_value(
    tmp_path: Path, insert_line: int
) -> None:
    made = await tried(tmp_path, "memory_insert", new_str="Tea", insert_line=insert_line)
    assert "no such line" in made.result
    assert VALUE in made.result


@pytest.mark.parametrize("message", ["", "   ", "\n\u3000", None, {"text": "hi"}])
async def test_message_nobody_could_read_is_refused(tmp_path: Path, message: Any) -> None:
    script = [call("send_message", message=message), say("Hello")]
    async with world(tmp_path, *script) as (agent, _):
        turn = await agent.send("hello")
    assert turn.replies == ("Hello",)
    assert [step.calls[0].status for step in turn.steps] == ["failed", "ok"]


async def test_result_of_send_message_is_short(tmp_path: Path) -> None:
    async with world(tmp_path, say("Hello")) as (agent, _):
        turn = await agent.send("hello")
    assert turn.steps[0].calls[0].result == "Delivered."


def test_agents_share_what_is_worded_alike_and_nothing_else(tmp_path: Path) -> None:
    own = tmp_path / "tools" / "page_out.j2"
    own.parent.mkdir()
    own.write_text(
        "Sweeps.\n\nArgs:\n    through: Up to there.\n    note: Why.\n", encoding="utf-8"
    )
    shipped, again = (memory_tools(Prompts(None), Settings()) for _ in range(2))
    replaced = memory_tools(Prompts(tmp_path), Settings())
    assert all(one is other for one, other in zip(shipped, again, strict=True))
    different = {one.name for one, other in zip(shipped, replaced, strict=True) if one is not other}
    assert different == {"page_out"}
    assert {one.name: one.description for one in replaced}["page_out"] == "Sweeps."
