"""Calls of which a person has the last word: found by id, and answered in one transaction with the
turn in which that is carried out or told.

So an answer may be given by any process and is never lost. The turn is run by whoever can: this
process, if it wakes agents of itself and has what is needed, and otherwise the first that does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pagedaemon.errors import NotFound
from pagedaemon.scheduler.waker import Waker
from pagedaemon.store.journal import Wake
from pagedaemon.store.transaction import Transaction


class CallRow(Protocol):
    """A call, as it is stored."""

    @property
    def agent_id(self) -> str: ...
    @property
    def conversation_id(self) -> str: ...
    @property
    def tool(self) -> str: ...
    @property
    def arguments(self) -> Mapping[str, Any]: ...


R = TypeVar("R", bound=CallRow)


@dataclass(frozen=True)
class Answered(Generic[R]):
    """A call that was answered, and the turn in which its agent gets to know.

    Attributes:
        row: the call, after that.
        here: this process runs the turn.
    """

    row: R
    turn_id: str
    here: bool


class Calls(ABC, Generic[R]):
    """The calls of one space that wait for a person, or have.

    Args:
        waker: wakes their agents.
    """

    def __init__(self, waker: Waker) -> None:
        self._waker = waker
        self._store = waker.store
        self._clock = waker.clock

    async def find(self, call_id: str, agent_id: str | None) -> R:
        """One of the space, or of an agent, by its id.

        Raises:
            NotFound: there is none.
            StoreError: the store failed.
        """
        return await self._store.read(lambda tx: self._required(tx, call_id, agent_id))

    @abstractmethod
    def _by_id(self, tx: Transaction, call_id: str) -> R | None: ...

    @abstractmethod
    def _none(self, call_id: str) -> str:
        """What is said where there is none of that id."""

    def _required(self, tx: Transaction, call_id: str, agent_id: str | None = None) -> R:
        row = self._by_id(tx, call_id)
        if row is None or agent_id not in (None, row.agent_id):
            raise NotFound(self._none(call_id))
        return row

    def _answered(self, tx: Transaction, call_id: str, wake: Wake) -> Answered[R]:
        """Queues the turn, once the answer is in the row."""
        row = self._required(tx, call_id)
        turn_id, here = self._waker.queue(tx, row.conversation_id, wake)
        return Answered(row, turn_id, here)

    def _begin(self, answered: Answered[R]) -> None:
        """Runs the turn, once that is committed."""
        if answered.here:
            self._waker.start(answered.turn_id, answered.row.conversation_id)
