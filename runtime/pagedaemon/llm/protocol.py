"""The seam to a model: what it is asked, what it answers, whole or in parts.

Anything with `complete` and `stream` is a model. Streaming is the same reply in parts: the last
part of a stream is the `Reply` itself, so both ways store the same thing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from pagedaemon.messages import Usage

WireMessage: TypeAlias = Mapping[str, Any]
"""One message in the OpenAI chat-completions shape: `role`, `content`, `tool_calls`,
`tool_call_id`."""

WireTool: TypeAlias = Mapping[str, Any]
"""One tool in the same shape: `{"type": "function", "function": {name, description,
parameters}}`."""

PREFIX = "openai/"
"""What names of models behind an OpenAI-compatible endpoint begin with; the rest goes to it."""

MOST_TOKENS = 10**12
"""Tokens above which a reported count is no report: no request has so many."""

CALL_EXTRAS = "call_extras"
"""Key in `Reply.opaque`: a list with one object per call, in order, holding the provider's own
fields of that call, such as a signature. Each goes back into the call it came from; the key itself
never does."""

ORIGIN = "origin"
"""Key in `Reply.opaque`: whose fields they are (`config.Model.family`). To any other model none of
them is sent; the key itself to none. Without it they are sent to whichever model comes next."""

SAID = "said"
"""Key in `Reply.opaque`: the model's whole text, where calls or thoughts were read out of it. Kept,
and never sent: the calls and the rest are."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a model is asked: the whole of what it can know."""

    messages: tuple[WireMessage, ...]
    tools: tuple[WireTool, ...] = ()
    max_output_tokens: int | None = None
    purpose: Literal["step", "summary"] = "step"
    """`step`: the agent itself. `summary`: an auxiliary call."""
    response_format: Mapping[str, Any] | None = None
    """What the reply's text must be, as the field of that name of a chat-completions request, such
    as `{"type": "json_schema", …}`. None: free."""


@dataclass(frozen=True, slots=True)
class RawCall:
    """A function call to the letter, before anyone has read it."""

    id: str
    """The provider's id; may be empty or repeated."""
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's whole answer."""

    content: str = ""
    calls: tuple[RawCall, ...] = ()
    reasoning: str = ""
    finish: Literal["stop", "tool_calls", "length", "refusal"] = "stop"
    usage: Usage | None = None
    """None where the provider reported none (all zeros count as none)."""
    opaque: Mapping[str, Any] = field(default_factory=dict)
    """Provider fields that must come back unchanged, such as signed reasoning: each goes back under
    its own name into the assistant message. Under `CALL_EXTRAS` stand those of the calls."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """More of the reply's plain text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningPart:
    """More of the provider's own reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class CallPart:
    """More of one function call. `name` comes whole, with the first part or later; arguments in
    pieces."""

    index: int
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Restart:
    """The reply is asked again from the start: parts shown so far no longer count."""

    reason: str


Part: TypeAlias = TextPart | ReasoningPart | CallPart | Restart | Reply


class ChatModel(Protocol):
    """A model that can be asked. Implementations raise only `ModelError`s.

    What else a user's own one raises becomes `BadReply`, with that as its cause.
    """

    async def complete(self, request: Request) -> Reply:
        """The whole reply.

        Raises:
            ModelError: one of its kinds; `ModelUnavailable` where trying again may help.
        """
        ...

    def stream(self, request: Request) -> AsyncIterator[Part]:
        """The reply in parts; the last part is the `Reply`.

        Raises:
            ModelError: as `complete`; also in the middle, when the connection breaks.
        """
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...
