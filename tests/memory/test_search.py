"""Fusion of keywords and meaning: scaled, weighted, explained; and pages over what both found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedaemon.agent import AgentRecord
from pagedaemon.config import Settings
from pagedaemon.errors import InvalidInput
from pagedaemon.memory.archival import keep
from pagedaemon.memory.search import (
    Near,
    Ranking,
    Scored,
    blank_is_none,
    find_messages,
    find_passages,
    fuse,
    in_context,
    surer,
)
from pagedaemon.memory.standing import Place
from pagedaemon.messages import Message
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import conversations as rows
from pagedaemon.store.candidates import ByWords
from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.passages import NewPassage, PassageFilter
from pagedaemon.store.recall import MessageFilter
from pagedaemon.store.transaction import Transaction

NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)

SCORES = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=2),
    st.floats(-50, 50).map(lambda score: round(score, 6)),
    max_size=20,
)
# As the index gives them: above 0.
MATCHES = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=2),
    st.floats(0, 50).map(lambda score: round(score, 6) + 1e-6),
    max_size=20,
)
RANKINGS = st.builds(Ranking, st.floats(0.01, 9), st.floats(0.01, 9))


@given(MATCHES, SCORES, RANKINGS)
def test_every_candidate_is_ranked_once_and_its_score_is_the_sum_of_its_parts(
    keywords: dict[str, float], meaning: dict[str, float], ranking: Ranking
) -> None:
    ranked = fuse(keywords, meaning, ranking)
    assert sorted(one.id for one in ranked) == sorted({*keywords, *meaning})
    for one in ranked:
        assert one.score == pytest.approx(sum(one.parts.values()))
        assert 0 <= one.score <= 1 + 1e-9
        assert ("keywords" in one.parts) == (one.id in keywords)
        assert ("meaning" in one.parts) == (one.id in meaning)
    assert [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)


@given(st.floats(0.1, 10), st.floats(0.1, 10), st.floats(-10, 10))
def test_the_scale_of_a_side_does_not_matter(more: float, factor: float, shift: float) -> None:
    keywords, meaning = {"a": 3.0, "b": 2.0, "c": 0.5}, {"a": 0.1, "b": 0.7, "d": 0.9}
    stretched = {key: value * factor + shift for key, value in meaning.items()}
    before = fuse(keywords, meaning)
    after = fuse({key: value * more for key, value in keywords.items()}, stretched)
    assert {one.id: one.score for one in after} == pytest.approx(
        {one.id: one.score for one in before}
    )


def test_a_side_that_found_nothing_takes_no_weight_from_the_other() -> None:
    assert [one.score for one in fuse({"a": 4.0, "b": 1.0}, {})] == [1.0, 0.25]
    assert [one.score for one in fuse({"a": 4.0}, {}, Ranking(0, 1))] == [0.0]


@given(MATCHES)
def test_one_side_alone_keeps_its_order_and_equals_keep_theirs(keywords: dict[str, float]) -> None:
    expected = sorted(keywords, key=lambda key: -keywords[key])
    scores = [keywords[one.id] for one in fuse(keywords, {})]
    assert scores == [keywords[key] for key in expected]
    if keywords:
        alike = dict.fromkeys(keywords, 1.0)
        assert [one.id for one in fuse({}, alike)] == list(alike)


def test_how_sure_the_keywords_are_counts_and_not_only_their_order() -> None:
    """What rank fusion would lose: both sides have the same order in both cases."""
    meaning = {"near": 0.9, "exact": 0.7, "other": 0.1}
    sure = fuse({"exact": 20.0, "near": 3.0, "other": 1.0}, meaning)
    unsure = fuse({"exact": 3.2, "near": 3.1, "other": 1.0}, meaning)
    assert [one.id for one in sure] == ["exact", "near", "other"]
    assert [one.id for one in unsure] == ["near", "exact", "other"]


def test_weights_decide_and_are_relative() -> None:
    keywords, meaning = {"a": 2.0, "b": 1.0}, {"b": 0.9, "a": 0.1}
    assert fuse(keywords, meaning, Ranking(3, 1))[0].id == "a"
    assert fuse(keywords, meaning, Ranking(1, 3))[0].id == "b"
    assert fuse(keywords, meaning, Ranking(30, 10)) == fuse(keywords, meaning, Ranking(3, 1))


@pytest.mark.parametrize(
    "wrong",
    [
        {"keywords": -1},
        {"keywords": 0, "meaning": 0},
        {"episode": -1},
        {"candidates": 0},
        {"words_alone": 0},
    ],
)
def test_a_ranking_that_cannot_work_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Ranking(**wrong)


@pytest.mark.parametrize(
    ("query", "asked"), [(" \n\t", None), ("", None), (None, None), ("a", "a")]
)
def test_a_blank_query_asks_for_nothing(query: str | None, asked: str | None) -> None:
    assert blank_is_none(query) == asked


# What a message says counts alone.
PLAIN = Ranking(
    own=0, day=0, speaker=0, episode=0, beside=0, answer=0, length=0, statement=0, candidates=5
)


def placed(ranking: Ranking, **said: tuple[float, str, float]) -> dict[str, list[Scored]]:
    """Ranked by where they stand; each is given as (score, speaker, minutes after noon)."""
    scored = [Scored(name, one[0], {"keywords": one[0]}) for name, one in said.items()]
    places = {
        name: Place("main", NOON + timedelta(minutes=one[2]), one[1]) for name, one in said.items()
    }
    return {
        words: in_context(scored, places, words, ranking)
        for words in ("what?", "what does Lin say?")
    }


def test_whom_a_query_names_counts() -> None:
    ranking = replace(PLAIN, speaker=0.2, episode=0.5)
    found = placed(ranking, a=(0.5, "Bo", 0), b=(0.4, "lin", 1))
    assert [one.id for one in found["what?"]] == ["a", "b"]
    assert [one.id for one in found["what does Lin say?"]] == ["b", "a"]
    best = found["what does Lin say?"][0]
    assert dict(best.parts) == pytest.approx(
        {"keywords": 0.4 / 1.7, "speaker": 0.2 / 1.7, "episode": 0.5 * 0.45 / 1.7}
    )
    assert best.score == pytest.approx(sum(best.parts.values()))


def test_what_was_said_among_good_answers_counts_more() -> None:
    """An hour's pause ends an episode; of each the best three count."""
    found = placed(
        replace(PLAIN, episode=0.5),
        alone=(0.5, "Bo", 0),
        among=(0.45, "Bo", 500),
        first=(0.9, "Bo", 440),
        second=(0.9, "Bo", 560),
        third=(0.9, "Bo", 620),
        fifth=(0.1, "Bo", 630),
    )["what?"]
    assert [one.id for one in found] == ["first", "second", "third", "among", "alone", "fifth"]
    parts = {one.id: one.parts["episode"] * 1.5 for one in found}
    assert parts["alone"] == pytest.approx(0.5 * 0.5)
    assert {round(parts[name], 9) for name in ("among", "first", "second", "third", "fifth")} == {
        0.45
    }


