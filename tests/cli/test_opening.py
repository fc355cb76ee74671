"""How a new agent is made from options, and what of an old one they change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from pagedaemon import Block, Model, Runtime
from pagedaemon.cli.opening import Wanted

Run = Callable[..., Result]


def test_persona_and_human_take_a_starter_a_file_or_a_text(run: Run, folder: Path) -> None:
    (folder / "me.txt").write_text("Name: Lin\n")
    run("chat", "--model", "offline", "--persona", "study_coach", "--human", "me.txt")
    run("chat", "--model", "offline", "--agent", "eve", "--persona", "I am Eve, dry and brief.")
    with Runtime(folder / "memory") as runtime:
        main = runtime.agents.get("main")
        assert main.blocks["persona"].value == Block.load("persona/study_coach").value
        assert main.blocks["human"].value == "Name: Lin"
        assert runtime.agents.get("eve").blocks["persona"].value == "I am Eve, dry and brief."


def test_a_misspelt_starter_lists_those_there_are(run: Run) -> None:
    told = run("chat", "--model", "offline", "--persona", "study_coch")
    assert told.exit_code == 1
    assert "persona/study_coach" in told.stderr


def test_options_never_overwrite_what_was_learnt(run: Run, folder: Path) -> None:
    run("chat", "--model", "offline", input="Hi, my name is Lin.\n")
    told = run("chat", "--human", "Name: somebody else")
    assert told.exit_code == 0
    assert "keeps its block 'human'" in told.stderr
    with Runtime(folder / "memory") as runtime:
        assert "Lin" in runtime.agents.get("main").blocks["human"].value


def test_style_is_changed_and_the_rest_stays(run: Run, folder: Path) -> None:
    run("chat", "--model", "offline")
    run("chat", "--style", "native")
    with Runtime(folder / "memory") as runtime:
        agent = runtime.agents.get("main")
        assert agent.settings.style.name == "native"
        assert agent.model == Model("offline")


def test_where_a_model_is_served_is_changed_without_naming_it_again(folder: Path) -> None:
    local = Wanted(model="openai/qwen3", base_url="http://localhost:1/v1")
    with Runtime(folder / "memory") as runtime:
        space = runtime.space("default")
        local.agent(space, "main", [])
        agent, _ = Wanted(context_window=4_096).agent(space, "main", [])
        assert agent.model == Model(
            "openai/qwen3", base_url="http://localhost:1/v1", context_window=4_096
        )


def test_a_key_is_used_and_not_stored(folder: Path) -> None:
    with Runtime(folder / "memory") as runtime:
        wanted = Wanted(model="openai/gpt-5-mini", key="secret-key")
        wanted.agent(runtime.space("default"), "main", [])
    with Runtime(folder / "memory") as runtime:
        model = runtime.agents.get("main").model
        assert model is not None
        assert model.api_key is None
    assert not any(
        b"secret-key" in path.read_bytes() for path in folder.rglob("*") if path.is_file()
    )


def test_an_address_without_any_model_is_refused(run: Run) -> None:
    told = run("chat", "--base-url", "http://localhost:1/v1", input="hi\n")
    assert told.exit_code == 1
    assert "name it" in told.stderr


def test_spaces_are_kept_apart(run: Run) -> None:
    run("chat", "--model", "offline", "--space", "lin", input="Hi, my name is Lin.\n")
    assert run("agents", "list").stdout.count("\n") == 1  # the head of an empty table
    assert "main\toffline" in run("agents", "list", "--space", "lin").stdout
    told = run("agents", "list", "--space", "eve")
    assert told.exit_code == 1
    assert "no space 'eve'" in told.stderr


@pytest.mark.parametrize("model", ["offline", "qwen3"])
def test_an_address_for_a_model_that_has_none_is_a_usage_error(
    run: Run, folder: Path, model: str
) -> None:
    told = run("chat", "--model", model, "--base-url", "http://localhost:1/v1", input="hi\n")
    assert (told.exit_code, told.stdout) == (2, "")
    assert f"--base-url says where a model called openai/NAME is served, and {model!r}" in (
        told.stderr
    )
    assert list(folder.iterdir()) == []


def test_an_address_does_not_change_a_model_that_has_none(run: Run, folder: Path) -> None:
    run("chat", "--model", "offline")
    told = run("chat", "--base-url", "http://localhost:1/v1", input="hi\n")
    assert told.exit_code == 2
    with Runtime(folder / "memory") as runtime:
        assert runtime.agents.get("main").model == Model("offline")


@pytest.mark.parametrize(
    "options",
    [
        ("--model", "no-such-model"),
        ("--model", "offline", "--persona", "study_coch"),
        ("--base-url", "http://localhost:1/v1"),
    ],
)
def test_options_that_cannot_work_make_nothing(
    run: Run, folder: Path, options: tuple[str, ...]
) -> None:
    told = run("chat", *options, input="hi\n")
    assert told.exit_code == 1
    assert told.stderr.count("\n") == 1
    assert list(folder.iterdir()) == []


def test_a_model_that_leads_nowhere_is_not_kept(run: Run, folder: Path) -> None:
    run("chat", "--model", "offline")
    assert run("chat", "--model", "no-such-model", input="hi\n").exit_code == 1
    with Runtime(folder / "memory") as runtime:
        assert runtime.agents.get("main").model == Model("offline")


def test_a_text_longer_than_any_file_name_is_a_text(run: Run, folder: Path) -> None:
    text = "I am brief. " * 50
    assert run("chat", "--model", "offline", "--persona", text).exit_code == 0
    with Runtime(folder / "memory") as runtime:
        assert runtime.agents.get("main").blocks["persona"].value == text


def test_a_file_that_is_no_text_is_refused_in_a_line(run: Run, folder: Path) -> None:
    (folder / "me.jpg").write_bytes(b"\xff\xd8")
    told = run("chat", "--model", "offline", "--human", "me.jpg", input="hi\n")
    assert told.exit_code == 1
    assert told.stderr.startswith("Error: --human me.jpg cannot be read as text: ")
    assert told.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["Bad/x", "..", "", "a b"])
def test_a_name_that_no_space_can_have_makes_nothing(run: Run, folder: Path, name: str) -> None:
    for command in (("chat", "--model", "offline"), ("agents", "list"), ("archive", "list")):
        told = run(*command, "--space", name, input="hi\n")
        assert (told.exit_code, told.stdout) == (1, "")
        assert "space" in told.stderr
        assert told.stderr.count("\n") == 1
        assert list(folder.iterdir()) == []


def test_a_name_that_no_space_can_have_does_not_even_load_code(run: Run, folder: Path) -> None:
    (folder / "loud.py").write_text("raise RuntimeError", encoding="utf-8")
    told = run("chat", "--app", "loud:tools", "--space", "Bad/x", input="hi\n")
    assert "cannot name a space" in told.stderr
