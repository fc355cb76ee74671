"""The archive as a user holds it: records, pages, filters, and what a deleted agent answers."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pagedaemon import AsyncRuntime
from pagedaemon.errors import InvalidInput, NotFound
from pagedaemon.handles.archive import AsyncArchive
from pagedaemon.testing import FakeClock


async def test_what_is_stored_is_what_is_found(runtime: AsyncRuntime, clock: FakeClock) -> None:
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


async def test_the_same_text_is_stored_once(runtime: AsyncRuntime) -> None:
    ada = await runtime.agents.create("ada")
    first = await ada.archive.insert("the harbour is deep")
    again = await ada.archive.insert("the harbour is deep")
    assert again.id == first.id
    assert await ada.archive.count() == 1


async def test_filters_and_pages(runtime: AsyncRuntime, clock: FakeClock) -> None:
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


async def test_what_has_expired_is_gone(runtime: AsyncRuntime, clock: FakeClock) -> None:
    ada = await runtime.agents.create("ada")
    kept = await ada.archive.insert("rain", expires_at=clock.now() + timedelta(hours=1))
    assert (await ada.archive.search("rain")).total == 1
    await ada.archive.insert("sun")
    assert await ada.archive.count() == 2
    clock.advance(3601)
    assert (await ada.archive.search("rain")).total == 0
    assert await ada.archive.count() == (await ada.archive.search()).total == 1
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
    runtime: AsyncRuntime, given: dict[str, Any]
) -> None:
    ada = await runtime.agents.create("ada")
    with pytest.raises(InvalidInput):
        await ada.archive.insert(**given)
    assert await ada.archive.count() == 0
    assert (await ada.archive.search()).total == 0


async def test_only_what_is_named_is_deleted_and_only_of_this_agent(runtime: AsyncRuntime) -> None:
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


async def test_ids_of_another_type_are_refused_and_nothing_is_deleted(
    runtime: AsyncRuntime,
) -> None:
    ada = await runtime.agents.create("ada")
    kept = await ada.archive.insert("the harbour is deep")
    wrong: Any
    for wrong in ([kept.id], 5, None):
        with pytest.raises(InvalidInput, match="id is text"):
            await ada.archive.delete(kept.id, wrong)
        with pytest.raises(InvalidInput, match="id is text"):
            await ada.archive.get(wrong)
    assert await ada.archive.count() == 1


async def test_more_ids_than_one_statement_takes_are_deleted(runtime: AsyncRuntime) -> None:
    ada = await runtime.agents.create("ada")
    kept = await ada.archive.insert("the harbour is deep")
    nobody = [f"passage-{number}" for number in range(40_000)]
    assert await ada.archive.delete(*nobody, kept.id, kept.id) == 1
    assert await ada.archive.count() == 0


async def test_a_record_tells_when_it_happened_and_when_it_expires(
    runtime: AsyncRuntime, clock: FakeClock
) -> None:
    ada = await runtime.agents.create("ada")
    then, later = datetime(2019, 5, 1, tzinfo=UTC), clock.now() + timedelta(days=1)
    kept = await ada.archive.insert("Lin moved", happened_at=then, expires_at=later)
    assert (kept.happened_at, kept.expires_at, kept.position) == (then, later, None)
    assert (await ada.archive.search("moved")).hits[0].happened_at == then


async def test_start_and_end_mean_when_it_was_stored_whenever_it_happened(
    runtime: AsyncRuntime, clock: FakeClock
) -> None:
    ada = await runtime.agents.create("ada")
    then, now = datetime(2019, 5, 1, tzinfo=UTC), clock.now()
    await ada.archive.insert("Lin moved", happened_at=then)
    for query in ("moved", None):
        assert (await ada.archive.search(query, start=now)).total == 1
        assert (await ada.archive.search(query, end=now)).total == 0
    assert (await ada.archive.search("what happened in May 2019?")).total == 1


@pytest.mark.parametrize(
    "given",
    [
        {"importance": "7"},
        {"importance": float("nan")},
        {"confidence": None},
        {"confidence": True},
        {"kind": ["semantic"]},
        {"source": 5},
        {"tags": [5]},
        {"happened_at": "2026"},
    ],
)
async def test_a_record_with_a_value_of_another_type_is_refused(
    runtime: AsyncRuntime, given: dict[str, Any]
) -> None:
    ada = await runtime.agents.create("ada")
    with pytest.raises(InvalidInput):
        await ada.archive.insert("x", **given)
    assert await ada.archive.count() == 0


DELETED: dict[str, Callable[[AsyncArchive], Awaitable[object]]] = {
    "insert": lambda archive: archive.insert("rain"),
    "insert_many": lambda archive: archive.insert_many([]),
    "near_repeats": lambda archive: archive.near_repeats("x"),
    "search": lambda archive: archive.search("harbour"),
    "get": lambda archive: archive.get("passage-1"),
    "delete": lambda archive: archive.delete("passage-1"),
    "count": lambda archive: archive.count(),
    "load": lambda archive: archive.load("said.json"),
    "load_text": lambda archive: archive.load_text("rain", name="weather"),
    "documents": lambda archive: archive.documents(),
    "unload": lambda archive: archive.unload("sea"),
}
"""Each method, with arguments that it takes."""


def test_every_method_stands_in_the_table_of_deleted_agents() -> None:
    methods = {name for name, _ in inspect.getmembers(AsyncArchive, inspect.iscoroutinefunction)}
    assert set(DELETED) == {name for name in methods if not name.startswith("_")}


@pytest.mark.parametrize("method", DELETED)
async def test_of_a_deleted_agent_there_is_nothing_to_ask(
    runtime: AsyncRuntime, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ada = await runtime.agents.create("ada")
    await ada.send("harbour")
    await ada.archive.insert("the harbour is deep")
    await ada.archive.load_text("the harbour is wide", name="sea")
    (tmp_path / "said.json").write_text('[{"role": "user", "content": "hi"}]', encoding="utf-8")
    await ada.delete()
    with pytest.raises(NotFound, match=f"agent {ada.id} was deleted"):
        await DELETED[method](ada.archive)
