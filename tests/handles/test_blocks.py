"""Blocks as a user holds them: in a space, in an agent, and through their versions."""

from __future__ import annotations

from typing import Any

import pytest

from pagedaemon import AsyncRuntime, Block
from pagedaemon.errors import AlreadyExists, EditRefused, InvalidInput, NotFound, PagedaemonError
from pagedaemon.testing import ScriptedModel, view


class TestSpaceBlocks:
    """Blocks that stand alone."""

    async def test_made_found_and_listed(self, runtime: AsyncRuntime) -> None:
        team = await runtime.blocks.create(label="team", value="Fridays", description="When.")
        rules = await runtime.blocks.create(Block(label="team"), name="Regeln 🚀")
        assert [block.name for block in await runtime.blocks.list()] == ["Regeln 🚀", "team"]
        assert (await runtime.blocks.get("team")).id == team.id
        assert (await runtime.blocks.get(rules.id)).name == "Regeln 🚀"
        assert (team.value, team.description, team.version) == ("Fridays", "When.", 1)
        assert repr(team) == "<block 'team' 7/4000 version 1>"

    async def test_ensure_never_overwrites(self, runtime: AsyncRuntime) -> None:
        first = await runtime.blocks.ensure(label="team", value="Fridays")
        await first.append("and Mondays")
        again = await runtime.blocks.ensure(label="team", value="Fridays")
        assert (again.id, again.value) == (first.id, "Fridays\nand Mondays")

    async def test_a_name_is_taken_once(self, runtime: AsyncRuntime) -> None:
        await runtime.blocks.create(label="team")
        with pytest.raises(AlreadyExists, match="'team'"):
            await runtime.blocks.create(label="team", value="other")
        assert len(await runtime.blocks.list()) == 1

    @pytest.mark.parametrize(
        ("given", "error"),
        [
            ({}, InvalidInput),
            ({"label": ""}, InvalidInput),
            ({"label": "two words"}, InvalidInput),
            ({"label": "x" * 61}, InvalidInput),
            ({"label": "x", "limit": 0}, InvalidInput),
            ({"label": "x", "misspelt": 1}, InvalidInput),
            ({"label": "x", "value": "a\x00"}, InvalidInput),
            ({"label": "x", "description": "\ud800"}, InvalidInput),
            ({"label": "x", "name": ""}, InvalidInput),
            ({"label": "x", "name": "two\nlines"}, InvalidInput),
            ({"block": "x"}, InvalidInput),
            ({"block": Block(label="x"), "limit": 5}, InvalidInput),
            ({"label": "x", "value": "longer", "limit": 3}, EditRefused),
        ],
    )
    async def test_what_cannot_be_a_block_is_said_and_not_stored(
        self, runtime: AsyncRuntime, given: dict[str, Any], error: type[PagedaemonError]
    ) -> None:
        with pytest.raises(error):
            await runtime.blocks.create(**given)
        with pytest.raises(error):
            await runtime.blocks.ensure(**given)
        assert await runtime.blocks.list() == []

    async def test_what_is_not_there_is_not_found(self, runtime: AsyncRuntime) -> None:
        with pytest.raises(NotFound, match="'team'"):
            await runtime.blocks.get("team")
        with pytest.raises(InvalidInput):
            await runtime.blocks.get("\ud800")

    async def test_deleting_takes_it_from_all_who_held_it(
        self, runtime: AsyncRuntime, model: ScriptedModel
    ) -> None:
        team = await runtime.blocks.create(label="team")
        ada = await runtime.agents.create("ada", blocks=[team, Block.human("Lin")])
        await team.delete()
        assert [block.label for block in await ada.blocks.list()] == ["human"]
        await ada.send("hello")
        assert list(view(model.requests[0]).blocks) == ["human"]
        for work in (team.refresh(), team.append("x"), team.history(), team.diff(1), team.delete()):
            with pytest.raises(NotFound):
                await work
        with pytest.raises(NotFound):
            await team.update(limit=5)


