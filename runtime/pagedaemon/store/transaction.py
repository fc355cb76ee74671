"""One transaction of a space, and what SQLite's errors mean for it.

SQLite may end a transaction by itself: after a full disk or a failed write it has already rolled
back, and the next statement would quietly start to commit on its own. So begin and commit belong to
this page alone, every statement first asks whether the transaction still stands, and one that is
gone takes no further statement and is never committed.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, cast

from sqlalchemy import Connection, CursorResult, Executable, RootTransaction, Row
from sqlalchemy.exc import DBAPIError

from pagedaemon.errors import InvalidInput, StorageFull, StorageUnavailable, StoreError
from pagedaemon.store.tables import StoredValueError, metadata

try:
    import resource
except ImportError:  # not a Unix: there is no file size limit to ask about
    resource = None  # type: ignore[assignment]

T = TypeVar("T")
Mode = Literal["write", "read"]
AnyRow: TypeAlias = "Row[*tuple[Any, ...]]"
AnyResult: TypeAlias = "CursorResult[*tuple[Any, ...]]"
Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None

_UNAVAILABLE = {
    sqlite3.SQLITE_BUSY: "another process kept it locked for longer than the busy timeout",
    sqlite3.SQLITE_LOCKED: "another connection of this process keeps it locked",
    sqlite3.SQLITE_PROTOCOL: "its locks could not be taken; is it on a network file system?",
    sqlite3.SQLITE_IOERR: "reading or writing it failed; check the disk",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that its folder exists and is writable",
    sqlite3.SQLITE_READONLY: "it cannot be written; check its permissions",
    sqlite3.SQLITE_PERM: "access was denied; check its permissions",
    sqlite3.SQLITE_CORRUPT: "its content is damaged; restore it from a backup",
    sqlite3.SQLITE_NOTADB: "it is not a database",
}


_NOT_AS_MADE = re.compile(
    r"no such (?:table|column): (?:main\.)?(\w+)|table (\w+) (?:has no column|already exists)"
)
"""How SQLite says that a table or column is missing, or there too early."""

_UNREADABLE = re.compile(r"malformed JSON|Could not decode to UTF-8")
"""How SQLite, and Python's driver of it, say that a value is not what was written."""


_WORD_INDEXES = ("messages_fts", "passages_fts")
"""Tables of ours that are not SQLAlchemy's, and what begins the names of SQLite's own for them."""


AT_ONCE = 500
"""Values in one statement: SQLite takes some 32,000."""


def portions(values: Sequence[T]) -> Iterator[list[T]]:
    """The values, as many at a time as one statement should have."""
    for at in range(0, len(values), AT_ONCE):
        yield list(values[at : at + AT_ONCE])


def driver(connection: Connection) -> sqlite3.Connection:
    """The sqlite3 connection beneath."""
    return cast("sqlite3.Connection", connection.connection.driver_connection)


def storage_error(error: BaseException | None) -> StoreError | None:
    """What an error of sqlite3, or of making Python's values from a row's, says about the storage;
    None where it speaks of the statement.

    A constraint that does not hold, a misspelt column and the like are None: they leave the
    transaction as it was and go to the caller as they are.
    """
    if error is not None and _tells_of_content(error):
        return StorageUnavailable(
            f"The store's file: its content is not as this release wrote it ({error}). Put the "
            "file back from a backup; `pagedaemon doctor` says what is wrong."
        )
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return None
    if code & 0xFF == sqlite3.SQLITE_FULL or _outgrown(code):
        return StorageFull(
            f"The store is full ({error}). Nothing of the transaction was kept; make room and try "
            "again."
        )
    reason = _UNAVAILABLE.get(code & 0xFF)
    if reason is None:
        return None
    return StorageUnavailable(f"The store's file: {reason} ({error}).")


def loss_of(error: BaseException) -> StoreError | None:
    """`storage_error` of what SQLAlchemy or sqlite3 raised."""
    return storage_error(error.orig if isinstance(error, DBAPIError) else error)


def tells_of_damage(error: StoreError) -> bool:
    """Whether it is the file's content that is wrong, and not that it cannot be reached now."""
    cause = error.__cause__
    if isinstance(cause, DBAPIError):
        cause = cause.orig
    if cause is not None and _tells_of_content(cause):
        return True
    code = getattr(cause, "sqlite_errorcode", 0)
    content = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
    return code & 0xFF in content


def _tells_of_content(error: BaseException) -> bool:
    """Whether tables of ours are not as they were made, or a value in them is not as it was
    written. A statement that names what never was a table of ours is a mistake of its own."""
    if isinstance(error, json.JSONDecodeError | StoredValueError):
        return True
    if not isinstance(error, sqlite3.OperationalError):
        return False
    if _UNREADABLE.search(str(error)):
        return True
    found = _NOT_AS_MADE.search(str(error))
    name = "" if found is None else found[1] or found[2]
    return name in metadata.tables or name.startswith(_WORD_INDEXES)


