"""Messages in a store, put by name and found by words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, Insert, Table, insert, select

from pagedaemon.store import asking, fulltext
from pagedaemon.store.fulltext import MATCHING, Kind, Said
from pagedaemon.store.tables import Instant, agents, archives, conversations, messages
from pagedaemon.store.transaction import Transaction

NOW = datetime(2026, 11, 30, tzinfo=UTC)
Find = Callable[[str], list[str]]
Put = Callable[..., None]


def filled(table: Table, **given: Any) -> Insert:
    """An insert that gives every column that needs a value one."""
    values = dict(given)
    for column in table.columns:
        if column.name in given or column.nullable or column.default is not None:
            continue
        if isinstance(column.type, Instant):
            values[column.name] = NOW
        elif isinstance(column.type, JSON):
            values[column.name] = {}
        else:
            values[column.name] = column.type.python_type()
    return insert(table).values(values)


def owners(tx: Transaction) -> None:
    """Two agents with a conversation each, and an archive."""
    for agent in ("ada", "bob"):
        tx.execute(filled(agents, id=agent, name=agent))
        tx.execute(filled(conversations, id=f"{agent}-main", agent_id=agent))
    tx.execute(filled(archives, id="archive"))


def store(tx: Transaction, texts: dict[str, str], agent: str = "ada", first: int = 0) -> None:
    """Stores messages, by name, from that number on, and makes them searchable."""
    for seq, (name, words) in enumerate(texts.items(), first):
        owner = {"agent_id": agent, "conversation_id": f"{agent}-main"}
        tx.execute(filled(messages, id=name, seq=seq, text=words, kind="message", **owner))
    place = enumerate(texts.items(), first + 1)
    said = [Said(name, f"{agent}-main", seq, NOW, words) for seq, (name, words) in place]
    fulltext.index_messages(tx, said)


def matched(tx: Transaction, kind: Kind, query: str) -> list[str]:
    """Names of what a query finds, best first."""
    asked = asking.telling(tx, kind, query)
    if asked is None:
        return []
    found = MATCHING[kind]
    ordered = select(found.c.id).order_by(found.c.score.desc(), found.c.id)
    return [row[0] for row in tx.all(ordered, asked.values)]
