"""The runtime's safety net: what the agent did not page out in time leaves the window with a
summary.

The summary is folded: each page-out adds to the one before, and every few folds it is written anew
from the stored originals, so that errors do not compound. If the model that summarises has too
small a window, its input is split and merged; if it fails, a deterministic digest takes its place.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pagedaemon.clock import local_stamp
from pagedaemon.config import Model
from pagedaemon.errors import ContextTooLong, ModelError
from pagedaemon.llm.protocol import ChatModel, Request
from pagedaemon.llm.tokens import PER_MESSAGE, PER_REQUEST, Correction
from pagedaemon.memory.recall import speaker
from pagedaemon.messages import Message, Usage, storable
from pagedaemon.resources import Prompts

logger = logging.getLogger(__name__)

_ENTRY = 1_200
"""Characters of one message that a summariser is shown: the rest is in recall."""

_LINE = 160
"""Characters of one message in a digest made without a model, and the fewest of one in a
request."""

_AROUND = math.ceil(Correction.HIGHEST * (2 * (PER_MESSAGE + 1) + PER_REQUEST))
"""Tokens of a request around its two texts, at the highest correction."""

_LEAST_ROOM = 200
"""Tokens of notes and messages in one request for which a model is still asked."""

_ROUNDS = 12
"""Requests that one page-out is planned for: a longer past is shown in shorter excerpts."""

_MOST_ROUNDS = 3 * _ROUNDS
"""Requests after which a summary is given up, where the model takes less at once than it should."""

_LONGEST = 2
"""How many times the tokens it was allowed a summary may have before it is refused."""

_IDENTIFIER = re.compile(
    r"https?://\S+|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}\.\w[\w.]{0,120}"
    r"|(?<![\w-])(?=[\w-]*\d)(?=[\w-]*[A-Za-z_])[\w-]{4,}\b|\b\d{5,}\b"
    r"|\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b"
)
"""Addresses, ticket and order numbers, constants: what prose loses and people ask for."""


class _Unusable(Exception):
    """The model's summary cannot stand for its input. Never leaves this module."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A text and its tokens."""

    text: str
    tokens: int


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
        measure: tokens of a text, corrected by what was learnt: each request is measured before it
            is sent, and has no more than the model's budget.
    """

    def __init__(
        self,
        prompts: Prompts,
        chat: ChatModel,
        model: Model,
        timezone: str,
        measure: Callable[[str], int],
    ) -> None:
        self._prompts = prompts
        self._chat = chat
        self._model = model
        self._timezone = timezone
        self._measure = measure
        self._usage = Usage()

    async def fold(
        self, previous: str, leaving: Sequence[Message], *, max_tokens: int, seconds: float
    ) -> Summary:
        """A summary of what leaves, on top of the previous one.

        Args:
            previous: the summary so far, empty for none.
            leaving: the messages that leave, in order.
            max_tokens: how long it may be.
            seconds: how long the model may take for all of it; then it is done without one.
        """
        told = [message for message in leaving if _tells(message)]
        source = f"{previous}\n{''.join(map(_source, told))}"
        by: Literal["model", "digest"] = "model"
        try:
            if not told:
                raise _Unusable("nothing that leaves says anything")
            async with asyncio.timeout(seconds):
                text = await self._folded(previous, told, max_tokens)
        except (ModelError, TimeoutError, _Unusable) as error:
            # The safety net must hold without a model: the digest loses nothing but fluency.
            logger.info("no summary by the model, a digest instead: %s", error)
            text, by = self._digest(previous, told, len(leaving), max_tokens), "digest"
        return Summary(_with_identifiers(self._prompts, text, source, max_tokens), by, self._usage)

    async def _folded(self, previous: str, leaving: Sequence[Message], max_tokens: int) -> str:
        """Folds the messages into the notes, in as many rounds as the model's window makes of it.

        Raises:
            ModelError: the model gave no answer.
            _Unusable: an answer was empty, refused, or longer than what it stands for.
        """
        limit = self._model.budget
        fixed = self._weight(self._request("", "", max_tokens))
        room = limit - fixed
        left = self._entries(leaving, room)
        notes = self._piece(previous)
        for _ in range(_MOST_ROUNDS):
            if notes.tokens > room * 3 // 4:
                # The notes leave no room beside them: they are material like the messages.
                left, notes = [notes, *left], _Piece("", 0)
            request, part, rest = self._next(notes, left, room, limit, max_tokens)
            try:
                answer = await self._ask(request, max_tokens)
            except ContextTooLong:
                limit //= 2
                room = limit - fixed
                if room < _LEAST_ROOM:
                    raise
                continue
            self._demand_usable(answer, f"{notes.text}{part}", max_tokens)
            notes, left = self._piece(answer), rest
            if not left:
                return answer
        raise _Unusable(f"not done after {_MOST_ROUNDS} requests")

    def _next(
        self, notes: _Piece, left: Sequence[_Piece], room: int, limit: int, max_tokens: int
    ) -> tuple[str, str, list[_Piece]]:
        """The next request, of at most `limit` tokens; what it shows; and what is left.

        Raises:
            _Unusable: there is no room for even a part of what is left.
        """
        words = _words(max_tokens, room)
        free = room - notes.tokens
        while free >= _LEAST_ROOM // 4:
            part, rest = self._filled(left, free)
            request = self._request(notes.text, part, words)
            # A whole has not quite the tokens of its parts together.
            excess = self._weight(request) - limit
            if excess <= 0:
                return request, part, rest
            free -= excess
        raise _Unusable("the model's window leaves no room for what is to be summarised")

    def _filled(self, entries: Sequence[_Piece], room: int) -> tuple[str, list[_Piece]]:
        """As many entries as fit a room, as one text, and what is left. At least a part of the
        first."""
        taken, size = 0, 0
        for entry in entries:
            if size + entry.tokens + 1 > room:
                break
            size += entry.tokens + 1
            taken += 1
        if taken or not entries:
            return "\n".join(entry.text for entry in entries[:taken]), list(entries[taken:])
        first = entries[0].text
        end = max(1, self._fitting(first, room))
        return first[:end], [self._piece(first[end:]), *entries[1:]]

    def _fitting(self, text: str, room: int, *, at_end: bool = False) -> int:
        """How many characters of a text's beginning, or of its end, fit so many tokens: not quite
        the most there are."""
        kept = len(text)
        while kept > 0:
            tokens = self._measure(text[-kept:] if at_end else text[:kept])
            if tokens <= room:
                break
            kept = max(0, min(kept - 1, kept * room // tokens))
        return kept

    def _piece(self, text: str) -> _Piece:
        return _Piece(text, self._measure(text))

    def _weight(self, request: str) -> int:
        """Tokens of a request with this text."""
        system = self._prompts.render("summary/system")
        return self._measure(system) + self._measure(request) + _AROUND

    def _demand_usable(self, answer: str, source: str, max_tokens: int) -> None:
        if not answer.strip("\ufffd \n"):
            raise _Unusable("the summary is empty")
        if len(answer) > max(len(source), 200):
            raise _Unusable("the summary is longer than what it stands for")
        if self._measure(answer) > max_tokens * _LONGEST:
            raise _Unusable("the summary is longer than its share of the window")

    def _entries(self, leaving: Sequence[Message], room: int) -> list[_Piece]:
        """The messages as they are shown, the longest of them shortened to what the planned rounds
        hold."""
        share = max(0, room) * _ROUNDS // (2 * len(leaving))
        pieces: list[_Piece] = []
        for message in leaving:
            piece = self._piece(self._entry(message, _ENTRY))
            if piece.tokens > share:
                most = max(_LINE, min(_ENTRY, len(piece.text)) * share // piece.tokens)
                piece = self._piece(self._entry(message, most))
            pieces.append(piece)
        return pieces

    def _entry(self, message: Message, most: int) -> str:
        text = _said(message)
        return self._prompts.render(
            "summary/transcript",
            entries=[
                {
                    "number": message.seq,
                    "date": local_stamp(message.created_at, self._timezone),
                    "who": speaker(message),
                    "text": text if len(text) <= most else f"{text[:most]} […]",
                }
            ],
        )

    def _request(self, notes: str, transcript: str, words: int) -> str:
        return self._prompts.render(
            "summary/request", previous=notes, transcript=transcript, max_words=words
        )

    async def _ask(self, request: str, max_tokens: int) -> str:
        system = self._prompts.render("summary/system")
        reply = await self._chat.complete(
            Request(
                ({"role": "system", "content": system}, {"role": "user", "content": request}),
                max_output_tokens=min(max_tokens * 2, self._model.max_output_tokens),
                purpose="summary",
            )
        )
        spent = reply.usage
        if spent is None or not spent.total_tokens:
            asked = self._measure(system) + self._measure(request)
            spent = Usage(1, asked, self._measure(reply.content), estimated=True)
        self._usage = self._usage + spent
        if reply.finish == "refusal":
            raise _Unusable("the provider refused to summarise")
        return storable(reply.content).strip()

    def _digest(
        self, previous: str, told: Sequence[Message], messages: int, max_tokens: int
    ) -> str:
        lines: list[str] = []
        for message in told:
            short = " ".join(_said(message)[: 4 * _LINE].split())
            if message.kind in ("message", "reply") and short:
                lines.append(f"{speaker(message)}: {short[:_LINE]}")
        sizes = [self._measure(line) + 2 for line in lines]
        while lines and sum(sizes) > max_tokens // 2:
            middle = len(lines) // 2
            del lines[middle], sizes[middle]
        kept = self._fitting(previous, max_tokens - sum(sizes), at_end=True)
        return self._prompts.render(
            "summary/digest",
            previous=previous[len(previous) - kept :],
            lines=lines,
            messages=messages,
        )


def _tells(message: Message) -> bool:
    """Whether a message has something to say that stands nowhere else: events of the runtime have
    not, nor what its own memory tools returned."""
    return (
        message.kind in ("message", "reply", "result")
        and "builtin" not in message.data
        and bool(_said(message))
    )


def _said(message: Message) -> str:
    """What was said, without the bare calls."""
    return "\n".join(part for part in (message.words, *message.data.get("said", ())) if part)


def _source(message: Message) -> str:
    """What identifiers are looked for in: an oversize text stays where it can be read in pages."""
    text = _said(message)
    return f"{text[:_ENTRY] if message.digest is not None else text}\n"


def _words(max_tokens: int, room: int) -> int:
    # In a small room the notes must leave place for what is still to be folded into them.
    return max(40, min(max_tokens * 2 // 3, room // 12))


def _with_identifiers(prompts: Prompts, text: str, source: str, most: int) -> str:
    """Carries identifiers over by code: those of the source that the prose left out, newest last,
    40 at most and no more than `most` characters."""
    found = dict.fromkeys(match.group().rstrip(".,;:)") for match in _IDENTIFIER.finditer(source))
    missing: list[str] = []
    for identifier in reversed(found):
        if identifier in text or len(identifier) > 200:
            continue
        most -= len(identifier) + 2
        if most < 0 or len(missing) == 40:
            break
        missing.append(identifier)
    if not missing:
        return text
    line = prompts.render("summary/identifiers", identifiers=missing[::-1])
    return f"{text}\n{line}"
