"""The tasks by which MemGPT was measured, end to end: nested key-value retrieval, documents, and
chats of several sessions (Packer et al., "MemGPT: Towards LLMs as Operating Systems", 2023).

The model is an oracle that knows its requests alone. Each task is also given to the same oracle
without what its searches found, which must fail: so nothing else in the request gives it away.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.cases.oracles import (
    UNKNOWN,
    WINDOW,
    follows_keys,
    made_since_asked,
    reads_documents,
    remembers_first,
    tokens,
    without_results,
)

from pagedaemon import AsyncRuntime, Model
from pagedaemon.config import Limits
from pagedaemon.events import Event, PagedOut, Turn, TurnEnded
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.llm.protocol import Request
from pagedaemon.testing import FakeClock, ScriptedModel, say, view
from pagedaemon.testing.scripted import Answer, Script

PAIRS = 140
LEVELS = range(5)

Open: TypeAlias = Callable[..., AbstractAsyncContextManager[tuple[AsyncAgent, ScriptedModel]]]

with_and_without_vectors = pytest.mark.parametrize("embedder", [None, "local"])


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """An agent with a window of 8,192 tokens, beyond which its model refuses."""

    @asynccontextmanager
    async def open_agent(
        script: Script, *, embedder: str | None = None, clock: FakeClock | None = None, **given: Any
    ) -> AsyncIterator[tuple[AsyncAgent, ScriptedModel]]:
        model = ScriptedModel(
            script, summary="They looked things up.", context_window=WINDOW, counter=tokens
        )
        async with AsyncRuntime(
            tmp_path,
            model=Model("script", context_window=WINDOW, max_output_tokens=256),
            models={"script": model},
            embedder=embedder,
            clock=clock,
        ) as runtime:
            yield await runtime.agents.ensure("ada", **given), model
        assert max(map(tokens, model.requests)) <= WINDOW

    return open_agent


class Pairs:
    """140 pairs of UUIDs, among them one chain for each level."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)

        def drawn() -> str:
            return str(uuid.UUID(int=chance.getrandbits(128), version=4))

        self.chains = {level: [drawn() for _ in range(level + 2)] for level in LEVELS}
        linked = [pair for one in self.chains.values() for pair in pairwise(one)]
        others = [(drawn(), drawn()) for _ in range(PAIRS - len(linked))]
        self.texts = [f"{key} -> {value}" for key, value in [*linked, *others]]
        chance.shuffle(self.texts)

    def question(self, level: int) -> str:
        """Asks for the first key of a chain."""
        return (
            f"What is the value of {self.chains[level][0]}? If it is a key itself, go on to its "
            "value, until you reach one that is no key."
        )

    def answer(self, level: int) -> str:
        """The end of the chain."""
        return f"The value is {self.chains[level][-1]}."


async def ask(agent: AsyncAgent, question: str) -> tuple[Turn, list[Event]]:
    """The turn, and all that happened in it."""
    events = [event async for event in agent.stream(question)]
    assert isinstance(events[-1], TurnEnded)
    return events[-1].turn, events


@pytest.mark.parametrize(
    ("embedder", "heartbeats"), [(None, "assisted"), (None, "strict"), ("local", "assisted")]
)
async def test_nested_keys_are_followed_to_the_end_at_every_level(
    opened: Open, embedder: str | None, heartbeats: str
) -> None:
    pairs = Pairs(seed=1)
    async with opened(follows_keys, embedder=embedder, heartbeats=heartbeats) as (ada, model):
        kept = await ada.archive.insert_many(pairs.texts)
        assert len({one.id for one in kept}) == PAIRS
        paged_out = 0
        for level in [*LEVELS] * 3:
            turn, events = await ask(ada, pairs.question(level))
            assert turn.reply == pairs.answer(level)
            assert len(turn.steps) >= level + 3, "each key, the end, and the answer"
            paged_out += sum(isinstance(event, PagedOut) for event in events)
    # Neither the pairs nor what was said of them would have fitted.
    assert tokens(model.requests[0]) + said_at_once(pairs.texts) > WINDOW
    assert paged_out > 0


def said_at_once(texts: list[str]) -> int:
    """What they would count in one message."""
    return tokens(Request(messages=({"role": "user", "content": "\n".join(texts)},)))


@pytest.mark.parametrize("level", LEVELS)
async def test_another_order_of_pairs_and_a_conversation_of_its_own_change_nothing(
    opened: Open, level: int
) -> None:
    pairs = Pairs(seed=100 + level)
    async with opened(follows_keys) as (ada, _):
        await ada.archive.insert_many(pairs.texts)
        assert (await ada.send(pairs.question(level))).reply == pairs.answer(level)


@pytest.mark.parametrize("level", LEVELS)
async def test_without_the_found_text_in_its_requests_no_key_is_solved(
    opened: Open, level: int
) -> None:
    pairs = Pairs(seed=1)
    async with opened(without_results(follows_keys)) as (ada, _):
        await ada.archive.insert_many(pairs.texts)
        assert (await ada.send(pairs.question(level))).reply == UNKNOWN


