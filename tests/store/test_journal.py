"""What the journal of a turn is good for: fencing, and going on where another process died."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pytest

import pagedaemon
from pagedaemon import AsyncRuntime, Block, tool
from pagedaemon.clock import new_id
from pagedaemon.errors import LeaseLost
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.messages import CallStatus, Usage
from pagedaemon.store import conversations, journal
from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.journal import Plan, PlannedCall, Wake
from pagedaemon.store.transaction import Transaction
from pagedaemon.testing import ScriptedModel, call, say, text, view
from pagedaemon.tools.tool import Tool

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DEAD = "0" * 32
"""A worker that has no lock."""


def file_of(store: Path) -> Path:
    """The default space's file."""
    return store / "spaces" / "default" / "space.db"


@contextmanager
def database(store: Path) -> Iterator[Database]:
    """The default space, opened beside whoever else has it open."""
    pool = StorePool()
    opened = Database.open(file_of(store), space="default", pool=pool)
    try:
        yield opened
    finally:
        opened.close()
        pool.close()


def everything(store: Path) -> list[str]:
    """The whole content of the store, as statements, without what the lease moves."""
    with closing(sqlite3.connect(file_of(store))) as connection:
        return [line for line in connection.iterdump() if '"conversations"' not in line]


def charge_tool(charged: list[int]) -> Tool:
    """A tool that must not run twice."""

    @tool
    def charge(order: int) -> str:
        """Charges an order to the card."""
        charged.append(order)
        return f"order {order} is charged"

    return charge


def echo(request: Request) -> Reply:
    """Says what the user said last, and after a charge what came of it."""
    seen = view(request)
    results = seen.results.get("charge", ())
    return say(f"{seen.last_user} / {' / '.join(results)}")


def opened(store: Path, model: ScriptedModel, charged: list[int]) -> AsyncRuntime:
    """A runtime that takes nothing up by itself."""
    return AsyncRuntime(
        store, model="m", models={"m": model}, tools=[charge_tool(charged)], recover=False
    )


async def made(store: Path) -> str:
    """A store with an agent that has been spoken to. Returns its conversation's id."""
    async with opened(store, ScriptedModel(echo), []) as runtime:
        agent = await runtime.agents.ensure(
            "ada", blocks=[Block.human("Name: unknown")], tools=[charge_tool([])]
        )
        await agent.send("Good morning.")
        return (await agent.conversations.get()).id


async def recovered(store: Path, model: ScriptedModel, charged: list[int]) -> Any:
    """Opens the store, takes up what is open, and returns the conversation's newest turn."""
    async with opened(store, model, charged) as runtime:
        assert await (await runtime.space("default")).recover() == 1
        agent = await runtime.agents.get("ada")
        return (await (await agent.conversations.get()).turns(limit=1))[0]


def left(store: Path, work: Callable[[Transaction], object]) -> None:
    """Writes what a process that is gone has left."""
    with database(store) as space:
        space.write_now(work)


def running_turn(
    tx: Transaction,
    conversation_id: str,
    words: str,
    kind: Literal["message", "heartbeat"] = "message",
) -> str:
    """T0 and T1 by a process that is gone. Returns the turn's id."""
    head = journal.head(tx, conversation_id)
    assert head is not None
    turn_id = journal.accept(tx, head, Wake(words, kind=kind), owner=DEAD, running=True, now=NOW)
    seq = head.last_seq + 1
    newest = conversations.window(tx, conversation_id)[0]
    message = replace(newest, id=new_id("message"), seq=seq, kind=kind, text=words, turn_id=turn_id)
    conversations.add_messages(tx, head.agent.id, conversation_id, [message])
    journal.claim(
        tx,
        head,
        owner=DEAD,
        seconds=30.0,
        last_turn=head.last_turn + 1,
        last_seq=seq,
        warned=False,
    )
    return turn_id


def planned(tx: Transaction, turn_id: str, status: CallStatus) -> None:
    """T3, and T4 if the call was started."""
    reply = call("charge", order=41, heartbeat=True, call_id="call_9")
    row = PlannedCall(
        id=new_id("call"),
        seq=1,
        wire_id="call_9",
        tool="charge",
        arguments={"order": 41},
        raw=reply.calls[0].arguments,
        effect="once",
        status="intended",
        heartbeat=True,
    )
    plan = Plan(
        step_id=new_id("step"),
        seq=1,
        heartbeat=None,
        reply=asdict(reply),
        context_hash="",
        block_versions={},
        model="m",
        usage=Usage(calls=1),
        created_at=NOW,
        calls=(row,),
    )
    journal.plan(tx, turn_id, plan)
    if status == "started":
        journal.start(tx, row.id, NOW)


