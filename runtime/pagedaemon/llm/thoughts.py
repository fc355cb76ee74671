"""Thoughts that a model wrote into its text (`<think>…</think>`), so that nothing above takes them
for what it says: a call drafted there is none, and nobody is shown them as the reply.

Servers that know a model's template part the two; others pass on what the model wrote. Only a block
at the very beginning is one, several in a row too, and one that nothing closes goes to the end.
Where the template itself had written the opening mark, the text begins inside the block, and
`</think>` stands alone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from pagedaemon.llm.protocol import SAID, Part, ReasoningPart, Reply, Request, Restart, TextPart
from pagedaemon.llm.wrapping import Wrapping

_MARKS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<reasoning>": "</reasoning>",
}
_ALONE = "</think>"
"""The closing mark that counts without its opening one."""

_QUOTES = tuple("`\"'(“«„")
"""Before a mark: the text speaks of it."""

_TAKEN_BACK = "what was shown so far were the model's thoughts"


class Thoughts(Wrapping):
    """Turns thoughts in a reply's text into its reasoning. Kept under `SAID` is what the model
    said, to the letter."""

    async def heard(self, request: Request, reply: Reply) -> Reply:
        """The reply with its thoughts apart."""
        if reply.finish == "refusal":
            return reply
        parting = _Parting()
        parts = [*parting.more(reply.content), *parting.rest()]
        if not parting.found:
            return reply
        thoughts = "".join(part.text for part in parts if isinstance(part, ReasoningPart))
        return replace(
            reply,
            content=parting.spoken,
            reasoning="\n".join(part for part in (reply.reasoning, thoughts.strip()) if part),
            opaque={**reply.opaque, SAID: reply.content},
        )

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """The reply in parts. What turns out to be thoughts after it was shown as text is taken
        back by a `Restart`.

        Raises:
            ModelError: as the other model.
        """
        parting = _Parting()
        async with self.parts(request) as parts:
            async for part in parts:
                if isinstance(part, TextPart):
                    for piece in parting.more(part.text):
                        yield piece
                elif isinstance(part, Reply):
                    for piece in parting.rest():
                        yield piece
                    yield await self.heard(request, part)
                else:
                    if isinstance(part, Restart):
                        parting = _Parting()
                    yield part


@dataclass(slots=True)
class _Parting:
    """Parts thoughts from speech in a text that is still growing."""

    found: bool = False
    """Whether there were thoughts."""
    spoken: str = ""
    """What was given as speech."""
    _state: Literal["start", "inside", "speech"] = "start"
    _held: str = ""
    """What was not given yet."""
    _closing: str = ""

    def more(self, text: str) -> Iterator[Part]:
        """What is known with this text on top."""
        self._held += text
        before: object = None
        while self._held and before != (self._state, len(self._held)):
            before = (self._state, len(self._held))
            if self._state == "start":
                self._begin()
            elif self._state == "inside":
                yield from self._think()
            else:
                yield from self._speak()

    def rest(self) -> Iterator[Part]:
        """What was held back, at the end."""
        if self._state == "start" and self.found:
            self._held = self._held.lstrip()
        kind = ReasoningPart if self._state == "inside" else TextPart
        yield from self._given(kind, len(self._held))

    def _begin(self) -> None:
        inner = self._held.lstrip()
        for mark, closing in _MARKS.items():
            if inner.startswith(mark):
                self._held, self._state, self.found = inner[len(mark) :], "inside", True
                self._closing = closing
                return
        if any(mark.startswith(inner) for mark in _MARKS):
            return
        self._state = "speech"
        if self.found:
            self._held = inner

    def _think(self) -> Iterator[Part]:
        place = self._held.find(self._closing)
        if place < 0:
            yield from self._given(ReasoningPart, _free(self._held, self._closing))
            return
        yield from self._given(ReasoningPart, place)
        self._held, self._state = self._held[len(self._closing) :], "start"

    def _speak(self) -> Iterator[Part]:
        if self.found:
            yield from self._given(TextPart, len(self._held))
            return
        place = self._held.find(_ALONE)
        if place < 0:
            yield from self._given(TextPart, _free(self._held, _ALONE))
            return
        thoughts = self.spoken + self._held[:place]
        end = place + len(_ALONE)
        if thoughts.endswith(_QUOTES):
            yield from self._given(TextPart, end)
            return
        if self.spoken:
            yield Restart(_TAKEN_BACK)
        self.found, self.spoken = True, ""
        self._held, self._state = self._held[end:], "start"
        if thoughts:
            yield ReasoningPart(thoughts)

    def _given(self, kind: type[TextPart | ReasoningPart], end: int) -> Iterator[Part]:
        given, self._held = self._held[:end], self._held[end:]
        if given:
            self.spoken += given if kind is TextPart else ""
            yield kind(given)


def _free(text: str, mark: str) -> int:
    """How many characters of a text cannot belong to a mark that is still to come."""
    for place in range(max(0, len(text) - len(mark) + 1), len(text)):
        if mark.startswith(text[place:]):
            return place
    return len(text)
