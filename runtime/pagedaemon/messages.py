"""What stands in a conversation: messages and the calls in them, as they are stored.

Rendering for a provider is a pure function of these values (`context.render`), so whatever
is needed to show a message again in the same words is kept in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from pagedaemon.errors import InvalidInput
from pagedaemon.media import Attachment, in_words

WITHHELD = "withheld"
"""Key in a message's data: its pictures are shown as placeholders, since a provider has refused a
request with them."""

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
"""What no store and no provider can hold."""

Role = Literal["user", "assistant", "tool"]

Kind = Literal["message", "heartbeat", "alert", "summary", "reply", "result"]
"""`message`: a person's words. `heartbeat`, `alert`, `summary`: user-role events made by the
runtime. `reply`: what the model said. `result`: what a call returned."""

Label = Literal["owner", "user", "agent", "tool", "external"]
"""Who stands behind a text, most trusted first. What is derived takes the lowest label of its
sources."""

LABELS: tuple[Label, ...] = ("owner", "user", "agent", "tool", "external")

HeartbeatReason = Literal["requested", "failed", "pressure", "required", "nudge", "invalid"]
"""Why the agent thinks once more. `invalid`: its reply was not of the type asked for."""

TurnState = Literal["queued", "running", "done"]
"""`queued`: it waits for its place in its conversation. `running`: somebody works on it, or will
take it up. `done`: it has a stop reason."""

StopReason = Literal[
    "end_turn",
    "no_reply",
    "cancelled",
    "max_steps",
    "max_seconds",
    "max_tokens",
    "max_cost",
    "repeated_failure",
    "invalid_reply",
    "no_tool_allowed",
    "refused",
    "interrupted",
    "error",
]
"""Why a turn ended. `end_turn` and `no_reply` are the agent's own yield, with and without a word to
the user; `max_…` and `repeated_failure` are bounds, and so is `invalid_reply`: no try gave a reply
of the type that was asked for; `no_tool_allowed`: the agent's rules left it nothing to call, and it
would have gone on; `refused` is the provider's refusal; `interrupted` a crash that
could not be taken up again; `error` a typed error that the caller was given."""

CallStatus = Literal["intended", "started", "ok", "failed", "unknown", "awaiting"]
"""`unknown`: started, and nobody saw the end. It is told to the model and never run again.
`awaiting`: not run; a person is asked first, and what comes of that is an event of its own."""


@dataclass(frozen=True, slots=True)
class Call:
    """One function call as the model made it."""

    id: str
    """On the wire; unique in the conversation, also where the provider's own id was not."""
    tool: str
    arguments: str
    """A JSON object, as it is shown to the model again. Equal to `raw` wherever that is one."""
    raw: str
    """What the model sent, to the letter."""


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a conversation. Instants are UTC; `seq` counts from 1 in the conversation."""

    id: str
    seq: int
    role: Role
    kind: Kind
    text: str
    created_at: datetime
    calls: tuple[Call, ...] = ()
    call_id: str | None = None
    """Of a result: the `Call.id` it answers."""
    tool: str | None = None
    """Of a result: the tool's name."""
    status: str = ""
    """Of an event: the volatile lines (local time, counts, sizes) that were shown with it."""
    digest: str | None = None
    """What is shown in place of an oversize text, from its first showing on."""
    pinned: bool = False
    label: Label = "user"
    author: str | None = None
    turn_id: str | None = None
    step_id: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    """Per kind: a heartbeat's `reason`; the `covers` of a summary; a reply's `opaque` provider
    fields; under `recalled` what was shown beside a person's words, as ids, and its label;
    `withheld` where its pictures are no longer shown."""
    attachments: tuple[Attachment, ...] = ()
    """Pictures and files that came with the text, in their order."""

    @property
    def words(self) -> str:
        """The text with a placeholder where each picture stands: what is searched, summarised, and
        shown where pictures are not."""
        return in_words(self.text, self.attachments)

    @property
    def is_withheld(self) -> bool:
        """Whether its pictures are shown as placeholders, since a provider has refused them."""
        return bool(self.data.get(WITHHELD))

    @property
    def recalled(self) -> tuple[str, ...]:
        """Ids of the messages and passages that were shown beside it without being asked for."""
        return tuple(self.data.get("recalled", {}).get("ids", ()))

    @property
    def is_external(self) -> bool:
        """Whether its own words came from outside. They stay searchable when they leave the window,
        and are no part of what stands in view from then on."""
        return self.label == "external"

    @property
    def shown_label(self) -> Label:
        """The least trusted of all that is shown with it. `label` is that of its own words, which
        become no worse by what was recalled beside them."""
        return lowest([self.label, self.data.get("recalled", {}).get("label", self.label)])


@dataclass(frozen=True, slots=True)
class Usage:
    """What model calls cost. Token counts are the provider's, unless `estimated`."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """Of the prompt tokens: read from the provider's cache."""
    reasoning_tokens: int = 0
    """Of the completion tokens: spent on reasoning."""
    estimated: bool = False
    """True where a provider reported nothing and the counts are our own."""
    cost: float | None = None
    """US dollars, of the calls whose price is known. None where that is none of them."""

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.estimated or other.estimated,
            _together(self.cost, other.cost),
        )


def _together(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else one + other


def lowest(labels: Sequence[Label]) -> Label:
    """The least trusted of the labels: what is derived takes it, so none ever rises."""
    return max(labels, key=LABELS.index, default="agent")


def checked_text(value: object, what: str, *, empty: bool = False) -> str:
    """The value, if it is text that both databases and every provider can hold.

    Raises:
        InvalidInput: not a string, empty (unless allowed), or with a NUL or a lone surrogate.
    """
    if not isinstance(value, str):
        raise InvalidInput(f"{what} must be text, not {type(value).__name__}")
    if not value.strip() and not empty:
        raise InvalidInput(f"{what} is empty")
    if "\x00" in value:
        raise InvalidInput(f"{what} contains a NUL character, which no store can keep: remove it")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidInput(
                f"{what} has a lone surrogate at position {error.start}: it is not valid Unicode"
            ) from error
    return value


def storable(text: str) -> str:
    """The text with what no store and no provider can hold (NUL, lone surrogates) as U+FFFD.

    Two halves of a pair that stand together, as a stream may bring them, are their one character.
    """
    if not UNSTORABLE.search(text):
        return text
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.replace("\x00", "\ufffd")
