"""Looks now and then for turns that nobody works on any more: their process died, or stands still
for longer than its leases last."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from pagedaemon.errors import Closed, StoreError

logger = logging.getLogger("pagedaemon")


class Watch:
    """A look every so often, from `open` to `close`.

    Args:
        seconds: between two looks.
        look: takes up what it finds.
    """

    def __init__(self, seconds: float, look: Callable[[], Awaitable[object]]) -> None:
        self._seconds = seconds
        self._look = look
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Looks from now on."""
        self._task = asyncio.create_task(self._keep_looking())
        self._task.add_done_callback(_over)

    async def close(self) -> None:
        """Looks no more."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            try:
                await self._look()
            except Closed:
                return  # before it comes to `close`
            except StoreError as error:
                logger.warning("turns that nobody works on wait for the store: %s", error)


def _over(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("turns of other processes are no longer watched", exc_info=error)
