"""A model's reply, read: what it said, what it called, and which of that has effects outside."""

from __future__ import annotations

import functools
import json
import math
import re
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from pagedaemon.clock import new_id
from pagedaemon.llm.protocol import CALL_EXTRAS, RawCall, Reply
from pagedaemon.memory.effects import Effect
from pagedaemon.memory.recall import whole_of
from pagedaemon.messages import Call, HeartbeatReason, Label, Message, Usage, storable
from pagedaemon.store.journal import Plan, PlannedCall
from pagedaemon.tools.arguments import DEEPEST, read_arguments
from pagedaemon.tools.gates import needs_approval, tainted
from pagedaemon.tools.memory_tools import SPEAK
from pagedaemon.tools.rules import Called, allowed, missing
from pagedaemon.tools.tool import Tool
from pagedaemon.tools.toolbox import Outcome, Understood
from pagedaemon.turn.body import Body

_WIRE_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""What every provider takes as the id of a call."""

_OWN_FIELDS = ("role", "content", "tool_calls")
"""Fields of a message that are rendered from what is stored; none comes back opaque."""

_LONGEST_NAME = 200
"""Characters of a tool's name that are kept: no tool has more than 64."""


@dataclass(frozen=True)
class DraftCall:
    """One call of a reply: its row in the journal, and how it was understood."""

    row: PlannedCall
    understood: Understood

    @property
    def tool(self) -> Tool | None:
        """Which tool it calls; None where there is none of that name."""
        return self.understood.tool

    @property
    def runs_outside(self) -> bool:
        """Whether it is to be run before the transaction, and has not been yet."""
        return (
            self.tool is not None
            and self.tool.effect != "internal"
            and self.understood.error is None
            and self.row.status not in ("ok", "failed", "unknown", "awaiting")
        )

    @functools.cached_property
    def effect(self) -> Effect | None:
        """What it wants done inside the transaction: one value, prepared before and applied in
        it."""
        if self.row.result is not None:
            return None
        if self.tool is None or self.tool.effect != "internal" or self.understood.error is not None:
            return None
        made: Effect = self.tool.function(**self.understood.arguments)
        return made

    def came_to(self, outcome: Outcome) -> DraftCall:
        """The call with its result."""
        return replace(self, row=replace(self.row, status=outcome.status, result=outcome.text))


@dataclass(frozen=True, slots=True)
class Refusal:
    """Replies of a step that are not what was asked for; the user does not hear them."""

    text: str
    """The last of them."""
    problems: tuple[str, ...]
    """What is wrong with it, in words."""
    calls: frozenset[str] = frozenset()
    """Ids of the calls that would have said them."""


@dataclass(frozen=True)
class Draft:
    """A step before it is finished."""

    plan: Plan
    reply: Reply
    calls: tuple[DraftCall, ...]
    planned: bool = False
    """Whether the plan has been stored."""
    refusal: Refusal | None = None
    """Where a reply of a certain type was asked for: what is none."""
    unspoken: bool = False
    """The plain text is no reply, whatever the style."""

    @property
    def granted(self) -> PlannedCall | None:
        """The call that a person has approved, where the step is no reply but runs that call."""
        rows = (call.row for call in self.calls)
        return next((row for row in rows if row.verdict and "granted" in row.verdict), None)

    @property
    def has_outside(self) -> bool:
        """Whether anything is to be run before the step can be finished."""
        return any(call.runs_outside for call in self.calls)


