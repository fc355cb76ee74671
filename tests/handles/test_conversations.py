"""Conversations: several to an agent, one memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pagedaemon import AsyncRuntime, Block, Model
from pagedaemon.errors import InvalidInput, NotFound
from pagedaemon.events import (
    PagedOut,
    ReplyDelta,
    StepFinished,
    StepStarted,
    TurnEnded,
    TurnStarted,
)
from pagedaemon.handles.conversation import AsyncConversation
from pagedaemon.testing import FakeClock, ScriptedModel, say, text, view


class TestNames:
    """Made and found."""

    async def test_every_agent_has_main_and_as_many_others_as_wanted(
        self, runtime: AsyncRuntime, clock: FakeClock
    ) -> None:
        ada = await runtime.agents.create("ada")
        main = await ada.conversations.get()
        assert main.name == "main"
        clock.advance(1)
        other = await ada.conversations.ensure("Büro 🚀")
        assert (await ada.conversations.ensure("Büro 🚀")).id == other.id
        assert (await ada.conversations.get("Büro 🚀")).id == other.id
        assert [one.name for one in await ada.conversations.list()] == ["main", "Büro 🚀"]
        assert other.agent_id == ada.id
        assert repr(other) == f"<conversation 'Büro 🚀' {other.id}>"
        with pytest.raises(NotFound, match="'none'"):
            await ada.conversations.get("none")

    @pytest.mark.parametrize("name", ["", "a\nb", "x" * 201, "\x00", 7])
    async def test_a_name_is_a_line_of_text(self, runtime: AsyncRuntime, name: Any) -> None:
        ada = await runtime.agents.create("ada")
        with pytest.raises(InvalidInput):
            await ada.conversations.ensure(name)
        with pytest.raises(InvalidInput):
            await ada.conversations.get(name)

    async def test_one_name_is_one_conversation_however_it_is_written(
        self, runtime: AsyncRuntime
    ) -> None:
        ada = await runtime.agents.create("ada")
        first = await ada.conversations.ensure(" Cafe\u0301 ")
        assert (await ada.conversations.ensure("Caf\u00e9")).id == first.id
        assert (await ada.conversations.get("Cafe\u0301")).id == first.id
        assert first.name == "Caf\u00e9"


class TestDeleted:
    """What was deleted says so, whatever is asked of it."""

    async def test_a_deleted_conversation_is_not_found(self, runtime: AsyncRuntime) -> None:
        ada = await runtime.agents.create("ada")
        gone = await ada.conversations.ensure("gone")
        await gone.delete()
        await self._all_refuse(gone)

    async def test_the_conversations_of_a_deleted_agent_are_not_found(
        self, runtime: AsyncRuntime
    ) -> None:
        ada = await runtime.agents.create("ada")
        main = await ada.conversations.get()
        await ada.delete()
        await self._all_refuse(main)
        for asked in (
            ada.conversations.list(),
            ada.conversations.get(),
            ada.conversations.ensure("new"),
        ):
            with pytest.raises(NotFound, match="was deleted"):
                await asked

    @staticmethod
    async def _all_refuse(gone: AsyncConversation) -> None:
        for asked in (
            gone.send("hello"),
            gone.heartbeat(),
            gone.messages(),
            gone.summarised(),
            gone.turns(),
            gone.context(),
            gone.cancel(),
            gone.pop(),
            gone.reset(),
        ):
            with pytest.raises(NotFound, match="deleted"):
                await asked


class TestMemory:
    """Windows are apart, memory is shared."""

    async def test_each_has_its_own_window_and_all_share_memory(
        self, runtime: AsyncRuntime, model: ScriptedModel
    ) -> None:
        ada = await runtime.agents.create("ada", blocks=[Block.human("Lin")])
        other = await ada.conversations.ensure("other")
        await ada.send("about harbours")
        await other.send("about lighthouses")
        assert "harbours" not in str(model.requests[1].messages)
        assert view(model.requests[1]).blocks == {"human": "Lin"}
        assert (await ada.recall.search("harbours lighthouses", roles=["user"])).total == 2
        found = await ada.recall.search("lighthouses", conversation_id=other.id, roles=["user"])
        assert [hit.conversation_id for hit in found.hits] == [other.id]

    async def test_reset_empties_the_window_and_keeps_the_rest(
        self, runtime: AsyncRuntime, model: ScriptedModel
    ) -> None:
        ada = await runtime.agents.create("ada", blocks=[Block.human("Lin")])
        await ada.archive.insert("the harbour is deep")
        await ada.send("about harbours")
        assert await ada.reset() == 3
        main = await ada.conversations.get()
        assert await main.messages() == []
        assert (await ada.recall.search("harbours", roles=["user"])).total == 1
        assert await ada.recall.count() == 3
        assert await ada.archive.count() == 1
        assert len(await main.turns()) == 1
        await ada.send("fresh")
        assert "about harbours" not in str(model.requests[1].messages)
        assert view(model.requests[1]).blocks == {"human": "Lin"}
        numbers = [message.seq for message in await main.messages()]
        assert numbers == [4, 5, 6]

    async def test_deleting_one_takes_its_messages_and_leaves_the_others(
        self, runtime: AsyncRuntime
    ) -> None:
        ada = await runtime.agents.create("ada")
        other = await ada.conversations.ensure("other")
        await ada.send("about harbours")
        await other.send("about lighthouses")
        assert await other.delete() == 3
        assert (await ada.recall.search("lighthouses")).total == 0
        assert (await ada.recall.search("harbours", roles=["user"])).total == 1
        assert await ada.recall.count() == 3
        assert [one.name for one in await ada.conversations.list()] == ["main"]
        for work in (other.send("x"), other.delete(), other.reset(), other.context()):
            with pytest.raises(NotFound):
                await work
        with pytest.raises(InvalidInput, match="reset"):
            await (await ada.conversations.get()).delete()


class TestTalking:
    """Sending and streaming."""

    @pytest.mark.parametrize("text", ["", "  \n", "a\x00b", "\ud800", 7, None])
    async def test_what_is_no_text_is_refused_and_not_stored(
        self, runtime: AsyncRuntime, text: Any
    ) -> None:
        ada = await runtime.agents.create("ada")
        with pytest.raises(InvalidInput):
            await ada.send(text)
        with pytest.raises(InvalidInput):
            await anext(ada.stream(text))
        with pytest.raises(InvalidInput):
            await ada.send("hello", author="a\x00")
        assert await ada.recall.count() == 0

    async def test_a_stream_tells_the_turn_in_order(self, runtime: AsyncRuntime) -> None:
        ada = await runtime.agents.create("ada")
        events = [event async for event in ada.stream("hello")]
        kinds = [type(event) for event in events]
        assert kinds[:2] == [TurnStarted, StepStarted]
        assert kinds[-2:] == [StepFinished, TurnEnded]
        assert set(kinds[2:-2]) == {ReplyDelta}
        spoken = "".join(event.text for event in events if isinstance(event, ReplyDelta))
        assert spoken == "echo hello"
        ended = events[-1]
        assert isinstance(ended, TurnEnded)
        [stored] = await (await ada.conversations.get()).turns()
        assert ended.turn == stored

    async def test_a_sent_and_a_stored_turn_are_the_same(self, runtime: AsyncRuntime) -> None:
        ada = await runtime.agents.create("ada")
        sent = [await ada.send("one", author="Lin"), await ada.send("two")]
        main = await ada.conversations.get()
        assert await main.turns() == sent[::-1]
        assert await main.turns(limit=1) == sent[1:]
        with pytest.raises(InvalidInput):
            await main.turns(limit=0)
        assert [m.author for m in await main.messages() if m.role == "user"] == ["Lin", None]

    async def test_the_context_is_what_the_model_is_sent_next(
        self, runtime: AsyncRuntime, model: ScriptedModel
    ) -> None:
        ada = await runtime.agents.create("ada", blocks=[Block.human("Lin")])
        await ada.send("hello")
        report = await ada.context()
        assert report.messages[:2] == model.requests[0].messages
        names = [part.name for part in report.parts]
        assert names == ["instructions", "core memory", "tools", "queue"]
        assert 0 < report.tokens < report.budget < report.window
        assert all(part.tokens > 0 for part in report.parts)
        assert await ada.context() == report
        assert len(model.requests) == 1


async def test_a_summary_tells_which_messages_it_was_made_from(tmp_path: Path) -> None:
    model = ScriptedModel(
        lambda request: text("Of boats.") if request.purpose == "summary" else say("Noted."),
        usage=None,
    )
    small = Model("m", context_window=6_256, max_output_tokens=256)
    async with AsyncRuntime(tmp_path, model=small, models={"m": model}) as runtime:
        ada = await runtime.agents.create("ada", instructions="Be brief.")
        main = await ada.conversations.get()
        await ada.send("one")
        assert await main.summarised() == []
        folds = 0
        while folds < 2:
            events = [event async for event in ada.stream("boat " * 60)]
            folds += sum(isinstance(event, PagedOut) for event in events)
        made_from, window = await main.summarised(), await main.messages()
        (summary,) = [message for message in window if message.kind == "summary"]
        assert made_from[0].text == "one"
        assert len(made_from) == summary.data["messages"]
        shown = {message.seq for message in window}
        numbers = [message.seq for message in made_from]
        assert numbers == sorted(set(numbers) - shown)
        await ada.reset()
        assert await main.summarised() == []


async def test_the_model_reads_who_speaks(tmp_path: Path) -> None:
    model = ScriptedModel([say("Hello Mai."), say("Hello.")])
    async with AsyncRuntime(tmp_path, model="m", models={"m": model}) as runtime:
        agent = await runtime.agents.ensure("ada")
        await agent.send("Who am I?", author="Mai")
        await agent.send("And I?")
        with pytest.raises(InvalidInput, match="one line"):
            await agent.send("hi", author="Mai\nSystem")
    first, last = (str(request.messages[-1]["content"]) for request in model.requests)
    assert "from Mai" in first
    assert "from" not in last.split("[status", 1)[1]
