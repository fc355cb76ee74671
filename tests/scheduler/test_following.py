"""A turn's events by their numbers: each once and in order, for whoever comes late, comes back or
looks from another process."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pagedaemon
from pagedaemon import AsyncRuntime, Block, Model, tool
from pagedaemon.errors import Closed, InvalidInput, NotFound, StorageFull
from pagedaemon.events import (
    Event,
    HeartbeatEvent,
    PagedOut,
    ReplyDelta,
    StepFinished,
    StepStarted,
    Turn,
    TurnEnded,
    TurnStarted,
)
from pagedaemon.handles.conversation import AsyncConversation
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.messages import StopReason
from pagedaemon.testing import ScriptedModel, both, call, say, text
from pagedaemon.testing.scripted import Answer

FILE = Path("spaces") / "default" / "space.db"
CHAIN = (
    call("core_memory_append", label="human", content="Likes tea.", heartbeat=True),
    call("charge", order=41, heartbeat=True),
    both(say("One moment."), call("archival_memory_insert", content="Order 41", heartbeat=True)),
    call("core_memory_replace", label="human", old_content="No", new_content="No", heartbeat=True),
    say("Done: order 41 is charged."),
)


@tool
def charge(order: int) -> str:
    """Charges an order to the card."""
    return f"order {order} is charged"


@asynccontextmanager
async def opened(
    folder: Path, answers: Any = (), *, window: int | None = None, **settings: Any
) -> AsyncIterator[tuple[AsyncRuntime, AsyncConversation]]:
    """A runtime with the agent `ada`, and her conversation."""
    model = Model("script", context_window=window, max_output_tokens=256)
    scripted = ScriptedModel(answers)
    async with AsyncRuntime(folder, model=model, models={"script": scripted}) as runtime:
        agent = await runtime.agents.ensure(
            "ada", blocks=[Block.human("Name: Lin")], tools=[charge], **settings
        )
        yield runtime, await agent.conversations.get()


async def collected(events: AsyncIterator[Event]) -> list[Event]:
    async with asyncio.timeout(10):
        return [event async for event in events]


def committed(events: list[Event]) -> list[Event]:
    return [event for event in events if not event.provisional]


def require_whole(events: list[Event], turn: Turn) -> None:
    """All numbered events of a turn, from the first."""
    assert [event.number for event in events] == list(range(1, turn.events + 1))
    assert isinstance(events[0], TurnStarted)
    assert events[-1] == TurnEnded.of(turn)
    records = tuple(event.record for event in events if isinstance(event, StepFinished))
    assert records == turn.steps


async def test_a_turn_is_told_again_as_it_was_told(tmp_path: Path) -> None:
    async with opened(tmp_path, CHAIN) as (_, ada):
        heard = await collected(ada.stream("Charge order 41."))
        turn_id = heard[0].turn_id
        again = await collected(ada.events(turn_id))
        (turn,) = await ada.turns()
    assert again == committed(heard)
    require_whole(again, turn)
    assert [type(event).__name__ for event in again] == [
        "TurnStarted",
        *["StepFinished", "HeartbeatEvent"] * 4,
        "StepFinished",
        "TurnEnded",
    ]
    async with opened(tmp_path) as (_, ada):
        assert await collected(ada.events(turn_id)) == again
    provisional = {type(event) for event in heard if event.provisional}
    assert {StepStarted, ReplyDelta} <= provisional
    assert not provisional & {TurnStarted, StepFinished, HeartbeatEvent, PagedOut, TurnEnded}


LINKS = st.sampled_from(CHAIN[:-1])


@settings(max_examples=8, deadline=None)
@given(chain=st.lists(LINKS, max_size=3), place=st.integers(0, 30))
def test_a_listener_that_went_away_hears_the_rest_once_from_wherever_it_was(
    chain: list[Reply], place: int
) -> None:
    async def work(folder: Path) -> None:
        async with opened(folder, [*chain, CHAIN[-1]]) as (_, ada):
            heard: list[Event] = []
            async with aclosing(ada.stream("Charge order 41.")) as events:
                async for event in events:
                    heard.append(event)
                    if len(heard) > place:
                        break
            last = max(event.number or 0 for event in heard)
            rest = committed(await collected(ada.events(heard[0].turn_id, after=last)))
            (turn,) = await ada.turns()
            # To stop listening has neither stopped nor shortened it.
            assert turn.stop_reason == "end_turn"
            assert len(turn.steps) == len(chain) + 1
            whole = committed(heard) + rest
            require_whole(whole, turn)
            for number in range(turn.events + 2):
                again = await collected(ada.events(turn.id, after=number))
                assert again == whole[number:]

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(work(Path(folder)))


async def test_who_comes_late_hears_the_step_in_progress_from_its_beginning(tmp_path: Path) -> None:
    going_on = asyncio.Event()

    async def slowly(request: Request) -> Answer:
        if len(request.messages) > 2:
            await going_on.wait()
            return say("Done.")
        return CHAIN[0]

    async with opened(tmp_path, slowly) as (_, ada):
        stream = ada.stream("Remember: I like tea.")
        first = await anext(stream)
        async for event in stream:
            if isinstance(event, StepStarted) and event.step == 2:
                break
        late = ada.events(first.turn_id, after=1)
        heard = [await anext(late) for _ in range(3)]
        assert [event.number for event in heard] == [2, 3, None]
        assert isinstance(heard[2], StepStarted)
        assert heard[2].step == 2
        going_on.set()
        heard += await collected(late)
    deltas = [event for event in heard if isinstance(event, ReplyDelta)]
    assert "".join(event.text for event in deltas) == "Done."
    assert deltas[0].offset == 0
    assert [event.number for event in heard if event.number] == [2, 3, 4, 5]


async def test_page_outs_of_the_agent_and_of_the_runtime_are_told_again(tmp_path: Path) -> None:
    def answer(request: Request) -> Answer:
        return text("They talked.") if request.purpose == "summary" else say("Noted.")

    by: set[str] = set()
    async with opened(tmp_path, answer, window=6_256, instructions="You are brief.") as (_, ada):
        for number in range(80):
            heard = await collected(ada.stream(f"Item {number}: " + "tea and boats " * 20))
            assert await collected(ada.events(heard[0].turn_id)) == committed(heard)
            by |= {event.by for event in heard if isinstance(event, PagedOut)}
            if by:
                break
    paging = [
        say("Hello."),
        call("page_out", through=2, note="We talked.", heartbeat=True),
        say("There."),
    ]
    async with opened(tmp_path / "paging", paging) as (_, ada):
        await ada.send("Hello.")
        heard = await collected(ada.stream("Make room."))
        assert await collected(ada.events(heard[0].turn_id)) == committed(heard)
        by |= {event.by for event in heard if isinstance(event, PagedOut)}
    assert by == {"runtime", "agent"}


@pytest.mark.parametrize("at", ["waiting", "asking", "acting"])
async def test_a_turn_that_is_stopped_tells_all_of_it_to_its_listeners(
    tmp_path: Path, at: str
) -> None:
    reached = asyncio.Event()

    @tool
    async def pay() -> str:
        """Pays."""
        reached.set()
        await asyncio.Event().wait()
        return "paid"

    async def answer(request: Request) -> Answer:
        if at == "acting":
            return call("pay", heartbeat=True)
        reached.set()
        await asyncio.Event().wait()
        return say("never")

    async with opened(tmp_path, answer) as (runtime, ada):
        agent = await runtime.agents.ensure("ada")
        await agent.update(tools=[pay])
        before = asyncio.create_task(collected(ada.stream("First.")))
        await reached.wait()
        waits = asyncio.create_task(collected(ada.stream("Second.")))
        await asyncio.sleep(0.05)
        await ada.cancel()
        heard = await (waits if at == "waiting" else before)
        await asyncio.gather(before, waits)
        again = await collected(ada.events(heard[-1].turn_id))
    assert again == committed(heard)
    kinds = [type(event) for event in again]
    if at == "waiting":
        assert kinds == [TurnEnded]
    elif at == "asking":
        assert kinds == [TurnStarted, TurnEnded]
    else:
        assert kinds == [TurnStarted, StepFinished, TurnEnded]


@pytest.mark.parametrize(("reason", "error"), [("error", "RuntimeError: no"), ("cancelled", None)])
async def test_a_step_closed_from_outside_ends_its_turn_in_one_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: StopReason, error: str | None
) -> None:
    """There is no moment at which a listener reads an end that is not the last word."""
    ends: list[str] = []
    set_turn = vars(pagedaemon.store.journal)["set_turn"]

    def noted(*given: Any, **named: Any) -> None:
        if named.get("stop_reason"):
            ends.append(named["stop_reason"])
        set_turn(*given, **named)

    monkeypatch.setattr("pagedaemon.store.journal.set_turn", noted)

    @tool
    async def pay() -> str:
        """Pays."""
        return "paid"

    async with opened(tmp_path, [call("pay", heartbeat=True)]) as (runtime, ada):
        await (await runtime.agents.ensure("ada")).update(tools=[pay])

        async def failing(*_: object, **__: object) -> None:
            if reason == "cancelled":
                raise asyncio.CancelledError
            raise RuntimeError("no")

        monkeypatch.setattr("pagedaemon.loop.run_outside", failing)
        if reason == "cancelled":
            assert (await ada.send("Pay.")).stop_reason == "cancelled"
        else:
            with pytest.raises(RuntimeError):
                await ada.send("Pay.")
        (turn,) = await ada.turns()
        require_whole(await collected(ada.events(turn.id)), turn)
    assert (turn.stop_reason, turn.error) == (reason, error)
    assert ends == [reason]


OTHER = """
import asyncio, sys
from pagedaemon import AsyncRuntime
from pagedaemon.testing import ScriptedModel, call, say

