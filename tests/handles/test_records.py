"""Many records at once: kept as if one by one, refused whole, in the order given."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event

from pagedaemon import AsyncRuntime, Record, Runtime
from pagedaemon.errors import InvalidInput, InvalidRecord
from pagedaemon.handles.archive import AsyncArchive, Passage
from pagedaemon.testing import FakeClock, ScriptedModel


@pytest.fixture
def commits() -> Iterator[list[Connection]]:
    """Every commit while the test runs."""
    seen: list[Connection] = []

    def committed(connection: Connection) -> None:
        seen.append(connection)

    event.listen(Engine, "commit", committed)
    yield seen
    event.remove(Engine, "commit", committed)


async def newest_first(archive: AsyncArchive, *, page_size: int = 2_000) -> list[str]:
    return [hit.text for hit in (await archive.search(page_size=page_size)).hits]


async def test_each_record_is_kept_with_all_that_was_said_of_it(
    runtime: AsyncRuntime, clock: FakeClock
) -> None:
    ada = await runtime.agents.create("ada")
    then, later = datetime(2019, 5, 1, tzinfo=UTC), clock.now() + timedelta(days=1)
    full, plain = await ada.archive.insert_many(
        [
            Record(
                "Lin moved to Porto",
                kind="episodic",
                tags=["home", "city"],
                importance=7,
                confidence=0.5,
                source="letter",
                happened_at=then,
                expires_at=later,
            ),
            "Lin drinks tea",
        ]
    )
    assert (full.kind, full.tags, full.importance, full.confidence) == (
        "episodic",
        ("city", "home"),
        7,
        0.5,
    )
    assert (full.source, full.label, full.happened_at, full.expires_at) == (
        ("api", "letter"),
        "owner",
        then,
        later,
    )
    assert (plain.text, plain.kind, plain.tags) == ("Lin drinks tea", "semantic", ())
    assert await ada.archive.get(full.id) == full
    assert [hit.id for hit in (await ada.archive.search("porto")).hits] == [full.id]
    assert [hit.id for hit in (await ada.archive.search("tea", tags=["home"])).hits] == []
    assert await ada.archive.count() == 2


async def test_what_comes_back_stands_in_the_order_given_and_newest_first_ends_with_the_first(
    runtime: AsyncRuntime,
) -> None:
    ada = await runtime.agents.create("ada")
    texts = [f"fact {number}" for number in range(1_203)]
    kept = await ada.archive.insert_many(texts)
    assert [one.text for one in kept] == texts
    assert await newest_first(ada.archive) == texts[::-1]
    assert await ada.archive.count() == len(texts)


async def test_many_are_few_transactions(runtime: AsyncRuntime, commits: list[Connection]) -> None:
    ada = await runtime.agents.create("ada")
    commits.clear()
    await ada.archive.insert_many(f"fact {number}" for number in range(1_001))
    assert len(commits) == 3


async def test_the_same_text_answers_with_the_one_that_is_there(
    runtime: AsyncRuntime, clock: FakeClock
) -> None:
    ada = await runtime.agents.create("ada")
    there = await ada.archive.insert("The harbour is deep", tags=["sea"])
    clock.advance(60)
    soon = clock.now() + timedelta(hours=1)
    first, new, again, twice = await ada.archive.insert_many(
        [
            Record("the harbour  is DEEP", tags=["port"]),
            Record("rain at noon", tags=["sky"], expires_at=soon),
            "the harbour is deep",
            Record("rain at noon", tags=["wet"]),
        ]
    )
    assert {first.id, again.id} == {there.id}
    assert (first.text, first.tags, first.uses) == ("The harbour is deep", ("port", "sea"), 2)
    assert twice.id == new.id
    assert (twice.tags, twice.expires_at) == (("sky", "wet"), None)
    assert await ada.archive.count() == 2
    [found] = (await ada.archive.search("wet")).hits
    assert found.id == new.id


async def one_by_one(archive: AsyncArchive, records: list[Record]) -> list[Passage]:
    return [
        await archive.insert(
            one.text,
            kind=one.kind,
            tags=one.tags,
            importance=one.importance,
            source=one.source,
            expires_at=one.expires_at,
        )
        for one in records
    ]


async def test_together_they_come_to_what_they_come_to_one_by_one(
    runtime: AsyncRuntime, clock: FakeClock
) -> None:
    later = clock.now() + timedelta(days=1)
    records = [
        Record(
            f"note {number % 7}",
            kind=("semantic", "document")[number % 2],
            tags=[f"t{number % 5}"],
            importance=1 + number % 10,
            source=f"page {number}",
            expires_at=(None, later)[number % 3 == 0],
        )
        for number in range(20)
    ]
    ada, bob = [await runtime.agents.create(name) for name in ("ada", "bob")]
    places: dict[str, list[list[int]]] = {}
    stored: dict[str, list[Any]] = {}
    for agent in (ada, bob):
        many = agent is ada
        kept = (
            await agent.archive.insert_many(records)
            if many
            else await one_by_one(agent.archive, records)
        )
        ids = [one.id for one in kept]
        places[agent.name] = [[at for at, one in enumerate(ids) if one == id_] for id_ in ids]
        hits = [await agent.archive.get(one) for one in dict.fromkeys(ids)]
        stored[agent.name] = [
            (hit.text, hit.kind, hit.tags, hit.importance, hit.source, hit.uses, hit.expires_at)
            for hit in hits
        ]
    assert places["ada"] == places["bob"]
    assert stored["ada"] == stored["bob"]
    assert await ada.archive.count() == await bob.archive.count() == 7


async def test_a_document_in_the_same_words_stays_its_own(runtime: AsyncRuntime) -> None:
    ada = await runtime.agents.create("ada")
    await ada.archive.load_text("the harbour is deep", name="sea")
    await ada.archive.insert_many(["the harbour is deep"])
    assert await ada.archive.count() == 2
    await ada.archive.unload("sea")
    assert await newest_first(ada.archive) == ["the harbour is deep"]


WRONG: list[Any] = [
    Record(" "),
    Record("a\x00"),
    Record("x", kind="rumour"),
    Record("x", importance=11),
    Record("x", confidence=1.5),
    Record("x", confidence=None),  # type: ignore[arg-type]
    Record("x", tags=[""]),
    Record("x", tags="home"),
    Record("x", tags=["t"] * 21),
    Record("x", source=5),  # type: ignore[arg-type]
    Record("x", source=" "),
    Record("x", expires_at=datetime(2000, 1, 1, tzinfo=UTC)),
    Record("x", happened_at=datetime(2000, 1, 1)),  # noqa: DTZ001
    Record(5),  # type: ignore[arg-type]
    {"text": "x"},
    None,
    "",
]


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
async def test_one_that_cannot_be_kept_is_named_and_none_is_stored(
    runtime: AsyncRuntime, wrong: Any
) -> None:
    ada = await runtime.agents.create("ada")
    good = [f"fact {number}" for number in range(600)]
    with pytest.raises(InvalidRecord, match="record 600 ") as refused:
        await ada.archive.insert_many([*good, wrong, "and more"])
    assert refused.value.index == 600
    assert await ada.archive.count() == 0
    assert await newest_first(ada.archive) == []


@pytest.mark.parametrize("wrong", ["one text", b"bytes", {"text": "x"}, 5, None])
async def test_what_is_no_list_is_refused(runtime: AsyncRuntime, wrong: Any) -> None:
    ada = await runtime.agents.create("ada")
    with pytest.raises(InvalidInput, match="records is a list"):
        await ada.archive.insert_many(wrong)
    assert await ada.archive.count() == 0


async def test_of_nothing_nothing_comes(runtime: AsyncRuntime) -> None:
    ada = await runtime.agents.create("ada")
    assert await ada.archive.insert_many([]) == []
    assert await ada.archive.count() == 0


async def test_what_the_agent_is_told_of_its_archive_counts_each_once(
    runtime: AsyncRuntime, model: ScriptedModel
) -> None:
    ada = await runtime.agents.create("ada")
    await ada.archive.insert_many(["tea", "rain", "tea"])
    await ada.send("hello")
    assert "archival 2 passages" in str(model.requests[-1].messages[-1]["content"])


def test_the_blocking_door_keeps_many_too(tmp_path: Path) -> None:
    with Runtime(tmp_path, model="offline", embedder=None) as runtime:
        ada = runtime.agents.ensure("ada")
        kept = ada.archive.insert_many([Record("Lin drinks tea", tags=["tea"]), "rain"])
        assert [one.text for one in kept] == ["Lin drinks tea", "rain"]
        assert ada.archive.search("tea").hits[0].id == kept[0].id
        with pytest.raises(InvalidRecord, match="record 1 "):
            ada.archive.insert_many(["sun", ""])
        assert ada.archive.count() == 2


async def test_many_get_their_vectors_too(tmp_path: Path) -> None:
    async with AsyncRuntime(tmp_path, model="offline", embedder="local") as runtime:
        ada = await runtime.agents.ensure("ada")
        await ada.archive.insert_many(["Lin is allergic to peanuts", "the harbour is deep"])
        assert (await runtime.reindex()).stored == 2
        found = await ada.archive.search("What must she not eat?")
        assert found.hits[0].text == "Lin is allergic to peanuts"
        assert found.hits[0].via == "exact"
