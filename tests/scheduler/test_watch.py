"""The look at turns that nobody works on any more."""

from __future__ import annotations

import asyncio

import pytest

from pagedaemon.errors import Closed, StorageUnavailable
from pagedaemon.scheduler.watch import Watch


async def looked(watch: Watch, times: asyncio.Semaphore, *, until: int) -> None:
    """Opens it, and waits for so many looks."""
    watch.open()
    for _ in range(until):
        await asyncio.wait_for(times.acquire(), 10)
    await watch.close()


async def test_a_store_that_fails_is_looked_at_again(caplog: pytest.LogCaptureFixture) -> None:
    times = asyncio.Semaphore(0)

    async def look() -> None:
        times.release()
        raise StorageUnavailable("gone for a moment")

    await looked(Watch(0.001, look), times, until=3)
    assert {record.levelname for record in caplog.records} == {"WARNING"}


async def test_a_look_that_comes_while_the_runtime_closes_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    times = asyncio.Semaphore(0)

    async def look() -> None:
        times.release()
        raise Closed("this runtime was closed")

    await looked(Watch(0.001, look), times, until=1)
    assert caplog.records == []
