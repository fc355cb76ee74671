"""The runtime: folders, spaces, reopening, and what is let go of at the end."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pagedaemon import AsyncRuntime, Block, Model, tool
from pagedaemon.errors import Closed, ConfigError, InvalidInput, NotFound, StorageUnavailable
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.llm.protocol import Part, Reply, Request
from pagedaemon.runtime import AsyncSpace
from pagedaemon.testing import ScriptedModel, both, call, say, view

SECRET = "sk-canary-5f2e9c"


def echo(request: Request) -> Reply:
    """Says what the user said last."""
    return say(f"echo {view(request).last_user}")


def opened(store: Path, **more: Any) -> AsyncRuntime:
    """A runtime whose model echoes."""
    given = {"model": "echo", "models": {"echo": ScriptedModel(echo)}, **more}
    return AsyncRuntime(store, **given)


@tool(effect="read")
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def contents(folder: Path) -> list[bytes]:
    """Of all files in it."""
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


async def public_state(space: AsyncSpace) -> dict[str, Any]:
    """Everything the API shows of a space."""
    blocks = [
        (block.id, block.name, block.label, block.value, block.limit, await block.history())
        for block in await space.blocks.list()
    ]
    return {"blocks": blocks, "agents": [await _agent(a) for a in await space.agents.list()]}


async def _agent(agent: AsyncAgent) -> dict[str, Any]:
    conversations = [
        (one.id, one.name, await one.messages(), await one.turns(limit=100), await one.context())
        for one in await agent.conversations.list()
    ]
    return {
        "who": (agent.id, agent.name, agent.model, agent.settings, agent.tools),
        "blocks": [
            (b.id, b.label, b.value, b.version, b.read_only, await b.history())
            for b in await agent.blocks.list()
        ],
        "recall": (await agent.recall.search(page_size=100), await agent.recall.count()),
        "found": await agent.recall.search("harbour"),
        "archive": (await agent.archive.search(page_size=100), await agent.archive.count()),
        "usage": await agent.usage(),
        "conversations": conversations,
    }


class TestReopening:
    """The folder is all there is."""

    async def test_everything_is_as_it_was(self, tmp_path: Path) -> None:
        def reply(request: Request) -> Reply:
            shown = view(request)
            if "weather" in shown.results:
                return say(shown.results["weather"][0])
            return both(
                call("core_memory_append", label="human", content=shown.last_user, heartbeat=True),
                call("archival_memory_insert", content=f"on {shown.last_user}", heartbeat=True),
                call("weather", city="Oslo", heartbeat=True),
            )

        given: dict[str, Any] = {"models": {"echo": ScriptedModel(reply)}, "tools": [weather]}
        async with opened(tmp_path, **given) as runtime:
            team = await runtime.blocks.create(label="team", value="Fridays", name="Büro 🚀")
            ada = await runtime.agents.create(
                "ada",
                blocks=[Block.human("Lin"), team],
                tools=[weather],
                style="native",
                timezone="Asia/Tokyo",
                limits={"steps": 9},
            )
            await runtime.agents.create("bob", model="offline", blocks=[team])
            await ada.update(style="memgpt")
            await ada.send("the harbour", author="Lin")
            other = await ada.conversations.ensure("other")
            await other.send("the lighthouse")
            await ada.reset()
            await ada.send("the pier")
            await ada.archive.insert("by hand", tags=["a", "b"], importance=3)
            await (await ada.blocks.get("human")).update(read_only=True, limit=200)
            before = await public_state(await runtime.space("default"))
        async with opened(tmp_path, **given) as runtime:
            space = await runtime.space("default")
            assert await public_state(space) == before
            ada = await runtime.agents.get("ada")
            assert (await ada.send("go on")).reply == "sunny in Oslo"

    async def test_a_request_goes_on_where_it_stopped(self, tmp_path: Path) -> None:
        model = ScriptedModel(echo)
        for text in ("one", "two", "three"):
            async with AsyncRuntime(tmp_path, model="m", models={"m": model}) as runtime:
                ada = await runtime.agents.ensure("ada", blocks=[Block.human("Lin")])
                assert (await ada.send(text)).reply == f"echo {text}"
        first, second, third = (request.messages for request in model.requests)
        assert second[: len(first)] == first
        assert third[: len(second)] == second


def test_a_model_object_is_told_that_it_needs_a_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="models="):
        AsyncRuntime(tmp_path, model=ScriptedModel([]))  # type: ignore[arg-type]


class TestSpaces:
    """Walls."""

    async def test_names_are_apart_and_ids_mean_nothing_elsewhere(self, tmp_path: Path) -> None:
        async with opened(tmp_path) as runtime:
            spaces = [await runtime.space(name) for name in ("lin", "kim")]
            agents = []
            for space in spaces:
                team = await space.blocks.create(label="team", value=space.name)
                agent = await space.agents.create("ada", blocks=[team])
                await agent.send(f"harbour of {space.name}")
                await agent.archive.insert(f"note of {space.name}")
                agents.append(agent)
            lin, kim = agents
            assert (await kim.blocks.get("team")).value == "kim"
            assert (await kim.recall.search("harbour", roles=["user"])).total == 1
            assert (await kim.archive.search("note")).total == 1
            [passage] = (await lin.archive.search()).hits
            block = await lin.blocks.get("team")
            main = await lin.conversations.get()
            for work in (
                spaces[1].agents.get(lin.id),
                spaces[1].blocks.get(block.id),
                kim.archive.get(passage.id),
                kim.blocks.attach(block, label="other"),
                spaces[1].agents.create("eve", blocks=[block]),
            ):
                with pytest.raises(NotFound):
                    await work
            assert await kim.archive.delete(passage.id) == 0
            assert (await kim.recall.search(conversation_id=main.id)).total == 0
            assert await runtime.agents.list() == []
            assert await runtime.blocks.list() == []
            with pytest.raises(NotFound):
                await spaces[1].agents.get("eve")
        for name in ("lin", "kim"):
            data = (tmp_path / "spaces" / name / "space.db").read_bytes()
            assert f"harbour of {name}".encode() in data
            assert f"harbour of {'kim' if name == 'lin' else 'lin'}".encode() not in data

    async def test_a_space_is_opened_once(self, tmp_path: Path) -> None:
        async with opened(tmp_path) as runtime:
            one, two = await asyncio.gather(runtime.space("lin"), runtime.space("lin"))
            assert one is two
            assert repr(one) == "<space 'lin'>"

    @pytest.mark.parametrize("name", ["", "Lin", "a/b", "..", "-a", "x" * 64, "ä", "a b", "a\n"])
    async def test_a_name_that_is_no_folder_is_refused(self, tmp_path: Path, name: str) -> None:
        async with opened(tmp_path) as runtime:
            with pytest.raises(InvalidInput):
                await runtime.space(name)
        assert [path.name for path in (tmp_path / "spaces").iterdir()] == ["default"]


class TestOpening:
    """What a runtime is made of."""

    def test_an_address_is_no_folder(self) -> None:
        with pytest.raises(ConfigError, match="folder"):
            AsyncRuntime("postgresql://localhost/agents")

    def test_a_model_that_cannot_be_is_said_at_once(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="name"):
            AsyncRuntime(tmp_path, model="")

    async def test_before_and_after_it_says_what_to_do(self, tmp_path: Path) -> None:
        runtime = opened(tmp_path)
        with pytest.raises(Closed, match="async with"):
            _ = runtime.agents
        await runtime.open()
        await runtime.close()
        await runtime.close()
        with pytest.raises(Closed, match="new one"):
            await runtime.open()

    async def test_a_store_that_cannot_be_opened_leaves_nothing_open(self, tmp_path: Path) -> None:
        path = tmp_path / "spaces" / "default" / "space.db"
        path.parent.mkdir(parents=True)
        path.write_text("this is no database, and long enough to be sure of it\n" * 100)
        runtime = opened(tmp_path)
        with pytest.raises(StorageUnavailable):
            await runtime.open()
        assert list((tmp_path / "workers").iterdir()) == []

    async def test_a_folder_that_cannot_be_made_is_said(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(StorageUnavailable):
            await opened(tmp_path / "file" / "store").open()

    async def test_a_space_that_cannot_be_opened_leaves_the_others(self, tmp_path: Path) -> None:
        path = tmp_path / "spaces" / "lin" / "space.db"
        path.parent.mkdir(parents=True)
        path.write_text("this is no database, and long enough to be sure of it\n" * 100)
        async with opened(tmp_path) as runtime:
            with pytest.raises(StorageUnavailable):
                await runtime.space("lin")
            ada = await runtime.agents.create("ada")
            assert (await ada.send("hello")).reply == "echo hello"


class TestFilesThatAreTakenAway:
    """What is acknowledged is in the file that the next opening finds."""

    @pytest.mark.parametrize("gone", [".", "spaces/default/space.db"])
    async def test_nothing_is_acknowledged_once_the_store_was_deleted(
        self, tmp_path: Path, gone: str
    ) -> None:
        store = tmp_path / "memory"
        async with opened(store) as runtime:
            ada = await runtime.agents.create("ada")
            await ada.send("one")
            taken = store / gone
            shutil.rmtree(taken) if taken.is_dir() else taken.unlink()
            for _ in range(2):  # a connection is dropped after the first refusal
                with pytest.raises(StorageUnavailable, match="deleted or moved while it was open"):
                    await ada.send("two")
                with pytest.raises(StorageUnavailable, match="Close this runtime"):
                    await runtime.blocks.create(label="team")
            assert not (store / "spaces" / "default" / "space.db").exists()

    async def test_nothing_is_written_over_another_file_in_its_place(self, tmp_path: Path) -> None:
        path = tmp_path / "spaces" / "default" / "space.db"
        async with opened(tmp_path) as runtime:
            await runtime.agents.create("ada")
            path.rename(path.with_name("moved.db"))
            path.write_bytes(b"")
            with pytest.raises(StorageUnavailable, match="replaced by another file"):
                await runtime.agents.create("bob")
            assert path.read_bytes() == b""

    async def test_put_back_it_is_used_again(self, tmp_path: Path) -> None:
        store, away = tmp_path / "memory", tmp_path / "away"
        async with opened(store) as runtime:
            ada = await runtime.agents.create("ada")
            store.rename(away)
            with pytest.raises(StorageUnavailable):
                await ada.send("one")
            away.rename(store)
            assert (await ada.send("two")).reply == "echo two"

    @pytest.mark.parametrize("beside", ["space.db-wal", "space.db.before-0002"])
    @pytest.mark.parametrize("empty", [True, False])
    async def test_an_emptied_file_is_not_taken_for_a_new_store(
        self, tmp_path: Path, beside: str, empty: bool
    ) -> None:
        folder = tmp_path / "spaces" / "default"
        folder.mkdir(parents=True)
        (folder / beside).write_bytes(b"left of what was there")
        if empty:
            (folder / "space.db").touch()
        with pytest.raises(StorageUnavailable, match=beside):
            await opened(tmp_path).open()
        assert (folder / beside).read_bytes() == b"left of what was there"

    async def test_an_index_without_its_store_is_not_taken_for_a_new_store(
        self, tmp_path: Path
    ) -> None:
        folder = tmp_path / "spaces" / "default"
        (folder / "index" / "model").mkdir(parents=True)
        (folder / "space.db").touch()
        with pytest.raises(StorageUnavailable, match="index beside it is left of a store"):
            await opened(tmp_path).open()
        assert (folder / "space.db").read_bytes() == b""

    async def test_what_a_killed_first_opening_leaves_is_a_new_store(self, tmp_path: Path) -> None:
        folder = tmp_path / "spaces" / "default"
        folder.mkdir(parents=True)
        for name in ("space.db", "space.db-wal"):
            (folder / name).touch()
        async with opened(tmp_path) as runtime:
            assert await runtime.agents.list() == []


class Closing:
    """A model that counts how often it is closed."""

    def __init__(self, error: Exception | None = None) -> None:
        self.closed = 0
        self._error = error

    async def complete(self, request: Request) -> Reply:
        """Echoes."""
        return echo(request)

    async def stream(self, request: Request) -> AsyncIterator[Part]:
        """Echoes."""
        yield echo(request)

    async def aclose(self) -> None:
        """Counts."""
        self.closed += 1
        if self._error is not None:
            raise self._error


class TestModelsAreClosed:
    """Once each, whoever used them."""

    async def test_a_model_of_many_agents_and_spaces_is_closed_once(self, tmp_path: Path) -> None:
        used, unused = Closing(), Closing()
        async with AsyncRuntime(tmp_path, models={"used": used, "unused": unused}) as runtime:
            for space in (await runtime.space("one"), await runtime.space("two")):
                for name, model in (("a", Model("used")), ("b", Model("used", retries=0))):
                    agent = await space.agents.create(name, model=model)
                    assert (await agent.send("hello")).reply == "echo hello"
            assert used.closed == 0
        assert (used.closed, unused.closed) == (1, 0)

    async def test_one_that_fails_to_close_keeps_nothing_else_open(self, tmp_path: Path) -> None:
        bad, good = Closing(RuntimeError("will not")), Closing()
        runtime = AsyncRuntime(tmp_path, models={"bad": bad, "good": good})
        await runtime.open()
        for name in ("good", "bad"):
            await (await runtime.agents.create(name, model=name)).send("hello")
        with pytest.raises(RuntimeError, match="will not"):
            await runtime.close()
        assert (bad.closed, good.closed) == (1, 1)
        assert list((tmp_path / "workers").iterdir()) == []


class TestKeys:
    """A key is used and nothing else."""

    async def test_it_is_stored_nowhere_and_shown_nowhere(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        model = Model("echo", api_key=SECRET)
        shown: list[str] = []
        with caplog.at_level(logging.DEBUG):
            async with opened(tmp_path, model=Model("openai/x", api_key=SECRET)) as runtime:
                ada = await runtime.agents.create("ada", model=model)
                await ada.update(model=model, name="eve")
                await runtime.agents.ensure("eve", model=model)
                await ada.send("hello")
                shown += [repr(ada), repr(ada.model), repr(model), str(model), repr(runtime)]
                shown += [repr(await ada.context()), repr(await ada.recall.search())]
                with pytest.raises(ConfigError) as raised:
                    await runtime.agents.create("bob", model=Model("nowhere", api_key=SECRET))
                shown += [str(raised.value), repr(raised.value)]
                # What is in the write-ahead log counts too.
                files = contents(tmp_path)
        files += contents(tmp_path)
        assert not [data for data in files if SECRET.encode() in data]
        assert SECRET not in " ".join(shown)
        assert SECRET not in caplog.text

    @pytest.mark.parametrize("wrong", [{"timeout": -1}, {"api_kye": SECRET}, {"extra": SECRET}])
    def test_a_mistake_beside_it_does_not_show_it(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(ConfigError) as raised:
            Model("openai/x", api_key=SECRET, **wrong)
        error: BaseException | None = raised.value
        while error is not None:
            assert SECRET not in f"{error!r} {error}"
            error = error.__cause__

    async def test_an_agent_gets_the_runtimes_key_only_for_the_same_account(
        self, tmp_path: Path
    ) -> None:
        default = Model("openai/x", api_key=SECRET)
        async with AsyncRuntime(tmp_path, model=default) as runtime:
            bodies = (await runtime.space("default"))._scheduler.bodies

            async def key(name: str, **settings: Any) -> str | None:
                agent = await runtime.agents.ensure("ada", model=Model(name, **settings))
                found = bodies.model_of(agent._record).api_key
                return None if found is None else found.get_secret_value()

            assert await key("openai/y") == SECRET
            assert await key("other/y") is None
            assert await key("openai/y", base_url="http://localhost:1/v1") is None
            assert await key("openai/y", api_key="own") == "own"
            assert await key("openai/y", temperature=1) == "own"


class TestFiles:
    """What lies in the folder."""

    async def test_two_runtimes_of_one_process_share_it(self, tmp_path: Path) -> None:
        async with opened(tmp_path) as one, opened(tmp_path) as two:
            ada = await one.agents.ensure("ada")
            same = await two.agents.get("ada")
            turns = await asyncio.gather(ada.send("one"), same.send("two"), ada.send("three"))
            assert [turn.reply for turn in turns] == ["echo one", "echo two", "echo three"]

    async def test_the_database_is_whole_when_it_is_closed(self, tmp_path: Path) -> None:
        async with opened(tmp_path) as runtime:
            await (await runtime.agents.ensure("ada")).send("hello")
        path = tmp_path / "spaces" / "default" / "space.db"
        assert sorted(p.name for p in path.parent.iterdir()) == ["space.db"]
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
