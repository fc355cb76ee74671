"""Sends with a key, and turns that nobody waits for."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pagedaemon import AsyncRuntime, Block, Image, KeyConflict, Model, ToolContext, tool
from pagedaemon.errors import Closed, ConfigError, InvalidInput, ModelError, NotFound
from pagedaemon.events import TurnEnded, TurnStarted
from pagedaemon.handles.conversation import AsyncConversation
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import ScriptedModel, call, say, view


def dot() -> Image:
    """A picture of one black dot."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        size, check = len(data).to_bytes(4, "big"), zlib.crc32(kind + data).to_bytes(4, "big")
        return size + kind + data + check

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    rows = chunk(b"IDAT", zlib.compress(b"\x00\x00"))
    return Image.from_bytes(b"\x89PNG\r\n\x1a\n" + head + rows + chunk(b"IEND", b""))


class Gate:
    """A model that echoes, and answers what begins with `slow` only once it is let through."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.opened = asyncio.Event()
        self.model = ScriptedModel(self._answer)

    async def _answer(self, request: Request) -> Reply:
        last = (view(request).last_user.splitlines() or [""])[-1]
        if last.startswith("slow"):
            self.asked.set()
            await self.opened.wait()
        if last.startswith("fail"):
            raise ModelError("the model is out")
        return say(f"echo {last}")


@dataclass
class Desk:
    """An open runtime with an agent."""

    store: Path
    gate: Gate
    runtime: AsyncRuntime
    main: AsyncConversation


def opened(store: Path, gate: Gate, *, recover: bool = True) -> AsyncRuntime:
    """A runtime on that folder with that model."""
    return AsyncRuntime(
        store,
        model="m",
        models={"m": gate.model},
        recover=recover,
        lease_seconds=0.5,
        embedder=None,
    )


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """Open, with an agent that has heard nothing yet."""
    gate = Gate()
    async with opened(tmp_path, gate) as runtime:
        ada = await runtime.agents.create("ada")
        yield Desk(tmp_path, gate, runtime, await ada.conversations.get())


async def words_of(conversation: AsyncConversation) -> list[str]:
    """What the user has said."""
    return [
        m.text
        for m in await conversation.messages()
        if m.kind == "message" and m.role != "assistant"
    ]


class TestKeys:
    """The same key gives the same turn."""

    async def test_the_same_message_sent_again_is_the_same_turn(self, desk: Desk) -> None:
        first = await desk.main.send("hello", key="m-1")
        assert await desk.main.send("hello", key="m-1") == first
        assert await desk.main.turns() == [first]
        assert len(desk.gate.model.requests) == 1

    async def test_it_is_the_same_for_ever(self, desk: Desk) -> None:
        first = await desk.main.send("hello", key="m-1")
        await desk.main.send("and then?")
        await desk.main.reset()
        await desk.runtime.close()
        async with opened(desk.store, desk.gate) as again:
            ada = await again.agents.get("ada")
            assert await ada.send("hello", key="m-1") == first

    async def test_while_the_turn_runs_a_second_sender_waits_for_its_end(self, desk: Desk) -> None:
        sends = [asyncio.create_task(desk.main.send("slow one", key="k")) for _ in range(5)]
        await desk.gate.asked.wait()
        sends.append(asyncio.create_task(desk.main.send("slow one", key="k")))
        await asyncio.sleep(0.02)
        desk.gate.opened.set()
        turns = await asyncio.gather(*sends)
        assert len({turn.id for turn in turns}) == 1
        assert turns[0].reply == "echo slow one"
        assert len(desk.gate.model.requests) == 1
        assert len(await desk.main.turns()) == 1

    async def test_one_that_waits_for_its_place_is_found_too(self, desk: Desk) -> None:
        busy = asyncio.create_task(desk.main.send("slow one"))
        await desk.gate.asked.wait()
        sends = [asyncio.create_task(desk.main.send("next", key="k")) for _ in range(3)]
        await asyncio.sleep(0.05)
        desk.gate.opened.set()
        assert {turn.reply for turn in await asyncio.gather(*sends)} == {"echo next"}
        assert (await busy).reply == "echo slow one"
        assert len(await desk.main.turns()) == 2

    @pytest.mark.parametrize("what", ["content", "author", "type", "picture", "heartbeat"])
    async def test_another_message_under_the_key_is_refused(self, desk: Desk, what: str) -> None:
        first = await desk.main.send("5", key="k")
        with pytest.raises(KeyConflict, match="stands for another message") as refused:  # noqa: PT012
            if what == "content":
                await desk.main.send("6", key="k")
            elif what == "author":
                await desk.main.send("5", author="Lin", key="k")
            elif what == "type":
                await desk.main.send("5", reply_type=int, key="k")
            elif what == "picture":
                await desk.main.send(["5", dot()], key="k")
            else:
                await desk.main.heartbeat(key="k")
        assert (refused.value.key, refused.value.turn_id) == ("k", first.id)
        assert await desk.main.turns() == [first]

    async def test_another_conversation_has_keys_of_its_own(self, desk: Desk) -> None:
        ada = await desk.runtime.agents.get("ada")
        side = await ada.conversations.ensure("side")
        first = await desk.main.send("hello", key="k")
        second = await side.send("something else", key="k")
        assert first.id != second.id

    async def test_a_picture_sent_again_is_the_same_message(self, tmp_path: Path) -> None:
        gate = Gate()
        model = Model("m", vision=True)
        async with AsyncRuntime(
            tmp_path, model=model, models={"m": gate.model}, embedder=None
        ) as runtime:
            ada = await runtime.agents.create("ada")
            first = await ada.send(["what is it?", dot()], key="k")
            assert await ada.send(["what is it?", dot()], key="k") == first

    async def test_a_turn_that_ended_with_an_error_is_an_error_again(self, desk: Desk) -> None:
        for _ in range(2):
            with pytest.raises(ModelError, match="the model is out"):
                await desk.main.send("fail", key="k")
        [turn] = await desk.main.turns()
        assert turn.stop_reason == "error"
        assert len(desk.gate.model.requests) == 1
        assert (await desk.main.send("fine", key="another")).reply == "echo fine"

    async def test_a_caller_that_is_cancelled_only_stops_waiting(self, desk: Desk) -> None:
        sending = asyncio.create_task(desk.main.send("slow one", key="k"))
        await desk.gate.asked.wait()
        sending.cancel()
        await asyncio.wait([sending])
        desk.gate.opened.set()
        assert (await desk.main.send("slow one", key="k")).reply == "echo slow one"

    async def test_a_stream_with_a_key_is_told_again_whole(self, desk: Desk) -> None:
        first = [event async for event in desk.main.stream("hello", key="k")]
        again = [event async for event in desk.main.stream("hello", key="k")]
        assert isinstance(again[0], TurnStarted)
        assert isinstance(again[-1], TurnEnded)
        assert again == [event for event in first if event.number is not None]

    async def test_a_typed_reply_is_typed_again(self, desk: Desk) -> None:
        model = ScriptedModel([say("41")])
        async with AsyncRuntime(
            desk.store, model="n", models={"n": model}, embedder=None
        ) as runtime:
            bob = await runtime.agents.create("bob")
            for _ in range(2):
                assert (await bob.send("how many?", reply_type=int, key="k")).value == 41

    async def test_a_heartbeat_with_a_key_wakes_the_agent_once(self, desk: Desk) -> None:
        first = await desk.main.heartbeat(key="tidy")
        assert await desk.main.heartbeat(key="tidy") == first
        assert len(desk.gate.model.requests) == 1

    @pytest.mark.parametrize("key", ["", "  ", "a\nb", "a\x00b", "x" * 201, 5, "\ud800"])
    async def test_what_cannot_be_a_key_is_refused(self, desk: Desk, key: object) -> None:
        with pytest.raises(InvalidInput, match="key"):
            await desk.main.send("hello", key=key)  # type: ignore[call-overload]
        assert await desk.main.messages() == []

    async def test_two_runtimes_at_once_say_it_once(self, desk: Desk) -> None:
        async with opened(desk.store, desk.gate) as second:
            other = await (await second.agents.get("ada")).conversations.get()
            sends = [one.send("hello", key="k") for one in (desk.main, other) * 5]
            turns = await asyncio.gather(*sends)
        assert len({turn.id for turn in turns}) == 1
        assert len(await desk.main.turns()) == 1
        assert len(desk.gate.model.requests) == 1

    async def test_a_closed_runtime_leaves_it_to_the_next(self, desk: Desk) -> None:
        sending = asyncio.create_task(desk.main.send("slow one", key="k"))
        await desk.gate.asked.wait()
        await desk.runtime.close()
        with pytest.raises(Closed, match="taken up again"):
            await sending
        desk.gate.opened.set()
        async with opened(desk.store, desk.gate) as again:
            ada = await again.agents.get("ada")
            assert (await ada.send("slow one", key="k")).reply == "echo slow one"
            assert len(await (await ada.conversations.get()).turns()) == 1


class TestLater:
    """Turns that nobody waits for."""

    async def test_it_is_acknowledged_before_it_is_answered(self, desk: Desk) -> None:
        handle = await desk.main.send_later("slow one")
        await desk.gate.asked.wait()
        assert (await handle.status()).state == "running"
        assert await desk.main.turns() == []
        desk.gate.opened.set()
        turn = await handle.wait()
        assert (turn.id, turn.reply) == (handle.id, "echo slow one")
        status = await handle.status()
        assert (status.state, status.stop_reason, status.error) == ("done", "end_turn", None)
        assert status.ended_at == turn.ended_at
        assert await desk.main.turns() == [turn]

    async def test_open_turns_are_listed_newest_first(self, desk: Desk) -> None:
        handles = [await desk.main.send_later(f"slow {number}") for number in range(3)]
        await desk.gate.asked.wait()
        listed = [one.id for one in await desk.main.turns(status="open")]
        assert listed == [one.id for one in reversed(handles)]
        assert [one.id for one in await desk.main.turns(status="running")] == listed[2:]
        assert [one.id for one in await desk.main.turns(status="queued")] == listed[:2]
        assert [one.id for one in await desk.main.turns(status="open", limit=1)] == listed[:1]
        desk.gate.opened.set()
        turns = [await one.wait() for one in handles]
        assert [turn.reply for turn in turns] == [f"echo slow {n}" for n in range(3)]
        assert await desk.main.turns(status="open") == []

    async def test_waiting_no_longer_than_asked(self, desk: Desk) -> None:
        handle = await desk.main.send_later("slow one")
        for timeout in (0, 0.05):
            with pytest.raises(TimeoutError):
                await handle.wait(timeout=timeout)
        desk.gate.opened.set()
        assert (await handle.wait(timeout=5)).reply == "echo slow one"
        # What has ended needs no time: 0 is a look.
        for timeout in (0, 1e-9):
            assert (await handle.wait(timeout=timeout)).reply == "echo slow one"
        for wrong in (-1, 10**400, float("nan")):
            with pytest.raises(InvalidInput, match="timeout"):
                await handle.wait(timeout=wrong)

    async def test_one_that_runs_is_stopped(self, desk: Desk) -> None:
        handle = await desk.main.send_later("slow one")
        await desk.gate.asked.wait()
        assert (await handle.stop()).stop_reason == "cancelled"
        assert (await handle.status()).stop_reason == "cancelled"
        assert (await handle.stop()).stop_reason == "cancelled"
        assert (await desk.main.send("next")).reply == "echo next"

    async def test_one_that_waits_is_withdrawn(self, desk: Desk) -> None:
        first = await desk.main.send_later("slow one")
        second = await desk.main.send_later("never mind")
        await desk.gate.asked.wait()
        assert (await second.stop()).steps == ()
        desk.gate.opened.set()
        assert (await first.wait()).stop_reason == "end_turn"
        assert await words_of(desk.main) == ["slow one"]

    async def test_stopping_what_has_ended_changes_nothing(self, desk: Desk) -> None:
        turn = await desk.main.send("hello")
        assert await (await desk.main.turn(turn.id)).stop() == turn

    async def test_an_error_is_a_way_to_end_and_is_not_raised(self, desk: Desk) -> None:
        handle = await desk.main.send_later("fail")
        turn = await handle.wait()
        assert (turn.stop_reason, turn.error) == ("error", "the model is out")
        assert (await handle.status()).error == "the model is out"

    async def test_a_key_finds_the_same_turn(self, desk: Desk) -> None:
        first = await desk.main.send_later("hello", key="k")
        second = await desk.main.send_later("hello", key="k")
        assert first.id == second.id
        assert await desk.main.send("hello", key="k") == await first.wait()

    async def test_what_a_closed_runtime_left_is_answered_by_the_next(self, desk: Desk) -> None:
        handles = [await desk.main.send_later(f"slow {number}") for number in range(3)]
        await desk.gate.asked.wait()
        waiting = asyncio.create_task(handles[0].wait())
        await asyncio.sleep(0.02)
        await desk.runtime.close()
        with pytest.raises(Closed):
            await waiting
        desk.gate.opened.set()
        async with opened(desk.store, desk.gate) as again:
            main = await (await again.agents.get("ada")).conversations.get()
            turns = [await (await main.turn(one.id)).wait(timeout=5) for one in handles]
            assert [turn.reply for turn in turns] == [f"echo slow {n}" for n in range(3)]
            assert await words_of(main) == ["slow 0", "slow 1", "slow 2"]

    async def test_a_turn_of_another_conversation_is_not_found(self, desk: Desk) -> None:
        turn = await desk.main.send("hello")
        side = await (await desk.runtime.agents.get("ada")).conversations.ensure("side")
        for conversation, turn_id in ((side, turn.id), (desk.main, "turn-0")):
            with pytest.raises(NotFound, match="has no turn"):
                await conversation.turn(turn_id)

    async def test_an_unknown_status_is_refused(self, desk: Desk) -> None:
        with pytest.raises(InvalidInput, match="queued, running, open, done"):
            await desk.main.turns(status="failed")  # type: ignore[call-overload]

    async def test_a_tool_may_not_wait_for_its_own_turn(self, tmp_path: Path) -> None:
        @tool(effect="read")
        async def stuck(ctx: ToolContext) -> str:
            """Waits for itself."""
            agent: object = ctx.agent
            assert agent is not None
            conversation = ctx.conversation
            assert isinstance(conversation, AsyncConversation)
            handle = await conversation.turn(ctx.turn_id)
            with pytest.raises(ConfigError):
                await handle.wait()
            with pytest.raises(ConfigError):
                await handle.stop()
            return (await handle.status()).state

        model = ScriptedModel([call("stuck", heartbeat=True), say("done")])
        async with AsyncRuntime(tmp_path, model="m", models={"m": model}, embedder=None) as runtime:
            ada = await runtime.agents.create("ada", tools=[stuck])
            turn = await ada.send("go")
        assert turn.steps[0].calls[0].result == "running"


class TestFromAnotherRuntime:
    """The turn runs in one, and another one has opened the same folder."""

    async def test_its_end_is_waited_for(self, desk: Desk) -> None:
        handle = await desk.main.send_later("slow one")
        await desk.gate.asked.wait()
        async with opened(desk.store, desk.gate) as second:
            other = await (await second.agents.get("ada")).conversations.get()
            waiting = asyncio.create_task((await other.turn(handle.id)).wait())
            await asyncio.sleep(0.7)
            assert not waiting.done()
            desk.gate.opened.set()
            assert (await waiting).reply == "echo slow one"
        assert len(desk.gate.model.requests) == 1

    async def test_it_is_stopped_while_its_model_is_asked(self, desk: Desk) -> None:
        handle = await desk.main.send_later("slow one")
        await desk.gate.asked.wait()
        async with opened(desk.store, desk.gate) as second:
            other = await (await second.agents.get("ada")).conversations.get()
            async with asyncio.timeout(3):
                turn = await (await other.turn(handle.id)).stop()
        assert turn.stop_reason == "cancelled"
        assert await handle.wait() == turn

    async def test_it_is_stopped_at_its_next_step(self, tmp_path: Path) -> None:
        began, go_on = asyncio.Event(), asyncio.Event()

        async def chain(request: Request) -> Reply:
            began.set()
            await go_on.wait()
            return call("core_memory_append", label="human", content="x", heartbeat=True)

        models = {"m": ScriptedModel(chain)}
        async with (
            AsyncRuntime(tmp_path, model="m", models=models, embedder=None) as first,
            AsyncRuntime(tmp_path, model="m", models=models, embedder=None) as second,
        ):
            await first.agents.create("ada", blocks=[Block.human("")])
            main = await (await first.agents.get("ada")).conversations.get()
            handle = await main.send_later("go")
            await began.wait()
            other = await (await second.agents.get("ada")).conversations.get()
            stopping = asyncio.create_task((await other.turn(handle.id)).stop())
            for _ in range(300):
                if (await handle.status()).stopping:
                    break
                await asyncio.sleep(0.01)
            go_on.set()
            async with asyncio.timeout(3):
                turn = await stopping
        assert turn.stop_reason == "cancelled"
        assert len(turn.steps) == 1

    async def test_one_that_waits_there_is_withdrawn(self, desk: Desk) -> None:
        first = await desk.main.send_later("slow one")
        second_handle = await desk.main.send_later("never mind")
        await desk.gate.asked.wait()
        async with opened(desk.store, desk.gate) as second:
            other = await (await second.agents.get("ada")).conversations.get()
            turn = await (await other.turn(second_handle.id)).stop()
            assert turn.stop_reason == "cancelled"
        desk.gate.opened.set()
        assert (await first.wait()).reply == "echo slow one"
        assert await second_handle.wait() == turn

    async def test_what_a_dead_runtime_left_is_answered_by_who_waits(self, desk: Desk) -> None:
        handle = await desk.main.send_later("slow one")
        await desk.gate.asked.wait()
        async with opened(desk.store, desk.gate, recover=False) as second:
            await desk.runtime.close()
            desk.gate.opened.set()
            other = await (await second.agents.get("ada")).conversations.get()
            async with asyncio.timeout(3):
                turn = await (await other.turn(handle.id)).wait()
        assert turn.reply == "echo slow one"

    async def test_an_open_runtime_answers_it_though_nobody_waits(self, desk: Desk) -> None:
        handle = await desk.main.send_later("slow one")
        await desk.gate.asked.wait()
        async with opened(desk.store, desk.gate) as second:
            await desk.runtime.close()
            desk.gate.opened.set()
            other = await (await second.agents.get("ada")).conversations.get()
            ended = await other.turns()
            for _ in range(60):
                if ended:
                    break
                await asyncio.sleep(0.05)
                ended = await other.turns()
            [turn] = ended
        assert (turn.id, turn.reply) == (handle.id, "echo slow one")
