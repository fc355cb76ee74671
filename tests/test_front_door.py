"""The front door: which names there are, what importing them costs, what a wrong import says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pagedaemon
from pagedaemon import AsyncRuntime, Runtime

ROOT = Path(__file__).parents[1]

NAMES = [
    "Agent",
    "AlreadyExists",
    "AsyncAgent",
    "AsyncRuntime",
    "Block",
    "Closed",
    "ConfigError",
    "ContextOverflow",
    "EditRefused",
    "File",
    "Gates",
    "Image",
    "InvalidInput",
    "KeyConflict",
    "Limits",
    "Model",
    "ModelError",
    "NeverRan",
    "NoModel",
    "NotFound",
    "PagedaemonError",
    "Paging",
    "Record",
    "ReplyInvalid",
    "Runtime",
    "Settings",
    "StoreError",
    "Style",
    "Tool",
    "ToolContext",
    "ToolFailure",
    "Turn",
    "TypedTurn",
    "__version__",
    "tool",
]

HEAVY = [
    "aiosqlite",
    "alembic",
    "anthropic",
    "asyncpg",
    "chromadb",
    "click",
    "httpx",
    "httpx2",
    "litellm",
    "numpy",
    "onnxruntime",
    "openai",
    "pagedaemon.cli",
    "pagedaemon.handles.intake",
    "pagedaemon.llm.gateway",
    "pagedaemon.loop",
    "pagedaemon.memory.embedding",
    "pagedaemon.memory.meaning",
    "pagedaemon.memory.ranking",
    "pagedaemon.memory.search",
    "pagedaemon.scheduler",
    "pagedaemon.testing",
    "psycopg",
    "requests",
    "rich",
    "sqlalchemy.dialects.postgresql",
    "tenacity",
    "tiktoken",
    "tokenizers",
]
"""What an import must not load: the other doors, what only some programs use, and what runs turns,
which whoever opens a runtime loads."""

IMPORTING = """
import json, sys
sockets = []
sys.addaudithook(lambda event, _: event.startswith("socket.") and sockets.append(event))
import pagedaemon
print(json.dumps([sorted(sys.modules), sockets]))
"""


def python(code: str, folder: Path, path: Path | None) -> subprocess.CompletedProcess[str]:
    """A program of its own in that folder, with that path to import from."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_public_names_are_these() -> None:
    assert pagedaemon.__all__ == NAMES
    assert sorted(NAMES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_there_and_explained(name: str) -> None:
    assert getattr(pagedaemon, name).__doc__


def test_both_runtimes_have_the_same_surface() -> None:
    blocking, real = (
        {name for name in vars(door) if not name.startswith("_")}
        for door in (Runtime, AsyncRuntime)
    )
    assert blocking | {"open"} == real


def test_importing_loads_nothing_heavy_and_opens_no_socket(tmp_path: Path) -> None:
    ran = python(IMPORTING, tmp_path, ROOT / "runtime")
    assert ran.returncode == 0, ran.stderr
    modules, sockets = json.loads(ran.stdout)
    assert [name for name in HEAVY if name in modules] == []
    assert sockets == []


def test_opening_and_answering_offline_opens_no_connection(tmp_path: Path) -> None:
    code = IMPORTING.replace(
        "print",
        f"""
with pagedaemon.Runtime({str(tmp_path / "memory")!r}, model="offline") as runtime:
    runtime.agents.ensure("ada").send("Hi, my name is Lin.")
print""",
    )
    ran = python(code, tmp_path, ROOT / "runtime")
    assert ran.returncode == 0, ran.stderr
    modules, sockets = json.loads(ran.stdout)
    # The event loop's own pair of sockets wakes it up; nothing is looked up or connected.
    assert {"socket.connect", "socket.getaddrinfo", "socket.sendto"}.isdisjoint(sockets)
    assert [name for name in ("openai", "litellm", "alembic", "chromadb") if name in modules] == []


def test_importing_the_source_root_says_what_to_import() -> None:
    ran = python("import runtime", ROOT, None)
    assert ran.returncode != 0
    assert "import pagedaemon instead" in ran.stderr


def test_a_module_reached_through_the_source_root_is_refused_too() -> None:
    ran = python("from runtime.pagedaemon import Runtime", ROOT, None)
    assert ran.returncode != 0
    assert "import pagedaemon instead" in ran.stderr
