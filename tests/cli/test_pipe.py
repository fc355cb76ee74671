"""`pagedaemon chat` in a pipe: replies on standard output, troubles on standard error."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from pagedaemon import Block, Model, Runtime
from pagedaemon.cli.opening import Wanted

Run = Callable[..., Result]

SOURCE = Path(__file__).parents[2] / "runtime"

APP = """
from pagedaemon import Runtime, tool
from pagedaemon.testing import ScriptedModel, call, say, view

@tool(effect="read")
def weather(city: str) -> str:
    "Today's weather."
    return f"rain in {city}"

def answer(request):
    asked = view(request)
    if "weather" in asked.last_user and "rain" not in str(request.messages):
        return call("weather", city="Kyoto", heartbeat=True)
    return say(f"you said {asked.last_user}")

def runtime():
    return Runtime("elsewhere", model="m", models={"m": ScriptedModel(answer)}, tools=[weather])

opened = None
number = 3
tools = [weather]
"""


def test_each_line_is_a_message_and_only_replies_are_printed(run: Run, folder: Path) -> None:
    told = run("chat", "--model", "offline", input="Hi, my name is Lin.\n\nWhat is my name?\n")
    assert (told.exit_code, told.stderr) == (0, "")
    first, second = told.stdout.splitlines()
    assert "Lin" in first
    assert "Lin" in second
    with Runtime(folder / "memory") as runtime:
        assert "Lin" in runtime.agents.get("main").blocks["human"].value


def test_a_real_pipe_has_no_colour_and_no_prompt(folder: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "from pagedaemon.cli import main; main()", "chat"],
        input="Hi, my name is Lin.\n",
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PAGEDAEMON_MODEL": "offline"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.count("\n") == 1
    assert "\x1b" not in ran.stdout
    assert ">" not in ran.stdout


def test_an_agent_without_a_model_is_one_line_on_standard_error(run: Run) -> None:
    told = run("chat", input="hi\n")
    assert (told.exit_code, told.stdout) == (1, "")
    assert told.stderr.startswith("Error: ")
    assert "has no model" in told.stderr
    assert told.stderr.count("\n") == 1


def test_the_model_once_given_is_kept(run: Run) -> None:
    run("chat", "--model", "offline", input="Hi, my name is Lin.\n")
    told = run("chat", input="What is my name?\n")
    assert told.exit_code == 0
    assert "Lin" in told.stdout


def test_input_that_is_no_utf8_is_refused_in_words(folder: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "from pagedaemon.cli import main; main()", "chat"],
        input=b"caf\xe9\n",
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PAGEDAEMON_MODEL": "offline"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert ran.stderr.startswith(b"Error: the message")
    assert ran.stderr.count(b"\n") == 1


def test_a_turn_that_is_stopped_says_so_and_fails(run: Run, folder: Path) -> None:
    (folder / "endless_app.py").write_text(
        APP
        + """
def endless():
    model = ScriptedModel(lambda request: call("weather", city="Kyoto", heartbeat=True))
    made = Runtime("elsewhere", model="m", models={"m": model}, tools=[weather])
    made.agents.ensure("main", tools=[weather], limits={"steps": 2})
    return made
