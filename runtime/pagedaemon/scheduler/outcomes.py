"""Calls of a space whose outcome nobody saw: listed, and settled by a person who found out.

What is said of one is one transaction with the turn that tells its agent, as an approval's answer
is: it may be said in any process, and is never lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pagedaemon.clock import Clock
from pagedaemon.errors import AlreadyAnswered, NotFound
from pagedaemon.scheduler.claims import Claims
from pagedaemon.store import outcomes as rows
from pagedaemon.store.database import Database
from pagedaemon.store.journal import Settlement, Wake
from pagedaemon.store.outcomes import OutcomeRow, Settled
from pagedaemon.store.transaction import Transaction


@dataclass(frozen=True)
class Told:
    """An outcome that was settled, and the turn in which its agent is told.

    Attributes:
        here: this process runs it.
    """

    row: OutcomeRow
    turn_id: str
    here: bool


class Outcomes:
    """The unknown outcomes of one space in this process.

    Args:
        store: the space.
        clock: the time.
        claims: who can be woken.
        start: runs a turn that was queued, by its id and its conversation's.
        takes_part: whether this process wakes agents of itself.
    """

    def __init__(
        self,
        store: Database,
        clock: Clock,
        claims: Claims,
        start: Callable[[str, str], None],
        takes_part: Callable[[], bool],
    ) -> None:
        self._store = store
        self._clock = clock
        self._claims = claims
        self._start = start
        self._takes_part = takes_part

    async def listed(self, settled: bool | None, agent_id: str | None) -> list[OutcomeRow]:
        """Of the space, or of an agent; those that are settled, or are not, or with None both.

        Raises:
            StoreError: the store could not be read.
        """
        return await self._store.read(
            lambda tx: rows.listed(tx, settled=settled, agent_id=agent_id)
        )

    async def find(self, call_id: str, agent_id: str | None) -> OutcomeRow:
        """One of the space, or of an agent, by the call's id.

        Raises:
            NotFound: there is none.
            StoreError: the store could not be read.
        """
        return await self._store.read(lambda tx: _required(tx, call_id, agent_id))

    async def settle(
        self, call_id: str, *, happened: bool, note: str | None, by: str | None
    ) -> Told:
        """Keeps what was found out, and queues the turn that tells the agent.

        Raises:
            NotFound: there is none of that id.
            AlreadyAnswered: it was settled before.
            StoreError: the store failed; nothing was changed.
        """

        def work(tx: Transaction) -> Told:
            row = _required(tx, call_id, None)
            if row.settled is not None:
                raise AlreadyAnswered(
                    f"the outcome of {row.id} was settled already: outcomes.list() shows what is "
                    "still unknown"
                )
            settled = Settled(happened, note, by, self._clock.now())
            rows.settle(tx, row.id, settled)
            settlement = Settlement(row.id, row.tool, happened, by, note)
            turn_id, here = self._claims.queue(
                tx,
                row.conversation_id,
                Wake(label="owner", kind="outcome", settlement=settlement),
                runs=self._takes_part(),
            )
            return Told(replace(row, settled=settled), turn_id, here)

        told = await self._store.write(work)
        if told.here:
            self._start(told.turn_id, told.row.conversation_id)
        return told


def _required(tx: Transaction, call_id: str, agent_id: str | None) -> OutcomeRow:
    row = rows.by_id(tx, call_id)
    if row is None or agent_id not in (None, row.agent_id):
        raise NotFound(
            f"there is no call {call_id} whose outcome is unknown: outcomes.list() shows them"
        )
    return row
