"""An agent with one block, over a script."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pagedaemon import AsyncRuntime, Block
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.testing import ScriptedModel


@asynccontextmanager
async def world(
    folder: Path, script: Any = (), *, blocks: Any = (), **changes: Any
) -> AsyncIterator[tuple[AsyncRuntime, AsyncAgent, ScriptedModel]]:
    model = ScriptedModel(script)
    async with AsyncRuntime(folder, model="script", models={"script": model}) as runtime:
        agent = await runtime.agents.ensure(
            "ada",
            blocks=blocks or [Block(label="human", value="Name: Lin", limit=20)],
            **changes,
        )
        yield runtime, agent, model