def _outgrown(code: int) -> bool:
    # A file that may not grow (RLIMIT_FSIZE) fails with EFBIG, for which SQLite has no code of its
    # own; the shared-memory file fails in this way only while it is being made larger.
    if code == sqlite3.SQLITE_IOERR_SHMSIZE:
        return True
    if code != sqlite3.SQLITE_IOERR_WRITE or resource is None:
        return False
    return resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY


class Transaction:
    """What a transaction function is given: its statements, in the space it may touch.

    A value that is no valid Unicode raises `InvalidInput`; it may also be what is only looked for.

    Statements raise `StorageFull` or `StorageUnavailable` when the storage fails, after which the
    transaction is gone, and SQLAlchemy's own errors (such as `IntegrityError`) for what is wrong
    with the statement, after which it stands. It must not be used after its function returned.

    Attributes:
        space: the space's name, which every row carries.
        embeds: whether somebody here makes vectors of new texts.
        queued: how many texts it put in the outbox for them.
    """

    __slots__ = ("_connection", "_driver", "_loss", "embeds", "queued", "space")

    def __init__(self, connection: Connection, space: str) -> None:
        self.space = space
        self.embeds = False
        self.queued = 0
        self._connection = connection
        self._driver = driver(connection)
        self._loss: StoreError | None = None

    @property
    def raw(self) -> sqlite3.Connection:
        """The connection beneath, for what only looks."""
        return self._driver

    def execute(self, statement: Executable, parameters: Parameters = None) -> AnyResult:
        """Runs one statement, with one set of parameters or, for a list of them, once for each."""
        if self._loss is not None or not self._driver.in_transaction:
            self.require_standing()
        try:
            return self._connection.execute(statement, parameters)
        except DBAPIError as error:
            self._weigh(error)
            raise
        except UnicodeEncodeError as error:
            raise InvalidInput(f"a lone surrogate is not valid Unicode: {error}") from error

    def all(self, statement: Executable, parameters: Parameters = None) -> Sequence[AnyRow]:
        """All rows."""
        result = self.execute(statement, parameters)
        try:
            return result.all()
        except DBAPIError as error:
            self._weigh(error)
            raise

    def first(self, statement: Executable, parameters: Parameters = None) -> AnyRow | None:
        """The first row, or None."""
        return self.execute(statement, parameters).first()

    def one(self, statement: Executable, parameters: Parameters = None) -> AnyRow:
        """The only row.

        Raises:
            sqlalchemy.exc.NoResultFound: there is none.
            sqlalchemy.exc.MultipleResultsFound: there are several.
        """
        return self.execute(statement, parameters).one()

    def scalar(self, statement: Executable, parameters: Parameters = None) -> Any:
        """The first column of the first row, or None."""
        return self.execute(statement, parameters).scalar()

    def require_standing(self) -> None:
        """Raises what ended the transaction, if it is gone."""
        if self._loss is None and not self._driver.in_transaction:
            self._loss = StorageUnavailable(
                "The transaction was rolled back by the database; nothing of it was kept."
            )
        if self._loss is not None:
            raise self._loss

    def _weigh(self, error: DBAPIError) -> None:
        loss = storage_error(error.orig)
        if loss is not None:
            self._loss = loss
            raise loss from error


def run(
    connection: Connection,
    space: str,
    mode: Mode,
    work: Callable[[Transaction], T],
) -> T:
    """Runs `work` in one transaction: committed whole when it returns, rolled back when it raises.

    A write takes the lock up front (BEGIN IMMEDIATE), so that what it read is still so when it
    writes; a read sees one snapshot and is never committed.

    Raises:
        StorageFull: the disk is full; nothing of the transaction was kept.
        StorageUnavailable: the file cannot be read or written, or stayed locked; nothing was kept.
    """
    raw = driver(connection)
    root = connection.begin()
    finished = False
    try:
        raw.execute("BEGIN IMMEDIATE" if mode == "write" else "BEGIN")
        transaction = Transaction(connection, space)
        value = work(transaction)
        if mode == "write":
            transaction.require_standing()
            root.commit()
            finished = True
        return value
    except (DBAPIError, sqlite3.Error, json.JSONDecodeError, StoredValueError) as error:
        loss = loss_of(error)
        if loss is None:
            raise
        raise loss from error
    finally:
        if not finished:
            abandon(root, raw)


def abandon(root: RootTransaction, raw: sqlite3.Connection) -> None:
    """Rolls back what was not committed.

    Raises:
        StorageUnavailable: it cannot be; the connection must not be used again.
    """
    try:
        # After a failed commit SQLAlchemy counts the transaction as ended, whether or not SQLite
        # does.
        root.rollback()
        if raw.in_transaction:
            raw.rollback()
    except (DBAPIError, sqlite3.Error) as error:
        raise StorageUnavailable(f"The transaction could not be rolled back ({error}).") from error
