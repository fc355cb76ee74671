"""A turn in progress: what it holds in memory, and what each of its stages writes.

The stages are those of the step transaction. Everything here is either memory, or a function of one
transaction that the loop runs; the order of things is the loop's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pagedaemon.clock import local_stamp, new_id
from pagedaemon.context.prompt import pressure_alert, status_line
from pagedaemon.continuation import Continue, Outcome
from pagedaemon.errors import NotFound
from pagedaemon.events import StepRecord, Turn
from pagedaemon.messages import Message, StopReason, Usage
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import blocks as block_rows
from pagedaemon.store import conversations as rows
from pagedaemon.store import journal
from pagedaemon.store.blocks import BlockRow
from pagedaemon.store.journal import Head, Lease, Wake
from pagedaemon.store.transaction import Transaction
from pagedaemon.turn.body import Body

LEASE_SECONDS = 30.0


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
    user_message_id: str | None = None
    steps: list[StepRecord] = field(default_factory=list)
    usage: Usage = Usage()
    unrecorded: Usage = Usage()
    """Spent since the last commit, by calls that belong to no step."""
    ended: Turn | None = None
    relieved: bool = False
    """The window was emptied once because the provider could not take the request."""
    hushed: bool = False
    """The agent is not alerted again in this turn: it was, or a page-out has left the window above
    the line. Until the window has been below it."""

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
        """Ids of messages that must stay in the window: what the user asks in this turn, and its
        newest event. So what is left, whatever is pinned, ends with something to answer."""
        kept = {self.user_message_id} if self.user_message_id else set()
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

    def failures(self, also: StepRecord) -> int:
        """In how many steps of this turn the most repeated failing call of a step has failed."""
        counts = Counter(key for step in (*self.steps, also) for key in _failed(step))
        return max((counts[key] for key in _failed(also)), default=0)

    def nudges(self) -> int:
        """How many of its steps a nudge has woken."""
        return sum(step.heartbeat == "nudge" for step in self.steps)


def _failed(step: StepRecord) -> set[tuple[str, str]]:
    # Each once: what a reply calls twice was called twice before the first error could be read.
    return {
        (call.tool, repr(call.arguments))
        for call in step.calls
        if call.status in ("failed", "unknown")
    }


def wake_messages(
    body: Body,
    head: Head,
    blocks: Sequence[BlockRow],
    queue: Sequence[Message],
    wake: Wake,
    turn_id: str,
    now: datetime,
) -> tuple[list[Message], bool]:
    """The user's message with its status line and, where it fills the window, the alert beside it.

    Returns:
        the new messages, and whether the agent has now been warned in this window.
    """
    seq = head.last_seq + 1
    time = local_stamp(now, head.agent.settings.timezone)
    message = Message(
        id=new_id("message"),
        seq=seq,
        role="user",
        kind="message",
        text=wake.text,
        created_at=now,
        digest=body.digest(wake.text, "message", f"#{seq}"),
        label=wake.label,
        author=wake.author,
        turn_id=turn_id,
    )
    load = body.weigh(blocks, [*queue, message])
    message = replace(
        message,
        status=status_line(
            body.prompts,
            number=seq,
            author=wake.author,
            time=time,
            recall_count=head.recall_count,
            archival_count=head.archival_count,
            blocks=blocks,
            percent=load.percent,
        ),
    )
    body.renderer.forget(message)
    if head.warned or not load.over(head.agent.settings.paging.warn):
        return [message], head.warned
    alert = alert_message(body, [*queue, message], load.percent, seq + 1, turn_id, None, now)
    return [message, alert], True


def alert_message(
    body: Body,
    queue: Sequence[Message],
    percent: int,
    seq: int,
    turn_id: str,
    step_id: str | None,
    now: datetime,
) -> Message:
    """The alert that the window fills up, as an event of the runtime."""
    agent = body.agent
    return Message(
        id=new_id("message"),
        seq=seq,
        role="user",
        kind="alert",
        text=pressure_alert(
            body.prompts, agent, queue, percent, local_stamp(now, agent.settings.timezone)
        ),
        created_at=now,
        label="owner",
        turn_id=turn_id,
        step_id=step_id,
        data={"reason": "pressure"},
    )


def heartbeat_message(
    body: Body, outcome: Continue, seq: int, turn_id: str, step_id: str, now: datetime
) -> Message:
    """The event that makes the agent think once more, with its reason."""
    settings = body.agent.settings
    return Message(
        id=new_id("message"),
        seq=seq,
        role="user",
        kind="heartbeat",
        text=body.prompts.render(
            "events/heartbeat",
            reason=outcome.reason,
            time=local_stamp(now, settings.timezone),
            tools=list(dict.fromkeys(outcome.tools)),
            reply_tool=settings.style.reply == "tool",
        ),
        created_at=now,
        label="owner",
        turn_id=turn_id,
        step_id=step_id,
        data={"reason": outcome.reason},
    )


def next_event(
    turn: OpenTurn,
    outcome: Outcome,
    queue: Sequence[Message],
    percent: int,
    seq: int,
    step_id: str,
    now: datetime,
) -> list[Message]:
    """What the outcome adds to the queue: nothing, a heartbeat, or the alert.

    In a style that continues after any call, the results themselves say that it goes on.
    """
    if not isinstance(outcome, Continue):
        return []
    if outcome.reason == "pressure":
        return [alert_message(turn.body, queue, percent, seq, turn.id, step_id, now)]
    style = turn.body.agent.settings.style
    if outcome.reason == "requested" and style.continue_on == "call":
        return []
    return [heartbeat_message(turn.body, outcome, seq, turn.id, step_id, now)]


def refresh(tx: Transaction, turn: OpenTurn) -> journal.Plan | None:
    """Brings a turn in memory up to what is committed of it, where a commit was not waited for.

    Returns:
        the step that was planned and not finished.

    Raises:
        NotFound: the turn was deleted.
    """
    row = journal.turn_by_id(tx, turn.id)
    head = journal.head(tx, turn.conversation_id)
    if row is None or head is None:
        raise NotFound(f"turn {turn.id} was deleted with its conversation")
    if row.status == "done":
        turn.ended = journal.turn_record(tx, row)
    turn.queue = rows.window(tx, turn.conversation_id)
    turn.blocks = block_rows.of_agent(tx, turn.agent_id)
    turn.last_seq, turn.window_version = head.last_seq, head.window_version
    turn.warned, turn.folds = head.warned, head.folds
    turn.steps = list(journal.step_records(tx, turn.id))
    if row.usage != turn.usage:
        turn.usage, turn.unrecorded = row.usage, Usage()
    return journal.open_plan(tx, turn.id)


def record_end(
    tx: Transaction,
    turn: OpenTurn,
    reason: StopReason,
    error: str | None,
    now: datetime,
) -> Turn:
    """The turn's end outside a step: cancelled, failed, or not to be taken up again. Frees the
    lease.

    Raises:
        LeaseLost: somebody else has taken the conversation over.
    """
    journal.moved(
        tx,
        turn.lease,
        last_seq=turn.last_seq,
        window_version=turn.window_version,
        warned=turn.warned,
        until=None,
    )
    usage = turn.usage + turn.unrecorded
    journal.set_turn(tx, turn.id, usage, stop_reason=reason, error=error, ended_at=now)
    if turn.unrecorded.calls:
        agent_rows.spent(tx, turn.agent_id, 0, turn.unrecorded)
    return Turn(
        turn.id,
        turn.conversation_id,
        tuple(turn.steps),
        reason,
        usage,
        turn.started_at,
        now,
        error,
    )


def lease_until(now: datetime) -> datetime:
    """When a lease taken or renewed now runs out."""
    return now + timedelta(seconds=LEASE_SECONDS)
