"""History from elsewhere as a user brings it in: kept with its dates, found, and never doubled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pagedaemon import AsyncRuntime
from pagedaemon.errors import InvalidInput, NotFound
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.memory.history import Imported
from pagedaemon.testing import FakeClock, ScriptedModel, call, say

MAY = datetime(2024, 5, 1, 9, tzinfo=UTC)


class Stop(Exception):
    """Raised in the middle of an import."""


def jsonl(count: int, first: int = 0) -> list[str]:
    """Lines of a talk, a minute apart."""
    return [
        json.dumps(
            {
                "role": "user" if n % 2 == 0 else "assistant",
                "content": f"harbour number {n}",
                "created_at": (MAY + timedelta(minutes=n)).isoformat(),
                "author": "Lin" if n % 2 == 0 else None,
            }
        )
        for n in range(first, first + count)
    ]


@pytest.fixture
async def ada(runtime: AsyncRuntime) -> AsyncAgent:
    """An agent."""
    return await runtime.agents.create("ada")


async def everything(agent: AsyncAgent, name: str = "imported") -> list[str]:
    """What stands in a conversation, oldest first."""
    conversation = await agent.conversations.get(name)
    found = await agent.recall.search(conversation_id=conversation.id, page_size=10_000)
    hits = sorted(found.hits, key=lambda hit: hit.message.seq)
    assert [hit.message.seq for hit in hits] == list(range(1, len(hits) + 1))
    return [hit.text for hit in hits]


async def test_lines_are_found_by_words_author_and_their_own_dates(ada: AsyncAgent) -> None:
    done = await ada.recall.import_jsonl(jsonl(4))
    assert done == Imported(messages=4, already=0, skipped=0, conversations=("imported",))
    assert await ada.recall.count() == 4
    [hit] = (await ada.recall.search('"harbour number 2"')).hits
    assert (hit.message.created_at, hit.message.author) == (MAY + timedelta(minutes=2), "Lin")
    assert (hit.message.role, hit.message.label) == ("user", "user")
    assert hit.message.data["imported"] == {"source": "lines"}
    assert (await ada.recall.search("harbour", author="Lin")).total == 2
    found = await ada.recall.search(start=MAY + timedelta(minutes=3))
    assert [(one.text, one.message.label) for one in found.hits] == [("harbour number 3", "agent")]


async def test_a_file_and_objects_are_lines_too(ada: AsyncAgent, tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_text("\n".join(jsonl(3)) + "\n", encoding="utf-8")
    assert (await ada.recall.import_jsonl(path)).messages == 3
    assert (await ada.recall.import_jsonl(str(path))).already == 3
    records = [json.loads(line) for line in jsonl(4)]
    assert (await ada.recall.import_jsonl(records)).messages == 1
    with path.open(encoding="utf-8") as open_file:
        assert (await ada.recall.import_jsonl(open_file)).messages == 0


async def test_importing_twice_adds_nothing_and_a_grown_file_only_what_is_new(
    ada: AsyncAgent,
) -> None:
    await ada.recall.import_jsonl(jsonl(5))
    again = await ada.recall.import_jsonl(jsonl(5))
    assert (again.messages, again.already) == (0, 5)
    grown = await ada.recall.import_jsonl(jsonl(8))
    assert (grown.messages, grown.already) == (3, 5)
    assert await everything(ada) == [f"harbour number {n}" for n in range(8)]
    assert await ada.recall.count() == 8


async def test_messages_are_numbered_by_time_whatever_their_order_in_the_file(
    ada: AsyncAgent,
) -> None:
    await ada.recall.import_jsonl(reversed(jsonl(600)))
    assert await everything(ada) == [f"harbour number {n}" for n in range(600)]


async def test_an_import_that_is_cut_off_is_finished_by_another(ada: AsyncAgent) -> None:
    def progress(done: int, total: int | None, what: str) -> None:
        assert (total, what) == (1_200, "imported")
        if done == 1_000:
            raise Stop

    with pytest.raises(Stop):
        await ada.recall.import_jsonl(jsonl(1_200), progress=progress)
    assert await ada.recall.count() == 1_000
    done = await ada.recall.import_jsonl(jsonl(1_200))
    assert (done.messages, done.already) == (200, 1_000)
    assert await everything(ada) == [f"harbour number {n}" for n in range(1_200)]
    assert await ada.recall.count() == 1_200


async def test_a_bad_line_stores_nothing_and_may_be_skipped(ada: AsyncAgent) -> None:
    lines = [*jsonl(3), "no json", *jsonl(3, first=3)]
    with pytest.raises(InvalidInput, match="line 4"):
        await ada.recall.import_jsonl(lines)
    assert await ada.recall.count() == 0
    assert [one.name for one in await ada.conversations.list()] == ["main"]
    done = await ada.recall.import_jsonl(lines, on_error="skip")
    assert (done.messages, done.skipped) == (6, 1)


async def test_an_empty_history_makes_no_conversation(ada: AsyncAgent) -> None:
    assert await ada.recall.import_jsonl([]) == Imported(0, 0, 0, ())
    assert [one.name for one in await ada.conversations.list()] == ["main"]


async def test_the_conversation_goes_on_after_its_history_which_stays_out_of_the_window(
    ada: AsyncAgent, clock: FakeClock
) -> None:
    await ada.recall.import_jsonl(jsonl(4), conversation="sea")
    sea = await ada.conversations.get("sea")
    assert await sea.messages() == []
    turn = await sea.send("and now?")
    assert turn.reply == "echo and now?"
    assert [message.seq for message in await sea.messages()] == [5, 6, 7]
    assert await ada.recall.count() == 7
    again = await ada.recall.import_jsonl(jsonl(4), conversation="sea")
    assert again.already == 4
    with pytest.raises(InvalidInput, match="turns of its own"):
        await ada.recall.import_jsonl(jsonl(5), conversation="sea")
    assert await ada.recall.count() == 7


async def test_history_goes_with_its_conversation_and_its_agent(
    runtime: AsyncRuntime, ada: AsyncAgent
) -> None:
    bob = await runtime.agents.create("bob")
    for agent in (ada, bob):
        await agent.recall.import_jsonl(jsonl(4))
    assert await (await ada.conversations.get("imported")).delete() == 4
    assert (await ada.recall.search("harbour")).total == 0
    assert await ada.recall.count() == 0
    assert (await bob.recall.search("harbour")).total == 4
    await ada.delete()
    with pytest.raises(NotFound):
        await ada.recall.import_jsonl(jsonl(4))


async def test_the_agent_finds_it_by_words_and_by_date(tmp_path: Path) -> None:
    model = ScriptedModel(
        [
            call("conversation_search", query="harbour number 1", heartbeat=True),
            call(
                "conversation_search_date",
                start_date="2024-05-01",
                end_date="2024-05-01",
                heartbeat=True,
            ),
            say("In May 2024."),
        ]
    )
    async with AsyncRuntime(tmp_path, model="script", models={"script": model}) as runtime:
        agent = await runtime.agents.create("ada", timezone="Asia/Tokyo")
        await agent.recall.import_jsonl(
            [*jsonl(2), '{"role": "tool", "content": "high tide", "time": "2024-05-01 18:30"}']
        )
        turn = await agent.send("When?")
    words, dates = [made.result for step in turn.steps[:2] for made in step.calls]
    assert "Wednesday 2024-05-01 18:01" in words
    assert "times in Asia/Tokyo" in words
    assert "harbour number 1" in words
    assert "1 to 3 of 3" in dates
    assert "Wednesday 2024-05-01 18:30" in dates
    assert [text for text in ("Lin", "assistant") if text in dates] == ["Lin", "assistant"]


async def test_each_chat_of_an_export_is_a_conversation_of_its_own(
    ada: AsyncAgent, tmp_path: Path
) -> None:
    def chat(key: str, title: str, text: str) -> dict[str, Any]:
        message = {
            "id": "same",
            "author": {"role": "user"},
            "create_time": MAY.timestamp(),
            "content": {"content_type": "text", "parts": [text]},
        }
        node: dict[str, Any] = {"id": "n", "parent": None, "children": [], "message": message}
        return {"id": key, "title": title, "current_node": "n", "mapping": {"n": node}}

    path = tmp_path / "conversations.json"
    chats = [chat("aaaaaaaaaa", "Sea", "harbour"), chat("bbbbbbbbbb", "Sea", "tides")]
    path.write_text(json.dumps(chats), encoding="utf-8")
    done = await ada.recall.import_openai(path)
    assert done == Imported(2, 0, 0, ("Sea (aaaaaaaa)", "Sea (bbbbbbbb)"))
    assert await everything(ada, "Sea (bbbbbbbb)") == ["tides"]
    assert (await ada.recall.import_openai(path)).already == 2
    # Its ids tell a chat also under another name.
    path.write_text(json.dumps([*chats, chat("c", "New", "gulls")]), encoding="utf-8")
    done = await ada.recall.import_openai(path, conversation="all of it")
    assert (done.messages, done.already) == (1, 2)
    assert await everything(ada, "all of it") == ["gulls"]


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("a\nb", {}),
        (5, {}),
        (b"raw", {}),
        ({"role": "user", "content": "x"}, {}),
        ([], {"conversation": ""}),
        ([], {"conversation": 5}),
        ([], {"on_error": "ignore"}),
        ([], {"progress": "bar"}),
    ],
)
async def test_what_cannot_be_asked_is_said(
    ada: AsyncAgent, source: Any, changes: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        await ada.recall.import_jsonl(source, **changes)


async def test_a_missing_file_is_said_and_how_to_give_what_is_at_hand(ada: AsyncAgent) -> None:
    with pytest.raises(NotFound, match="give a list"):
        await ada.recall.import_jsonl("nowhere.jsonl")
    with pytest.raises(NotFound, match="import_jsonl"):
        await ada.recall.import_openai("nowhere.json")


async def test_the_lines_are_read_once_and_may_come_from_a_generator(ada: AsyncAgent) -> None:
    def talk() -> Iterable[str]:
        yield from jsonl(3)

    assert (await ada.recall.import_jsonl(talk())).messages == 3


@pytest.mark.parametrize("text", ["[]", '[{"role": "user"}]', '[\n  {"role": "user"}\n]'])
async def test_a_json_list_given_as_lines_is_told_where_it_belongs(
    ada: AsyncAgent, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "conversations.json"
    await asyncio.to_thread(path.write_text, text, encoding="utf-8")
    with pytest.raises(InvalidInput, match="import_openai"):
        await ada.recall.import_jsonl(path)