def test_a_score_is_the_sum_of_weights_times_what_speaks_for_a_message() -> None:
    """Worked by hand: 1 + 0.5 + 0.25 + 0.75 + 0.5 = 3 is the whole."""
    ranking = replace(PLAIN, own=0.5, day=0.25, length=0.75, statement=0.5)
    scored = [Scored("a", 0.6, {"keywords": 0.6}), Scored("b", 0.5, {"meaning": 0.5})]
    places = {
        "a": Place("one", NOON, "user", 1, None, 300, "said so."),
        "b": Place("two", NOON, "user", 1, None, 100, "is it so?"),
    }
    found = {"a": ByWords(9.0, 2.0, 0.0), "gone": ByWords(9.0, 9.0, 9.0)}
    first, second = in_context(scored, places, "so", ranking, found)
    assert dict(first.parts) == pytest.approx(
        {"keywords": 0.6 / 3, "own": 0.5 / 3, "length": 0.75 / 3, "statement": 0.5 / 3}
    )
    assert dict(second.parts) == pytest.approx({"meaning": 0.5 / 3, "length": 0.75 * 0.75 / 3})
    for one in (first, second):
        assert one.score == pytest.approx(sum(one.parts.values()))


def test_only_what_is_shown_is_explained_and_the_order_is_the_same() -> None:
    scored = [Scored(name, score, {"keywords": score}) for name, score in (("a", 0.2), ("b", 0.9))]
    places = {name: Place("main", NOON, "user") for name in "ab"}
    explained = in_context(scored, places, "?")
    some = in_context(scored, places, "?", explained=1)
    assert [(one.id, one.score) for one in some] == [(one.id, one.score) for one in explained]
    assert (dict(some[0].parts), dict(some[1].parts)) == (dict(explained[0].parts), {})


