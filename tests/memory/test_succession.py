"""What is newer and about the same as the best hit comes before it, and nothing else is moved."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pagedaemon import AsyncRuntime
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.handles.recall import RecallHit

BEGAN = datetime(2022, 3, 1, 9, 0, tzinfo=UTC)


@pytest.fixture(params=[None, "local"], ids=["words", "meaning"])
async def lin(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AsyncAgent]:
    async with AsyncRuntime(tmp_path / "m", model="offline", embedder=request.param) as runtime:
        yield await runtime.agents.ensure("lin")


async def say(agent: AsyncAgent, *said: tuple[str, str]) -> None:
    """Who said what, a month apart."""
    await agent.recall.import_jsonl(
        [
            {
                "role": "user",
                "name": who,
                "content": text,
                "created_at": (BEGAN + timedelta(days=30 * place)).isoformat(),
            }
            for place, (who, text) in enumerate(said)
        ]
    )


async def asked(agent: AsyncAgent, query: str) -> list[RecallHit]:
    return list((await agent.recall.search(query)).hits)


TALK = (
    ("Lin", "The tram was so full that I had to stand."),
    ("Lin", "My brother bakes bread."),
    ("Tom", "The lift is out of order."),
)


async def test_the_newer_of_two_that_say_the_same_comes_first(lin: AsyncAgent) -> None:
    await say(
        lin,
        ("Lin", "I live in Porto, in a street with old trees."),
        *TALK,
        ("Lin", "I live in Leeds."),
    )
    first, second, *_ = await asked(lin, "Where does Lin live?")
    assert "Leeds" in first.text
    assert "Porto" in second.text
    assert first.score == pytest.approx(second.score)
    assert first.parts["newer"] > 0
    assert sum(first.parts.values()) == pytest.approx(first.score)
    assert "newer" not in second.parts


async def test_of_several_changes_the_last_comes_first(lin: AsyncAgent) -> None:
    cities = ("Porto", "Leeds", "Ghent", "Graz")
    await say(lin, *(("Lin", f"My home is in {city}.") for city in cities), *TALK)
    assert "Graz" in (await asked(lin, "Where is Lin's home?"))[0].text


async def test_what_somebody_else_says_of_himself_takes_nothing_back(lin: AsyncAgent) -> None:
    await say(lin, ("Lin", "I live in Porto."), *TALK, ("Tom", "I live in Leeds."))
    first, *_ = await asked(lin, "Where does Lin live?")
    assert "Porto" in first.text
    assert "newer" not in first.parts


async def test_newer_talk_about_something_else_is_not_moved(lin: AsyncAgent) -> None:
    await say(
        lin,
        ("Lin", "I work at the bakery."),
        *TALK,
        ("Lin", "I play chess with my neighbour."),
        ("Lin", "The bakery had the first strawberries of the year."),
    )
    first, *_ = await asked(lin, "Where does Lin work?")
    assert first.text == "I work at the bakery."


async def test_of_records_the_date_counts_that_they_tell_of(lin: AsyncAgent) -> None:
    later, earlier = BEGAN + timedelta(days=400), BEGAN
    await lin.archive.insert("Lin's gate opens with 7750.", happened_at=later)
    await lin.archive.insert("Lin's gate opens with 9026.", happened_at=earlier)
    await lin.archive.insert("Tom's gate opens with 1385.", happened_at=later + timedelta(days=9))
    await lin.archive.insert("Lin's brother bakes bread.")
    first, second, *_ = (await lin.archive.search("How does Lin's gate open?")).hits
    assert "7750" in first.text
    assert "9026" in second.text


@pytest.mark.parametrize("lin", ["local"], indirect=True)
async def test_by_meaning_it_needs_no_word_in_common(lin: AsyncAgent) -> None:
    await say(
        lin,
        ("Lin", "My phone number is 0160 555 338."),
        *TALK,
        ("Lin", "You can call me at 0177 555 890 when you are at the door."),
    )
    first, second, *_ = await asked(lin, "What is the phone number of Lin?")
    assert "0177" in first.text
    assert "0160" in second.text


async def test_pages_follow_one_order(lin: AsyncAgent) -> None:
    cities = ("Porto", "Leeds", "Ghent", "Graz", "Lyon")
    await say(lin, *(("Lin", f"My home is in {city}.") for city in cities))
    whole = await lin.recall.search("home of Lin", page_size=5)
    paged = [
        hit.id
        for page in range(5)
        for hit in (await lin.recall.search("home of Lin", page=page, page_size=1)).hits
    ]
    assert paged == [hit.id for hit in whole.hits]


@pytest.mark.parametrize(
    "query", ["Order 1020", '"Order 1020"', "When was order 1020 paid?", "order 1020 paid"]
)
async def test_a_number_that_is_asked_for_comes_first_among_its_like(
    lin: AsyncAgent, query: str
) -> None:
    await lin.archive.insert_many([f"Order {1000 + n} was paid by c{n:03d}." for n in range(60)])
    await say(lin, *(("Lin", f"Order {1000 + n} was paid by c{n:03d}.") for n in range(60)))
    for search in (lin.archive.search, lin.recall.search):
        assert "Order 1020 " in (await search(query)).hits[0].text


@pytest.mark.parametrize("later", ["I live in Leeds", "I live in Leeds now"])
async def test_of_two_memories_that_are_all_there_are_the_newer_comes_first(
    lin: AsyncAgent, later: str
) -> None:
    await say(lin, ("Lin", "I live in Porto"), ("Lin", later))
    assert [hit.text for hit in await asked(lin, "Where does Lin live?")] == [
        later,
        "I live in Porto",
    ]
    past = await asked(lin, "Where did Lin live on 1 March 2022?")
    assert past[0].text == "I live in Porto"
