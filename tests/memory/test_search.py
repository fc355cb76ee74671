"""Pages over what words and meaning found, in the order that they are ranked in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pagedaemon.agent import AgentRecord
from pagedaemon.config import Settings
from pagedaemon.memory.archival import keep
from pagedaemon.memory.ranking import Ranking
from pagedaemon.memory.search import (
    Floors,
    Near,
    blank_is_none,
    find_messages,
    find_passages,
    surer,
)
from pagedaemon.messages import Message
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import conversations as rows
from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.passages import NewPassage, PassageFilter
from pagedaemon.store.recall import MessageFilter
from pagedaemon.store.transaction import Transaction

NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)

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


@pytest.mark.parametrize(
    ("query", "asked"), [(" \n\t", None), ("", None), (None, None), ("a", "a")]
)
def test_a_blank_query_asks_for_nothing(query: str | None, asked: str | None) -> None:
    assert blank_is_none(query) == asked


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
            least=Floors(floor),
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
            least=Floors(named.floor, least),
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
        plain = Ranking(own=0, episode=0, beside=0, answer=0, length=0, statement=0)
        alike = Near({f"message-{number}": 0.5 for number in (3, 0, 4)}, "exact")
        given = MessageFilter("agent-1")
        hits, _ = find_messages(tx, "?", given, offset=0, limit=9, near=alike, ranking=plain)
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
