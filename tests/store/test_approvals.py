"""Calls that wait for a person, as rows: what is listed, what is overdue, and that each moves from
one state to the next once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pagedaemon.agent import AgentRecord
from pagedaemon.config import Settings
from pagedaemon.store import agents, conversations
from pagedaemon.store import approvals as rows
from pagedaemon.store.approvals import ApprovalRow
from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.transaction import Transaction

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


def waiting(tx: Transaction, agent: str, number: int) -> ApprovalRow:
    """A call of that agent, whose time is over so many minutes after noon."""
    main = conversations.by_name(tx, agent, "main")
    assert main is not None
    row = ApprovalRow(
        id=f"approval-{agent}-{number}",
        agent_id=agent,
        conversation_id=main.id,
        turn_id="turn-1",
        call_id="call-1",
        seq=number,
        tool="mail",
        arguments={"to": "Mai"},
        hash=rows.call_hash("mail", {"to": "Mai"}),
        schema_hash="",
        why="always",
        is_tainted=False,
        status="pending",
        reason=None,
        created_at=NOON,
        expires_at=NOON + number * MINUTE,
    )
    rows.add(tx, row)
    return row


def test_they_are_listed_in_the_order_of_their_calls(store: Database) -> None:
    def work(tx: Transaction) -> None:
        third, first, second = (waiting(tx, "ada", number) for number in (3, 1, 2))
        other = waiting(tx, "bob", 9)
        assert rows.listed(tx) == [first, second, third, other]
        assert rows.listed(tx, agent_id="ada") == [first, second, third]
        assert rows.by_id(tx, second.id) == second
        rows.move(tx, second.id, "pending", "denied", now=NOON)
        assert rows.listed(tx, status="pending", agent_id="ada") == [first, third]

    store.write_now(work)


def test_one_is_overdue_from_the_very_instant(store: Database) -> None:
    def work(tx: Transaction) -> None:
        one, two = waiting(tx, "ada", 1), waiting(tx, "ada", 2)
        assert rows.next_expiry(tx) == one.expires_at
        assert rows.overdue(tx, one.expires_at - timedelta(microseconds=1)) == []
        assert rows.overdue(tx, one.expires_at) == [one]
        rows.move(tx, one.id, "pending", "approved", now=NOON)
        assert rows.overdue(tx, two.expires_at) == [two]
        assert rows.next_expiry(tx) == two.expires_at

    store.write_now(work)


def test_it_is_answered_once_and_keeps_who_and_when(store: Database) -> None:
    def work(tx: Transaction) -> None:
        one = waiting(tx, "ada", 1)
        assert rows.move(tx, one.id, "pending", "approved", by="Lin", now=NOON + MINUTE)
        assert not rows.move(tx, one.id, "pending", "denied", reason="late", now=NOON)
        assert rows.move(tx, one.id, "approved", "used", now=NOON + 2 * MINUTE)
        assert rows.by_id(tx, one.id) == replace(
            one, status="used", answered_at=NOON + MINUTE, answered_by="Lin"
        )

    store.write_now(work)


def test_they_go_with_their_agent(store: Database) -> None:
    def work(tx: Transaction) -> list[ApprovalRow]:
        waiting(tx, "ada", 1)
        bob = waiting(tx, "bob", 1)
        agents.remove(tx, "ada")
        assert rows.listed(tx) == [bob]
        return rows.listed(tx)

    assert len(store.write_now(work)) == 1


def test_the_hash_is_of_tool_and_arguments_whatever_their_order() -> None:
    one = rows.call_hash("mail", {"to": "Mai", "subject": "Küste"})
    assert one == rows.call_hash("mail", {"subject": "Küste", "to": "Mai"})
    assert one != rows.call_hash("mail", {"to": "Mai", "subject": "Kuste"})
    assert one != rows.call_hash("post", {"to": "Mai", "subject": "Küste"})
