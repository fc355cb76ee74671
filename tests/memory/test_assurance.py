"""Where nothing found is likely to answer, a tool says that there is nothing; the API hides nothing
unless it is asked to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pagedaemon import AsyncRuntime
from pagedaemon.errors import InvalidInput
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.testing import FakeEmbedder, ScriptedModel, call, say

SAID = (
    "I live in Porto, two streets from the station.",
    "My sister Vera teaches chemistry.",
    "The lift is out of order again.",
    "I planted artichokes and rhubarb in the garden.",
    "The tram was so full that I had to stand.",
)


async def remember(agent: AsyncAgent) -> None:
    await agent.recall.import_jsonl(
        [{"role": "user", "name": "Lin", "content": text} for text in SAID]
    )
    for text in SAID:
        await agent.archive.insert(f"Lin said: {text}")


@pytest.fixture(params=[None, "local"], ids=["words", "meaning"])
async def lin(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AsyncAgent]:
    async with AsyncRuntime(tmp_path / "m", model="offline", embedder=request.param) as runtime:
        agent = await runtime.agents.ensure("lin")
        await remember(agent)
        await runtime.reindex()
        yield agent


@pytest.mark.parametrize(
    "query", ["What is Lin's blood group?", "Which foundation gave Lin a scholarship?"]
)
async def test_what_nobody_spoke_of_is_not_there(lin: AsyncAgent, query: str) -> None:
    for search in (lin.recall.search, lin.archive.search):
        page = await search(query, sure=True)
        assert (page.hits, page.total) == ((), 0)
        assert (await search(query, sure=True, page=1, page_size=1)).total == 0


async def test_what_was_said_is_there_on_every_page(lin: AsyncAgent) -> None:
    for search in (lin.recall.search, lin.archive.search):
        query = "Which vegetables grow in the garden of Lin?"
        page = await search(query, sure=True)
        assert "artichokes" in page.hits[0].text
        second = await search(query, sure=True, page=1, page_size=1)
        assert second.total == page.total
        assert [hit.id for hit in second.hits] == [hit.id for hit in page.hits[1:2]]


async def test_the_api_hides_nothing_unless_it_is_asked_to(lin: AsyncAgent) -> None:
    query = "blood group Lin"
    assert (await lin.recall.search(query)).total > 0
    assert (await lin.archive.search(query)).total > 0
    assert (await lin.archive.search(None, sure=True)).total == len(SAID)
    with pytest.raises(InvalidInput, match="sure"):
        await lin.archive.search(query, sure="yes")  # type: ignore[arg-type]


async def test_it_holds_for_every_ranking(lin: AsyncAgent) -> None:
    for ranking in ("generative_agents", "blend"):
        for search in (lin.recall.search, lin.archive.search):
            assert (await search("blood group", ranking=ranking, sure=True)).total == 0
            found = await search("artichokes in the garden", ranking=ranking, sure=True)
            assert any("artichokes" in hit.text for hit in found.hits)


async def test_tools_say_that_nothing_is_there(tmp_path: Path) -> None:
    asked = "What is the blood group?"
    script = [
        call("conversation_search", query=asked, heartbeat=True),
        call("archival_memory_search", query=asked, heartbeat=True),
        call("archival_memory_search", query="What grows in the garden?", heartbeat=True),
        say("Done"),
    ]
    models = {"script": ScriptedModel(script)}
    async with AsyncRuntime(
        tmp_path / "m", model="script", models=models, embedder="local"
    ) as runtime:
        agent = await runtime.agents.ensure("ada")
        await remember(agent)
        await runtime.reindex()
        turn = await agent.send("go")
        results = [step.calls[0].result for step in turn.steps[:3]]
        assert results[0].startswith("Nothing found")
        assert results[1].startswith("Nothing found")
        assert "artichokes" in results[2]
        used = [hit.uses for hit in (await agent.archive.search()).hits]
        assert sum(used) > 0


async def test_of_an_embedder_that_nobody_measured_nothing_near_is_hidden(tmp_path: Path) -> None:
    embedder = FakeEmbedder({"automobile": "car"})
    async with AsyncRuntime(tmp_path / "m", model="offline", embedder=embedder) as runtime:
        agent = await runtime.agents.ensure("ada")
        await agent.archive.insert("a red car")
        await runtime.reindex()
        (hit,) = (await agent.archive.search("automobile", sure=True)).hits
        assert hit.text == "a red car"
