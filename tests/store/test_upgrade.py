"""Stores of every age: made, recognised, upgraded after a copy, refused when too new or foreign."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, select, text
from tests.store.texts import filled

import pagedaemon
from pagedaemon.errors import StorageUnavailable, StoreTooNew
from pagedaemon.store import upgrade
from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.tables import agents, archives, conversations
from pagedaemon.store.transaction import Transaction, driver

SOURCE_ROOT = Path(pagedaemon.__file__).parents[1]


@pytest.fixture
def pool() -> Iterator[StorePool]:
    pool = StorePool()
    yield pool
    pool.close()


def make(path: Path, pool: StorePool, *names: str) -> None:
    """A store with an archive of each name."""
    database = Database.open(path, space="lin", pool=pool)
    for name in names:
        statement = filled(archives, id=name)
        database.write_now(partial(Transaction.execute, statement=statement))
    database.close()


def ask(path: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute(statement).fetchall()
        connection.commit()
        return found


def shape(path: Path) -> dict[str, Any]:
    """Everything in a database's schema, in an order that does not depend on how it was written."""
    with closing(sqlite3.connect(path)) as raw:
        tables = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        others = raw.execute(
            "SELECT name, sql FROM sqlite_master WHERE type != 'table' AND sql IS NOT NULL"
        ).fetchall()
        found: dict[str, Any] = {name: " ".join(sql.split()) for name, sql in others}
        for name, sql in tables:
            found[name] = {
                "written": sorted(part.strip(" )") for part in " ".join(sql.split()).split(", ")),
                "columns": raw.execute(f'PRAGMA table_info("{name}")').fetchall(),
                "refers": {row[2:] for row in raw.execute(f'PRAGMA foreign_key_list("{name}")')},
                "indexes": {
                    (
                        index[2],
                        index[4],
                        tuple(
                            column[2] for column in raw.execute(f'PRAGMA index_info("{index[1]}")')
                        ),
                    )
                    for index in raw.execute(f'PRAGMA index_list("{name}")')
                },
            }
        return found


def alembic(folder: Path) -> Config:
    config = Config()
    config.set_main_option("script_location", str(folder))
    return config


def test_the_migrations_make_what_the_tables_make(tmp_path: Path, pool: StorePool) -> None:
    make(tmp_path / "made.db", pool)
    config = alembic(upgrade.OURS.folder)
    engine = create_engine(f"sqlite:///{tmp_path / 'migrated.db'}")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    engine.dispose()
    assert shape(tmp_path / "migrated.db") == shape(tmp_path / "made.db")
    for file in ("made.db", "migrated.db"):
        assert ask(tmp_path / file, "PRAGMA application_id") == [(upgrade.APPLICATION_ID,)]
        assert ask(tmp_path / file, "SELECT * FROM alembic_version") == [(upgrade.OURS.head,)]


def test_the_revisions_known_are_those_there_are() -> None:
    scripts = ScriptDirectory.from_config(alembic(upgrade.OURS.folder))
    there = [script.revision for script in scripts.walk_revisions()]
    assert tuple(reversed(there)) == upgrade.OURS.revisions


def test_a_store_at_the_head_is_recognised_by_one_read(tmp_path: Path, pool: StorePool) -> None:
    make(tmp_path / "space.db", pool, "kept")
    with closing(sqlite3.connect(tmp_path / "space.db")) as raw:
        seen: list[str] = []
        raw.set_trace_callback(seen.append)
        assert upgrade.recognise(raw, tmp_path / "space.db") == upgrade.OURS.head
    assert seen == ["SELECT version_num FROM alembic_version"]
    make(tmp_path / "space.db", pool)
    assert ask(tmp_path / "space.db", "SELECT id FROM archives") == [("kept",)]


def test_folders_on_the_way_are_made(tmp_path: Path, pool: StorePool) -> None:
    make(tmp_path / "new" / "and 100% odd?#name" / "space.db", pool)
    assert (tmp_path / "new" / "and 100% odd?#name" / "space.db").is_file()


