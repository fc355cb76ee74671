"""Eight processes that write into one block at the same time (fault O10): no line is lost or
doubled, and nobody writes over what they have not seen."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

from tests.cases.children import Children

from pagedaemon import AsyncRuntime

PROCESSES = 8
LINES = 200
"""Of each process: a hundred with its agent's turns, a hundred through the API."""
STALE = 60
"""Rewrites of each process over a version that is no longer the newest: ten by its agent, fifty
through the API."""

SCRIPT = """
    import json
    from pagedaemon import EditRefused

    made, step = iter(range(10_000)), iter(range(10_000))
    outcome = {"refused": 0, "written": 0, "tried again": 0}
    opened = []

    def line():
        return f"{name}-{next(made)}"

    async def mind(request):
        if next(step) % 2:
            lines = [call("memory_insert", label="team", new_str=line()) for _ in range(9)]
            return both(*lines, say("done"))
        # The block changes after this request was made.
        await (await opened[0].blocks.get("team")).append(line())
        return call("memory_rethink", label="team", new_memory="Mine.", heartbeat=True)

    async def by_agent(agent):
        for _ in range(10):
            turn = await agent.send("go on")
            rewrite, *rest = [made for step in turn.steps for made in step.calls]
            assert (rewrite.tool, len(rest)) == ("memory_rethink", 10), turn
            assert all(made.status == "ok" for made in rest), turn
            outcome["refused" if rewrite.status == "failed" else "written"] += 1

    async def stale(block):
        try:
            await block.rewrite("Mine.")
        except EditRefused as refused:
            assert refused.reason == "stale", refused
            outcome["refused"] += 1
        else:
            outcome["written"] += 1

    async def at_the_top(block):
        first = line()
        while True:
            try:
                return await block.insert(first, 0)
            except EditRefused as refused:
                assert refused.reason == "stale", refused
                outcome["tried again"] += 1
                await block.refresh()

    async def by_hand(runtime):
        for _ in range(50):
            before = await runtime.blocks.get("team")
            block = await (await runtime.blocks.get("team")).append(line())
            await stale(before)
            await at_the_top(block)

    async def main():
        models = {"mind": ScriptedModel(mind)}
        async with AsyncRuntime(
            folder / "store", model="mind", models=models, embedder=None
        ) as runtime:
            opened.append(runtime)
            agent = await runtime.agents.get(name)
            await started()
            await asyncio.gather(by_agent(agent), by_hand(runtime))
        print(json.dumps(outcome))

    asyncio.run(main())
"""


async def test_eight_processes_lose_no_line_and_rewrite_nothing_they_have_not_seen(
    tmp_path: Path, children: Children
) -> None:
    names = [f"writer{number}" for number in range(PROCESSES)]
    async with AsyncRuntime(tmp_path / "store", embedder=None) as runtime:
        team = await runtime.blocks.create(label="team", value="Rules", limit=100_000)
        for name in names:
            await runtime.agents.create(name, blocks=[team], tool_set="edit")
            children.start(name, SCRIPT)
        await children.ready(*names)
        outcomes = [json.loads(printed) for printed in await children.ended()]
        assert [(one["refused"], one["written"]) for one in outcomes] == [(STALE, 0)] * PROCESSES
        expected = Counter(["Rules", *(f"{name}-{n}" for name in names for n in range(LINES))])
        assert Counter((await team.refresh()).value.split("\n")) == expected
        history = await team.history()
    assert [version.version for version in history] == list(range(1, PROCESSES * LINES + 2))
    # Each change added its own line and left all others as they were.
    for before, after in pairwise(history):
        added = Counter(after.value.split("\n")) - Counter(before.value.split("\n"))
        assert added.total() == 1
        assert len(after.value.split("\n")) == len(before.value.split("\n")) + 1
