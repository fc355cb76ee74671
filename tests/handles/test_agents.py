"""Agents of a space: made, found, changed, and what they may be given."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagedaemon import AsyncRuntime, Block, Model, tool
from pagedaemon.config import NATIVE, After, Limits, Required
from pagedaemon.errors import (
    AlreadyExists,
    ConfigError,
    EditRefused,
    InvalidInput,
    NotFound,
    PagedaemonError,
    ToolDefinitionError,
)
from pagedaemon.handles.definition import GivenBlocks
from pagedaemon.testing import FakeClock, ScriptedModel, call, say, view
from pagedaemon.tools.tool import Tool

NAMES = [
    "Büro 7 \N{EN DASH} Ops 🚀",
    "אליס",
    "愛子",
    "a" * 200,
    "x'); DROP TABLE agents; --",
    "👩‍👩‍👧",
]


@tool(effect="read")
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def other_weather() -> Tool:
    """Another tool of the same name."""

    @tool(effect="read", name="weather")
    def rainy(city: str) -> str:
        """The weather in a city."""
        return f"rain in {city}"

    return rainy


class TestCreate:
    """A new agent."""

    @pytest.mark.parametrize("name", NAMES)
    async def test_any_line_of_text_is_a_name(
        self, runtime: AsyncRuntime, model: ScriptedModel, name: str
    ) -> None:
        """HV-07: and none of it reaches a provider's name fields."""
        made = await runtime.agents.create(name)
        assert (await runtime.agents.get(name)).id == made.id
        assert (await made.send("hello")).reply == "echo hello"
        assert "name" not in model.requests[0].messages[0]

    @pytest.mark.parametrize("name", ["", " ", "two\nlines", "a" * 201, "\x00", "\ud800", 7, None])
    async def test_what_is_no_line_of_text_is_no_name(
        self, runtime: AsyncRuntime, name: Any
    ) -> None:
        agents = runtime.agents
        for work in (agents.create(name), agents.ensure(name), agents.get(name)):
            with pytest.raises(InvalidInput):
                await work
        ada = await runtime.agents.create("ada")
        if name is not None:
            with pytest.raises(InvalidInput):
                await ada.update(name=name)
        assert [agent.name for agent in await runtime.agents.list()] == ["ada"]

    async def test_a_name_is_taken_once(self, runtime: AsyncRuntime) -> None:
        await runtime.agents.create("ada")
        with pytest.raises(AlreadyExists, match="ensure"):
            await runtime.agents.create("ada")

    async def test_blocks_keep_their_order_and_shared_ones_are_the_same(
        self, runtime: AsyncRuntime
    ) -> None:
        team = await runtime.blocks.create(label="team", value="Fridays")
        given: GivenBlocks = [Block.human("Lin"), team, Block.persona("Ada")]
        ada = await runtime.agents.create("ada", blocks=given)
        bob = await runtime.agents.create("bob", blocks=[team])
        held = await ada.blocks.list()
        assert [block.label for block in held] == ["human", "team", "persona"]
        assert held[1].id == team.id
        await (await bob.blocks.get("team")).append("and Mondays")
        assert (await held[1].refresh()).value == "Fridays\nand Mondays"

    @pytest.mark.parametrize(
        ("given", "error"),
        [
            ({"blocks": [Block(label="x"), Block(label="x")]}, AlreadyExists),
            (
                {"blocks": [Block(label="x", value="long").model_copy(update={"limit": 2})]},
                EditRefused,
            ),
            ({"blocks": ["no block"]}, InvalidInput),
            ({"tools": [lambda: None]}, ToolDefinitionError),
            ({"tools": [weather, other_weather()]}, ToolDefinitionError),
            ({"heartbeats": "sometimes"}, ConfigError),
            ({"style": "haiku"}, ConfigError),
            ({"misspelt": 1}, ConfigError),
            ({"persona": "Ada"}, ConfigError),
            ({"timezone": "Mars/Olympus"}, ConfigError),
            ({"limits": {"steps": 0}}, ConfigError),
            ({"paging": {"warn": 0.2}}, ConfigError),
            ({"instructions": "a\x00b"}, InvalidInput),
            ({"rules": (Required(tool="weather"),)}, ConfigError),
            ({"rules": (After(tool="pin", then=("forecast",)),)}, ConfigError),
            (
                {
                    "rules": (
                        After(tool="pin", then=("pin",)),
                        After(tool="pin", then=("page_out",)),
                    )
                },
                ConfigError,
            ),
            ({"model": ""}, ConfigError),
            ({"model": 7}, ConfigError),
        ],
    )
    async def test_what_cannot_work_is_said_and_nothing_is_stored(
        self, runtime: AsyncRuntime, given: dict[str, Any], error: type[PagedaemonError]
    ) -> None:
        with pytest.raises(error):
            await runtime.agents.create("ada", **given)
        with pytest.raises(error):
            await runtime.agents.ensure("ada", **given)
        assert await runtime.agents.list() == []
        assert await runtime.blocks.list() == []

    async def test_a_tool_that_is_given_may_be_required(self, runtime: AsyncRuntime) -> None:
        made = await runtime.agents.create(
            "ada",
            tools=[weather],
            rules=(Required(tool="weather"), Required(tool="archival_memory_insert")),
        )
        with pytest.raises(ConfigError, match="weather"):
            await made.update(tools=[])
        assert made.tools == ("weather",)

    async def test_a_stored_block_of_another_space_is_refused(self, runtime: AsyncRuntime) -> None:
        lin = await runtime.space("lin")
        foreign = await lin.blocks.create(label="team")
        with pytest.raises(NotFound):
            await runtime.agents.create("ada", blocks=[foreign])
        assert await runtime.agents.list() == []


