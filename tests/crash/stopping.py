"""A turn that is cancelled at one of its places."""

from __future__ import annotations

import asyncio

from tests.crash.charging import AGENT
from tests.crash.look import ACCEPTED, Look
from tests.crash.workload import Workload

PATIENCE = 30.0
"""Seconds that a turn may take to stop, on a machine that is busy with others."""


async def stopped_turn(charging: Workload, *, caller: bool) -> None:
    """The turn, stopped at its place; then, in the same process and with the window it keeps in
    memory, the next message.

    Args:
        caller: the task that sends is cancelled. Otherwise another one calls `cancel`.
    """
    loop = asyncio.get_running_loop()
    stopping: list[asyncio.Task[int]] = []
    points, tell = charging.points, charging.tell
    async with charging.open() as runtime:
        main = await (await runtime.agents.get(AGENT)).conversations.get()

        def stop() -> None:
            if caller:
                sending.cancel()
            else:
                stopping.append(asyncio.create_task(main.cancel()))

        def stop_soon() -> None:
            loop.call_soon_threadsafe(stop)

        points.act = stop_soon
        points.arm()
        sending = asyncio.create_task(main.send(charging.task or ""))
        await asyncio.wait({sending}, timeout=PATIENCE)
        points.disarm()
        if not sending.cancelled():
            tell(ACCEPTED)
            tell(f"stopped: {sending.result().stop_reason}")
        await asyncio.wait_for(asyncio.gather(*stopping), PATIENCE)
        look = Look(charging.store)
        await look.answered(runtime, charging.agents)
        for problem in look.problems:
            tell(f"problem: {problem}")
