"""What a search has to rank: filtered before anything is cut off, and without words that say
nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pagedaemon.agent import AgentRecord
from pagedaemon.config import Settings
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import asking, fulltext
from pagedaemon.store import passages as rows
from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.passages import NewPassage, PassageFilter
from pagedaemon.store.transaction import Transaction

NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
GIVEN = PassageFilter("agent-1", NOON)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Database]:
    """An agent with an empty archive, and another one."""
    pool = StorePool()
    database = Database.open(tmp_path / "space.db", space="default", pool=pool)

    def work(tx: Transaction) -> None:
        for name in ("agent-1", "agent-2"):
            agent_rows.add(tx, AgentRecord(name, name, Settings(), None, {}, NOON, NOON))
            rows.add_archive(tx, name, NOON)

    database.write_now(work)
    yield database
    database.close()
    pool.close()


def fill(tx: Transaction, *texts: str, agent: str = "agent-1", tag: str = "t") -> list[str]:
    archive = rows.archive_of(tx, agent)
    assert archive is not None
    new = [NewPassage(text, "semantic", (tag,), None, 1.0, "api", None, "owner") for text in texts]
    return rows.add_all(tx, archive, agent, new, [NOON] * len(new))


def test_the_best_by_words_are_taken_and_all_are_counted(store: Database) -> None:
    def work(tx: Transaction) -> None:
        best, *_ = fill(tx, "kumquat kumquat", *(f"a kumquat of {n} others" for n in range(9)))
        found = rows.searched(GIVEN).candidates(tx, "kumquat", (), 3)
        assert len(found.keywords) == 3
        assert next(iter(found.keywords)) == best
        assert list(found.keywords.values()) == sorted(found.keywords.values(), reverse=True)
        assert (found.near, found.matching) == ((), 10)
        fewer = rows.searched(GIVEN).candidates(tx, "kumquat", (), 30)
        assert (len(fewer.keywords), fewer.matching) == (10, 10)

    store.write_now(work)


def test_what_an_index_named_has_its_score_by_words_too(store: Database) -> None:
    def work(tx: Transaction) -> None:
        ids = fill(tx, *(f"kumquat {'filling ' * n}" for n in range(6)), "nothing of it")
        worst, other = ids[5], ids[6]
        found = rows.searched(GIVEN).candidates(tx, "kumquat", [worst, other], 1)
        assert worst in found.keywords
        assert other not in found.keywords
        assert set(found.near) == {worst, other}

    store.write_now(work)


def test_filters_hold_on_both_sides_before_anything_is_cut_off(store: Database) -> None:
    def work(tx: Transaction) -> None:
        fill(tx, *["kumquat kumquat kumquat"] * 5)
        foreign = fill(tx, "kumquat", agent="agent-2")
        (mine,) = fill(tx, "one kumquat among many other fruits", tag="mine")
        given = PassageFilter("agent-1", NOON, tags=("mine",))
        found = rows.searched(given).candidates(tx, "kumquat", [*foreign, mine, "gone"], 1)
        assert list(found.keywords) == [mine]
        assert (found.near, found.matching) == ((mine,), 1)

    store.write_now(work)


def test_the_rest_follows_in_the_order_of_words(store: Database) -> None:
    def work(tx: Transaction) -> None:
        fill(tx, *(f"kumquat {'filling ' * n}" for n in range(6)))
        searched = rows.searched(GIVEN)
        order = list(searched.candidates(tx, "kumquat", (), 100).keywords)
        rest = searched.rest(tx, "kumquat", order[:2], offset=1, limit=2)
        assert list(rest) == order[3:5]
        assert searched.rest(tx, "?!", (), offset=0, limit=5) == {}

    store.write_now(work)


def test_words_of_very_many_texts_match_nothing_where_there_are_rarer_ones(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fulltext, "MOST_MATCHES", 10)

    def count(tx: Transaction, words: str) -> int:
        return rows.searched(GIVEN).candidates(tx, words, (), 100).matching

    def work(tx: Transaction) -> None:
        fill(tx, *(f"fine weather, day {n}" for n in range(30)))
        fill(tx, "fine and ripe kumquat", "kumquat jam")
        assert count(tx, "fine kumquat") == 2
        assert count(tx, "fine weather for kumquat") == 2
        assert count(tx, "fine") == 31, "a word that stands alone counts whatever it matches"
        assert count(tx, "weather fine") == 30, "of words that are all frequent several"
        assert count(tx, "fine unheardof") == 31, "a word that is nowhere takes no other's place"
        assert count(tx, "unheardof") == 0

    store.write_now(work)


def test_function_words_match_nothing_unless_they_are_all_that_is_asked_or_quoted(
    store: Database,
) -> None:
    def found(tx: Transaction, words: str) -> int:
        return rows.searched(GIVEN).matches(tx, words).total

    def work(tx: Transaction) -> None:
        fill(tx, "What does it cost?", "IT repaired my laptop", "Où est-ce ?", "Was ist das?")
        assert found(tx, "what does kumquat cost") == 1
        assert found(tx, "what does a kumquat do") == 0
        assert found(tx, "what does it") == 2, "there is nothing else to go by"
        assert found(tx, '"does" kumquat') == 1
        assert found(tx, "kumquat IT") == 2, "an abbreviation is a word of its own"
        assert found(tx, "où est la kumquat") == 0
        assert found(tx, "wo ist das Kumquat") == 0

    store.write_now(work)


def found(tx: Transaction, words: str, given: PassageFilter = GIVEN) -> list[str]:
    return list(rows.searched(given).matches(tx, words).scores)


def test_words_of_very_many_texts_weigh_in_the_score_of_what_rarer_ones_find(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fulltext, "MOST_MATCHES", 10)

    def work(tx: Transaction) -> None:
        fill(tx, *(f"nothing of note {n}" for n in range(100)))
        fill(tx, *(f"the harbour at {n} sharp" for n in range(20)))
        plain, best = fill(tx, "a kumquat is no lemon", "a kumquat by our harbour")
        assert found(tx, "harbour kumquat") == [best, plain]
        first, second = rows.searched(GIVEN).matches(tx, "harbour kumquat").scores.values()
        assert first.score > second.score > 0
        alone, _ = rows.searched(GIVEN).matches(tx, "kumquat").scores.values()
        assert second.score == pytest.approx(2 * alone.score), "each word counts twice, none more"

    store.write_now(work)


def test_among_many_texts_words_weigh_too_that_there_was_no_room_for(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fulltext, "MOST_MATCHES", 10)

    def work(tx: Transaction) -> None:
        best, plain = fill(tx, "a kumquat stands by our harbour", "a kumquat is no lemon")
        fill(tx, *["nothing of note"] * 30, *["kumquat jam, and much besides"] * 3)
        fill(tx, *["the harbour at dusk"] * 8)
        few = rows.searched(GIVEN).matches(tx, "kumquat harbour").scores
        assert few[best].score < few[plain].score, "it is longer, and no more is asked"
        monkeypatch.setattr(asking, "SAMPLE", 40)
        many = rows.searched(GIVEN).matches(tx, "kumquat harbour").scores
        assert many[best].score > many[plain].score
        assert many.keys() == few.keys()

    store.write_now(work)


def test_words_of_very_many_texts_find_what_has_several_of_them(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fulltext, "MOST_MATCHES", 10)

    def work(tx: Transaction) -> None:
        fill(tx, *(f"nothing of note {n}" for n in range(200)))
        lemons = fill(tx, *(f"lemons number {n}" for n in range(20)))
        fill(tx, *(f"harbours seen {n}" for n in range(30)))
        few = fill(tx, *["harbour where lemon trees grow"] * 3)
        assert set(found(tx, "lemon harbour")) == {*lemons, *few}, "too few have both"
        assert set(found(tx, "lemon harbour")[:3]) == set(few), "and come first"
        many = fill(tx, *["harbour of a lemon"] * 9)
        assert set(found(tx, "lemon harbour")) == {*few, *many}
        typed = found(tx, "lemon harbour unheardof")
        assert set(typed) == {*few, *many}, "a word that is nowhere takes no other's place"

    store.write_now(work)


def test_as_many_words_are_asked_for_at_once_as_leave_few_enough(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fulltext, "MOST_MATCHES", 10)
    monkeypatch.setattr(fulltext, "MOST_SCORED", 15)
    monkeypatch.setattr(asking, "SAMPLE", 100)

    def work(tx: Transaction) -> None:
        pairs = ["rope and sail", "rope and tar", "sail and tar", *["nothing of note"] * 7]
        every = [fill(tx, *pairs * 4, "rope, sail and tar")[-1] for _ in range(12)]
        assert set(found(tx, "tar rope sail")) == set(every), "those with two are 144"
        assert len(found(tx, "tar rope")) == 15
        newest = fill(tx, *["rope, sail and tar"] * 15)
        assert set(found(tx, "tar rope sail")) == set(newest), "of too many the newest"

    store.write_now(work)


def test_a_filter_that_leaves_few_of_what_has_several_words_finds_what_has_one(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fulltext, "MOST_MATCHES", 10)

    def work(tx: Transaction) -> None:
        fill(tx, *(f"nothing of note {n}" for n in range(200)))
        one, both = fill(tx, "lemons", "a lemon at the harbour", tag="mine")
        fill(tx, *["the lemon harbour"] * 20)
        fill(tx, *["a harbour in fog"] * 5)
        assert len(found(tx, "lemon harbour")) == 21
        mine = PassageFilter("agent-1", NOON, tags=("mine",))
        assert found(tx, "lemon harbour", mine) == [both, one]

    store.write_now(work)


def test_what_is_frequent_among_the_texts_of_others_finds_ones_own(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fulltext, "MOST_MATCHES", 10)
    monkeypatch.setattr(fulltext, "MOST_SCORED", 15)

    def work(tx: Transaction) -> None:
        fill(tx, *(f"the harbour {n}" for n in range(60)), agent="agent-2")
        fill(tx, *(f"nothing of note {n}" for n in range(140)), agent="agent-2")
        fill(tx, *["a kumquat"] * 5, agent="agent-2")
        mine = fill(tx, *(f"our harbour {n}" for n in range(17)), "a lake")
        assert found(tx, "kumquat") == []
        assert set(found(tx, "kumquat harbour")) == set(mine[:-1])
        matches = rows.searched(GIVEN).matches(tx, "harbour")
        assert (set(matches.scores), matches.total) == (set(mine[:-1]), 17), "and all of them"
        rest = rows.searched(GIVEN).rest(tx, "harbour", mine[:10], offset=0, limit=100)
        assert set(rest) == set(mine[10:-1])
        theirs = rows.searched(PassageFilter("agent-2", NOON)).matches(tx, "kumquat harbour")
        assert theirs.total == 5, "to whom most belong, it is as if he had all"

    store.write_now(work)


def test_where_nothing_is_frequent_ones_own_is_found_by_what_there_was_no_room_for(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fulltext, "MOST_MATCHES", 10)
    monkeypatch.setattr(asking, "SAMPLE", 20)

    def work(tx: Transaction) -> None:
        fill(tx, *["the harbour"] * 8, *["a kumquat"] * 5, *["nothing"] * 10, agent="agent-2")
        (mine,) = fill(tx, "our harbour")
        assert found(tx, "kumquat harbour") == [mine]

    store.write_now(work)


def test_of_what_more_have_than_can_be_scored_the_newest_that_pass_the_filter_match(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fulltext, "MOST_MATCHES", 10)
    monkeypatch.setattr(fulltext, "MOST_SCORED", 15)

    def work(tx: Transaction) -> None:
        mine = fill(tx, *(f"tea {n}" for n in range(20)), tag="mine")
        other = fill(tx, *["tea and much else to drink"] * 20)
        searched = rows.searched(GIVEN)
        assert set(found(tx, "tea")) == set(other[-15:])
        assert searched.matches(tx, "tea").total == 15
        given = PassageFilter("agent-1", NOON, tags=("mine",))
        assert set(found(tx, "tea", given)) == set(mine[-15:])
        rest = searched.rest(tx, "tea", other[-10:], offset=0, limit=100)
        assert set(rest) == set(other[-15:-10]), "nor are others on any page"

    store.write_now(work)


def test_of_a_word_that_stands_in_very_many_texts_a_filter_still_finds_its_own(
    store: Database,
) -> None:
    def work(tx: Transaction) -> None:
        fill(tx, *(f"tea {n}" for n in range(fulltext.MOST_MATCHES + 50)))
        mine = fill(tx, *["tea and many other things that are drunk"] * 3, tag="mine")
        everything = rows.searched(GIVEN).matches(tx, "tea")
        assert everything.total == fulltext.MOST_MATCHES + 53
        assert len(everything.scores) == fulltext.MOST_MATCHES
        assert not set(mine) & set(everything.scores), "longer texts are the worst"
        given = PassageFilter("agent-1", NOON, tags=("mine",))
        found = rows.searched(given).matches(tx, "tea")
        assert (set(found.scores), found.total) == (set(mine), 3)
        named = rows.searched(GIVEN).candidates(tx, "tea", mine[:1], 5)
        assert mine[0] in named.keywords
        assert (len(named.keywords), named.matching) == (6, fulltext.MOST_MATCHES + 53)

    store.write_now(work)