# ---------------------------------------------------------------------- the fence


async def test_a_turn_whose_conversation_was_taken_over_writes_nothing_more(
    tmp_path: Path,
) -> None:
    conversation_id = await made(tmp_path)
    asked, answer = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Reply:
        asked.set()
        await answer.wait()
        return call("core_memory_append", label="human", content="late", heartbeat=True)

    async with opened(tmp_path, ScriptedModel(slow), []) as runtime:
        agent = await runtime.agents.get("ada")
        sending = asyncio.create_task(agent.send("Remember me."))
        await asked.wait()

        def taken_over(tx: Transaction) -> None:
            head = journal.head(tx, conversation_id)
            assert head is not None
            journal.claim(
                tx,
                head,
                owner=DEAD,
                seconds=30.0,
                last_turn=head.last_turn,
                last_seq=head.last_seq,
                warned=False,
            )

        left(tmp_path, taken_over)
        before = everything(tmp_path)
        answer.set()
        with pytest.raises(LeaseLost, match="taken over"):
            await sending
        assert everything(tmp_path) == before
        assert (await agent.blocks.get("human")).value == "Name: unknown"


@pytest.mark.parametrize("epoch", [-1, 1])
async def test_a_lease_of_another_epoch_does_not_pass_the_fence(tmp_path: Path, epoch: int) -> None:
    conversation_id = await made(tmp_path)

    def work(tx: Transaction) -> None:
        running_turn(tx, conversation_id, "hello")
        head = journal.head(tx, conversation_id)
        assert head is not None
        ours = journal.Lease(conversation_id, DEAD, head.epoch)
        journal.fence(tx, ours)
        with pytest.raises(LeaseLost):
            journal.fence(tx, replace(ours, epoch=head.epoch + epoch))
        with pytest.raises(LeaseLost):
            journal.fence(tx, replace(ours, owner="1" * 32))

    left(tmp_path, work)


# ---------------------------------------------------------------------- after a death


async def test_a_queued_turn_of_a_dead_process_is_answered(tmp_path: Path) -> None:
    conversation_id = await made(tmp_path)

    def work(tx: Transaction) -> None:
        head = journal.head(tx, conversation_id)
        assert head is not None
        journal.accept(tx, head, Wake("Anyone there?"), owner=DEAD, running=False, now=NOW)

    left(tmp_path, work)
    turn = await recovered(tmp_path, ScriptedModel(echo), [])
    assert (turn.stop_reason, turn.reply) == ("end_turn", "Anyone there? / ")


async def test_a_running_turn_of_a_dead_process_is_answered(tmp_path: Path) -> None:
    conversation_id = await made(tmp_path)
    left(tmp_path, lambda tx: running_turn(tx, conversation_id, "Anyone there?"))
    turn = await recovered(tmp_path, ScriptedModel(echo), [])
    assert (turn.stop_reason, turn.reply) == ("end_turn", "Anyone there? / ")


async def test_a_queued_heartbeat_of_a_dead_process_wakes_the_agent(tmp_path: Path) -> None:
    conversation_id = await made(tmp_path)

    def work(tx: Transaction) -> None:
        head = journal.head(tx, conversation_id)
        assert head is not None
        wake = Wake(kind="heartbeat", label="owner")
        turn_id = journal.accept(tx, head, wake, owner=DEAD, running=False, now=NOW)
        row = journal.turn_by_id(tx, turn_id)
        assert row is not None
        assert (row.event, row.wake) == ("heartbeat", wake)

    left(tmp_path, work)
    model = ScriptedModel([text("")])
    turn = await recovered(tmp_path, model, [])
    assert (turn.stop_reason, turn.reply) == ("end_turn", None)
    assert [event["reason"] for event in view(model.requests[0]).events] == ["woken"]


async def test_a_running_heartbeat_of_a_dead_process_goes_on_and_nobody_waits(
    tmp_path: Path,
) -> None:
    conversation_id = await made(tmp_path)
    event = '{"type": "heartbeat", "reason": "woken"}'
    left(tmp_path, lambda tx: running_turn(tx, conversation_id, event, "heartbeat"))
    model = ScriptedModel([text("")])
    turn = await recovered(tmp_path, model, [])
    assert (turn.stop_reason, turn.reply, len(turn.steps)) == ("end_turn", None, 1)
    assert [event["reason"] for event in view(model.requests[0]).events] == ["woken"]


