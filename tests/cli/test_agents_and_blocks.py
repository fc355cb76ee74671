"""`pagedaemon agents` and `pagedaemon blocks`: look at what is stored, and repair it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from pagedaemon import Block, NotFound, Runtime

Run = Callable[..., Result]

SOURCE = Path(__file__).parents[2] / "runtime"

DIES = """
import os
from pagedaemon import Runtime
from pagedaemon.testing import ScriptedModel

model = ScriptedModel(lambda request: os._exit(9))
Runtime("memory", model="m", models={"m": model}).agents.get("bob").send("hi")
"""


@pytest.fixture(autouse=True)
def store(folder: Path) -> Path:
    """A store with two agents that share a block."""
    path = folder / "memory"
    with Runtime(path, model="offline") as runtime:
        team = runtime.blocks.create(label="team", value="We ship.", read_only=True)
        ada = runtime.agents.create("ada", blocks=[Block.human("Name: unknown"), team])
        runtime.agents.create("bob", blocks=[team])
        ada.send("Hi, my name is Lin.")
    return path


def test_agents_are_listed_with_a_tab_between_cells(run: Run) -> None:
    head, ada, bob = run("agents", "list").stdout.splitlines()
    assert head.split("\t") == ["name", "model", "style", "messages"]
    assert ada.split("\t")[:3] == ["ada", "-", "memgpt"]
    assert int(ada.split("\t")[3]) > 1
    assert bob.split("\t") == ["bob", "-", "memgpt", "0"]


def test_an_agent_is_shown_with_what_it_holds(run: Run) -> None:
    shown = dict(line.split("\t") for line in run("agents", "show", "ada").stdout.splitlines())
    assert shown["blocks"] == "human, team"
    assert shown["conversations"] == "main"
    assert shown["own tools"] == "-"
    assert int(shown["model calls"]) > 0


def test_an_agent_is_deleted_and_a_shared_block_stays(run: Run, store: Path) -> None:
    assert run("agents", "delete", "ada", "--yes").stdout == "deleted ada\n"
    with Runtime(store) as runtime:
        assert [agent.name for agent in runtime.agents.list()] == ["bob"]
        assert runtime.agents.get("bob").blocks["team"].value == "We ship."


def test_deleting_asks_first(run: Run, store: Path) -> None:
    assert run("agents", "delete", "ada", input="n\n").exit_code == 1
    assert run("agents", "delete", "ada").exit_code == 1  # nobody there to ask
    with Runtime(store) as runtime:
        assert runtime.agents.get("ada").name == "ada"
    assert run("agents", "delete", "ada", input="y\n").exit_code == 0
    with Runtime(store) as runtime, pytest.raises(NotFound):
        runtime.agents.get("ada")


def test_an_agent_that_is_not_there_is_one_line(run: Run) -> None:
    told = run("agents", "show", "eve")
    assert told.exit_code == 1
    assert told.stderr == "Error: no agent called 'eve' in this space\n"


def test_looking_makes_no_store(run: Run, folder: Path) -> None:
    told = run("agents", "list", "--store", "nowhere")
    assert told.exit_code == 1
    assert "`pagedaemon chat` makes one" in told.stderr
    assert not (folder / "nowhere").exists()


def test_looking_takes_up_no_turn_that_a_crash_left_open(run: Run, store: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", DIES],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        timeout=60,
        check=False,
    )
    assert ran.returncode == 9
    for command in (("agents", "list"), ("agents", "show", "bob"), ("blocks", "list")):
        assert run(*command).exit_code == 0
    with Runtime(store, recover=False) as runtime:
        assert runtime.agents.get("bob").conversations.get().turns() == []
        assert runtime.space("default").recover() == 1


def test_the_store_can_be_named_by_the_environment(
    run: Run, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.rename(store.with_name("moved"))
    monkeypatch.setenv("PAGEDAEMON_STORE", "moved")
    assert "ada\t" in run("agents", "list").stdout


def test_blocks_are_listed_those_that_stand_alone_first(run: Run) -> None:
    rows = [line.split("\t") for line in run("blocks", "list").stdout.splitlines()[1:]]
    assert [(row[0], row[1]) for row in rows] == [
        ("-", "team"),
        ("ada", "human"),
        ("ada", "team"),
        ("bob", "team"),
    ]
    assert rows[0][2:] == ["team", "8", "4000", "1", "yes"]
    mine = run("blocks", "list", "--agent", "bob").stdout.splitlines()[1:]
    assert [line.split("\t")[:2] for line in mine] == [["bob", "team"]]


def test_a_block_is_shown_whole(run: Run) -> None:
    assert run("blocks", "show", "team").stdout == "We ship.\n"
    assert "Lin" in run("blocks", "show", "human", "--agent", "ada").stdout


def test_a_block_of_an_agent_is_not_found_without_it(run: Run) -> None:
    told = run("blocks", "show", "human")
    assert told.exit_code == 1
    assert "name the agent" in told.stderr


def test_a_blocks_history_names_who_made_each_version(run: Run) -> None:
    told = run("blocks", "history", "human", "--agent", "ada").stdout.splitlines()
    rows = [line.split("\t") for line in told[1:]]
    assert [(row[0], row[3]) for row in rows] == [("1", "api"), ("2", "ada")]
    assert rows[0][2] == "create"


def test_a_block_is_compared_and_restored(run: Run, store: Path) -> None:
    changed = run("blocks", "diff", "human", "1", "--agent", "ada").stdout.splitlines()
    assert "-Name: unknown" in changed
    told = run("blocks", "restore", "human", "1", "--agent", "ada")
    assert told.stdout == "human is as in version 1 again; this is version 3\n"
    with Runtime(store) as runtime:
        assert runtime.agents.get("ada").blocks["human"].value == "Name: unknown"
    assert run("blocks", "diff", "human", "1", "3", "--agent", "ada").stdout.strip() == ""


def test_a_version_that_is_not_there_is_one_line(run: Run) -> None:
    told = run("blocks", "restore", "team", "9")
    assert told.exit_code == 1
    assert "has no version 9" in told.stderr
