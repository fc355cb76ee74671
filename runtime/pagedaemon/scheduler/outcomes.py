"""Calls of a space whose outcome nobody saw: listed, and settled by a person who found out.

What is said of one is an answer as `calls.py` has them.
"""

from __future__ import annotations

from pagedaemon.errors import AlreadyAnswered
from pagedaemon.scheduler.calls import Answered, Calls
from pagedaemon.store import outcomes as rows
from pagedaemon.store.journal import Settlement, Wake
from pagedaemon.store.outcomes import OutcomeRow, Settled
from pagedaemon.store.transaction import Transaction


class Outcomes(Calls[OutcomeRow]):
    """The unknown outcomes of one space in this process."""

    async def listed(self, settled: bool | None, agent_id: str | None) -> list[OutcomeRow]:
        """Of the space, or of an agent; those that are settled, or are not, or with None both.

        Raises:
            StoreError: the store could not be read.
        """
        return await self._store.read(
            lambda tx: rows.listed(tx, settled=settled, agent_id=agent_id)
        )

    async def settle(
        self, call_id: str, *, happened: bool, note: str | None, by: str | None
    ) -> Answered[OutcomeRow]:
        """Keeps what was found out, and queues the turn that tells the agent.

        Raises:
            NotFound: there is none of that id.
            AlreadyAnswered: it was settled before.
            StoreError: the store failed; nothing was changed.
        """

        def work(tx: Transaction) -> Answered[OutcomeRow]:
            row = self._required(tx, call_id)
            if row.settled is not None:
                raise AlreadyAnswered(
                    f"the outcome of {row.id} was settled already: outcomes.list() shows what is "
                    "still unknown"
                )
            rows.settle(tx, row.id, Settled(happened, note, by, self._clock.now()))
            settlement = Settlement(row.id, row.tool, happened, by, note)
            wake = Wake(label="owner", kind="outcome", settlement=settlement)
            return self._answered(tx, row.id, wake)

        told = await self._store.write(work)
        self._begin(told)
        return told

    def _by_id(self, tx: Transaction, call_id: str) -> OutcomeRow | None:
        return rows.by_id(tx, call_id)

    def _none(self, call_id: str) -> str:
        return f"there is no call {call_id} whose outcome is unknown: outcomes.list() shows them"
