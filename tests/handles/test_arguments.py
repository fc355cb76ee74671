"""Whatever a caller gives that cannot be is refused in words, and changes nothing.

One table of calls and wrong values through the async door, which the blocking one delegates to.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from pagedaemon import AsyncRuntime, Block, Model, Runtime, tool
from pagedaemon.errors import ConfigError, InvalidInput, PagedaemonError, ToolDefinitionError
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.handles.blocks import AsyncBlock
from pagedaemon.testing import FakeClock, ScriptedModel, say


@tool(effect="read")
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@dataclass(frozen=True)
class World:
    """An agent that holds a block."""

    runtime: AsyncRuntime
    ada: AsyncAgent
    team: AsyncBlock


@pytest.fixture
async def world(runtime: AsyncRuntime) -> World:
    team = await runtime.blocks.create(label="team", value="one\ntwo")
    return World(runtime, await runtime.agents.create("ada", blocks=[team]), team)


Call = Callable[[World, Any], Awaitable[Any]]

NO_TEXT: list[Any] = [5, None, b"x", ["x"], Block(label="x")]
NO_NAME: list[Any] = [*NO_TEXT, "", " ", "a\nb", "a\x00", "\ud800", "a\x1bb", "a\u202eb", "x" * 201]
NO_LABEL: list[Any] = [*NO_TEXT, "", "two words", "[x]", "x" * 61]
NO_WHOLE: list[Any] = [1.5, "1", True, [1], 2**63]
NO_FLOOR: list[Any] = ["0.1", True, [0.1], 5, -1.01, float("nan"), float("inf")]
NO_INSTANT: list[Any] = [
    "2026-01-01",
    5,
    datetime(2026, 1, 1),  # noqa: DTZ001
    datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
]
NO_FLAG: list[Any] = ["no", 0, 1, []]
NO_BLOCKS: list[Any] = [
    Block.human("Lin"),
    None,
    "human",
    5,
    {"human": "Lin"},
    ["human"],
    [None],
    [[Block(label="x")]],
]
NO_TOOLS: list[Any] = [weather, "weather", 5, {"weather": weather}, [len], [None]]


async def turns_limited(world: World, limit: Any) -> Any:
    """The turns of the agent's conversation, at most so many."""
    return await (await world.ada.conversations.get()).turns(limit=limit)


