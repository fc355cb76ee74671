"""What the tests of handles share: a runtime whose model echoes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pagedaemon import AsyncRuntime
from pagedaemon.testing import FakeClock, ScriptedModel, say, view


@pytest.fixture
def clock() -> FakeClock:
    """Frozen."""
    return FakeClock()


@pytest.fixture
def model() -> ScriptedModel:
    """Says what the user said last."""
    return ScriptedModel(lambda request: say(f"echo {view(request).last_user}"))


@pytest.fixture
async def runtime(
    tmp_path: Path, clock: FakeClock, model: ScriptedModel
) -> AsyncIterator[AsyncRuntime]:
    """Open, with that model as its default."""
    async with AsyncRuntime(
        tmp_path, model="echo", models={"echo": model}, clock=clock, embedder=None
    ) as runtime:
        yield runtime
