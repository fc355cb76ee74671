"""Cases AR-01 and AR-08: what piles up over a long time crowds nothing out and slows no turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.pool import Pool
from tests.cases.embedders import Chosen

from pagedaemon import AsyncRuntime
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.llm.protocol import Request
from pagedaemon.testing import FakeEmbedder, ScriptedModel, call, say
from pagedaemon.testing.scripted import Answer

FACT = "Lin is allergic to peanuts"


AGAIN = (
    "Lin has a peanut allergy",
    "Peanuts make Lin ill",
    "Lin cannot eat peanuts",
)
OTHER = "Lin works at a bakery with a peanut tree"


def keep(content: str) -> Any:
    return call("archival_memory_insert", content=content, request_heartbeat=True)


@pytest.mark.parametrize("embedded", [True, False], ids=["vectors", "words"])
async def test_a_fact_that_is_kept_again_is_one_record_and_the_model_is_told(
    tmp_path: Path, embedded: bool
) -> None:
    """AR-01, of exact repeats."""
    model = ScriptedModel([*[keep(FACT)] * 5, say("Kept.")])
    embedder = FakeEmbedder() if embedded else None
    async with AsyncRuntime(
        tmp_path / "m", model="script", models={"script": model}, embedder=embedder
    ) as runtime:
        agent = await runtime.agents.ensure("ada")
        turn = await agent.send("I am allergic to peanuts, and I say it five times.")
        (kept,) = (await agent.archive.search(FACT)).hits
    first, *others = [step.calls[0].result for step in turn.steps[:5]]
    assert first == f"Saved: {kept.id}."
    assert others == [f"Already there, refreshed: {kept.id}."] * 4


async def test_a_fact_in_other_words_is_kept_told_and_crowds_nothing_out(tmp_path: Path) -> None:
    """AR-01, of near repeats: one text five times, three paraphrases at 0.97, another fact."""
    model = ScriptedModel(
        [
            *[keep(FACT)] * 5,
            *map(keep, AGAIN),
            keep(OTHER),
            call("archival_memory_search", query="Lin peanuts", request_heartbeat=True),
            say("Kept."),
        ]
    )
    embedder = Chosen(dict.fromkeys(AGAIN, (FACT, 0.97)))
    async with AsyncRuntime(
        tmp_path / "m", model="script", models={"script": model}, embedder=embedder
    ) as runtime:
        agent = await runtime.agents.ensure("ada")
        turn = await agent.send("Peanuts!")
        results = [step.calls[0].result for step in turn.steps[:10]]
        ids = [result.split()[1].rstrip(".") for result in results[4:9]]
        ids[0] = results[0].removeprefix("Saved: ").rstrip(".")
        assert all(result.startswith("Already there") for result in results[1:5])
        for place, result in enumerate(results[5:8], start=1):
            assert result.startswith(f"Saved: {ids[place]}.")
            assert f"- {ids[0]}: {FACT}" in result
        assert results[8] == f"Saved: {ids[4]}."

        for query in ("Lin peanuts", "what may Lin not eat, peanuts", FACT):
            page = await agent.archive.search(query, page_size=3)
            texts = [hit.text for hit in page.hits]
            assert len([text for text in texts if text in (FACT, *AGAIN)]) == 2, query
            assert OTHER in texts[:2]
            assert page.total == 5, "and nothing was removed"
            rest = await agent.archive.search(query, page=1, page_size=3)
            assert sorted([*texts, *(hit.text for hit in rest.hits)]) == sorted(
                [FACT, *AGAIN, OTHER]
            )
        assert (
            results[9].index(OTHER) < sorted(results[9].index(text) for text in (FACT, *AGAIN))[1]
        )
        assert await agent.archive.count() == 5


async def test_a_turn_takes_the_database_no_longer_after_a_long_past(tmp_path: Path) -> None:
    """AR-08. Counted in hundreds of steps of SQLite's virtual machine: of twenty turns of an agent
    with 20,000 messages and 5,000 records beside those of an empty one, and of two empty ones."""
    model = ScriptedModel([say("Yes.")] * 88)
    with steps_counted() as steps:
        async with AsyncRuntime(
            tmp_path / "m", model="script", models={"script": model}, embedder=None
        ) as runtime:
            old, new, one, other = [
                await runtime.agents.ensure(name) for name in ("old", "new", "one", "other")
            ]
            spoken = [{"role": "user", "content": f"day {n}, nothing new"} for n in range(20_000)]
            await old.recall.import_jsonl(spoken)
            await old.archive.insert_many([f"fact {n}" for n in range(5_000)])

            async def cost(*agents: AsyncAgent) -> int:
                before = steps[0]
                turns = await asyncio.gather(*(agent.send("Are you there?") for agent in agents))
                assert {turn.reply for turn in turns} == {"Yes."}
                return steps[0] - before

            await cost(old, new, one, other)
            pairs = [(await cost(old, new), await cost(one, other)) for _ in range(20)]
            alone = [await cost(new), await cost(one)]
    assert all(beside <= 1.3 * empty + 20 for beside, empty in pairs)
    assert all(empty > 0 for _, empty in pairs)
    assert max(alone) <= 1.3 * min(alone) + 20, "and the empty one pays nothing for the other"


async def test_an_agent_that_thinks_long_over_a_long_past_holds_up_no_other(tmp_path: Path) -> None:
    """AR-08: the second agent has all its answers before the first has one."""
    thinking = asyncio.Event()

    async def answer(request: Request) -> Answer:
        if "slowly" in str(request.messages[-1]):
            await thinking.wait()
        return say("Yes.")

    model = ScriptedModel(answer)
    async with AsyncRuntime(
        tmp_path / "m", model="script", models={"script": model}, embedder=None
    ) as runtime:
        old, new = [await runtime.agents.ensure(name) for name in ("old", "new")]
        spoken = [{"role": "user", "content": f"day {n}, nothing new"} for n in range(2_000)]
        await old.recall.import_jsonl(spoken)
        first = asyncio.create_task(old.send("Think slowly."))
        turns = [await new.send("Are you there?") for _ in range(20)]
        assert not first.done()
        thinking.set()
        assert (await first).reply == "Yes."
    assert [turn.reply for turn in turns] == ["Yes."] * 20


@contextmanager
def steps_counted() -> Iterator[list[int]]:
    """How many hundreds of steps all connections take that are opened meanwhile."""
    steps = [0]

    def tick() -> int:
        steps[0] += 1
        return 0

    def watched(connection: Any, _: Any) -> None:
        connection.set_progress_handler(tick, 100)

    event.listen(Pool, "connect", watched)
    try:
        yield steps
    finally:
        event.remove(Pool, "connect", watched)
