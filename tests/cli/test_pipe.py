"""`pagedaemon chat` in a pipe: replies on standard output, troubles on standard error."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from pagedaemon import Runtime
from pagedaemon.cli.commands import MANY

Run = Callable[..., Result]
WriteApp = Callable[..., None]

SOURCE = Path(__file__).parents[2] / "runtime"
COMMAND = (sys.executable, "-c", "from pagedaemon.cli import main; main()")
SECONDS = 60

SLOW = """
import asyncio
from pathlib import Path

@tool
async def slow() -> str:
    "Takes its time."
    Path("running").touch()
    await asyncio.sleep(1_000)
    return "done"

def answer(request):
    said = view(request).last_user
    return call("slow", heartbeat=True) if said == "go" else say(f"you said {said}")

def runtime():
    made = Runtime("elsewhere", model="m", models={"m": ScriptedModel(answer)}, tools=[slow])
    made.agents.ensure("main", tools=[slow])
    return made
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
        [*COMMAND, "chat"],
        input="Hi, my name is Lin.\n",
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PAGEDAEMON_MODEL": "offline"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
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


def test_a_pipe_without_a_model_makes_nothing(run: Run, folder: Path) -> None:
    assert run("chat", input="hi\n").exit_code == 1
    assert list(folder.iterdir()) == []
    run("chat", "--model", "offline")
    told = run("chat", "--agent", "eve", input="hi\n")
    assert (told.exit_code, told.stdout) == (1, "")
    assert "has no model" in told.stderr
    assert "eve" not in run("agents", "list").stdout


def test_a_line_that_is_no_utf8_is_told_of_and_the_next_is_answered(folder: Path) -> None:
    ran = subprocess.run(
        [*COMMAND, "chat"],
        input=b"Hi, my name is Lin.\ncaf\xe9\n\nWhat is my name?\n",
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PAGEDAEMON_MODEL": "offline"},
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert ran.returncode == 1
    assert ran.stdout.count(b"Lin") == 2
    assert ran.stderr.startswith(b"line 2 was not sent: its byte 0xe9 after 3 characters ")
    assert ran.stderr.count(b"\n") == 1
    with Runtime(folder / "memory") as runtime:
        assert runtime.agents.get("main").recall.search("caf").total == 0


def test_a_line_that_no_store_can_keep_is_told_of_too(run: Run) -> None:
    told = run("chat", "--model", "offline", input="a\0b\nHi, my name is Lin.\n")
    assert told.exit_code == 1
    assert told.stderr.startswith("line 1 was not sent: the message contains a NUL")
    assert "Lin" in told.stdout


def test_an_interrupt_stops_the_turn_and_keeps_the_conversation(
    write_app: WriteApp, folder: Path
) -> None:
    write_app("slow_app", SLOW)
    with subprocess.Popen(
        [*COMMAND, "chat", "--app", "slow_app:runtime"],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"hello\ngo\nand now?\n")
        process.stdin.flush()
        deadline = time.monotonic() + SECONDS
        while not (folder / "running").exists():
            assert time.monotonic() < deadline, "the tool was not run"
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        printed, told = process.communicate(timeout=SECONDS)
    assert (process.returncode, printed) == (1, b"you said hello\n")
    assert told == b"stopped; the conversation is kept\n"
    with Runtime(folder / "elsewhere", recover=False) as runtime:
        stopped, _ = runtime.agents.get("main").conversations.get().turns()
        assert stopped.stop_reason == "cancelled"


def test_after_many_lines_it_is_told_how_many_were_answered(run: Run) -> None:
    few, many = "hello\n" * MANY, "hello\n" * (MANY + 1)
    assert run("chat", "--model", "offline", input=few).stderr == ""
    told = run("chat", input=many)
    assert told.stderr == f"{MANY + 1} messages answered\n"
    assert told.stdout.count("\n") == MANY + 1


def test_a_turn_that_is_stopped_says_so_and_fails(run: Run, write_app: WriteApp) -> None:
    write_app(
        "endless_app",
        """
def endless():
    model = ScriptedModel(lambda request: call("weather", city="Kyoto", heartbeat=True))
    made = Runtime("elsewhere", model="m", models={"m": model}, tools=[weather])
    made.agents.ensure("main", tools=[weather], limits={"steps": 2})
    return made
""",
    )
    told = run("chat", "--app", "endless_app:endless", input="go\n")
    assert (told.exit_code, told.stdout) == (1, "")
    assert told.stderr == "the turn stopped: max steps\n"


def test_what_steers_a_terminal_is_taken_out_of_replies(run: Run, write_app: WriteApp) -> None:
    write_app("loud_app")
    told = run("chat", "--app", "loud_app:runtime", input="\x1b[2Jboo\n")
    assert told.stdout == "you said \ufffd[2Jboo\n"


def test_output_that_cannot_be_written_is_one_line_and_the_turn_is_kept(
    run: Run, folder: Path
) -> None:
    with Path("/dev/full").open("w") as full:
        told = subprocess.run(
            [*COMMAND, "chat", "--model", "offline"],
            input="Hi, my name is Lin.\n",
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            timeout=SECONDS,
            check=False,
        )
    assert told.returncode == 1
    (line,) = told.stderr.splitlines()
    assert "the output cannot be written" in line
    assert "my name is Lin" in run("recall", "search", "Lin").stdout
