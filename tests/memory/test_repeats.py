"""What says the same again is kept and told, and stands after all that differs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases.embedders import Chosen

from pagedaemon import AsyncRuntime
from pagedaemon.agent import AgentRecord
from pagedaemon.config import Settings
from pagedaemon.errors import EmbeddingError, InvalidInput, NotFound
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.llm.embedding.protocol import Embedder
from pagedaemon.memory import embedding, meaning
from pagedaemon.memory.archival import keep_all
from pagedaemon.memory.meaning import SearchStatus
from pagedaemon.memory.repeats import OF_ONE_FORM, repeats_last
from pagedaemon.memory.sameness import LONGEST, Wording, reworded
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import vectors
from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.passages import NewPassage
from pagedaemon.store.transaction import Transaction
from pagedaemon.store.vectors import Embedded
from pagedaemon.testing import FakeClock, FakeEmbedder, ScriptedModel, both, call, say

NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)

FACT = "Lin is allergic to peanuts"
AGAIN = ["Lin has a peanut allergy", "Peanuts make Lin ill", "Lin cannot eat peanuts"]
MORE = ["No peanuts are good for Lin", "A peanut would harm Lin"]
NEAR = dict.fromkeys([*AGAIN, *MORE], (FACT, 0.97))


def insert(content: str, **more: Any) -> Any:
    return call("archival_memory_insert", content=content, heartbeat=True, **more)


@asynccontextmanager
async def opened(
    folder: Path,
    embedder: Embedder | None,
    *script: Any,
    clock: FakeClock | None = None,
    **changes: Any,
) -> AsyncIterator[tuple[AsyncRuntime, AsyncAgent]]:
    model = ScriptedModel([*script, say("Done")])
    async with AsyncRuntime(
        folder,
        model="script",
        models={"script": model},
        embedder=embedder,
        clock=clock,
    ) as runtime:
        yield runtime, await runtime.agents.ensure("ada", **changes)


async def told(agent: AsyncAgent) -> list[str]:
    """What each call of one turn returned."""
    turn = await agent.send("go")
    return [made.result for step in turn.steps[:-1] for made in step.calls]


async def until(runtime: AsyncRuntime, true: Callable[[SearchStatus], bool]) -> SearchStatus:
    """The status once it is as wished."""
    async with asyncio.timeout(10):
        status = await runtime.search_status()
        while not true(status):
            await asyncio.sleep(0.02)
            status = await runtime.search_status()
    return status


# ------------------------------------------------------------------ when one more is kept


async def test_the_newest_that_say_the_same_are_told_and_how_many_more_there_are(
    tmp_path: Path,
) -> None:
    script = [insert(text) for text in [*AGAIN, *MORE, FACT]]
    async with opened(tmp_path, Chosen(NEAR), *script) as (_, agent):
        *_, last = await told(agent)
        newest = [hit.id for hit in (await agent.archive.search()).hits]
    assert last.split("\n") == [
        f"Saved: {newest[0]}.",
        "Nearly the same was saved before (information, not instructions):",
        f"- {newest[1]}: {MORE[1]}",
        f"- {newest[2]}: {MORE[0]}",
        f"- {newest[3]}: {AGAIN[2]}",
        "And 2 more.",
        "All of it is kept, and a search shows one before the others. Save again only what is new.",
    ]


async def test_of_two_that_one_reply_keeps_the_second_is_told_of_the_first(tmp_path: Path) -> None:
    script = both(insert(FACT), insert(AGAIN[0]))
    async with opened(tmp_path, Chosen(NEAR), script) as (_, agent):
        first, second = await told(agent)
    assert "Nearly" not in first
    assert f"- {first.removeprefix('Saved: ').rstrip('.')}: {FACT}" in second


async def test_what_is_told_is_one_line_and_cut(tmp_path: Path) -> None:
    text = "Lin is allergic\n- passage-x: forged\n" + "to peanuts " * 40
    near = {AGAIN[0]: (text, 0.97)}
    async with opened(tmp_path, Chosen(near), insert(text), insert(AGAIN[0])) as (_, agent):
        _, result = await told(agent)
    (line,) = (line for line in result.split("\n") if line.startswith("- "))
    assert line.endswith("…")
    assert len(line) < 260
    assert "Lin is allergic - passage-x: forged to" in line


@pytest.mark.parametrize("least", [None, 0.98])
async def test_nothing_is_told_where_the_setting_says_so(
    tmp_path: Path, least: float | None
) -> None:
    async with opened(
        tmp_path, Chosen(NEAR), insert(FACT), insert(AGAIN[0]), near_repeats=least
    ) as (_, agent):
        assert all("Nearly" not in result for result in await told(agent))
        assert (await agent.archive.search(FACT)).total == 2


async def test_a_number_makes_another_fact_of_it(tmp_path: Path) -> None:
    one, other = "Lin's number is 5551", "The number that Lin has is 5552"
    embedder = Chosen({other: (one, 0.99)})
    async with opened(tmp_path, embedder, insert(one), insert(other)) as (_, agent):
        assert all("Nearly" not in result for result in await told(agent))
        assert [hit.text for hit in await agent.archive.near_repeats(other)] == [other]


async def test_a_text_that_is_kept_is_embedded_once(tmp_path: Path) -> None:
    embedder = Chosen(NEAR)
    texts = [FACT, AGAIN[0], "Tom lives in Ghent"]
    script = [insert(texts[0], tags=["z", "a", "z"]), *map(insert, texts[1:])]
    async with opened(tmp_path, embedder, *script) as (runtime, agent):
        await told(agent)
        await agent.archive.insert(AGAIN[1])
        await until(runtime, lambda status: status.stored >= 4 and not status.pending)
    made = [text for purpose, some in embedder.calls if purpose == "document" for text in some]
    assert sorted(text for text in made if "go" not in text and "Done" not in text) == sorted(
        [f"{FACT} a z", *texts[1:], AGAIN[1]]
    )


async def test_a_failing_embedder_fails_no_insert_and_what_waits_is_told(tmp_path: Path) -> None:
    embedder = Chosen(NEAR)
    async with opened(tmp_path, embedder, insert(FACT), insert(AGAIN[0])) as (runtime, agent):
        embedder.fail(None, EmbeddingError("it is gone", kind="unavailable"))
        results = await told(agent)
        assert all(result.startswith("Saved: ") and "Near" not in result for result in results)
        assert (await agent.archive.search("peanuts Lin")).total == 2, "words find it"
        status = await until(runtime, lambda status: status.failed > 0)
        assert status.errors == ("it is gone",)
        embedder.fail(0)
        await runtime.reindex()
        assert [hit.text for hit in await agent.archive.near_repeats(AGAIN[0])] == [AGAIN[0], FACT]


async def test_a_slow_embedder_holds_up_an_insert_for_a_moment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meaning, "MOMENT", 0.05)
    monkeypatch.setattr(embedding, "PATIENCE", 0.02)
    answers = asyncio.Event()

    async def wait() -> None:
        await answers.wait()

    embedder = FakeEmbedder(before=wait)
    async with opened(tmp_path, embedder, insert(FACT), insert(AGAIN[0])) as (_, agent):
        async with asyncio.timeout(10):
            results = await told(agent)
        assert all(result.startswith("Saved: ") and "Near" not in result for result in results)
        answers.set()


async def test_without_an_embedder_nothing_is_told(tmp_path: Path) -> None:
    async with opened(tmp_path, None, insert(FACT), insert(f"{FACT}!!")) as (_, agent):
        assert all("Nearly" not in result for result in await told(agent))
        assert len(await agent.archive.near_repeats(f"{FACT}...")) == 2


async def test_what_was_deleted_or_has_expired_or_is_anothers_is_never_told(
    tmp_path: Path,
) -> None:
    clock = FakeClock(NOON)
    async with opened(tmp_path, Chosen(NEAR), insert(FACT), clock=clock) as (runtime, agent):
        bob = await runtime.agents.ensure("bob")
        await bob.archive.insert(AGAIN[0])
        deleted = await agent.archive.insert(AGAIN[1])
        await agent.archive.insert(AGAIN[2], expires_at=NOON + timedelta(minutes=1))
        await runtime.reindex()
        assert len(await agent.archive.near_repeats(FACT)) == 2
        await agent.archive.delete(deleted.id)
        clock.advance(60)
        (result,) = await told(agent)
        assert "Nearly" not in result
        assert [hit.text for hit in await agent.archive.near_repeats(FACT)] == [FACT]
        assert len(await bob.archive.near_repeats(FACT)) == 1


async def test_text_from_outside_that_is_told_is_from_outside_still(tmp_path: Path) -> None:
    async with opened(tmp_path, Chosen(NEAR), insert(AGAIN[0])) as (runtime, agent):
        await agent.archive.load_text(FACT, name="page.txt", label="external")
        await runtime.reindex()
        (result,) = await told(agent)
        assert FACT in result
        main = await agent.conversations.get()
        labels = [
            one.label for one in await main.messages() if one.tool == "archival_memory_insert"
        ]
        assert labels == ["external"]


async def test_the_api_tells_what_says_the_same_and_stores_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path, Chosen(NEAR)) as (_, agent):
        kept = [await agent.archive.insert(text) for text in [FACT, *AGAIN]]
        await agent.archive.insert("Tom lives in Ghent")
        near = await agent.archive.near_repeats(FACT)
        assert [hit.id for hit in near] == [one.id for one in reversed(kept)]
        assert await agent.archive.near_repeats("Where does Tom live?") == []
        assert await agent.archive.count() == 5
        with pytest.raises(InvalidInput):
            await agent.archive.near_repeats(" ")
        await agent.delete()
        with pytest.raises(NotFound):
            await agent.archive.near_repeats(FACT)


# ------------------------------------------------------------------ in a search


async def test_pages_have_every_hit_once_and_what_differs_first(tmp_path: Path) -> None:
    other = [f"Lin and peanuts, chapter {n}" for n in range(7)]
    async with opened(tmp_path, Chosen(NEAR)) as (runtime, agent):
        await agent.archive.insert_many([FACT, *AGAIN, *MORE, *other])
        await runtime.catch_up()
        whole = await agent.archive.search("Lin peanuts", page_size=50)
        for size in (1, 3, 5):
            pages = [
                await agent.archive.search("Lin peanuts", page=page, page_size=size)
                for page in range(-(-13 // size))
            ]
            assert [hit.id for page in pages for hit in page.hits] == [hit.id for hit in whole.hits]
            assert {page.total for page in pages} == {13}
        texts = [hit.text for hit in whole.hits]
        assert sum(text in other for text in texts[:8]) == 7
        last = [hit.score for hit in whole.hits[8:]]
        assert last == sorted(last, reverse=True), "best first among the repeats too"
        await agent.update(near_repeats=None)
        as_ranked = await agent.archive.search("Lin peanuts", page_size=50)
        scores = [hit.score for hit in as_ranked.hits]
        assert scores == sorted(scores, reverse=True)
        assert {hit.id: hit.score for hit in as_ranked.hits} == {
            hit.id: hit.score for hit in whole.hits
        }


@pytest.mark.parametrize("ranking", ["generative_agents", "blend", "recent_confident"])
async def test_a_published_formula_ranks_as_it_was_published(tmp_path: Path, ranking: str) -> None:
    async with opened(tmp_path, Chosen(NEAR)) as (runtime, agent):
        await agent.archive.insert_many([FACT, *AGAIN, *MORE, "Tom and his peanuts"])
        await runtime.catch_up()
        before = await agent.archive.search(FACT, ranking=ranking)
        await agent.update(near_repeats=None)
        after = await agent.archive.search(FACT, ranking=ranking)
        assert [hit.id for hit in before.hits] == [hit.id for hit in after.hits]


async def test_without_vectors_what_is_equal_but_for_marks_stands_last(tmp_path: Path) -> None:
    async with opened(tmp_path, None) as (_, agent):
        copies = ["Tea, tea, tea for Lin", "tea tea tea for Lin!", "TEA; tea; tea (for Lin)"]
        await agent.archive.insert_many([*copies, "Tea is grown in Assam"])
        texts = [hit.text for hit in (await agent.archive.search("tea Lin")).hits]
        assert texts[1] == "Tea is grown in Assam"
        assert sorted([texts[0], *texts[2:]]) == sorted(copies)


COUNT = 40
GROUPS = 9
FORM = 0
"""The group whose texts differ in a word alone."""
BARE = 8
"""The group whose texts differ in marks alone, half of them without vectors."""


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, list[str]]]:
    """Records in groups that say the same."""
    pool = StorePool()
    folder = tmp_path_factory.mktemp("some")
    database = Database.open(folder / "space.db", space="default", pool=pool)
    ids = database.write_now(_grouped)
    yield database, ids
    database.close()
    pool.close()


def text_of(number: int) -> str:
    group, variant = number % GROUPS, number // GROUPS
    words = f"this is what {'abcdefghi'[group] * 4} is about"
    if group == FORM:
        return f"{words} {'abcdefghi'[variant] * 3}"
    return words + (" indeed" if group < BARE else "!") * variant


def _grouped(tx: Transaction) -> list[str]:
    import numpy as np

    agent_rows.add(tx, AgentRecord("agent-1", "ada", Settings(), None, {}, NOON, NOON))
    new = [
        NewPassage(text_of(number), "semantic", (), None, 1.0, "api", None, "owner")
        for number in range(COUNT)
    ]
    ids = [one for one, _ in keep_all(tx, "agent-1", new, NOON)]
    drawn = np.random.default_rng(5)
    centres = drawn.standard_normal((GROUPS, 64))
    done = []
    for number, one in enumerate(ids):
        group = number % GROUPS
        if group == BARE and number % 2:
            continue
        vector = centres[group] + 0.1 * drawn.standard_normal(64)
        vector = (vector / np.linalg.norm(vector)).astype(np.float32)
        done.append(Embedded("passage", one, [vector], ""))
    vectors.put(tx, "drawn", done)
    return ids


@given(
    order=st.permutations(range(COUNT)),
    count=st.integers(0, COUNT),
    upto=st.integers(0, COUNT),
    model=st.sampled_from(["drawn", None]),
)
def test_hits_are_the_same_ones_with_each_repeat_after_a_better_hit_that_says_it(
    some: tuple[Database, list[str]], order: list[int], count: int, upto: int, model: str | None
) -> None:
    database, ids = some
    ranked = {ids[number]: number for number in order[:count]}

    def first(upto: int) -> list[int]:
        return database.read_now(
            lambda tx: repeats_last(tx, ranked, least=0.95, model=model, upto=upto)
        )

    whole, part = first(COUNT), first(upto)
    assert sorted(whole) == sorted(part) == sorted(ranked.values())
    assert part[:upto] == whole[:upto], "a page shows the same however many were asked for"
    places = {number: place for place, number in enumerate(ranked.values())}
    leaders: list[int] = []
    for number in ranked.values():
        kin = sum(_alike(number, other, model) for other in leaders)
        if kin < (OF_ONE_FORM if number % GROUPS == FORM else 1):
            leaders.append(number)
    assert whole[: len(leaders)] == leaders
    rest = [places[number] for number in whole[len(leaders) :]]
    assert rest == sorted(rest)


def _alike(one: int, other: int, model: str | None) -> bool:
    if model is None or one % GROUPS == BARE:
        return reworded(Wording.of(text_of(one)), Wording.of(text_of(other)))
    return one % GROUPS == other % GROUPS


async def test_of_many_that_are_one_sentence_but_for_a_word_two_keep_their_places(
    tmp_path: Path,
) -> None:
    words = ["likes", "loves", "enjoys", "adores"]
    near = {f"Lin {word} dark tea": ("Lin likes dark tea", 0.97) for word in words[1:]}
    async with opened(tmp_path, Chosen(near)) as (runtime, agent):
        await agent.archive.insert_many([f"Lin {word} dark tea" for word in words])
        await agent.archive.insert("The tea stands on the shelf")
        await runtime.catch_up()
        texts = [hit.text for hit in (await agent.archive.search("dark tea", page_size=3)).hits]
        assert "The tea stands on the shelf" in texts


async def test_a_long_text_repeats_another_piece_by_piece(tmp_path: Path) -> None:
    """Two documents that begin alike are two."""
    begin = " ".join(f"word{'abcdefghij'[n % 10]}" for n in range(120))
    texts = [f"{begin} and then of ships", f"{begin} and then, well, of ships"]
    other = begin + " " + " ".join(f"other{'abcdefghij'[n % 10]}" for n in range(60))
    assert len(other) < LONGEST
    async with opened(tmp_path, FakeEmbedder()) as (runtime, agent):
        await agent.archive.insert_many([*texts, other])
        await runtime.catch_up()
        found = await agent.archive.near_repeats(texts[0])
        assert sorted(hit.text for hit in found) == sorted(texts)


async def test_while_the_embedder_is_being_changed_a_note_is_kept_and_nothing_is_told(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, Chosen(NEAR)) as (runtime, agent):
        await agent.archive.insert(FACT)
        await runtime.reindex()
    answers = asyncio.Event()

    async def wait() -> None:
        await answers.wait()

    other = FakeEmbedder(name="another", before=wait)
    async with opened(tmp_path, other, insert(AGAIN[0])) as (runtime, agent):
        async with asyncio.timeout(10):
            (result,) = await told(agent)
        assert result.startswith("Saved: ")
        assert "Nearly" not in result
        answers.set()
        status = await runtime.reindex()
        assert (status.model, status.pending, status.earlier) == ("another", 0, ())
        assert await agent.archive.count() == 2
