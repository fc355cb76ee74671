"""A store that an earlier schema kept is opened as it was, and goes on (user case ST-01).

`fixtures/<revision>.db.gz` were made by that schema's own code, as `fixtures/make.py` tells: two
agents with a shared block and the offline model, a window that was paged out, a passage, a second
conversation, a tool that must be called in each turn, and what that schema was the first to have.
"""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

import pagedaemon
from pagedaemon import AsyncRuntime, tool
from pagedaemon.config import AtMost, Required
from pagedaemon.store import upgrade
from pagedaemon.testing import FakeClock, FakeEmbedder, ScriptedModel, png, say

FIXTURES = Path(__file__).with_name("fixtures")
REVISIONS = upgrade.OURS.revisions
SOURCE_ROOT = Path(pagedaemon.__file__).parents[1]


def unpacked(revision: str, folder: Path) -> Path:
    """A folder with the store of that schema."""
    path = where(folder)
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.decompress((FIXTURES / f"{revision}.db.gz").read_bytes()))
    return folder


def where(folder: Path) -> Path:
    """The file of the store that a folder holds."""
    return folder / "spaces" / "default" / "space.db"


def ask(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture(params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    """Each schema so far, the present one too."""
    return str(request.param)


@pytest.fixture
def store(revision: str, tmp_path: Path) -> Path:
    """A folder with the store of one schema."""
    return unpacked(revision, tmp_path)


def since(first: str) -> pytest.MarkDecorator:
    """For the stores of that schema and of those after it."""
    return pytest.mark.parametrize("revision", [one for one in REVISIONS if one >= first])


earlier = pytest.mark.parametrize("revision", REVISIONS[:-1])


def test_each_store_is_of_the_schema_that_it_is_named_after(revision: str, store: Path) -> None:
    assert ask(where(store), "SELECT version_num FROM alembic_version") == [(revision,)]
    [[settings]] = ask(where(store), "SELECT settings FROM agents WHERE name = 'ada'")
    assert ("required_tools" in json.loads(str(settings))) == (revision < "0003")
    assert sorted(path.name.split(".")[0] for path in FIXTURES.glob("*.db.gz")) == [*REVISIONS]


async def test_what_was_kept_is_there_and_the_agents_go_on(revision: str, store: Path) -> None:
    clock = FakeClock(datetime(2026, 11, 30, tzinfo=UTC))
    async with AsyncRuntime(store, model="offline", clock=clock, embedder=None) as runtime:
        ada, bob = await runtime.agents.get("ada"), await runtime.agents.get("bob")
        assert ada.settings.rules[0] == Required(tool="conversation_search")
        assert ada.settings.rules[1:] == (
            () if revision < "0003" else (AtMost(tool="archival_memory_insert", calls=3),)
        )
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
        # The whole text, its neighbours and each word: what the newest indexes answer.
        for words in ("harbour street 4 parcel", "parcle"):
            assert (await bob.recall.search(words)).hits, words
        assert [one.name for one in await ada.conversations.list()] == ["main", "trips"]
        turn = await ada.send("Where do I live?")
        assert "Lisbon" in str(turn.reply)
        assert "conversation_search" in [call.tool for step in turn.steps for call in step.calls]
        [newest, before, *_] = await (await ada.conversations.get()).turns()
        assert (newest.id, before.stop_reason) == (turn.id, "end_turn")
        told = [event async for event in main.events((await main.turns())[0].id)]
        assert [event.number for event in told] == list(range(1, len(told) + 1))


@earlier
async def test_the_store_before_the_upgrade_is_kept_beside_it(store: Path) -> None:
    before = where(store).read_bytes()
    async with AsyncRuntime(store, model="offline", embedder=None):
        pass
    [copy] = where(store).parent.glob("space.db.before-*")
    original = store / "original.db"
    original.write_bytes(before)
    assert contents(copy) == contents(original)


def contents(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """The rows of all tables that were written to, in an order of their own."""
    tables = ask(
        path, "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'"
    )
    return {str(name): sorted(ask(path, f'SELECT * FROM "{name}"'), key=repr) for [name] in tables}


async def test_a_store_of_this_release_is_opened_as_it_is(tmp_path: Path) -> None:
    store = unpacked(REVISIONS[-1], tmp_path)
    async with AsyncRuntime(store, model="offline", embedder=None):
        pass
    assert list(where(store).parent.glob("space.db.before-*")) == []


async def test_nothing_is_wrong_with_it_and_each_conversation_goes_on(store: Path) -> None:
    clock = FakeClock(datetime(2026, 11, 30, tzinfo=UTC))
    async with AsyncRuntime(store, model="offline", clock=clock, embedder=None) as runtime:
        report = await runtime.doctor(mend=False)
        assert report.sound, report
        for agent in [await runtime.agents.get("ada"), await runtime.agents.get("bob")]:
            assert await agent.archive.count() > 0
            for conversation in await agent.conversations.list():
                # Not what is in the window: a turn that was left open may page out meanwhile.
                said = await agent.recall.count()
                assert (await conversation.send("I like pears.")).stop_reason == "end_turn"
                assert await agent.recall.count() > said
                assert (await agent.recall.search("pears")).hits


@since("0002")
async def test_vectors_are_kept_and_not_made_anew(store: Path) -> None:
    query = "SELECT owner_kind, owner_id, chunk, model, vector FROM embeddings"
    given = ask(where(store), query)
    embedder = FakeEmbedder({"opener": "key"}, dimension=8)
    async with AsyncRuntime(store, model="offline", embedder=embedder) as runtime:
        ada = await runtime.agents.get("ada")
        [hit] = (await ada.archive.search("opener")).hits
        assert hit.text == "The spare key is with Mrs. Moreira."
    assert given
    assert set(given) <= set(ask(where(store), query))
    made = [text for purpose, texts in embedder.calls if purpose == "document" for text in texts]
    assert hit.text not in made


@since("0002")
async def test_a_picture_is_kept_with_its_message(store: Path) -> None:
    async with AsyncRuntime(store, model="offline", embedder=None) as runtime:
        bob = await runtime.agents.get("bob")
        main = await bob.conversations.get()
        messages = [*await main.summarised(), *await main.messages()]
    [attached] = [one for message in messages for one in message.attachments]
    assert (attached.media_type, attached.width, attached.height) == ("image/png", 4, 4)
    assert ask(where(store), "SELECT data FROM attachments") == [(png(4, 4),)]


@since("0003")
async def test_a_timer_rings_when_it_is_due_and_held_ones_stay_held(store: Path) -> None:
    clock = FakeClock(datetime(2027, 2, 28, tzinfo=UTC))
    async with AsyncRuntime(store, model="offline", clock=clock, embedder=None) as runtime:
        ada, bob = await runtime.agents.get("ada"), await runtime.agents.get("bob")
        [timer] = await ada.schedules()
        assert (timer.text, timer.due) == ("Water the plants.", datetime(2027, 3, 1, 9, tzinfo=UTC))
        assert await bob.resume_heartbeats()
        assert not await ada.resume_heartbeats()
    clock.advance(2 * 86_400)
    async with AsyncRuntime(store, model="offline", clock=clock, embedder=None) as runtime:
        ada = await runtime.agents.get("ada")
        main = await ada.conversations.get()
        for turn in await main.turns(status="open"):
            await turn.wait()
        [timer] = await ada.schedules()
        assert timer.due == datetime(2027, 3, 8, 9, tzinfo=UTC)
        assert any("Water the plants." in message.text for message in await main.messages())


@since("0006")
async def test_a_call_that_waits_for_a_person_is_run_once_it_is_approved(store: Path) -> None:
    sent: list[str] = []

    @tool(approval="always")
    def mail(to: str) -> str:
        """Sends a mail.

        Args:
            to: whom.
        """
        sent.append(to)
        return f"sent to {to}"

    async with AsyncRuntime(
        store,
        model="offline",
        models={"script": ScriptedModel([say("It is sent.")])},
        tools=[mail],
        clock=FakeClock(datetime(2026, 11, 30, tzinfo=UTC)),
        embedder=None,
    ) as runtime:
        [approval] = await runtime.approvals.list()
        assert (approval.tool, approval.arguments) == ("mail", {"to": "Mai"})
        turn = await (await approval.approve(by="Lin")).wait()
        assert (str(turn.reply), sent) == ("It is sent.", ["Mai"])


DIES = """
import os, signal, sys
from pathlib import Path
from sqlalchemy import Engine, event
from pagedaemon.store.database import Database, StorePool

left = [0]


def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)


def count(*arguments):
    left[0] += 1
    if left[0] == 4:
        die()


point = sys.argv[2]
if point == "copied":
    Path.replace = die
elif point == "half way":
    event.listen(Engine, "before_cursor_execute", count)
else:
    event.listen(Engine, "commit", die)
Database.open(Path(sys.argv[1]), space="default", pool=StorePool())
"""


def dies(path: Path, point: str) -> None:
    """Has a process upgrade the store that is killed at that point."""
    child = subprocess.run(
        [sys.executable, "-c", DIES, str(path), point],
        env={**os.environ, "PYTHONPATH": str(SOURCE_ROOT)},
        capture_output=True,
        check=False,
    )
    assert child.returncode == -9, child.stderr


@earlier
async def test_an_upgrade_that_is_interrupted_is_done_by_the_next_to_open_it(
    store: Path,
) -> None:
    path = where(store)
    given = contents(path)
    for point in ("copied", "half way", "before the commit"):
        dies(path, point)
        assert contents(path) == given, point
        assert path.with_name(f"{path.name}.before-{REVISIONS[-1]}").exists() == (point != "copied")
    async with AsyncRuntime(store, model="offline", embedder=None) as runtime:
        assert (await runtime.doctor(mend=False)).sound
        turn = await (await runtime.agents.get("ada")).send("Where do I live?")
        assert "Lisbon" in str(turn.reply)
    assert ask(path, "SELECT version_num FROM alembic_version") == [(REVISIONS[-1],)]
    assert list(path.parent.glob("*.unfinished")) == []
