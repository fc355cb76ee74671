"""Opens agents whose model follows a script."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.loop.stage import Open, Stage

from pagedaemon import AsyncRuntime, Block
from pagedaemon.testing import (
    FakeClock,
    ScriptedModel,
)
from pagedaemon.tools.tool import Tool


@pytest.fixture
def stage(tmp_path: Path) -> Open:
    """Opens an agent `ada` with one block `human`, whose model follows a script."""

    @asynccontextmanager
    async def opened(
        script: Any,
        *,
        tools: tuple[Tool, ...] = (),
        seed: int = 0,
        clock: FakeClock | None = None,
        **settings: Any,
    ) -> AsyncIterator[Stage]:
        model = ScriptedModel(script, seed=seed)
        async with AsyncRuntime(
            tmp_path,
            model="script",
            models={"script": model},
            clock=clock or FakeClock(),
        ) as runtime:
            agent = await runtime.agents.ensure(
                "ada",
                blocks=[Block(label="human", value="Name: unknown")],
                tools=tools,
                **settings,
            )
            yield Stage(agent, model)

    return opened
