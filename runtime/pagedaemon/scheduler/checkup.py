"""What is wrong with the turns, leases, outcomes, approvals and timers of a space, and mending it:
by that by which they are recovered anyway, at once and to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import select, update

from pagedaemon.scheduler.claims import ATTEMPTS
from pagedaemon.scheduler.dispatch import Scheduler
from pagedaemon.scheduler.owners import Owners, orphaned
from pagedaemon.store import approvals, journal, outcomes, schedules
from pagedaemon.store.checkup import Symptom
from pagedaemon.store.journal import TurnRow, Wake
from pagedaemon.store.tables import conversations, turns
from pagedaemon.store.transaction import Transaction

OVERDUE = timedelta(minutes=1)
"""How long after its time an approval or a timer is left to a process that sees to such things."""

Unable = Callable[[Transaction, str, Wake | None], str | None]
"""Why the agent of a conversation cannot be woken here; None where it can."""


@dataclass(frozen=True)
class Watcher:
    """Who looks, and what they know.

    Attributes:
        owners: the workers of the store.
        now: the time that agents live in.
        abandoned: whether nobody works on an open turn; None: as the workers are seen.
        unable: None: nobody is to be woken, and all that could be wrong is told.
    """

    owners: Owners
    now: datetime
    abandoned: Callable[[TurnRow], bool] | None = None
    unable: Unable | None = None

    def is_abandoned(self, row: TurnRow) -> bool:
        """Whether nobody works on an open turn."""
        return orphaned(row, self.owners) if self.abandoned is None else self.abandoned(row)

    def why_not(
        self, tx: Transaction, conversation_id: str, wake: Wake | None = None
    ) -> str | None:
        """Why an agent cannot be woken here, where that is known."""
        return None if self.unable is None else self.unable(tx, conversation_id, wake)


def symptoms(tx: Transaction, watcher: Watcher) -> Iterator[Symptom]:
    """All of them."""
    yield from _turns(tx, watcher)
    yield from _leases(tx, watcher)
    yield from _outcomes(tx)
    yield from _approvals(tx, watcher)
    yield from _timers(tx, watcher)
    for owner in watcher.owners.gone():
        yield Symptom("worker_gone", f"{owner}.lock", "a process that has died left its lock file")


def _turns(tx: Transaction, watcher: Watcher) -> Iterator[Symptom]:
    for row in journal.open_turns(tx):
        if not watcher.is_abandoned(row):
            continue
        advice = watcher.why_not(tx, row.conversation_id, row.wake)
        if row.status == "queued":
            what = "a message or event that no process will answer"
            yield Symptom("turn_queued", row.id, what, advice)
            continue
        yield Symptom("turn_open", row.id, _how_far(tx, row), advice)


def _how_far(tx: Transaction, row: TurnRow) -> str:
    plan = journal.open_plan(tx, row.id)
    most = ATTEMPTS if plan is None else 2 * ATTEMPTS
    what = f"a turn that no process works on, begun {row.attempts} of {most} times"
    if plan is None:
        return what
    cut = [call.tool for call in plan.calls if call.status == "started"]
    return f"{what}, cut off in {', '.join(cut)}" if cut else f"{what}, its calls planned"


def _leases(tx: Transaction, watcher: Watcher) -> Iterator[Symptom]:
    what = "a conversation that a process holds which is gone, and no turn of which is open"
    for conversation_id, _, owner in _idle_leases(tx, watcher.owners):
        yield Symptom("lease_left", conversation_id, f"{what} ({owner})")


def _idle_leases(tx: Transaction, owners: Owners) -> list[tuple[str, int, str]]:
    column = conversations.c
    is_open = select(turns.c.conversation_id).where(turns.c.status != "done")
    rows = tx.all(
        select(column.id, column.epoch, column.lease_owner, column.lease_until).where(
            column.space == tx.space, column.lease_owner.is_not(None), column.id.not_in(is_open)
        )
    )
    now = datetime.now(UTC)
    return [
        (row[0], row[1], row[2])
        for row in rows
        if row[3] is None or row[3] <= now or not owners.alive(row[2])
    ]


def _give_back_leases(tx: Transaction, owners: Owners) -> None:
    """Gives back the leases of conversations in which nothing is open and whose owner is gone."""
    for conversation_id, epoch, _ in _idle_leases(tx, owners):
        tx.execute(
            update(conversations)
            .where(conversations.c.id == conversation_id, conversations.c.epoch == epoch)
            .values(lease_owner=None, lease_until=None)
        )


def _outcomes(tx: Transaction) -> Iterator[Symptom]:
    for row in outcomes.listed(tx):
        what = f"nobody knows whether a call of {row.tool} took effect"
        yield Symptom("outcome_unknown", row.id, what)


def _approvals(tx: Transaction, watcher: Watcher) -> Iterator[Symptom]:
    for row in approvals.overdue(tx, watcher.now - OVERDUE):
        what = f"an approval of {row.tool} whose time is over, and that has not expired"
        yield Symptom("approval_overdue", row.id, what)


def _timers(tx: Transaction, watcher: Watcher) -> Iterator[Symptom]:
    for row in schedules.due_now(tx, watcher.now - OVERDUE):
        advice = watcher.why_not(tx, row.conversation_id)
        yield Symptom("timer_overdue", row.id, "a timer that has not rung", advice)


def watcher(scheduler: Scheduler) -> Watcher:
    """A process that has the space open, as one who looks."""

    def unable(tx: Transaction, conversation_id: str, wake: Wake | None) -> str | None:
        return scheduler.claims.unable(tx, conversation_id, wake, with_code=True)

    return Watcher(scheduler.worker, scheduler.clock.now(), scheduler.abandoned, unable)


async def tend(scheduler: Scheduler) -> None:
    """Does at once, and to its end, what otherwise comes with time: turns that nobody works on are
    taken up, approvals whose time is over expire, timers that are due ring, and leases that nobody
    has go back. What needs a model or a tool that is not here is left as it is.

    Raises:
        StoreError: the store failed.
        Closed: the runtime was closed, or belongs to another event loop.
    """
    worker = scheduler.worker
    await scheduler.store.write(lambda tx: _give_back_leases(tx, worker))
    for owner in worker.gone():
        worker.alive(owner)  # which removes its lock file
    await scheduler.timers.ring_due(with_code=True)
    seen: set[str] = set()
    # What a turn that ends has queued is taken up too, but no turn twice, whose end cannot be
    # stored.
    while new := [
        running
        for running in await scheduler.recover(anyhow=False, with_code=True)
        if running.turn_id not in seen
    ]:
        seen.update(running.turn_id for running in new)
        await asyncio.gather(*(running.settled() for running in new))