def test_processes_that_make_the_same_store_at_once_all_succeed(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from pagedaemon.store.database import Database, StorePool

pool = StorePool()
print("ready", flush=True)
sys.stdin.readline()
for number in range(10):
    Database.open(Path(sys.argv[1]) / f"{number}.db", space="lin", pool=pool).close()
pool.close()
"""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": str(SOURCE_ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    with ThreadPoolExecutor(4) as callers:
        ended = list(callers.map(lambda child: child.communicate("go\n", timeout=60), children))
    assert [child.returncode for child in children] == [0] * 4, ended
    for number in range(10):
        assert ask(tmp_path / f"{number}.db", "SELECT count(*) FROM alembic_version") == [(1,)]


def test_a_store_that_another_makes_while_it_is_looked_at_is_recognised(
    tmp_path: Path, pool: StorePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "space.db"
    sqlite3.connect(path).close()
    look, looks = upgrade._revision, []

    def meanwhile(raw: sqlite3.Connection) -> str | None:
        looks.append(look(raw))
        if len(looks) == 1:
            with monkeypatch.context() as alone:
                alone.setattr(upgrade, "_revision", look)
                make(path, pool)
        return looks[-1]

    monkeypatch.setattr(upgrade, "_revision", meanwhile)
    with closing(sqlite3.connect(path)) as raw:
        assert upgrade.recognise(raw, path) == upgrade.OURS.head
    assert looks == [None, upgrade.OURS.head]


def test_a_process_that_dies_while_making_leaves_nothing_half(
    tmp_path: Path, pool: StorePool
) -> None:
    code = """
import os, signal, sys
from pathlib import Path
from sqlalchemy import Engine, event
from pagedaemon.store.database import Database, StorePool

left = [int(sys.argv[2])]

def die(*arguments):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)

event.listen(Engine, "before_cursor_execute", die)
event.listen(Engine, "commit", lambda connection: os.kill(os.getpid(), signal.SIGKILL))
Database.open(Path(sys.argv[1]), space="lin", pool=StorePool())
"""
    path = tmp_path / "space.db"
    for statements in (5, 40, 1_000):
        child = subprocess.run(
            [sys.executable, "-c", code, str(path), str(statements)],
            env={**os.environ, "PYTHONPATH": str(SOURCE_ROOT)},
            capture_output=True,
            check=False,
        )
        assert child.returncode == -9
        assert ask(path, "SELECT count(*) FROM sqlite_master") == [(0,)]
    make(path, pool, "a")
    assert ask(path, "SELECT id FROM archives") == [("a",)]


def test_a_newer_store_is_refused_and_left_as_it_was(tmp_path: Path, pool: StorePool) -> None:
    path = tmp_path / "space.db"
    make(path, pool, "kept")
    ask(path, "UPDATE alembic_version SET version_num = '9999'")
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match="9999"):
        Database.open(path, space="lin", pool=pool)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["space.db"]


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE theirs (x)"],
        ["CREATE TABLE alembic_version (version_num TEXT)"],
        [
            "CREATE TABLE alembic_version (version_num TEXT)",
            "INSERT INTO alembic_version VALUES ('3f2a')",
        ],
    ],
)
def test_another_programs_database_is_refused_and_left_as_it_was(
    tmp_path: Path, pool: StorePool, statements: list[str]
) -> None:
    path = tmp_path / "theirs.db"
    for statement in statements:
        ask(path, statement)
    before = path.read_bytes()
    with pytest.raises(StorageUnavailable, match="another program"):
        Database.open(path, space="lin", pool=pool)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_left_as_it_was(
    tmp_path: Path, pool: StorePool
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database at all\n" * 100)
    before = path.read_bytes()
    with pytest.raises(StorageUnavailable, match="not a database"):
        Database.open(path, space="lin", pool=pool)
    assert path.read_bytes() == before


def test_what_cannot_be_opened_is_unavailable(tmp_path: Path, pool: StorePool) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "space.db"):
        with pytest.raises(StorageUnavailable):
            Database.open(path, space="lin", pool=pool)


ADDS_A_COLUMN = f"""
import sqlalchemy as sa
from alembic import op

