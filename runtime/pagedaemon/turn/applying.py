"""What the calls of a step come to inside its transaction: internal effects and built-in reads."""

from __future__ import annotations

from dataclasses import dataclass, field

from pagedaemon.errors import EditRefused, InvalidInput, NotFound
from pagedaemon.events import BlockChange
from pagedaemon.memory.effects import Acting, Told
from pagedaemon.messages import Label
from pagedaemon.store import blocks as block_rows
from pagedaemon.store.journal import PlannedCall
from pagedaemon.store.transaction import Transaction
from pagedaemon.tools.toolbox import Outcome as CallOutcome
from pagedaemon.turn.body import Body
from pagedaemon.turn.draft import Draft, DraftCall


@dataclass
class Applied:
    """What the calls of a step came to."""

    calls: list[PlannedCall] = field(default_factory=list)
    changes: list[BlockChange] = field(default_factory=list)
    paged_out: int = 0
    folds: int = 0
    labels: dict[str, Label] = field(default_factory=dict)
    """Of what memory tools showed, by the call's id."""
    stirs: bool = False


def apply_calls(tx: Transaction, body: Body, draft: Draft, acting: Acting) -> Applied:
    """Internal effects and built-in reads, in call order; outside calls bring their results."""
    applied = Applied()
    for call in draft.calls:
        row = call.row
        if row.result is None:
            row = _came_to(tx, body, call, acting, applied).row
        applied.calls.append(row)
    return applied


def _came_to(
    tx: Transaction, body: Body, call: DraftCall, acting: Acting, applied: Applied
) -> DraftCall:
    effect = call.effect
    if effect is None:
        # It was planned, and the turn was cancelled before it ran.
        told = body.prompts.render("results/not_run", tool=call.row.tool)
        return call.came_to(CallOutcome("failed", told))
    try:
        told_by_effect = effect.apply(tx, acting)
    except EditRefused as refusal:
        return call.came_to(CallOutcome("failed", _refusal(tx, body, refusal, acting)))
    except (InvalidInput, NotFound) as refusal:
        text = body.prompts.render("results/refused", message=str(refusal))
        return call.came_to(CallOutcome("failed", text))
    _note(told_by_effect, acting, applied)
    applied.labels[call.row.id] = told_by_effect.label
    text = body.prompts.render(told_by_effect.template, **told_by_effect.values)
    return call.came_to(CallOutcome("ok", text))


def _note(told: Told, acting: Acting, applied: Applied) -> None:
    applied.stirs |= told.stirs
    applied.changes += told.changes
    for change in told.changes:
        # A later call of this step knows what this one wrote, unless somebody wrote in between.
        if acting.read_versions.get(change.block_id) == change.version - 1:
            acting.read_versions[change.block_id] = change.version
    if told.paged_out is not None:
        applied.paged_out += told.paged_out.messages
        applied.folds += 1


def _refusal(tx: Transaction, body: Body, refusal: EditRefused, acting: Acting) -> str:
    labels = [row.label for row in block_rows.of_agent(tx, acting.agent_id)]
    return body.prompts.render(
        "results/edit_refused",
        reason=refusal.reason,
        label=refusal.label,
        current=refusal.current,
        nearest=list(refusal.nearest),
        limit=refusal.limit,
        size=refusal.size,
        labels=labels,
    )