"""
    )
    told = run("chat", "--app", "endless_app:endless", input="go\n")
    assert (told.exit_code, told.stdout) == (1, "")
    assert told.stderr == "the turn stopped: max steps\n"


def test_what_steers_a_terminal_is_taken_out_of_replies(run: Run, folder: Path) -> None:
    (folder / "loud_app.py").write_text(APP)
    told = run("chat", "--app", "loud_app:runtime", input="\x1b[2Jboo\n")
    assert told.stdout == "you said \ufffd[2Jboo\n"


class TestApp:
    """The user's own code."""

    def test_a_function_brings_its_own_runtime(self, run: Run, folder: Path) -> None:
        (folder / "factory_app.py").write_text(APP)
        told = run("chat", "--app", "factory_app:runtime", input="hello\n")
        assert (told.stdout, told.stderr) == ("you said hello\n", "")
        assert not (folder / "memory").exists()
        listed = run("agents", "list", "--app", "factory_app:runtime")
        assert listed.stdout.splitlines()[1].startswith("main\t")

    def test_a_runtime_object_is_taken_as_it_is(self, run: Run, folder: Path) -> None:
        (folder / "object_app.py").write_text(APP + "opened = runtime()\n")
        told = run("chat", "--app", "object_app:opened", input="hello\n")
        assert told.stdout == "you said hello\n"

    def test_a_list_of_tools_is_given_to_the_agent(self, run: Run, folder: Path) -> None:
        (folder / "tools_app.py").write_text(APP)
        assert run("chat", "--app", "tools_app:tools", "--model", "offline").exit_code == 0
        shown = run("agents", "show", "main")
        assert "own tools\tweather\n" in shown.stdout

    def test_a_single_tool_is_one_too(self, run: Run, folder: Path) -> None:
        (folder / "tool_app.py").write_text(APP)
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
    def test_what_leads_nowhere_is_one_line(
        self, run: Run, folder: Path, spec: str, why: str
    ) -> None:
        (folder / "wrong_app.py").write_text(APP)
        told = run("chat", "--app", spec, input="hi\n")
        assert told.exit_code == 1
        assert why in told.stderr
        assert told.stderr.count("\n") == 1

    def test_a_store_beside_a_runtime_of_its_own_is_refused(self, run: Run, folder: Path) -> None:
        (folder / "both_app.py").write_text(APP)
        told = run("chat", "--app", "both_app:runtime", "--store", "memory", input="hi\n")
        assert told.exit_code == 1
        assert "--store cannot be used" in told.stderr

    def test_a_missing_import_of_the_module_itself_is_not_hidden(
        self, run: Run, folder: Path
    ) -> None:
        (folder / "broken_app.py").write_text("import no_such_thing\n")
        with pytest.raises(ModuleNotFoundError, match="no_such_thing"):
            run("chat", "--app", "broken_app:x", input="hi\n")


class TestAgentOptions:
    """How a new agent is made, and what of an old one they change."""

    def test_persona_and_human_take_a_starter_a_file_or_a_text(
        self, run: Run, folder: Path
    ) -> None:
        (folder / "me.txt").write_text("Name: Lin\n")
        run("chat", "--model", "offline", "--persona", "study_coach", "--human", "me.txt")
        run("chat", "--model", "offline", "--agent", "eve", "--persona", "I am Eve, dry and brief.")
        with Runtime(folder / "memory") as runtime:
            main = runtime.agents.get("main")
            assert main.blocks["persona"].value == Block.load("persona/study_coach").value
            assert main.blocks["human"].value == "Name: Lin"
            assert runtime.agents.get("eve").blocks["persona"].value == "I am Eve, dry and brief."

    def test_a_misspelt_starter_lists_those_there_are(self, run: Run) -> None:
        told = run("chat", "--model", "offline", "--persona", "study_coch")
        assert told.exit_code == 1
        assert "persona/study_coach" in told.stderr

    def test_options_never_overwrite_what_was_learnt(self, run: Run, folder: Path) -> None:
        run("chat", "--model", "offline", input="Hi, my name is Lin.\n")
        told = run("chat", "--human", "Name: somebody else")
        assert told.exit_code == 0
        assert "keeps its block 'human'" in told.stderr
        with Runtime(folder / "memory") as runtime:
            assert "Lin" in runtime.agents.get("main").blocks["human"].value

    def test_style_is_changed_and_the_rest_stays(self, run: Run, folder: Path) -> None:
        run("chat", "--model", "offline")
        run("chat", "--style", "native")
        with Runtime(folder / "memory") as runtime:
            agent = runtime.agents.get("main")
            assert agent.settings.style.name == "native"
            assert agent.model == Model("offline")

    def test_where_a_model_is_served_is_changed_without_naming_it_again(self, folder: Path) -> None:
        local = Wanted(model="openai/qwen3", base_url="http://localhost:1/v1")
        with Runtime(folder / "memory") as runtime:
            space = runtime.space("default")
            local.agent(space, "main", [])
            agent, _ = Wanted(context_window=4_096).agent(space, "main", [])
            assert agent.model == Model(
                "openai/qwen3", base_url="http://localhost:1/v1", context_window=4_096
            )

    def test_a_key_is_used_and_not_stored(self, folder: Path) -> None:
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

    def test_an_address_without_any_model_is_refused(self, run: Run) -> None:
        told = run("chat", "--base-url", "http://localhost:1/v1", input="hi\n")
        assert told.exit_code == 1
        assert "name it" in told.stderr

    def test_spaces_are_kept_apart(self, run: Run) -> None:
        run("chat", "--model", "offline", "--space", "lin", input="Hi, my name is Lin.\n")
        assert run("agents", "list").stdout.count("\n") == 1  # the head of an empty table
        assert "main\toffline" in run("agents", "list", "--space", "lin").stdout
        told = run("agents", "list", "--space", "eve")
        assert told.exit_code == 1
        assert "no space 'eve'" in told.stderr
