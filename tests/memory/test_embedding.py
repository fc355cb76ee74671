"""Vectors are made in the background; while they are missing or fail to come, words find all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pagedaemon.agent import AgentRecord
from pagedaemon.config import Settings
from pagedaemon.errors import ConfigError, EmbeddingError
from pagedaemon.llm.embedding.protocol import Embedder
from pagedaemon.memory import embedding
from pagedaemon.memory.archival import keep
from pagedaemon.memory.embedding import message_text
from pagedaemon.memory.meaning import Meaning, SearchStatus
from pagedaemon.memory.search import Near
from pagedaemon.messages import Message
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import conversations as rows
from pagedaemon.store import outbox, vectors
from pagedaemon.store import passages as passage_rows
from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.index.finder import VectorIndex
from pagedaemon.store.passages import NewPassage, PassageFilter
from pagedaemon.store.transaction import Transaction
from pagedaemon.testing import FakeClock, FakeEmbedder

NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


@asynccontextmanager
async def space(folder: Path) -> AsyncIterator[Database]:
    """A store with an agent, in which nobody makes vectors."""
    pool = StorePool()
    database = Database.open(folder / "space.db", space="default", pool=pool)
    try:
        await database.write(_first)
        yield database
    finally:
        await asyncio.to_thread(database.close)
        await asyncio.to_thread(pool.close)


def _first(tx: Transaction) -> None:
    if agent_rows.by_name(tx, "ada") is None:
        agent_rows.add(tx, AgentRecord("agent-1", "ada", Settings(), None, {}, NOON, NOON))


@asynccontextmanager
async def meaning_in(database: Database, embedder: Embedder) -> AsyncIterator[Meaning]:
    meaning = Meaning(
        database, FakeClock(NOON), embedder, VectorIndex(database, embedder.name, mode="exact")
    )
    await meaning.open()
    try:
        yield meaning
    finally:
        await meaning.aclose()


async def save(database: Database, *texts: str) -> list[str]:
    def work(tx: Transaction) -> list[str]:
        return [
            keep(
                tx,
                "agent-1",
                NewPassage(text, "semantic", (), None, 1.0, "api", None, "owner"),
                NOON,
            )[0]
            for text in texts
        ]

    return await database.write(work)


async def near(meaning: Meaning, words: str) -> Near | None:
    return await meaning.near(words, passage_rows.allowed(PassageFilter("agent-1", NOON)), 10)


async def until(meaning: Meaning, true: Callable[[SearchStatus], bool]) -> SearchStatus:
    """The status once it is as wished."""
    async with asyncio.timeout(10):
        status = await meaning.status()
        while not true(status):
            await asyncio.sleep(0.02)
            status = await meaning.status()
    return status


def embedded(embedder: FakeEmbedder) -> list[str]:
    return [text for purpose, texts in embedder.calls if purpose == "document" for text in texts]


async def test_what_is_saved_is_embedded_when_the_space_is_quiet(tmp_path: Path) -> None:
    embedder = FakeEmbedder()
    async with space(tmp_path) as database, meaning_in(database, embedder) as meaning:
        await save(database, "Lin drinks tea", "The car is red")
        assert embedder.calls == [], "nothing runs in the writer's way"
        status = await until(meaning, lambda status: status.stored == 2)
    assert (status.pending, status.failed, status.errors) == (0, 0, ())
    assert (status.model, status.via) == ("fake", "exact")
    assert sorted(embedded(embedder)) == ["Lin drinks tea", "The car is red"]


async def test_a_search_finds_what_was_saved_just_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not wait for a quiet moment."""
    monkeypatch.setattr(embedding, "QUIET", 3600.0)
    embedder = FakeEmbedder({"automobile": "car"})
    async with space(tmp_path) as database, meaning_in(database, embedder) as meaning:
        monkeypatch.setattr(embedding, "PATIENCE", 30.0)
        first, second = await save(database, "a red car", "green tea")
        found = await near(meaning, "automobile")
    assert found is not None
    assert found.cosines[first] > 0.4 > 0.2 > found.cosines[second]
    assert (found.via, found.floor) == ("exact", embedder.floor)


