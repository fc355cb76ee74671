"""Who runs when: what listeners hear, what is kept in memory, and what is let go of."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pagedaemon import AsyncRuntime
from pagedaemon.errors import ConfigError, LeaseLost, StorageUnavailable, StoreError
from pagedaemon.events import Event, HeartbeatEvent, Turn, TurnEnded, TurnStarted
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.messages import Usage
from pagedaemon.scheduler import Running, Scheduler, tasks
from pagedaemon.scheduler.bodies import REMEMBERED
from pagedaemon.store import journal
from pagedaemon.store.journal import Wake
from pagedaemon.store.transaction import Transaction
from pagedaemon.testing import ScriptedModel, say, view

NOW = datetime(2026, 1, 5, tzinfo=UTC)


def turn(identity: str) -> Turn:
    """One that has ended."""
    return Turn(identity, "conversation-1", (), "end_turn", Usage(), NOW, NOW)


def echo(request: Request) -> Reply:
    """Says the user's last line."""
    return say(f"echo {view(request).last_user.split(chr(10))[-1]}")


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[AsyncRuntime]:
    """Open; its model echoes."""
    models = {"echo": ScriptedModel(echo)}
    # Without an embedder, whose own writes would stand in the store's queue now and then.
    async with AsyncRuntime(tmp_path, model="echo", models=models, embedder=None) as runtime:
        yield runtime


async def scheduler_of(runtime: AsyncRuntime) -> Scheduler:
    """The one of the default space."""
    return (await runtime.space("default"))._scheduler


class TestRunning:
    """A turn as its listeners see it."""

    async def _heard(self, running: Running) -> list[Event]:
        return [event async for event in running.events()]

    async def test_every_listener_hears_everything_from_the_first(self) -> None:
        running = Running("turn-1", "conversation-1", taken_up=False)
        told: list[Event] = [
            TurnStarted("turn-1", "conversation-1"),
            HeartbeatEvent("turn-1", "requested"),
        ]
        early = [asyncio.create_task(self._heard(running)) for _ in range(2)]
        for event in told:
            running.tell(event)
            await asyncio.sleep(0)
        late = asyncio.create_task(self._heard(running))
        await asyncio.sleep(0)
        running.tell(TurnEnded("turn-1", turn("turn-1")))
        running.close(None)
        expected = [*told, TurnEnded("turn-1", turn("turn-1"))]
        assert await asyncio.gather(*early, late) == [expected] * 3
        assert await running.result() == turn("turn-1")

    async def test_an_error_comes_after_the_last_event(self) -> None:
        running = Running("turn-1", "conversation-1", taken_up=False)
        running.tell(TurnStarted("turn-1", "conversation-1"))
        running.close(StorageUnavailable("gone"))
        heard = []
        with pytest.raises(StorageUnavailable):  # noqa: PT012
            async for event in running.events():
                heard.append(event)
        assert len(heard) == 1
        with pytest.raises(StorageUnavailable):
            await running.result()
        await running.settled()

    async def test_one_that_is_stopped_before_its_first_step_still_says_how_it_ended(self) -> None:
        running = Running("turn-1", "conversation-1", taken_up=False)

        async def work() -> None:
            try:
                running.begin()
            except asyncio.CancelledError:
                running.tell(TurnEnded("turn-1", turn("turn-1")))
            running.close(None)

        task = asyncio.create_task(work())
        running.runs_as(task)
        # A task that is cancelled here would never run.
        running.stop()
        async with asyncio.timeout(1):
            assert await running.result() == turn("turn-1")
        await task

    async def test_stopping_again_does_not_disturb_its_last_words(self) -> None:
        running = Running("turn-1", "conversation-1", taken_up=False)
        said: list[str] = []

        async def work() -> None:
            running.begin()
            try:
                await asyncio.sleep(10)
            finally:
                await asyncio.sleep(0.01)
                said.append("last words")

        task = asyncio.create_task(work())
        running.runs_as(task)
        for _ in range(3):
            await asyncio.sleep(0)
            running.stop()
        await asyncio.wait([task])
        assert task.cancelled()
        assert said == ["last words"]


