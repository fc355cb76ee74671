"""How the results of one step share the room there is, and how often a step is weighed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pagedaemon import AsyncRuntime, Block, Model, tool
from pagedaemon.context.window import Load
from pagedaemon.messages import Message
from pagedaemon.store.blocks import BlockRow
from pagedaemon.testing import ScriptedModel, both, call, say
from pagedaemon.turn.body import Body

BUDGET = 6_000


@tool(effect="read")
def read(pages: int) -> str:
    """Reads pages of a book.

    Args:
        pages: how many.
    """
    return "the sea was calm " * 60 * pages


@pytest.fixture
def weighed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Tokens, each time a window is weighed."""
    tokens: list[int] = []
    weigh = Body.weigh

    def counted(body: Body, blocks: Sequence[BlockRow], queue: Sequence[Message]) -> Load:
        load = weigh(body, blocks, queue)
        tokens.append(load.tokens)
        return load

    monkeypatch.setattr(Body, "weigh", counted)
    return tokens


@pytest.mark.parametrize(("pages", "again"), [((1,), 0), ((4, 1, 4, 4), 1)])
async def test_a_step_is_weighed_again_only_where_results_were_shortened(
    tmp_path: Path, weighed: list[int], pages: tuple[int, ...], again: int
) -> None:
    calls = both(*[call("read", pages=count, heartbeat=True) for count in pages])
    model = ScriptedModel([calls, say("Read.")], usage=None)
    of = Model("m", context_window=BUDGET + 256, max_output_tokens=256)
    async with AsyncRuntime(tmp_path, model=of, models={"m": model}) as runtime:
        agent = await runtime.agents.create(
            "ada", instructions="Be brief.", blocks=[Block.human("Lin")], tools=[read]
        )
        weighed.clear()
        turn = await agent.send("Read.")
    assert turn.reply == "Read."
    # Once as the message comes, and in each of two steps before the model is asked and after.
    assert len(weighed) == 1 + 2 * 2 + again


async def test_small_results_stay_whole_beside_large_ones(tmp_path: Path) -> None:
    calls = both(*[call("read", pages=count, heartbeat=True) for count in (4, 1, 4, 4)])
    model = ScriptedModel([calls, say("Read.")], usage=None)
    of = Model("m", context_window=BUDGET + 256, max_output_tokens=256)
    async with AsyncRuntime(tmp_path, model=of, models={"m": model}) as runtime:
        agent = await runtime.agents.create("ada", instructions="Be brief.", tools=[read])
        turn = await agent.send("Read.")
        main = await agent.conversations.get()
        results = [m for m in await main.messages() if m.tool == "read"]
    assert turn.reply == "Read."
    assert [message.digest is None for message in results] == [False, True, False, False]
    shown = [len(message.digest or message.text) for message in results]
    assert max(shown[0], *shown[2:]) < len("the sea was calm " * 240)
