"""Calls that wait for a person: kept with the step that made them, and run once they are approved.

Nothing waits in memory. The step closes whole, with "awaiting approval" for the call's result. What
was answered wakes the agent as an event of its own; where that is an approval, the claim of its
turn stores the call as the plan of a step that no model was asked for. From there on it is run as
any planned call is, with the same marks, and so at most once, whatever dies meanwhile.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta

from pagedaemon.clock import new_id
from pagedaemon.llm.protocol import RawCall, Reply
from pagedaemon.messages import Label, Message, Usage
from pagedaemon.store import approvals as rows
from pagedaemon.store import journal
from pagedaemon.store.approvals import ApprovalRow
from pagedaemon.store.journal import Plan, PlannedCall, Ruling, Wake
from pagedaemon.store.transaction import Transaction
from pagedaemon.tools.tool import Tool
from pagedaemon.turn.body import Body
from pagedaemon.turn.state import OpenTurn


def keep_waiting(
    tx: Transaction, turn: OpenTurn, calls: Sequence[PlannedCall], now: datetime
) -> None:
    """Stores an approval for each call of a step that waits for one, as the step closes."""
    lasts = timedelta(seconds=turn.body.agent.settings.gates.expires)
    for call in calls:
        if call.status != "awaiting" or call.verdict is None:
            continue
        rows.add(
            tx,
            ApprovalRow(
                id=call.verdict["approval"],
                agent_id=turn.agent_id,
                conversation_id=turn.conversation_id,
                turn_id=turn.id,
                call_id=call.id,
                seq=call.seq,
                tool=call.tool,
                arguments=call.arguments,
                hash=rows.call_hash(call.tool, call.arguments),
                schema_hash=call.verdict["schema"],
                why=call.verdict["why"],
                is_tainted=call.verdict["tainted"],
                status="pending",
                reason=None,
                created_at=now,
                expires_at=now + lasts,
            ),
        )


def settled(tx: Transaction, wake: Wake, body: Body, now: datetime) -> Wake:
    """What wakes the agent, at the claim: an approved call that is not what was approved any more,
    or whose tool is not there, is denied after all, and says why."""
    ruling = wake.ruling
    if ruling is None or ruling.decision != "approved":
        return wake
    why = _in_the_way(rows.by_id(tx, ruling.approval_id), body.toolbox.get(ruling.tool))
    if why is None:
        return wake
    reason = body.prompts.render("results/not_granted", tool=ruling.tool, why=why)
    rows.move(tx, ruling.approval_id, "approved", "denied", reason=reason, now=now)
    return replace(wake, ruling=replace(ruling, decision="denied", by=None, reason=reason))


def _in_the_way(row: ApprovalRow | None, tool: Tool | None) -> str | None:
    if row is None or row.status != "approved":
        return "answered"
    if tool is None:
        return "missing"
    if tool.schema_hash != row.schema_hash:
        return "changed"
    return None if rows.call_hash(row.tool, row.arguments) == row.hash else "altered"


def granted(tx: Transaction, turn: OpenTurn, wake: Wake, now: datetime) -> Plan | None:
    """The step that runs an approved call, stored as planned in the transaction that claims the
    turn; the approval is used from then on. None for whatever else woke the agent.

    Args:
        wake: `settled`.
    """
    ruling = wake.ruling
    if ruling is None or ruling.decision != "approved":
        return None
    row, tool = rows.by_id(tx, ruling.approval_id), turn.body.toolbox.get(ruling.tool)
    assert row is not None, "an approval that was settled is there"
    assert tool is not None, "so is its tool"
    rows.move(tx, row.id, "approved", "used", now=now)
    raw = json.dumps(dict(row.arguments), ensure_ascii=False)
    call = RawCall(f"call_{uuid.uuid4().hex[:24]}", row.tool, raw)
    planned = PlannedCall(
        id=new_id("call"),
        seq=1,
        wire_id=call.id,
        tool=row.tool,
        arguments=row.arguments,
        raw=raw,
        effect=tool.effect,
        status="intended",
        heartbeat=True,  # the agent hears what came of it, whatever its style
        verdict={"granted": row.id, "tainted": row.is_tainted},
    )
    plan = Plan(
        step_id=new_id("step"),
        seq=1,
        heartbeat=None,
        reply=asdict(Reply(calls=(call,))),
        context_hash="",
        # What stood in the prompt when the call was made: a rewrite of what has changed is refused.
        block_versions=rows.versions_seen(tx, row.call_id),
        model=turn.body.model.name,
        usage=Usage(),
        created_at=now,
        calls=(planned,),
    )
    journal.plan(tx, turn.id, plan)
    return plan


def withdrawn(tx: Transaction, ruling: Ruling, now: datetime) -> None:
    """The turn that should have told an answer was cancelled: what was approved is not run."""
    reason = "its turn was cancelled before it had begun"
    rows.move(tx, ruling.approval_id, "approved", "denied", reason=reason, now=now)


def outcome_message(
    call: PlannedCall,
    tool: Tool | None,
    body: Body,
    seq: int,
    turn_id: str,
    step_id: str,
    now: datetime,
    label: Label,
) -> Message:
    """What came of an approved call. It is an event and no result: the call that the model made has
    its result already.

    Args:
        call: as it was run.
        label: of what it returned.
    """
    assert call.verdict is not None, "a call that was granted says so"
    cap = None if tool is None or tool.effect == "internal" else tool.max_result_chars
    text = body.prompts.render(
        "events/approved_call",
        id=call.verdict["granted"],
        tool=call.tool,
        status=call.status,
        result=call.result,
        reply_tool=body.agent.settings.style.reply == "tool",
    )
    return Message(
        id=new_id("message"),
        seq=seq,
        role="user",
        kind="heartbeat",
        text=text,
        created_at=now,
        digest=body.digest(text, "result", f"#{seq}", cap=cap),
        label=label,
        turn_id=turn_id,
        step_id=step_id,
        data={"reason": "requested", "approval": call.verdict["granted"]},
    )
