"""Calls of which nobody saw the end: told to the owner, settled once, and told to the agent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pagedaemon import AsyncRuntime, InvalidInput, NotFound, Runtime, tool
from pagedaemon.errors import AlreadyAnswered
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import FakeClock, ScriptedModel, call, say, view
from pagedaemon.tools.tool import Tool


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Lets tools that hang go on."""
    release = threading.Event()
    yield release
    release.set()


@pytest.fixture
def tools(release: threading.Event) -> list[Tool]:
    """One that must not run twice and one that reads, neither of which ends in time."""

    @tool(timeout=0.05)
    def charge(order: int) -> str:
        """Charges an order to the card."""
        release.wait(10)
        return "charged"

    @tool(effect="read", timeout=0.05)
    def balance() -> str:
        """Reads the balance."""
        release.wait(10)
        return "7"

    return [charge, balance]


def answer(request: Request) -> Reply:
    """Calls what it is told to, and says what it heard of it later."""
    seen = view(request)
    if '"reason": "outcome"' in str(request.messages[-1]["content"]):
        last = seen.events[-1]
        return say(f"{last['happened']}, {last.get('by')}, {last.get('note')}: {last['message']}")
    if seen.last_user == "charge" and "charge" not in seen.results:
        return call("charge", order=41)
    if seen.last_user == "balance" and "balance" not in seen.results:
        return call("balance")
    return say("I do not know.")


def opened(store: Path, tools: list[Tool], *, recover: bool = True) -> AsyncRuntime:
    """A runtime on the store."""
    models = {"script": ScriptedModel(answer)}
    return AsyncRuntime(
        store,
        model="script",
        models=models,
        tools=tools,
        recover=recover,
        clock=FakeClock(),
        embedder=None,
    )


async def test_an_unknown_outcome_is_listed_for_the_owner_until_it_is_settled(
    tmp_path: Path, tools: list[Tool]
) -> None:
    async with opened(tmp_path, tools) as runtime:
        ada = await runtime.agents.ensure("ada", tools=tools)
        bob = await runtime.agents.ensure("bob")
        turn = await ada.send("charge")
        (found,) = await runtime.outcomes.list()
        assert (found.tool, found.arguments, found.turn_id) == ("charge", {"order": 41}, turn.id)
        assert (found.agent_id, found.happened, found.settled_at) == (ada.id, None, None)
        assert found.told == turn.steps[0].calls[0].result
        assert found.started_at is not None
        assert [one.id for one in await ada.outcomes.list()] == [found.id]
        assert await bob.outcomes.list() == []
        with pytest.raises(NotFound):
            await bob.outcomes.get(found.id)

        told = await (await found.settle(True, "The bank says so.", by="Lin")).wait()
        assert told.reply is not None
        assert told.reply.startswith("True, Lin, The bank says so.: Your call of charge")
        assert "did take effect" in told.reply
        assert (found.happened, found.note, found.settled_by) == (True, "The bank says so.", "Lin")
        assert await runtime.outcomes.list() == []
        (settled,) = await runtime.outcomes.list(settled=True)
        assert settled.settled_at == found.settled_at
        assert len(await runtime.outcomes.list(settled=None)) == 1
        assert (await ada.send("And?")).reply == "I do not know."


async def test_what_never_happened_may_be_called_anew(tmp_path: Path, tools: list[Tool]) -> None:
    async with opened(tmp_path, tools) as runtime:
        ada = await runtime.agents.ensure("ada", tools=tools)
        await ada.send("charge")
        (found,) = await ada.outcomes.list()
        told = await (await found.settle(False)).wait()
    assert told.reply is not None
    assert "never took effect. If it is still wanted, you may call it again." in told.reply


async def test_an_outcome_is_settled_once(tmp_path: Path, tools: list[Tool]) -> None:
    async with opened(tmp_path, tools) as runtime:
        ada = await runtime.agents.ensure("ada", tools=tools)
        await ada.send("charge")
        (found,) = await ada.outcomes.list()
        await (await found.settle(True)).wait()
        again = await runtime.outcomes.get(found.id)
        with pytest.raises(AlreadyAnswered):
            await again.settle(False)
        assert (await runtime.outcomes.get(found.id)).happened is True


async def test_a_reading_that_did_not_end_is_nothing_to_settle(
    tmp_path: Path, tools: list[Tool]
) -> None:
    async with opened(tmp_path, tools) as runtime:
        ada = await runtime.agents.ensure("ada", tools=tools)
        turn = await ada.send("balance")
        assert [made.status for made in turn.steps[0].calls] == ["unknown"]
        assert await runtime.outcomes.list() == []


async def test_what_is_settled_where_nothing_runs_is_told_by_the_next_process(
    tmp_path: Path, tools: list[Tool]
) -> None:
    async with opened(tmp_path, tools) as runtime:
        ada = await runtime.agents.ensure("ada", tools=tools)
        await ada.send("charge")
    async with opened(tmp_path, tools, recover=False) as runtime:
        (found,) = await runtime.outcomes.list()
        assert (await (await found.settle(True)).status()).state == "queued"
    async with opened(tmp_path, tools) as runtime:
        main = await (await runtime.agents.get("ada")).conversations.get()
        for turn in await main.turns(status="open"):
            await turn.wait()
        assert "did take effect" in str((await main.turns())[0].reply)


@pytest.mark.parametrize(
    "given",
    [{"happened": 1}, {"happened": True, "note": "x" * 2_001}, {"happened": True, "by": ""}],
    ids=["no flag", "long", "nobody"],
)
async def test_what_cannot_be_said_of_one_changes_nothing(
    tmp_path: Path, tools: list[Tool], given: dict[str, object]
) -> None:
    async with opened(tmp_path, tools) as runtime:
        ada = await runtime.agents.ensure("ada", tools=tools)
        await ada.send("charge")
        (found,) = await ada.outcomes.list()
        with pytest.raises(InvalidInput):
            await found.settle(**given)  # type: ignore[arg-type]
        assert len(await ada.outcomes.list()) == 1


def test_the_blocking_door_lists_and_settles_too(tmp_path: Path, tools: list[Tool]) -> None:
    models = {"script": ScriptedModel(answer)}
    with Runtime(tmp_path, model="script", models=models, tools=tools, embedder=None) as runtime:
        ada = runtime.agents.ensure("ada", tools=tools)
        ada.send("charge")
        (found,) = runtime.outcomes.list()
        assert runtime.space("default").outcomes.get(found.id).tool == "charge"
        assert "never took effect" in str(found.settle(happened=False).wait().reply)
        assert ada.outcomes.list() == []


async def test_the_built_in_rules_take_it_for_an_event(tmp_path: Path, tools: list[Tool]) -> None:
    async with opened(tmp_path, tools) as runtime:
        ada = await runtime.agents.ensure("ada", tools=tools)
        await ada.send("charge")
        await ada.update(model="offline")
        (found,) = await ada.outcomes.list()
        told = await (await found.settle(True)).wait()
    assert told.stop_reason in ("end_turn", "no_reply")