def test_equals_keep_their_order_and_conversations_their_episodes() -> None:
    scored = [Scored(name, 0.5, {"meaning": 0.5}) for name in "ab"]
    places = {"a": Place("one", NOON, "user"), "b": Place("two", NOON, "user")}
    assert [one.id for one in in_context(scored, places, "?")] == ["a", "b"]
    assert in_context([], {}, "?") == []


# ------------------------------------------------------------------ over rows

TEXTS = [
    "Lin drinks tea in the garden",
    "The car needs new tyres",
    "An automobile was parked outside",
    "Lin moved to Berlin in May",
    "Tea is grown in Assam",
    "A boat lies in the harbour",
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Database]:
    """An agent, a conversation, and each text as a message and as a passage, a minute apart."""
    pool = StorePool()
    database = Database.open(tmp_path / "space.db", space="default", pool=pool)
    database.write_now(_filled)
    yield database
    database.close()
    pool.close()


def _filled(tx: Transaction) -> None:
    agent_rows.add(tx, AgentRecord("agent-1", "ada", Settings(), None, {}, NOON, NOON))
    conversation = rows.add(tx, "agent-1", "main", NOON)
    for number, text in enumerate(TEXTS):
        at = NOON + timedelta(minutes=number)
        message = Message(f"message-{number}", number + 1, "user", "message", text, at)
        rows.add_messages(tx, "agent-1", conversation.id, [message])
        new = NewPassage(text, "semantic", (f"t{number % 2}",), None, 1.0, "api", None, "owner")
        keep(tx, "agent-1", new, at)


def by_text(tx: Transaction) -> dict[str, str]:
    everything, _ = find_passages(tx, None, PassageFilter("agent-1", NOON), offset=0, limit=100)
    return {row.text: row.id for row in everything}


def near(tx: Transaction, **cosines: float) -> Near:
    """What an index says of passages: `t2=0.8` is the third text."""
    ids = by_text(tx)
    return Near({ids[TEXTS[int(name[1:])]]: cosine for name, cosine in cosines.items()}, "exact")


def test_passages_of_both_sides_are_one_list_that_says_how_each_was_found(store: Database) -> None:
    def work(tx: Transaction) -> None:
        hits, total = find_passages(
            tx,
            "car",
            PassageFilter("agent-1", NOON),
            offset=0,
            limit=10,
            near=near(tx, t1=0.9, t2=0.8, t5=0.1),
        )
        assert [hit.text for hit in hits] == [TEXTS[1], TEXTS[2], TEXTS[5]]
        assert total == 3
        assert dict(hits[0].parts) == pytest.approx({"keywords": 0.5, "meaning": 0.5})
        assert dict(hits[1].parts) == pytest.approx({"meaning": 0.5 * 0.875})
        assert [hit.via for hit in hits] == ["exact"] * 3
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)

    store.read_now(work)


