"""Search by meaning as users meet it: nothing is lost in silence, whatever embedder and index do.

The cases AR-02 to AR-05, AR-07, ST-05 and VS-01 to VS-03, and damage to the index on the disk,
through the public API.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pagedaemon import AsyncRuntime, Runtime
from pagedaemon.errors import (
    AuthenticationFailed,
    ConfigError,
    EmbeddingError,
    InvalidInput,
    MissingDependency,
)
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.llm.embedding import minilm
from pagedaemon.memory.meaning import SearchStatus
from pagedaemon.store.index.finder import IndexMode
from pagedaemon.testing import FakeEmbedder, ScriptedModel, call, say

INDEXES: tuple[IndexMode, ...] = ("exact", "chroma")


def opened(
    folder: Path, embedder: Any, *, script: Sequence[Any] = (), index: IndexMode = "exact"
) -> AsyncRuntime:
    models = {"script": ScriptedModel(script)}
    return AsyncRuntime(folder, model="script", models=models, embedder=embedder, index=index)


async def until(
    runtime: AsyncRuntime, true: Callable[[SearchStatus], bool], seconds: float = 20
) -> SearchStatus:
    """The status once it is as wished."""
    async with asyncio.timeout(seconds):
        status = await runtime.search_status()
        while not true(status):
            await asyncio.sleep(0.02)
            status = await runtime.search_status()
    return status


async def settled(runtime: AsyncRuntime, stored: int) -> SearchStatus:
    return await until(runtime, lambda status: status.stored == stored and not status.pending)


async def texts(agent: AsyncAgent, query: str) -> list[str]:
    return [hit.text for hit in (await agent.archive.search(query)).hits]


# ------------------------------------------------------------------ AR-02


@pytest.mark.parametrize("index", INDEXES)
async def test_best_stands_first_and_higher_is_better_whatever_answers(
    tmp_path: Path, index: IndexMode
) -> None:
    """AR-02."""
    embedder = FakeEmbedder({"espresso": "coffee"})
    async with opened(tmp_path, embedder, index=index) as runtime:
        agent = await runtime.agents.ensure("ada")
        await agent.archive.insert("books on the shelf")
        await agent.archive.insert("coffee in the morning")
        await settled(runtime, 2)
        await agent.archive.search("espresso")
        await until(runtime, lambda status: status.via == index)
        page = await agent.archive.search("espresso")
        assert [hit.text for hit in page.hits] == ["coffee in the morning", "books on the shelf"]
        best, worst = page.hits
        assert best.score > worst.score
        assert (best.via, worst.via) == (index, index)
        assert best.parts == {"meaning": best.score}
        (only,) = (await agent.archive.search("espresso", floor=0.2)).hits
        assert only == best
        words = (await agent.archive.search("coffee")).hits[0]
        assert set(words.parts) == {"keywords", "meaning"}
        assert words.score == pytest.approx(sum(words.parts.values()))


async def test_without_an_embedder_hits_say_that_words_found_them(tmp_path: Path) -> None:
    """AR-02."""
    async with opened(tmp_path, None) as runtime:
        agent = await runtime.agents.ensure("ada")
        await agent.archive.insert("books on the shelf")
        await agent.archive.insert("coffee, coffee and coffee again")
        await agent.archive.insert("tea or coffee with a long text of other words around it")
        hits = (await agent.archive.search("coffee")).hits
        assert [hit.text[:6] for hit in hits] == ["coffee", "tea or"]
        assert hits[0].score > hits[1].score
        assert [hit.via for hit in hits] == ["keywords"] * 2
        assert (await runtime.search_status()).model is None
        assert (await agent.archive.search(" ")).hits[0].via is None


# ------------------------------------------------------------------ AR-03


async def test_an_embedder_that_fails_loses_nothing_and_is_not_silent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """AR-03."""
    embedder = FakeEmbedder({"automobile": "car"})

    def insert(content: str) -> Any:
        return call("archival_memory_insert", content=content, heartbeat=True)

    def search(query: str) -> Any:
        return call("archival_memory_search", query=query, heartbeat=True)

    script = [
        insert("green tea"),
        say("1"),
        insert("a red car"),
        search("car"),
        search("automobile"),
        say("2"),
        insert("a red car"),
        search("automobile"),
        say("3"),
    ]
    async with opened(tmp_path, embedder, script=script) as runtime:
        agent = await runtime.agents.ensure("ada")
        await agent.send("remember tea")
        await settled(runtime, 3)
        embedder.fail(None, EmbeddingError("the embedder is gone", kind="unavailable"))
        turn = await agent.send("remember the car")
        saved, by_words, by_meaning = [step.calls[0].result for step in turn.steps[:3]]
        assert saved.startswith("Saved")
        assert "a red car" in by_words
        assert by_meaning.startswith("Nothing found")
        status = await until(runtime, lambda status: status.failed > 0)
        assert status.errors == ("the embedder is gone",)
        assert "the embedder is gone" in caplog.text
        embedder.fail(0)
        await until(runtime, lambda status: not status.pending)
        again = await agent.send("remember the car again")
        assert again.steps[0].calls[0].result.startswith("Already there")
        assert "a red car" in again.steps[1].calls[0].result
        assert await agent.archive.count() == 2


# ------------------------------------------------------------------ AR-04


async def test_only_the_embedder_that_was_given_is_used_on_every_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AR-04. That no connection is tried holds for every test here."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    embedder = FakeEmbedder(dimension=8)
    script = [
        call("archival_memory_insert", content="from a tool", heartbeat=True),
        call("archival_memory_search", query="tool", heartbeat=True),
        call("conversation_search", query="what was said", heartbeat=True),
        say("done"),
    ]
    document = tmp_path / "notes.txt"
    document.write_text("from a file", encoding="utf-8")
    async with opened(tmp_path / "store", embedder, script=script) as runtime:
        agent = await runtime.agents.ensure("ada")
        await agent.archive.insert("from the api")
        await agent.archive.load(document)
        await agent.send("go")
        status = await settled(runtime, 5)
        await agent.archive.search("api")
        await agent.recall.search("go")
        assert (status.model, status.errors) == ("fake", ())
    documents = {text for purpose, some in embedder.calls for text in some if purpose == "document"}
    assert documents == {
        "from a tool",
        "from the api",
        "from a file",
        "user: go",
        "assistant: done",
    }
    assert {"tool", "what was said", "api", "go"} <= {
        text for purpose, some in embedder.calls for text in some if purpose == "query"
    }
    assert embedder.closed == 1


def test_an_embedder_that_cannot_be_had_fails_at_creation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AR-04."""
    monkeypatch.setattr(minilm, "missing_packages", lambda: ["onnxruntime"])
    with pytest.raises(MissingDependency, match="onnxruntime"):
        AsyncRuntime(tmp_path, embedder="local")
    with pytest.raises(ConfigError, match="no embedder 'minilm'"):
        AsyncRuntime(tmp_path, embedder="minilm")