class TestEnsure:
    """For the top of a program: run again and again."""

    async def test_settings_model_and_tools_follow_the_code(self, runtime: AsyncRuntime) -> None:
        first = await runtime.agents.ensure(
            "ada", model="openai/gpt-5", tools=[weather], heartbeats="strict", style="native"
        )
        assert first.settings.style == NATIVE
        again = await runtime.agents.ensure("ada", limits=Limits(steps=3), timezone="Asia/Tokyo")
        assert again.id == first.id
        for seen in (again, await runtime.agents.get("ada")):
            assert (seen.model, seen.tools) == (None, ())
            assert seen.settings.heartbeats == "assisted"
            assert (seen.settings.limits.steps, seen.settings.timezone) == (3, "Asia/Tokyo")
        # The model that is not given any more is not asked any more either.
        assert (await again.send("hello")).reply == "echo hello"

    async def test_what_was_learnt_is_never_overwritten(self, runtime: AsyncRuntime) -> None:
        given = [Block.human("Name: unknown")]
        ada = await runtime.agents.ensure("ada", blocks=given)
        await (await ada.blocks.get("human")).replace("unknown", "Lin")
        again = await runtime.agents.ensure("ada", blocks=[*given, Block(label="plans")])
        assert [block.value for block in await again.blocks.list()] == ["Name: Lin", ""]
        assert (await (await again.blocks.get("human")).refresh()).version == 2

    async def test_a_shared_block_under_a_label_it_holds_is_said(
        self, runtime: AsyncRuntime
    ) -> None:
        ada = await runtime.agents.ensure("ada", blocks=[Block(label="team", value="mine")])
        team = await runtime.blocks.ensure(label="team", value="ours")
        with pytest.raises(AlreadyExists, match="detach"):
            await runtime.agents.ensure("ada", blocks=[team], heartbeats="strict")
        assert (await runtime.agents.get("ada")).settings.heartbeats == "assisted"
        assert (await ada.blocks.get("team")).value == "mine"

    async def test_a_shared_block_it_calls_otherwise_is_not_attached_again(
        self, runtime: AsyncRuntime
    ) -> None:
        team = await runtime.blocks.ensure(label="team", value="ours")
        ada = await runtime.agents.ensure("ada")
        await ada.blocks.attach(team, label="crew")
        again = await runtime.agents.ensure("ada", blocks=[team])
        assert [(block.label, block.id) for block in await again.blocks.list()] == [
            ("crew", team.id)
        ]

    async def test_the_newest_code_of_a_tool_runs(
        self, runtime: AsyncRuntime, model: ScriptedModel, tmp_path: Path
    ) -> None:
        script = ScriptedModel(
            lambda request: (
                say(view(request).results["weather"][0])
                if "weather" in view(request).results
                else call("weather", city="Oslo", heartbeat=True)
            )
        )
        async with AsyncRuntime(tmp_path / "own", model="s", models={"s": script}) as own:
            ada = await own.agents.ensure("ada", tools=[weather])
            assert (await ada.send("how?")).reply == "sunny in Oslo"
            again = await own.agents.ensure("ada", tools=[other_weather()])
            assert (await again.send("and now?")).reply == "rain in Oslo"

    async def test_tools_of_one_name_stay_with_the_agents_they_were_given_to(
        self, tmp_path: Path
    ) -> None:
        script = ScriptedModel(
            lambda request: (
                say(view(request).results["weather"][0])
                if "weather" in view(request).results
                else call("weather", city="Oslo", heartbeat=True)
            )
        )
        async with AsyncRuntime(tmp_path, model="s", models={"s": script}) as runtime:
            ada = await runtime.agents.ensure("ada", tools=[weather])
            bob = await runtime.agents.ensure("bob", tools=[other_weather()])
            assert (await ada.send("how?")).reply == "sunny in Oslo"
            assert (await bob.send("how?")).reply == "rain in Oslo"


