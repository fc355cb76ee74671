"""Running the calls that act outside or read the outside, before the step's transaction.

Such a call is stored before it runs. One that must never run twice gets a start mark too: a crash
between mark and result leaves an outcome nobody knows, which is told and never tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from pagedaemon.agent import AgentRecord
from pagedaemon.clock import Clock
from pagedaemon.store import journal
from pagedaemon.store.database import Database
from pagedaemon.store.transaction import Transaction
from pagedaemon.tools.tool import ToolContext
from pagedaemon.turn.draft import Draft, DraftCall
from pagedaemon.turn.lease import require_ours
from pagedaemon.turn.state import OpenTurn
from pagedaemon.turn.within import calling

Handles: TypeAlias = Callable[[AgentRecord, str, bool], tuple[object, object]]
"""From an agent, a conversation's id, and whether the tool is async, to the handles it is given."""


async def run_outside(
    store: Database,
    clock: Clock,
    turn: OpenTurn,
    draft: Draft,
    handles: Handles,
) -> Draft:
    """Runs what acts outside, in call order; calls declared safe for it run side by side.

    The plan is stored first, with the start mark of the first batch in the same commit. The results
    of the last batch are left for the step's own commit; earlier ones are stored as soon as they
    are there, where running the call again would do something again.

    Where it is stopped, what came of a call by then is stored, the mark of one that had not begun
    is taken back, and those that were cut off are in `OpenTurn.begun`.

    Returns:
        the draft with every outside call answered.

    Raises:
        LeaseLost: another worker has taken the conversation over; nothing more was started.
        asyncio.CancelledError: it was stopped.
    """
    batches = _batches(draft, turn.body.agent.settings.parallel_tools)
    done: dict[str, DraftCall] = {}
    marked: list[str] = []
    try:
        for number, batch in enumerate(batches):
            marked = [call.row.id for call in batch if call.row.effect == "once"]
            first = number == 0 and not draft.planned
            if first or marked:
                await store.write(_starting(turn, draft, marked, clock, plan=first))
            await asyncio.gather(
                *(_run(store, turn, draft, call, clock, handles, done) for call in batch)
            )
            if number + 1 < len(batches):
                lasting = [done[call.row.id] for call in batch if call.row.effect == "once"]
                if lasting:
                    await store.write(_storing(turn, lasting, clock))
    except asyncio.CancelledError:
        never = [call_id for call_id in marked if call_id not in {*turn.begun, *done}]
        if never or done:
            # After a mark that was on its way, in the order of the writes.
            await store.write(_as_seen(turn, list(done.values()), never, clock))
        raise
    return replace(
        draft, planned=True, calls=tuple(done.get(call.row.id, call) for call in draft.calls)
    )


def _batches(draft: Draft, parallel: bool) -> list[list[DraftCall]]:
    batches: list[list[DraftCall]] = []
    beside = False
    for call in draft.calls:
        if not call.runs_outside:
            continue
        assert call.tool is not None
        joins = parallel and call.tool.parallel
        if joins and beside:
            batches[-1].append(call)
        else:
            batches.append([call])
        beside = joins
    return batches


async def _run(
    store: Database,
    turn: OpenTurn,
    draft: Draft,
    call: DraftCall,
    clock: Clock,
    handles: Handles,
    done: dict[str, DraftCall],
) -> None:
    assert call.tool is not None
    agent, conversation = handles(turn.head.agent, turn.conversation_id, call.tool.is_async)
    context = ToolContext(
        agent_id=turn.agent_id,
        agent_name=turn.body.agent.name,
        conversation_id=turn.conversation_id,
        turn_id=turn.id,
        step_id=draft.plan.step_id,
        call_id=call.row.wire_id,
        key=call.row.id,
        now=clock.now(),
        agent=agent,
        conversation=conversation,
    )
    # As late as can be: this process may have stood still since the plan was stored.
    await require_ours(store, turn)
    turn.begun.add(call.row.id)
    with calling(turn.conversation_id):
        outcome = await turn.body.toolbox.run(call.tool, call.understood.arguments, context)
    done[call.row.id] = call.came_to(outcome)
    turn.begun.discard(call.row.id)


def _starting(
    turn: OpenTurn, draft: Draft, marked: Sequence[str], clock: Clock, *, plan: bool
) -> Callable[[Transaction], None]:
    now = clock.now()

    def work(tx: Transaction) -> None:
        journal.fence(tx, turn.lease)
        if plan:
            journal.plan(tx, turn.id, draft.plan)
        for call_id in marked:
            journal.start(tx, call_id, now)

    return work


def _storing(
    turn: OpenTurn, calls: Sequence[DraftCall], clock: Clock
) -> Callable[[Transaction], None]:
    now = clock.now()

    def work(tx: Transaction) -> None:
        journal.fence(tx, turn.lease)
        for call in calls:
            journal.result(tx, call.row.id, call.row.status, call.row.result or "", now)

    return work


def _as_seen(
    turn: OpenTurn, calls: Sequence[DraftCall], never: Sequence[str], clock: Clock
) -> Callable[[Transaction], None]:
    """What is known of the calls of a step that was stopped: their results, and that some were
    marked and did not begin."""
    storing = _storing(turn, calls, clock)

    def work(tx: Transaction) -> None:
        storing(tx)
        for call_id in never:
            journal.not_begun(tx, call_id)

    return work
