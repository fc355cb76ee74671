"""A user's own model object, held to the protocol: whatever it raises or gives, what comes out is a
reply or a typed error."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import get_args

from pagedaemon.errors import BadReply, ConfigError, ModelError
from pagedaemon.llm.protocol import (
    CallPart,
    ChatModel,
    Part,
    RawCall,
    ReasoningPart,
    Reply,
    Request,
    TextPart,
)
from pagedaemon.llm.wrapping import Wrapping

_PARTS = get_args(Part)


class Own(Wrapping):
    """Asks a model that others wrote.

    An exception of its own becomes `BadReply` with that as its cause, so that one rule holds for
    all models: a step ends typed, and a summary is written without it. As they are pass
    `ModelError`s, `ConfigError`s (somebody has to set something right) and `AssertionError`s (a
    double in a test says that it was asked what it should not be).
    """

    async def complete(self, request: Request) -> Reply:
        """The whole reply.

        Raises:
            ModelError: as the model; `BadReply` where it raises anything else, or gives no reply.
        """
        with _typed():
            answer: object = self._model.complete(request)
            if not inspect.isawaitable(answer):
                raise BadReply("the model's `complete` cannot be awaited: make it `async def`")
            reply = _required(await answer)
        if not isinstance(reply, Reply):
            raise BadReply(f"the model gave no Reply but {type(reply).__name__}")
        return reply

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """The reply in parts.

        Raises:
            ModelError: as `complete`.
        """
        with _typed():
            parts: object = self._model.stream(request)
            if not hasattr(parts, "__aiter__"):
                raise BadReply(
                    "the model's `stream` gives nothing that `async for` takes: make it an "
                    "`async def` with `yield`"
                )
            items = aiter(parts)
        try:
            while True:
                with _typed():
                    try:
                        part = _required(await anext(items))
                    except StopAsyncIteration:
                        return
                yield part
        finally:
            close = getattr(items, "aclose", None)
            if close is not None:
                await close()


def require_async(name: str, model: ChatModel) -> None:
    """Refuses a model object whose methods nobody could await, before anything depends on it.

    Args:
        name: what it is called in `models`.

    Raises:
        ConfigError: `complete` or `aclose` is no `async def`, or `stream` is none with `yield`.
    """
    wrong = [
        one
        for one in ("complete", "aclose")
        if inspect.isroutine(method := inspect.unwrap(getattr(model, one)))
        and not inspect.iscoroutinefunction(method)
    ]
    stream = inspect.unwrap(model.stream)
    if inspect.isgeneratorfunction(stream) or inspect.iscoroutinefunction(stream):
        wrong.append("stream")
    if wrong:
        raise ConfigError(
            f"models: the methods of {name!r} must be async, which these are not: "
            f"{', '.join(wrong)}. Write `async def complete`, `async def stream` with `yield`, and "
            "`async def aclose`"
        )


@contextmanager
def _typed() -> Iterator[None]:
    try:
        yield
    except (ModelError, ConfigError, AssertionError):
        raise
    except Exception as error:
        raise BadReply(f"the model raised {type(error).__name__}: {error}") from error


def _required(part: object) -> Part:
    """What a model gave, as a part of a reply.

    Raises:
        BadReply: it is none, or holds what is no text, whatever its types promised.
    """
    if not isinstance(part, _PARTS):
        raise BadReply(f"the model gave what is no part of a reply: {type(part).__name__}")
    texts: list[object] = []
    if isinstance(part, Reply):
        if not isinstance(part.calls, Sequence):
            raise BadReply(f"the calls of a reply are no sequence: {type(part.calls).__name__}")
        for call in part.calls:
            if not isinstance(call, RawCall):
                raise BadReply(f"a call of a reply is no RawCall: {type(call).__name__}")
            texts += [call.id, call.name, call.arguments]
        texts += [part.content, part.reasoning]
    elif isinstance(part, TextPart | ReasoningPart):
        texts += [part.text]
    elif isinstance(part, CallPart):
        texts += [part.name, part.arguments]
    for text in texts:
        if not isinstance(text, str):
            raise BadReply(f"a text of the model's reply is none: {type(text).__name__}")
    if isinstance(part, Reply):
        opaque: object = part.opaque
        return part if isinstance(opaque, Mapping) else replace(part, opaque={})
    given: Part = part
    return given
