"""A turn in progress: what it holds in memory, and what each of its stages writes.

The stages are those of the step transaction. Everything here is either memory, or a function of one
transaction that the loop runs; the order of things is the loop's.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pagedaemon.events import StepRecord, Turn
from pagedaemon.messages import HeartbeatReason, Message, Usage
from pagedaemon.store.blocks import BlockRow
from pagedaemon.store.journal import Head, Lease, Letter, Told
from pagedaemon.turn.body import Body
from pagedaemon.turn.draft import Refusal
from pagedaemon.turn.expected import Expected


@dataclass
class OpenTurn:
    """What a running turn knows. Changed only after the transaction that made it so has been
    committed."""

    id: str
    head: Head
    lease: Lease
    body: Body
    queue: list[Message]
    blocks: tuple[BlockRow, ...]
    started_at: datetime
    deadline: float
    """On the monotonic clock."""
    last_seq: int
    window_version: int
    warned: bool
    folds: int
    wake_id: str | None = None
    """Id of the message that woke the agent."""
    user_waits: bool = True
    """A person wants a reply."""
    expected: Expected[Any] | None = None
    """The type that the reply must have; None for words."""
    letter: Letter | None = None
    """The mail that woke the agent, where mail did."""
    asked: bool = False
    """That mail wants an answer: the turn's end is told to its sender."""
    told: tuple[Told, ...] = ()
    """Its committed events so far."""
    stirs: bool = False
    """A commit of this turn has queued another one, or changed when one is due."""
    refusal: Refusal | None = None
    """What was wrong with the last step's reply, where it had not that type."""
    steps: list[StepRecord] = field(default_factory=list)
    usage: Usage = Usage()
    unrecorded: Usage = Usage()
    """Spent since the last commit, by calls that belong to no step."""
    ended: Turn | None = None
    stop_asked: bool = False
    """Another process wants it stopped."""
    begun: set[str] = field(default_factory=set)
    """Ids of outside calls that have begun, or may have, and of which no end was seen."""
    held_until: datetime = field(init=False)
    """Until then nobody can have taken the conversation over."""
    relieved: bool = False
    """The window was emptied once because the provider could not take the request."""
    hushed: bool = False
    """The agent is not alerted again in this turn: it was, or a page-out has left the window above
    the line. Until the window has been below it."""

    def __post_init__(self) -> None:
        self.held_until = self.lease.runs_out()

    @property
    def conversation_id(self) -> str:
        """Whose turn it is."""
        return self.head.conversation_id

    @property
    def agent_id(self) -> str:
        """Of the agent."""
        return self.head.agent.id

    @property
    def replied(self) -> bool:
        """Whether the user heard anything in this turn."""
        return any(step.replies for step in self.steps)

    @property
    def keep(self) -> frozenset[str]:
        """Ids of messages that must stay in the window: what woke the agent, and the turn's newest
        event. So what is left, whatever is pinned, ends with something to answer."""
        kept = {self.wake_id} if self.wake_id else set()
        for message in reversed(self.queue):
            if message.kind in ("heartbeat", "alert") and message.turn_id == self.id:
                kept.add(message.id)
                break
        return frozenset(kept)

    @property
    def unseen(self) -> frozenset[str]:
        """Ids of the newest reply with its results, where the model has not been shown them yet."""
        found: list[str] = []
        for message in reversed(self.queue):
            if message.role == "tool":
                found.append(message.id)
            elif message.role == "assistant":
                if found and message.turn_id == self.id:
                    return frozenset([*found, message.id])
                break
            elif found:
                break
        return frozenset()

    @property
    def latest(self) -> Message | None:
        """The newest message of the queue; the summary, written last, stands for the oldest."""
        for message in reversed(self.queue):
            if message.kind != "summary":
                return message
        return None

    @property
    def woken_by(self) -> HeartbeatReason | None:
        """Which heartbeat wakes the turn's next step; None for its first.

        Read from the queue, so that a turn taken up after a crash knows it too.
        """
        if not self.steps:
            return None
        last = self.latest
        if last is not None and last.turn_id == self.id and last.kind in ("heartbeat", "alert"):
            reason: HeartbeatReason = last.data["reason"]
            return reason
        return "requested"

    def failures(self, also: StepRecord) -> int:
        """In how many steps of this turn the most repeated failing call of a step has failed."""
        counts = Counter(key for step in (*self.steps, also) for key in _failed(step))
        return max((counts[key] for key in _failed(also)), default=0)

    def woken(self, by: HeartbeatReason, also: StepRecord) -> int:
        """How many steps of this turn that heartbeat has woken."""
        return sum(step.heartbeat == by for step in (*self.steps, also))


def _failed(step: StepRecord) -> set[tuple[str, str]]:
    # Each once: what a reply calls twice was called twice before the first error could be read.
    return {
        (call.tool, repr(call.arguments))
        for call in step.calls
        if call.status in ("failed", "unknown")
    }
