"""`pagedaemon chat` at a real terminal: Ctrl-C, Ctrl-D, and the first run without a model."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pagedaemon import Model, Runtime

SOURCE = Path(__file__).parents[2] / "runtime"

START = """
import fcntl, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C reaches this process
from pagedaemon.cli import main
main()
"""

APP = """
import asyncio
from pathlib import Path
from pagedaemon import Runtime, tool
from pagedaemon.testing import ScriptedModel, call, say, view

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
    made = Runtime("memory", model="m", models={"m": ScriptedModel(answer)}, tools=[slow])
    made.agents.ensure("main", tools=[slow])
    return made
"""

SECONDS = 30
AGAIN = 5.0
"""Seconds until keys are pressed once more: longer than a command takes to end, or a Ctrl-C would
reach it as it ends and kill it."""
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")

CTRL_C = "\x03"
CTRL_D = "\x04"


class Terminal:
    """The other end of a terminal at which the command runs."""

    def __init__(self, process: subprocess.Popen[bytes], end: int) -> None:
        self.process = process
        self._end = end
        self._unread = ""

    def press(self, keys: str) -> None:
        """Types."""
        os.write(self._end, keys.encode())

    def until(self, text: str, *, pressing: str = "") -> str:
        """Everything up to and with the text, once it stands there.

        Args:
            pressing: keys to press now and, while nothing comes, once more now and then: one that
                comes in the instant between a prompt and its waiting for keys is not seen.
        """
        self.press(pressing)
        deadline = time.monotonic() + SECONDS
        while text not in self._unread:
            assert self._read(deadline, pressing), f"no {text!r}; there is: {self._unread!r}"
        before, _, self._unread = self._unread.partition(text)
        return before + text

    def end(self, *, pressing: str = "") -> int:
        """Waits for the end of the command; its exit code. Keys are pressed as in `until`."""
        self.press(pressing)
        deadline = time.monotonic() + SECONDS
        while self._read(deadline, pressing):
            continue
        return self.process.wait(SECONDS)

    def _read(self, deadline: float, pressing: str) -> bool:
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            try:
                ready, _, _ = select.select([self._end], [], [], min(left, AGAIN))
                if not ready:
                    self.press(pressing)
                    continue
                part = os.read(self._end, 65_536)
            except OSError:  # the other side is closed
                return False
            self._unread += _ESCAPE.sub("", part.decode(errors="replace"))
            return bool(part)


@contextmanager
def chat(folder: Path, *options: str) -> Iterator[Terminal]:
    """The command at a terminal of its own."""
    mine, its = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "TERM": "xterm", "COLUMNS": "200"}
    process = subprocess.Popen(
        [sys.executable, "-c", START, "chat", *options],
        cwd=folder,
        env=environment,
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
    )
    os.close(its)
    try:
        yield Terminal(process, mine)
    finally:
        process.kill()
        process.wait()
        os.close(mine)


def test_an_interrupt_stops_the_turn_and_the_conversation_goes_on(folder: Path) -> None:
    (folder / "slow_app.py").write_text(APP)
    with chat(folder, "--app", "slow_app:runtime") as terminal:
        terminal.until("> ")
        terminal.press("go\n")
        deadline = time.monotonic() + SECONDS
        while not (folder / "running").exists():
            assert time.monotonic() < deadline, "the tool was not run"
            time.sleep(0.02)
        terminal.press(CTRL_C)
        terminal.until("stopped; the conversation is kept")
        terminal.until("> ")
        terminal.press("and now?\n")
        terminal.until("you said and now?")
        terminal.until("> ")
        terminal.until("Ctrl-C again", pressing=CTRL_C)
        assert terminal.end(pressing=CTRL_C) == 0
    with Runtime(folder / "memory", recover=False) as runtime:
        later, earlier = runtime.agents.get("main").conversations.get().turns()
        assert earlier.stop_reason == "cancelled"
        assert later.reply == "you said and now?"


def test_two_interrupts_in_a_row_leave_at_the_prompt(folder: Path) -> None:
    (folder / "slow_app.py").write_text(APP)
    with chat(folder, "--app", "slow_app:runtime") as terminal:
        terminal.until("> ")
        terminal.press("go\n")
        terminal.until("thinking")
        terminal.press(CTRL_C)
        terminal.until("stopped; the conversation is kept")
        terminal.until("> ")
        assert terminal.end(pressing=CTRL_C) == 0


def test_the_end_of_input_leaves(folder: Path) -> None:
    with chat(folder, "--model", "offline") as terminal:
        terminal.until("> ")
        assert terminal.end(pressing=CTRL_D) == 0


def test_the_first_run_asks_what_shall_answer(folder: Path) -> None:
    with chat(folder) as terminal:
        terminal.until("What shall answer?")
        terminal.until("Your choice")
        terminal.press("1\n")
        terminal.until("> ")
        terminal.press("Hi, my name is Lin.\n")
        terminal.until("memory: human")
        terminal.until("+ Name: Lin")
        terminal.until("> ")
        assert terminal.end(pressing=CTRL_D) == 0
    with Runtime(folder / "memory") as runtime:
        assert runtime.agents.get("main").model == Model("offline")


def test_a_local_server_is_asked_for_step_by_step(folder: Path) -> None:
    with chat(folder) as terminal:
        terminal.until("Your choice")
        terminal.press("3\n")
        terminal.until("Address")
        terminal.press("\n")
        terminal.until("Model, as the server calls it")
        terminal.press("qwen3\n")
        terminal.until("context window")
        terminal.press("\n")
        terminal.until("key, if it wants one")
        terminal.press("\n")
        terminal.until("> ")
        terminal.press("/quit\n")
        assert terminal.end() == 0
    with Runtime(folder / "memory") as runtime:
        assert runtime.agents.get("main").model == Model(
            "openai/qwen3", base_url="http://localhost:8000/v1", context_window=8192
        )


def test_who_leaves_at_the_first_question_is_let_go(folder: Path) -> None:
    with chat(folder) as terminal:
        terminal.until("Your choice")
        assert terminal.end(pressing=CTRL_C) == 1
