"""Two processes on one folder: agents that both serve, one key, turns that are waited for or
stopped from outside (user cases CO-01, RH-01; faults O3, O4)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pagedaemon import AsyncRuntime, KeyConflict
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import ScriptedModel, say, view

SOURCE = Path(__file__).parents[2] / "runtime"
PATIENCE = 60.0
"""Seconds after which another process counts as stuck."""

CHILD = """
import asyncio, sys
from pathlib import Path
from pagedaemon import AsyncRuntime
from pagedaemon.testing import ScriptedModel, say, view

folder, name = Path(sys.argv[1]), sys.argv[2]

async def answer(request):
    last = view(request).last_user.splitlines()[-1]
    with (folder / "asked").open("a") as asked:
        asked.write(f"{name} {last}\\n")
    while last.startswith("slow") and not (folder / "answer").exists():
        await asyncio.sleep(0.01)
    return say(f"echo {last}")

async def started():
    (folder / f"{name}.ready").touch()
    while not (folder / "go").exists():
        await asyncio.sleep(0.005)

def opened():
    return AsyncRuntime(
        folder / "store", model="m", models={"m": ScriptedModel(answer)}, embedder=None,
        lease_seconds=float(sys.argv[3]),
    )

"""


def answer(request: Request) -> Reply:
    """Says what the user said last."""
    return say(f"here {view(request).last_user.splitlines()[-1]}")


def opened(folder: Path) -> AsyncRuntime:
    """This process's runtime on the same store."""
    models = {"m": ScriptedModel(answer)}
    return AsyncRuntime(
        folder / "store", model="m", models=models, embedder=None, lease_seconds=0.5
    )


class Others:
    """Other processes on the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[subprocess.Popen[str]] = []

    def start(self, name: str, script: str, lease: float = 0.5) -> subprocess.Popen[str]:
        """Starts one, which goes on from `CHILD`, and waits until it is ready.

        Args:
            lease: how long its leases last, in seconds.
        """
        given = (str(self._folder), name, str(lease))
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD + textwrap.dedent(script), *given],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._running.append(child)
        self.appeared(f"{name}.ready")
        return child

    def appeared(self, name: str) -> None:
        """Waits until a file is there."""
        deadline = time.monotonic() + PATIENCE
        while not (self._folder / name).exists():
            assert time.monotonic() < deadline, f"still waiting for {name}"
            time.sleep(0.01)

    def go(self) -> None:
        """Lets them begin."""
        (self._folder / "go").touch()

    def ended(self) -> list[str]:
        """What each printed; one that failed fails the test."""
        printed = []
        for child in self._running:
            out, err = child.communicate(timeout=PATIENCE)
            assert child.returncode == 0, err
            printed.append(out.strip())
        return printed

    def stop(self) -> None:
        """Ends those that are left."""
        for child in self._running:
            child.kill()
            if child.stdout is not None and not child.stdout.closed:
                child.communicate()


@pytest.fixture
def others(tmp_path: Path) -> Iterator[Others]:
    """Other processes on this test's folder."""
    found = Others(tmp_path)
    yield found
    found.stop()


async def test_two_processes_serve_two_agents_and_one_at_once(
    tmp_path: Path, others: Others
) -> None:
    script = """
        async def talk(runtime, agent, channel):
            ada = await runtime.agents.get(agent)
            main = await ada.conversations.get()
            for number in range(6):
                turn = await main.send(f"{name} {channel} {number}")
                assert turn.reply == f"echo {name} {channel} {number}", turn

        async def main():
            async with opened() as runtime:
                await started()
                await asyncio.gather(
                    *(talk(runtime, agent, channel) for agent in ("ada", "bob") for channel in "xy")
                )
        asyncio.run(main())
    """
    async with opened(tmp_path) as runtime:
        agents = [await runtime.agents.create(name) for name in ("ada", "bob")]
        others.start("one", script)
        others.start("two", script)
        others.go()
        await asyncio.to_thread(others.ended)
        for agent in agents:
            main = await agent.conversations.get()
            messages = await main.messages()
            assert [m.kind for m in messages] == ["message", "reply", "result"] * 24
            assert [m.seq for m in messages] == list(range(1, 73))
            for start in range(0, 72, 3):
                assert messages[start + 1].data["said"] == [f"echo {messages[start].text}"]
            for sender in ("one x", "one y", "two x", "two y"):
                mine = [m.text for m in messages if m.text.startswith(sender)]
                assert mine == [f"{sender} {number}" for number in range(6)]
            assert {t.stop_reason for t in await main.turns(limit=100)} == {"end_turn"}


