"""Group commit: writes that waited together share one transaction, and one wait for the disk.

Each runs within a savepoint of it. One that raises is rolled back to its own and fails alone. None
is told that it is stored before the commit of all. Where the transaction itself is lost (a full
disk, a failed write, a commit that does not succeed), nothing of any member is kept, and what each
of them read may never have been: so all are to be run again, each alone.
"""

from __future__ import annotations

import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pagedaemon.errors import StoreError
from pagedaemon.store.pool import Write
from pagedaemon.store.transaction import Transaction, abandon, driver, loss_of

LONGEST = 0.05
"""Seconds after which a group takes in no further member: the first one waits for all of them."""


@dataclass
class Group:
    """What came of writes that were run together."""

    left: deque[Write[Any]]
    """Those that were not begun, in order."""
    begun: list[Write[Any]] = field(default_factory=list)
    """Those that were, with what came of them kept and not yet told. Empty with a `loss`: the
    transaction could not be begun."""
    queued: int = 0
    """How many texts they put in the outbox."""
    loss: Exception | None = None
    """What the transaction was lost to; nothing of it was kept. None: it is committed."""


def run_together(
    connection: Connection,
    space: str,
    writes: Sequence[Write[Any]],
    *,
    embeds: bool,
    ready: Callable[[], None],
) -> Group:
    """Runs writes in one transaction, in order, until it has lasted for `LONGEST`.

    Args:
        embeds: as in `Transaction`.
        ready: called before the commit. A StoreError of its making prevents it.
    """
    raw = driver(connection)
    group = Group(deque(writes))
    committed = False
    try:
        root = connection.begin()
        try:
            raw.execute("BEGIN IMMEDIATE")
            until = time.monotonic() + LONGEST
            while group.left and (not group.begun or time.monotonic() < until):
                write = group.left.popleft()
                if write.begin():
                    group.begun.append(write)
                    group.queued += _run_member(connection, space, write, embeds)
            ready()
            root.commit()
            committed = True
        finally:
            if not committed:
                abandon(root, raw)
    except (StoreError, DBAPIError, sqlite3.Error) as error:
        group.loss = loss_of(error) or error
    return group


def _run_member(connection: Connection, space: str, write: Write[Any], embeds: bool) -> int:
    """Runs one write within a savepoint. Returns how many texts it put in the outbox.

    Raises:
        StoreError, sqlite3.Error: the transaction is lost.
    """
    raw = driver(connection)
    tx = Transaction(connection, space)
    tx.embeds = embeds
    raw.execute("SAVEPOINT member")
    write.keep(partial(write.work, tx))
    tx.require_standing()
    if write.error is None:
        raw.execute("RELEASE member")
        return tx.queued
    loss = loss_of(write.error)
    if loss is not None:
        raise loss
    raw.execute("ROLLBACK TO member")
    raw.execute("RELEASE member")
    return 0