class TestEdits:
    """Through the Python API, with the rules that hold for agents too."""

    async def test_every_edit_is_a_version_and_can_be_undone(self, runtime: AsyncRuntime) -> None:
        block = await runtime.blocks.create(label="plans", value="tea")
        await block.append("milk")
        await block.insert("first", 0)
        await block.replace("tea", "coffee")
        await block.rewrite("nothing")
        assert (block.value, block.version) == ("nothing", 5)
        history = await block.history()
        assert [version.operation for version in history] == [
            "create",
            "append",
            "insert",
            "replace",
            "rewrite",
        ]
        assert {(version.by, version.label) for version in history} == {("api", "owner")}
        diff = await block.diff(3, 4)
        assert diff.split("\n")[:2] == ["--- version 3", "+++ version 4"]
        assert "-tea" in diff
        assert "+coffee" in diff
        assert await block.diff(5) == ""
        await block.restore(3)
        assert (block.value, block.version) == ("first\ntea\nmilk", 6)
        with pytest.raises(NotFound, match="no version 9"):
            await block.restore(9)
        with pytest.raises(NotFound, match="no version 9"):
            await block.diff(9)

    async def test_a_refused_edit_changes_nothing(self, runtime: AsyncRuntime) -> None:
        block = await runtime.blocks.create(label="plans", value="tea tea", limit=10)
        stale = await runtime.blocks.get("plans")
        for work in (
            block.append("long enough"),
            block.append(" "),
            block.replace("tea", "x"),
            block.replace("coffee", "x"),
            block.replace("", "x"),
            block.insert("x", 7),
            block.rewrite("longer than ten"),
            block.rewrite("a\x00b"),
            block.update(limit=3),
        ):
            with pytest.raises((EditRefused, InvalidInput)):
                await work
        assert len(await block.history()) == 1
        assert (await block.refresh()).value == "tea tea"
        await block.append("ok")
        with pytest.raises(EditRefused) as refused:
            await stale.rewrite("mine")
        assert refused.value.reason == "stale"
        assert refused.value.current == "tea tea\nok"

    async def test_what_surrounds_the_value_changes_without_a_version(
        self, runtime: AsyncRuntime
    ) -> None:
        block = await runtime.blocks.create(label="plans")
        await block.update(description="What we plan.", limit=9, read_only=True)
        seen = await runtime.blocks.get("plans")
        assert (seen.description, seen.limit, seen.read_only) == ("What we plan.", 9, True)
        assert seen.version == 1
        await block.append("by API")
        assert block.value == "by API"
        changes: list[dict[str, Any]] = [{"limit": 0}, {"description": "a\x00"}]
        for change in changes:
            with pytest.raises(InvalidInput):
                await block.update(**change)


