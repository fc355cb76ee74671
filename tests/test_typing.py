"""What a user writes passes a strict type checker, and what is wrong in it does not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

_BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)

PROGRAM = '''
"""What a user writes."""

from typing import assert_never, assert_type

from pagedaemon import Agent, AsyncAgent, Turn, config, events


def blocking(ada: Agent) -> None:
    """By the blocking door."""
    for event in ada.stream("Hi"):
        if event.type == "reply_delta":
            assert_type(event, events.ReplyDelta)
            print(event.text)
        elif event.type == "turn_ended":
            assert_type(event.turn, Turn)
    for event in ada.conversations.get().events("turn", after=1):
        if event.type == "heartbeat":
            assert_type(event, events.HeartbeatEvent)


async def awaited(ada: AsyncAgent) -> None:
    """By the async door."""
    async for event in ada.stream("Hi"):
        if event.type == "paged_out":
            assert_type(event, events.PagedOut)
    async for event in ada.stream_heartbeat():
        print(event.type, event.turn_id, event.provisional)


def rules() -> tuple[config.Rule, ...]:
    """The tool may come first without its name; the rest is checked."""
    config.AtMost("mail")  # type: ignore[call-arg]
    config.After("search", then=("fetch",), calls=2)  # type: ignore[call-arg]
    return (config.First("load"), config.AtMost("mail", calls=1), config.Required(tool="log"))


def typed(ada: Agent) -> None:
    """A reply has the type that was asked for."""
    assert_type(ada.send("How many?", reply_type=list[int]).value, list[int])
    assert_type(ada.send("Hi"), Turn)


def every(event: events.Event) -> None:
    """A match that leaves none out."""
    match event:
        case events.TurnStarted() | events.StepStarted() | events.ReplyDelta():
            pass
        case events.ReplyPartial() | events.ThoughtDelta() | events.StepReset():
            pass
        case events.StepFinished() | events.HeartbeatEvent() | events.PagedOut():
            pass
        case events.TurnEnded():
            pass
        case _:
            assert_never(event)
'''


def test_the_public_types_say_what_they_are(tmp_path: Path) -> None:
    """Also those in the code blocks of the README, some of which annotate nothing of their own."""
    blocks = _BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert any("event.type ==" in block for block in blocks)
    programs = {"program": PROGRAM} | {f"block_{at}": text for at, text in enumerate(blocks)}
    files = [tmp_path / f"{name}.py" for name in programs]
    for file, text in zip(files, programs.values(), strict=True):
        file.write_text(text, encoding="utf-8")
    mypy = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    unannotated = ["--allow-untyped-defs", "--allow-untyped-calls"]
    done = subprocess.run(
        [*mypy, *unannotated, *map(str, files)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