def read_reply(
    body: Body,
    reply: Reply,
    queue: Sequence[Message],
    *,
    seq: int,
    heartbeat: HeartbeatReason | None,
    context_hash: str,
    block_versions: Mapping[str, int],
    usage: Usage,
    now: datetime,
    past: Sequence[Called] = (),
) -> Draft:
    """Reads a reply that has just come: every call is named, checked against its tool and the
    agent's rules, numbered, and held back where a person is to be asked.

    Args:
        past: the turn's calls before this step, by which the rules judge.

    What no store can hold (NUL, half a surrogate pair) is kept as U+FFFD. Of the provider's own
    fields those are dropped that are no JSON, that would replace a field of the message, or that
    belong to calls there are not.
    """
    taken = {call.id for message in queue for call in message.calls}
    is_tainted = tainted(queue)
    calls: list[DraftCall] = []
    for number, raw in enumerate(reply.calls, start=1):
        wire_id = _free_id(raw.id, taken)
        taken.add(wire_id)
        understood = body.toolbox.understand(raw, body.agent.settings.style)
        row = PlannedCall(
            id=new_id("call"),
            seq=number,
            wire_id=wire_id,
            tool=storable(raw.name)[:_LONGEST_NAME],
            arguments=understood.plain,
            raw=storable(raw.arguments),
            effect="internal" if understood.tool is None else understood.tool.effect,
            status="intended",
            heartbeat=understood.heartbeat,
        )
        call = _answered(DraftCall(row, understood))
        call = _judged(call, body, past, [earlier.row for earlier in calls])
        calls.append(_gated(call, body, is_tainted=is_tainted))
    reply = _storable(reply)
    plan = Plan(
        step_id=new_id("step"),
        seq=seq,
        heartbeat=heartbeat,
        reply=asdict(replace(reply, usage=None)),
        context_hash=context_hash,
        block_versions=block_versions,
        model=body.model.name,
        usage=usage,
        created_at=now,
        calls=tuple(call.row for call in calls),
    )
    return Draft(plan, reply, tuple(calls))


def take_up(body: Body, plan: Plan) -> Draft:
    """Reads a stored plan again after a crash.

    A call that was started and must not run twice has an unknown outcome; everything else that has
    no result yet is run.
    """
    stored = dict(plan.reply)
    raw_calls = tuple(RawCall(**call) for call in stored.pop("calls"))
    stored.pop("usage")
    reply = Reply(calls=raw_calls, usage=plan.usage, **stored)
    calls: list[DraftCall] = []
    for row, raw in zip(plan.calls, raw_calls, strict=True):
        call = DraftCall(row, body.toolbox.understand(raw, body.agent.settings.style))
        if row.status == "started" and row.effect == "once":
            call = _cut_off(call, body)
        calls.append(_answered(call))
    return Draft(plan, reply, tuple(calls), planned=True)


def take_up_stopped(body: Body, plan: Plan, begun: Collection[str]) -> Draft:
    """As `take_up`, of a step in which nothing is run any more.

    Args:
        begun: ids of calls that have begun and of which no end was seen: those were cut off,
            whatever their effect.
    """
    draft = take_up(body, plan)
    calls = [_cut_off(call, body) if call.row.id in begun else call for call in draft.calls]
    return replace(draft, calls=tuple(calls))


def take_up_plainly(body: Body, plan: Plan, begun: Collection[str]) -> Draft:
    """Reads a stored plan that cannot be finished as it was meant: nothing is run, applied or sent
    back opaque, and every call has a result. What came of a call is kept; one that was started or
    has begun was cut off; all others were not run.

    Args:
        begun: as of `take_up_stopped`.
    """
    calls: list[DraftCall] = []
    for row in plan.calls:
        wire = read_arguments(row.raw).wire
        call = DraftCall(row, Understood(None, plain=dict(row.arguments), wire_arguments=wire))
        if row.status == "started" or row.id in begun:
            call = _cut_off(call, body)
        elif row.result is None:
            told = body.prompts.render("results/not_run", tool=row.tool)
            call = call.came_to(Outcome("failed", told))
        calls.append(call)
    reply = Reply(content=str(plan.reply["content"]), reasoning=str(plan.reply["reasoning"]))
    return Draft(plan, reply, tuple(calls), planned=True)


