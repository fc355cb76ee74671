"""Trying again: where it helps, no oftener than allowed, and told to the listener."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest

from pagedaemon.errors import (
    AuthenticationFailed,
    BadReply,
    ModelError,
    ModelUnavailable,
    QuotaExceeded,
    RateLimited,
    RequestRejected,
)
from pagedaemon.llm.protocol import Part, Reply, Request, Restart, TextPart
from pagedaemon.llm.retrying import LONGEST_WAIT, LONGEST_WAITING, Retrying

if TYPE_CHECKING:
    from pagedaemon.llm.protocol import ChatModel

REQUEST = Request(messages=({"role": "user", "content": "Hi"},))
REPLY = Reply(content="Hello")


class Flaky:
    """Fails with the given errors in turn, then answers. A stream fails after its first part."""

    def __init__(self, *errors: ModelError, silent: bool = False) -> None:
        self.errors = list(errors)
        self.silent = silent
        self.asked = 0
        self.open = 0
        self.closed = False

    async def complete(self, request: Request) -> Reply:
        """The reply, or the next error."""
        assert request is REQUEST
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return REPLY

    async def stream(self, request: Request) -> AsyncIterator[Part]:
        """One part, then the reply or the next error."""
        self.open += 1
        try:
            if not (self.errors and self.silent):
                yield TextPart("Hel")
            yield await self.complete(request)
        finally:
            self.open -= 1

    async def aclose(self) -> None:
        """Remember it."""
        self.closed = True


class Naps:
    """Stands for sleeping, and remembers how long."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


def retrying(model: ChatModel, retries: int = 3) -> tuple[Retrying, Naps]:
    """The model, retried without waiting."""
    naps = Naps()
    return Retrying(model, retries, sleep=naps), naps


async def listened(model: Retrying) -> list[Part]:
    """All parts of a stream."""
    return [part async for part in model.stream(REQUEST)]


async def test_what_may_succeed_later_is_asked_again() -> None:
    flaky = Flaky(ModelUnavailable("down"), RateLimited("busy"))
    model, naps = retrying(flaky)
    assert await model.complete(REQUEST) == REPLY
    assert flaky.asked == 3
    assert len(naps.taken) == 2


@pytest.mark.parametrize(
    "error",
    [
        RequestRejected("no"),
        AuthenticationFailed("no"),
        QuotaExceeded("no"),
        BadReply("no"),
        ModelError("no"),
    ],
)
async def test_what_cannot_succeed_is_asked_once(error: ModelError) -> None:
    flaky = Flaky(error)
    model, naps = retrying(flaky)
    with pytest.raises(type(error)) as caught:
        await model.complete(REQUEST)
    assert caught.value is error
    with pytest.raises(type(error)):
        await listened(retrying(Flaky(error))[0])
    assert flaky.asked == 1
    assert naps.taken == []


@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_after_the_allowed_retries_the_last_error_is_raised_itself(retries: int) -> None:
    errors = [ModelUnavailable(str(number)) for number in range(9)]
    flaky = Flaky(*errors)
    model, naps = retrying(flaky, retries)
    with pytest.raises(ModelUnavailable) as caught:
        await model.complete(REQUEST)
    assert caught.value is errors[retries]
    assert flaky.asked == retries + 1
    assert len(naps.taken) == retries

    flaky = Flaky(*errors)
    with pytest.raises(ModelUnavailable) as caught:
        await listened(retrying(flaky, retries)[0])
    assert caught.value is errors[retries]
    assert flaky.asked == retries + 1


async def test_waits_double_with_a_little_chance_up_to_a_cap() -> None:
    model, naps = retrying(Flaky(*[ModelUnavailable("down")] * 6), 6)
    await model.complete(REQUEST)
    for number, nap in enumerate(naps.taken):
        assert 0.5 * 2**number <= nap <= 0.5 * 2**number + 0.5


async def test_the_time_a_provider_names_is_waited_out() -> None:
    model, naps = retrying(Flaky(RateLimited("busy", retry_after=7.0)))
    await model.complete(REQUEST)
    assert 7.0 <= naps.taken[0] <= 7.5


async def test_a_long_time_is_capped_and_all_waiting_is_bounded() -> None:
    flaky = Flaky(*[RateLimited("busy", retry_after=3_600.0)] * 20)
    model, naps = retrying(flaky, 20)
    with pytest.raises(RateLimited):
        await model.complete(REQUEST)
    assert set(naps.taken) == {LONGEST_WAIT}
    assert sum(naps.taken) == LONGEST_WAITING


async def test_each_call_has_its_own_retries() -> None:
    flaky = Flaky(ModelUnavailable("down"))
    model, naps = retrying(flaky, 1)
    await model.complete(REQUEST)
    flaky.errors = [ModelUnavailable("down")]
    await model.complete(REQUEST)
    assert len(naps.taken) == 2


async def test_a_stream_that_breaks_begins_anew_and_says_so() -> None:
    model, _ = retrying(Flaky(ModelUnavailable("the line is dead")))
    assert await listened(model) == [
        TextPart("Hel"),
        Restart("the line is dead"),
        TextPart("Hel"),
        REPLY,
    ]


async def test_a_stream_that_showed_nothing_has_nothing_to_take_back() -> None:
    model, _ = retrying(Flaky(ModelUnavailable("down"), ModelUnavailable("down"), silent=True))
    assert await listened(model) == [TextPart("Hel"), REPLY]


async def test_a_listener_who_leaves_closes_the_models_stream_at_once() -> None:
    flaky = Flaky()
    model, naps = retrying(flaky)
    async with aclosing(model.stream(REQUEST)) as parts:
        assert await anext(parts) == TextPart("Hel")
        assert flaky.open == 1
    assert flaky.open == 0
    assert naps.taken == []


async def test_closing_goes_through_to_the_model() -> None:
    flaky = Flaky()
    await Retrying(flaky, 1).aclose()
    assert flaky.closed