def test_of_records_those_that_have_the_names_in_the_query_count_more(store: Database) -> None:
    def work(tx: Transaction) -> None:
        given = PassageFilter("agent-1", NOON)
        found = {}
        for weight in (0, 3):
            ranking = Ranking(named=weight, newer_first=False)
            found[weight], _ = find_passages(
                tx, "tea grown Lin", given, offset=0, limit=3, ranking=ranking
            )
        assert [hit.text for hit in found[0]] == [TEXTS[4], TEXTS[0], TEXTS[3]]
        assert [hit.text for hit in found[3]] == [TEXTS[0], TEXTS[3], TEXTS[4]]
        first, _, last = found[3]
        assert first.parts["named"] == pytest.approx(3 / 4)
        assert sum(first.parts.values()) == pytest.approx(first.score)
        assert "named" not in last.parts
        assert all("named" not in hit.parts for hit in found[0])

    store.read_now(work)


def test_what_only_words_found_says_keywords(store: Database) -> None:
    def work(tx: Transaction) -> None:
        hits, _ = find_passages(
            tx, "tea", PassageFilter("agent-1", NOON), offset=0, limit=10, near=near(tx, t0=0.9)
        )
        assert {hit.text: hit.via for hit in hits} == {TEXTS[0]: "exact", TEXTS[4]: "keywords"}

    store.read_now(work)


def test_a_floor_hides_only_what_no_word_found(store: Database) -> None:
    def found(tx: Transaction, floor: float | None) -> list[str]:
        hits, total = find_passages(
            tx,
            "tea",
            PassageFilter("agent-1", NOON),
            offset=0,
            limit=10,
            near=near(tx, t0=0.1, t5=0.2, t3=0.5),
            floor=floor,
        )
        assert total == len(hits)
        return sorted(hit.text for hit in hits)

    def work(tx: Transaction) -> None:
        assert found(tx, 0.3) == sorted([TEXTS[0], TEXTS[4], TEXTS[3]])
        assert found(tx, None) == sorted([TEXTS[0], TEXTS[4], TEXTS[3], TEXTS[5]])

    store.read_now(work)


def test_a_tool_asks_more_of_what_no_word_found_where_words_found_something(
    store: Database,
) -> None:
    def found(tx: Transaction, words: str, cosine: float) -> int:
        named = replace(near(tx, t5=cosine), floor=0.2)
        given, least = PassageFilter("agent-1", NOON), surer(named)
        assert least == pytest.approx(0.4)
        return find_passages(
            tx,
            words,
            given,
            offset=0,
            limit=10,
            near=named,
            floor=named.floor,
            floor_beside_words=least,
        )[1]

    def work(tx: Transaction) -> None:
        assert [found(tx, "tea", cosine) for cosine in (0.1, 0.3, 0.5)] == [2, 2, 3]
        assert [found(tx, "yacht", cosine) for cosine in (0.1, 0.3, 0.5)] == [0, 1, 1]

    store.read_now(work)
    assert surer(None) is None
    assert surer(Near({}, "exact")) is None


def test_filters_come_before_the_ranking_and_hold_for_what_an_index_named(store: Database) -> None:
    def work(tx: Transaction) -> None:
        given = PassageFilter("agent-1", NOON, tags=("t1",))
        everything = near(tx, t0=0.9, t1=0.8, t2=0.7, t3=0.6, t4=0.5, t5=0.4)
        hits, total = find_passages(tx, "tea", given, offset=0, limit=10, near=everything)
        assert total == 3
        assert [hit.text for hit in hits] == [TEXTS[1], TEXTS[3], TEXTS[5]]
        named = Near({**everything.cosines, "passage-gone": 0.99}, "exact")
        assert find_passages(tx, "tea", given, offset=0, limit=10, near=named) == (hits, total)
        foreign = PassageFilter("agent-2", NOON)
        assert find_passages(tx, "tea", foreign, offset=0, limit=9, near=named) == ([], 0)

    store.read_now(work)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_pages_show_each_hit_once_also_past_the_candidates(store: Database, size: int) -> None:
    """Four match by words, of which two are ranked; the rest follows in the order of words."""

    def work(tx: Transaction) -> None:
        given = PassageFilter("agent-1", NOON)
        found = near(tx, t1=0.9, t5=0.2)
        ranking = Ranking(candidates=2)
        seen: list[str] = []
        scores: list[float] = []
        total = -1
        while total < 0 or len(seen) < total:
            hits, total = find_passages(
                tx,
                "lin tea boat",
                given,
                offset=len(seen),
                limit=size,
                near=found,
                ranking=ranking,
            )
            assert len(hits) == min(size, total - len(seen))
            seen += [hit.text for hit in hits]
            scores += [hit.score for hit in hits]
        assert total == 5
        assert sorted(seen) == sorted(TEXTS[number] for number in (0, 1, 3, 4, 5))
        assert scores == sorted(scores, reverse=True)
        past, _ = find_passages(
            tx, "lin tea boat", given, offset=50, limit=5, near=found, ranking=ranking
        )
        assert past == []

    store.read_now(work)


