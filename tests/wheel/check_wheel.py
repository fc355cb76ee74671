"""Exercises the installed wheel: `python -I check_wheel.py` in a clean environment.

Checkout and wheel find `prompts/` and `blocks/` on different paths, and the tests only ever walk
the first. So here everything that ships is read from the installed package, and an agent answers.
"""

from __future__ import annotations

import importlib.metadata
import runpy
import sys
import tempfile
from pathlib import Path

import pagedaemon
from pagedaemon import Block, Runtime
from pagedaemon.resources import Prompts, shipped, starter_block, starter_names
from pagedaemon.testing import network_guard

TESTS = Path(__file__).resolve().parents[1]


def check_origin() -> None:
    """What is imported is the installed package, and it reports the version it was built with."""
    package = Path(pagedaemon.__file__).parent
    assert package.is_relative_to(sys.prefix), f"imported from {package}, not from the wheel"
    for kind in ("prompts", "blocks"):
        assert shipped(kind) == package / "share" / kind, f"{kind}/ was found in {shipped(kind)}"
    assert importlib.metadata.version("pagedaemon") == pagedaemon.__version__


def check_prompts() -> int:
    """Every template renders with the values that the tests use; how many there are."""
    samples = runpy.run_path(str(TESTS / "sample_values.py"))["SAMPLES"]
    prompts = Prompts()
    names = prompts.names()
    assert names, "the wheel has no prompts"
    for name in names:
        prompts.render(name, **samples[name])
    return len(names)


def check_blocks() -> int:
    """Every starter parses and makes a block whose value fits; how many there are."""
    names = starter_names()
    assert names, "the wheel has no starter blocks"
    for name in names:
        _, value = starter_block(name)
        block = Block.load(name)
        assert block.description, f"{name} does not say what belongs in it"
        assert block.value == value
        assert len(value) <= block.limit, f"{name} is longer than its own limit"
    return len(names)


def check_one_message(folder: Path) -> None:
    """An agent learns, is closed, and is still there when the store is opened again."""
    with Runtime(folder, model="offline") as runtime:
        agent = runtime.agents.ensure(
            "ada", blocks=[Block.load("persona/companion"), Block.human("Name: unknown")]
        )
        turn = agent.send("Hi")
        assert turn.reply, f"no reply; the turn ended with {turn.stop_reason}: {turn.error}"
        agent.send("My name is Lin.")
    with Runtime(folder, model="offline") as runtime:
        again = runtime.agents.ensure(
            "ada", blocks=[Block.load("persona/companion"), Block.human("Name: unknown")]
        )
        assert "Lin" in again.blocks["human"].value, "what was learnt is gone after reopening"


def main() -> None:
    """All checks, with every connection refused."""
    with network_guard() as attempts:
        check_origin()
        prompts = check_prompts()
        blocks = check_blocks()
        with tempfile.TemporaryDirectory() as folder:
            check_one_message(Path(folder) / "memory")
    assert not attempts, f"tried to reach the network: {attempts}"
    print(f"{prompts} prompts, {blocks} starter blocks, one agent: all from the wheel")


if __name__ == "__main__":
    main()
