"""Where nothing found is likely to answer, a tool says that there is nothing; the API hides nothing
unless it is asked to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pagedaemon import AsyncRuntime
from pagedaemon.errors import EmbeddingError, InvalidInput
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.llm.embedding.minilm import MiniLM
from pagedaemon.llm.embedding.protocol import Worded
from pagedaemon.testing import FakeClock, FakeEmbedder, ScriptedModel, both, call, say

SAID = (
    "I live in Porto, two streets from the station.",
    "My sister Vera teaches chemistry.",
    "The lift is out of order again.",
    "I planted artichokes and rhubarb in the garden.",
    "The tram was so full that I had to stand.",
)

ROOMS = range(100, 125)


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
        assert (await search(query, sure=True, page=99)).total == 0, "as on every page"


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


NOTES = (
    "User drives a blue Skoda Fabia.",
    "User has two cats, Minou and Felix.",
    "User watched a film about whales.",
    "User bought new shoes.",
    "User's boyfriend is called Rui.",
    "User gets up at nine every day.",
    "User's mother lives in Faro.",
    "User eats a steak every Friday.",
)


@pytest.fixture
async def noted(tmp_path: Path) -> AsyncIterator[AsyncAgent]:
    async with AsyncRuntime(tmp_path / "m", model="offline", embedder="local") as runtime:
        agent = await runtime.agents.ensure("ada")
        await agent.archive.insert_many(NOTES)
        await runtime.reindex()
        yield agent


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("Which vehicle does the user own?", "Skoda"),
        ("Which movie did the user see?", "whales"),
        ("footwear", "shoes"),
        ("user's partner", "Rui"),
        ("When does the user wake up?", "nine"),
        ("pet names", "Minou"),
    ],
)
async def test_what_is_said_in_other_words_is_there(
    noted: AsyncAgent, query: str, answer: str
) -> None:
    assert answer in (await noted.archive.search(query, sure=True)).hits[0].text


async def test_a_name_that_no_note_has_does_not_hide_what_they_say(noted: AsyncAgent) -> None:
    for query in ("What does Lin eat on Fridays?", "Where does Lin's mother live?"):
        assert (await noted.archive.search(query, sure=True)).hits
    assert not (await noted.archive.search("What is Lin's blood group?", sure=True)).hits


async def test_a_name_that_many_notes_have_shows_none_of_them(tmp_path: Path) -> None:
    for embedder in (None, "local"):
        async with AsyncRuntime(tmp_path / f"{embedder}", model="offline", embedder=embedder) as it:
            agent = await it.agents.ensure("priya")
            await agent.archive.insert_many([f"Priya said: {text}" for text in (*SAID, *NOTES)])
            await agent.archive.insert_many([f"Room {room} is cold." for room in ROOMS])
            await agent.archive.insert("Priya said: I got 1,150 from the insurance.")
            await it.reindex()
            assert not (await agent.archive.search("How much does Priya owe?", sure=True)).hits
            found = await agent.archive.search("What does Priya's sister teach?", sure=True)
            assert "Vera" in found.hits[0].text


async def test_what_stands_beside_a_message_counts_as_read(tmp_path: Path) -> None:
    async with AsyncRuntime(tmp_path / "m", model="offline", embedder="local") as runtime:
        agent = await runtime.agents.ensure("ada")
        talk = [
            "Which instrument do you play, Lin?",
            "Twelve strings, and all of them out of tune.",
        ]
        lines = [{"role": "user", "name": "Lin", "content": text} for text in (*talk, *SAID)]
        await agent.recall.import_jsonl(lines)
        await runtime.reindex()
        page = await agent.recall.search("Which musical instrument was it?", sure=True)
        assert any("Twelve strings" in hit.text for hit in page.hits)


class Speechless(MiniLM):
    """Cannot read closely just now."""

    async def words(self, texts: Sequence[str]) -> list[Worded]:
        raise EmbeddingError("out of memory", kind="unavailable")


class Counting(MiniLM):
    """Counts the texts that it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0

    async def words(self, texts: Sequence[str]) -> list[Worded]:
        self.read += len(texts)
        return await super().words(texts)


@pytest.mark.parametrize(
    ("query", "read"),
    [("Is the elevator out of order?", False), ("What happened to the elevator?", True)],
)
async def test_what_is_sure_by_words_and_cosine_is_not_read(
    tmp_path: Path, query: str, read: bool
) -> None:
    embedder = Counting()
    async with AsyncRuntime(tmp_path / "m", model="offline", embedder=embedder) as runtime:
        agent = await runtime.agents.ensure("ada")
        await remember(agent)
        await runtime.reindex()
        page = await agent.archive.search(query, sure=True)
        assert any("lift" in hit.text for hit in page.hits)
        assert (embedder.read > 0) == read


