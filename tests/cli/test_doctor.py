"""`pagedaemon doctor`: what it tells, what it mends, and its exit code."""

from __future__ import annotations

import gzip
import hashlib
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import Result

from pagedaemon import Runtime

Run = Callable[..., Result]

FIXTURE = Path(__file__).parents[1] / "store" / "fixtures" / "0001.db.gz"

TILL = """
@tool
def charge(order: int) -> str:
    "Charges an order to the card."
    return "charged"

tools = [charge]

def broken():
    runtime = Runtime("memory", model="m", models={"m": ScriptedModel(answer)}, recover=False)
    runtime.agents.ensure("ada", tools=[charge])
    return runtime
"""


def sql(space: str, statement: str) -> None:
    """What somebody does to a space of `memory` by hand."""
    with closing(sqlite3.connect(f"memory/spaces/{space}/space.db")) as raw:
        raw.execute(statement)
        raw.commit()


def hashes() -> dict[str, str]:
    """What each file of `memory` holds."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in Path("memory").rglob("*")
        if path.is_file()
    }


def rows(result: Result) -> list[list[str]]:
    """The cells of the table, without its head and the line below it."""
    return [line.split("\t") for line in result.stdout.splitlines()[1:-1]]


@pytest.fixture
def store() -> None:
    """Two spaces that are sound."""
    with Runtime("memory", model="offline", embedder=None) as runtime:
        for name in ("default", "lin"):
            runtime.space(name).agents.ensure("ada").send("Hi.")


UNLEASE = "UPDATE conversations SET lease_owner = 'gone'"
UNSAY = "DELETE FROM message_words"


@pytest.mark.usefixtures("store")
class TestMending:
    """A store with something wrong."""

    def test_a_sound_store_is_one_line_and_exit_code_zero(self, run: Run) -> None:
        for more in ((), ("--dry-run",)):
            done = run("doctor", "memory", *more)
            assert (done.exit_code, done.stdout) == (0, "2 spaces looked at: sound\n")

    def test_what_was_mended_is_told_and_found_no_more(self, run: Run) -> None:
        sql("default", UNLEASE)
        sql("lin", UNSAY)
        done = run("doctor", "memory")
        assert done.exit_code == 0, done.output
        assert [row[:3] for row in rows(done)] == [
            ["default", "mended", "lease_left"],
            ["lin", "mended", "text_not_indexed"],
        ]
        assert done.stdout.splitlines()[-1] == "2 spaces looked at: sound"
        assert run("doctor", "memory").stdout == "2 spaces looked at: sound\n"
        with Runtime("memory", model="offline", embedder=None) as runtime:
            assert runtime.space("lin").agents.get("ada").recall.search("Hi").total == 1

    def test_a_dry_run_writes_no_byte_and_is_not_content(self, run: Run) -> None:
        sql("default", UNLEASE)
        sql("lin", UNSAY)
        before = hashes()
        done = run("doctor", "memory", "--dry-run")
        assert done.exit_code == 1
        assert [row[:3] for row in rows(done)] == [
            ["default", "found", "lease_left"],
            ["lin", "found", "text_not_indexed"],
        ]
        assert done.stdout.splitlines()[-1] == "2 spaces looked at: 2 with something left to do"
        assert hashes() == before

    def test_only_the_spaces_that_are_named_are_looked_at(self, run: Run) -> None:
        sql("default", UNLEASE)
        done = run("doctor", "memory", "--space", "lin", "--dry-run")
        assert (done.exit_code, done.stdout) == (0, "1 space looked at: sound\n")

    def test_a_damaged_file_is_left_alone_and_is_exit_code_one(self, run: Run) -> None:
        with Path("memory/spaces/lin/space.db").open("r+b") as file:
            file.seek(4096 * 10)
            file.write(b"\xff" * 4096 * 20)
        before = hashes()
        done = run("doctor", "memory")
        assert done.exit_code == 1
        assert {tuple(row[:3]) for row in rows(done)} == {("lin", "left", "file_damaged")}
        changed = {name for name, was in before.items() if hashes().get(name) != was}
        assert not [name for name in changed if "lin" in name]

    @pytest.mark.parametrize("own", [False, True], ids=["folder", "app"])
    @pytest.mark.parametrize("spoil", ["other", "half", "folder"])
    def test_a_space_that_cannot_be_opened_keeps_no_other_from_being_mended(
        self, run: Run, write_app: Callable[..., None], spoil: str, own: bool
    ) -> None:
        sick, well = ("lin", "default") if own else ("default", "lin")  # an app opens its default
        path = Path(f"memory/spaces/{sick}/space.db")
        if spoil == "half":
            os.truncate(path, path.stat().st_size // 2)
        else:
            path.unlink()
        if spoil == "other":
            with closing(sqlite3.connect(path)) as raw:
                raw.execute("CREATE TABLE songs (title)")
        if spoil == "folder":
            path.mkdir()
        sql(well, UNSAY)
        write_app("my_till", TILL)
        place = ("--app", "my_till:broken") if own else ("memory",)
        done = run("doctor", *place)
        assert done.exit_code == 1
        kind = "file_unreachable" if spoil == "folder" else "file_damaged"
        assert {tuple(row[:3]) for row in rows(done)} == {
            (sick, "left", kind),
            (well, "mended", "text_not_indexed"),
        }
        assert done.stdout.splitlines()[-1] == "2 spaces looked at: 1 with something left to do"

    def test_an_emptied_file_is_told_and_not_made_anew(self, run: Run) -> None:
        path = Path("memory/spaces/lin/space.db")
        os.truncate(path, 0)
        for more in ((), ("--dry-run",)):
            done = run("doctor", "memory", *more)
            assert done.exit_code == 1
            ((*found, _, what, advice),) = rows(done)
            assert found == ["lin", "left", "file_damaged"]
            assert "empty" in what
            assert "backup" in advice
            assert path.read_bytes() == b""

    def test_a_store_that_cannot_be_upgraded_is_told_and_left(self, run: Run) -> None:
        sql("lin", "UPDATE alembic_version SET version_num = '0003'")
        sql("default", UNSAY)
        done = run("doctor", "memory")
        assert done.exit_code == 1
        assert [row[:3] for row in rows(done)] == [
            ["default", "mended", "text_not_indexed"],
            ["lin", "left", "file_damaged"],
        ]

    def test_a_turn_waits_for_the_code_of_its_agents_tools(
        self, run: Run, write_app: Callable[..., None]
    ) -> None:
        write_app("my_till", TILL)
        assert run("doctor", "--app", "my_till:broken").exit_code == 0
        sql("default", 'UPDATE agents SET model = \'{"name": "offline"}\'')
        with Runtime("memory", recover=False, embedder=None) as runtime:
            runtime.agents.get("ada").send_later("Are you there?")
        sql(
            "default",
            "UPDATE turns SET status = 'queued', owner = NULL, stop_reason = NULL, "
            'ended_at = NULL, started_at = NULL, body = \'{"text": "Hm?", "label": "user", '
            '"author": null}\' WHERE seq = (SELECT max(seq) FROM turns)',
        )
        done = run("doctor", "memory")
        assert done.exit_code == 1
        ((*_, advice),) = rows(done)
        assert "needs the code of its tools (charge)" in advice
        done = run("doctor", "memory", "--app", "my_till:tools")
        assert done.exit_code == 0, done.output
        assert [row[1:3] for row in rows(done)] == [["mended", "turn_queued"]]


def test_an_earlier_store_is_upgraded_and_that_is_told(run: Run) -> None:
    path = Path("memory/spaces/default/space.db")
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.decompress(FIXTURE.read_bytes()))
    looked = run("doctor", "memory", "--dry-run")
    assert looked.exit_code == 1
    assert [row[1:3] for row in rows(looked)] == [["found", "schema_old"]]
    done = run("doctor", "memory")
    assert ["mended", "schema_old"] in [row[1:3] for row in rows(done)], done.output
    assert run("doctor", "memory", "--dry-run").exit_code == 0


@pytest.mark.parametrize("command", [("doctor",), ("agents", "list")])
def test_the_default_folder_is_told_as_help_tells_it(run: Run, command: tuple[str, ...]) -> None:
    assert " in ./memory: " in run(*command).stderr


@pytest.mark.parametrize("more", [(), ("--dry-run",), ("--space", "lin")])
def test_a_store_that_is_not_there_is_not_made(run: Run, more: tuple[str, ...]) -> None:
    done = run("doctor", "nowhere", *more)
    assert done.exit_code == 1
    assert "nowhere" in done.stderr
    assert "Runtime" not in done.stderr
    assert not Path("nowhere").exists()


def test_options_that_contradict_each_other_are_refused(
    run: Run, write_app: Callable[..., None]
) -> None:
    write_app("my_till", TILL)
    assert run("doctor", "--dry-run", "--app", "my_till:tools").exit_code == 2
    both = run("doctor", "elsewhere", "--app", "my_till:broken")
    assert both.exit_code == 1
    assert "FOLDER cannot be used" in both.stderr


@pytest.mark.parametrize("command", [("doctor", "memory"), ("agents", "list", "--store", "memory")])
@pytest.mark.parametrize("name", ["made", "make"])
def test_a_runtime_is_not_opened_only_to_be_refused(
    run: Run, write_app: Callable[..., None], command: tuple[str, ...], name: str
) -> None:
    made = "\nmade = make()\n" if name == "made" else ""
    module = f"my_{command[0]}_{name}"
    write_app(module, f"def make():\n    return Runtime('own', model='offline')\n{made}")
    done = run(*command, "--app", f"{module}:{name}")
    assert done.exit_code == 1
    assert "cannot be used with an --app that opens its own store" in done.stderr
    assert not Path("own").exists()


def test_many_ids_are_counted(run: Run) -> None:
    with Runtime("memory", model="offline", embedder=None) as runtime:
        archive = runtime.agents.ensure("ada").archive
        for number in range(9):
            archive.insert(f"fact {number}")
    sql("default", "DELETE FROM passage_words")
    ((*_, where, _, _),) = rows(run("doctor", "memory", "--dry-run"))
    assert where.count("passage-") == 3
    assert where.endswith(" and 6 more")


@pytest.mark.usefixtures("store")
def test_a_runtime_of_ones_own_mends_all_its_spaces(
    run: Run, write_app: Callable[..., None]
) -> None:
    write_app("my_till", TILL)
    sql("lin", UNSAY)
    done = run("doctor", "--app", "my_till:broken")
    assert done.exit_code == 0, done.output
    assert [row[:3] for row in rows(done)] == [["lin", "mended", "text_not_indexed"]]
    assert done.stdout.splitlines()[-1] == "2 spaces looked at: sound"
    only = run("doctor", "--app", "my_till:broken", "--space", "lin")
    assert only.stdout == "1 space looked at: sound\n"
