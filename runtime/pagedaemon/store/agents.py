"""Rows of agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError
from sqlalchemy import delete, insert, select, update
from sqlalchemy.sql import bindparam

from pagedaemon.agent import AgentRecord
from pagedaemon.config import NEAR_REPEATS, Model, Settings
from pagedaemon.errors import ConfigError, NotFound
from pagedaemon.messages import Usage
from pagedaemon.store.tables import StoredValueError, agents, archives, provenance
from pagedaemon.store.tables import messages as messages_table
from pagedaemon.store.transaction import Transaction

_COLUMNS = (
    agents.c.id,
    agents.c.name,
    agents.c.settings,
    agents.c.model,
    agents.c.tools,
    agents.c.created_at,
    agents.c.updated_at,
)


def _record(row: Any) -> AgentRecord:
    identity, name, settings, model, tools, created, updated = row
    try:
        valid = Settings.model_validate(settings)
        its_model = None if model is None else Model.model_validate(model)
    except (ConfigError, ValidationError) as error:
        raise StoredValueError(f"the agent {name!r}: {error}") from error
    return AgentRecord(identity, name, valid, its_model, tools, created, updated)


def stored_model(model: Model | None) -> dict[str, Any] | None:
    """A model's settings without its key, which is never stored."""
    return None if model is None else model.model_dump(mode="json", exclude={"api_key"})


_BY_ID = select(*_COLUMNS).where(agents.c.id == bindparam("id"))


def by_id(tx: Transaction, agent_id: str) -> AgentRecord | None:
    """The agent with that id."""
    row = tx.first(_BY_ID, {"id": agent_id})
    return None if row is None else _record(row)


def require(tx: Transaction, agent_id: str) -> AgentRecord:
    """The agent with that id.

    Raises:
        NotFound: it was deleted.
    """
    found = by_id(tx, agent_id)
    if found is None:
        raise _deleted(agent_id)
    return found


_THERE = select(agents.c.id).where(agents.c.id == bindparam("id"))


def require_there(tx: Transaction, agent_id: str) -> None:
    """`require` where what the agent is does not matter: reading it takes four times as long.

    Raises:
        NotFound: it was deleted.
    """
    if tx.scalar(_THERE, {"id": agent_id}) is None:
        raise _deleted(agent_id)


_SETTINGS = select(agents.c.settings).where(agents.c.id == bindparam("id"))


def near_repeats(tx: Transaction, agent_id: str) -> float | None:
    """Its setting of that name, for which the others need not be validated.

    Raises:
        NotFound: it was deleted.
    """
    row = tx.first(_SETTINGS, {"id": agent_id})
    if row is None:
        raise _deleted(agent_id)
    found: float | None = row[0].get("near_repeats", NEAR_REPEATS)
    return found


def _deleted(agent_id: str) -> NotFound:
    return NotFound(f"agent {agent_id} was deleted")


def by_name(tx: Transaction, name: str) -> AgentRecord | None:
    """The agent of that name in this space."""
    row = tx.first(select(*_COLUMNS).where(agents.c.space == tx.space, agents.c.name == name))
    return None if row is None else _record(row)


def listed(tx: Transaction) -> tuple[AgentRecord, ...]:
    """All agents of the space, by name."""
    rows = tx.all(select(*_COLUMNS).where(agents.c.space == tx.space).order_by(agents.c.name))
    return tuple(_record(row) for row in rows)


def add(tx: Transaction, record: AgentRecord) -> None:
    """A new agent."""
    tx.execute(
        insert(agents),
        {
            "id": record.id,
            "space": tx.space,
            "name": record.name,
            "settings": record.settings.model_dump(mode="json"),
            "model": stored_model(record.model),
            "tools": dict(record.tools),
            "created_at": record.created_at,
            "updated_at": record.updated_at,
        },
    )