revision = "9002"
down_revision = "{upgrade.OURS.head}"


def upgrade():
    with op.batch_alter_table("agents", recreate="always") as agents:
        agents.add_column(sa.Column("mood", sa.String(10)))
    op.execute("UPDATE agents SET mood = 'calm'")
"""


@pytest.fixture
def later(tmp_path: Path) -> upgrade.History:
    """The history of a release that knows one revision more."""
    folder = tmp_path / "later 100%"
    shutil.copytree(upgrade.OURS.folder, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "r9002_mood.py").write_text(ADDS_A_COLUMN)
    return upgrade.History((*upgrade.OURS.revisions, "9002"), folder)


@pytest.fixture
def older(tmp_path: Path, pool: StorePool) -> Path:
    """A store of this release, with an agent and a conversation that refers to it."""
    path = tmp_path / "space.db"
    database = Database.open(path, space="lin", pool=pool)
    database.write_now(
        lambda tx: (
            tx.execute(filled(agents, id="a", name="ada")),
            tx.execute(filled(conversations, id="c", agent_id="a")),
        )
    )
    database.close()
    return path


def bring(path: Path, pool: StorePool, history: upgrade.History) -> None:
    connection = pool.connect(path, 10)
    raw = driver(connection)
    raw.execute("PRAGMA foreign_keys=ON")
    try:
        upgrade.bring_to_head(connection, path, upgrade.recognise(raw, path, history), history)
    finally:
        assert raw.execute("PRAGMA foreign_keys").fetchone() == (1,)
        connection.close()


def test_an_older_store_is_upgraded_with_a_copy_first(
    older: Path, later: upgrade.History, pool: StorePool
) -> None:
    bring(older, pool, later)
    assert ask(older, "SELECT name, mood FROM agents") == [("ada", "calm")]
    assert ask(older, "SELECT id FROM conversations") == [("c",)]
    assert ask(older, "SELECT version_num FROM alembic_version") == [("9002",)]

    copy = older.with_name("space.db.before-9002")
    assert ask(copy, "SELECT version_num FROM alembic_version") == [(upgrade.OURS.head,)]
    assert ask(copy, "SELECT name FROM agents") == [("ada",)]
    make(copy, pool, "it opens")
    with pytest.raises(StoreTooNew, match="9002"):
        Database.open(older, space="lin", pool=pool)


def test_of_two_that_upgrade_at_once_one_does(
    older: Path, later: upgrade.History, pool: StorePool
) -> None:
    connection = pool.connect(older, 10)
    found = upgrade.recognise(driver(connection), older, later)
    bring(older, pool, later)
    copy = older.with_name("space.db.before-9002")
    copy.unlink()
    upgrade.bring_to_head(connection, older, found, later)
    connection.close()
    assert ask(older, "SELECT version_num FROM alembic_version") == [("9002",)]
    assert not copy.exists()


@pytest.mark.parametrize(
    ("spoils", "error"),
    [
        ("raise ValueError('half way')", ValueError),
        ("op.execute('DELETE FROM agents')", StorageUnavailable),
    ],
)
def test_an_upgrade_that_fails_leaves_the_store_as_it_was(
    older: Path,
    later: upgrade.History,
    pool: StorePool,
    spoils: str,
    error: type[Exception],
) -> None:
    (later.folder / "versions" / "r9002_mood.py").write_text(f"{ADDS_A_COLUMN}    {spoils}\n")
    before = shape(older)
    with pytest.raises(error):
        bring(older, pool, later)
    assert shape(older) == before
    assert ask(older, "SELECT version_num FROM alembic_version") == [(upgrade.OURS.head,)]
    database = Database.open(older, space="lin", pool=pool)
    assert database.read_now(lambda tx: tx.scalar(select(text("name FROM agents")))) == "ada"
    database.close()


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A store as the first schema made it, with something in it."""
    path = tmp_path / "first.db"
    config = alembic(upgrade.OURS.folder)
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        for statement in FIRST_ROWS:
            connection.execute(text(statement))
    engine.dispose()
    return path


