"""The runtime's safety net: what the agent did not page out in time leaves the window with a
summary.

The summary is folded: each page-out adds to the one before, and every few folds it is written anew
from the stored originals, so that errors do not compound. If the model that summarises has too
small a window, its input is split and merged; if it fails, a deterministic digest takes its place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pagedaemon.clock import local_stamp
from pagedaemon.config import Model
from pagedaemon.errors import ModelError
from pagedaemon.llm.protocol import ChatModel, Request
from pagedaemon.memory.recall import speaker, whole_text
from pagedaemon.messages import Message, Usage
from pagedaemon.resources import Prompts

_ENTRY = 1_200
"""Characters of one message that a summariser is shown: the rest is in recall."""

_LINE = 160
"""Characters of one message in a digest made without a model."""

_CHARS_PER_TOKEN = 2
"""How many characters surely fit one token's place, when input is cut for a summariser's window.
Low on
purpose: a wrong guess costs one more round, not a refused request."""

_LONGEST = 8
"""Characters per token that it was allowed, above which a summary is refused."""

_IDENTIFIER = re.compile(
    r"https?://\S+|[\w.+-]+@[\w-]+\.\w[\w.]*|\b(?=\w*\d)(?=\w*[A-Za-z_])[\w-]{4,}\b|\b\d{5,}\b"
    r"|\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b"
)
"""Addresses, ticket and order numbers, constants: what prose loses and people ask for."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary and who wrote it."""

    text: str
    by: Literal["model", "digest"]
    usage: Usage


class Summariser:
    """Writes the running summary.

    Args:
        prompts: the texts the model reads.
        chat: the model that summarises.
        model: its settings: its window bounds each request.
        timezone: in which dates are shown.
    """

    def __init__(self, prompts: Prompts, chat: ChatModel, model: Model, timezone: str) -> None:
        self._prompts = prompts
        self._chat = chat
        self._model = model
        self._timezone = timezone
        self._usage = Usage()

    async def fold(self, previous: str, leaving: Sequence[Message], *, max_tokens: int) -> Summary:
        """A summary of what leaves, on top of the previous one.

        Args:
            previous: the summary so far, empty for none.
            leaving: the messages that leave, in order.
            max_tokens: how long it may be.
        """
        entries = [self._entry(message) for message in leaving if message.kind != "heartbeat"]
        source = "\n".join(entries)
        try:
            prose = await self._folded(previous, entries, max_tokens)
        except ModelError:
            # The safety net must hold without a model: the digest below loses nothing but fluency.
            prose = ""
        if _refusable(prose, f"{previous}{source}", max_tokens):
            return self._digest(previous, leaving, max_tokens)
        text = _with_identifiers(self._prompts, prose, f"{previous}\n{source}")
        return Summary(text, "model", self._usage)

    def _entry(self, message: Message) -> str:
        text = (
            whole_text(message)
            if message.kind != "reply"
            else "\n".join([part for part in (message.text, *message.data.get("said", ())) if part])
        )
        return self._prompts.render(
            "summary/transcript",
            entries=[
                {
                    "number": message.seq,
                    "date": local_stamp(message.created_at, self._timezone),
                    "who": speaker(message),
                    "text": text if len(text) <= _ENTRY else f"{text[:_ENTRY]} […]",
                }
            ],
        )

    async def _folded(self, previous: str, entries: Sequence[str], max_tokens: int) -> str:
        words = max(40, max_tokens * 2 // 3)
        room = self._room(words)
        parts = _in_rooms(entries, room - len(previous))
        folded = previous
        for part in parts:
            folded = await self._ask(
                self._prompts.render(
                    "summary/request", previous=folded, transcript=part, max_words=words
                ),
                max_tokens,
            )
        return folded

    def _room(self, words: int) -> int:
        fixed = len(self._prompts.render("summary/system")) + len(
            self._prompts.render("summary/request", previous="", transcript="", max_words=words)
        )
        return max(400, self._model.budget * _CHARS_PER_TOKEN - fixed)

    async def _ask(self, request: str, max_tokens: int) -> str:
        reply = await self._chat.complete(
            Request(
                (
                    {"role": "system", "content": self._prompts.render("summary/system")},
                    {"role": "user", "content": request},
                ),
                max_output_tokens=min(max_tokens * 2, self._model.max_output_tokens),
                purpose="summary",
            )
        )
        self._usage = self._usage + (reply.usage or Usage(calls=1, estimated=True))
        return reply.content.strip()

    def _digest(self, previous: str, leaving: Sequence[Message], max_tokens: int) -> Summary:
        lines: list[str] = []
        for message in leaving:
            if message.kind in ("message", "reply"):
                words = " ".join([message.text, *message.data.get("said", ())]).split()
                short = " ".join(words)
                if short:
                    lines.append(f"{speaker(message)}: {short[:_LINE]}")
        most = max_tokens * _CHARS_PER_TOKEN
        while lines and sum(map(len, lines)) > most // 2:
            lines.pop(len(lines) // 2)
        text = self._prompts.render(
            "summary/digest",
            previous=previous[-most // 2 :] if len(previous) > most // 2 else previous,
            lines=lines,
            messages=len(leaving),
        )
        source = "\n".join(whole_text(message) for message in leaving)
        return Summary(
            _with_identifiers(self._prompts, text, f"{previous}\n{source}"), "digest", self._usage
        )


def _refusable(prose: str, source: str, max_tokens: int) -> bool:
    # A summary longer than what it stands for, or than its share several times over, frees nothing.
    return not prose or len(prose) > min(max(len(source), 200), max_tokens * _LONGEST)


def _in_rooms(entries: Sequence[str], room: int) -> list[str]:
    parts: list[str] = []
    current = ""
    room = max(room, 200)
    for entry in entries:
        for piece in (entry[at : at + room] for at in range(0, len(entry), room)):
            if current and len(current) + 1 + len(piece) > room:
                parts.append(current)
                current = piece
            else:
                current = f"{current}\n{piece}" if current else piece
    return [*parts, current]


def _with_identifiers(prompts: Prompts, text: str, source: str) -> str:
    """Carries identifiers over by code: those of the source that the prose left out, newest last,
    40 at most."""
    found = dict.fromkeys(match.group().rstrip(".,;:)") for match in _IDENTIFIER.finditer(source))
    missing = [
        identifier for identifier in found if identifier not in text and len(identifier) < 200
    ]
    if not missing:
        return text
    return f"{text}\n{prompts.render('summary/identifiers', identifiers=missing[-40:])}"
