"""A new conversation that continues: what it starts with, from which others, and that none does
unless it is told to.

The models are functions of their request alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pagedaemon import AsyncRuntime, Model
from pagedaemon.config import Paging
from pagedaemon.errors import InvalidInput, NotFound
from pagedaemon.events import PagedOut
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.handles.conversation import AsyncConversation
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.messages import Message
from pagedaemon.testing import FakeClock, ScriptedModel, call, say, text, view
from pagedaemon.testing.views import message_text

PLAN = "We had planned to paint the boat green."


def continuing(request: Request) -> Reply:
    """Goes on only where its request says with what."""
    if request.purpose == "summary":
        return text(f"Notes: {'green boat' if 'green' in str(request.messages) else 'nothing'}.")
    if view(request).last_user != "Where did we leave off?":
        return say("Noted.")
    green = any("green" in message_text(message) for message in request.messages[1:])
    return say("At the green boat." if green else "I cannot say.")


def noting(request: Request) -> Reply:
    """Pages out what was before, with a note of what it is told."""
    said = view(request).last_user
    if said.startswith("note"):
        note = said.removeprefix("note ")
        return call("page_out", through=2, note=f"About {note}.", heartbeat=False)
    return say("Noted.")


@asynccontextmanager
async def opened(
    folder: Path, answer: Any = continuing, *, window: int = 32_000, **settings: Any
) -> AsyncIterator[tuple[AsyncAgent, ScriptedModel, FakeClock]]:
    scripted, clock = ScriptedModel(answer, usage=None), FakeClock()
    model = Model("m", context_window=window, max_output_tokens=256)
    async with AsyncRuntime(
        folder, model=model, models={"m": scripted}, clock=clock, embedder=None
    ) as runtime:
        agent = await runtime.agents.ensure("ada", instructions="Be brief.", **settings)
        yield agent, scripted, clock


async def head(conversation: AsyncConversation) -> Message | None:
    return next((m for m in await conversation.messages() if m.kind == "summary"), None)


@pytest.mark.parametrize(
    ("carry_over", "reply"), [(True, "At the green boat."), (False, "I cannot say.")]
)
async def test_a_new_conversation_continues_the_others_if_the_agent_says_so(
    tmp_path: Path, carry_over: bool, reply: str
) -> None:
    async with opened(tmp_path, carry_over=carry_over) as (ada, _, _clock):
        await ada.send(PLAN)
        new = await ada.conversations.ensure("monday")
        assert (await new.send("Where did we leave off?")).reply == reply


async def test_of_itself_none_sees_another_one(tmp_path: Path) -> None:
    """Conversations of one agent may be with different people."""
    async with opened(tmp_path) as (ada, model, _):
        await ada.send(PLAN)
        new = await ada.conversations.ensure("someone else")
        assert await new.messages() == []
        await new.send("Hello.")
    assert "green" not in str(model.requests[-1].messages)


async def test_one_conversation_can_be_continued_and_no_other_shows(tmp_path: Path) -> None:
    async with opened(tmp_path) as (ada, model, clock):
        for name, words in (("lin", PLAN), ("mai", "My secret is the red door.")):
            await (await ada.conversations.ensure(name)).send(words)
            clock.advance(60)
        new = await ada.conversations.ensure("lin again", continue_from="lin")
        assert (await new.send("Where did we leave off?")).reply == "At the green boat."
        assert "red door" not in str(model.requests[-1].messages)


async def test_it_reads_as_a_summary_with_the_last_words(tmp_path: Path) -> None:
    async with opened(tmp_path) as (ada, model, clock):
        await ada.send(PLAN, author="Lin")
        clock.advance(86_400)
        new = await ada.conversations.ensure("monday", continue_from="main")
        await new.send("Hello.")
        made = await head(new)
        sources = await new.summarised()
    shown = message_text(model.requests[-1].messages[1]).split("\n")
    assert shown[0].startswith("[summary of 2 earlier messages no longer in view · ")
    assert "from your other conversations" in shown[0]
    assert shown[1].startswith('Your conversation "main", last active ')
    assert shown[2:6] == [
        "It ended with:",
        f"- Lin: {PLAN}",
        "- assistant: Noted.",
        "[end of summary]",
    ]
    assert made is not None
    assert made.label == "agent"
    assert sources[0].text == PLAN
    assert len(sources) == 2


async def test_a_summary_comes_over_with_what_it_stands_for(tmp_path: Path) -> None:
    async with opened(tmp_path, window=6_256) as (ada, _, _clock):
        await ada.send(PLAN)
        paged = False
        while not paged:
            paged = any([isinstance(e, PagedOut) async for e in ada.stream("sail " * 300)])
        await ada.send("And now?")
        before = await (await ada.conversations.get()).summarised()
        new = await ada.conversations.ensure("monday", continue_from="main")
        made, sources = await head(new), await new.summarised()
        assert (await new.send("Where did we leave off?")).reply == "At the green boat."
    assert made is not None
    assert "Notes: green boat." in made.text
    assert {message.id for message in before} < {message.id for message in sources}
    assert PLAN in [message.text for message in sources]
    assert made.data["messages"] == len(sources)


async def test_the_latest_conversations_come_first_and_three_at_most(tmp_path: Path) -> None:
    async with opened(tmp_path, noting) as (ada, _, clock):
        for name in ("one", "two", "three", "four"):
            conversation = await ada.conversations.ensure(name)
            await conversation.send(f"{name} " * 60)
            await conversation.send(f"note {name}")
            clock.advance(60)
        await ada.update(carry_over=True)
        made = await head(await ada.conversations.ensure("new"))
    assert made is not None
    places = [made.text.index(f"About {name}.") for name in ("four", "three", "two")]
    assert places == sorted(places)
    assert "About one." not in made.text
    assert made.text.count("It ended with:") == 1


async def test_what_one_has_taken_over_from_another_is_not_taken_over_twice(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, noting) as (ada, _, clock):
        first = await ada.conversations.ensure("first")
        await first.send("boats " * 60)
        await first.send("note boats")
        clock.advance(60)
        second = await ada.conversations.ensure("second", continue_from="first")
        await second.send("Good morning.")
        clock.advance(60)
        await ada.update(carry_over=True)
        made = await head(await ada.conversations.ensure("third"))
    assert made is not None
    assert made.text.count("About boats.") == 1
    assert "Good morning." in made.text


@pytest.mark.parametrize(("page", "summaries"), [(300, 1), (1_000, 1), (4_000, 3)])
async def test_it_has_no_more_characters_than_a_page(
    tmp_path: Path, page: int, summaries: int
) -> None:
    def answer(request: Request) -> Reply:
        if view(request).last_user != "page out":
            return say("long answers " * 100)
        return call("page_out", through=4, note=f"{'What was. ' * 150}The end.", heartbeat=False)

    async with opened(tmp_path, answer) as (ada, _, clock):
        for name in ("one", "two", "three"):
            clock.advance(60)
            one = await ada.conversations.ensure(name)
            for words in ("long words " * 200, "more words " * 200, "and words", "page out"):
                await one.send(words)
        await ada.update(carry_over=True, paging=Paging(page_chars=page))
        made = await head(await ada.conversations.ensure("new"))
    assert made is not None
    headings = made.text.count("Your conversation") * 120
    assert page // 2 < len(made.text) < page + headings + 6 * 20
    assert "assistant: " in made.text
    assert made.text.count("The end.") == summaries


async def test_what_was_carried_over_outlives_a_summary_written_anew(tmp_path: Path) -> None:
    """With every fold written anew from the conversation's own messages."""
    asked: list[str] = []

    def answer(request: Request) -> Reply:
        if request.purpose == "summary":
            asked.append(str(request.messages))
        return continuing(request)

    paging = Paging(refresh_every=1)
    async with opened(tmp_path, answer, window=6_256, paging=paging) as (ada, _, _clock):
        await ada.send(PLAN)
        new = await ada.conversations.ensure("monday", continue_from="main")
        folds = 0
        while folds < 3:
            events = [event async for event in new.stream("sail " * 300)]
            folds += sum(isinstance(event, PagedOut) for event in events)
        assert (await new.send("Where did we leave off?")).reply == "At the green boat."
        made, sources = await head(new), await new.summarised()
    # A fold may take several requests, of which the first brings what was carried over.
    assert sum(PLAN in request for request in asked) >= 3
    assert made is not None
    assert made.data["by"] == "model"
    assert PLAN in [message.text for message in sources]


