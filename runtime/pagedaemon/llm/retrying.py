"""The one home of trying again: a model that asks another model once more where that can help."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING

from pagedaemon.errors import ModelUnavailable, RateLimited
from pagedaemon.llm.protocol import ChatModel, Part, Reply, Request, Restart

if TYPE_CHECKING:
    from tenacity import AsyncRetrying, RetryCallState

LONGEST_WAIT = 60.0
"""Seconds waited at most before one further try, also where the provider asks for more."""

LONGEST_WAITING = 120.0
"""Seconds waited at most in all tries of one call together."""

_log = logging.getLogger(__name__)


class Retrying:
    """Asks again after `ModelUnavailable` (and so after `RateLimited`), and after nothing else.

    Waits grow by doubling from half a second, with up to half a second of chance added so that many
    clients do not come back at once; a `RateLimited` that names a time is waited out, with the same
    chance added. A wait is at most `LONGEST_WAIT`; a try that would bring the waiting of one call
    above `LONGEST_WAITING` is not made. Then the last error is raised, unchanged.

    Args:
        model: who is asked.
        retries: how often it is asked again, at most.
        sleep: waits that many seconds. Default: `asyncio.sleep`.
    """

    def __init__(
        self,
        model: ChatModel,
        retries: int,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._model = model
        self._retries = retries
        self._sleep = sleep

    async def complete(self, request: Request) -> Reply:
        """The whole reply.

        Raises:
            ModelError: as the model; `ModelUnavailable` after the allowed retries.
        """
        return await attempts(self._retries, self._sleep)(self._model.complete, request)

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """The reply in parts. A further try begins with `Restart` where parts were already shown.

        Raises:
            ModelError: as `complete`.
        """
        failure: ModelUnavailable | None = None
        shown = False
        async for attempt in attempts(self._retries, self._sleep):
            if failure is not None and shown:
                shown = False
                yield Restart(str(failure))
            parts = self._model.stream(request)
            try:
                async for part in parts:
                    shown = True
                    yield part
                return
            except ModelUnavailable as error:
                failure = error
            finally:
                # A listener that goes away must not leave the connection open until the next
                # collection.
                close = getattr(parts, "aclose", None)
                if close is not None:
                    await close()
            # Only this failure is handed to tenacity, which would hold back every exception, also
            # the one that closes this generator.
            with attempt:
                raise failure

    async def aclose(self) -> None:
        """Let go of the model's connections."""
        await self._model.aclose()


def attempts(
    retries: int, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> AsyncRetrying:
    """The tries of one call, waiting as `Retrying` says; for whatever raises `ModelUnavailable`.

    Args:
        retries: how often it is made again, at most.
        sleep: waits that many seconds. Default: `asyncio.sleep`.
    """
    import tenacity

    return tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type(ModelUnavailable),
        wait=_wait(),
        stop=_stop(retries),
        sleep=sleep,
        before_sleep=_tell,
        reraise=True,
    )


def _wait() -> Callable[[RetryCallState], float]:
    import tenacity

    growing = tenacity.wait_exponential(multiplier=0.5, max=LONGEST_WAIT)
    chance = tenacity.wait_random(0, 0.5)

    def wait(state: RetryCallState) -> float:
        error = _error(state)
        named = error.retry_after if isinstance(error, RateLimited) else None
        seconds = growing(state) if named is None else named
        return min(seconds + chance(state), LONGEST_WAIT)

    return wait


def _stop(retries: int) -> Callable[[RetryCallState], bool]:
    def stop(state: RetryCallState) -> bool:
        return (
            state.attempt_number > retries
            or state.idle_for + state.upcoming_sleep > LONGEST_WAITING
        )

    return stop


def _tell(state: RetryCallState) -> None:
    _log.warning(
        "asking the model again in %.1f s (try %d): %s",
        state.upcoming_sleep,
        state.attempt_number + 1,
        _error(state),
    )


def _error(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None