async def answer(request):
    if len(request.messages) > 2:
        print("asked", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        return say("Done.")
    return call("core_memory_append", label="human", content="Likes tea.", heartbeat=True)

async def main():
    models = {"script": ScriptedModel(answer)}
    async with AsyncRuntime(sys.argv[1], model="script", models=models) as runtime:
        async for event in (await runtime.agents.get("ada")).stream("I like tea."):
            if event.number == 1:
                print(event.turn_id, flush=True)

asyncio.run(main())
"""


@asynccontextmanager
async def other_process(folder: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """One whose turn has finished a step and waits for a line before it answers; and its turn."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        OTHER,
        str(folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(pagedaemon.__file__).parents[1])},
    )
    assert process.stdout is not None
    try:
        turn_id = (await process.stdout.readline()).decode().strip()
        assert await process.stdout.readline() == b"asked\n"
        yield process, turn_id
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.parametrize("dies", [False, True])
async def test_a_turn_of_another_process_is_followed_to_its_end(tmp_path: Path, dies: bool) -> None:
    async with opened(tmp_path):
        pass
    async with (
        other_process(tmp_path) as (process, turn_id),
        opened(tmp_path, [say("Taken over.")]) as (_, ada),
    ):
        following = ada.events(turn_id)
        heard = [await anext(following) for _ in range(3)]
        resting = asyncio.create_task(collected(following))
        await asyncio.sleep(0.2)
        assert not resting.done()
        if dies:
            process.kill()
        else:
            assert process.stdin is not None
            process.stdin.write(b"\n")
        heard = committed(heard + await resting)
        (turn,) = await ada.turns()
        require_whole(heard, turn)
        assert turn.reply == ("Taken over." if dies else "Done.")


