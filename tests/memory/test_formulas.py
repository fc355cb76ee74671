"""Published formulas, computed by hand, and the presets that searches rank by."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedaemon import AsyncRuntime
from pagedaemon.errors import ConfigError, InvalidInput
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.memory.formulas import Blend, GenerativeAgents, Remembered
from pagedaemon.memory.presets import PRESETS, known_presets, preset
from pagedaemon.testing import FakeClock, ScriptedModel, call, say

NOW = datetime(2026, 3, 8, 0, 0, tzinfo=UTC)
BEGAN = NOW - timedelta(hours=168)


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    lengths = math.hypot(*one) * math.hypot(*other)
    return sum(a * b for a, b in zip(one, other, strict=True)) / lengths


def hours(number: float) -> datetime:
    return BEGAN + timedelta(hours=number)


QUERY = (0.8, 0.2, 0.0)
RELEVANCE = {
    "allergic to peanuts": cosine(QUERY, (0.9, 0.1, 0.0)),
    "asked for a pasta recipe": cosine(QUERY, (0.7, 0.3, 0.1)),
    "uses a 2021 laptop": cosine(QUERY, (0.0, 0.2, 0.9)),
}
KNOWN = {
    "allergic to peanuts": Remembered(hours(0), 9),
    "asked for a pasta recipe": Remembered(hours(160), 3),
    "uses a 2021 laptop": Remembered(hours(165), 4),
}


class TestGenerativeAgents:
    """Park et al., 2023."""

    def test_the_worked_example(self) -> None:
        ranked = GenerativeAgents().ranked(RELEVANCE, KNOWN, NOW)
        assert [one.id for one in ranked] == list(RELEVANCE)
        assert [round(one.score, 2) for one in ranked] == [2.0, 1.94, 1.17]
        assert ranked[0].parts == {"relevance": 1.0, "recency": 0.0, "importance": 1.0}
        laptop = ranked[2].parts
        assert laptop["relevance"] == 0
        assert laptop["recency"] == 1
        assert laptop["importance"] == pytest.approx(1 / 6)

    def test_over_its_fixed_range_each_part_is_what_it_is(self) -> None:
        ranked = GenerativeAgents(fixed_range=True).ranked(RELEVANCE, KNOWN, NOW)
        first = next(one for one in ranked if one.id == "allergic to peanuts").parts
        assert first["relevance"] == pytest.approx(0.99099, abs=1e-5)
        assert first["recency"] == pytest.approx(0.995**168)
        assert first["importance"] == pytest.approx(8 / 9)

    def test_what_is_the_same_for_all_counts_one_for_each(self) -> None:
        known = {one: Remembered(NOW) for one in RELEVANCE}
        ranked = GenerativeAgents().ranked(dict.fromkeys(RELEVANCE, 0.3), known, NOW)
        assert [one.score for one in ranked] == [3.0, 3.0, 3.0]
        assert [one.id for one in ranked] == list(RELEVANCE), "equal ones keep their order"

    def test_what_nobody_rated_is_of_middling_importance(self) -> None:
        known = {"a": Remembered(NOW, 1), "b": Remembered(NOW), "c": Remembered(NOW, 9)}
        ranked = GenerativeAgents().ranked(dict.fromkeys(known, 0.3), known, NOW)
        parts = {one.id: one.parts["importance"] for one in ranked}
        assert parts == {"a": 0.0, "b": 0.5, "c": 1.0}

    def test_nothing_ranks_as_nothing(self) -> None:
        assert GenerativeAgents().ranked({}, {}, NOW) == []


class TestBlend:
    """Meaning, recency and names in fixed shares."""

    def test_its_shares_are_of_meaning_freshness_and_names(self) -> None:
        known = {
            "fresh": Remembered(NOW, named=0.5),
            "a month old": Remembered(NOW - timedelta(days=30), named=1.0),
            "opposite": Remembered(NOW - timedelta(days=60)),
        }
        relevance = {"fresh": 0.5, "a month old": 1.0, "opposite": -0.4}
        ranked = Blend().ranked(relevance, known, NOW)
        parts = {one.id: one.parts for one in ranked}
        assert parts["fresh"] == pytest.approx({"semantic": 0.3, "recency": 0.25, "entity": 0.075})
        assert parts["a month old"] == pytest.approx(
            {"semantic": 0.6, "recency": 0.125, "entity": 0.15}
        )
        assert parts["opposite"] == pytest.approx({"semantic": 0, "recency": 0.0625, "entity": 0})
        assert [one.id for one in ranked] == ["a month old", "fresh", "opposite"]

    def test_it_looks_at_thirty_by_meaning_and_thirty_by_words(self) -> None:
        assert (Blend().near, Blend().by_words) == (30, 30)

    def test_what_is_dated_ahead_is_as_fresh_as_can_be(self) -> None:
        (one,) = Blend().ranked({"a": 0.0}, {"a": Remembered(NOW + timedelta(days=5))}, NOW)
        assert one.parts["recency"] == 0.25


@given(
    st.dictionaries(
        st.sampled_from("abcdefgh"),
        st.tuples(st.floats(-1, 1), st.floats(0, 9_000), st.none() | st.floats(1, 10)),
    ),
    st.sampled_from([GenerativeAgents(), GenerativeAgents(fixed_range=True), Blend()]),
)
def test_every_candidate_is_ranked_once_and_its_score_is_the_sum_of_its_parts(
    drawn: dict[str, tuple[float, float, float | None]], formula: GenerativeAgents | Blend
) -> None:
    relevance = {one: values[0] for one, values in drawn.items()}
    known = {
        one: Remembered(NOW - timedelta(hours=age), importance)
        for one, (_, age, importance) in drawn.items()
    }
    ranked = formula.ranked(relevance, known, NOW)
    assert sorted(one.id for one in ranked) == sorted(drawn)
    assert [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)
    for one in ranked:
        assert one.score == pytest.approx(sum(one.parts.values()))
        assert all(0 <= part <= 1 for part in one.parts.values())


def test_presets_are_known_by_name_and_a_wrong_one_lists_them() -> None:
    assert known_presets() == list(PRESETS)
    assert "recent_confident" not in known_presets("messages")
    with pytest.raises(InvalidInput, match=r"default, generative_agents, .*'newest'"):
        preset("newest")
    with pytest.raises(InvalidInput, match="messages are ranked by one of default"):
        preset("recent_confident", of="messages")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
async def ada(tmp_path: Path, clock: FakeClock) -> AsyncIterator[AsyncAgent]:
    async with AsyncRuntime(tmp_path / "m", model="offline", clock=clock, embedder=None) as runtime:
        yield await runtime.agents.ensure("ada")


async def test_a_search_ranks_by_the_preset_it_names(ada: AsyncAgent, clock: FakeClock) -> None:
    await ada.archive.insert("Lin drinks tea", importance=9)
    clock.advance(3_600 * 500)
    await ada.archive.insert("the harbour sells tea to Lin on every long rainy day", importance=2)
    by_default = (await ada.archive.search("tea Lin")).hits
    assert set(by_default[0].parts) <= {"keywords", "named", "newer"}
    paper = (await ada.archive.search("tea Lin", ranking="generative_agents")).hits
    assert set(paper[0].parts) == {"relevance", "recency", "importance"}
    assert paper[0].score == pytest.approx(sum(paper[0].parts.values()))
    blend = (await ada.archive.search("tea Lin", ranking="blend")).hits
    assert blend[0].parts["entity"] == pytest.approx(0.15)
    assert blend[0].via == "keywords"
    page = await ada.archive.search("tea Lin", ranking="blend", page=1, page_size=1)
    assert (page.total, page.hits[0].id) == (2, blend[1].id)


async def test_a_blend_of_messages_takes_names_from_who_spoke(ada: AsyncAgent) -> None:
    await ada.recall.import_jsonl(
        [
            {"role": "user", "name": who, "content": "I like tea", "created_at": at}
            for who, at in (("Lin", "2024-01-01T00:00:00Z"), ("Tom", "2024-01-02T00:00:00Z"))
        ]
    )
    first, second = (await ada.recall.search("tea of Lin", ranking="blend")).hits
    assert (first.message.author, second.message.author) == ("Lin", "Tom")
    assert first.parts["entity"] == pytest.approx(0.15)
    assert second.parts["entity"] == 0
    (found,) = (await ada.recall.search("Tom", ranking="generative_agents")).hits
    assert found.parts == {"relevance": 1.0, "recency": 1.0, "importance": 1.0}


async def test_recent_confident_gives_the_three_newest_that_are_sure_and_for_the_purpose(
    ada: AsyncAgent, clock: FakeClock
) -> None:
    for number in range(5):
        await ada.archive.insert(f"tone {number}", purposes=["tone"], confidence=0.8)
        clock.advance(60)
    await ada.archive.insert("a guess", purposes=["tone"], confidence=0.79)
    await ada.archive.insert("something else", purposes=["food"])
    found = await ada.archive.search("x", ranking="recent_confident", purposes=["tone"])
    assert [hit.text for hit in found.hits] == ["tone 4", "tone 3", "tone 2"]
    assert found.total == 3
    assert found.hits[0].purposes == ("tone",)
    assert (await ada.archive.search(ranking="recent_confident", purposes=["none"])).total == 0
    second = await ada.archive.search(
        ranking="recent_confident", purposes=["tone"], page=1, page_size=2
    )
    assert [hit.text for hit in second.hits] == ["tone 2"]


async def test_purposes_filter_any_search(ada: AsyncAgent) -> None:
    await ada.archive.insert("tea in the morning", purposes=["food", "morning"])
    await ada.archive.insert("tea in the evening", purposes=["food"])
    (hit,) = (await ada.archive.search("tea", purposes=["morning", "tone"])).hits
    assert hit.text == "tea in the morning"
    with pytest.raises(InvalidInput, match="purpose is one line"):
        await ada.archive.insert("x", purposes=["two\nlines"])


async def test_a_search_only_reads_unless_it_is_told_to_note_the_use(
    ada: AsyncAgent, clock: FakeClock
) -> None:
    stored = await ada.archive.insert("Lin drinks tea")
    clock.advance(60)
    await ada.archive.search("tea", ranking="generative_agents")
    assert (await ada.archive.get(stored.id)).uses == 0
    await ada.archive.search("tea", refresh=True)
    used = await ada.archive.get(stored.id)
    assert (used.uses, used.used_at) == (1, clock.now())


@pytest.mark.parametrize("wrong", [{"ranking": "newest"}, {"refresh": "yes"}, {"ranking": None}])
async def test_a_wrong_ranking_is_refused(ada: AsyncAgent, wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        await ada.archive.search("tea", **wrong)  # type: ignore[arg-type]


async def test_an_agent_searches_by_the_ranking_of_its_settings(
    tmp_path: Path, clock: FakeClock
) -> None:
    script = [
        call("archival_memory_search", query="tea", heartbeat=True),
        call("conversation_search", query="tea", heartbeat=True),
        say("Done"),
    ]
    async with AsyncRuntime(
        tmp_path / "m",
        model="script",
        models={"script": ScriptedModel(script)},
        clock=clock,
        embedder=None,
    ) as runtime:
        agent = await runtime.agents.ensure("bob", ranking="generative_agents")
        old = await agent.archive.insert("tea, tea, tea", importance=2)
        clock.advance(3_600 * 900)
        text = "a cup of tea makes his neighbour ill, and badly so each time he has one"
        important = await agent.archive.insert(text, importance=10)
        assert (await agent.archive.search("tea")).hits[0].id == old.id
        turn = await agent.send("go")
        result = turn.steps[0].calls[0].result
        assert result.index(important.id) < result.index(old.id)
        assert turn.reply == "Done", "messages are ranked by it too"
        assert (await agent.archive.get(old.id)).uses == 1
        with pytest.raises(ConfigError, match="ranking"):
            await runtime.agents.ensure("cyd", ranking="newest")