async def test_many_texts_do_not_wait_for_a_quiet_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "QUIET", 3600.0)
    embedder = FakeEmbedder()
    async with space(tmp_path) as database, meaning_in(database, embedder) as meaning:
        await save(database, *(f"fact {number}" for number in range(embedding.MANY)))
        await until(meaning, lambda status: status.stored == embedding.MANY)
    assert all(len(texts) <= embedding.BATCH for _, texts in embedder.calls)


async def test_an_embedder_is_not_used_before_there_is_a_text(tmp_path: Path) -> None:
    embedder = FakeEmbedder()
    async with space(tmp_path) as database, meaning_in(database, embedder) as meaning:
        assert await near(meaning, "anything") is None
        await asyncio.sleep(embedding.QUIET * 1.5)
    assert embedder.calls == []


async def test_long_text_is_embedded_in_pieces_and_found_by_its_end(tmp_path: Path) -> None:
    embedder = FakeEmbedder()
    filling = " ".join(f"word{number}" for number in range(2_000))
    async with space(tmp_path) as database, meaning_in(database, embedder) as meaning:
        long, _ = await save(database, f"{filling}. The safe opens with kumquat.", "a short one")
        await until(meaning, lambda status: status.stored == 2)
        found = await near(meaning, "kumquat safe opens")
        status = await meaning.status()
    assert found is not None
    assert max(found.cosines, key=lambda one: found.cosines[one]) == long
    assert status.stored == 2, "a long text is one memory"
    assert len(embedded(embedder)) > 10


# ------------------------------------------------------------------ failing


async def test_what_an_embedder_fails_at_waits_is_told_and_comes_when_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """AR-03."""
    embedder = FakeEmbedder()
    embedder.fail(None)
    async with space(tmp_path) as database, meaning_in(database, embedder) as meaning:
        await save(database, "Lin drinks tea")
        status = await until(meaning, lambda status: status.failed == 1)
        assert (status.stored, status.pending) == (0, 1)
        assert status.errors == ("told to fail",)
        assert "told to fail" in caplog.text
        assert await near(meaning, "tea") is None
        embedder.fail(0)
        status = await until(meaning, lambda status: status.stored == 1)
        assert (status.pending, status.failed, status.errors) == (0, 0, ())
        assert await near(meaning, "tea") is not None


async def test_any_error_of_ones_own_embedder_is_told_and_no_search_fails(tmp_path: Path) -> None:
    class Broken:
        name, dimension, floor = "broken", 3, None

        async def embed(self, texts: Any, *, purpose: str) -> list[Any]:
            raise KeyError("no such model")

        async def aclose(self) -> None:
            """Nothing."""

    async with space(tmp_path) as database, meaning_in(database, Broken()) as meaning:
        await save(database, "Lin drinks tea")
        assert await near(meaning, "tea") is None
        status = await until(meaning, lambda status: status.failed == 1)
        assert "KeyError" in status.errors[0]


async def test_too_few_vectors_are_no_answer(tmp_path: Path) -> None:
    class Short(FakeEmbedder):
        async def embed(self, texts: Any, *, purpose: Any) -> list[Any]:
            return (await super().embed(texts, purpose=purpose))[:-1]

    async with space(tmp_path) as database, meaning_in(database, Short()) as meaning:
        await save(database, "one", "two")
        status = await until(meaning, lambda status: status.failed == 2)
        assert status.errors == ("fake: 0 vectors for 1 texts",)


async def test_one_text_that_is_refused_holds_up_no_other(tmp_path: Path) -> None:
    class Picky(FakeEmbedder):
        async def embed(self, texts: Any, *, purpose: Any) -> list[Any]:
            if any("poison" in text for text in texts):
                raise EmbeddingError("poison is refused")
            return await super().embed(texts, purpose=purpose)

    async with space(tmp_path) as database, meaning_in(database, Picky()) as meaning:
        await save(database, "first", "poison", "last")
        status = await until(meaning, lambda status: status.stored == 2)
        assert (status.pending, status.failed) == (1, 1)
        assert await near(meaning, "last") is not None, "search by meaning goes on"
        more = await save(database, "later")
        await until(meaning, lambda status: status.stored == 3)
        assert more[0] in (await near(meaning, "later")).cosines  # type: ignore[union-attr]


