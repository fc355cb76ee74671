"""What rooms of models share: an endpoint on this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.llm.endpoint import Endpoint, listening


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    """The endpoint, listening while the test runs."""
    async with listening() as served:
        yield served
