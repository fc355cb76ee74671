"""The events of a window, all in the user's role: what wakes the agent, what makes it think once
more, and the alert that the window fills up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pagedaemon.clock import local_stamp, new_id
from pagedaemon.context.prompt import pressure_alert, status_line
from pagedaemon.continuation import Continue, Outcome
from pagedaemon.media import in_words
from pagedaemon.memory.recollection import Recollection
from pagedaemon.messages import Message
from pagedaemon.store.blocks import BlockRow
from pagedaemon.store.journal import Head, Wake, WakeKind, letter_data
from pagedaemon.turn.body import Body
from pagedaemon.turn.draft import Refusal
from pagedaemon.turn.recalling import with_recollections
from pagedaemon.turn.state import OpenTurn


@dataclass(frozen=True)
class Arrival:
    """What wakes an agent, on its way into the window."""

    wake: Wake
    turn_id: str
    body: Body
    head: Head
    blocks: Sequence[BlockRow]
    queue: Sequence[Message]
    now: datetime
    recalled: Sequence[Recollection] = ()
    """What memory has on it, best first."""

    @property
    def seq(self) -> int:
        """The number its message gets."""
        return self.head.last_seq + 1


def _said(arrival: Arrival) -> Message:
    """A person's words."""
    wake, seq = arrival.wake, arrival.seq
    words = in_words(wake.text, wake.attachments)
    return Message(
        id=new_id("message"),
        seq=seq,
        role="user",
        kind="message",
        text=wake.text,
        created_at=arrival.now,
        digest=arrival.body.digest(wake.text, "message", f"#{seq}", whole=words),
        label=wake.label,
        author=wake.author,
        turn_id=arrival.turn_id,
        attachments=wake.attachments,
    )


def _woken(arrival: Arrival) -> Message:
    """A heartbeat of the owner's."""
    body, now = arrival.body, arrival.now
    return heartbeat_message(body, "woken", (), arrival.seq, arrival.turn_id, None, now)


LATE = timedelta(minutes=1)
"""From when on a timer says that it rings late."""


def _rung(arrival: Arrival) -> Message:
    """A timer."""
    ring, wake = arrival.wake.ring, arrival.wake
    assert ring is not None, "a timer has a ring"
    return _signal(
        arrival,
        "timer",
        {"schedule": ring.schedule_id},
        id=ring.schedule_id,
        note=wake.text,
        due=local_stamp(ring.due, arrival.body.agent.settings.timezone),
        every_seconds=ring.every,
        missed=ring.missed,
        late=arrival.now - ring.due > LATE,
        by="owner" if wake.label == "owner" else "agent",
    )


def _mailed(arrival: Arrival) -> Message:
    """Another agent's words, and under them what they are."""
    letter, wake, body = arrival.wake.letter, arrival.wake, arrival.body
    assert letter is not None, "mail has a letter"
    text = body.prompts.render(
        "events/mail", name=wake.author, text=wake.text, kind=wake.kind, stopped=letter.stopped
    )
    return Message(
        id=new_id("message"),
        seq=arrival.seq,
        role="user",
        kind="message",
        text=text,
        created_at=arrival.now,
        status=body.prompts.render(
            "events/mail_note",
            name=wake.author,
            kind=wake.kind,
            reply_tool=body.agent.settings.style.reply == "tool",
        ),
        digest=body.digest(text, "message", f"#{arrival.seq}"),
        label=wake.label,
        author=wake.author,
        turn_id=arrival.turn_id,
        data={LETTER: letter_data(letter)},
    )


def _ruled(arrival: Arrival) -> Message:
    """What was said of a call that waited for a person."""
    ruling = arrival.wake.ruling
    assert ruling is not None, "an approval has a ruling"
    return _signal(
        arrival,
        "approval",
        {"approval": ruling.approval_id},
        id=ruling.approval_id,
        tool=ruling.tool,
        decision=ruling.decision,
        by=ruling.by,
        reason=ruling.reason,
    )


def _settled(arrival: Arrival) -> Message:
    """What became of a call whose outcome was unknown."""
    found = arrival.wake.settlement
    assert found is not None, "an outcome has a settlement"
    return _signal(
        arrival,
        "outcome",
        {"call": found.call_id},
        id=found.call_id,
        tool=found.tool,
        happened=found.happened,
        by=found.by,
        note=found.note,
    )


def _signal(arrival: Arrival, kind: str, data: Mapping[str, str], /, **values: object) -> Message:
    """What nobody said: a heartbeat with the time, from the event's own template.

    Args:
        kind: the reason of the heartbeat, and the name of the template.
        data: what it is about, for who reads the message.
        values: what the template takes beside the time and how replies are given.
    """
    body = arrival.body
    settings = body.agent.settings
    return Message(
        id=new_id("message"),
        seq=arrival.seq,
        role="user",
        kind="heartbeat",
        text=body.prompts.render(
            f"events/{kind}",
            time=local_stamp(arrival.now, settings.timezone),
            reply_tool=settings.style.reply == "tool",
            **values,
        ),
        created_at=arrival.now,
        label=arrival.wake.label,
        turn_id=arrival.turn_id,
        data={"reason": kind, **data},
    )