def test_words_in_which_nothing_is_searchable_are_found_by_meaning_alone(store: Database) -> None:
    def work(tx: Transaction) -> None:
        hits, total = find_passages(
            tx, "?!", PassageFilter("agent-1", NOON), offset=0, limit=5, near=near(tx, t2=0.5)
        )
        assert ([hit.text for hit in hits], total) == ([TEXTS[2]], 1)

    store.read_now(work)


def test_without_an_index_search_is_by_words_as_ever(store: Database) -> None:
    def work(tx: Transaction) -> None:
        hits, total = find_passages(tx, "tea", PassageFilter("agent-1", NOON), offset=0, limit=1)
        assert (len(hits), total, hits[0].via) == (1, 2, "keywords")
        assert dict(hits[0].parts) == {"keywords": hits[0].score}

    store.read_now(work)


def test_messages_are_found_by_both_with_filters_and_pages(store: Database) -> None:
    def work(tx: Transaction) -> None:
        found = Near({"message-2": 0.8, "message-1": 0.9, "message-5": 0.1, "gone": 1.0}, "exact")
        given = MessageFilter("agent-1")
        hits, total = find_messages(tx, "car", given, offset=0, limit=2, near=found)
        assert [hit.message.text for hit in hits] == [TEXTS[1], TEXTS[2]]
        assert total == 3
        assert [hit.via for hit in hits] == ["exact", "exact"]
        later = MessageFilter("agent-1", start=NOON + timedelta(minutes=2))
        hits, total = find_messages(tx, "car", later, offset=0, limit=5, near=found)
        assert [hit.message.text for hit in hits] == [TEXTS[2], TEXTS[5]]
        ranking = Ranking(candidates=1)
        hits, total = find_messages(
            tx, "tea lin", given, offset=0, limit=9, near=found, ranking=ranking
        )
        assert total == 6
        assert len({hit.message.id for hit in hits}) == 6

    store.read_now(work)


def test_equals_stand_newest_first(store: Database) -> None:
    def work(tx: Transaction) -> None:
        alike = Near({f"message-{number}": 0.5 for number in (3, 0, 4)}, "exact")
        given = MessageFilter("agent-1")
        hits, _ = find_messages(tx, "?", given, offset=0, limit=9, near=alike, ranking=PLAIN)
        assert [hit.message.id for hit in hits] == ["message-4", "message-3", "message-0"]

    store.read_now(work)


def test_fewer_are_ranked_where_nothing_is_near(store: Database) -> None:
    """By the scores: of what is not ranked it is 0."""

    def ranked(tx: Transaction, found: Near | None) -> int:
        given, ranking = PassageFilter("agent-1", NOON), Ranking(candidates=4, words_alone=2)
        hits, total = find_passages(
            tx, "lin tea boat", given, offset=0, limit=9, near=found, ranking=ranking
        )
        assert total == len(hits) == 4
        return sum(hit.score > 0 for hit in hits)

    def work(tx: Transaction) -> None:
        assert ranked(tx, None) == ranked(tx, Near({}, "exact")) == 2
        assert ranked(tx, near(tx, t0=0.9)) == 4

    store.read_now(work)
