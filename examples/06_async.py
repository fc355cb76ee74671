"""The async door: the same names, awaited; several agents and conversations at once."""

from __future__ import annotations

import asyncio
import tempfile

from pagedaemon import AsyncRuntime, Block
from pagedaemon.events import ReplyDelta


async def main() -> None:
    """Three people talk at once; each has a wall of their own."""
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncRuntime(folder, model="offline") as runtime:

            async def meet(name: str, town: str) -> str | None:
                # A space is a wall: the same agent name in each, and nothing seen across.
                space = await runtime.space(name.lower())
                guide = await space.agents.ensure("guide", blocks=[Block.human("Name: unknown")])
                await guide.send(f"Hi, I'm {name}. I live in {town}.")
                return (await guide.send("What do you remember about me?")).reply

            people = [("Lin", "Porto"), ("Mai", "Hanoi"), ("Ole", "Bergen")]
            for reply in await asyncio.gather(*(meet(*person) for person in people)):
                print(reply, "\n")

            # One agent, two conversations: two queues, one memory.
            ada = await runtime.agents.ensure("ada", blocks=[Block.human("Name: unknown")])
            work = await ada.conversations.ensure("work")
            home = await ada.conversations.ensure("home")
            await work.send("I'm Lin. The alarm code is on the fridge.")
            async for event in home.stream("What is my name?"):
                if isinstance(event, ReplyDelta):
                    print(event.text, end="", flush=True)
            print()
            print(await ada.usage())


asyncio.run(main())