def _cut_off(call: DraftCall, body: Body) -> DraftCall:
    """A call whose end nobody saw: its outcome is unknown. One that only reads has failed."""
    tool = call.row.tool
    if call.row.result is not None:
        return call
    if call.row.effect == "read":
        told = body.prompts.render("results/interrupted", tool=tool)
        return call.came_to(Outcome("failed", told))
    told = body.prompts.render("results/unknown", tool=tool, problem=None, detail="")
    return call.came_to(Outcome("unknown", told))


def _answered(call: DraftCall) -> DraftCall:
    """A call that cannot be made has its result already: what was wrong with it."""
    if call.understood.error is None or call.row.result is not None:
        return call
    return call.came_to(Outcome("failed", call.understood.error))


def _judged(
    call: DraftCall, body: Body, past: Sequence[Called], beside: Sequence[PlannedCall]
) -> DraftCall:
    """A call against the agent's rules has its result already: what may be called now, and why.

    Args:
        beside: the calls before it in the same reply.
    """
    rules, tools = body.agent.settings.rules, body.toolbox.names
    if not rules or call.row.result is not None:
        return call
    history = [*past, *beside]
    now = allowed(rules, history, tools)
    if call.row.tool in now.names:
        return call
    told = body.prompts.render(
        "results/not_allowed",
        tool=call.row.tool,
        rules=[rule.model_dump(mode="json") for rule in now.why[call.row.tool]],
        allowed=list(now.names),
        due=[name for name in missing(rules, history, tools) if name != call.row.tool],
        waiting=any(earlier.result is None for earlier in beside),
    )
    return call.came_to(Outcome("failed", told))


def _gated(call: DraftCall, body: Body, *, is_tainted: bool) -> DraftCall:
    """The call; where a person is to be asked first, with that for its result."""
    if call.tool is None or call.row.result is not None:
        return call
    settings, arguments = body.agent.settings, call.understood.arguments
    why = needs_approval(call.tool, arguments, settings, is_tainted=is_tainted)
    if why is None:
        return call
    identity = new_id("approval")
    told = body.prompts.render("results/awaiting_approval", tool=call.row.tool, id=identity)
    verdict = {
        "approval": identity,
        "why": why,
        "tainted": is_tainted,
        "schema": call.tool.schema_hash,
    }
    return replace(call, row=replace(call.row, status="awaiting", result=told, verdict=verdict))


def _storable(reply: Reply) -> Reply:
    return replace(
        reply,
        content=storable(reply.content),
        reasoning=storable(reply.reasoning),
        calls=tuple(
            RawCall(storable(call.id), storable(call.name), storable(call.arguments))
            for call in reply.calls
        ),
        opaque=_opaque(reply.opaque, len(reply.calls)),
    )


def _opaque(fields: Mapping[str, Any], calls: int) -> dict[str, Any]:
    kept = _json_value(fields, 1)
    if not isinstance(kept, dict):
        return {}
    for name in _OWN_FIELDS:
        kept.pop(name, None)
    extras = kept.get(CALL_EXTRAS, [])
    fits = isinstance(extras, list) and len(extras) == calls
    if not fits or not all(isinstance(extra, dict) for extra in extras):
        kept.pop(CALL_EXTRAS, None)
    return kept


def _json_value(value: object, depth: int) -> Any:
    """The value as JSON that can be stored and sent; what is none is left out of an object, and
    null elsewhere."""
    if isinstance(value, str):
        return storable(str.__str__(value))
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth > DEEPEST:
        return None
    if isinstance(value, Mapping):
        items = ((name, _json_value(item, depth + 1), item) for name, item in value.items())
        return {
            storable(name): kept
            for name, kept, item in items
            if isinstance(name, str) and (kept is not None or item is None)
        }
    if isinstance(value, list | tuple):
        return [_json_value(item, depth + 1) for item in value]
    return None


def _free_id(given: str, taken: Iterable[str]) -> str:
    if _WIRE_ID.fullmatch(given) and given not in taken:
        return given
    return f"call_{uuid.uuid4().hex[:24]}"