WRONG: dict[str, tuple[Call, list[Any], type[PagedaemonError]]] = {
    "runtime.space": (lambda w, x: w.runtime.space(x), [*NO_NAME, "A", "../x"], InvalidInput),
    "agents.create": (lambda w, x: w.runtime.agents.create(x), NO_NAME, InvalidInput),
    "agents.ensure": (lambda w, x: w.runtime.agents.ensure(x), NO_NAME, InvalidInput),
    "agents.get": (lambda w, x: w.runtime.agents.get(x), NO_NAME, InvalidInput),
    "agents.create blocks": (
        lambda w, x: w.runtime.agents.create("eve", blocks=x),
        NO_BLOCKS,
        InvalidInput,
    ),
    "agents.ensure blocks": (
        lambda w, x: w.runtime.agents.ensure("ada", blocks=x),
        NO_BLOCKS,
        InvalidInput,
    ),
    "agents.create tools": (
        lambda w, x: w.runtime.agents.create("eve", tools=x),
        [*NO_TOOLS, None],
        ToolDefinitionError,
    ),
    "agents.ensure tools": (
        lambda w, x: w.runtime.agents.ensure("ada", tools=x),
        [*NO_TOOLS, None],
        ToolDefinitionError,
    ),
    "agents.create model": (
        lambda w, x: w.runtime.agents.create("eve", model=x),
        [5, "", ["x"], {"name": "x"}, Model, "nosuch", Model("nosuch")],
        ConfigError,
    ),
    "agents.ensure model": (
        lambda w, x: w.runtime.agents.ensure("eve", model=x),
        ["nosuch", Model("/"), "openai/"],
        ConfigError,
    ),
    "agent.update name": (lambda w, x: w.ada.update(name=x), NO_NAME[:1], InvalidInput),
    "agent.update tools": (lambda w, x: w.ada.update(tools=x), NO_TOOLS, ToolDefinitionError),
    "agent.update model": (
        lambda w, x: w.ada.update(model=x),
        [5, "", ["x"], "nosuch"],
        ConfigError,
    ),
    "agent.update settings": (
        lambda w, x: w.ada.update(**x),
        [{"blocks": []}, {"limits": 5}, {"style": 5}, {"timezone": 5}, {"rules": "x"}],
        ConfigError,
    ),
    "agent.send": (
        lambda w, x: w.ada.send(x),
        # A list of texts is content.
        [*(x for x in NO_TEXT if not isinstance(x, list)), [], [7], "", "a\x00", "\ud800"],
        InvalidInput,
    ),
    "agent.send author": (
        lambda w, x: w.ada.send("hello", author=x),
        [x for x in NO_NAME if x is not None],
        InvalidInput,
    ),
    # The last of them is no more than long ago.
    "agent.schedule at": (lambda w, x: w.ada.schedule("x", at=x), NO_INSTANT[:-1], InvalidInput),
    "agent.schedule start": (
        lambda w, x: w.ada.schedule("x", every=timedelta(hours=1), start=x),
        NO_INSTANT[:-1],
        InvalidInput,
    ),
    "agent.pause_heartbeats": (
        lambda w, x: w.ada.pause_heartbeats(until=x),
        NO_INSTANT,
        InvalidInput,
    ),
    "archive.insert happened_at": (
        lambda w, x: w.ada.archive.insert("x", happened_at=x),
        NO_INSTANT,
        InvalidInput,
    ),
    "archive.insert expires_at": (
        lambda w, x: w.ada.archive.insert("x", expires_at=x),
        NO_INSTANT,
        InvalidInput,
    ),
    "archive.search start": (lambda w, x: w.ada.archive.search(start=x), NO_INSTANT, InvalidInput),
    "archive.search end": (lambda w, x: w.ada.archive.search("x", end=x), NO_INSTANT, InvalidInput),
    "archive.search floor": (
        lambda w, x: w.ada.archive.search("x", floor=x),
        NO_FLOOR,
        InvalidInput,
    ),
    "archive.search page": (lambda w, x: w.ada.archive.search(page=x), NO_WHOLE, InvalidInput),
    "archive.load_text chunk_chars": (
        lambda w, x: w.ada.archive.load_text("x", name="x", chunk_chars=x),
        NO_WHOLE,
        InvalidInput,
    ),
    "recall.search start": (lambda w, x: w.ada.recall.search(start=x), NO_INSTANT, InvalidInput),
    "recall.search end": (lambda w, x: w.ada.recall.search("x", end=x), NO_INSTANT, InvalidInput),
    "recall.search floor": (lambda w, x: w.ada.recall.search(floor=x), NO_FLOOR, InvalidInput),
    "recall.search page_size": (
        lambda w, x: w.ada.recall.search(page_size=x),
        NO_WHOLE,
        InvalidInput,
    ),
    "conversation.turns limit": (turns_limited, NO_WHOLE, InvalidInput),
    "blocks.create": (
        lambda w, x: w.runtime.blocks.create(x),
        [5, "x", [Block(label="x")], {"label": "x"}],
        InvalidInput,
    ),
    "blocks.ensure": (
        lambda w, x: w.runtime.blocks.ensure(x),
        [5, "x", [Block(label="x")], {"label": "x"}],
        InvalidInput,
    ),
    "blocks.create name": (
        lambda w, x: w.runtime.blocks.create(label="x", name=x),
        [x for x in NO_NAME if x is not None],
        InvalidInput,
    ),
    "blocks.create fields": (
        lambda w, x: w.runtime.blocks.create(**{"label": "x", **x}),
        [
            {"label": 5},
            {"limit": 1.5},
            {"limit": "many"},
            {"limit": 2**63},
            {"value": 5},
            {"read_only": "perhaps"},
        ],
        InvalidInput,
    ),
    "blocks.get": (lambda w, x: w.runtime.blocks.get(x), NO_NAME, InvalidInput),
    "agent.blocks.get": (lambda w, x: w.ada.blocks.get(x), NO_LABEL, InvalidInput),
    "agent.blocks.detach": (lambda w, x: w.ada.blocks.detach(x), NO_LABEL, InvalidInput),
    "agent.blocks.attach": (
        lambda w, x: w.ada.blocks.attach(x),
        [5, None, "x", [Block(label="x")]],
        InvalidInput,
    ),
    "agent.blocks.attach label": (
        lambda w, x: w.ada.blocks.attach(Block(label="x"), label=x),
        [x for x in NO_LABEL if x is not None],
        InvalidInput,
    ),
    "block.append": (lambda w, x: w.team.append(x), NO_TEXT, InvalidInput),
    "block.insert": (lambda w, x: w.team.insert(x), NO_TEXT, InvalidInput),
    "block.insert line": (
        lambda w, x: w.team.insert("x", x),
        [*NO_WHOLE, None],
        InvalidInput,
    ),
    "block.replace old": (lambda w, x: w.team.replace(x, "x"), NO_TEXT, InvalidInput),
    "block.replace new": (lambda w, x: w.team.replace("one", x), NO_TEXT, InvalidInput),
    "block.rewrite": (lambda w, x: w.team.rewrite(x), NO_TEXT, InvalidInput),
    "block.restore": (lambda w, x: w.team.restore(x), [*NO_WHOLE, None], InvalidInput),
    "block.diff": (lambda w, x: w.team.diff(x), [*NO_WHOLE, None], InvalidInput),
    "block.diff after": (lambda w, x: w.team.diff(1, x), NO_WHOLE, InvalidInput),
    "block.update limit": (
        lambda w, x: w.team.update(limit=x),
        [*NO_WHOLE, 100.5, 0, -1],
        InvalidInput,
    ),
    "block.update read_only": (lambda w, x: w.team.update(read_only=x), NO_FLAG, InvalidInput),
    "block.update description": (
        lambda w, x: w.team.update(description=x),
        [x for x in NO_TEXT if x is not None],
        InvalidInput,
    ),
}


