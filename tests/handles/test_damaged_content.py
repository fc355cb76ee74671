"""A file that SQLite finds whole, and whose content is not what was written: a typed error that
says what to do for whoever uses it, and a finding for whoever looks."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from pagedaemon import Runtime
from pagedaemon.errors import StorageUnavailable
from pagedaemon.handles.checkup import examine

DAMAGE = {
    "settings that are no JSON": ("UPDATE agents SET settings = '{bad'", "agents:1"),
    "settings that are none": ("UPDATE agents SET settings = '{\"style\": 7}'", "agent-"),
    "messages that are no JSON": ("UPDATE messages SET data = '{bad'", "messages:1"),
    "a time that is none": ("UPDATE agents SET created_at = 'never'", "agents:1"),
    "a table that is gone": ("DROP TABLE approvals", "approvals"),
    "a column that is gone": ("ALTER TABLE agents RENAME tools TO tolls", "agents.tools"),
    "words that are gone": ("DROP TABLE messages_fts", "space.db"),
    "text that is none": ("UPDATE messages SET data = CAST(x'ff' AS TEXT)", "space.db"),
    "another revision's number": ("UPDATE alembic_version SET version_num = '0003'", "space.db"),
}


def opened(store: Path) -> Runtime:
    """Its default space."""
    return Runtime(store, model="offline", embedder=None)


def spoilt(store: Path, statement: str) -> Path:
    """A store with an agent that has been talked to, and that statement run on its file by hand."""
    with opened(store) as runtime:
        ada = runtime.agents.ensure("ada")
        ada.send("Hi.")
    with closing(sqlite3.connect(store / "spaces" / "default" / "space.db")) as raw:
        raw.execute(statement)
        raw.commit()
    return store


@pytest.mark.parametrize(("statement", "where"), DAMAGE.values(), ids=DAMAGE.keys())
def test_content_that_is_not_as_written_is_a_store_error_and_a_finding(
    tmp_path: Path, statement: str, where: str
) -> None:
    store = spoilt(tmp_path / "memory", statement)
    with (
        pytest.raises(StorageUnavailable, match=r"not as this release wrote it.*from a backup"),
        opened(store) as runtime,
    ):
        runtime.agents.get("ada").send("Are you there?")
    found = examine(store).findings
    if "alembic" in statement:
        assert [one.kind for one in found] == ["schema_old"]  # what else, upgrading it shows
    else:
        assert {(one.kind, one.state) for one in found} == {("file_damaged", "left")}
        assert found[0].where[0].startswith(where)


def test_writes_that_are_made_together_each_tell_of_damage(tmp_path: Path) -> None:
    store = spoilt(tmp_path / "memory", "UPDATE agents SET settings = '{bad'")
    with opened(store) as runtime, ThreadPoolExecutor(8) as threads:

        def tell(number: int) -> Sequence[str]:
            runtime.agents.create(f"bob-{number}")
            with pytest.raises(StorageUnavailable, match="from a backup"):
                runtime.agents.get("ada")
            return [runtime.agents.get(f"bob-{number}").name]

        assert list(threads.map(tell, range(8))) == [[f"bob-{number}"] for number in range(8)]


def test_what_python_reads_as_json_and_sqlite_does_not_is_no_damage(tmp_path: Path) -> None:
    store = spoilt(tmp_path / "memory", "UPDATE turns SET told = 'NaN'")
    assert examine(store).sound


def test_a_folder_in_place_of_a_lock_file_is_left_and_told(tmp_path: Path) -> None:
    store = spoilt(tmp_path / "memory", "UPDATE turns SET owner = 'x'")
    folder = store / "workers" / "x.lock"
    folder.mkdir(parents=True)
    assert [one.kind for one in examine(store).findings] == ["worker_gone"]
    with opened(store) as runtime:
        (finding,) = runtime.doctor().findings
        assert (finding.kind, finding.state) == ("worker_gone", "left")
        assert "by hand" in finding.advice
        assert folder.is_dir()
        folder.rmdir()
        assert runtime.doctor().sound