class TestStopping:
    """At every moment."""

    async def test_a_turn_stopped_in_its_first_moment_is_ended(self, tmp_path: Path) -> None:
        async def slow(request: Request) -> Reply:
            if view(request).last_user == "hello":
                await asyncio.sleep(30)
            return echo(request)

        models = {"slow": ScriptedModel(slow)}
        async with AsyncRuntime(tmp_path, model="slow", models=models) as runtime:
            ada = await runtime.agents.create("ada")
            main = await ada.conversations.get()
            running = await (await scheduler_of(runtime)).send(main.id, Wake("hello"))
            # Its task has not had its first step yet, or just so.
            await running.cancel()
            assert (await running.result()).stop_reason == "cancelled"
            assert (await ada.send("next")).reply == "echo next"

    async def test_a_stop_that_comes_after_the_last_commit_changes_nothing(
        self, runtime: AsyncRuntime
    ) -> None:
        ada = await runtime.agents.create("ada")
        scheduler = await scheduler_of(runtime)
        write = scheduler.store.write

        def stop() -> None:
            for running in scheduler._tasks.here.values():
                running.stop()

        async def stopped_meanwhile(work: Any) -> Any:
            loop = asyncio.get_running_loop()

            def begun(tx: Transaction) -> Any:
                loop.call_soon_threadsafe(stop)
                return work(tx)

            return await write(begun)

        scheduler.store.write = stopped_meanwhile  # type: ignore[method-assign]
        turn = await ada.send("hello")
        assert (turn.stop_reason, turn.reply) == ("end_turn", "echo hello")
        assert await (await ada.conversations.get()).turns() == [turn]
        assert (await ada.send("next")).stop_reason == "end_turn"

    async def test_cancelling_many_at_once_leaves_none(self, runtime: AsyncRuntime) -> None:
        ada = await runtime.agents.create("ada")
        for _ in range(5):
            sends = [asyncio.create_task(ada.send(f"{number}")) for number in range(6)]
            await asyncio.sleep(0.004)
            await ada.cancel()
            await asyncio.sleep(0)
            for sending in sends:
                sending.cancel()
            await asyncio.wait(sends)
        assert (await ada.send("next")).reply == "echo next"
        messages = await (await ada.conversations.get()).messages()
        assert [message.seq for message in messages] == list(range(1, len(messages) + 1))
        assert (await scheduler_of(runtime))._tasks.here == {}


class TestLeases:
    """How long a conversation is kept."""

    @pytest.mark.parametrize("seconds", [0, 0.05, -1, float("inf"), float("nan"), "30", True, None])
    def test_what_cannot_be_a_lease_is_refused(self, tmp_path: Path, seconds: Any) -> None:
        with pytest.raises(ConfigError, match="lease_seconds is"):
            AsyncRuntime(tmp_path, lease_seconds=seconds)
        assert list(tmp_path.iterdir()) == []

    async def test_only_turns_longer_than_a_third_of_it_renew_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        renewed: list[str] = []

        def counted(*given: Any) -> bool:
            renewed.append(given[2])
            return renew(*given)

        renew = journal.renew
        monkeypatch.setattr(journal, "renew", counted)

        async def reply(request: Request) -> Reply:
            if view(request).last_user == "slow":
                await asyncio.sleep(0.5)
            return echo(request)

        models = {"m": ScriptedModel(reply)}
        async with AsyncRuntime(
            tmp_path, model="m", models=models, embedder=None, lease_seconds=0.6
        ) as runtime:
            ada = await runtime.agents.create("ada")
            await ada.send("quick")
            assert renewed == []
            slow = await ada.send("slow")
            assert renewed == [slow.id] * 2
            await asyncio.sleep(0.4)
            assert len(renewed) == 2

    async def test_a_lease_lost_meanwhile_is_told_and_the_turn_dropped(
        self, tmp_path: Path
    ) -> None:
        asked = asyncio.Event()

        async def slow(request: Request) -> Reply:
            asked.set()
            await asyncio.sleep(30)
            return echo(request)

        models = {"m": ScriptedModel(slow)}
        async with AsyncRuntime(
            tmp_path, model="m", models=models, embedder=None, lease_seconds=0.3
        ) as runtime:
            ada = await runtime.agents.create("ada")
            main = await ada.conversations.get()
            sending = asyncio.create_task(ada.send("hello"))
            await asked.wait()
            store = (await scheduler_of(runtime)).store

            def taken_over(tx: Transaction) -> str:
                head = journal.head(tx, main.id)
                row = journal.first_open_turn(tx, main.id)
                assert head is not None
                assert row is not None
                other = "0" * 32
                journal.take_up(tx, row, other, NOW)
                journal.claim(
                    tx,
                    head,
                    owner=other,
                    seconds=30.0,
                    last_turn=head.last_turn,
                    last_seq=head.last_seq,
                    warned=False,
                )
                return row.id

            turn_id = await store.write(taken_over)
            async with asyncio.timeout(2):
                with pytest.raises(LeaseLost, match="the other worker answers it") as lost:
                    await sending
            assert lost.value.accepted == turn_id


