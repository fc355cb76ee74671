"""The file of a space: whether it is whole, and how it is looked at without writing to its folder.

An ordinary connection writes beside the file it only reads: the shared memory by which SQLite's
processes find each other. So where nobody has the file in use it is opened as one that cannot
change, and where somebody has, or has died over it, with that memory opened for reading alone
(`readonly_shm`, https://www.sqlite.org/uri.html and walformat.html).
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from sqlalchemy import JSON, create_engine, text
from sqlalchemy.pool import NullPool

from pagedaemon.errors import NotFound, StorageUnavailable, StoreTooNew
from pagedaemon.store import upgrade
from pagedaemon.store.checkup.findings import Symptom
from pagedaemon.store.tables import Instant, metadata
from pagedaemon.store.transaction import Transaction, run, storage_error

T = TypeVar("T")

TRIES = 5
"""How often a file is looked at that changes meanwhile."""

_INDEX = re.compile(r"missing from index|wrong # of entries in index|non-unique entry in index")


class Disturbed(Exception):
    """The file was changed while it was looked at as one that does not change."""


def look(path: Path, space: str, work: Callable[[Transaction], T]) -> T:
    """Runs a function on what is committed in a space's file, and writes nothing in its folder.

    Raises:
        NotFound: there is no such file.
        StorageUnavailable: it cannot be read, or changed each time it was looked at.
    """
    if path.exists() and not path.is_file():
        raise StorageUnavailable(f"{path} is no file")
    if not path.is_file():
        raise NotFound(f"there is no store at {path}")
    for _ in range(TRIES):
        try:
            with _opened(path) as raw:
                return _run(raw, space, work)
        except Disturbed:
            continue
        except sqlite3.Error as error:
            loss = storage_error(error)
            if loss is None:
                raise
            raise loss from error
    raise StorageUnavailable(f"{path} changed each time it was looked at: try again")


def _run(raw: sqlite3.Connection, space: str, work: Callable[[Transaction], T]) -> T:
    engine = create_engine("sqlite+pysqlite://", creator=lambda: raw, poolclass=NullPool)
    with engine.connect() as connection:
        return run(connection, space, "read", work)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    log, memory = (path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm"))
    if not (log.is_file() and log.stat().st_size):
        before = _state(path)
        try:
            with closing(_connection(path, "immutable=1")) as raw:
                yield raw
        finally:
            # Whatever was read of it, an error too, may be half of one state and half of another.
            if _state(path) != before or (log.is_file() and log.stat().st_size):
                raise Disturbed
        return
    with ExitStack() as until:
        if not memory.is_file():
            # Put back from a backup, say. Nobody has it open, or there would be that memory.
            copies = Path(until.enter_context(TemporaryDirectory(prefix="pagedaemon-")))
            for one in (path, log):
                shutil.copyfile(one, copies / one.name)
            yield until.enter_context(closing(_connection(copies / path.name, "mode=rw")))
            return
        query = "mode=ro&readonly_shm=1"
        yield until.enter_context(closing(_connection(path, query)))


def _state(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _connection(path: Path, query: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.resolve().as_uri()}?{query}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )


def revision(tx: Transaction, path: Path) -> list[Symptom]:
    """Whether the file is a store of ours at this release's revision. Only then are its tables the
    ones that are known here.
    """
    head = upgrade.OURS.head
    try:
        found = upgrade.recognise(tx.raw, path)
    except StoreTooNew as error:
        return [Symptom("schema_new", path.name, str(error))]
    except StorageUnavailable as error:
        advice = "put the space's folder back from a backup, or move the file away if it is no part"
        return [Symptom("file_damaged", path.name, str(error), f"{advice} of the store")]
    if found is None:
        what = "the file is empty: it lost all it held, or its first opening was cut off"
        advice = "put the space's folder back from a backup; if it never held anything, remove it"
        return [Symptom("file_damaged", path.name, what, advice)]
    if found != head:
        return [Symptom("schema_old", path.name, f"it is at revision {found}, and {head} is known")]
    return []


def damage(tx: Transaction) -> list[Symptom]:
    """What SQLite finds wrong with the file itself (`PRAGMA integrity_check`)."""
    symptoms = []
    for row in tx.all(text("PRAGMA integrity_check")):
        found = str(row[0])
        if found == "ok":
            continue
        if _INDEX.search(found):
            symptoms.append(Symptom("sql_index_damaged", found, "an index is not as its table is"))
        else:
            symptoms.append(Symptom("file_damaged", found, "the file itself is damaged"))
    return symptoms


def misshapen(tx: Transaction) -> list[Symptom]:
    """Tables and columns that are missing."""
    symptoms = []
    for name, table in metadata.tables.items():
        there = {str(row[1]) for row in tx.all(text(f"PRAGMA table_info({name})"))}
        if not there:
            symptoms.append(Symptom("file_damaged", name, "a table is missing"))
            continue
        for column in table.columns:
            if column.name not in there:
                where = f"{name}.{column.name}"
                symptoms.append(Symptom("file_damaged", where, "a column is missing"))
    return symptoms


def unreadable(tx: Transaction) -> Iterator[Symptom]:
    """Rows with a value that cannot be read as what its column holds.

    SQLite only says which ones to try: it knows fewer ways to write a number or a time.
    """
    for table in metadata.tables.values():
        for column in table.columns:
            if isinstance(column.type, JSON):
                suspect, read, what = "json_valid({0}) = 0", _read_json, "is no JSON"
            elif isinstance(column.type, Instant):
                suspect, read, what = "julianday({0}) IS NULL", _read_time, "is no time"
            else:
                continue
            name = f'"{column.name}"'
            query = f"SELECT rowid, {name} FROM {table.name} WHERE {name} IS NOT NULL AND "
            for number, value in tx.all(text(query + suspect.format(name))):
                if not read(value):
                    where = f"{table.name}:{number}"
                    yield Symptom("file_damaged", where, f"the value of {column.name!r} {what}")


def _read_json(value: str | bytes) -> bool:
    try:
        json.loads(value)
    except ValueError:
        return False
    return True


def _read_time(value: str | bytes) -> bool:
    try:
        datetime.fromisoformat(str(value))
    except ValueError:
        return False
    return True


def remake_indexes(tx: Transaction) -> None:
    """Makes the indexes of all tables anew from their rows."""
    tx.execute(text("REINDEX"))
