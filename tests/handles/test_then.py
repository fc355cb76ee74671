"""What was said at a time that a query names is found: all of it, and no other year's in its
place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pagedaemon import AsyncRuntime, Record
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.handles.recall import RecallHit
from pagedaemon.testing import FakeClock

FIRST = datetime(2024, 1, 1, 12, tzinfo=UTC)
DAYS = 500
SAID = {
    "2024-02-10T15:00:00Z": "We bought a piano for the hall.",
    "2024-03-10T15:00:00Z": "The key of room 1 is with the janitor.",
    "2025-02-10T15:00:00Z": "We bought a piano for the school.",
    "2025-04-10T15:00:00Z": "The key of room 2024 is lost.",
}


@pytest.fixture
async def log(runtime: AsyncRuntime) -> AsyncAgent:
    """An agent that was told something each day for more than a year."""
    lines = {
        (FIRST + timedelta(days=n)).isoformat(): f"log entry {n} of the ship" for n in range(DAYS)
    }
    agent = await runtime.agents.create("ada")
    await agent.recall.import_jsonl(
        {"role": "user", "author": "Lin", "content": text, "created_at": at}
        for at, text in sorted((lines | SAID).items())
    )
    return agent


async def pages(agent: AsyncAgent, query: str) -> list[RecallHit]:
    """All hits, read in pages; each page tells as many in all as there are."""
    hits: list[RecallHit] = []
    while True:
        page = await agent.recall.search(query, page=len(hits) // 60, page_size=60)
        hits += page.hits
        if len(page.hits) < 60:
            assert page.total == len(hits)
            return hits


@pytest.mark.parametrize(
    ("query", "begin", "end"),
    [
        ("in 2024", "2024-01-01", "2025-01-01"),
        ("before 2025", "2023-01-01", "2025-01-01"),
        ("since May 2024", "2024-05-01", "2026-01-01"),
        ("between March and September 2024", "2024-03-01", "2024-10-01"),
        ("in February 2024", "2024-02-01", "2024-03-01"),
    ],
)
async def test_all_that_was_said_then_is_on_some_page_once(
    log: AsyncAgent, query: str, begin: str, end: str
) -> None:
    start, stop = (datetime.fromisoformat(one).replace(tzinfo=UTC) for one in (begin, end))
    then = await log.recall.search(start=start, end=stop, page_size=1_000)
    ids = [hit.id for hit in await pages(log, query)]
    assert len(ids) == len(set(ids))
    # Beside it what has the words: a room of that number.
    assert {hit.id for hit in then.hits} <= set(ids)
    assert len(ids) - then.total <= 1


async def test_words_and_a_time_find_what_has_both_first(log: AsyncAgent) -> None:
    then = await log.recall.search(start=FIRST, end=FIRST.replace(year=2025), page_size=1_000)
    hits = await pages(log, "entry 70 of the ship in 2024")
    assert hits[0].text == "log entry 70 of the ship"
    assert len({hit.id for hit in hits}) == len(hits)
    assert {hit.id for hit in then.hits} <= {hit.id for hit in hits}


@pytest.mark.parametrize(
    "query",
    [
        "Which piano did we buy in February 2024?",
        "piano 2024",
        "the piano before 2025",
        "the piano of early 2024",
    ],
)
async def test_what_was_said_in_another_year_does_not_match_by_its_date(
    log: AsyncAgent, query: str
) -> None:
    first, second = (await log.recall.search(query)).hits[:2]
    assert (first.text, second.text) == (SAID["2024-02-10T15:00:00Z"], SAID["2025-02-10T15:00:00Z"])
    assert first.parts["day"] > 0
    assert "day" not in second.parts


async def test_a_number_may_be_no_year(log: AsyncAgent) -> None:
    found = await log.recall.search("key of room 2024")
    assert found.hits[0].text == SAID["2025-04-10T15:00:00Z"]
    assert found.total == 2, "what was said in 2024 is not asked for"


async def test_what_a_time_without_end_finds_may_be_succeeded(log: AsyncAgent) -> None:
    found = await log.recall.search("piano since January 2024")
    assert found.hits[0].text == SAID["2025-02-10T15:00:00Z"]


async def test_where_nothing_was_said_then_the_words_count_alone(log: AsyncAgent) -> None:
    found = await log.recall.search("piano in July 2031")
    assert {hit.text for hit in found.hits} == {one for one in SAID.values() if "piano" in one}


NOTES = {
    "2025-05-01": "Our cat Biscuit threw up on the rug.",
    "2025-05-03": "I start at the bakery on the 3rd of June, early shift.",
    "2025-05-05": "Our anniversary is on the 21st of October.",
    "2025-05-07": "I have 8 cats and 3 dogs.",
    "2025-05-21": "The lake was cold.",
}


@pytest.fixture
async def notes(runtime: AsyncRuntime) -> AsyncAgent:
    """An agent that was told something on each of a few days."""
    agent = await runtime.agents.create("lin")
    await agent.recall.import_jsonl(
        {"role": "user", "content": text, "created_at": f"{day}T09:00:00Z"}
        for day, text in NOTES.items()
    )
    return agent


@pytest.mark.parametrize("sure", [False, True], ids=["plain", "sure"])
@pytest.mark.parametrize(
    "query",
    [
        "on 21 May 2025",
        "2025-05-21",
        "What did we do on 21 May 2025?",
        "Which cat had an anniversary on 21 May 2025, at the bakery?",
    ],
)
async def test_what_was_said_on_the_day_asked_for_comes_first(
    notes: AsyncAgent, query: str, sure: bool
) -> None:
    first, *others = (await notes.recall.search(query, sure=sure)).hits
    assert first.text == NOTES["2025-05-21"]
    assert sum(first.parts.values()) == pytest.approx(first.score)
    assert all("day" not in hit.parts and hit.score < first.score for hit in others)


@pytest.mark.parametrize(
    "query",
    [
        "on May 8, 2025",
        "2025-05-08",
        "What did we do on 8 May 2025?",
        "What did I tell you on 8 May 2025?",
        "What did we talk about in early June 2025?",
        "What happened in 2023?",
    ],
)
async def test_a_time_at_which_nothing_was_said_is_answered_by_no_other(
    notes: AsyncAgent, query: str
) -> None:
    assert (await notes.recall.search(query, sure=True)).hits == ()
    assert all("day" not in hit.parts for hit in (await notes.recall.search(query)).hits)


async def test_what_is_asked_beside_such_a_time_is_judged_by_itself(notes: AsyncAgent) -> None:
    (hit, *_) = (await notes.recall.search("Biscuit's rug on 8 May 2025", sure=True)).hits
    assert hit.text == NOTES["2025-05-01"]
    assert not (await notes.recall.search("The dentist on 8 May 2025", sure=True)).hits


KEPT = {
    "The rent is 850 a month.": "2021-03-01",
    "The rent is 900 a month.": "2022-11-05",
    "The hall has a new lamp.": "2023-02-01",
    "Karl is my flatmate.": "2023-02-01",
    "The rent is 980 a month.": "2025-05-11",
    "Priya is my flatmate.": "2025-05-11",
}


@pytest.fixture(params=["told", "kept"])
async def records(
    request: pytest.FixtureRequest, runtime: AsyncRuntime, clock: FakeClock
) -> AsyncAgent:
    """An agent whose records tell of those days, or were kept on them."""
    agent = await runtime.agents.create("lin")
    for text, day in KEPT.items():
        at = datetime.fromisoformat(f"{day}T09:00:00+00:00")
        if request.param == "kept":
            clock.jump((at - clock.now()).total_seconds())
            await agent.archive.insert(text)
        else:
            clock.advance(1)
            await agent.archive.insert(text, happened_at=at)
    return agent


@pytest.mark.parametrize("sure", [False, True], ids=["plain", "sure"])
@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("How much is the rent?", "980"),
        ("How much was the rent in February 2023?", "900"),
        ("How much was the rent on 2023-02-01?", "900"),
        ("How much was the rent in November 2022?", "900"),
        ("How much was the rent before 2022?", "850"),
        ("How much was the rent in May 2025?", "980"),
        ("Who was my flatmate in February 2023?", "Karl"),
        ("Who was my flatmate on 2024-08-01?", "Karl"),
    ],
)
async def test_of_records_that_comes_first_which_was_so_then(
    records: AsyncAgent, query: str, first: str, sure: bool
) -> None:
    hit, *others = (await records.archive.search(query, sure=sure)).hits
    assert first in hit.text
    assert sum(hit.parts.values()) == pytest.approx(hit.score)
    assert all(other.score <= hit.score for other in others)


async def test_a_record_says_that_it_is_of_the_time_or_was_put_before_a_newer_one(
    records: AsyncAgent,
) -> None:
    (hit, *_) = (await records.archive.search("my flatmate in February 2023")).hits
    assert hit.parts["day"] > 0
    hit, newer, *_ = (await records.archive.search("my flatmate on 2024-08-01")).hits
    assert ("Karl" in hit.text, "Priya" in newer.text) == (True, True)
    assert set(hit.parts) == {"keywords", "older"}
    assert set(newer.parts) == {"keywords"}


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("2023-02-01", 2),
        ("What did I note on 2023-02-01?", 2),
        ("What happened in 2022?", 1),
        ("What did I note on 2023-02-02?", 0),
    ],
)
async def test_all_records_of_a_time_are_found_without_their_words(
    records: AsyncAgent, query: str, kept: int
) -> None:
    page = await records.archive.search(query, sure=True)
    assert page.total == len(page.hits) == kept
    assert all("day" in hit.parts for hit in page.hits)


async def test_pages_of_the_records_of_a_time_have_each_once(runtime: AsyncRuntime) -> None:
    agent = await runtime.agents.create("lin")
    at = datetime(2024, 6, 1, tzinfo=UTC)
    for n in range(130):
        text = f"lamp {n}" if n % 3 else f"log {n}"
        await agent.archive.insert(text, happened_at=at + timedelta(hours=n))
    pages = [
        await agent.archive.search("a lamp in June 2024", page=page, page_size=40)
        for page in range(4)
    ]
    ids = [hit.id for page in pages for hit in page.hits]
    assert len(ids) == len(set(ids)) == 130
    assert {page.total for page in pages} == {130}


EARLY = ("Adopted a cat", "Gran turned ninety", "Sold the van", "Moved to Leeds")
LATE = (
    *("Checked the brakes before the drive", "Ate before the concert", "Read a lot before bed"),
    *("Paid 4 invoices between flights", "Locked up before leaving", "Slept until noon"),
)


@pytest.mark.parametrize("sure", [False, True])
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("before 2024", EARLY),
        ("What happened before 2024?", EARLY),
        ("until 2023", EARLY),
        ("What did we talk about between March 2022 and April 2023?", EARLY),
        ("before 2019", ()),
    ],
)
async def test_a_time_alone_puts_what_was_then_first_whatever_words_name_it(
    runtime: AsyncRuntime, query: str, found: tuple[str, ...], sure: bool
) -> None:
    agent = await runtime.agents.create("ada")
    said = {text: datetime(2022, 6, 1 + n, tzinfo=UTC) for n, text in enumerate(EARLY)}
    said |= {text: datetime(2025, 6, 1 + n, tzinfo=UTC) for n, text in enumerate(LATE)}
    await agent.archive.insert_many(Record(text, happened_at=at) for text, at in said.items())
    await agent.recall.import_jsonl(
        {"role": "user", "content": text, "created_at": at.isoformat()} for text, at in said.items()
    )
    for search in (agent.archive.search, agent.recall.search):
        texts = [hit.text for hit in (await search(query, sure=sure)).hits]
        assert set(texts[: len(found)]) == set(found)
        assert found or not sure or not texts, "nothing was then, and no other time answers"
