"""Cases AR-01 and AR-08: what piles up over a long time crowds nothing out and slows no turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.pool import Pool

from pagedaemon import AsyncRuntime
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.testing import ScriptedModel, call, say

FACT = "Lin is allergic to peanuts"


async def test_a_fact_that_is_kept_again_is_one_record_and_the_model_is_told(
    tmp_path: Path,
) -> None:
    """AR-01, of exact repeats."""
    keeps = [call("archival_memory_insert", content=FACT, request_heartbeat=True)] * 5
    model = ScriptedModel([*keeps, say("Kept."), *[say("Fine.")] * 5])
    async with AsyncRuntime(
        tmp_path / "m", model="script", models={"script": model}, embedder=None
    ) as runtime:
        agent = await runtime.agents.ensure("ada")
        await agent.send("I am allergic to peanuts, and I say it five times.")
        (kept,) = (await agent.archive.search(FACT)).hits
        results = [hit.text for hit in (await agent.recall.search(roles=["tool"])).hits]
        named = [text for text in results if kept.id in text]
        assert len(named) == 5
        assert sum("Already" in text for text in named) == 4

        others = ["Peanuts are in that sauce", "Lin is fond of peanut trees", "No peanuts for Lin"]
        for text in others:
            await agent.archive.insert(text)
        page = await agent.archive.search("Lin peanuts", page_size=3)
        assert len({hit.text for hit in page.hits}) == 3
        assert page.total == 4, "and nothing was removed"


async def test_a_turn_takes_the_database_no_longer_after_a_long_past(tmp_path: Path) -> None:
    """AR-08. Counted in hundreds of steps of SQLite's virtual machine."""
    model = ScriptedModel([say("Yes.")] * 12)
    with steps_counted() as steps:
        async with AsyncRuntime(
            tmp_path / "m", model="script", models={"script": model}, embedder=None
        ) as runtime:
            old = await runtime.agents.ensure("old")
            new = await runtime.agents.ensure("new")
            spoken = [{"role": "user", "content": f"day {n}, nothing new"} for n in range(4_000)]
            await old.recall.import_jsonl(spoken)
            await old.archive.insert_many([f"fact {n}" for n in range(1_000)])

            async def cost(agent: AsyncAgent) -> int:
                before = steps[0]
                await agent.send("Are you there?")
                return steps[0] - before

            pairs = [(await cost(old), await cost(new)) for _ in range(6)][1:]
    assert all(ours <= 1.3 * empty + 20 for ours, empty in pairs)
    assert all(empty > 0 for _, empty in pairs)


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