def set_fields(tx: Transaction, agent_id: str, fields: Mapping[str, Any], now: datetime) -> None:
    """Changes an agent's name, settings, model or tools."""
    tx.execute(update(agents).where(agents.c.id == agent_id).values(**fields, updated_at=now))


def remove(tx: Transaction, agent_id: str) -> None:
    """Deletes an agent's row, its conversations, turns and messages, and its own archives.

    Full-text rows and blocks are the caller's to remove first.
    """
    made = select(messages_table.c.id).where(messages_table.c.agent_id == agent_id)
    tx.execute(delete(provenance).where(provenance.c.child_id.in_(made)))
    tx.execute(delete(archives).where(archives.c.owner_agent_id == agent_id))
    tx.execute(delete(agents).where(agents.c.id == agent_id))


def usage(tx: Transaction, agent_id: str) -> Usage:
    """What an agent's model calls have cost so far.

    Raises:
        NotFound: it was deleted.
    """
    row = tx.first(select(*_SPENT_COLUMNS).where(agents.c.id == agent_id))
    if row is None:
        raise _deleted(agent_id)
    # The column is never null: nothing spent is what a sum of unknown prices comes to.
    spent_so_far = Usage(*row)
    return replace(spent_so_far, cost=spent_so_far.cost or None)


def counts(tx: Transaction, agent_id: str) -> tuple[int, int]:
    """Stored counters: messages in recall, passages in archival.

    Raises:
        NotFound: the agent was deleted.
    """
    row = tx.first(
        select(agents.c.recall_count, agents.c.archival_count).where(agents.c.id == agent_id)
    )
    if row is None:
        raise _deleted(agent_id)
    return row[0], row[1]


_COUNT_RECALL = (
    update(agents)
    .where(agents.c.id == bindparam("agent"))
    .values(recall_count=agents.c.recall_count + bindparam("more"))
)


def count_recall(tx: Transaction, agent_id: str, more: int) -> None:
    """Moves the counter of an agent's messages."""
    tx.execute(_COUNT_RECALL, {"agent": agent_id, "more": more})


_COUNT_ARCHIVAL = (
    update(agents)
    .where(agents.c.id == bindparam("agent"))
    .values(archival_count=agents.c.archival_count + bindparam("more"))
)


def count_archival(tx: Transaction, agent_id: str, more: int) -> None:
    """Moves the counter of an agent's passages."""
    tx.execute(_COUNT_ARCHIVAL, {"agent": agent_id, "more": more})


_SPENT_COLUMNS = (
    agents.c.spent_calls,
    agents.c.spent_prompt_tokens,
    agents.c.spent_completion_tokens,
    agents.c.spent_cached_tokens,
    agents.c.spent_reasoning_tokens,
    agents.c.spent_estimated,
    agents.c.spent_cost,
)
"""In the order of the fields of `Usage`."""

_SPENT = (
    update(agents)
    .where(agents.c.id == bindparam("agent"))
    .values(
        recall_count=agents.c.recall_count + bindparam("more"),
        spent_calls=agents.c.spent_calls + bindparam("calls"),
        spent_prompt_tokens=agents.c.spent_prompt_tokens + bindparam("prompt_tokens"),
        spent_completion_tokens=agents.c.spent_completion_tokens + bindparam("completion_tokens"),
        spent_cached_tokens=agents.c.spent_cached_tokens + bindparam("cached_tokens"),
        spent_reasoning_tokens=agents.c.spent_reasoning_tokens + bindparam("reasoning_tokens"),
        spent_estimated=agents.c.spent_estimated | bindparam("estimated"),
        spent_cost=agents.c.spent_cost + bindparam("cost"),
    )
)


def spent(tx: Transaction, agent_id: str, messages: int, usage: Usage) -> None:
    """Adds new messages and what they cost to an agent's counters."""
    spent_now = {**asdict(usage), "cost": usage.cost or 0.0}
    tx.execute(_SPENT, {"agent": agent_id, "more": messages, **spent_now})
