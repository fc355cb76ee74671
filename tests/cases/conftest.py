"""Opens the agent that the cases of bad models are about, and the folder that processes share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cases.children import Children
from tests.cases.weather import RAN, Open, weather

from pagedaemon import AsyncRuntime, Block, Model
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.testing import (
    FakeClock,
)
from pagedaemon.tools.tool import Tool


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """Opens the agent `ada` over a model; the store stays between two openings."""
    RAN.clear()

    @asynccontextmanager
    async def open_agent(
        model: Any,
        *,
        tools: tuple[Tool, ...] = (weather,),
        retries: int = 0,
        folder: str = "store",
        **settings: Any,
    ) -> AsyncIterator[AsyncAgent]:
        async with AsyncRuntime(
            tmp_path / folder,
            model=Model("script", retries=retries),
            models={"script": model},
            tools=tools,
            clock=FakeClock(),
        ) as runtime:
            yield await runtime.agents.ensure(
                "ada", blocks=[Block(label="human")], tools=tools, **settings
            )

    return open_agent


@pytest.fixture
def children(tmp_path: Path) -> Children:
    """Processes on this test's folder."""
    return Children(tmp_path)
