"""How candidates are ranked."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedaemon.errors import InvalidInput
from pagedaemon.memory.ranking import Ranking, Scored, fuse, in_context
from pagedaemon.memory.standing import Place
from pagedaemon.store.candidates import ByWords

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
