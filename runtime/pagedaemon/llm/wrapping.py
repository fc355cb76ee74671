"""A model around another: changes what is asked or what is heard, and is a model itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from pagedaemon.llm.protocol import ORIGIN, ChatModel, Part, Reply, Request


class Wrapping:
    """Asks another model. What a kind of it changes is in `asked` and `heard`.

    Args:
        model: who is asked.
    """

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    def asked(self, request: Request) -> Request:
        """The request as the other model gets it."""
        return request

    async def heard(self, request: Request, reply: Reply) -> Reply:
        """The reply as it is given on.

        Args:
            request: as it came here.
        """
        return reply

    async def complete(self, request: Request) -> Reply:
        """The whole reply.

        Raises:
            ModelError: as the other model.
        """
        return await self.heard(request, await self._model.complete(self.asked(request)))

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """The reply in parts.

        Raises:
            ModelError: as the other model.
        """
        async with self.parts(request) as parts:
            async for part in parts:
                yield await self.heard(request, part) if isinstance(part, Reply) else part

    @asynccontextmanager
    async def parts(self, request: Request) -> AsyncIterator[AsyncIterator[Part]]:
        """What the other model gives. A listener that goes away closes it: its connection would
        stay open until the next collection."""
        parts = self._model.stream(self.asked(request))
        try:
            yield parts
        finally:
            close = getattr(parts, "aclose", None)
            if close is not None:
                await close()

    async def aclose(self) -> None:
        """Let go of the other model's connections."""
        await self._model.aclose()


class Signed(Wrapping):
    """Notes with a reply's opaque fields whose they are, so that no other model is sent them.

    Args:
        model: who is asked.
        family: whose fields they are (`config.Model.family`).
    """

    def __init__(self, model: ChatModel, family: str) -> None:
        super().__init__(model)
        self._family = family

    async def heard(self, request: Request, reply: Reply) -> Reply:
        """The reply, its opaque fields marked; one without them as it came."""
        opaque: object = reply.opaque  # Whatever its types promised: whoever reads it refuses it.
        if not isinstance(opaque, Mapping) or not opaque:
            return reply
        return replace(reply, opaque={**opaque, ORIGIN: self._family})
