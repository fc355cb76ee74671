"""What may be asked of a page, of recall as of the archive."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pagedaemon import AsyncRuntime
from pagedaemon.errors import InvalidInput


@pytest.mark.parametrize(
    "asked",
    [
        {"page": -1},
        {"page_size": 0},
        {"page": 10**18, "page_size": 10},
        {"start": datetime(2026, 1, 1)},  # noqa: DTZ001
    ],
)
async def test_what_cannot_be_asked_is_said(runtime: AsyncRuntime, asked: dict[str, Any]) -> None:
    ada = await runtime.agents.create("ada")
    with pytest.raises(InvalidInput):
        await ada.recall.search("x", **asked)
    with pytest.raises(InvalidInput):
        await ada.archive.search("x", **asked)


async def test_one_text_where_a_list_is_meant_is_refused_and_not_read_by_letters(
    tmp_path: Path,
) -> None:
    async with AsyncRuntime(tmp_path, model="offline") as runtime:
        agent = await runtime.agents.ensure("ada")
        with pytest.raises(InvalidInput, match="tags is a list"):
            await agent.archive.insert("a fact", tags="home")
        with pytest.raises(InvalidInput, match="tags is a list"):
            await agent.archive.search("fact", tags="home")
        with pytest.raises(InvalidInput, match="kinds are among"):
            await agent.archive.search("fact", kinds=["weird"])
        with pytest.raises(InvalidInput, match="roles are among"):
            await agent.recall.search("fact", roles=["human"])  # type: ignore[list-item]
        assert await agent.archive.count() == 0


@pytest.mark.parametrize(
    "asked",
    [
        {"query": 5},
        {"query": ["x"]},
        {"page": "1"},
        {"page": 1.0},
        {"page": True},
        {"page_size": None},
        {"page_size": 10**13},
        {"start": "2026-01-01"},
        {"end": 5},
    ],
)
async def test_a_search_with_a_value_of_another_type_is_refused(
    runtime: AsyncRuntime, asked: dict[str, Any]
) -> None:
    ada = await runtime.agents.create("ada")
    for search in (ada.recall.search, ada.archive.search):
        with pytest.raises(InvalidInput):
            await search(**asked)


async def test_filters_of_another_type_are_refused(runtime: AsyncRuntime) -> None:
    ada = await runtime.agents.create("ada")
    wrong: Any
    for wrong in (5, None, [5], [["x"]]):
        with pytest.raises(InvalidInput, match="tags is a list of text"):
            await ada.archive.search("x", tags=wrong)
        with pytest.raises(InvalidInput, match="roles is a list of text"):
            await ada.recall.search("x", roles=wrong)
    wrong = 5
    with pytest.raises(InvalidInput, match="author"):
        await ada.recall.search("x", author=wrong)
    with pytest.raises(InvalidInput, match="conversation_id"):
        await ada.recall.search("x", conversation_id=wrong)


async def test_blank_words_are_no_words(runtime: AsyncRuntime) -> None:
    ada = await runtime.agents.create("ada")
    await ada.send("harbour")
    await ada.archive.insert("the harbour is deep")
    for blank in ("", " \n"):
        assert (await ada.recall.search(blank)).total == (await ada.recall.search()).total > 0
        assert (await ada.archive.search(blank)).total == 1
        assert (await ada.archive.search("...")).total == 0
