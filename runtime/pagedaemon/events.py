"""What a listener of a turn is told, and what a turn amounts to.

`agent.stream(...)` yields these in order. What is told of a step that is still being made
(`StepStarted`, `ReplyDelta`, `ThoughtDelta`, `ReplyPartial`) is provisional until its
`StepFinished`; a `StepReset` takes back what was shown of a step that is asked again. Everything
else is told only after it was committed, and carries its number: `conversation.events(turn_id,
after=number)` goes on from there, in any process and at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from pagedaemon.messages import CallStatus, HeartbeatReason, StopReason, Usage

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call of a step and what came of it."""

    id: str
    tool: str
    arguments: Mapping[str, Any]
    """As understood; empty where they could not be read (then `status` is `failed`)."""
    result: str
    """What the model was told, in full."""
    status: CallStatus
    heartbeat: bool = False
    """Whether the call asked to think again."""


@dataclass(frozen=True, slots=True)
class BlockChange:
    """A block's new version, made by a step."""

    block_id: str
    label: str
    version: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One model call and the calls it made."""

    id: str
    seq: int
    """From 1 in its turn."""
    heartbeat: HeartbeatReason | None
    """Which heartbeat woke this step; None for the first, which the event itself woke."""
    thoughts: str = ""
    replies: tuple[str, ...] = ()
    """What the user heard in this step."""
    calls: tuple[CallRecord, ...] = ()
    changes: tuple[BlockChange, ...] = ()
    usage: Usage = Usage()
    note: str = ""
    """Anything unusual, such as an empty reply of the model."""


@dataclass(frozen=True, slots=True)
class Turn:
    """From an event until the agent yielded."""

    id: str
    conversation_id: str
    steps: tuple[StepRecord, ...]
    stop_reason: StopReason
    usage: Usage
    """Of all model calls of the turn, summaries too."""
    started_at: datetime
    ended_at: datetime
    error: str | None = None
    """Where `stop_reason` is `error`, `refused` or `interrupted`: what happened."""
    events: int = 0
    """How many numbered events it has; the last is its `TurnEnded`."""

    @property
    def replies(self) -> tuple[str, ...]:
        """Everything said to the user, in order."""
        return tuple(reply for step in self.steps for reply in step.replies)

    @property
    def reply(self) -> str | None:
        """The replies as one text, or None where the user heard nothing."""
        return "\n\n".join(self.replies) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedTurn(Turn, Generic[T]):
    """A turn whose reply was asked for as a type (`reply_type`), and is one."""

    value: T
    """The validated reply; the last, where the agent gave several."""


@dataclass(frozen=True, slots=True)
class EventBase:
    """What all events of a stream have; `Event` is any one of them, and its `type` tells which."""

    turn_id: str
    number: int | None = field(default=None, kw_only=True)
    """From 1 in its turn, without a gap, and the same for ever. None: provisional, told only to
    those who listen while it happens."""

    @property
    def provisional(self) -> bool:
        """Whether it may still be taken back: it tells of what is not committed."""
        return self.number is None


@dataclass(frozen=True, slots=True)
class TurnStarted(EventBase):
    """The message is stored and the agent has woken."""

    conversation_id: str
    type: Literal["turn_started"] = "turn_started"


@dataclass(frozen=True, slots=True)
class StepStarted(EventBase):
    """The model is asked. Provisional."""

    step: int
    heartbeat: HeartbeatReason | None
    type: Literal["step_started"] = "step_started"


@dataclass(frozen=True, slots=True)
class ReplyDelta(EventBase):
    """More of what the user will hear. Provisional."""

    step: int
    offset: int
    """Characters of this step's reply that came before."""
    text: str
    type: Literal["reply_delta"] = "reply_delta"


@dataclass(frozen=True, slots=True)
class ReplyPartial(EventBase):
    """The typed reply as far as it has come. Provisional, and not checked yet: members may be
    missing, and the last text cut off."""

    step: int
    value: dict[str, Any] | list[Any]
    type: Literal["reply_partial"] = "reply_partial"


@dataclass(frozen=True, slots=True)
class ThoughtDelta(EventBase):
    """More of what the agent thinks, not meant for the user. Provisional."""

    step: int
    offset: int
    text: str
    type: Literal["thought_delta"] = "thought_delta"


@dataclass(frozen=True, slots=True)
class StepReset(EventBase):
    """The step is asked again: forget the deltas shown of it. Provisional."""

    step: int
    reason: str
    type: Literal["step_reset"] = "step_reset"


@dataclass(frozen=True, slots=True)
class StepFinished(EventBase):
    """The step is committed: its calls, its results, its block changes."""

    record: StepRecord
    type: Literal["step_finished"] = "step_finished"


@dataclass(frozen=True, slots=True)
class HeartbeatEvent(EventBase):
    """The agent thinks once more, and why."""

    reason: HeartbeatReason
    type: Literal["heartbeat"] = "heartbeat"


@dataclass(frozen=True, slots=True)
class PagedOut(EventBase):
    """Messages left the window; a summary stands for them."""

    messages: int
    tokens_before: int
    tokens_after: int
    by: Literal["agent", "runtime"]
    summary: Literal["model", "digest", "note"]
    """Who wrote the summary: the model, the deterministic digest, or the agent's own note."""
    type: Literal["paged_out"] = "paged_out"


@dataclass(frozen=True, slots=True)
class TurnEnded(EventBase):
    """The agent yielded or was stopped."""

    turn: Turn
    type: Literal["turn_ended"] = "turn_ended"

    @classmethod
    def of(cls, turn: Turn) -> TurnEnded:
        """The last event of a turn."""
        return cls(turn.id, turn, number=turn.events or None)


Event: TypeAlias = (
    TurnStarted
    | StepStarted
    | ReplyDelta
    | ReplyPartial
    | ThoughtDelta
    | StepReset
    | StepFinished
    | HeartbeatEvent
    | PagedOut
    | TurnEnded
)
"""Whatever a stream tells. `event.type` and `isinstance` tell which, to a type checker too."""


@dataclass(frozen=True, slots=True)
class ContextPart:
    """One section of a compiled request."""

    name: str
    tokens: int
    text: str


@dataclass(frozen=True, slots=True)
class ContextReport:
    """The request an agent would make now, by section."""

    parts: tuple[ContextPart, ...]
    tokens: int
    """Estimated tokens of the whole request, tool schemas included."""
    budget: int
    window: int
    messages: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    """The request's messages as they go over the wire."""
    tools: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
