"""Rows of core memory: blocks, their versions, and who holds them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.sql import bindparam

from pagedaemon.clock import new_id
from pagedaemon.messages import Label
from pagedaemon.store.tables import agent_blocks, block_versions, blocks
from pagedaemon.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class BlockRow:
    """A block as it is now."""

    id: str
    label: str
    value: str
    description: str
    limit: int
    read_only: bool
    version: int
    name: str | None
    owner_agent_id: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A block as it was."""

    version: int
    value: str
    operation: str
    actor: str
    agent_id: str | None
    turn_id: str | None
    step_id: str | None
    label: Label
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Author:
    """Who makes a version: an agent in a step, or a person through the API."""

    actor: str
    label: Label
    agent_id: str | None = None
    turn_id: str | None = None
    step_id: str | None = None


_COLUMNS = (
    blocks.c.id,
    blocks.c.label,
    blocks.c.value,
    blocks.c.description,
    blocks.c.limit,
    blocks.c.read_only,
    blocks.c.version,
    blocks.c.name,
    blocks.c.owner_agent_id,
    blocks.c.created_at,
    blocks.c.updated_at,
)
_HELD = (_COLUMNS[0], agent_blocks.c.label, *_COLUMNS[2:])
"""As an agent holds it: under the label it was attached with."""

_OF_AGENT = (
    select(*_HELD)
    .join(agent_blocks, agent_blocks.c.block_id == blocks.c.id)
    .where(agent_blocks.c.agent_id == bindparam("agent"))
    .order_by(agent_blocks.c.position)
)
_ONE_OF_AGENT = (
    select(*_HELD)
    .join(agent_blocks, agent_blocks.c.block_id == blocks.c.id)
    .where(
        agent_blocks.c.agent_id == bindparam("agent"), agent_blocks.c.label == bindparam("label")
    )
)
_BY_ID = select(*_COLUMNS).where(blocks.c.id == bindparam("id"))


def of_agent(tx: Transaction, agent_id: str) -> tuple[BlockRow, ...]:
    """An agent's blocks in their declared order."""
    return tuple(BlockRow(*row) for row in tx.all(_OF_AGENT, {"agent": agent_id}))


def one_of_agent(tx: Transaction, agent_id: str, label: str) -> BlockRow | None:
    """The block an agent holds under that label."""
    row = tx.first(_ONE_OF_AGENT, {"agent": agent_id, "label": label})
    return None if row is None else BlockRow(*row)


def by_id(tx: Transaction, block_id: str) -> BlockRow | None:
    """The block with that id."""
    row = tx.first(_BY_ID, {"id": block_id})
    return None if row is None else BlockRow(*row)


def by_name(tx: Transaction, name: str) -> BlockRow | None:
    """The block that stands alone under that name in this space."""
    row = tx.first(select(*_COLUMNS).where(blocks.c.space == tx.space, blocks.c.name == name))
    return None if row is None else BlockRow(*row)


def standing_alone(tx: Transaction) -> tuple[BlockRow, ...]:
    """All blocks of the space that belong to no one agent, by name."""
    rows = tx.all(
        select(*_COLUMNS)
        .where(blocks.c.space == tx.space, blocks.c.owner_agent_id.is_(None))
        .order_by(blocks.c.name, blocks.c.id)
    )
    return tuple(BlockRow(*row) for row in rows)


def add(
    tx: Transaction,
    *,
    label: str,
    value: str,
    description: str,
    limit: int,
    read_only: bool,
    name: str | None,
    owner_agent_id: str | None,
    author: Author,
    now: datetime,
) -> BlockRow:
    """A new block with its first version."""
    row = BlockRow(
        new_id("block"),
        label,
        value,
        description,
        limit,
        read_only,
        1,
        name,
        owner_agent_id,
        now,
        now,
    )
    tx.execute(
        insert(blocks),
        {
            "id": row.id,
            "space": tx.space,
            "name": name,
            "label": label,
            "value": value,
            "description": description,
            "limit": limit,
            "read_only": read_only,
            "version": 1,
            "trust": author.label,
            "owner_agent_id": owner_agent_id,
            "created_at": now,
            "updated_at": now,
        },
    )
    _remember(tx, row.id, 1, value, "create", author, now)
    return row


