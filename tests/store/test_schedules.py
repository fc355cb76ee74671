"""When agents are to be woken: what is due, what is held, and what goes with what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias, TypeVar

import pytest

from pagedaemon.agent import AgentRecord
from pagedaemon.config import Settings
from pagedaemon.store import agents, conversations, schedules
from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.schedules import ScheduleRow
from pagedaemon.store.transaction import Transaction

T = TypeVar("T")
Run: TypeAlias = Callable[[Callable[[Transaction], T]], T]

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Database]:
    """With the agents ada and bob."""
    pool = StorePool()
    database = Database.open(tmp_path / "space.db", space="lin", pool=pool)

    def make(tx: Transaction) -> None:
        for name in ("ada", "bob"):
            agents.add(tx, AgentRecord(name, name, Settings(), None, {}, NOON, NOON))
            conversations.add(tx, name, "main", NOON)

    database.write_now(make)
    yield database
    database.close()
    pool.close()


def timer(tx: Transaction, agent: str, due: datetime, every: float | None = None) -> ScheduleRow:
    main = conversations.by_name(tx, agent, "main")
    assert main is not None
    return schedules.add(
        tx,
        agent_id=agent,
        conversation_id=main.id,
        text=f"for {agent}",
        due=due,
        every=every,
        label="owner",
        step_id=None,
        now=NOON,
    )


def due(tx: Transaction, now: datetime) -> list[str]:
    return [row.id for row in schedules.due_now(tx, now)]


def test_what_is_due_comes_the_longest_due_first(store: Database) -> None:
    def work(tx: Transaction) -> None:
        later = timer(tx, "ada", NOON)
        sooner = timer(tx, "bob", NOON - MINUTE)
        timer(tx, "ada", NOON + timedelta(microseconds=1))
        assert due(tx, NOON) == [sooner.id, later.id]
        assert [row.id for row in schedules.due_now(tx, NOON, later.id)] == [later.id]
        assert schedules.by_id(tx, later.id) == later

    store.write_now(work)


def test_what_is_next_counts_when_a_hold_ends(store: Database) -> None:
    def work(tx: Transaction) -> None:
        assert schedules.next_due(tx, NOON) is None
        timer(tx, "ada", NOON - MINUTE)
        timer(tx, "bob", NOON + 5 * MINUTE)
        assert schedules.next_due(tx, NOON) == NOON + 5 * MINUTE
        schedules.pause(tx, "ada", NOON + 2 * MINUTE)
        assert due(tx, NOON) == []
        assert schedules.next_due(tx, NOON) == NOON + 2 * MINUTE
        assert len(due(tx, NOON + 2 * MINUTE)) == 1, "the hold has ended"
        schedules.pause(tx, "bob", NOON + 2 * MINUTE)
        assert schedules.next_due(tx, NOON + 2 * MINUTE) == NOON + 5 * MINUTE

    store.write_now(work)


def test_a_hold_without_end_lasts_until_it_is_lifted(store: Database) -> None:
    def work(tx: Transaction) -> None:
        row = timer(tx, "ada", NOON)
        schedules.pause(tx, "ada", NOON + MINUTE)
        schedules.pause(tx, "ada", None)
        assert (due(tx, NOON + 999 * MINUTE), schedules.next_due(tx, NOON)) == ([], None)
        assert schedules.resume(tx, "ada")
        assert not schedules.resume(tx, "ada")
        assert due(tx, NOON) == [row.id]

    store.write_now(work)


def test_only_its_own_agent_cancels_a_schedule(store: Database) -> None:
    def work(tx: Transaction) -> None:
        row = timer(tx, "ada", NOON)
        assert not schedules.remove(tx, "bob", row.id)
        assert schedules.of_agent(tx, "ada") == (row,)
        assert schedules.remove(tx, "ada", row.id)
        assert not schedules.remove(tx, "ada", row.id)
        assert schedules.count(tx, "ada") == 0

    store.write_now(work)


def test_schedules_go_with_their_conversation_and_their_agent(store: Database) -> None:
    def work(tx: Transaction) -> None:
        timer(tx, "ada", NOON)
        bobs = timer(tx, "bob", NOON)
        schedules.pause(tx, "bob", None)
        conversations.remove(tx, bobs.conversation_id)
        assert (schedules.count(tx, "bob"), schedules.count(tx, "ada")) == (0, 1)
        agents.remove(tx, "bob")
        assert not schedules.resume(tx, "bob")

    store.write_now(work)


def test_another_space_in_the_same_tables_is_not_seen(store: Database) -> None:
    def work(tx: Transaction) -> None:
        row = timer(tx, "ada", NOON)
        tx.space = "mai"
        assert due(tx, NOON) == []
        assert schedules.next_due(tx, NOON - MINUTE) is None
        assert schedules.by_id(tx, row.id) is None

    store.write_now(work)
