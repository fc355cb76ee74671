"""`--app`: the user's own code at the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Run = Callable[..., Result]
WriteApp = Callable[..., None]


def test_a_function_brings_its_own_runtime(run: Run, write_app: WriteApp, folder: Path) -> None:
    write_app("factory_app")
    told = run("chat", "--app", "factory_app:runtime", input="hello\n")
    assert (told.stdout, told.stderr) == ("you said hello\n", "")
    assert not (folder / "memory").exists()
    listed = run("agents", "list", "--app", "factory_app:runtime")
    assert listed.stdout.splitlines()[1].startswith("main\t")


def test_a_runtime_object_is_taken_as_it_is(run: Run, write_app: WriteApp) -> None:
    write_app("object_app", "opened = runtime()")
    told = run("chat", "--app", "object_app:opened", input="hello\n")
    assert told.stdout == "you said hello\n"


def test_a_list_of_tools_is_given_to_the_agent(run: Run, write_app: WriteApp) -> None:
    write_app("tools_app")
    assert run("chat", "--app", "tools_app:tools", "--model", "offline").exit_code == 0
    shown = run("agents", "show", "main")
    assert "own tools\tweather\n" in shown.stdout


def test_a_single_tool_is_one_too(run: Run, write_app: WriteApp) -> None:
    write_app("tool_app")
    assert run("chat", "--app", "tool_app:weather", "--model", "offline").exit_code == 0
    assert "own tools\tweather\n" in run("agents", "show", "main").stdout


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("no_colon", "--app takes module:name"),
        ("not_there_app:x", "there is no module 'not_there_app'"),
        ("wrong_app:missing", "wrong_app has no 'missing'"),
        ("wrong_app:number", "it is a int"),
    ],
)
def test_what_leads_nowhere_is_one_line(run: Run, write_app: WriteApp, spec: str, why: str) -> None:
    write_app("wrong_app")
    told = run("chat", "--app", spec, input="hi\n")
    assert told.exit_code == 1
    assert why in told.stderr
    assert told.stderr.count("\n") == 1


def test_a_store_beside_a_runtime_of_its_own_is_refused(run: Run, write_app: WriteApp) -> None:
    write_app("both_app")
    told = run("chat", "--app", "both_app:runtime", "--store", "memory", input="hi\n")
    assert told.exit_code == 1
    assert "--store cannot be used" in told.stderr


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import no_such_thing\n", "ModuleNotFoundError: No module named 'no_such_thing'"),
        ("x = 1\ny = x / 0\n", "ZeroDivisionError: division by zero (broken_app.py, line 2)"),
        ("def x():\n    return {}['key']\n", "KeyError: 'key' (broken_app.py, line 2)"),
        ("x = (\n", "SyntaxError: '(' was never closed (broken_app.py, line 1);"),
    ],
)
def test_code_that_fails_is_one_line_with_the_place(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, why: str
) -> None:
    monkeypatch.delitem(sys.modules, "broken_app", raising=False)
    (folder / "broken_app.py").write_text(code)
    told = run("chat", "--app", "broken_app:x", input="hi\n")
    assert (told.exit_code, told.stdout) == (1, "")
    assert why in told.stderr
    assert told.stderr.endswith("set PAGEDAEMON_DEBUG=1 to see how it came to that\n")
    assert told.stderr.count("\n") == 1
    assert not (folder / "memory").exists()


def test_an_error_of_ours_in_that_code_is_told_in_its_own_words(run: Run, folder: Path) -> None:
    (folder / "ours_app.py").write_text(
        "from pagedaemon import Runtime\ndef x():\n    return Runtime('postgres://x')\n"
    )
    told = run("chat", "--app", "ours_app:x", input="hi\n")
    assert told.exit_code == 1
    assert told.stderr.startswith("Error: postgres://x is no folder")


def test_debug_shows_the_code_that_an_error_came_through(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "deep_app.py").write_text("def x():\n    return 1 / 0\n")
    chat = ("chat", "--app", "deep_app:x")
    by_option = run("--debug", *chat)
    monkeypatch.setenv("PAGEDAEMON_DEBUG", "1")
    for told in (by_option, run(*chat)):
        assert told.exit_code == 1
        assert "    return 1 / 0\n" in told.stderr
        assert told.stderr.splitlines()[-1].startswith("Error: --app deep_app:x failed")