_SET_VALUE = (
    update(blocks)
    .where(blocks.c.id == bindparam("block"), blocks.c.version == bindparam("seen"))
    .values(
        value=bindparam("new_value"),
        version=bindparam("next"),
        trust=bindparam("new_trust"),
        updated_at=bindparam("at"),
    )
)


def set_value(
    tx: Transaction, row: BlockRow, value: str, operation: str, author: Author, now: datetime
) -> int:
    """Writes the next version of a block just read in this transaction, and returns its number."""
    version = row.version + 1
    changed = tx.execute(
        _SET_VALUE,
        {
            "block": row.id,
            "seen": row.version,
            "new_value": value,
            "next": version,
            "new_trust": author.label,
            "at": now,
        },
    )
    assert changed.rowcount == 1, "a block changed under a transaction that holds the write lock"
    _remember(tx, row.id, version, value, operation, author, now)
    return version


def set_fields(tx: Transaction, block_id: str, fields: dict[str, Any], now: datetime) -> None:
    """Changes what surrounds the value: description, limit, read_only, name."""
    tx.execute(update(blocks).where(blocks.c.id == block_id).values(**fields, updated_at=now))


_ADD_VERSION = insert(block_versions)


def _remember(
    tx: Transaction,
    block_id: str,
    version: int,
    value: str,
    operation: str,
    author: Author,
    now: datetime,
) -> None:
    tx.execute(
        _ADD_VERSION,
        {
            "block_id": block_id,
            "version": version,
            "space": tx.space,
            "value": value,
            "operation": operation,
            "actor": author.actor,
            "agent_id": author.agent_id,
            "turn_id": author.turn_id,
            "step_id": author.step_id,
            "trust": author.label,
            "created_at": now,
        },
    )


def versions(tx: Transaction, block_id: str) -> tuple[VersionRow, ...]:
    """Every version of a block, oldest first."""
    table = block_versions.c
    rows = tx.all(
        select(
            table.version,
            table.value,
            table.operation,
            table.actor,
            table.agent_id,
            table.turn_id,
            table.step_id,
            table.trust,
            table.created_at,
        )
        .where(table.block_id == block_id)
        .order_by(table.version)
    )
    return tuple(VersionRow(*row) for row in rows)


def attach(tx: Transaction, agent_id: str, block_id: str, label: str) -> None:
    """Hangs a block at the end of an agent's blocks."""
    last = tx.scalar(
        select(func.coalesce(func.max(agent_blocks.c.position), 0)).where(
            agent_blocks.c.agent_id == agent_id
        )
    )
    tx.execute(
        insert(agent_blocks),
        {
            "agent_id": agent_id,
            "label": label,
            "block_id": block_id,
            "position": cast(int, last) + 1,
        },
    )


def detach(tx: Transaction, agent_id: str, label: str) -> int:
    """Takes the block with that label off an agent; the block itself stays. Returns how many."""
    return tx.execute(
        delete(agent_blocks).where(
            agent_blocks.c.agent_id == agent_id, agent_blocks.c.label == label
        )
    ).rowcount


def holders(tx: Transaction, block_id: str) -> tuple[str, ...]:
    """Ids of the agents that hold a block."""
    rows = tx.all(select(agent_blocks.c.agent_id).where(agent_blocks.c.block_id == block_id))
    return tuple(row[0] for row in rows)


def remove(tx: Transaction, block_ids: list[str]) -> None:
    """Deletes blocks with their versions and attachments."""
    if block_ids:
        tx.execute(delete(blocks).where(blocks.c.id.in_(block_ids)))


def disown(tx: Transaction, agent_id: str) -> None:
    """Blocks an agent owned and others hold too outlive it: they stand alone from now on."""
    tx.execute(
        update(blocks).where(blocks.c.owner_agent_id == agent_id).values(owner_agent_id=None)
    )


def set_owner(tx: Transaction, block_id: str, agent_id: str | None) -> None:
    """Makes a block an agent's own, or nobody's."""
    tx.execute(update(blocks).where(blocks.c.id == block_id).values(owner_agent_id=agent_id))
