"""P8: without a memory edit or a page-out, each request is an exact prefix of the next one."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedaemon import AsyncRuntime, Block, Model, tool
from pagedaemon.config import Limits
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import ScriptedModel, both, call, raw_call, say, text


@tool(effect="read")
def look(what: str) -> str:
    """Looks something up.

    Args:
        what: whatever.
    """
    return "" if what == "nothing" else f"{what} " * 2_000 if what == "much" else f"{what}!"


REPLIES = st.sampled_from(
    [
        call("look", what="it", heartbeat=True, thoughts="Let me see."),
        call("look", what="nothing", heartbeat=True),
        call("look", what="much", heartbeat=True),
        both(call("look", what="a", heartbeat=True), call("look", what="b", heartbeat=False)),
        both(text("Hm. \n"), call("conversation_search", query="it", heartbeat=True)),
        call("nonesuch", heartbeat=True),
        call("look", what=7, heartbeat=True),
        raw_call("look", "{not json"),
        raw_call("look", '{ "what" :"spaced", "request_heartbeat":true }', call_id=""),
        replace(call("look", what="it", heartbeat=True), opaque={"reasoning_content": "é"}),
    ]
)


def kept(before: Request, after: Request) -> bool:
    return after.messages[: len(before.messages)] == before.messages and after.tools == before.tools


@settings(max_examples=12, deadline=None)
@given(
    turns=st.lists(st.lists(REPLIES, max_size=3), min_size=2, max_size=4),
    native=st.booleans(),
    reopen=st.sets(st.integers(0, 3)),
)
async def test_each_request_continues_the_one_before_also_from_disk(
    tmp_path_factory: pytest.TempPathFactory,
    turns: list[list[Reply]],
    native: bool,
    reopen: set[int],
) -> None:
    folder: Path = tmp_path_factory.mktemp("store")
    answers: deque[Reply] = deque()
    model = ScriptedModel(lambda request: answers.popleft())

    async def open_runtime() -> AsyncRuntime:
        settings = Model("script", context_window=64_000)
        return await AsyncRuntime(folder, model=settings, models={"script": model}).open()

    runtime = await open_runtime()
    for number, replies in enumerate(turns):
        if number in reopen:
            await runtime.close()
            runtime = await open_runtime()
        agent = await runtime.agents.ensure(
            "ada",
            tools=[look],
            blocks=[Block.human("Name: Lin")],
            style="native" if native else "memgpt",
            limits=Limits(seconds=300.0),
        )
        answers.clear()
        # A failing call wakes another step: the script has an answer for each.
        answers.extend([*replies, *[text("Done.") if native else say("Done.")] * 4])
        await agent.send(f"Turn {number}, please.")
    await runtime.close()
    requests = model.requests
    assert len(requests) >= len(turns)
    for before, after in pairwise(requests):
        assert kept(before, after)


async def test_an_edit_through_the_api_changes_the_system_prompt_and_nothing_after_it(
    tmp_path: Path,
) -> None:
    model = ScriptedModel([say("One."), say("Two.")])
    async with AsyncRuntime(tmp_path, model="script", models={"script": model}) as runtime:
        agent = await runtime.agents.ensure("ada", blocks=[Block.human("Name: unknown")])
        await agent.send("Hello.")
        await (await agent.blocks.get("human")).append("Lin")
        await agent.send("And now?")
    before, after = model.requests
    assert before.messages[0] != after.messages[0]
    assert after.messages[1:3] == (before.messages[1], after.messages[2])
    assert before.tools == after.tools