LETTER = "letter"
"""Under which a message keeps the letter of mail."""


@dataclass(frozen=True)
class Waking:
    """What one kind of event does.

    Attributes:
        message: how the model sees it.
        user_waits: whether somebody wants a reply, so that silence is worth a nudge.
        has_status: whether the status line is shown under it.
        recalls: whether memory is searched for it, by agents that recall without asking.
    """

    message: Callable[[Arrival], Message]
    user_waits: bool = False
    has_status: bool = False
    recalls: bool = False


WAKINGS: Mapping[WakeKind, Waking] = {
    "message": Waking(_said, user_waits=True, has_status=True, recalls=True),
    "heartbeat": Waking(_woken),
    "timer": Waking(_rung),
    "mail": Waking(_mailed, has_status=True),
    "question": Waking(_mailed, user_waits=True, has_status=True),
    "answer": Waking(_mailed, has_status=True),
    "approval": Waking(_ruled),
    "outcome": Waking(_settled),
}


def wake_messages(arrival: Arrival) -> tuple[list[Message], bool]:
    """What wakes the agent, as messages: itself and, where the window fills up, the alert beside
    it.

    Returns:
        the new messages, and whether the agent has now been warned in this window.
    """
    body, head, now = arrival.body, arrival.head, arrival.now
    waking = WAKINGS[arrival.wake.kind]
    message = waking.message(arrival)
    if (asked := arrival.wake.reply_schema) is not None:
        message = replace(message, status=_reply_format(body, asked))
    load = body.weigh(arrival.blocks, [*arrival.queue, message])
    if waking.has_status:
        body.renderer.forget(message)
        lines = (_status(arrival, load.percent), message.status)
        message = replace(message, status="\n".join(filter(None, lines)))
        if arrival.recalled:
            message = _with_recollections(arrival, message, after=len(lines[0]))
    if head.warned or not load.over(head.agent.settings.paging.warn):
        return [message], head.warned
    queue = [*arrival.queue, message]
    alert = alert_message(body, queue, load.percent, message.seq + 1, arrival.turn_id, None, now)
    return [message, alert], True


def _with_recollections(arrival: Arrival, message: Message, after: int) -> Message:
    return with_recollections(
        arrival.body, arrival.blocks, arrival.queue, message, arrival.recalled, after=after
    )


def _reply_format(body: Body, schema: str) -> str:
    reply_tool = body.agent.settings.style.reply == "tool"
    return body.prompts.render("events/reply_format", schema=schema, reply_tool=reply_tool)


def _status(arrival: Arrival, percent: int) -> str:
    head = arrival.head
    return status_line(
        arrival.body.prompts,
        number=arrival.seq,
        author=arrival.wake.author,
        time=local_stamp(arrival.now, head.agent.settings.timezone),
        recall_count=head.recall_count,
        archival_count=head.archival_count,
        blocks=arrival.blocks,
        percent=percent,
    )


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
    body: Body,
    reason: str,
    tools: Sequence[str],
    seq: int,
    turn_id: str,
    step_id: str | None,
    now: datetime,
) -> Message:
    """The event that makes the agent think, with its reason.

    Args:
        reason: one of those that `prompts/events/heartbeat.j2` words.
        tools: what it is about.
        step_id: the step it follows; None where it wakes the agent.
    """
    settings = body.agent.settings
    return Message(
        id=new_id("message"),
        seq=seq,
        role="user",
        kind="heartbeat",
        text=body.prompts.render(
            "events/heartbeat",
            reason=reason,
            time=local_stamp(now, settings.timezone),
            tools=list(dict.fromkeys(tools)),
            reply_tool=settings.style.reply == "tool",
        ),
        created_at=now,
        label="owner",
        turn_id=turn_id,
        step_id=step_id,
        data={"reason": reason},
    )


def invalid_message(
    turn: OpenTurn, refusal: Refusal, seq: int, step_id: str, now: datetime
) -> Message:
    """The event that says what is wrong with a reply that is not of the type asked for."""
    body = turn.body
    settings = body.agent.settings
    return Message(
        id=new_id("message"),
        seq=seq,
        role="user",
        kind="heartbeat",
        text=body.prompts.render(
            "events/invalid_reply",
            problems=list(refusal.problems),
            time=local_stamp(now, settings.timezone),
            reply_tool=settings.style.reply == "tool",
        ),
        created_at=now,
        label="owner",
        turn_id=turn.id,
        step_id=step_id,
        data={"reason": "invalid"},
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

    In a style that continues after any call, the results themselves say that it goes on. What is
    wrong with a reply stands in the queue already, whatever else goes with it.
    """
    if not isinstance(outcome, Continue) or outcome.reason == "invalid":
        return []
    if outcome.reason == "pressure":
        return [alert_message(turn.body, queue, percent, seq, turn.id, step_id, now)]
    style = turn.body.agent.settings.style
    if outcome.reason == "requested" and style.continue_on == "call":
        return []
    reason, tools = outcome.reason, outcome.tools
    return [heartbeat_message(turn.body, reason, tools, seq, turn.id, step_id, now)]