async def test_one_key_from_two_processes_at_once_is_one_turn(
    tmp_path: Path, others: Others
) -> None:
    script = """
        async def main():
            async with opened() as runtime:
                ada = await runtime.agents.get("ada")
                await started()
                turns = await asyncio.gather(*(ada.send("hello", key="k") for _ in range(5)))
                print(*{turn.id for turn in turns}, turns[0].reply)
        asyncio.run(main())
    """
    async with opened(tmp_path) as runtime:
        ada = await runtime.agents.create("ada")
        others.start("one", script)
        others.start("two", script)
        others.go()
        first, second = await asyncio.to_thread(others.ended)
        [turn] = await (await ada.conversations.get()).turns()
        assert first == second == f"{turn.id} echo hello"
        assert await ada.send("hello", key="k") == turn
        with pytest.raises(KeyConflict):
            await ada.send("hello!", key="k")
    assert len((tmp_path / "asked").read_text().splitlines()) == 1


SLOW = """
    async def main():
        async with opened() as runtime:
            ada = await runtime.agents.get("ada")
            handle = await ada.send_later("slow one", key="k")
            await started()
            print((await handle.wait()).stop_reason)
    asyncio.run(main())
"""


async def test_a_turn_is_waited_for_from_another_process(tmp_path: Path, others: Others) -> None:
    async with opened(tmp_path) as runtime:
        main = await (await runtime.agents.create("ada")).conversations.get()
        await asyncio.to_thread(others.start, "one", SLOW)
        others.go()
        [handle] = await main.turns(status="open")
        waiting = asyncio.create_task(handle.wait())
        # Longer than a lease lasts: it is renewed while the model is asked.
        await asyncio.sleep(0.8)
        assert not waiting.done()
        (tmp_path / "answer").touch()
        assert (await waiting).reply == "echo slow one"
        assert await asyncio.to_thread(others.ended) == ["end_turn"]


async def test_a_turn_is_stopped_from_another_process(tmp_path: Path, others: Others) -> None:
    async with opened(tmp_path) as runtime:
        main = await (await runtime.agents.create("ada")).conversations.get()
        await asyncio.to_thread(others.start, "one", SLOW)
        others.go()
        [handle] = await main.turns(status="open")
        async with asyncio.timeout(5):
            assert (await handle.stop()).stop_reason == "cancelled"
        assert await asyncio.to_thread(others.ended) == ["cancelled"]
        assert (await main.send("next")).reply == "here next"


# A dead process's lease needs no waiting, however long it is; a stalled one's has to run out.
@pytest.mark.parametrize(
    ("how", "lease"),
    [(signal.SIGKILL, 10 * PATIENCE), (signal.SIGSTOP, 0.5)],
    ids=["gone", "still"],
)
async def test_a_turn_of_a_process_that_is_gone_or_stands_still_is_answered_by_who_waits(
    tmp_path: Path, others: Others, how: signal.Signals, lease: float
) -> None:
    async with opened(tmp_path) as runtime, asyncio.timeout(PATIENCE):
        ada = await runtime.agents.create("ada")
        child = await asyncio.to_thread(others.start, "one", SLOW, lease)
        await asyncio.to_thread(others.appeared, "asked")
        child.send_signal(how)
        turn = await ada.send("slow one", key="k")
        assert turn.reply == "here slow one"
        assert len(await (await ada.conversations.get()).turns()) == 1
