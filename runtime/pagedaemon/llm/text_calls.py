"""Reads calls that a model wrote as text (`llm.tolerant`), so that nothing above knows of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from dataclasses import replace

from pagedaemon.llm.protocol import SAID, CallPart, Part, Reply, Request, Restart, TextPart
from pagedaemon.llm.tolerant import may_begin, read_calls
from pagedaemon.llm.wrapping import Wrapping


class TextCalls(Wrapping):
    """Turns a reply without calls into one with them, where its text says them.

    Kept under `SAID` is what the model said, to the letter, unless more of it was kept before.
    While streaming, text is shown as it comes up to where a call may begin, and the rest when it is
    known what it was.
    """

    async def heard(self, request: Request, reply: Reply) -> Reply:
        """The reply with its calls."""
        if reply.calls or not reply.content or reply.finish == "refusal" or not request.tools:
            return reply
        found = read_calls(reply.content, _names(request))
        if found is None:
            return reply
        return replace(
            reply,
            content=found.rest,
            calls=found.calls,
            finish="length" if reply.finish == "length" else "tool_calls",
            opaque={SAID: reply.content, **reply.opaque},
        )

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """The reply in parts.

        Raises:
            ModelError: as the other model.
        """
        tools = _names(request)
        text, shown = "", 0
        async with self.parts(request) as parts:
            async for part in parts:
                if isinstance(part, TextPart) and tools:
                    text += part.text
                    free = len(text) if (begin := may_begin(text, tools)) is None else begin
                    if free > shown:
                        yield TextPart(text[shown:free])
                        shown = free
                elif isinstance(part, Reply):
                    reply = await self.heard(request, part)
                    # Held back, and no call. What is left after a call stands in the reply.
                    if reply.calls == part.calls and text[shown:]:
                        yield TextPart(text[shown:])
                    if reply.calls != part.calls:
                        for index, call in enumerate(reply.calls):
                            yield CallPart(index, call.name, call.arguments)
                    yield reply
                else:
                    if isinstance(part, Restart):
                        text, shown = "", 0
                    yield part


def _names(request: Request) -> Collection[str]:
    return frozenset(tool["function"]["name"] for tool in request.tools)