class TestGetAndList:
    """Finding them again."""

    async def test_by_name_by_id_and_in_order(self, runtime: AsyncRuntime) -> None:
        for name in ("eve", "ada", "Bob"):
            await runtime.agents.create(name)
        assert [agent.name for agent in await runtime.agents.list()] == ["Bob", "ada", "eve"]
        ada = await runtime.agents.get("ada")
        assert (await runtime.agents.get(ada.id)).name == "ada"
        assert repr(ada) == f"<agent 'ada' {ada.id}>"
        with pytest.raises(NotFound, match="'nobody'"):
            await runtime.agents.get("nobody")

    async def test_a_name_is_found_however_it_is_composed(self, runtime: AsyncRuntime) -> None:
        made = await runtime.agents.create("Ame\u0301lie ")
        assert made.name == "Am\u00e9lie"
        for name in ("Am\u00e9lie", " Ame\u0301lie"):
            assert (await runtime.agents.get(name)).id == made.id
            assert (await runtime.agents.ensure(name)).id == made.id
            with pytest.raises(AlreadyExists):
                await runtime.agents.create(name)
        other = await runtime.agents.create("bob")
        with pytest.raises(AlreadyExists):
            await other.update(name="Ame\u0301lie")


class TestUpdate:
    """Changing what is given."""

    async def test_only_what_is_given_changes(self, runtime: AsyncRuntime) -> None:
        ada = await runtime.agents.create("ada", tools=[weather], heartbeats="strict")
        assert await ada.update(name="eve", timezone="Europe/Berlin") is ada
        for seen in (ada, await runtime.agents.get("eve")):
            assert seen.name == "eve"
            assert seen.tools == ("weather",)
            assert (seen.settings.heartbeats, seen.settings.timezone) == ("strict", "Europe/Berlin")
        with pytest.raises(NotFound):
            await runtime.agents.get("ada")

    async def test_it_holds_from_the_next_turn_on(
        self, runtime: AsyncRuntime, model: ScriptedModel
    ) -> None:
        ada = await runtime.agents.create("ada")
        await ada.send("one")
        await ada.update(instructions="Speak like a pirate.", tools=[weather])
        await ada.send("two")
        before, after = (view(request) for request in model.requests)
        assert "pirate" not in before.system
        assert "pirate" in after.system
        assert "weather" in set(after.tools) - set(before.tools)

    @pytest.mark.parametrize(
        ("change", "error"),
        [
            ({"name": "bob"}, AlreadyExists),
            ({"timezone": "Nowhere"}, ConfigError),
            ({"limits": {"seconds": -1}}, ConfigError),
            ({"tools": ["weather"]}, ToolDefinitionError),
        ],
    )
    async def test_a_change_that_cannot_be_changes_nothing(
        self, runtime: AsyncRuntime, change: dict[str, Any], error: type[PagedaemonError]
    ) -> None:
        await runtime.agents.create("bob")
        ada = await runtime.agents.create("ada")
        with pytest.raises(error):
            await ada.update(heartbeats="strict", **change)
        seen = await runtime.agents.get("ada")
        assert (seen.settings, seen.tools) == (ada.settings, ())


class TestUsage:
    """What the calls cost."""

    async def test_all_turns_add_up(self, runtime: AsyncRuntime) -> None:
        ada = await runtime.agents.create("ada")
        other = await ada.conversations.ensure("other")
        turns = [await ada.send("one"), await other.send("two")]
        spent = await ada.usage()
        assert spent == turns[0].usage + turns[1].usage
        assert spent.calls == 2
        assert spent.total_tokens > 0


