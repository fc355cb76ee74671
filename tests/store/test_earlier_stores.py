"""A store that an earlier schema kept is opened as it was, and goes on (user case ST-01).

`fixtures/<revision>.db.gz` were made by that schema's own code: two agents with a shared block and
the offline model, a window that was paged out, a passage, a second conversation, and a tool that
must be called in each turn.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pagedaemon import AsyncRuntime
from pagedaemon.config import Required
from pagedaemon.testing import FakeClock

FIXTURES = sorted(Path(__file__).with_name("fixtures").glob("*.db.gz"))


@pytest.fixture(params=FIXTURES, ids=lambda path: path.name.split(".")[0])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with the store of one earlier schema."""
    path = tmp_path / "spaces" / "default" / "space.db"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.decompress(request.param.read_bytes()))
    return tmp_path


async def test_what_was_kept_is_there_and_the_agents_go_on(store: Path) -> None:
    clock = FakeClock(datetime(2026, 11, 30, tzinfo=UTC))
    async with AsyncRuntime(store, model="offline", clock=clock, embedder=None) as runtime:
        ada, bob = await runtime.agents.get("ada"), await runtime.agents.get("bob")
        assert ada.settings.rules == (Required(tool="conversation_search"),)
        assert (await ada.blocks.get("team")).value == "We ship on Thursdays."
        assert (await bob.blocks.get("team")).value == "We ship on Thursdays."
        versions = await (await ada.blocks.get("human")).history()
        assert [(version.value, version.by) for version in versions] == [
            ("Name: unknown", "api"),
            ("Name: Lin", "agent"),
            ("Name: Lin\nLives in: Lisbon", "agent"),
        ]
        assert [hit.text for hit in (await ada.archive.search("key")).hits] == [
            "The spare key is with Mrs. Moreira."
        ]
        found = await bob.recall.search('"parcel number 070"', roles=["user"])
        assert [hit.text.split(".")[0] for hit in found.hits] == [
            "Note 0: the parcel number 070 goes to harbour street 0"
        ]
        main = await bob.conversations.get()
        assert "summary" in [message.kind for message in await main.messages()]
        assert len(await main.summarised()) > 10
        assert [one.name for one in await ada.conversations.list()] == ["main", "trips"]
        turn = await ada.send("Where do I live?")
        assert "Lisbon" in str(turn.reply)
        assert "conversation_search" in [call.tool for step in turn.steps for call in step.calls]
        [newest, before, *_] = await (await ada.conversations.get()).turns()
        assert (newest.id, before.stop_reason) == (turn.id, "end_turn")
        told = [event async for event in main.events((await main.turns())[0].id)]
        assert [event.number for event in told] == list(range(1, len(told) + 1))


async def test_the_store_before_the_upgrade_is_kept_beside_it(store: Path) -> None:
    path = store / "spaces" / "default" / "space.db"
    before = path.read_bytes()
    async with AsyncRuntime(store, model="offline", embedder=None):
        pass
    [copy] = path.parent.glob("space.db.before-*")
    original = store / "original.db"
    original.write_bytes(before)
    with closing(sqlite3.connect(copy)) as kept, closing(sqlite3.connect(original)) as given:
        [settings] = kept.execute("SELECT settings FROM agents WHERE name = 'ada'").fetchone()
        assert json.loads(settings)["required_tools"] == ["conversation_search"]
        for table in ("messages", "block_versions", "passages", "turns", "steps"):
            query = f"SELECT * FROM {table} ORDER BY 1, 2"
            assert kept.execute(query).fetchall() == given.execute(query).fetchall()