async def test_without_the_local_embedders_packages_search_is_by_words_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """VS-03."""
    monkeypatch.setattr(minilm, "missing_packages", lambda: ["onnxruntime"])
    async with opened(tmp_path, "auto") as runtime:
        agent = await runtime.agents.ensure("ada")
        await agent.archive.insert("green tea")
        assert await texts(agent, "tea") == ["green tea"]
    assert "search is by keywords only" in caplog.text


# ------------------------------------------------------------------ AR-05


class Narrow(FakeEmbedder):
    """Refuses more than 512 tokens of its own: words of up to four letters, or single others."""

    async def embed(self, texts: Any, *, purpose: Any) -> list[Any]:
        for text in texts:
            size = sum(-(-len(word) // 4) if word.isascii() else len(word) for word in text.split())
            if size > 512:
                raise EmbeddingError(f"{size} tokens are more than 512")
        return await super().embed(texts, purpose=purpose)


LONG = {
    "code": "\n".join(
        f"def step_{number}(value: int) -> int:\n    return value * {number} + offset"
        for number in range(150)
    ),
    "chinese": "".join(f"第{number}天我们去了海边看日出。" for number in range(150)),
    "unbroken": "".join(f"{number:04x}" for number in range(2_000)),
}


@pytest.mark.parametrize("kind", LONG)
async def test_text_of_any_length_is_one_memory_found_by_its_last_part(
    tmp_path: Path, kind: str
) -> None:
    """AR-05."""
    async with opened(tmp_path, Narrow()) as runtime:
        agent = await runtime.agents.ensure("ada")
        await agent.archive.insert("the kettle is in the kitchen")
        long = f"{LONG[kind]}\nThe safe opens with the kumquat."
        saved = await agent.archive.insert(long)
        await settled(runtime, 2)
        page = await agent.archive.search("kumquat opens safe", floor=0.2)
        assert page.hits[0].id == saved.id
        assert page.hits[0].parts["meaning"] > 0
        assert page.total == 1
        assert await agent.archive.count() == 2


# ------------------------------------------------------------------ AR-07


async def test_another_embedder_is_named_with_sizes_and_one_command_embeds_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """AR-07."""
    async with opened(tmp_path, FakeEmbedder(name="old", dimension=8)) as runtime:
        agent = await runtime.agents.ensure("ada")
        for number in range(20):
            await agent.archive.insert(f"fact {number} of twenty")
        await settled(runtime, 20)
    caplog.set_level(logging.WARNING)
    new = FakeEmbedder({"none": "fact"}, name="new", dimension=16)
    new.fail(None)
    async with opened(tmp_path, new) as runtime:
        assert "old (8 dimensions)" in caplog.text
        assert "new (16 dimensions)" in caplog.text
        agent = await runtime.agents.get("ada")
        assert (await agent.archive.search("seven fact 7")).total == 20, "by words meanwhile"
        await agent.archive.insert("fact 20 of more")
        new.fail(0)
        status = await runtime.reindex()
        assert (status.model, status.stored, status.pending) == ("new", 21, 0)
        assert status.earlier == ()
        assert (await agent.archive.search("none")).hits[0].via == "exact"


async def test_the_same_name_for_vectors_of_another_size_is_refused_at_the_door(
    tmp_path: Path,
) -> None:
    """AR-07."""
    async with opened(tmp_path, FakeEmbedder(dimension=8)) as runtime:
        agent = await runtime.agents.ensure("ada")
        await agent.archive.insert("one fact")
        await settled(runtime, 1)
    with pytest.raises(ConfigError, match=r"'fake' .* 8 dimensions .* 16"):
        await opened(tmp_path, FakeEmbedder(dimension=16)).open()
    async with opened(tmp_path, FakeEmbedder(dimension=8)) as runtime:
        assert (await runtime.search_status()).stored == 1


# ------------------------------------------------------------------ ST-05


@pytest.mark.parametrize("index", INDEXES)
async def test_deleting_all_of_one_agent_leaves_every_passage_and_vector_of_another(
    tmp_path: Path, index: IndexMode
) -> None:
    """ST-05. In words, vectors and index; and what names nothing is not taken for everything."""
    embedder = FakeEmbedder({"espresso": "coffee"})
    async with opened(tmp_path, embedder, index=index) as runtime:
        ada, bob = [await runtime.agents.create(name) for name in ("ada", "bob")]
        for number in range(5):
            await ada.archive.insert(f"coffee of ada {number}")
            await bob.archive.insert(f"coffee of bob {number}")
        await settled(runtime, 10)
        await bob.archive.search("espresso")
        await until(runtime, lambda status: status.via == index)
        ids = [hit.id for hit in (await ada.archive.search(page_size=100)).hits]
        with pytest.raises(InvalidInput, match="ids"):
            await ada.archive.delete()
        assert await ada.archive.delete(*ids) == 5
        assert await ada.archive.delete(*ids) == 0
        assert (await ada.archive.count(), await bob.archive.count()) == (0, 5)
        assert await texts(ada, "espresso") == []
        theirs = (await bob.archive.search("espresso")).hits
        assert sorted(hit.text for hit in theirs) == [f"coffee of bob {n}" for n in range(5)]
        assert {hit.via for hit in theirs} == {index}
        assert (await settled(runtime, 5)).failed == 0
    async with opened(tmp_path, embedder, index=index) as runtime:
        bob = await runtime.agents.get("bob")
        assert len((await bob.archive.search("espresso")).hits) == 5


@pytest.mark.parametrize("index", INDEXES)
async def test_a_deleted_agents_passages_messages_and_vectors_are_gone_and_no_others(
    tmp_path: Path, index: IndexMode
) -> None:
    """ST-04, where it is searched by meaning."""
    embedder = FakeEmbedder({"espresso": "coffee"})
    script = [say("coffee it is")] * 2
    async with opened(tmp_path, embedder, script=script, index=index) as runtime:
        ada, bob = [await runtime.agents.create(name) for name in ("ada", "bob")]
        for agent in (ada, bob):
            await agent.archive.insert("coffee is kept in the tin")
            await agent.send("coffee or tea?")
        both_agents = 2 * 3
        await settled(runtime, both_agents)
        await bob.archive.search("espresso")
        await until(runtime, lambda status: status.via == index)
        await ada.delete()
        status = await settled(runtime, both_agents // 2)
        assert (status.stored, status.pending, status.failed) == (both_agents // 2, 0, 0)
        assert await texts(bob, "espresso") == ["coffee is kept in the tin"]
        assert (await bob.recall.search("espresso")).total == 2
    async with opened(tmp_path, embedder, index=index) as runtime:
        assert (await runtime.search_status()).stored == both_agents // 2


# ------------------------------------------------------------------ VS-01, VS-02, VS-03

SECOND = """
import asyncio, logging, sys
from pagedaemon import AsyncRuntime, Runtime
from pagedaemon.testing import FakeEmbedder, network_guard

async def main(folder):
    runtime = AsyncRuntime(folder, model="offline", embedder=FakeEmbedder(), index="chroma")
    async with runtime:
        agent = await runtime.agents.get("ada")
        print((await agent.archive.search("tea")).hits[0].text)
        for number in range(10):
            await agent.archive.insert(f"second {number}")
        while (await runtime.search_status()).pending:
            await asyncio.sleep(0.05)

logging.basicConfig(level=logging.WARNING, stream=sys.stdout)
with network_guard() as attempts:
    asyncio.run(main(sys.argv[1]))
print("attempts", len(attempts))
print("loaded", [name for name in ("chromadb", "onnxruntime") if name in sys.modules])
"""


async def test_two_processes_on_one_folder_search_and_lose_nothing(tmp_path: Path) -> None:
    """VS-01: the second one searches exactly while the first has the index. VS-02, VS-03: neither
    loads Chroma or another embedder, or tries to reach the network."""
    store = tmp_path / "store"
    async with opened(store, FakeEmbedder(), index="chroma") as runtime:
        agent = await runtime.agents.ensure("ada")
        await agent.archive.insert("green tea")
        await settled(runtime, 1)
        await agent.archive.search("tea")
        await until(runtime, lambda status: status.via == "chroma")
        second = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            SECOND,
            str(store),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HOME": str(tmp_path / "home")},
        )
        for number in range(10):
            await agent.archive.insert(f"first {number}")
        said = (await second.communicate())[0].decode()
        assert second.returncode == 0, said
        assert "green tea" in said
        assert "attempts 0" in said
        assert "loaded []" in said
        assert "ERROR" not in said
        await settled(runtime, 21)
        for who in ("first", "second"):
            assert (await agent.archive.search(f"{who} 9", floor=0.9)).hits[0].text == f"{who} 9"
    async with opened(store, FakeEmbedder(), index="chroma") as runtime:
        status = await runtime.search_status()
        assert (status.stored, status.pending) == (21, 0)


@pytest.mark.parametrize("index", INDEXES)
async def test_after_a_restart_all_is_found_listed_counted_and_deleted(
    tmp_path: Path, index: IndexMode
) -> None:
    """VS-02."""
    async with opened(tmp_path, FakeEmbedder(dimension=8), index=index) as runtime:
        agent = await runtime.agents.ensure("ada")
        saved = [await agent.archive.insert(f"fact number {number}") for number in range(5)]
        await settled(runtime, 5)
    async with opened(tmp_path, FakeEmbedder(dimension=8), index=index) as runtime:
        agent = await runtime.agents.get("ada")
        assert (await agent.archive.search("number 3")).total == 5
        await agent.archive.delete(saved[3].id)
        assert "fact number 3" not in await texts(agent, "number 3")
        assert (await agent.archive.search()).total == await agent.archive.count() == 4
        assert (await runtime.search_status()).stored == 4


# ------------------------------------------------------------------ damage to the index


def _emptied(index: Path) -> None:
    for file in [path for path in index.rglob("*") if path.is_file()]:
        file.unlink()


def _truncated(index: Path) -> None:
    for file in index.rglob("*.sqlite3"):
        os.truncate(file, file.stat().st_size // 2)


def _random(index: Path) -> None:
    for file in index.rglob("*.*"):
        if file.is_file():
            file.write_bytes(os.urandom(max(64, file.stat().st_size)))


DAMAGE: dict[str, Callable[[Path], None]] = {
    "removed": lambda index: shutil.rmtree(index),
    "emptied": _emptied,
    "truncated": _truncated,
    "random": _random,
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_whatever_becomes_of_the_index_on_the_disk_search_answers_the_same(
    tmp_path: Path, damage: str
) -> None:
    """O9; every way of damage is tried in tests/store/index."""
    async with opened(tmp_path, FakeEmbedder(), index="chroma") as runtime:
        agent = await runtime.agents.ensure("ada")
        for number in range(30):
            await agent.archive.insert(f"fact number {number}")
        await settled(runtime, 30)
        await agent.archive.search("number 7")
        await until(runtime, lambda status: status.via == "chroma")
        before = await texts(agent, "fact number 7")
    DAMAGE[damage](tmp_path / "spaces" / "default" / "index")
    async with opened(tmp_path, FakeEmbedder(), index="chroma") as runtime:
        agent = await runtime.agents.get("ada")
        assert await texts(agent, "fact number 7") == before
        await until(runtime, lambda status: status.via == "chroma", 60)
        assert await texts(agent, "fact number 7") == before


# ------------------------------------------------------------------ what is embedded, and when


async def test_what_was_said_is_embedded_however_its_turn_ended(tmp_path: Path) -> None:
    embedder = FakeEmbedder()
    script = [say("all is well"), AuthenticationFailed("no such key"), say("well again")]
    async with opened(tmp_path, embedder, script=script) as runtime:
        agent = await runtime.agents.ensure("ada")
        await agent.send("how are you")
        with pytest.raises(AuthenticationFailed):
            await agent.send("are you there")
        await agent.send("and now")
        await settled(runtime, 5)
    documents = {text for purpose, some in embedder.calls for text in some if purpose == "document"}
    assert {"user: how are you", "user: are you there", "user: and now"} <= documents
    assert {"assistant: all is well", "assistant: well again"} <= documents


async def test_a_tool_shows_nothing_under_the_floor_and_the_api_hides_nothing(
    tmp_path: Path,
) -> None:
    script = [call("archival_memory_search", query="submarines", heartbeat=True), say("none")]
    async with opened(tmp_path, FakeEmbedder(), script=script) as runtime:
        agent = await runtime.agents.ensure("ada")
        await agent.archive.insert("green tea in the garden")
        await settled(runtime, 1)
        turn = await agent.send("look")
        assert turn.steps[0].calls[0].result.startswith("Nothing found")
        assert (await agent.archive.search("submarines")).total == 1
        assert (await agent.archive.search("submarines", floor=0.2)).total == 0
        with pytest.raises(InvalidInput, match="floor is a number"):
            await agent.archive.search("submarines", floor="high")  # type: ignore[arg-type]


async def test_a_message_is_found_by_meaning_by_tool_and_api(tmp_path: Path) -> None:
    script = [
        say("noted"),
        call("conversation_search", query="automobile", heartbeat=True),
        say("found"),
    ]
    embedder = FakeEmbedder({"automobile": "car"})
    async with opened(tmp_path, embedder, script=script) as runtime:
        agent = await runtime.agents.ensure("ada")
        await agent.send("I bought a red car", author="Lin")
        await settled(runtime, 2)
        turn = await agent.send("look it up")
        assert "I bought a red car" in turn.steps[0].calls[0].result
        (best, *_) = (await agent.recall.search("automobile")).hits
        assert (best.text, best.via) == ("I bought a red car", "exact")
        assert set(best.parts) == {"meaning", "episode", "beside", "length", "statement"}


# ------------------------------------------------------------------ settings


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"embedder": 5}, "embedder is"),
        ({"embedder": FakeEmbedder}, "embedder is"),
        ({"embedder": object()}, "embedder is"),
        ({"index": "faiss"}, "index is one of auto, exact, chroma"),
        ({"chroma_url": "localhost:8000"}, "chroma_url is the address"),
        ({"index": "exact", "chroma_url": "http://localhost:8000"}, "leave out one"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_at_the_door(
    tmp_path: Path, wrong: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        AsyncRuntime(tmp_path, **wrong)
    assert list(tmp_path.iterdir()) == []


def test_the_blocking_door_has_the_same_status_and_command(tmp_path: Path) -> None:
    embedder = FakeEmbedder()
    told: list[tuple[int, int | None, str]] = []
    with Runtime(tmp_path, model="offline", embedder=embedder) as runtime:
        agent = runtime.agents.ensure("ada")
        agent.archive.insert("green tea")
        status = runtime.reindex(lambda *what: told.append(what))
        assert (status.stored, status.pending) == (1, 0)
        assert runtime.search_status() == status
        assert runtime.space("other").search_status().stored == 0
    assert told
