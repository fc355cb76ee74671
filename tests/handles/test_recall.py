"""Recall as a user holds it: pages, totals, filters, and what a deleted agent answers."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from pagedaemon import AsyncRuntime
from pagedaemon.errors import NotFound
from pagedaemon.handles.recall import AsyncRecall
from pagedaemon.testing import FakeClock


async def test_pages_add_up_to_the_total(runtime: AsyncRuntime, clock: FakeClock) -> None:
    ada = await runtime.agents.create("ada")
    for number in range(7):
        await ada.send(f"harbour {number}")
        clock.advance(60)
    seen: list[str] = []
    page: int | None = 0
    while page is not None:
        found = await ada.recall.search("harbour", roles=["user"], page=page, page_size=3)
        assert (found.total, found.page, found.page_size) == (7, page, 3)
        seen += [hit.text for hit in found.hits]
        page = found.next_page
    assert sorted(seen) == [f"harbour {number}" for number in range(7)]
    beyond = await ada.recall.search("harbour", roles=["user"], page=9)
    assert (beyond.hits, beyond.total, beyond.next_page) == ((), 7, None)


async def test_without_words_the_newest_come_first(runtime: AsyncRuntime, clock: FakeClock) -> None:
    ada = await runtime.agents.create("ada")
    for number in range(3):
        await ada.send(f"{number}", author=f"person {number % 2}")
        clock.advance(3600)
    found = await ada.recall.search(roles=["user"])
    assert [hit.text for hit in found.hits] == ["2", "1", "0"]
    start = clock.now() - timedelta(hours=2, minutes=30)
    end = clock.now() - timedelta(hours=1, minutes=30)
    found = await ada.recall.search(roles=["user"], start=start, end=end)
    assert [hit.text for hit in found.hits] == ["1"]
    for author in ("person 0", " Person 0 "):
        found = await ada.recall.search(author=author)
        assert [hit.text for hit in found.hits] == ["2", "0"]
    assert await ada.recall.count() == 9


async def test_a_reply_is_found_as_it_was_heard(runtime: AsyncRuntime) -> None:
    ada = await runtime.agents.create("ada")
    await ada.send("harbour")
    found = await ada.recall.search("harbour", roles=["assistant"])
    assert [hit.text for hit in found.hits] == ["echo harbour"]
    assert found.hits[0].id == found.hits[0].message.id


async def test_an_agent_finds_nothing_of_another(runtime: AsyncRuntime) -> None:
    ada, bob = [await runtime.agents.create(name) for name in ("ada", "bob")]
    await ada.send("harbour")
    assert (await bob.recall.search("harbour")).total == 0
    main = await ada.conversations.get()
    assert (await bob.recall.search("harbour", conversation_id=main.id)).total == 0


DELETED: dict[str, Callable[[AsyncRecall], Awaitable[object]]] = {
    "search": lambda recall: recall.search("harbour"),
    "count": lambda recall: recall.count(),
    "attachment": lambda recall: recall.attachment("attachment-1"),
    "import_jsonl": lambda recall: recall.import_jsonl([{"role": "user", "content": "hi"}]),
    "import_openai": lambda recall: recall.import_openai("said.json"),
}
"""Each method, with arguments that it takes."""


def test_every_method_stands_in_the_table_of_deleted_agents() -> None:
    methods = {name for name, _ in inspect.getmembers(AsyncRecall, inspect.iscoroutinefunction)}
    assert set(DELETED) == {name for name in methods if not name.startswith("_")}


@pytest.mark.parametrize("method", DELETED)
async def test_of_a_deleted_agent_there_is_nothing_to_ask(
    runtime: AsyncRuntime, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ada = await runtime.agents.create("ada")
    await ada.send("harbour")
    await ada.archive.insert("the harbour is deep")
    await ada.archive.load_text("the harbour is wide", name="sea")
    (tmp_path / "said.json").write_text('[{"role": "user", "content": "hi"}]', encoding="utf-8")
    await ada.delete()
    with pytest.raises(NotFound, match=f"agent {ada.id} was deleted"):
        await DELETED[method](ada.recall)