async def test_a_query_that_cannot_be_embedded_is_looked_for_by_words(tmp_path: Path) -> None:
    embedder = FakeEmbedder()
    async with space(tmp_path) as database, meaning_in(database, embedder) as meaning:
        await save(database, "Lin drinks tea")
        await until(meaning, lambda status: status.stored == 1)
        embedder.fail(1)
        assert await near(meaning, "tea") is None
        assert await near(meaning, "tea") is None, "not asked again at once"
        asked = len(embedder.calls)
        await asyncio.sleep(1.2)
        assert await near(meaning, "tea") is not None
        assert len(embedder.calls) == asked + 1


# ------------------------------------------------------------------ changes


async def test_a_deleted_text_gets_no_vector(tmp_path: Path) -> None:
    embedder = FakeEmbedder()
    async with space(tmp_path) as database, meaning_in(database, embedder) as meaning:
        gone, stays = await save(database, "secret words", "other words")
        await database.write(lambda tx: passage_rows.remove(tx, "agent-1", [gone]))
        status = await until(meaning, lambda status: status.pending == 0)
        assert status.stored == 1
        found = await near(meaning, "secret words")
        assert found is not None
        assert set(found.cosines) == {stays}
    assert "secret words" not in embedded(embedder)


async def test_a_new_tag_is_embedded_with_the_text(tmp_path: Path) -> None:
    embedder = FakeEmbedder()
    new = NewPassage("Lin drinks tea", "semantic", ("taste",), None, 1.0, "api", None, "owner")
    async with space(tmp_path) as database, meaning_in(database, embedder) as meaning:
        await save(database, "Lin drinks tea")
        await until(meaning, lambda status: status.stored == 1)
        await database.write(lambda tx: keep(tx, "agent-1", new, NOON))
        await until(meaning, lambda status: status.pending == 0 and len(embedder.calls) > 1)
    assert embedded(embedder) == ["Lin drinks tea", "Lin drinks tea taste"]


async def test_a_store_made_without_an_embedder_is_embedded_when_one_is_there(
    tmp_path: Path,
) -> None:
    async with space(tmp_path) as database:
        await save(database, *(f"fact {number}" for number in range(70)))
        await database.write(_said)
        async with meaning_in(database, FakeEmbedder()) as meaning:
            status = await until(meaning, lambda status: status.stored == 71)
            assert status.pending == 0


def _said(tx: Transaction) -> None:
    conversation = rows.add(tx, "agent-1", "main", NOON)
    message = Message("message-1", 1, "user", "message", "Good morning", NOON, author="Lin")
    rows.add_messages(tx, "agent-1", conversation.id, [message])


async def test_another_model_is_said_before_any_write_and_takes_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """AR-07."""
    old, new = FakeEmbedder(name="old", dimension=8), FakeEmbedder(name="new", dimension=16)
    new.fail(None)
    async with space(tmp_path) as database:
        async with meaning_in(database, old) as meaning:
            await save(database, *(f"fact {number}" for number in range(20)))
            await until(meaning, lambda status: status.stored == 20)
        caplog.set_level(logging.WARNING)
        async with meaning_in(database, new) as meaning:
            (warning,) = [record.getMessage() for record in caplog.records]
            assert "old (8 dimensions)" in warning
            assert "new (16 dimensions)" in warning
            status = await until(meaning, lambda status: status.failed == 20)
            assert (status.stored, status.earlier, status.via) == (0, ("old",), "keywords")
            assert await near(meaning, "fact 7") is None, "by words, and no error of sizes"
            new.fail(0)
            told: list[tuple[int, int | None, str]] = []
            status = await meaning.reindex(lambda *what: told.append(what))
            assert (status.stored, status.pending, status.earlier) == (20, 0, ())
            assert told[0] == (0, 20, "texts embedded")
            assert (20, 20, "texts embedded") in told
            assert told[-1][2] == "vectors indexed"
            found = await near(meaning, "fact 7")
            assert found is not None
            assert len(found.cosines) == 10


