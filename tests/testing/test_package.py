"""The testing kit as a user meets it: what it exports and what importing it costs."""

from __future__ import annotations

import os
import subprocess
import sys

import pagedaemon.testing

HEAVY = "openai litellm chromadb tiktoken alembic pytest"
LOADED = f"""
import sys
import pagedaemon.testing
print(*[name for name in {HEAVY!r}.split() if name in sys.modules])
"""


def test_every_exported_name_is_there_and_documented() -> None:
    for name in pagedaemon.testing.__all__:
        exported = getattr(pagedaemon.testing, name)
        assert not callable(exported) or exported.__doc__, name


def test_importing_it_loads_nothing_heavy() -> None:
    # In a process of its own: other tests have loaded all sorts of things into this one.
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.split() == []