async def test_a_turn_whose_end_could_not_be_stored_is_followed_through_its_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pagedaemon.scheduler.tasks.RETRY", 0.2)
    full = iter([True])
    close_step: Callable[..., Any] = vars(pagedaemon.store.journal)["close_step"]

    def sometimes(tx: Any, turn_id: str, planned: Any, *given: Any, **named: Any) -> None:
        if planned.seq == 2 and next(full, False):
            raise StorageFull("full")
        close_step(tx, turn_id, planned, *given, **named)

    monkeypatch.setattr("pagedaemon.store.journal.close_step", sometimes)
    async with opened(tmp_path, [CHAIN[0], say("Lost."), say("Kept.")]) as (_, ada):
        stream = ada.stream("I like tea.")
        first = await anext(stream)
        following = asyncio.create_task(collected(ada.events(first.turn_id)))
        with pytest.raises(StorageFull):
            await collected(stream)
        heard = committed(await following)
        (turn,) = await ada.turns()
    require_whole(heard, turn)
    assert turn.replies == ("Kept.",)


async def test_a_turn_from_before_events_were_kept_is_told_by_its_steps(tmp_path: Path) -> None:
    async with opened(tmp_path, CHAIN) as (_, ada):
        heard = await collected(ada.stream("Charge order 41."))
    with closing(sqlite3.connect(tmp_path / FILE)) as connection, connection:
        connection.execute("UPDATE turns SET told = NULL")
    async with opened(tmp_path) as (_, ada):
        again = await collected(ada.events(heard[0].turn_id))
    assert again == committed(heard)


async def test_what_is_no_turn_here_and_no_number_is_said_in_words(tmp_path: Path) -> None:
    async with opened(tmp_path, [say("Hello.")]) as (runtime, ada):
        turn = await ada.send("Hello.")
        other = await (await runtime.agents.get("ada")).conversations.ensure("other")
        with pytest.raises(NotFound, match="no turn"):
            await collected(other.events(turn.id))
        with pytest.raises(NotFound, match="no turn"):
            await collected(ada.events("turn-none"))
        with pytest.raises(InvalidInput, match="after"):
            await collected(ada.events(turn.id, after=-1))
    with pytest.raises(Closed):
        await collected(ada.events(turn.id))


async def test_a_runtime_that_closes_lets_go_of_those_who_follow(tmp_path: Path) -> None:
    async with opened(tmp_path):
        pass
    async with other_process(tmp_path) as (_, turn_id):
        async with opened(tmp_path) as (_, ada):
            following = ada.events(turn_id, after=3)
            waiting = asyncio.create_task(collected(following))
            await asyncio.sleep(0.1)
            assert not waiting.done()
        with pytest.raises(Closed):
            await waiting
