"""Another embedder on a store in use: no answer is wrong or silently empty at any moment, and in
the end nothing of the former one is left."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pagedaemon import AsyncRuntime
from pagedaemon.errors import EmbeddingError
from pagedaemon.llm.embedding.protocol import Purpose
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.memory.meaning import SearchStatus
from pagedaemon.store.index.finder import IndexMode
from pagedaemon.store.vectors import Vector
from pagedaemon.testing import FakeEmbedder, ScriptedModel, call, say, view

SYNONYMS = {"automobile": "car", "vermilion": "red"}
FACTS = 300


def asking(request: Request) -> Reply:
    """Searches for what it is asked, and repeats what came of it."""
    seen = view(request)
    found = seen.results.get("archival_memory_search")
    if found is None:
        return call("archival_memory_search", query=seen.last_user, heartbeat=True)
    return say(found[-1])


def embedder(name: str, before: Callable[[], object] | None = None) -> FakeEmbedder:
    async def hold() -> None:
        if before is not None:
            found = before()
            if asyncio.iscoroutine(found):
                await found

    return FakeEmbedder(SYNONYMS, name=name, dimension=64, before=hold)


@asynccontextmanager
async def opened(
    folder: Path, embedder: FakeEmbedder | None, index: IndexMode = "exact"
) -> AsyncIterator[AsyncRuntime]:
    async with AsyncRuntime(
        folder,
        model="script",
        models={"script": ScriptedModel(asking)},
        embedder=embedder,
        index=index,
    ) as runtime:
        yield runtime


async def until(runtime: AsyncRuntime, true: Callable[[SearchStatus], bool]) -> SearchStatus:
    async with asyncio.timeout(60):
        status = await runtime.search_status()
        while not true(status):
            await asyncio.sleep(0.02)
            status = await runtime.search_status()
    return status


def done(status: SearchStatus) -> bool:
    return not status.pending and not status.earlier


def models_stored(folder: Path) -> dict[str, int]:
    """By model, how many vectors the table has."""
    (path,) = folder.rglob("space.db")
    connection = sqlite3.connect(path)
    try:
        found = connection.execute("SELECT model, count(*) FROM embeddings GROUP BY model")
        return dict(found.fetchall())
    finally:
        connection.close()


def indexes(folder: Path) -> list[Path]:
    """Folders of vector indexes."""
    return list(folder.rglob("index/*"))


async def filled(folder: Path, index: IndexMode = "exact") -> None:
    """A store with vectors of `old`."""
    async with opened(folder, embedder("old"), index) as runtime:
        ada = await runtime.agents.ensure("ada")
        await ada.archive.insert_many(
            [*(f"fact {number} of the sea" for number in range(FACTS)), "Lin drives a red car"]
        )
        await runtime.reindex()
        if index == "chroma":
            await ada.archive.search("automobile")
            await until(runtime, lambda status: status.via == "chroma")


class Gate:
    """Holds texts up, not queries, until it is opened; lets some batches through before."""

    def __init__(self, batches: int) -> None:
        self.left = batches
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def __call__(self) -> None:
        self.left -= 1
        if self.left < 0:
            self.reached.set()
            await self.opened.wait()


@pytest.mark.parametrize("batches", [0, 1, 5])
async def test_while_texts_get_new_vectors_words_find_all_and_what_waits_is_said(
    tmp_path: Path, batches: int
) -> None:
    await filled(tmp_path)
    gate = Gate(batches)
    async with opened(tmp_path, embedder("new", gate)) as runtime:
        ada = await runtime.agents.get("ada")
        for expected_first in ("before anything is begun", "while it is held up"):
            found = await ada.archive.search("red car of Lin")
            assert found.hits[0].text == "Lin drives a red car", expected_first
            assert found.hits[0].via == "keywords"
            assert found.pending > 0
            by_meaning = await ada.archive.search("vermilion automobile")
            assert by_meaning.hits == ()
            assert by_meaning.pending > 0
            status = await runtime.search_status()
            assert (status.via, status.earlier) == ("keywords", ("old",))
            assert status.pending > 0
            async with asyncio.timeout(30):
                await gate.reached.wait()
        assert models_stored(tmp_path)["old"] == FACTS + 1, "who turns back finds all"
        gate.opened.set()
        await until(runtime, done)
        found = await ada.archive.search("vermilion automobile")
        assert found.hits[0].text == "Lin drives a red car"
        assert (found.hits[0].via, found.pending) == ("exact", 0)
    assert models_stored(tmp_path) == {"new": FACTS + 1}


async def test_the_agent_is_told_what_its_search_could_not_find_yet(tmp_path: Path) -> None:
    await filled(tmp_path)
    gate = Gate(0)
    async with opened(tmp_path, embedder("new", gate)) as runtime:
        ada = await runtime.agents.get("ada")
        turn = await ada.send("vermilion automobile")
        assert turn.reply is not None
        # What was just said waits as well.
        assert f"{FACTS + 2} stored texts cannot be found by meaning yet" in turn.reply
        gate.opened.set()
        await until(runtime, done)
        turn = await ada.send("vermilion automobile")
        assert turn.reply is not None
        assert "Lin drives a red car" in turn.reply
        turn = await ada.send("nothing like this")
        assert turn.reply is not None
        assert turn.reply.startswith("Nothing found")
        assert "by meaning" not in turn.reply


async def test_every_answer_during_the_change_is_right_or_says_that_something_waits(
    tmp_path: Path,
) -> None:
    await filled(tmp_path)

    async def slowly() -> None:
        await asyncio.sleep(0.02)

    answers = 0
    async with opened(tmp_path, embedder("new", slowly)) as runtime:
        ada = await runtime.agents.get("ada")
        status = await runtime.search_status()
        while not done(status):
            by_words = await ada.archive.search("red car")
            assert by_words.hits[0].text == "Lin drives a red car"
            by_meaning = await ada.archive.search("vermilion automobile")
            first = by_meaning.hits[0].text if by_meaning.hits else None
            assert first == "Lin drives a red car" or (first is None and by_meaning.pending > 0)
            kept = await ada.archive.insert(f"new remark {answers}")
            found = await ada.archive.search(f"remark {answers}")
            assert kept.id in [hit.id for hit in found.hits]
            await ada.archive.delete(kept.id)
            gone = await ada.archive.search(f"remark {answers}")
            assert kept.id not in [hit.id for hit in gone.hits]
            answers += 1
            status = await runtime.search_status()
    assert answers > 3
    assert set(models_stored(tmp_path)) == {"new"}


async def test_old_vectors_stay_as_long_as_the_new_embedder_does_not_answer(
    tmp_path: Path,
) -> None:
    await filled(tmp_path)
    broken = embedder("new")
    broken.fail(None)
    async with opened(tmp_path, broken) as runtime:
        ada = await runtime.agents.get("ada")
        assert (await ada.archive.search("red car")).hits[0].text == "Lin drives a red car"
        await until(runtime, lambda status: status.failed > 0)
        found = await ada.archive.search("vermilion automobile")
        assert (found.hits, found.pending) == ((), FACTS + 1)
    assert models_stored(tmp_path) == {"old": FACTS + 1}
    async with opened(tmp_path, embedder("old")) as runtime:
        ada = await runtime.agents.get("ada")
        found = await ada.archive.search("vermilion automobile")
        assert found.hits[0].text == "Lin drives a red car"


async def test_a_text_that_is_refused_holds_no_change_up_and_goes_on_waiting(
    tmp_path: Path,
) -> None:
    await filled(tmp_path)

    class Picky(FakeEmbedder):
        """Refuses one text."""

        async def embed(self, texts: Sequence[str], *, purpose: Purpose) -> list[Vector]:
            if purpose == "document" and any("fact 7 " in text for text in texts):
                raise EmbeddingError("not this one", kind="refused")
            return await super().embed(texts, purpose=purpose)

    async with opened(tmp_path, Picky(SYNONYMS, name="new", dimension=64)) as runtime:
        ada = await runtime.agents.get("ada")
        status = await until(runtime, lambda status: not status.earlier)
        assert (status.stored, status.pending, status.failed) == (FACTS, 1, 1)
        found = await ada.archive.search("vermilion automobile")
        assert found.hits[0].text == "Lin drives a red car"
        assert found.pending == 1
        by_words = (await ada.archive.search("7")).hits
        assert "fact 7 of the sea" in [hit.text for hit in by_words]
    assert models_stored(tmp_path) == {"new": FACTS}


async def test_a_change_that_was_cut_off_goes_on_when_the_store_is_opened_again(
    tmp_path: Path,
) -> None:
    await filled(tmp_path)
    gate = Gate(3)
    async with opened(tmp_path, embedder("new", gate)) as runtime:
        ada = await runtime.agents.get("ada")
        await ada.archive.search("car")
        async with asyncio.timeout(30):
            await gate.reached.wait()
    assert 0 < models_stored(tmp_path)["new"] <= FACTS
    async with opened(tmp_path, embedder("new")) as runtime:
        ada = await runtime.agents.get("ada")
        found = await ada.archive.search("vermilion automobile")
        assert found.hits == ()
        assert found.pending > 0
        await until(runtime, done)
        found = await ada.archive.search("vermilion automobile")
        assert found.hits[0].text == "Lin drives a red car"
    assert models_stored(tmp_path) == {"new": FACTS + 1}


async def test_whoever_turns_back_before_the_end_finds_by_meaning_at_once(tmp_path: Path) -> None:
    await filled(tmp_path)
    gate = Gate(2)
    async with opened(tmp_path, embedder("new", gate)) as runtime:
        ada = await runtime.agents.get("ada")
        await ada.archive.search("car")
        async with asyncio.timeout(30):
            await gate.reached.wait()
    async with opened(tmp_path, embedder("old")) as runtime:
        ada = await runtime.agents.get("ada")
        found = await ada.archive.search("vermilion automobile")
        assert found.hits[0].text == "Lin drives a red car"
        assert found.hits[0].via == "exact"
        await until(runtime, done)
    assert models_stored(tmp_path) == {"old": FACTS + 1}


async def test_the_former_index_leaves_the_disk_too(tmp_path: Path) -> None:
    await filled(tmp_path, "chroma")
    (old,) = indexes(tmp_path)
    async with opened(tmp_path, embedder("new"), "chroma") as runtime:
        ada = await runtime.agents.get("ada")
        await ada.archive.search("car")
        await until(runtime, done)
        await ada.archive.search("car")
        await until(runtime, lambda status: status.via == "chroma")
        found = await ada.archive.search("vermilion automobile")
        assert found.hits[0].text == "Lin drives a red car"
        assert found.hits[0].via == "chroma"
    (left,) = indexes(tmp_path)
    assert left != old


async def test_without_an_embedder_nothing_waits(tmp_path: Path) -> None:
    async with opened(tmp_path, None) as runtime:
        ada = await runtime.agents.ensure("ada")
        await ada.archive.insert("Lin drives a red car")
        found = await ada.archive.search("car")
        assert (found.total, found.pending) == (1, 0)
        assert (await ada.recall.search("car")).pending == 0


async def changed_over_by_another(folder: Path) -> None:
    """Another runtime on the same store, as another process would be, with an embedder `new`."""
    async with opened(folder, embedder("new")) as other:
        await (await other.agents.get("ada")).archive.search("car")
        await until(other, done)


async def test_who_finds_that_another_process_removed_its_vectors_searches_by_words_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await filled(tmp_path)
    async with opened(tmp_path, embedder("old")) as runtime:
        ada = await runtime.agents.get("ada")
        assert (await ada.archive.search("vermilion automobile")).hits
        await changed_over_by_another(tmp_path)
        with caplog.at_level(logging.WARNING, "pagedaemon"):
            for more in range(3):
                by_meaning = await ada.archive.search("vermilion automobile")
                assert (by_meaning.hits, by_meaning.pending) == ((), FACTS + 1 + more)
                by_words = await ada.archive.search("red car")
                assert by_words.hits[0].text == "Lin drives a red car"
                assert by_words.hits[0].via == "keywords"
                await ada.archive.insert(f"a remark {more}")
        status = await runtime.search_status()
        assert (status.via, status.stored, status.pending) == ("keywords", 0, FACTS + 4)
        assert status.earlier == ("new",)
        turn = await ada.send("vermilion automobile")
        assert turn.reply is not None
        assert "cannot be found by meaning yet" in turn.reply
    told = [one.message for one in caplog.records if "another process" in one.message]
    assert len(told) == 1
    assert "embedder new" in told[0]
    assert "reindex()" in told[0]


async def test_of_two_embedders_at_once_the_one_that_came_last_stays_and_nothing_is_embedded_twice(
    tmp_path: Path,
) -> None:
    await filled(tmp_path)
    first, last = embedder("old"), embedder("new")
    async with opened(tmp_path, first) as mine, opened(tmp_path, last) as theirs:
        kept = (await mine.agents.get("ada")).archive
        other = (await theirs.agents.get("ada")).archive
        await kept.insert("Mia has a vermilion boat")
        await other.search("car")
        await until(theirs, done)
        embedded = len(first.calls), len(last.calls)
        for number in range(5):
            await kept.insert(f"first of all {number}")
            assert (await kept.search(f"first of all {number}")).hits
            await other.insert(f"last of all {number}")
            assert (await kept.search(f"last of all {number}")).hits
        await theirs.catch_up()
        assert [purpose for purpose, _ in first.calls[embedded[0] :]] == []
        found = await other.search("red boat")
        assert found.hits[0].text == "Mia has a vermilion boat"
        assert (found.hits[0].via, found.pending) == ("exact", 0)
        again = [
            text
            for purpose, texts in last.calls[embedded[1] :]
            for text in texts
            if purpose == "document" and not text.startswith(("first of all", "last of all"))
        ]
        assert again == []
    assert models_stored(tmp_path) == {"new": FACTS + 12}


@pytest.mark.parametrize("asked", ["reindex", "catch_up", "opened again"])
async def test_who_was_displaced_changes_over_when_it_is_asked_to(
    tmp_path: Path, asked: str
) -> None:
    await filled(tmp_path)
    async with opened(tmp_path, embedder("old")) as runtime:
        ada = await runtime.agents.get("ada")
        await changed_over_by_another(tmp_path)
        assert (await ada.archive.search("vermilion automobile")).pending == FACTS + 1
        if asked != "opened again":
            await (runtime.reindex() if asked == "reindex" else runtime.catch_up())
            found = await ada.archive.search("vermilion automobile")
            assert found.hits[0].text == "Lin drives a red car"
            assert (found.hits[0].via, found.pending) == ("exact", 0)
    async with opened(tmp_path, embedder("old")) as runtime:
        await (await runtime.agents.get("ada")).archive.search("car")
        await until(runtime, done)
    assert models_stored(tmp_path) == {"old": FACTS + 1}


async def test_who_only_looks_in_with_another_embedder_displaces_nobody(tmp_path: Path) -> None:
    await filled(tmp_path)
    async with opened(tmp_path, embedder("old")) as runtime:
        ada = await runtime.agents.get("ada")
        gate = Gate(1)
        async with opened(tmp_path, embedder("new", gate)) as other:
            await (await other.agents.get("ada")).archive.search("car")
            async with asyncio.timeout(30):
                await gate.reached.wait()
        await ada.archive.insert("Mia has a vermilion boat")
        assert (await runtime.catch_up()).pending == 0
        found = await ada.archive.search("red boat")
        assert found.hits[0].text == "Mia has a vermilion boat"
        assert (found.hits[0].via, found.pending) == ("exact", 0)