async def test_a_planned_reply_is_carried_out_and_not_asked_for_again(tmp_path: Path) -> None:
    conversation_id = await made(tmp_path)
    left(
        tmp_path,
        lambda tx: planned(tx, running_turn(tx, conversation_id, "Charge 41."), "intended"),
    )
    model, charged = ScriptedModel(echo), list[int]()
    turn = await recovered(tmp_path, model, charged)
    assert charged == [41]
    assert [made.status for made in turn.steps[0].calls] == ["ok"]
    assert turn.reply == "Charge 41. / order 41 is charged"
    assert len(model.requests) == 1, "only for the step after the planned one"


async def test_a_call_that_was_started_is_unknown_to_the_owner_and_to_the_model(
    tmp_path: Path,
) -> None:
    conversation_id = await made(tmp_path)
    left(
        tmp_path,
        lambda tx: planned(tx, running_turn(tx, conversation_id, "Charge 41."), "started"),
    )
    charged: list[int] = []
    turn = await recovered(tmp_path, ScriptedModel(echo), charged)
    assert charged == []
    assert [made.status for made in turn.steps[0].calls] == ["unknown"]
    assert "Whether it took effect is unknown" in turn.reply


@pytest.mark.parametrize(("attempts", "reason"), [(2, "end_turn"), (3, "interrupted")])
async def test_a_turn_is_begun_three_times_and_then_given_up(
    tmp_path: Path, attempts: int, reason: str
) -> None:
    conversation_id = await made(tmp_path)

    def work(tx: Transaction) -> None:
        turn_id = running_turn(tx, conversation_id, "Anyone there?")
        for _ in range(attempts - 1):
            row = journal.turn_by_id(tx, turn_id)
            assert row is not None
            journal.take_up(tx, row, DEAD, NOW)

    left(tmp_path, work)
    model = ScriptedModel(echo)
    turn = await recovered(tmp_path, model, [])
    assert turn.stop_reason == reason
    assert len(model.requests) == (1 if reason == "end_turn" else 0)
    assert (turn.error is not None) == (reason == "interrupted")
    async with opened(tmp_path, ScriptedModel(echo), []) as runtime:
        answered = await (await runtime.agents.get("ada")).send("And now?")
        assert answered.reply is not None
        assert answered.reply.endswith("And now? / ")


async def test_a_turn_that_goes_on_counts_its_attempts_anew(tmp_path: Path) -> None:
    conversation_id = await made(tmp_path)

    def work(tx: Transaction) -> None:
        turn_id = running_turn(tx, conversation_id, "Anyone there?")
        row = journal.turn_by_id(tx, turn_id)
        assert row is not None
        journal.take_up(tx, row, DEAD, NOW)
        journal.set_turn(tx, turn_id, Usage(calls=1), told=row.told or ())
        row = journal.turn_by_id(tx, turn_id)
        assert row is not None
        assert (row.status, row.attempts, row.usage) == ("running", 1, Usage(calls=1))

    left(tmp_path, work)


# ---------------------------------------------------------------------- beside a living process

BLOCKS = """
import asyncio, sys
from pagedaemon import AsyncRuntime
from pagedaemon.testing import ScriptedModel

async def never(request):
    print("asked", flush=True)
    await asyncio.Event().wait()

async def main():
    model = ScriptedModel(never)
    async with AsyncRuntime(sys.argv[1], model="m", models={"m": model}) as runtime:
        await (await runtime.agents.get("ada")).send("First.")

asyncio.run(main())
"""


async def test_a_second_process_waits_for_the_first_and_takes_over_when_it_dies(
    tmp_path: Path,
) -> None:
    await made(tmp_path)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        BLOCKS,
        str(tmp_path),
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(pagedaemon.__file__).parents[1])},
    )
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"asked\n"
        model = ScriptedModel(echo)
        async with opened(tmp_path, model, []) as runtime:
            agent = await runtime.agents.get("ada")
            sending = asyncio.create_task(agent.send("Second."))
            await asyncio.sleep(0.3)
            assert not sending.done()
            assert model.requests == ()
            assert await (await runtime.space("default")).recover() == 0
            process.kill()
            await process.wait()
            turn = await asyncio.wait_for(sending, 5)
            turns = await (await agent.conversations.get()).turns(limit=2)
        assert turn.reply == "Second. / "
        assert [turn.reply for turn in turns] == ["Second. / ", "First. / "]
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
