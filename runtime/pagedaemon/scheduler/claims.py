"""T0 and T1 of a turn, as functions of one transaction: accepted, claimed, taken up, withdrawn."""

from __future__ import annotations

from dataclasses import dataclass

from pagedaemon.clock import Clock
from pagedaemon.errors import ConfigError, NotFound
from pagedaemon.events import Turn
from pagedaemon.scheduler.bodies import Bodies, Window
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import blocks as block_rows
from pagedaemon.store import conversations as rows
from pagedaemon.store import journal
from pagedaemon.store.journal import Head, Plan, TurnRow, Wake
from pagedaemon.store.transaction import Transaction
from pagedaemon.store.worker import Worker
from pagedaemon.turn.state import OpenTurn, lease_until, wake_messages

ATTEMPTS = 3
"""How often a turn is begun before it is given up. One whose model has answered, so that only its
calls are left to be run, twice as often."""


@dataclass(frozen=True)
class Claimed:
    """A turn that is ours."""

    turn: OpenTurn
    plan: Plan | None = None
    """The step whose reply is stored already."""
    hopeless: str | None = None
    """Why it is to be ended and not gone on with."""


class Claims:
    """Who may run what. Nothing here has an effect outside its transaction.

    Args:
        worker: this process, as the owner of leases.
        clock: the time.
        bodies: what agents act with.
    """

    def __init__(self, worker: Worker, clock: Clock, bodies: Bodies) -> None:
        self._worker = worker
        self._clock = clock
        self._bodies = bodies

    def accept(
        self, tx: Transaction, conversation_id: str, wake: Wake, *, busy: bool
    ) -> tuple[str, Claimed | None]:
        """T0, and T1 with it where the conversation is idle: the turn's id, and the turn if it is
        claimed.

        Args:
            busy: this process still holds the conversation's last turn in memory.

        Raises:
            NotFound: there is no such conversation.
            NoModel, ConfigError: its agent cannot answer.
        """
        head = self.head(tx, conversation_id)
        idle = head.first_open is None and not busy and not self.held(head)
        window = self._bodies.window(tx, head) if idle else None
        if window is None:
            self._bodies.require(head.agent)
        turn_id = journal.accept(
            tx,
            head,
            wake,
            owner=self._worker.id,
            running=window is not None,
            now=self._clock.now(),
        )
        if window is None:
            return turn_id, None
        return turn_id, Claimed(self._claim(tx, head, turn_id, wake, window, head.last_turn + 1))

    def take_up(self, tx: Transaction, turn_id: str) -> Claimed | None:
        """T1 of a turn that waited or was left open: None if it is not its turn after all."""
        row = journal.turn_by_id(tx, turn_id)
        if row is None or row.status == "done":
            return None
        head = self.head(tx, row.conversation_id)
        if head.first_open != row.seq or self.held(head):
            return None
        journal.take_up(tx, row, self._worker.id, self._clock.now())
        if row.wake is not None:
            window = self._bodies.window_anyhow(tx, head)
            return Claimed(self._claim(tx, head, row.id, row.wake, window, head.last_turn))
        turn = self._claim_again(tx, head, row)
        plan = journal.open_plan(tx, row.id)
        hopeless = None
        if row.attempts >= (ATTEMPTS if plan is None else 2 * ATTEMPTS):
            hopeless = f"begun {row.attempts} times, and its process or its store failed each time"
        return Claimed(turn, plan, hopeless)

    def withdraw(self, tx: Transaction, turn_id: str) -> Turn | None:
        """Ends a turn that had not begun, as if its message had never come; None if it has."""
        row = journal.turn_by_id(tx, turn_id)
        if row is None or row.status != "queued":
            return None
        now = self._clock.now()
        journal.set_turn(tx, turn_id, row.usage, stop_reason="cancelled", ended_at=now)
        return Turn(row.id, row.conversation_id, (), "cancelled", row.usage, now, now)

    def head(self, tx: Transaction, conversation_id: str) -> Head:
        """The conversation and its agent.

        Raises:
            NotFound: there is none of that id.
        """
        head = journal.head(tx, conversation_id)
        if head is None:
            raise NotFound(f"there is no conversation {conversation_id} any more")
        return head

    def unable(self, tx: Transaction, conversation_id: str) -> str | None:
        """Why an agent cannot answer now; None if it can."""
        try:
            self._bodies.require(self.head(tx, conversation_id).agent)
        except ConfigError as error:
            return str(error)
        return None

    def held(self, head: Head) -> bool:
        """Whether another worker that lives is using the conversation.

        What we use ourselves is known from the turn that is open in it.
        """
        return head.lease_owner != self._worker.id and self._alive(head.lease_owner)

    def orphaned(self, row: TurnRow) -> bool:
        """Whether the process that worked on an open turn is gone."""
        return not self._alive(row.owner)

    def _alive(self, owner: str | None) -> bool:
        return owner is not None and self._worker.alive(owner)

    def _claim(
        self,
        tx: Transaction,
        head: Head,
        turn_id: str,
        wake: Wake,
        window: Window,
        turn_seq: int,
    ) -> OpenTurn:
        """T1: the lease, and the event in the window."""
        gauge = window.body.gauge
        gauge.factor = self._bodies.factor(window.body.model.name)
        blocks = block_rows.of_agent(tx, head.agent.id)
        now = self._clock.now()
        new, warned = wake_messages(window.body, head, blocks, window.queue, wake, turn_id, now)
        rows.add_messages(tx, head.agent.id, head.conversation_id, new)
        agent_rows.count_recall(tx, head.agent.id, len(new))
        lease = journal.claim(
            tx,
            head,
            owner=self._worker.id,
            last_turn=turn_seq,
            last_seq=new[-1].seq,
            warned=warned,
            until=lease_until(now),
        )
        return OpenTurn(
            id=turn_id,
            head=head,
            lease=lease,
            body=window.body,
            queue=[*window.queue, *new],
            blocks=blocks,
            started_at=now,
            deadline=self._deadline(head),
            last_seq=new[-1].seq,
            window_version=head.window_version + 1,
            warned=warned,
            folds=head.folds,
            user_message_id=new[0].id,
        )

    def _claim_again(self, tx: Transaction, head: Head, row: TurnRow) -> OpenTurn:
        """T1 of a turn whose event stands in the window already."""
        window = self._bodies.window_anyhow(tx, head)
        now = self._clock.now()
        lease = journal.claim(
            tx,
            head,
            owner=self._worker.id,
            last_turn=head.last_turn,
            last_seq=head.last_seq,
            warned=head.warned,
            until=lease_until(now),
        )
        return OpenTurn(
            id=row.id,
            head=head,
            lease=lease,
            body=window.body,
            queue=window.queue,
            blocks=block_rows.of_agent(tx, head.agent.id),
            started_at=row.started_at or now,
            deadline=self._deadline(head),
            last_seq=head.last_seq,
            window_version=head.window_version + 1,
            warned=head.warned,
            folds=head.folds,
            user_message_id=next(
                (m.id for m in window.queue if m.turn_id == row.id and m.kind == "message"), None
            ),
            steps=list(journal.step_records(tx, row.id)),
            usage=row.usage,
        )

    def _deadline(self, head: Head) -> float:
        return self._clock.monotonic() + head.agent.settings.limits.seconds
