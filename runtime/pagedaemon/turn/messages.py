"""What a step leaves in the window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from pagedaemon.messages import Label, Message
from pagedaemon.store.journal import PlannedCall
from pagedaemon.turn.approving import outcome_message
from pagedaemon.turn.body import Body
from pagedaemon.turn.draft import Draft, reply_message, result_label, result_message


def step_messages(
    draft: Draft,
    calls: Sequence[PlannedCall],
    labels: Mapping[str, Label],
    said: tuple[str, ...],
    body: Body,
    last_seq: int,
    turn_id: str,
    now: datetime,
) -> list[Message]:
    """The reply and its results; of a step that runs an approved call, what came of that.

    A reply that says nothing at all is no message: the step's record has it.

    Args:
        calls: as they were brought to their end.
        labels: of what memory tools showed, by the call's id.
    """
    step_id = draft.plan.step_id
    if draft.granted is not None:
        (call,), tool = calls, body.toolbox.get(calls[0].tool)
        label = result_label(call, tool, labels.get(call.id))
        seq = last_seq + 1
        return [outcome_message(call, tool, body, seq, turn_id, step_id, now, label)]
    if not draft.calls and not draft.reply.content.strip() and not draft.reply.opaque:
        return []
    reply = reply_message(draft, said, body, last_seq + 1, turn_id)
    results = [
        result_message(
            call,
            body.toolbox.get(call.tool),
            body,
            last_seq + 2 + number,
            turn_id,
            step_id,
            now,
            labels.get(call.id),
        )
        for number, call in enumerate(calls)
    ]
    return [reply, *results]