async def test_the_same_name_with_another_size_is_refused_with_both_sizes(tmp_path: Path) -> None:
    async with space(tmp_path) as database:
        async with meaning_in(database, FakeEmbedder(dimension=8)) as meaning:
            await save(database, "Lin drinks tea")
            await until(meaning, lambda status: status.stored == 1)
        other = FakeEmbedder(dimension=16)
        index = VectorIndex(database, other.name, mode="exact")
        meaning = Meaning(database, FakeClock(NOON), other, index)
        with pytest.raises(ConfigError, match=r"8 dimensions .* 16"):
            await meaning.open()
        await meaning.aclose()
        assert await database.read(vectors.models) == [("fake", 8)]


async def test_reindex_says_what_could_not_be_embedded_and_keeps_it_waiting(
    tmp_path: Path,
) -> None:
    embedder = FakeEmbedder()
    async with space(tmp_path) as database, meaning_in(database, embedder) as meaning:
        await save(database, "one", "two")
        await until(meaning, lambda status: status.stored == 2)
        embedder.fail(None)
        with pytest.raises(EmbeddingError, match=r"2 of 2 texts .* told to fail"):
            await meaning.reindex()
        status = await meaning.status()
        assert (status.stored, status.pending) == (2, 2), "old vectors answer meanwhile"


async def test_what_waits_at_the_close_waits_until_it_is_opened_again(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def never() -> None:
        begun.set()
        await asyncio.Event().wait()

    slow = FakeEmbedder(before=never)
    async with space(tmp_path) as database:
        async with meaning_in(database, slow) as meaning:
            await save(database, "Lin drinks tea")
            await begun.wait()
            assert (await meaning.status()).pending == 1
        async with meaning_in(database, FakeEmbedder()) as meaning:
            await until(meaning, lambda status: status.stored == 1)


async def test_a_search_does_not_wait_long_for_a_slow_embedder(tmp_path: Path) -> None:
    slow = FakeEmbedder(before=lambda: asyncio.sleep(3600))
    async with space(tmp_path) as database, meaning_in(database, slow) as meaning:
        await save(database, "Lin drinks tea")
        started = asyncio.get_running_loop().time()
        assert await near(meaning, "tea") is None
        assert asyncio.get_running_loop().time() - started < embedding.PATIENCE + 0.5


# ------------------------------------------------------------------ what is embedded


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (Message("m", 1, "user", "message", "Hi", NOON, author="Lin"), "Lin: Hi"),
        (Message("m", 1, "user", "message", "Hi", NOON), "user: Hi"),
        (
            Message("m", 1, "assistant", "reply", "", NOON, data={"said": ["Hello", "there"]}),
            "assistant: Hello\nthere",
        ),
        (
            Message("m", 1, "tool", "result", "3.20", NOON, tool="market"),
            "result of market: 3.20",
        ),
        (Message("m", 1, "assistant", "reply", "", NOON), ""),
    ],
)
def test_a_message_is_embedded_with_who_said_it(message: Message, text: str) -> None:
    assert message_text(message) == text


async def test_a_turn_that_ends_puts_all_that_was_said_in_the_outbox(tmp_path: Path) -> None:
    embedder = FakeEmbedder()

    def said(tx: Transaction) -> None:
        conversation = rows.add(tx, "agent-1", "main", NOON)
        texts = {"message": "Where is Lin?", "reply": "In Berlin", "heartbeat": "Go on"}
        new = [
            Message(f"message-{kind}", seq, "user", kind, text, NOON, turn_id="turn-1")  # type: ignore[arg-type]
            for seq, (kind, text) in enumerate(texts.items(), 1)
        ]
        rows.add_messages(tx, "agent-1", conversation.id, new)
        outbox.queue_turn(tx, "turn-1", NOON)

    async with space(tmp_path) as database, meaning_in(database, embedder) as meaning:
        await database.write(said)
        await until(meaning, lambda status: status.stored == 2)
    assert sorted(embedded(embedder)) == ["user: In Berlin", "user: Where is Lin?"]


async def test_without_an_embedder_nothing_is_put_in_the_outbox(tmp_path: Path) -> None:
    async with space(tmp_path) as database:
        await save(database, "Lin drinks tea")
        async with meaning_in(database, FakeEmbedder()) as meaning:
            assert (await meaning.status()).pending == 0