async def test_where_nothing_can_be_read_closely_cosines_decide(tmp_path: Path) -> None:
    async with AsyncRuntime(tmp_path / "m", model="offline", embedder=Speechless()) as runtime:
        agent = await runtime.agents.ensure("ada")
        await remember(agent)
        await runtime.reindex()
        assert (await agent.archive.search("Which vegetables grow in the garden?", sure=True)).hits
        assert not (await agent.archive.search("What is the blood group?", sure=True)).hits


async def test_what_is_longer_than_is_read_is_judged_by_its_words_and_its_cosine(
    noted: AsyncAgent,
) -> None:
    await noted.archive.insert("The blood group of the user is B. " + "Nothing else of note. " * 60)
    await noted.archive.insert("Blood. " + "It rained on the way to the station. " * 30)
    hits = (await noted.archive.search("What is the user's blood group?", sure=True)).hits
    assert any("group of the user is B" in hit.text for hit in hits)


async def test_what_a_step_stores_its_own_search_finds(tmp_path: Path) -> None:
    models = {
        "script": ScriptedModel(
            [
                both(
                    call("archival_memory_insert", content="The user's blood group is AB."),
                    call(
                        "archival_memory_search",
                        query="Which blood type has the user?",
                        heartbeat=True,
                    ),
                ),
                say("Done"),
            ]
        )
    }
    async with AsyncRuntime(
        tmp_path / "m", model="script", models=models, embedder="local"
    ) as runtime:
        agent = await runtime.agents.ensure("ada")
        await agent.archive.insert_many(NOTES)
        await runtime.reindex()
        (step, _) = (await agent.send("go")).steps
        assert "blood group is AB" in step.calls[1].result


async def test_what_is_hidden_changes_no_order(tmp_path: Path) -> None:
    """Cosines are scaled by all candidates, be they shown or not."""
    clock = FakeClock(datetime(2023, 2, 1, tzinfo=UTC))
    async with AsyncRuntime(
        tmp_path / "m", model="offline", embedder="local", clock=clock
    ) as runtime:
        agent = await runtime.agents.ensure("ada")
        then = ["I drive a red Fiat Panda.", "Our landlord is Mr. Pym.", *NOTES]
        await agent.archive.insert_many(then)
        clock.advance(800 * 86400)
        now = ["I drive an electric Renault Zoe.", "Our landlord is Mrs. Oduya."]
        await agent.archive.insert_many(now)
        await runtime.reindex()
        for query, current in zip(
            ("What car do I drive?", "Who is our landlord?"), now, strict=True
        ):
            every = [hit.id for hit in (await agent.archive.search(query)).hits]
            sure = (await agent.archive.search(query, sure=True)).hits
            assert sure[0].text == current
            assert [one for one in every if one in {hit.id for hit in sure}] == [
                hit.id for hit in sure
            ]


@pytest.mark.parametrize("embedder", [None, "local"])
async def test_an_id_that_stands_nowhere_is_not_answered_by_its_neighbour(
    tmp_path: Path, embedder: str | None
) -> None:
    async with AsyncRuntime(tmp_path / "m", model="offline", embedder=embedder) as runtime:
        agent = await runtime.agents.ensure("ada")
        await agent.archive.insert_many(
            [
                "Order RX-20418 is delayed.",
                "Set PROD_WEST before the deploy.",
                "The customer number of Meyer is 88123.",
                "Call Dr. Hansen at 555-0141.",
                'She said "never again" and left.',
                "In 2024 we moved to Leeds.",
            ]
        )
        await runtime.reindex()
        for query in ("RX-20419", "PROD_EAST", "Who is customer 88124?", '"again never"'):
            assert not (await agent.archive.search(query, sure=True)).hits, query
        for query, found in (
            ("Is RX20418 delayed?", "RX-20418"),
            ("PROD_WEST", "PROD_WEST"),
            ("Who is customer 88123?", "Meyer"),
            ("telephone of Hansen: 555 0141", "555-0141"),
            ('"never again"', "never again"),
            ("Where did we move in 2024?", "Leeds"),
        ):
            hits = (await agent.archive.search(query, sure=True)).hits
            assert hits, query
            assert found in hits[0].text


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("The card is 4111111111111111.", "4111 1111 1111 1111"),
        ("The card is 4111 1111 1111 1111.", "4111111111111111"),
        ("The rent is 1299 EUR.", "1,299.00"),
        ("IBAN DE44500105175407324931", "DE44 5001 0517 5407 3249 31"),
    ],
)
async def test_a_number_in_other_groups_is_an_answer(
    tmp_path: Path, stored: str, asked: str
) -> None:
    async with AsyncRuntime(tmp_path / "m", model="offline", embedder=None) as runtime:
        agent = await runtime.agents.ensure("ada")
        await agent.archive.insert_many([stored, "We had tea."])
        hits = (await agent.archive.search(asked, sure=True)).hits
        assert [hit.text for hit in hits] == [stored]
