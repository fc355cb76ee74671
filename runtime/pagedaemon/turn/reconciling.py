"""Calls of a stored plan that were begun by a process that is gone: their tools are asked what
became of them, before anything is declared unknown or run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from pagedaemon.clock import Clock
from pagedaemon.store import journal
from pagedaemon.store.database import Database
from pagedaemon.store.journal import Plan, PlannedCall
from pagedaemon.store.transaction import Transaction
from pagedaemon.tools.reconcile import not_known, reconciled
from pagedaemon.tools.tool import Tool
from pagedaemon.tools.toolbox import Outcome
from pagedaemon.turn.state import OpenTurn

logger = logging.getLogger("pagedaemon")


async def reconcile(
    store: Database, clock: Clock, turn: OpenTurn, plan: Plan, *, may_go_on: bool
) -> Plan:
    """The plan with what is known of its calls now. It is stored first, so that what has been said
    of a call holds whatever dies next: a result is its result, and a call that never ran is one
    that was not begun.

    Args:
        turn: taken up after it was left open.
        may_go_on: the process that had begun the calls lives, and may still be at them. Then one
            that has not run yet may run at any moment, so it is not run here.

    Raises:
        LeaseLost: another worker has taken the conversation over.
        StoreError: the store failed.
    """
    asked = {row.id: tool for row in plan.calls if (tool := _asked_about(turn, row)) is not None}
    if asked:
        prompts = turn.body.prompts
        found = await asyncio.gather(
            *(reconciled(tool, key, prompts) for key, tool in asked.items())
        )
        outcomes = dict(zip(asked, found, strict=True))
        if may_go_on:
            outcomes = {
                key: outcome or not_known(tool, prompts, "running")
                for (key, tool), outcome in zip(asked.items(), found, strict=True)
            }
        await store.write(_storing(turn, outcomes, clock.now()))
        plan = replace(plan, calls=tuple(_as_known(row, outcomes) for row in plan.calls))
    _tell_owner(plan)
    return plan


def _tell_owner(plan: Plan) -> None:
    for row in plan.calls:
        if row.status == "unknown" or _is_cut_off(row):
            logger.warning(
                "nobody saw how call %s of tool %s ended, and it is not run again: see outcomes",
                row.id,
                row.tool,
            )


def _is_cut_off(row: PlannedCall) -> bool:
    """Whether a call that must not run twice was begun, and no result of it is stored."""
    return row.status == "started" and row.effect == "once" and row.result is None


def _asked_about(turn: OpenTurn, row: PlannedCall) -> Tool | None:
    """The tool that can say what became of a call; None where nobody need be asked, or can."""
    if not _is_cut_off(row):
        return None
    tool = turn.body.toolbox.get(row.tool)
    return None if tool is None or tool.reconcile is None else tool


def _as_known(row: PlannedCall, outcomes: Mapping[str, Outcome | None]) -> PlannedCall:
    if row.id not in outcomes:
        return row
    outcome = outcomes[row.id]
    if outcome is None:
        return replace(row, status="intended")
    return replace(row, status=outcome.status, result=outcome.text)


def _storing(
    turn: OpenTurn, outcomes: Mapping[str, Outcome | None], now: datetime
) -> Callable[[Transaction], None]:
    def work(tx: Transaction) -> None:
        journal.fence(tx, turn.lease)
        for call_id, outcome in outcomes.items():
            if outcome is None:
                journal.not_begun(tx, call_id)
            else:
                journal.result(tx, call_id, outcome.status, outcome.text, now)

    return work
