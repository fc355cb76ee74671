"""A file that is looked at without writing beside it, whatever is done to it meanwhile."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from pagedaemon.errors import NotFound, StorageUnavailable
from pagedaemon.store.checkup import file
from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.transaction import Transaction, tells_of_damage


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store in which nothing was kept yet."""
    pool = StorePool()
    path = tmp_path / "space.db"
    Database.open(path, space="default", pool=pool).close()
    pool.close()
    return path


def write(path: Path, name: str, connection: sqlite3.Connection | None = None) -> None:
    """Stores an agent of that name as another process would."""
    with closing(connection or sqlite3.connect(path)) as raw:
        raw.execute(
            "INSERT INTO agents (id, space, name, settings, tools, recall_count, archival_count, "
            "spent_calls, spent_prompt_tokens, spent_completion_tokens, spent_cached_tokens, "
            "spent_reasoning_tokens, spent_estimated, created_at, updated_at) "
            "VALUES (:name, 'default', :name, '{}', '{}', 0, 0, 0, 0, 0, 0, 0, 0, '', '')",
            {"name": name},
        )
        raw.commit()


def names(tx: Transaction) -> list[str]:
    """The agents there are."""
    return [row[0] for row in tx.all(text("SELECT name FROM agents ORDER BY name"))]


def test_what_is_committed_is_seen_also_where_it_stands_in_the_log(path: Path) -> None:
    with closing(sqlite3.connect(path)) as holding:
        holding.execute("PRAGMA wal_autocheckpoint = 0")
        holding.execute("SELECT count(*) FROM agents")
        write(path, "ada")
        assert path.with_name("space.db-wal").stat().st_size > 0
        assert file.look(path, "default", names) == ["ada"]
    assert file.look(path, "default", names) == ["ada"]


def test_a_look_during_which_the_file_is_written_is_taken_again(path: Path) -> None:
    looks: list[list[str]] = []

    def disturbed_once(tx: Transaction) -> list[str]:
        found = names(tx)
        if not looks:
            write(path, "ada")
        looks.append(found)
        return found

    assert file.look(path, "default", disturbed_once) == ["ada"]
    assert looks == [[], ["ada"]]


def test_an_error_met_while_the_file_is_written_is_no_damage(path: Path) -> None:
    looks = 0

    def torn_once(tx: Transaction) -> list[str]:
        nonlocal looks
        looks += 1
        if looks == 1:
            write(path, "ada")
            raise sqlite3.DatabaseError("malformed")
        return names(tx)

    assert file.look(path, "default", torn_once) == ["ada"]


def test_a_file_that_changes_at_every_look_is_an_error(path: Path) -> None:
    def disturbed(tx: Transaction) -> None:
        write(path, f"agent {len(names(tx))}")

    with pytest.raises(StorageUnavailable, match="changed each time"):
        file.look(path, "default", disturbed)
    assert len(file.look(path, "default", names)) == file.TRIES


def test_it_cannot_write(path: Path) -> None:
    def writing(tx: Transaction) -> None:
        tx.execute(text("DELETE FROM agents"))

    with pytest.raises(StorageUnavailable, match="cannot be written"):
        file.look(path, "default", writing)


def test_a_name_with_odd_characters_is_a_name(path: Path) -> None:
    odd = path.rename(path.with_name("50% #1?.db"))
    assert file.look(odd, "default", names) == []


def test_a_database_of_another_program_is_told_and_left(tmp_path: Path) -> None:
    path = tmp_path / "space.db"
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("CREATE TABLE songs (title)")
    (found,) = file.look(path, "default", lambda tx: file.revision(tx, path))
    assert found.kind == "file_damaged"
    assert "another program" in found.what
    assert "move the file away" in str(found.advice)


def test_what_is_no_database_tells_of_damage(tmp_path: Path) -> None:
    path = tmp_path / "space.db"
    path.write_bytes(b"not a database" * 1_000)
    with pytest.raises(StorageUnavailable) as refused:
        file.look(path, "default", names)
    assert tells_of_damage(refused.value)


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        file.look(tmp_path / "space.db", "default", names)
    assert list(tmp_path.iterdir()) == []
