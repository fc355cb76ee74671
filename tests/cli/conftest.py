"""The command line in an empty folder, without a key or a setting of the machine it runs on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pagedaemon.cli.commands import commands

Run = Callable[..., Result]

SETTINGS = (
    "PAGEDAEMON_STORE",
    "PAGEDAEMON_MODEL",
    "PAGEDAEMON_API_KEY",
    "PAGEDAEMON_DEBUG",
    "OPENAI_API_KEY",
)

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


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # --app adds the working directory
    return tmp_path


@pytest.fixture
def run() -> Run:
    """Runs `pagedaemon` with arguments and, as `input`, what comes through the pipe."""

    def run(*arguments: str, input: str = "") -> Result:
        return CliRunner().invoke(
            commands,
            arguments,
            input=input,
            prog_name="pagedaemon",
            catch_exceptions=False,
            terminal_width=80,
        )

    return run


@pytest.fixture
def write_app(folder: Path) -> Callable[..., None]:
    """Writes a module for `--app` by its name, with more code at its end."""

    def write_app(name: str, more: str = "") -> None:
        (folder / f"{name}.py").write_text(f"{APP}\n{more}")

    return write_app