class TestAgentBlocks:
    """Blocks in an agent."""

    async def test_attached_under_another_label_and_taken_off(
        self, runtime: AsyncRuntime, model: ScriptedModel
    ) -> None:
        team = await runtime.blocks.create(label="team", value="Fridays")
        ada = await runtime.agents.create("ada")
        held = await ada.blocks.attach(team, label="wir")
        assert (held.label, held.id) == ("wir", team.id)
        await held.append("and Mondays")
        assert held.label == "wir"
        await ada.send("hello")
        assert view(model.requests[0]).blocks == {"wir": "Fridays\nand Mondays"}
        await ada.blocks.detach("wir")
        await ada.send("again")
        assert view(model.requests[1]).blocks == {}
        assert (await team.refresh()).value == "Fridays\nand Mondays"
        with pytest.raises(NotFound, match="'wir'"):
            await ada.blocks.detach("wir")
        with pytest.raises(NotFound, match="'wir'"):
            await ada.blocks.get("wir")

    async def test_a_block_of_its_own_goes_with_its_last_holder(
        self, runtime: AsyncRuntime
    ) -> None:
        ada = await runtime.agents.create("ada", blocks=[Block.human("Lin")])
        human = await ada.blocks.get("human")
        bob = await runtime.agents.create("bob", blocks=[human])
        await ada.blocks.detach("human")
        assert (await bob.blocks.get("human")).value == "Lin"
        assert await runtime.blocks.list() == []
        await bob.blocks.detach("human")
        with pytest.raises(NotFound, match="'human'"):
            await human.refresh()
        await ada.blocks.attach(Block.human("Lin"))

    @pytest.mark.parametrize("first", ["ada", "bob"])
    async def test_the_last_agent_that_is_deleted_takes_it_along(
        self, runtime: AsyncRuntime, first: str
    ) -> None:
        ada = await runtime.agents.create("ada", blocks=[Block.human("Lin")])
        human = await ada.blocks.get("human")
        bob = await runtime.agents.create("bob", blocks=[human])
        agents = [ada, bob] if first == "ada" else [bob, ada]
        await agents[0].delete()
        assert (await human.refresh()).value == "Lin"
        await agents[1].delete()
        with pytest.raises(NotFound, match="'human'"):
            await human.refresh()

    async def test_a_block_with_a_name_outlives_all_who_held_it(
        self, runtime: AsyncRuntime
    ) -> None:
        team = await runtime.blocks.create(label="team")
        ada = await runtime.agents.create("ada", blocks=[team])
        await ada.blocks.detach("team")
        await ada.blocks.attach(team)
        await ada.delete()
        assert [block.id for block in await runtime.blocks.list()] == [team.id]

    async def test_a_block_is_held_once(self, runtime: AsyncRuntime) -> None:
        team = await runtime.blocks.create(label="team")
        ada = await runtime.agents.create("ada", blocks=[team])
        with pytest.raises(AlreadyExists, match="as 'team'"):
            await ada.blocks.attach(team, label="crew")
        assert [block.label for block in await ada.blocks.list()] == ["team"]

    async def test_a_block_is_detached_whatever_the_agent_calls_it(
        self, runtime: AsyncRuntime
    ) -> None:
        team = await runtime.blocks.create(label="team")
        other = await runtime.blocks.create(label="crew")
        ada = await runtime.agents.create("ada", blocks=[other])
        await ada.blocks.attach(team, label="wir")
        await ada.blocks.detach(team)
        assert [block.label for block in await ada.blocks.list()] == ["crew"]
        with pytest.raises(NotFound, match="does not hold the block 'team'"):
            await ada.blocks.detach(team)
        await ada.delete()
        with pytest.raises(NotFound, match=ada.id):
            await ada.blocks.detach(other)

    async def test_of_a_deleted_agent_they_are_not_found(self, runtime: AsyncRuntime) -> None:
        ada = await runtime.agents.create("ada", blocks=[Block.human("Lin")])
        await ada.delete()
        for work in (
            ada.blocks.list(),
            ada.blocks.get("human"),
            ada.blocks.attach(Block.human("Lin")),
            ada.blocks.detach("human"),
        ):
            with pytest.raises(NotFound, match=ada.id):
                await work

    async def test_a_label_is_found_however_it_is_composed(self, runtime: AsyncRuntime) -> None:
        ada = await runtime.agents.create("ada", blocks=[Block(label="e\u0301te\u0301")])
        held = await ada.blocks.get("\u00e9t\u00e9")
        assert held.label == "\u00e9t\u00e9"
        with pytest.raises(AlreadyExists):
            await ada.blocks.attach(Block(label="e\u0301te\u0301"))
        alone = await runtime.blocks.create(label="x", name=" Cafe\u0301 ")
        assert (await runtime.blocks.get("Caf\u00e9")).id == alone.id

    async def test_one_block_to_a_label(self, runtime: AsyncRuntime) -> None:
        ada = await runtime.agents.create("ada", blocks=[Block.human("Lin")])
        with pytest.raises(AlreadyExists, match="detach"):
            await ada.blocks.attach(Block.human("Kim"))
        assert [block.value for block in await ada.blocks.list()] == ["Lin"]

    @pytest.mark.parametrize("label", ["", "two words", "a\nb", "x" * 61, "]", "\ud800", 7])
    async def test_a_label_is_checked_wherever_it_is_given(
        self, runtime: AsyncRuntime, label: Any
    ) -> None:
        ada = await runtime.agents.create("ada")
        team = await runtime.blocks.create(label="team")
        for work in (
            lambda: ada.blocks.attach(team, label=label),
            lambda: ada.blocks.attach(Block(label="x"), label=label),
            lambda: ada.blocks.get(label),
            lambda: ada.blocks.detach(label),
        ):
            with pytest.raises(InvalidInput):
                await work()
        assert await ada.blocks.list() == []

    async def test_an_edit_is_in_the_next_request_of_all_who_hold_it(
        self, runtime: AsyncRuntime, model: ScriptedModel
    ) -> None:
        team = await runtime.blocks.create(label="team", value="Fridays")
        agents = [await runtime.agents.create(name, blocks=[team]) for name in ("ada", "bob")]
        for agent in agents:
            await agent.send("when?")
        await team.replace("Fridays", "Thursdays")
        for agent in agents:
            await agent.send("when?")
        seen = [view(request).blocks["team"] for request in model.requests]
        assert seen == ["Fridays", "Fridays", "Thursdays", "Thursdays"]
