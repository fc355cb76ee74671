"""A user's own model object: what it raises and gives comes out as a reply or a typed error."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from pagedaemon.config import Model
from pagedaemon.errors import BadReply, ConfigError, ModelUnavailable, NotFound
from pagedaemon.llm.gateway import Connections, connect
from pagedaemon.llm.own import Own
from pagedaemon.llm.protocol import Part, RawCall, Reply, Request, TextPart
from pagedaemon.testing import ScriptedModel

REQUEST = Request(({"role": "user", "content": "Hi"},))


class Told:
    """Gives and raises what it is told to."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts
        self.closed = False

    async def complete(self, request: Request) -> Any:
        """The last of it."""
        if isinstance(self.parts[-1], BaseException):
            raise self.parts[-1]
        return self.parts[-1]

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        """All of it."""
        try:
            for part in self.parts:
                if isinstance(part, BaseException):
                    raise part
                yield part
        finally:
            self.closed = True

    async def aclose(self) -> None:
        """Holds nothing."""


async def whole(model: Any) -> Reply:
    return await Own(model).complete(REQUEST)


async def streamed(model: Any) -> list[Part]:
    return [part async for part in Own(model).stream(REQUEST)]


@pytest.mark.parametrize("ask", [whole, streamed])
@pytest.mark.parametrize(
    "error", [ValueError("odd"), NotFound("odd"), TimeoutError("odd"), OSError("odd")]
)
async def test_an_exception_of_its_own_is_a_bad_reply_with_its_cause(
    ask: Callable[[Any], Any], error: Exception
) -> None:
    with pytest.raises(BadReply, match=f"{type(error).__name__}: odd") as caught:
        await ask(Told(error))
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("ask", [whole, streamed])
@pytest.mark.parametrize(
    "error",
    [
        ModelUnavailable("down"),
        ConfigError("no key"),
        AssertionError("never asked"),
        asyncio.CancelledError(),
    ],
)
async def test_what_says_who_must_act_passes_as_it_is(
    ask: Callable[[Any], Any], error: BaseException
) -> None:
    with pytest.raises(type(error)) as caught:
        await ask(Told(error))
    assert caught.value is error


@pytest.mark.parametrize("ask", [whole, streamed])
@pytest.mark.parametrize(
    "given",
    [None, "hi", Reply(content=None), Reply(calls=(RawCall("a", "b", None),))],  # type: ignore[arg-type]
)
async def test_what_is_no_reply_is_a_bad_one(ask: Callable[[Any], Any], given: object) -> None:
    with pytest.raises(BadReply):
        await ask(Told(given))


async def test_a_part_of_a_reply_is_no_whole_one() -> None:
    with pytest.raises(BadReply, match="TextPart"):
        await whole(Told(TextPart("hi")))


async def test_a_listener_that_goes_away_closes_its_stream() -> None:
    told = Told(TextPart("a"), TextPart("b"), Reply(content="ab"))
    stream = Own(told).stream(REQUEST)
    assert await anext(stream) == TextPart("a")
    await stream.aclose()
    assert told.closed


async def test_what_cannot_be_awaited_says_so_when_it_is_asked() -> None:
    class Late:
        """Its methods are found out only by calling them."""

        complete = functools.partial(Reply)
        stream: Any = functools.partial(list)

    with pytest.raises(BadReply, match="async def"):
        await Own(Late()).complete(REQUEST)  # type: ignore[arg-type]
    with pytest.raises(BadReply, match="async def"):
        await anext(Own(Late()).stream(()))  # type: ignore[arg-type]


def sync(method: str) -> Any:
    """A model of which that method is not asynchronous."""

    def plain(*_: object) -> Reply:
        return Reply()

    return type("Sync", (Told,), {method: plain})(Reply())


def generating(self: object, request: Request) -> Any:
    """What many write in place of an asynchronous generator."""
    yield Reply()


async def returning(self: object, request: Request) -> Any:
    """The same."""
    return [Reply()]


@pytest.mark.parametrize("method", ["complete", "aclose"])
def test_a_model_with_a_method_that_nobody_can_await_is_refused_at_once(method: str) -> None:
    with pytest.raises(ConfigError, match=f"'mine'.*async.*{method}"):
        Connections({"mine": sync(method)})


@pytest.mark.parametrize("stream", [generating, returning])
def test_a_model_whose_stream_is_none_is_refused_at_once(stream: Any) -> None:
    with pytest.raises(ConfigError, match="stream"):
        Connections({"mine": type("Sync", (Told,), {"stream": stream})(Reply())})


def test_decorated_and_scripted_models_are_asynchronous_too() -> None:
    @functools.wraps(Told.complete)
    def traced(self: Any, request: Request) -> Any:
        return Told.complete(self, request)

    traced_model = type("Traced", (Told,), {"complete": traced})(Reply())
    Connections({"one": traced_model, "two": ScriptedModel([])})


async def test_every_model_object_is_held_to_it() -> None:
    with pytest.raises(BadReply, match="odd"):
        await connect(Model("mine"), {"mine": Told(ValueError("odd"))}).complete(REQUEST)
