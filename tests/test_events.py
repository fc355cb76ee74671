"""Events as a user's type checker sees them: what `type` says, narrows them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_args

from pagedaemon import events
from pagedaemon.events import Event, EventBase

ROOT = Path(__file__).parents[1]

PROGRAM = '''
"""What a user writes."""

from typing import assert_never, assert_type

from pagedaemon import Agent, AsyncAgent, Turn, events


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


def test_the_type_of_an_event_narrows_it_by_both_doors(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition("\n## Streaming\n")[2]
    streaming = section.partition("```python\n")[2].partition("```")[0]
    assert "event.type" in streaming
    programs = {"program.py": PROGRAM, "streaming.py": streaming}
    for name, text in programs.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    cache = ROOT / ".mypy_cache"
    mypy = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [*mypy, "--cache-dir", str(cache), *(str(tmp_path / name) for name in programs)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_any_event_is_one_of_all_there_are() -> None:
    kinds = [
        kind
        for kind in vars(events).values()
        if isinstance(kind, type) and issubclass(kind, EventBase) and kind is not EventBase
    ]
    assert set(get_args(Event)) == set(kinds)