QUERY = "year in which the observatory on Mount Lindholm opened"
SEEN = r"first light of the Lindholm dome was seen in (\d{4})"
QUESTION = "In which year did the observatory on Mount Lindholm open?"
librarian = partial(reads_documents, QUERY, SEEN)


async def load_library(agent: AsyncAgent, *, decoys: int, sentences: int) -> None:
    """Logs that speak in the words of the question and do not answer it, and a chronicle that
    does, in other words."""
    talk = "Visitors asked for the key of the dome and were sent down to the village again. "
    for number in range(decoys):
        text = (
            f"Log {number}: the year in which the observatory on Mount Lindholm opened is on no "
            f"sign; the observatory on Mount Lindholm opened late today. {talk * sentences}"
        )
        await agent.archive.load_text(text, name=f"log-{number}.txt", chunk_chars=4_000)
    chronicle = (
        f"{talk * sentences}After a long winter the first light of the Lindholm dome was seen in "
        "1887, and the village drank to it."
    )
    await agent.archive.load_text(chronicle, name="chronicle.txt", chunk_chars=4_000)


@with_and_without_vectors
async def test_an_answer_beyond_the_first_page_of_a_search_is_found(
    opened: Open, embedder: str | None
) -> None:
    async with opened(librarian, embedder=embedder) as (ada, model):
        await load_library(ada, decoys=12, sentences=3)
        first = await ada.archive.search(QUERY, page_size=5)
        assert "1887" not in "".join(hit.text for hit in first.hits)
        turn, _ = await ask(ada, QUESTION)
    assert turn.reply == "In 1887."
    pages = [one.arguments.get("page", 0) for one in made_since_asked(model.requests[-1])]
    assert pages == [0, 1, 2]


async def test_pages_too_long_for_the_window_are_read_in_parts(opened: Open) -> None:
    async with opened(librarian, limits=Limits(steps=120)) as (ada, model):
        await load_library(ada, decoys=7, sentences=30)
        turn, _ = await ask(ada, QUESTION)
    assert turn.reply == "In 1887."
    tools = [made.tool for step in turn.steps for made in step.calls]
    assert tools.count("archival_memory_search") >= 2
    assert tools.count("read_page") >= 4
    assert "1887" not in str(model.requests[0].messages)


async def test_without_the_found_text_in_its_requests_no_document_answers(opened: Open) -> None:
    async with opened(without_results(librarian)) as (ada, _):
        await load_library(ada, decoys=12, sentences=3)
        assert (await ask(ada, QUESTION))[0].reply == UNKNOWN


DOG = "What is my sister's beagle called? I told you when we first talked."
biographer = partial(remembers_first, "sister beagle called", r"sister\b.* beagle, called (\w+)")

SESSIONS = (
    "I visited my sister Mara, who has a beagle, called Pumpernickel.",
    "My neighbour has a beagle, called Rocket, and no fence.",
    "At the kennel they have a beagle, called Duke, older than me.",
    "My sister has another beagle, called Biscuit, since last week.",
    "Somebody has lost a beagle, called Pepper: there are notes on all the trees.",
)


def listens(script: Script) -> Script:
    """Notes what it is told, and has the script answer what is asked."""

    def answer(request: Request) -> Any:
        return script(request) if "?" in view(request).last_user else say("Noted.")

    return answer


async def five_sessions(agent: AsyncAgent, clock: FakeClock) -> Answer | str | None:
    """Talks of five days, each in a conversation of its own; then asks about the first in the last
    of them."""
    reply = None
    for day, remark in enumerate(SESSIONS):
        session = await agent.conversations.ensure(f"session {day}")
        for number in range(6):
            await session.send(f"On day {day} I counted {number} boats in the harbour.")
            clock.advance(60)
        await session.send(remark)
        clock.advance(86_400)
        if day == len(SESSIONS) - 1:
            reply = (await session.send(DOG)).reply
    return reply


@with_and_without_vectors
async def test_a_question_in_the_fifth_session_is_answered_from_the_first(
    opened: Open, embedder: str | None
) -> None:
    clock = FakeClock()
    async with opened(listens(biographer), embedder=embedder, clock=clock) as (ada, model):
        assert await five_sessions(ada, clock) == "It is Pumpernickel."
    asked = [request for request in model.requests if DOG in view(request).last_user]
    assert len(asked) >= 2
    assert "Pumpernickel" not in str(asked[0].messages)
    assert "Pumpernickel" in str(asked[-1].messages)


async def test_without_the_found_text_in_its_requests_the_first_session_is_forgotten(
    opened: Open,
) -> None:
    clock = FakeClock()
    async with opened(listens(without_results(biographer)), clock=clock) as (ada, _):
        assert await five_sessions(ada, clock) == UNKNOWN
