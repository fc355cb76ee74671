"""Taking the last exchange back out of the window: recall and memory keep it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pagedaemon import AsyncRuntime, Block, Model, NotFound
from pagedaemon.config import Paging
from pagedaemon.events import PagedOut
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.messages import Kind, Message, Role
from pagedaemon.store.conversations import last_exchange
from pagedaemon.testing import ScriptedModel, call, say, text, view

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def kinds(messages: list[Message]) -> list[str]:
    return [message.kind for message in messages]


async def test_the_exchange_leaves_the_window_and_nothing_else(
    runtime: AsyncRuntime, model: ScriptedModel
) -> None:
    ada = await runtime.agents.create("ada")
    await ada.send("about harbours")
    await ada.send("about lighthouses")
    main = await ada.conversations.get()
    before = await main.messages()
    gone = await ada.pop()
    assert gone == before[3:]
    assert kinds(gone) == ["message", "reply", "result"]
    assert await main.messages() == before[:3]
    assert (await ada.recall.search("lighthouses", roles=["user"])).total == 1
    assert await ada.recall.count() == 6
    assert len(await main.turns()) == 2
    await ada.send("fresh")
    assert "about harbours" in str(model.requests[-1].messages)
    assert "lighthouses" not in str(model.requests[-1].messages)
    assert [message.seq for message in await main.messages()] == [1, 2, 3, 7, 8, 9]


async def test_each_pop_takes_the_exchange_before_until_none_is_left(runtime: AsyncRuntime) -> None:
    ada = await runtime.agents.create("ada")
    assert await ada.pop() == []
    for word in ("one", "two"):
        await ada.send(word)
    assert [(await ada.pop())[0].text for _ in range(2)] == ["two", "one"]
    assert await ada.pop() == []
    assert (await ada.send("three")).reply == "echo three"


async def test_all_steps_of_the_turn_go_and_its_edits_stay(tmp_path: Path) -> None:
    model = ScriptedModel(
        [
            say("Hello."),
            call("core_memory_append", label="human", content="Likes tea.", heartbeat=True),
            call("core_memory_append", label="none", content="Likes tea."),
            say("Noted."),
            say("Hello again."),
        ]
    )
    async with AsyncRuntime(tmp_path, model="m", models={"m": model}) as runtime:
        ada = await runtime.agents.create("ada", blocks=[Block.human("Lin.")])
        await ada.send("hello")
        await ada.send("I like tea.")
        pair = ["reply", "result"]
        assert kinds(await ada.pop()) == ["message", *pair, "heartbeat", *pair, "heartbeat", *pair]
        assert (await ada.blocks.get("human")).value == "Lin.\nLikes tea."
        await ada.send("hello?")
    assert view(model.requests[-1]).blocks == {"human": "Lin.\nLikes tea."}
    assert view(model.requests[-1]).events == ()


async def test_a_heartbeat_is_an_exchange_of_its_own(runtime: AsyncRuntime) -> None:
    ada = await runtime.agents.create("ada")
    await ada.send("hello")
    await ada.heartbeat()
    assert kinds(await ada.pop()) == ["heartbeat", "reply", "result"]
    assert (await ada.pop())[0].text == "hello"


async def test_an_unanswered_message_goes_too(tmp_path: Path) -> None:
    asked, never = asyncio.Event(), asyncio.Event()

    async def mute(request: Request) -> Reply:
        if view(request).last_user != "anyone there?":
            return say("Hello.")
        asked.set()
        await never.wait()
        return say("at last")

    model = ScriptedModel(mute)
    async with AsyncRuntime(tmp_path, model="m", models={"m": model}) as runtime:
        ada = await runtime.agents.create("ada")
        sending = asyncio.create_task(ada.send("anyone there?"))
        await asked.wait()
        await ada.cancel()
        assert (await sending).stop_reason == "cancelled"
        assert kinds(await ada.pop()) == ["message"]
        assert (await ada.send("hello")).reply == "Hello."
        assert "anyone" not in str(model.requests[-1].messages)


async def test_it_waits_for_the_turn_that_runs(tmp_path: Path) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Reply:
        asked.set()
        await answer.wait()
        return say("at last")

    async with AsyncRuntime(tmp_path, model="m", models={"m": ScriptedModel(slow)}) as runtime:
        ada = await runtime.agents.create("ada")
        sending = asyncio.create_task(ada.send("hello"))
        await asked.wait()
        popping = asyncio.create_task(ada.pop())
        await asyncio.sleep(0.05)
        assert not popping.done()
        answer.set()
        assert (await sending).reply == "at last"
        assert kinds(await popping) == ["message", "reply", "result"]


async def test_a_summary_stays_and_so_does_what_it_stands_for(tmp_path: Path) -> None:
    def answer(request: Request) -> Reply:
        if request.purpose == "summary":
            return text("They spoke of boats.")
        return say("Noted.")

    model = ScriptedModel(answer, usage=None)
    small = Model("m", context_window=6_256, max_output_tokens=256)
    async with AsyncRuntime(tmp_path, model=small, models={"m": model}) as runtime:
        ada = await runtime.agents.create("ada", instructions="Be brief.")
        main = await ada.conversations.get()
        for number in range(80):
            events = [event async for event in ada.stream(f"{number}: " + "boat " * 60)]
            if any(isinstance(event, PagedOut) for event in events):
                break
        assert kinds(await main.messages()).count("summary") == 1
        while await main.pop():
            await ada.heartbeat()
            await main.pop()
        assert kinds(await main.messages()) == ["summary"]
        assert await main.pop() == []
        await ada.send("fresh")
    shown = str(model.requests[-1].messages[1]["content"])
    assert "They spoke of boats." in shown
    assert "fresh" in shown


async def test_what_was_pinned_goes_unpinned(tmp_path: Path) -> None:
    model = ScriptedModel([call("pin", message=1, pinned=True, heartbeat=True), say("Pinned.")])
    async with AsyncRuntime(tmp_path, model="m", models={"m": model}) as runtime:
        ada = await runtime.agents.create("ada")
        await ada.send("Remember this.")
        main = await ada.conversations.get()
        assert (await main.messages())[0].pinned
        gone = await main.pop()
        assert not gone[0].pinned
        assert await main.messages() == []


async def test_an_agent_whose_alert_was_taken_out_is_warned_anew(tmp_path: Path) -> None:
    alerts: list[bool] = []

    def answer(request: Request) -> Reply:
        alerts.append("system_alert" in str(request.messages[-1]["content"]))
        return say("Noted.")

    model = ScriptedModel(answer, usage=None)
    small = Model("m", context_window=6_256, max_output_tokens=256)
    async with AsyncRuntime(tmp_path, model=small, models={"m": model}) as runtime:
        ada = await runtime.agents.create(
            "ada", instructions="Be brief.", paging=Paging(warn=0.6, evict=0.95)
        )
        while not any(alerts):
            await ada.send("boat " * 100)
        assert "alert" in kinds(await ada.pop())
        alerts.clear()
        while not any(alerts):
            assert len(alerts) < 3
            await ada.send("boat " * 100)


async def test_a_conversation_that_is_gone_has_nothing_to_take_out(runtime: AsyncRuntime) -> None:
    ada = await runtime.agents.create("ada")
    other = await ada.conversations.ensure("other")
    await other.delete()
    with pytest.raises(NotFound):
        await other.pop()


class TestLastExchange:
    """Which messages it is, in windows that page-outs and pins have left."""

    def _message(self, seq: int, turn: int, role: Role, kind: Kind) -> Message:
        step = None if kind == "message" else f"step-{turn}"
        return Message(
            f"message-{seq}", seq, role, kind, "x", NOW, turn_id=f"turn-{turn}", step_id=step
        )

    def test_the_rest_of_a_turn_is_not_joined_by_another(self) -> None:
        pinned = replace(self._message(3, 1, "user", "message"), pinned=True)
        rest = [self._message(20, 9, "assistant", "reply"), self._message(21, 9, "tool", "result")]
        summary = replace(self._message(22, 9, "user", "summary"), turn_id=None, step_id=None)
        assert last_exchange([summary, pinned, *rest]) == rest
        assert last_exchange([pinned, *rest, summary]) == rest
        assert last_exchange([summary, pinned]) == [pinned]
        assert last_exchange([summary]) == []

    def test_messages_that_no_turn_is_known_of_are_told_apart_by_who_spoke(self) -> None:
        talk: list[Message] = []
        for seq in (1, 3):
            talk += [
                self._message(seq, 1, "user", "message"),
                self._message(seq + 1, 1, "assistant", "reply"),
            ]
        talk = [replace(message, turn_id=None, step_id=None) for message in talk]
        assert last_exchange(talk) == talk[2:]
        assert last_exchange(talk[:2]) == talk[:2]