async def state(world: World) -> Any:
    """All that these calls could have changed."""
    ada = await world.runtime.agents.get("ada")
    team = await world.runtime.blocks.get("team")
    return (
        [agent.name for agent in await world.runtime.agents.list()],
        [block.name for block in await world.runtime.blocks.list()],
        (await ada.archive.count(), await ada.schedules()),
        (ada.settings, ada.model, ada.tools, [b.label for b in await ada.blocks.list()]),
        (team.value, team.limit, team.read_only, team.description, team.version),
    )


@pytest.mark.parametrize(
    ("call", "values", "error"), WRONG.values(), ids=[name.replace(" ", "-") for name in WRONG]
)
async def test_a_wrong_value_is_a_typed_error_and_changes_nothing(
    world: World, call: Call, values: list[Any], error: type[PagedaemonError]
) -> None:
    before = await state(world)
    for value in values:
        with pytest.raises(error) as refused:
            await call(world, value)
        assert 0 < len(str(refused.value)) < 1_000
    assert await state(world) == before


class Half:
    """A model that cannot be streamed."""

    async def complete(self, request: Any) -> Any: ...


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"store": None}, "path of a folder"),
        ({"store": 5}, "path of a folder"),
        ({"store": b"memory"}, "path of a folder"),
        ({"store": ""}, "path of a folder"),
        ({"store": "a\x00b"}, "path of a folder"),
        ({"store": "postgresql://x"}, "one folder of its own"),
        ({"model": 5}, "a name or a Model"),
        ({"model": ScriptedModel([say("x")])}, 'models={"mine": it}'),
        ({"models": [1]}, "models gives each model object a name"),
        ({"models": ScriptedModel([say("x")])}, "models gives each model object a name"),
        ({"models": {5: ScriptedModel([say("x")])}}, "5 cannot name a model"),
        ({"models": {"mine": Half()}}, "'mine' is no model object"),
        ({"models": {"mine": ScriptedModel}}, "'mine' is no model object"),
        ({"models": {"mine": Model("offline")}}, "model=Model"),
        ({"tools": weather}, "tools is a list"),
        ({"tools": None}, "tools is a list"),
        ({"tools": {"weather": weather}}, "tools is a list"),
        ({"tools": [len]}, "@tool"),
        ({"prompts": 5}, "prompts is the path of a folder"),
        ({"prompts": "absent"}, "absent"),
        ({"clock": 5}, "now"),
        ({"clock": FakeClock}, "now"),
        ({"recover": "no"}, "recover is True or False"),
    ],
    ids=str,
)
def test_a_runtime_that_cannot_work_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for door in (AsyncRuntime, Runtime):
        with pytest.raises(ConfigError, match=message):
            door(**{"store": tmp_path / "memory", **given})
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "memory").write_text("a file")
    with pytest.raises(PagedaemonError, match="memory"):
        Runtime(tmp_path / "memory")


async def test_an_iterator_is_a_list_too(runtime: AsyncRuntime) -> None:
    given: dict[str, Any] = {"blocks": iter([Block.human("Lin")]), "tools": iter([weather])}
    ada = await runtime.agents.create("ada", **given)
    assert [block.label for block in await ada.blocks.list()] == ["human"]
    assert ada.tools == ("weather",)
