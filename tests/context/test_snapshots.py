"""What a model is sent, to the letter: a changed word shows up here.

After a change that is meant, `PAGEDAEMON_REWRITE_SNAPSHOTS=1 python -m pytest tests/context` writes
the files under `snapshots/` anew; read the difference before you keep it.
"""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pagedaemon import AsyncRuntime, Block, Model, tool
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import FakeClock, ScriptedModel, both, call, say, text

SNAPSHOTS = Path(__file__).with_name("snapshots")
REWRITE = "PAGEDAEMON_REWRITE_SNAPSHOTS"


@tool(effect="read")
def weather(city: str, days: int = 1) -> str:
    """The weather in a city.

    Args:
        city: its name.
        days: how many days ahead.
    """
    return f"sunny in {city}"


def script(style: str, tool_set: str) -> list[Reply]:
    """A conversation that shows each kind of thing a request can hold."""
    native = style == "native"
    on = None if native else True
    learnt = (
        call("core_memory_append", label="human", content="Lives in Rome.", heartbeat=on)
        if tool_set == "memgpt"
        else call("memory_insert", label="human", new_str="Lives in Rome.", heartbeat=on)
    )
    asked = call(
        "weather",
        city="Rome",
        heartbeat=on,
        thoughts=None if native else "I look it up.",
    )
    wrong = call("weather", days="many", heartbeat=None if native else False)
    paged = call("page_out", through=1, note="Lin said hello.", heartbeat=on)
    answer = text if native else say
    return [
        answer("Hello, Lin."),
        both(learnt, asked),
        wrong,
        answer("Sunny in Rome."),
        paged,
        answer("Done."),
    ]


def shown(request: Request) -> str:
    """A request as text, without the ids that differ from run to run."""
    lines = ["===== tools"]
    lines += [json.dumps(tool["function"], ensure_ascii=False, indent=1) for tool in request.tools]
    for message in request.messages:
        lines.append(f"===== {message['role']}")
        if message["role"] == "tool":
            lines.append(f"(answers {message['tool_call_id']})")
        if message.get("content"):
            lines.append(str(message["content"]))
        for made in message.get("tool_calls") or ():
            function = made["function"]
            lines.append(f"-> {made['id']} {function['name']} {function['arguments']}")
    whole = "\n".join(lines) + "\n"
    return re.sub(r"\b(block|message|passage)-[0-9a-f-]{36}\b", r"\1-…", whole)


@pytest.mark.parametrize("style", ["memgpt", "native"])
@pytest.mark.parametrize("tool_set", ["memgpt", "edit"])
async def test_the_compiled_request_reads_as_it_did(
    tmp_path: Path, style: str, tool_set: str
) -> None:
    model = ScriptedModel(script(style, tool_set))
    async with AsyncRuntime(
        tmp_path,
        model=Model("script", context_window=32_000),
        models={"script": model},
        clock=FakeClock(datetime(2026, 11, 30, 15, 53, 31, tzinfo=UTC)),
    ) as runtime:
        agent = await runtime.agents.ensure(
            "ada",
            blocks=[
                Block.persona("I am Ada."),
                Block.human("Name: Lin"),
                Block.load("shared/policy"),
            ],
            tools=[weather],
            style=style,
            tool_set=tool_set,
            timezone="Europe/Rome",
        )
        for words in ("Hello, I am Lin.", "I live in Rome. How is the weather?", "Make room."):
            await agent.send(words)
    assert model.remaining == 0
    found = shown(model.requests[-1])
    path = SNAPSHOTS / f"{style}_{tool_set}.txt"
    if os.environ.get(REWRITE) == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(found, encoding="utf-8")
    assert path.is_file(), f"no snapshot yet: write it with {REWRITE}=1"
    assert found == path.read_text(encoding="utf-8"), f"if this is meant: {REWRITE}=1"
