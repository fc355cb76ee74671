"""Makes a new store, recognises one at the head revision, and brings an older one there.

Making is one transaction, so that a crash leaves either an empty file or a whole store, and of two
processes that open the same new file one makes it and the other finds it made. Alembic is imported
only where there is something to upgrade.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    insert,
    text,
)
from sqlalchemy.exc import DBAPIError

from pagedaemon.errors import StorageUnavailable, StoreTooNew
from pagedaemon.store import fulltext
from pagedaemon.store.tables import metadata
from pagedaemon.store.transaction import Transaction, driver, run

APPLICATION_ID = 0x7067646D
"""Stands in the file's header: tells a store of ours from any other database that Alembic keeps
("pgdm")."""


@dataclass(frozen=True, slots=True)
class History:
    """The revisions a release knows, oldest first, and where their migrations lie."""

    revisions: tuple[str, ...]
    folder: Path

    @property
    def head(self) -> str:
        """The newest revision."""
        return self.revisions[-1]


OURS = History(
    ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008"),
    Path(__file__).parent / "migrations",
)

# Alembic's own table, as Alembic makes it.
_alembic_version = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


def recognise(raw: sqlite3.Connection, path: Path, history: History = OURS) -> str | None:
    """The revision of a store, None for an empty file. Only reads.

    Raises:
        StoreTooNew: a newer release wrote it.
        StorageUnavailable: it is no store of ours.
        sqlite3.Error: it cannot be read.
    """
    revision = _revision(raw)
    if revision is None:
        if raw.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
            return None
        # Another process may have made it between these two looks; it does so in one commit.
        revision = _revision(raw)
    if revision in history.revisions:
        return revision
    if revision is None or raw.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise StorageUnavailable(
            f"{path} is a database of another program: give the store a file or folder of its own"
        )
    raise StoreTooNew(
        f"{path} was written by a newer release (revision {revision}, and this one knows "
        f"{history.head}). It was left as it was: upgrade pagedaemon to open it."
    )


def bring_to_head(
    connection: Connection, path: Path, found: str | None, history: History = OURS
) -> None:
    """Makes or upgrades a store that `recognise` found to be at `found`; does nothing at the head.

    Before an upgrade the file is copied to `<file>.before-<head>`.

    Raises:
        StoreTooNew: meanwhile a newer release has upgraded it.
        StorageFull: there is no room. The store is as it was.
        StorageUnavailable: the file cannot be written, or an upgraded row would refer to nothing.
            The store is as it was.
    """
    if found == history.head:
        return
    raw = driver(connection)

    def work(tx: Transaction) -> None:
        # Another process may have been here since: only now is the file ours alone.
        current = recognise(raw, path, history)
        if current is None:
            _make(connection, tx, history)
        elif current != history.head:
            _back_up(path, history)
            _migrate(connection, history)
            _require_references(raw, path)

    # A migration that makes a table anew drops the old one, and that would delete the rows that
    # refer to it. The setting cannot be changed inside a transaction.
    raw.execute("PRAGMA foreign_keys=OFF")
    try:
        run(connection, "", "write", work)
    except DBAPIError as error:
        raise StorageUnavailable(
            f"{path} cannot be upgraded: it is not as a store of revision {found} is "
            f"({error.orig}). It is as it was: put it back from a backup"
        ) from error
    finally:
        raw.execute("PRAGMA foreign_keys=ON")


def _revision(raw: sqlite3.Connection) -> str | None:
    try:
        row = raw.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        return None  # there is no such table
    return None if row is None else str(row[0])


def _make(connection: Connection, tx: Transaction, history: History) -> None:
    metadata.create_all(connection, checkfirst=False)
    for statement in fulltext.SCHEMA:
        tx.execute(text(statement))
    _alembic_version.create(connection)
    tx.execute(insert(_alembic_version), {"version_num": history.head})
    tx.execute(text(f"PRAGMA application_id = {APPLICATION_ID}"))


def _back_up(path: Path, history: History) -> None:
    copy = path.with_name(f"{path.name}.before-{history.head}")
    unfinished = copy.with_name(f"{copy.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(unfinished)) as target:
        source.backup(target)
        # A copy that stands alone: no log beside it, and nothing to recover when it is opened.
        target.execute("PRAGMA journal_mode=DELETE")
    unfinished.replace(copy)


def _migrate(connection: Connection, history: History) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(history.folder).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, history.head)


def _require_references(raw: sqlite3.Connection, path: Path) -> None:
    broken = raw.execute("PRAGMA foreign_key_check").fetchone()
    if broken is not None:
        raise StorageUnavailable(
            f"{path} cannot be upgraded: a row of {broken[0]} refers to one of {broken[2]} "
            "that is missing"
        )
