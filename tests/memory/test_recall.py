"""Recall: every message is found again, by words, role and date, and only once."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedaemon import AsyncRuntime, Model, tool
from pagedaemon.errors import InvalidInput
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.memory.recall import date_range, pages_of
from pagedaemon.messages import LABELS, Label, lowest
from pagedaemon.testing import FakeClock, ScriptedModel, both, call, raw_call, say, text, view


@asynccontextmanager
async def world(
    folder: Path,
    script: Any,
    *,
    start: datetime = datetime(2026, 3, 31, 20, 30, tzinfo=UTC),
    model: Model | str = "script",
    **changes: Any,
) -> AsyncIterator[tuple[AsyncAgent, FakeClock, ScriptedModel]]:
    clock = FakeClock(start)
    scripted = ScriptedModel(script, summary="They talked about many things.")
    async with AsyncRuntime(
        folder, model=model, models={"script": scripted}, clock=clock, embedder=None
    ) as runtime:
        yield await runtime.agents.ensure("ada", **changes), clock, scripted


def looking(tool: str, **arguments: Any) -> Callable[[Request], Reply]:
    """A model that says ok to everything, and on "look" makes one call and says what it gave."""

    def mind(request: Request) -> Reply:
        seen = view(request)
        if seen.last_user != "look":
            return say("ok")
        found = seen.results.get(tool)
        return say(found[0]) if found else call(tool, heartbeat=True, **arguments)

    return mind


async def look(agent: AsyncAgent) -> str:
    return (await agent.send("look")).replies[0]


def head(shown: str) -> str:
    return shown.split(" for ")[0]


def hits(shown: str) -> list[str]:
    return re.findall(r"^- (.*)$", shown, re.MULTILINE)


# ------------------------------------------------------------------ by words


@pytest.mark.parametrize("page", [0, 1, 2])
async def test_evicted_turns_are_found_with_date_and_right_totals(
    tmp_path: Path, page: int
) -> None:
    """AR-06. The word stands in seven turns that have left the window long ago."""
    small = Model("script", context_window=5_500, max_output_tokens=500)
    mind = looking("conversation_search", query="kumquat", page=page)
    async with world(tmp_path, mind, model=small) as (agent, clock, model):
        await agent.send("what stands before the first would make it another")
        for number in range(7):
            await agent.send(f"kumquat number {number}")
            clock.advance(60)
        for number in range(14):
            await agent.send(f"filling {number} " + "words and more words " * 40)
        conversation = await agent.conversations.get()
        window = [message.text for message in await conversation.messages()]
        shown = await look(agent)
    assert not any("kumquat" in message for message in window)
    looked = next(request for request in model.requests if view(request).last_user == "look")
    assert "kumquat" not in str(looked.messages)
    if page == 2:
        assert shown == 'No page 2 for "kumquat": all 7 hits stand on pages 0 to 1.'
        return
    assert head(shown) == f"Messages {page * 5 + 1} to {5 if page == 0 else 7} of 7"
    assert all("2026-03-31 20:3" in hit and hit.endswith("user") for hit in hits(shown))
    numbers = [int(number) for number in re.findall(r"kumquat number (\d)", shown)]
    # Equally good hits stand newest first.
    assert numbers == ([6, 5, 4, 3, 2] if page == 0 else [1, 0])


async def test_search_finds_neither_its_own_question_and_call_nor_copies_in_earlier_results(
    tmp_path: Path,
) -> None:
    searching = call("conversation_search", query="kumquat", thoughts="kumquat", heartbeat=True)
    script = [say("A fruit"), searching, searching, searching, say("Found once")]
    async with world(tmp_path, script) as (agent, *_):
        await agent.send("What is a kumquat?")
        turn = await agent.send("kumquat again?")
        shown = [step.calls[0].result for step in turn.steps[:3]]
        found = await agent.recall.search("kumquat")
    assert {head(result) for result in shown} == {"Messages 1 to 1 of 1"}
    assert found.total == 2, "the question that was asked meanwhile is there for people"


async def test_roles_filter_and_name_who_spoke(tmp_path: Path) -> None:
    @tool(effect="read")
    def market() -> str:
        """Prices."""
        return "kumquat 3.20"

    def script(*roles: str) -> list[Any]:
        return [
            call("market", heartbeat=True),
            say("The kumquat costs 3.20"),
            call("conversation_search", query="kumquat", roles=list(roles), heartbeat=True),
            say("Done"),
        ]

    expected: dict[tuple[str, ...], set[str]] = {
        (): {"user", "assistant", "result of market"},
        ("user",): {"user"},
        ("assistant",): {"assistant"},
        ("tool",): {"result of market"},
        ("user", "tool"): {"user", "result of market"},
    }
    for number, (roles, who) in enumerate(expected.items()):
        async with world(tmp_path / str(number), script(*roles), tools=[market]) as (agent, *_):
            await agent.send("What does a kumquat cost?")
            turn = await agent.send("look")
        shown = hits(turn.steps[0].calls[0].result)
        assert {line.split(" · ")[2] for line in shown} == who


@pytest.mark.parametrize(
    ("name", "ref"),
    [
        ("monday", "[monday#1"),
        ("2026-11-30.standup", "[2026-11-30.standup#1"),
        ("東京", "[東京#1"),
        ("a room of its own", "[message-"),
        ("odd#1", "[message-"),
        ("n" * 40, "[message-"),
    ],
)
async def test_hit_of_another_conversation_carries_a_reference_that_can_be_read(
    tmp_path: Path, name: str, ref: str
) -> None:
    def mind(request: Request) -> Reply:
        seen = view(request)
        found = seen.results.get("conversation_search")
        if seen.last_user != "look":
            return say("ok")
        if found is None:
            return call("conversation_search", query="kumquat", heartbeat=True)
        if "read_page" in seen.results:
            return say(seen.results["read_page"][0])
        ref = re.findall(r"^- (\S+) ·", found[0], re.MULTILINE)[0]
        return call("read_page", id=ref, heartbeat=True)

    async with world(tmp_path, mind) as (agent, *_):
        other = await agent.conversations.ensure(name)
        await other.send("a kumquat in another room")
        shown = await look(agent)
    assert "a kumquat in another room" in shown
    assert ref in shown


@pytest.mark.parametrize("word", ["東京", "서울", "寿司", "ไทย"])
async def test_short_words_of_unspaced_scripts_are_found(tmp_path: Path, word: str) -> None:
    said = f"去年我在{word}住了三个月"
    mind = looking("conversation_search", query=word)
    async with world(tmp_path, mind) as (agent, *_):
        await agent.send(said)
        await agent.send("something else")
        shown = await look(agent)
    assert head(shown) == "Messages 1 to 1 of 1"
    assert said in shown


@pytest.mark.parametrize("query", ["", "  ", "!!!", '"', "AND OR NOT", "a*", "text:x", "\u200d"])
async def test_no_query_is_an_error(tmp_path: Path, query: str) -> None:
    async with world(tmp_path, looking("conversation_search", query=query)) as (agent, *_):
        await agent.send("hello")
        assert (await look(agent)).startswith(("Nothing found", "Messages"))
        assert (await agent.recall.search(query)).total >= 0


async def test_long_hit_is_cut_and_can_be_read_whole(tmp_path: Path) -> None:
    said = "kumquat " + "x" * 2_000 + " end"
    mind = looking("conversation_search", query="kumquat")
    async with world(tmp_path, mind) as (agent, *_):
        await agent.send(said)
        shown = await look(agent)
    assert "[…]" in shown
    assert " end" not in shown
    assert hits(shown)[0].startswith("#1 ")


# ------------------------------------------------------------------ by date


async def test_days_are_those_of_the_agents_zone(tmp_path: Path) -> None:
    """Messages around midnight in Tokyo, which is 15:00 in UTC."""
    mind = looking("conversation_search_date", start_date="2026-04-01", end_date="2026-04-01")
    start = datetime(2026, 3, 31, 14, 59, 59, tzinfo=UTC)
    async with world(tmp_path, mind, start=start, timezone="Asia/Tokyo") as (agent, clock, _):
        await agent.send("last second of March")
        clock.advance(1)
        await agent.send("first second of April")
        clock.advance(86_399)
        await agent.send("last second of the first")
        clock.advance(1)
        await agent.send("the second")
        shown = await look(agent)
    assert head(shown) == "Messages 1 to 4 of 4"
    assert [line.split(" · ")[1] for line in hits(shown)] == [
        "Wednesday 2026-04-01 00:00",
        "Wednesday 2026-04-01 00:00",
        "Wednesday 2026-04-01 23:59",
        "Wednesday 2026-04-01 23:59",
    ]
    assert re.findall(r"^  (.*)$", shown, re.MULTILINE) == [
        "first second of April",
        "ok",
        "last second of the first",
        "ok",
    ], "oldest first, as its description says"


async def test_same_days_are_others_in_another_zone(tmp_path: Path) -> None:
    mind = looking("conversation_search_date", start_date="2026-04-01", end_date="2026-04-01")
    start = datetime(2026, 3, 31, 15, 0, tzinfo=UTC)
    async with world(tmp_path, mind, start=start, timezone="America/New_York") as (agent, *_):
        await agent.send("still March in New York")
        assert (await look(agent)).startswith("Nothing found")


async def test_days_list_what_was_said_and_no_copies_or_bare_calls(tmp_path: Path) -> None:
    script = [
        both(text("thinking"), call("archival_memory_insert", content="x", heartbeat=True)),
        call("conversation_search", query="hello", heartbeat=True),
        say("Hi"),
        call("conversation_search_date", start_date="2026-03-31", end_date="", heartbeat=True),
        say("Done"),
    ]
    async with world(tmp_path, script) as (agent, *_):
        await agent.send("hello")
        turn = await agent.send("what did we say today?")
    shown = turn.steps[0].calls[0].result
    assert [line.split(" · ")[2] for line in hits(shown)] == ["user", "assistant", "assistant"]
    assert head(shown) == "Messages 1 to 3 of 3"
    assert re.findall(r"^  (.*)$", shown, re.MULTILINE) == ["hello", "thinking", "Hi"]


async def test_dates_of_many_messages_come_in_pages_without_gaps(tmp_path: Path) -> None:
    days = {"start_date": "2026-01-01", "end_date": "2026-12-31"}
    search = [
        call("conversation_search_date", page=page, heartbeat=True, **days) for page in range(3)
    ]
    script = [*[say("ok")] * 6, *search, say("Done")]
    async with world(tmp_path, script) as (agent, *_):
        for number in range(6):
            await agent.send(f"message {number}")
        turn = await agent.send("list them")
    shown = [step.calls[0].result for step in turn.steps[:3]]
    assert [head(page) for page in shown] == [
        "Messages 1 to 5 of 12",
        "Messages 6 to 10 of 12",
        "Messages 11 to 12 of 12",
    ]
    refs = [line.split(" · ")[0] for page in shown for line in hits(page)]
    assert len(refs) == len(set(refs)) == 12


@pytest.mark.parametrize(
    ("tool", "asked"),
    [
        ("conversation_search", {"query": "piano"}),
        ("conversation_search_date", {"start_date": "2026-03-31", "end_date": ""}),
    ],
)
async def test_a_page_after_the_last_tells_how_many_there_were(
    tmp_path: Path, tool: str, asked: dict[str, str]
) -> None:
    mind = looking(tool, page=7, **asked)
    async with world(tmp_path, mind) as (agent, *_):
        for number in range(3):
            await agent.send(f"the piano has {number} keys")
        shown = await look(agent)
    total = 3 if tool == "conversation_search" else 6
    assert shown.startswith("No page 7 for ")
    assert shown.endswith(f"all {total} hits stand on page{'s 0 to 1' if total > 5 else ' 0'}.")


async def test_a_blank_query_lists_the_newest_first(tmp_path: Path) -> None:
    async with world(tmp_path, looking("conversation_search", query=" ")) as (agent, clock, _):
        for number in range(3):
            await agent.send(f"message {number}")
            clock.advance(60)
        shown = await look(agent)
    found = re.findall(r"^  (message .*)$", shown, re.MULTILINE)
    assert found == ["message 2", "message 1"]


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("tomorrow", "2026-04-01"),
        ("2026-04-01", "2026-13-01"),
        ("2026-04-02", "2026-04-01"),
        ("0001-01-01", "2026-04-01"),
        ("2026-04-01", "9999-12-31"),
        ("2026-04-01\x00", "2026-04-01"),
    ],
)
async def test_what_is_no_range_of_days_is_an_error_the_model_can_act_on(
    tmp_path: Path, start: str, end: str
) -> None:
    mind = looking("conversation_search_date", start_date=start, end_date=end)
    async with world(tmp_path, mind, timezone="Asia/Tokyo") as (agent, *_):
        assert (await look(agent)).startswith("Error: ")


def test_range_is_half_open_and_whole_days_follow_the_calendar() -> None:
    # The clocks of Berlin change on 29 March 2026: that day has 23 hours.
    assert date_range("2026-03-29", "2026-03-29", "Europe/Berlin") == (
        datetime(2026, 3, 28, 23, tzinfo=UTC),
        datetime(2026, 3, 29, 22, tzinfo=UTC),
    )
    assert date_range("2026-03-29T12:00", "2026-03-29T13:00+00:00", "Europe/Berlin") == (
        datetime(2026, 3, 29, 10, tzinfo=UTC),
        datetime(2026, 3, 29, 13, tzinfo=UTC),
    )
    assert date_range("", None, "UTC") == (None, None)
    with pytest.raises(InvalidInput, match="ends before it starts"):
        date_range("2026-03-29T12:00", "2026-03-29T12:00", "UTC")


def test_a_day_in_words_begins_a_range_or_ends_it() -> None:
    thursday = datetime(2026, 5, 14, 12, tzinfo=UTC)
    berlin = "Europe/Berlin"
    assert date_range("last Monday", "yesterday", berlin, thursday) == (
        datetime(2026, 5, 10, 22, tzinfo=UTC),
        datetime(2026, 5, 13, 22, tzinfo=UTC),
    )
    assert date_range("April", "2026-04-20", "UTC", thursday) == date_range(
        "2026-04-01", "2026-04-20", "UTC"
    )
    for wrong in ("next Monday", "5/8/2026", "soon"):
        with pytest.raises(InvalidInput, match="not a date"):
            date_range(wrong, "", berlin, thursday)


@given(
    st.text(max_size=30),
    st.text(max_size=30),
    st.none() | st.just(datetime(2026, 5, 14, tzinfo=UTC)),
)
def test_no_text_breaks_the_reading_of_dates(start: str, end: str, now: datetime | None) -> None:
    try:
        first, last = date_range(start, end, "Asia/Tokyo", now)
    except InvalidInput:
        return
    assert first is None or last is None or first < last


# ------------------------------------------------------------------ the API


async def test_api_search_has_filters_pages_and_stable_order(tmp_path: Path) -> None:
    async with world(tmp_path, looking("none")) as (agent, clock, _):
        other = await agent.conversations.ensure("other")
        for number in range(4):
            await agent.send(f"tea {number}", author="Lin" if number % 2 else "Wu")
            clock.advance(60)
        await other.send("tea in the other room")
        recall = agent.recall
        assert await recall.count() == 15
        assert (await recall.search("tea")).total == 5
        assert (await recall.search("tea", conversation_id=other.id)).total == 1
        assert (await recall.search("tea", author="Lin")).total == 2
        assert (await recall.search("Lin")).total == 2, "the speaker is searchable"
        until = datetime(2026, 3, 31, 20, 32, tzinfo=UTC)
        assert (await recall.search("tea", end=until)).total == 2
        assert (await recall.search("tea", start=until)).total == 3
        for query in ("tea", None):
            whole = await recall.search(query, page_size=100)
            pages = [await recall.search(query, page=n, page_size=3) for n in range(10)]
            assert [h.id for page in pages for h in page.hits] == [h.id for h in whole.hits]
        replies = await recall.search(roles=["assistant"])
        assert {hit.text for hit in replies.hits} == {"ok"}
        for wrong in ({"page": -1}, {"page_size": 0}, {"start": datetime(2026, 1, 1)}):  # noqa: DTZ001
            with pytest.raises(InvalidInput):
                await recall.search("tea", **wrong)


@pytest.mark.parametrize("bad", ["\ud800", "tea\x00tea"])
async def test_search_for_what_cannot_be_stored_finds_nothing_or_says_so(
    tmp_path: Path, bad: str
) -> None:
    async with world(tmp_path, looking("none")) as (agent, *_):
        await agent.send("hello")
        assert (await agent.recall.search(bad)).total == 0
        assert (await agent.archive.search(bad)).total == 0


# ------------------------------------------------------------------ pinning and reading


async def test_pinning_what_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    script = [
        both(call("pin", message="#99"), call("read_page", id=99, page=3, heartbeat=True)),
        say("Sorry"),
    ]
    async with world(tmp_path, script) as (agent, *_):
        turn = await agent.send("pin 99")
    assert all("99" in made.result for made in turn.steps[0].calls)
    assert [made.status for made in turn.steps[0].calls] == ["failed", "failed"]


async def test_page_out_of_what_must_stay_is_refused(tmp_path: Path) -> None:
    script = [
        call("page_out", through=10_000_000_000_000_000_000_000, note="all", heartbeat=True),
        call("page_out", through=1, note="  ", heartbeat=True),
        say("Sorry"),
    ]
    async with world(tmp_path, script) as (agent, *_):
        turn = await agent.send("forget this")
        conversation = await agent.conversations.get()
        kept = [message.text for message in await conversation.messages()]
    assert turn.steps[1].calls[0].status == "failed"
    assert "forget this" in kept


async def test_arguments_nobody_could_read_can_be_read_again_in_pages(tmp_path: Path) -> None:
    broken = '{"message": "kumquat'
    script = [
        raw_call("send_message", broken),
        call("read_page", id="#2", heartbeat=True),
        say("Done"),
    ]
    async with world(tmp_path, script) as (agent, *_):
        turn = await agent.send("hello")
    assert broken in turn.steps[1].calls[0].result


# ------------------------------------------------------------------ pure pieces


@given(st.lists(st.sampled_from(LABELS), max_size=6))
def test_what_is_derived_takes_the_least_trusted_label(labels: Sequence[Label]) -> None:
    found = lowest(labels)
    assert not labels or found in labels
    assert all(LABELS.index(found) >= LABELS.index(label) for label in labels)


@given(st.text(max_size=50), st.integers(1, 20))
def test_pages_cover_a_text_exactly(whole: str, size: int) -> None:
    pages = [whole[page * size : (page + 1) * size] for page in range(pages_of(whole, size))]
    assert "".join(pages) == whole
    assert len(pages) == 1 or pages[-1]


async def test_what_is_found_again_is_trusted_no_more_than_it_was(tmp_path: Path) -> None:
    @tool(effect="read", returns="external")
    def page() -> str:
        """Reads a web page."""
        return "The heron is a wading bird."

    script = [
        call("page", heartbeat=True),
        say("Read."),
        call("conversation_search", query="heron", heartbeat=True),
        say("Found."),
        call("read_page", id=3, heartbeat=True),
        say("Read again."),
    ]
    model = ScriptedModel(script)
    async with AsyncRuntime(tmp_path, model="m", models={"m": model}) as runtime:
        agent = await runtime.agents.ensure("ada", tools=[page])
        for text in ("Read it.", "What about birds?", "Once more."):
            await agent.send(text)
        main = await agent.conversations.get()
        results = [m for m in await main.messages() if m.kind == "result"]
    labels = {m.tool: m.label for m in results}
    assert labels["page"] == "external"
    assert labels["conversation_search"] == "external"
    assert labels["read_page"] == "external"
    assert labels["send_message"] == "tool"


async def test_a_note_may_not_be_longer_than_what_it_stands_for(tmp_path: Path) -> None:
    model = ScriptedModel(
        [
            say("Hello."),
            call("page_out", through=2, note="They greeted each other. " * 20, heartbeat=True),
            say("There is room."),
        ]
    )
    async with AsyncRuntime(tmp_path, model="m", models={"m": model}) as runtime:
        agent = await runtime.agents.ensure("ada")
        await agent.send("Hello.")
        turn = await agent.send("Make room.")
        main = await agent.conversations.get()
        kinds = [m.kind for m in await main.messages()]
    assert turn.steps[0].calls[0].status == "failed"
    assert "longer" in turn.steps[0].calls[0].result
    assert "summary" not in kinds
