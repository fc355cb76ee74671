"""Any script through every path, what no store can hold, and whose clock is shown."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from pagedaemon import AsyncRuntime, Block, Model, tool
from pagedaemon.config import Paging
from pagedaemon.errors import ConfigError, InvalidInput, PagedaemonError
from pagedaemon.events import Event, PagedOut, ReplyDelta, TurnEnded
from pagedaemon.llm.protocol import Reply
from pagedaemon.testing import FakeClock, ScriptedModel, both, call, say, text, view

Open: TypeAlias = Callable[..., AbstractAsyncContextManager[AsyncRuntime]]

SCRIPTS = {
    "cjk": "私は東京に住んでいます。你好世界",
    "arabic": "مرحبا بالعالم، اسمي لين",
    "combining": "e\u0301 n\u0303 \u0915\u094d\u0937 Z\u0351\u036b\u0343",
    "joined emoji": "\U0001f469\u200d\U0001f467 \U0001f468\U0001f3fd\u200d\U0001f4bb",
    "bidi": "abc \u202egnp.exe\u202c \u2066\u0627\u062b\u0646\u2069 \u200fz",
    "astral": "\U0001d518\U0001d52b\U0001d526 \U00013000 \U0001f004",
    "zero width": "a\u200bb\u00adc\ufeffd\u2060e",
    "quotes": "\u201c\u201d\u2018\u2019„«» \\ \" ' \u2028 \u2029 \u0085 \t z",
}
"""One sample of each kind; none ends in blank space."""


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """Opens a runtime over a model; the store stays between two openings."""

    @asynccontextmanager
    async def open_runtime(
        model: ScriptedModel, clock: FakeClock | None = None, **settings: Any
    ) -> AsyncIterator[AsyncRuntime]:
        async with AsyncRuntime(
            tmp_path, model=Model("script", **settings), models={"script": model}, clock=clock
        ) as runtime:
            yield runtime

    return open_runtime


@tool(effect="read")
def mirror(text: str) -> dict[str, str]:
    """Gives back what it is given, as data.

    Args:
        text: anything.
    """
    return {"mirrored": text}


def rows(folder: Path, table: str, column: str) -> list[Any]:
    (path,) = folder.rglob("space.db")
    connection = sqlite3.connect(path)
    try:
        found = connection.execute(f"SELECT {column} FROM {table}").fetchall()
    finally:
        connection.close()
    return [row[0] for row in found]


# ------------------------------------------------------------------ every script, every path


@pytest.mark.parametrize("kind", SCRIPTS)
async def test_text_is_itself_on_every_path(opened: Open, tmp_path: Path, kind: str) -> None:
    """TX-01. User text, block, arguments, result, archival, reply, stream; requests and rows."""
    sample = SCRIPTS[kind]
    block = Block(label="human", value=sample, limit=2 * len(sample) + 1, description=sample)
    model = ScriptedModel(
        [
            both(
                call("core_memory_append", label="human", content=sample, thoughts=sample),
                call("archival_memory_insert", content=sample, tags=["t"]),
                call("mirror", text=sample, heartbeat=True),
            ),
            call("archival_memory_search", query=sample, tags=["t"], heartbeat=True),
            say(sample),
        ]
    )
    async with opened(model) as runtime:
        ada = await runtime.agents.create("ada", blocks=[block], tools=[mirror])
        events = [event async for event in ada.stream(sample, author="Lin")]
        turn = ended(events)
        human = await ada.blocks.get("human")
        (passage,) = (await ada.archive.search()).hits
        stored = await (await ada.conversations.get()).messages()

    assert turn.reply == sample
    assert "".join(event.text for event in events if isinstance(event, ReplyDelta)) == sample
    assert turn.steps[0].thoughts == sample.strip()
    made = turn.steps[0].calls
    assert [dict(one.arguments) for one in made] == [
        {"label": "human", "content": sample},
        {"content": sample, "tags": ["t"]},
        {"text": sample},
    ]
    assert made[2].result == json.dumps({"mirrored": sample}, ensure_ascii=False)
    assert human.value == f"{sample}\n{sample}"
    assert f"{human.limit}/{human.limit} characters" in made[0].result, "counted in characters"
    assert passage.text == sample

    wire = model.requests[2].messages
    assert view(model.requests[0]).last_user == sample.strip()
    assert view(model.requests[1]).blocks["human"] == f"{sample}\n{sample}"
    for message in wire:
        for one in message.get("tool_calls") or ():
            written = json.dumps(sample, ensure_ascii=False)
            assert written in one["function"]["arguments"], "no escapes but those JSON needs"
    shown = view(model.requests[2]).results["archival_memory_search"][0]
    assert sample.split("\n")[0] in shown

    assert stored[0].text == sample
    assert sample in rows(tmp_path, "messages", "text")
    assert sample in rows(tmp_path, "passages", "text")
    assert f"{sample}\n{sample}" in rows(tmp_path, "blocks", "value")


@pytest.mark.parametrize("kind", SCRIPTS)
async def test_text_is_itself_in_a_summary(opened: Open, kind: str) -> None:
    """TX-01. What the summariser is asked, what it says, and what stands in the window for it."""
    sample = SCRIPTS[kind]
    model = ScriptedModel(lambda request: say("ok"), summary=f"They said {sample}")
    async with opened(model, context_window=5_500, max_output_tokens=400) as runtime:
        ada = await runtime.agents.create("ada", paging=Paging(keep_last=1))
        events: list[Event] = []
        for number in range(30):
            words = sample if number == 0 else f"{number} " + "more words to fill it " * 40
            events += [event async for event in ada.stream(words)]
            if any(isinstance(event, PagedOut) for event in events):
                break
        await ada.send("and now?")
    (asked, *_) = [request for request in model.requests if request.purpose == "summary"]
    assert sample.split("\n")[0] in str(asked.messages[1]["content"])
    assert f"They said {sample}" in str(model.requests[-1].messages[1]["content"])


async def test_lone_halves_of_a_model_become_one_mark_and_whole_pairs_their_character(
    opened: Open,
) -> None:
    """O11, TX-01. As a JSON stream may bring them: in content, reasoning and results."""
    model = ScriptedModel(
        [
            Reply(content="a \ud83d\ude00 \ud83d b\x00", reasoning="\udc00"),
            both(text("half \udfff"), call("broken", heartbeat=True)),
            say("Done"),
        ]
    )

    @tool(effect="read")
    def broken() -> str:
        """Gives back what no store can hold."""
        return "nul \x00, half \ud800, pair \ud83d\ude00"

    async with opened(model) as runtime:
        ada = await runtime.agents.create("ada", tools=[broken])
        events = [event async for event in ada.stream("hello")]
        turn = await ada.send("go on")
        stored = await (await ada.conversations.get()).messages()
    assert ended(events).reply == "a 😀 � b�"
    assert ended(events).steps[0].thoughts == "�"
    assert "".join(event.text for event in events if isinstance(event, ReplyDelta)) == "a 😀 � b�"
    assert turn.steps[0].calls[0].result == "nul �, half �, pair 😀"
    for message in stored:
        assert "\x00" not in message.text
        message.text.encode()


BAD = {"nul": "a\x00b", "high half": "a\ud800b", "low half": "\udfff"}


@pytest.mark.parametrize("kind", BAD)
async def test_what_no_store_can_hold_is_refused_at_every_door(opened: Open, kind: str) -> None:
    """O11. A typed error, nothing stored, and the agent still answers."""
    bad = BAD[kind]
    model = ScriptedModel(lambda request: say("ok"))
    async with opened(model) as runtime:
        ada = await runtime.agents.create("ada", blocks=[Block(label="human", value="Lin")])
        human = await ada.blocks.get("human")
        doors: dict[str, Callable[[], Any]] = {
            "message": lambda: ada.send(bad),
            "author": lambda: ada.send("hello", author=bad),
            "agent's name": lambda: runtime.agents.create(bad),
            "agent's new name": lambda: ada.update(name=bad),
            "conversation": lambda: ada.conversations.ensure(bad),
            "block": lambda: human.append(bad),
            "new block": lambda: runtime.blocks.create(label="team", value=bad),
            "block's name": lambda: runtime.blocks.create(label="team", name=bad),
            "description": lambda: human.update(description=bad),
            "new description": lambda: runtime.blocks.create(label="team", description=bad),
            "passage": lambda: ada.archive.insert(bad),
            "tag": lambda: ada.archive.insert("tea", tags=[bad]),
            "source": lambda: ada.archive.insert("tea", source=bad),
            "kind": lambda: ada.archive.insert("tea", kind=bad),
            "instructions": lambda: ada.update(instructions=bad),
            "zone": lambda: ada.update(timezone=bad),
            "space": lambda: runtime.space(bad),
        }
        closed = set()
        for door, enter in doors.items():
            try:
                await enter()
            except (InvalidInput, ConfigError):
                closed.add(door)
        assert closed == set(doors)
        assert await ada.recall.count() == 0
        assert await ada.archive.count() == 0
        assert await runtime.blocks.list() == []
        assert [agent.name for agent in await runtime.agents.list()] == ["ada"]
        assert (await human.refresh()).version == 1
        assert (await ada.send("hello")).reply == "ok"


@pytest.mark.parametrize("kind", BAD)
async def test_looking_for_what_no_store_can_hold_finds_nothing(opened: Open, kind: str) -> None:
    """O11. A search or a name that cannot exist is an empty page or a typed error."""
    bad = BAD[kind]
    async with opened(ScriptedModel(lambda request: say("ok"))) as runtime:
        ada = await runtime.agents.create("ada")
        await ada.send("hello")
        lookups: list[Callable[[], Any]] = [
            lambda: runtime.agents.get(bad),
            lambda: runtime.blocks.get(bad),
            lambda: ada.blocks.get(bad),
            lambda: ada.conversations.get(bad),
            lambda: ada.archive.get(bad),
            lambda: ada.recall.search("hello", author=bad),
            lambda: ada.archive.search("hello", tags=[bad]),
        ]
        for number, lookup in enumerate(lookups):
            try:
                found = await lookup()
            except PagedaemonError:
                continue
            assert found.total == 0, number


async def test_ten_megabytes_of_text_come_back_equal(opened: Open) -> None:
    """O11."""
    words = "Ein langes Wort 🍵 " * 550_000
    async with opened(ScriptedModel(lambda request: say("read"))) as runtime:
        ada = await runtime.agents.create("ada")
        turn = await ada.send(words)
        (stored, *_) = await (await ada.conversations.get()).messages()
    assert turn.reply == "read"
    assert stored.text == words


# ------------------------------------------------------------------ whose clock


async def test_time_is_shown_in_the_agents_zone_and_given_back_with_an_offset(
    opened: Open,
) -> None:
    """TX-02."""
    clock = FakeClock(datetime(2026, 11, 30, 23, 30, tzinfo=UTC))
    model = ScriptedModel(
        [
            call("archival_memory_insert", content="tea", heartbeat=True),
            say("ok"),
            call("conversation_search", query="first", heartbeat=True),
            say("ok"),
        ]
    )
    async with opened(model, clock) as runtime:
        ada = await runtime.agents.create("ada", timezone="Asia/Tokyo")
        turn = await ada.send("first")
        stamp = "Tuesday 2026-12-01 08:30:00 +09:00 (Asia/Tokyo)"
        assert stamp in str(model.requests[0].messages[-1]["content"])
        (beat,) = view(model.requests[1]).events
        assert beat["time"] == stamp
        hit = (await ada.recall.search("first")).hits[0]
        passage = (await ada.archive.search()).hits[0]
        instants = [hit.message.created_at, passage.created_at, turn.started_at, turn.ended_at]
        assert set(instants) == {clock.now()}
        assert {instant.utcoffset() for instant in instants} == {timedelta()}

        # The zone changes: stored instants stay, what was shown stays, what is shown now moves.
        await ada.update(timezone="America/New_York")
        clock.advance(60)
        turn = await ada.send("second")
        assert (await ada.recall.search("first")).hits[0].message == hit.message
        assert (await ada.archive.search()).hits[0].created_at == passage.created_at
    content = str(model.requests[2].messages[-1]["content"])
    assert "Monday 2026-11-30 18:31:00 -05:00 (America/New_York)" in content
    assert stamp in str(model.requests[2].messages), "history is not rewritten"
    found = turn.steps[0].calls[0].result
    assert "Monday 2026-11-30 18:30" in found
    assert "times in America/New_York" in found


async def test_zone_that_does_not_exist_is_refused(opened: Open) -> None:
    async with opened(ScriptedModel([])) as runtime:
        for wrong in ("Mars/Olympus", "", "../../etc/passwd"):
            with pytest.raises((InvalidInput, ConfigError)):
                await runtime.agents.create("ada", timezone=wrong)
        assert await runtime.agents.list() == []


async def test_hosts_zone_does_not_matter(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """TX-02. The process runs in another zone than the agent, and sees no difference."""
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    try:
        clock = FakeClock(datetime(2026, 11, 30, 23, 30, tzinfo=UTC))
        model = ScriptedModel([say("ok")])
        async with opened(model, clock) as runtime:
            ada = await runtime.agents.create("ada")
            await asyncio.sleep(0)
            turn = await ada.send("first")
        shown = str(model.requests[0].messages[-1]["content"])
        assert "Monday 2026-11-30 23:30:00 +00:00 (UTC)" in shown
        assert turn.started_at == datetime(2026, 11, 30, 23, 30, tzinfo=UTC)
    finally:
        monkeypatch.undo()
        time.tzset()


def ended(events: list[Event]) -> Any:
    last = events[-1]
    assert isinstance(last, TurnEnded)
    return last.turn
