"""Recall and archive as a user holds them: pages, totals, filters, ids."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pagedaemon import AsyncRuntime
from pagedaemon.errors import ConfigError, InvalidInput, NotFound
from pagedaemon.testing import FakeClock, ScriptedModel


class TestRecall:
    """Every message that ever was."""

    async def test_pages_add_up_to_the_total(self, runtime: AsyncRuntime, clock: FakeClock) -> None:
        ada = await runtime.agents.create("ada")
        for number in range(7):
            await ada.send(f"harbour {number}")
            clock.advance(60)
        seen: list[str] = []
        page: int | None = 0
        while page is not None:
            found = await ada.recall.search("harbour", roles=["user"], page=page, page_size=3)
            assert (found.total, found.page, found.page_size) == (7, page, 3)
            seen += [hit.text for hit in found.hits]
            page = found.next_page
        assert sorted(seen) == [f"harbour {number}" for number in range(7)]
        beyond = await ada.recall.search("harbour", roles=["user"], page=9)
        assert (beyond.hits, beyond.total, beyond.next_page) == ((), 7, None)

    async def test_without_words_the_newest_come_first(
        self, runtime: AsyncRuntime, clock: FakeClock
    ) -> None:
        ada = await runtime.agents.create("ada")
        for number in range(3):
            await ada.send(f"{number}", author=f"person {number % 2}")
            clock.advance(3600)
        found = await ada.recall.search(roles=["user"])
        assert [hit.text for hit in found.hits] == ["2", "1", "0"]
        start = clock.now() - timedelta(hours=2, minutes=30)
        end = clock.now() - timedelta(hours=1, minutes=30)
        found = await ada.recall.search(roles=["user"], start=start, end=end)
        assert [hit.text for hit in found.hits] == ["1"]
        found = await ada.recall.search(author="person 0")
        assert [hit.text for hit in found.hits] == ["2", "0"]
        assert await ada.recall.count() == 9

    async def test_a_reply_is_found_as_it_was_heard(self, runtime: AsyncRuntime) -> None:
        ada = await runtime.agents.create("ada")
        await ada.send("harbour")
        found = await ada.recall.search("harbour", roles=["assistant"])
        assert [hit.text for hit in found.hits] == ["echo harbour"]
        assert found.hits[0].id == found.hits[0].message.id

    async def test_an_agent_finds_nothing_of_another(self, runtime: AsyncRuntime) -> None:
        ada, bob = [await runtime.agents.create(name) for name in ("ada", "bob")]
        await ada.send("harbour")
        assert (await bob.recall.search("harbour")).total == 0
        main = await ada.conversations.get()
        assert (await bob.recall.search("harbour", conversation_id=main.id)).total == 0

    @pytest.mark.parametrize(
        "asked",
        [
            {"page": -1},
            {"page_size": 0},
            {"page": 10**18, "page_size": 10},
            {"start": datetime(2026, 1, 1)},  # noqa: DTZ001
        ],
    )
    async def test_what_cannot_be_asked_is_said(
        self, runtime: AsyncRuntime, asked: dict[str, Any]
    ) -> None:
        ada = await runtime.agents.create("ada")
        with pytest.raises(InvalidInput):
            await ada.recall.search("x", **asked)
        with pytest.raises(InvalidInput):
            await ada.archive.search("x", **asked)


class TestArchive:
    """What is kept for good."""

    async def test_what_is_stored_is_what_is_found(
        self, runtime: AsyncRuntime, clock: FakeClock
    ) -> None:
        ada = await runtime.agents.create("ada")
        kept = await ada.archive.insert(
            "Lin moved to Berlin 🚀",
            kind="episodic",
            tags=["city", "2026"],
            importance=7,
            confidence=0.5,
            source="letter",
        )
        assert kept.created_at == clock.now()
        assert kept.source == ("api", "letter")
        assert (kept.tags, kept.label, kept.uses) == (("2026", "city"), "owner", 0)
        assert await ada.archive.get(kept.id) == kept
        [hit] = (await ada.archive.search("berlin")).hits
        assert (hit.id, hit.text, hit.score > 0) == (kept.id, kept.text, True)
        assert await ada.archive.count() == 1

    async def test_the_same_text_is_stored_once(self, runtime: AsyncRuntime) -> None:
        ada = await runtime.agents.create("ada")
        first = await ada.archive.insert("the harbour is deep")
        again = await ada.archive.insert("the harbour is deep")
        assert again.id == first.id
        assert await ada.archive.count() == 1

    async def test_filters_and_pages(self, runtime: AsyncRuntime, clock: FakeClock) -> None:
        ada = await runtime.agents.create("ada")
        for number in range(5):
            await ada.archive.insert(
                f"fact {number}",
                tags=["even" if number % 2 == 0 else "odd"],
                kind="semantic" if number < 3 else "document",
            )
            clock.advance(60)
        found = await ada.archive.search(page_size=2)
        assert [hit.text for hit in found.hits] == ["fact 4", "fact 3"]
        assert (found.total, found.next_page) == (5, 1)
        assert (await ada.archive.search("fact", tags=["even"])).total == 3
        assert (await ada.archive.search("fact", tags=["even", "odd"])).total == 5
        assert (await ada.archive.search(kinds=["document"])).total == 2
        assert (await ada.archive.search("fact", end=clock.now() - timedelta(minutes=4))).total == 1

    async def test_what_has_expired_is_gone(self, runtime: AsyncRuntime, clock: FakeClock) -> None:
        ada = await runtime.agents.create("ada")
        kept = await ada.archive.insert("rain", expires_at=clock.now() + timedelta(hours=1))
        assert (await ada.archive.search("rain")).total == 1
        clock.advance(3601)
        assert (await ada.archive.search("rain")).total == 0
        with pytest.raises(NotFound):
            await ada.archive.get(kept.id)

    @pytest.mark.parametrize(
        "given",
        [
            {"text": " "},
            {"text": "a\x00"},
            {"text": "x", "kind": "rumour"},
            {"text": "x", "importance": 11},
            {"text": "x", "confidence": 1.5},
            {"text": "x", "tags": [""]},
            {"text": "x", "tags": ["t"] * 21},
            {"text": "x", "expires_at": datetime(2000, 1, 1, tzinfo=UTC)},
            {"text": "x", "happened_at": datetime(2000, 1, 1)},  # noqa: DTZ001
        ],
    )
    async def test_what_cannot_be_kept_is_said_and_not_stored(
        self, runtime: AsyncRuntime, given: dict[str, Any]
    ) -> None:
        ada = await runtime.agents.create("ada")
        with pytest.raises(InvalidInput):
            await ada.archive.insert(**given)
        assert await ada.archive.count() == 0
        assert (await ada.archive.search()).total == 0

    async def test_only_what_is_named_is_deleted_and_only_of_this_agent(
        self, runtime: AsyncRuntime
    ) -> None:
        ada, bob = [await runtime.agents.create(name) for name in ("ada", "bob")]
        mine = [await ada.archive.insert(f"mine {number}") for number in range(3)]
        theirs = await bob.archive.insert("theirs")
        with pytest.raises(InvalidInput, match="ids"):
            await ada.archive.delete()
        assert await ada.archive.delete(theirs.id, "passage-none") == 0
        assert await ada.archive.delete(mine[0].id, mine[1].id) == 2
        assert [hit.text for hit in (await ada.archive.search("mine")).hits] == ["mine 2"]
        assert await ada.archive.count() == 1
        assert await bob.archive.count() == 1
        with pytest.raises(NotFound):
            await ada.archive.get(theirs.id)


async def test_one_text_where_a_list_is_meant_is_refused_and_not_read_by_letters(
    tmp_path: Path,
) -> None:
    async with AsyncRuntime(tmp_path, model="offline") as runtime:
        agent = await runtime.agents.ensure("ada")
        with pytest.raises(InvalidInput, match="tags is a list"):
            await agent.archive.insert("a fact", tags="home")
        with pytest.raises(InvalidInput, match="tags is a list"):
            await agent.archive.search("fact", tags="home")
        with pytest.raises(InvalidInput, match="kinds are among"):
            await agent.archive.search("fact", kinds=["weird"])
        with pytest.raises(InvalidInput, match="roles are among"):
            await agent.recall.search("fact", roles=["human"])  # type: ignore[list-item]
        assert await agent.archive.count() == 0


def test_a_model_object_is_told_that_it_needs_a_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="models="):
        AsyncRuntime(tmp_path, model=ScriptedModel([]))  # type: ignore[arg-type]