async def test_what_is_there_already_stays_as_it_is(tmp_path: Path) -> None:
    async with opened(tmp_path, carry_over=True) as (ada, _, _clock):
        other = await ada.conversations.ensure("other")
        await ada.send(PLAN)
        again = await ada.conversations.ensure("other", continue_from="main")
        assert again.id == other.id
        assert await again.messages() == []


async def test_where_there_is_none_to_continue_from_nothing_is_made(tmp_path: Path) -> None:
    async with opened(tmp_path) as (ada, _, _clock):
        with pytest.raises(NotFound, match="'nowhere' to continue from"):
            await ada.conversations.ensure("new", continue_from="nowhere")
        with pytest.raises(NotFound, match="to continue from"):
            await ada.conversations.ensure("new", continue_from="new")
        with pytest.raises(InvalidInput, match="continue from"):
            await ada.conversations.ensure("new", continue_from="")
        assert [one.name for one in await ada.conversations.list()] == ["main"]


async def test_a_conversation_that_was_reset_has_nothing_to_go_on_from(tmp_path: Path) -> None:
    async with opened(tmp_path) as (ada, _, _clock):
        empty = await ada.conversations.ensure("first", continue_from="main")
        assert await empty.messages() == []
        await ada.send(PLAN)
        await ada.reset()
        new = await ada.conversations.ensure("second", continue_from="main")
        assert await new.messages() == []


async def test_imported_history_can_be_continued(tmp_path: Path) -> None:
    lines = [{"role": "user", "content": PLAN, "created_at": "2024-05-01T09:00:00+00:00"}]
    async with opened(tmp_path) as (ada, _, _clock):
        await ada.recall.import_jsonl(lines, conversation="before")
        new = await ada.conversations.ensure("now", continue_from="before")
        assert (await new.send("Where did we leave off?")).reply == "At the green boat."


async def test_what_was_carried_over_is_carried_on(tmp_path: Path) -> None:
    async with opened(tmp_path) as (ada, _, clock):
        await ada.send(PLAN)
        last = await ada.conversations.get()
        for name in ("second", "third"):
            clock.advance(60)
            last = await ada.conversations.ensure(name, continue_from=last.name)
            await last.send("Good morning.")
        assert (await last.send("Where did we leave off?")).reply == "At the green boat."


async def test_reset_and_pop_leave_it_alone_or_take_it_away(tmp_path: Path) -> None:
    async with opened(tmp_path) as (ada, _, _clock):
        await ada.send(PLAN)
        new = await ada.conversations.ensure("new", continue_from="main")
        await new.send("Hello.")
        gone = await new.pop()
        assert gone[0].text == "Hello."
        assert await new.pop() == []
        assert await head(new) is not None
        await new.reset()
        assert await new.messages() == []
