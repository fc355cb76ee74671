"""How many commits and statements a turn costs: each commit is a wait for the disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from pagedaemon import AsyncRuntime, Block, tool
from pagedaemon.events import Turn
from pagedaemon.llm.protocol import Reply
from pagedaemon.testing import ScriptedModel, call, say


@dataclass
class Cost:
    """What was seen of the store."""

    commits: int = 0
    statements: int = 0


@contextmanager
def counted() -> Iterator[Cost]:
    """Counts what every engine does."""
    cost = Cost()

    def commit(_connection: object) -> None:
        cost.commits += 1

    def statement(*_: object) -> None:
        cost.statements += 1

    event.listen(Engine, "commit", commit)
    event.listen(Engine, "before_cursor_execute", statement)
    try:
        yield cost
    finally:
        event.remove(Engine, "commit", commit)
        event.remove(Engine, "before_cursor_execute", statement)


async def cost_of(store: Path, *replies: Reply) -> tuple[Cost, Turn]:
    """A turn of these replies, in a conversation that has begun."""

    @tool
    def charge(order: int) -> str:
        """Charges an order to the card."""
        return f"order {order} is charged"

    model = ScriptedModel([say("Good morning."), *replies])
    async with AsyncRuntime(store, model="script", models={"script": model}) as runtime:
        agent = await runtime.agents.ensure(
            "clerk", blocks=[Block.human("A customer.")], tools=[charge]
        )
        await agent.send("Good morning.")
        with counted() as cost:
            turn = await agent.send("Go on.")
    return cost, turn


async def test_an_echo_costs_two_commits_and_at_most_fifteen_statements(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cost, turn = await cost_of(tmp_path, say("Go on."))
    assert turn.reply == "Go on."
    assert cost.commits == 2
    assert 5 < cost.statements <= 15
    with capsys.disabled():
        print(f"\nan echo turn: {cost.commits} commits, {cost.statements} statements")


async def test_each_step_of_a_chain_of_memory_edits_costs_one_commit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edits = [
        call("core_memory_append", label="human", content=f"Fact {number}.", heartbeat=True)
        for number in range(10)
    ]
    cost, turn = await cost_of(tmp_path, *edits, say("Noted."))
    assert [len(step.changes) for step in turn.steps] == [1] * 10 + [0]
    assert cost.commits == 1 + 10 + 1
    with capsys.disabled():
        print(f"\nten edits and a reply: {cost.commits} commits, {cost.statements} statements")


async def test_a_turn_with_one_call_that_must_not_run_twice_costs_four_commits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cost, turn = await cost_of(tmp_path, call("charge", order=41, heartbeat=True), say("Done."))
    assert [made.status for made in turn.steps[0].calls] == ["ok"]
    assert cost.commits == 4
    with capsys.disabled():
        print(f"\na charge and a reply: {cost.commits} commits, {cost.statements} statements")