def spoken(draft: Draft, calls: Sequence[PlannedCall], body: Body) -> tuple[str, ...]:
    """What the user heard in a step: plain content or what was passed to `send_message`."""
    style = body.agent.settings.style
    text = "" if draft.unspoken else draft.reply.content.strip()
    if style.reply == "content":
        return (text,) if text else ()
    if not calls and text and style.plain_text == "reply":
        return (text,)
    return tuple(
        str(call.arguments["message"])
        for call in calls
        if call.tool == SPEAK and call.status == "ok"
    )


def thoughts(draft: Draft, said: tuple[str, ...], body: Body) -> str:
    """What the agent thought in a step and the user did not hear."""
    found = [draft.reply.reasoning.strip()]
    text = draft.reply.content.strip()
    if (body.agent.settings.style.reply == "tool" or draft.unspoken) and text not in said:
        found.append(text)
    found += [call.understood.thoughts.strip() for call in draft.calls]
    return "\n".join(dict.fromkeys(part for part in found if part))


def reply_message(
    draft: Draft, said: tuple[str, ...], body: Body, seq: int, turn_id: str
) -> Message:
    """The model's reply as it is stored: what it said, to the letter."""
    ref = f"#{seq}"
    text = draft.reply.content
    data: dict[str, Any] = {}
    whole = whole_of(text, [call.row.raw for call in draft.calls])
    inside = [part for part in said if part != text.strip()]
    if inside:
        data["said"] = inside
    if draft.reply.opaque:
        data["opaque"] = dict(draft.reply.opaque)
    return Message(
        id=new_id("message"),
        seq=seq,
        role="assistant",
        kind="reply",
        text=text,
        created_at=draft.plan.created_at,
        calls=tuple(
            Call(
                call.row.wire_id,
                _wire_name(call),
                _shortened(call.understood.wire_arguments, body, ref, whole),
                call.row.raw,
            )
            for call in draft.calls
        ),
        digest=body.digest(text, "message", ref, whole=whole),
        label="agent",
        turn_id=turn_id,
        step_id=draft.plan.step_id,
        data=data,
    )


def _wire_name(call: DraftCall) -> str:
    # A name no provider would take back is shown as one that all take; the row keeps what was said.
    return re.sub(r"[^a-zA-Z0-9_-]", "_", call.row.tool)[:64] or "unnamed"


def _shortened(arguments: str, body: Body, ref: str, whole: str) -> str:
    digest = body.digest(arguments, "arguments", ref, whole=whole)
    return arguments if digest is None else json.dumps({"shortened": digest}, ensure_ascii=False)


def result_message(
    call: PlannedCall,
    tool: Tool | None,
    body: Body,
    seq: int,
    turn_id: str,
    step_id: str,
    now: datetime,
    recalled: Label | None,
) -> Message:
    """What a call returned, as the model reads it: whole, or a digest with pages.

    Args:
        recalled: the lowest label of what a memory tool shows; None for other tools.
    """
    assert call.result is not None, "a finished step has a result for every call"
    builtin = tool is not None and tool.effect == "internal"
    cap = None if tool is None or builtin else tool.max_result_chars
    return Message(
        id=new_id("message"),
        seq=seq,
        role="tool",
        kind="result",
        text=call.result,
        created_at=now,
        call_id=call.wire_id,
        tool=call.tool,
        digest=body.digest(call.result, "result", f"#{seq}", cap=cap),
        label=result_label(call, tool, recalled),
        turn_id=turn_id,
        step_id=step_id,
        data={"builtin": True} if builtin else {},
    )


def result_label(call: PlannedCall, tool: Tool | None, recalled: Label | None) -> Label:
    """Who stands behind what a call returned; what the runtime says in place of a result is no text
    from outside."""
    if recalled is not None:
        return recalled
    outside = tool is not None and tool.returns == "external" and call.status != "awaiting"
    return "external" if outside else "tool"