class TestMissingTools:
    """Code that is not here: item 7 of what must hold when a folder is opened again."""

    def _model(self) -> ScriptedModel:
        return ScriptedModel(
            lambda request: (
                say(view(request).results["weather"][0])
                if "weather" in view(request).results
                else call("weather", city="Oslo", heartbeat=True)
            )
        )

    async def test_it_is_left_out_said_once_and_answers_an_error(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with AsyncRuntime(tmp_path) as runtime:
            await runtime.agents.create("ada", tools=[weather])
        model = self._model()
        with caplog.at_level(logging.WARNING, logger="pagedaemon"):
            async with AsyncRuntime(tmp_path, model="s", models={"s": model}) as runtime:
                ada = await runtime.agents.get("ada")
                await ada.context()
                turn = await ada.send("how?")
                other = await ada.conversations.ensure("other")
                await other.send("and here?")
        assert "weather" not in view(model.requests[0]).tools
        made = turn.steps[0].calls[0]
        assert (made.tool, made.status) == ("weather", "failed")
        assert "weather" in made.result
        assert ada.tools == ("weather",)
        said = [record for record in caplog.records if "no code" in record.getMessage()]
        assert len(said) == 1
        assert "weather" in said[0].getMessage()

    @pytest.mark.parametrize("found", [weather, other_weather()], ids=["same", "changed"])
    async def test_the_runtimes_tools_bring_it_back(self, tmp_path: Path, found: Tool) -> None:
        async with AsyncRuntime(tmp_path) as runtime:
            await runtime.agents.create("ada", tools=[weather])
        model = self._model()
        async with AsyncRuntime(tmp_path, model="s", models={"s": model}, tools=[found]) as runtime:
            ada = await runtime.agents.get("ada")
            assert (await ada.send("how?")).reply == found.function("Oslo")

    async def test_a_changed_schema_is_taken_from_the_code(self, tmp_path: Path) -> None:
        @tool(effect="read", name="weather")
        def wider(city: str, days: int = 1) -> str:
            """The weather in a city."""
            return f"{city}: {days}"

        async with AsyncRuntime(tmp_path) as runtime:
            await runtime.agents.create("ada", tools=[weather])
        model = ScriptedModel([call("weather", city="Oslo", days=3, heartbeat=True), say("ok")])
        async with AsyncRuntime(tmp_path, model="s", models={"s": model}, tools=[wider]) as runtime:
            turn = await (await runtime.agents.get("ada")).send("how?")
        assert turn.steps[0].calls[0].result == "Oslo: 3"

    async def test_the_runtimes_tools_must_be_tools(self, tmp_path: Path) -> None:
        given: list[Callable[..., Any]] = [lambda: None]
        with pytest.raises(ToolDefinitionError, match="@tool"):
            AsyncRuntime(tmp_path, tools=given)  # type: ignore[arg-type]
        clock = FakeClock()

        @tool(name="send_message")
        def speak() -> str:
            """Speaks."""
            return str(clock.now())

        with pytest.raises(ToolDefinitionError, match="memory tool"):
            AsyncRuntime(tmp_path, tools=[speak])


class TestModels:
    """Which model an agent answers with."""

    async def test_its_own_goes_before_the_runtimes(self, tmp_path: Path) -> None:
        models = {name: ScriptedModel(lambda r, n=name: say(n)) for name in ("one", "two")}  # type: ignore[misc]
        async with AsyncRuntime(tmp_path, model="one", models=models) as runtime:
            ada = await runtime.agents.create("ada")
            bob = await runtime.agents.create("bob", model="two")
            assert [(await agent.send("x")).reply for agent in (ada, bob)] == ["one", "two"]
            await ada.update(model=Model("two"))
            assert (await ada.send("x")).reply == "two"

    async def test_none_is_the_runtimes_again_and_left_out_is_as_it_was(
        self, tmp_path: Path
    ) -> None:
        models = {name: ScriptedModel(lambda r, n=name: say(n)) for name in ("one", "two")}  # type: ignore[misc]
        async with AsyncRuntime(tmp_path, model="one", models=models) as runtime:
            ada = await runtime.agents.create("ada", model="two")
            await ada.update(name="eve")
            assert (await ada.send("x")).reply == "two"
            await ada.update(model=None)
            assert ada.model is None
            assert (await ada.send("x")).reply == "one"

    async def test_a_name_nobody_knows_is_said_before_anything_is_stored(
        self, runtime: AsyncRuntime
    ) -> None:
        for work in (runtime.agents.create, runtime.agents.ensure):
            with pytest.raises(ConfigError, match="nowhere"):
                await work("ada", model="nowhere")
        assert await runtime.agents.list() == []
        ada = await runtime.agents.create("ada", model="echo")
        with pytest.raises(ConfigError, match="nowhere"):
            await ada.update(model=Model("nowhere"), name="eve")
        found = await runtime.agents.get("ada")
        assert found.model == Model("echo")

    @pytest.mark.parametrize("name", ["echo", "offline", "openai/x", "mistral/x", "litellm/a/b"])
    async def test_a_name_that_leads_somewhere_needs_no_key_yet(
        self, runtime: AsyncRuntime, name: str
    ) -> None:
        ada = await runtime.agents.ensure("ada", model=name)
        assert ada.model == Model(name)

    async def test_a_name_that_is_no_longer_known_is_said_before_a_message_is_stored(
        self, tmp_path: Path, model: ScriptedModel
    ) -> None:
        async with AsyncRuntime(tmp_path / "own", models={"mine": model}) as runtime:
            await runtime.agents.create("ada", model="mine")
        async with AsyncRuntime(tmp_path / "own", model="offline") as runtime:
            ada = await runtime.agents.get("ada")
            with pytest.raises(ConfigError, match="mine"):
                await ada.send("x")
            assert await ada.recall.count() == 0