FIRST_ROWS = (
    """
    INSERT INTO agents VALUES ('a', 'lin', 'ada', '{}', NULL, '[]', 1, 1, 2, 30, 4, 0, 0, 0,
        '2026-11-30T00:00:00.000000+00:00', '2026-11-30T00:00:00.000000+00:00')
    """,
    """
    INSERT INTO conversations VALUES ('c', 'lin', 'a', 'main', 0, NULL, NULL, 1, 1, 0, 0, 0, NULL,
        '2026-11-30T00:00:00.000000+00:00')
    """,
    """
    INSERT INTO messages (id, space, agent_id, conversation_id, seq, role, kind, text, status,
        in_window, pinned, trust, created_at)
    VALUES ('m', 'lin', 'a', 'c', 1, 'user', 'message', 'hello', '', 1, 0, 'user',
        '2026-11-30T00:00:00.000000+00:00')
    """,
)


def test_a_store_of_the_first_schema_becomes_one_of_this_release(
    first: Path, tmp_path: Path, pool: StorePool
) -> None:
    make(first, pool, "new")
    make(tmp_path / "made.db", pool)
    assert shape(first) == shape(tmp_path / "made.db")
    assert ask(first, "SELECT name, spent_prompt_tokens, spent_cost FROM agents") == [
        ("ada", 30, 0.0)
    ]
    assert ask(first, "SELECT text FROM messages") == [("hello",)]
    for added in ("attachments", "schedules", "pauses"):
        assert ask(first, f"SELECT * FROM {added}") == []
    copy = first.with_name(f"first.db.before-{upgrade.OURS.head}")
    assert ask(copy, "SELECT version_num FROM alembic_version") == [("0001",)]
    # The cascade reaches what the new schema added.
    with closing(sqlite3.connect(first)) as raw:
        raw.execute("PRAGMA foreign_keys=ON")
        raw.execute(
            "INSERT INTO attachments (id, space, message_id, position, kind, media_type, size,"
            " sha256, created_at) VALUES ('x', 'lin', 'm', 0, 'image', 'image/png', 1, '', '')"
        )
        raw.execute("DELETE FROM agents")
        raw.commit()
    assert ask(first, "SELECT * FROM attachments") == []


def test_messages_of_an_older_index_are_beside_their_neighbours_after_it(
    first: Path, tmp_path: Path, pool: StorePool
) -> None:
    with closing(sqlite3.connect(first)) as raw:
        for seq, word in enumerate(("apples", "berries", "cherries"), 2):
            raw.execute(
                "INSERT INTO messages (id, space, agent_id, conversation_id, seq, role, kind, text,"
                " status, in_window, pinned, trust, created_at) VALUES (?, 'lin', 'a', 'c', ?,"
                " 'user', 'message', ?, '', 1, 0, 'user', '2024-02-29T23:30:00.000000+00:00')",
                (word, seq, word),
            )
            raw.execute("INSERT INTO message_words (id, text) VALUES (?, ?)", (word, word))
        raw.commit()
    make(first, pool)
    day = "Thursday 29 February 2024"
    assert ask(first, "SELECT id, seq, text, day, trim(near) FROM message_words ORDER BY seq") == [
        ("apples", 2, "apples", day, "berries"),
        ("berries", 3, "berries", day, "apples cherries"),
        ("cherries", 4, "cherries", day, "berries"),
    ]
    found = "SELECT rowid FROM messages_fts WHERE messages_fts MATCH"
    assert len(ask(first, f"{found} 'near : apples'")) == 1
    assert len(ask(first, f"{found} 'day : february'")) == 3
    weights = "SELECT v FROM messages_fts_config WHERE k = 'rank'"
    make(tmp_path / "made.db", pool)
    assert ask(first, weights) == ask(tmp_path / "made.db", weights)
    assert ask(first, "DELETE FROM message_words WHERE id = 'berries'") == []
    assert ask(first, "SELECT trim(near) FROM message_words ORDER BY seq") == [
        ("cherries",),
        ("apples",),
    ]
    ask(first, "INSERT INTO messages_fts (messages_fts, rank) VALUES ('integrity-check', 1)")