class TestMemory:
    """What a long-lived process holds."""

    async def test_windows_of_only_so_many_conversations_are_kept(
        self, runtime: AsyncRuntime
    ) -> None:
        scheduler = await scheduler_of(runtime)
        ada = await runtime.agents.create("ada")
        conversations = [
            await ada.conversations.ensure(f"number {n}") for n in range(REMEMBERED + 6)
        ]
        for conversation in conversations:
            await conversation.send("hello")
        kept = scheduler.bodies._windows
        assert len(kept) == REMEMBERED
        assert conversations[-1].id in kept
        assert conversations[0].id not in kept
        assert (await conversations[0].send("again")).reply == "echo again"

    async def test_nothing_is_left_of_turns_that_ended_or_agents_that_are_gone(
        self, runtime: AsyncRuntime
    ) -> None:
        scheduler = await scheduler_of(runtime)
        for number in range(5):
            agent = await runtime.agents.create(f"agent {number}")
            await asyncio.gather(*(agent.send(f"{n}") for n in range(4)))
            await agent.reset()
            await agent.delete()
        held: list[Any] = [
            scheduler._tasks.here,
            scheduler._tasks.in_hand,
            scheduler._tasks.given_up,
            scheduler._idle._paused,
            scheduler._news._events,
            scheduler._accepting,
            scheduler.bodies._windows,
            scheduler.bodies._own,
            scheduler.bodies._keys,
        ]
        assert [len(one) for one in held] == [0] * len(held)

    async def test_a_window_changed_by_another_runtime_is_read_anew(
        self, tmp_path: Path, runtime: AsyncRuntime
    ) -> None:
        ada = await runtime.agents.create("ada")
        await ada.send("one")
        models = {"echo": ScriptedModel(echo)}
        async with AsyncRuntime(tmp_path, model="echo", models=models) as other:
            await (await other.agents.get("ada")).send("two")
        await ada.send("three")
        users = [
            m.text for m in await (await ada.conversations.get()).messages() if m.author is None
        ]
        assert [text for text in users if text in ("one", "two", "three")] == [
            "one",
            "two",
            "three",
        ]


class TestStoreErrors:
    """The store fails under a turn."""

    async def test_a_turn_whose_end_could_not_be_stored_is_taken_up_again_by_itself(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tasks, "RETRY", 0.05)
        path = tmp_path / "spaces" / "default" / "space.db"
        blocker: list[sqlite3.Connection] = []

        def reply(request: Request) -> Reply:
            if not blocker:
                # Another program holds the file as the step is to be written.
                blocker.append(sqlite3.connect(path, isolation_level=None, check_same_thread=False))
                blocker[0].execute("BEGIN IMMEDIATE")
            return echo(request)

        models = {"m": ScriptedModel(reply)}
        async with AsyncRuntime(tmp_path, model="m", models=models) as runtime:
            scheduler = await scheduler_of(runtime)
            await scheduler.store.write(lambda tx: tx.space)
            writer = scheduler.store._writer
            assert writer is not None
            raw = writer.connection.driver_connection
            assert isinstance(raw, sqlite3.Connection)
            raw.execute("PRAGMA busy_timeout = 100")
            ada = await runtime.agents.create("ada")
            with pytest.raises(StoreError):
                await ada.send("hello")
            with closing(blocker[0]):
                blocker[0].execute("ROLLBACK")
            main = await ada.conversations.get()
            async with asyncio.timeout(5):
                while not await main.turns():
                    await scheduler._news.of(main.id).wait()
            [ended] = await (await ada.conversations.get()).turns()
            assert (ended.stop_reason, ended.reply) == ("end_turn", "echo hello")
            assert (await ada.send("next")).reply == "echo next"
