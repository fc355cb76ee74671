"""Exact things are found first: names, ids, code, dates, numbers, any script, one slip, phrases."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from pagedaemon import AsyncRuntime
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.testing import FakeClock, ScriptedModel, call, say, view

SAID = {
    "deploy": "Set PROD_WEST=eu-central-1 before you deploy, never PROD_EAST.",
    "code": "The bug is in parse_config(path: str), line 412 of src/app/config.py.",
    "id": "The order is 7f3a-99c2, invoice INV-2024-00317.",
    "name": "Siobhán O'Connor-Núñez takes over from Bjørn.",
    "price": "The rent goes up to 1,284.50 euros.",
    "phone": "Call me on +49 170 5550123.",
    "part": "The part is ABC-1234, and it takes 45 min to fit.",
    "serial": "Its serial is XYZ9876, we paid 15000 for it.",
    "camel": "Set userNameField to the address.",
    "umlaut": "Erwin Schrödinger wohnt in Weißenburg.",
    "digraph": "Frau Mueller kommt aus Strassburg.",
    "emoji": "A party 🎉 tonight, I ❤️ it → at the lake.",
    "chinese": "我下个月搬到上海，公司在浦东。",  # noqa: RUF001
    "japanese": "昨日は京都で抹茶アイスを食べました。",
    "korean": "다음 주에 부산으로 출장을 갑니다.",
    "german": "Die Krankenversicherung zahlt die Donaudampfschifffahrt nicht.",
    "retriever": "We adopted a golden retriever called Biscuit.",
    "phrase": "She said that the quick brown fox won the race.",
    "apart": "The fox is brown, and quick to hide.",
    "filler": "Nothing much happened, we watched a film and slept.",
}


async def told(runtime: AsyncRuntime, clock: FakeClock) -> AsyncAgent:
    """An agent that was told all of it, a day apart, the last of it a day ago."""
    agent = await runtime.agents.create("ada")
    first = clock.now() - timedelta(days=len(SAID))
    await agent.recall.import_jsonl(
        {"role": "user", "content": text, "created_at": (first + timedelta(days=n)).isoformat()}
        for n, text in enumerate(SAID.values())
    )
    return agent


@pytest.fixture
async def ada(runtime: AsyncRuntime, clock: FakeClock) -> AsyncAgent:
    """`told`."""
    return await told(runtime, clock)


async def first(agent: AsyncAgent, query: str) -> str | None:
    page = await agent.recall.search(query)
    names = {text: name for name, text in SAID.items()}
    return names[page.hits[0].text] if page.hits else None


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("PROD_WEST", "deploy"),
        ("what is prod_west set to?", "deploy"),
        ("eu-central-1", "deploy"),
        ("parse_config(path: str)", "code"),
        ("src/app/config.py", "code"),
        ("line 412", "code"),
        ("7f3a-99c2", "id"),
        ("INV-2024-00317", "id"),
        ("Siobhan", "name"),
        ("O'Connor", "name"),
        ("nunez", "name"),
        ("1,284.50", "price"),
        ("+49 170 5550123", "phone"),
        ("01705550123", "phone"),
        ("1284", "price"),
        ("ABC1234", "part"),
        ("abc 1234", "part"),
        ("45min", "part"),
        ("XYZ-9876", "serial"),
        ("15,000", "serial"),
        ("user name field", "camel"),
        ("user_name_field", "camel"),
        ("Schroedinger", "umlaut"),
        ("Weissenburg", "umlaut"),
        ("Müller", "digraph"),
        ("Straßburg", "digraph"),
        ("🎉", "emoji"),
        ("❤", "emoji"),
        ("→", "emoji"),
        ("who sent 🎉?", "emoji"),
        ("上海", "chinese"),
        ("浦东公司在哪里", "chinese"),
        ("抹茶", "japanese"),
        ("京都で何を食べた", "japanese"),
        ("부산", "korean"),
        ("Versicherung", "german"),
        ("Kranken", "german"),
        ("Dampfschiff", "german"),
        ("the retreiver", "retriever"),
        ("Bisquit", "retriever"),
        ('"quick brown fox"', "phrase"),
        ('who said "brown fox won"', "phrase"),
    ],
)
async def test_an_exact_thing_is_the_first_hit(ada: AsyncAgent, query: str, name: str) -> None:
    assert await first(ada, query) == name


@pytest.mark.parametrize("query", ["PROD_NORTH_", '"brown quick fox"', "INV_99", "xylophone"])
async def test_what_was_not_said_is_not_found_by_a_part_of_it(ada: AsyncAgent, query: str) -> None:
    found = {hit.text for hit in (await ada.recall.search(query)).hits}
    # Parts of an identifier are words of their own.
    assert found <= {SAID["deploy"], SAID["id"]}


async def test_a_sign_is_found_by_a_tool_under_filters_and_in_pages(
    ada: AsyncAgent, clock: FakeClock
) -> None:
    lines = [f"well done 👍 number {n}" for n in range(5)]
    await ada.recall.import_jsonl({"role": "assistant", "content": one} for one in lines)
    found = await ada.recall.search("👍", sure=True, page=1, page_size=2)
    assert (found.total, len(found.hits)) == (5, 2)
    assert [hit.via for hit in found.hits] == ["keywords"] * 2
    assert (await ada.recall.search("👍", roles=["user"])).total == 0
    assert (await ada.recall.search("🦄", sure=True)).total == 0
    await ada.archive.insert("The password is three 🐙 in a row")
    assert (await ada.archive.search("🐙", sure=True)).total == 1
    assert (await ada.archive.search("🐙", tags=["none"])).total == 0


async def test_what_is_written_as_it_was_asked_for_finds_nothing_else(ada: AsyncAgent) -> None:
    await ada.recall.import_jsonl([{"role": "user", "content": "The part ABC1234 is new."}])
    assert (await ada.recall.search("ABC1234")).total == 1


async def test_a_day_in_words_finds_what_was_said_then(ada: AsyncAgent, clock: FakeClock) -> None:
    names = list(SAID)
    for back in (1, 2, 6):
        day = clock.now() - timedelta(days=back)
        queries = [day.date().isoformat(), f"what did I tell you on {day:%d %B %Y}?"]
        queries += ["what did I say yesterday?"] if back == 1 else [f"last {day:%A}, what was it?"]
        for query in queries:
            assert await first(ada, query) == names[-back], query


async def test_a_time_and_words_together_ask_for_both(ada: AsyncAgent, clock: FakeClock) -> None:
    month = f"{clock.now() - timedelta(days=3):%B}"
    page = await ada.recall.search(f"the fox in {month}")
    assert {hit.text for hit in page.hits[:2]} == {SAID["phrase"], SAID["apart"]}
    assert page.total == len(page.hits)
    assert len({hit.id for hit in page.hits}) == page.total


async def test_filters_hold_for_what_a_time_finds(ada: AsyncAgent, clock: FakeClock) -> None:
    yesterday = clock.now() - timedelta(days=1)
    before = await ada.recall.search("yesterday", end=yesterday - timedelta(hours=1))
    assert before.hits == ()
    assert (await ada.recall.search("yesterday", roles=["assistant"])).hits == ()


async def test_the_tool_finds_a_slip_and_a_day_too(tmp_path: Path, clock: FakeClock) -> None:
    asked = [call("conversation_search", query=query) for query in ("retreiver", "yesterday")]
    model = ScriptedModel([asked[0], say("found"), asked[1], say("found")])
    async with AsyncRuntime(
        tmp_path, model="script", models={"script": model}, clock=clock, embedder=None
    ) as runtime:
        agent = await told(runtime, clock)
        for text in (SAID["retriever"], SAID["filler"]):
            await agent.send("Look it up.")
            assert text in str(view(model.requests[-1]).messages)
