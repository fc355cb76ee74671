"""T0 and T1 of a turn, as functions of one transaction: accepted, claimed, taken up, withdrawn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pagedaemon.clock import Clock
from pagedaemon.errors import ConfigError, NotFound
from pagedaemon.events import Turn
from pagedaemon.memory.mail import post_answer
from pagedaemon.memory.recollection import Asked, Found, Recollection, note_shown, recollections
from pagedaemon.scheduler.bodies import Bodies, Window
from pagedaemon.scheduler.owners import held, orphaned
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import attachments, journal
from pagedaemon.store import blocks as block_rows
from pagedaemon.store import conversations as rows
from pagedaemon.store.journal import Head, Key, Plan, TurnRow, Wake
from pagedaemon.store.transaction import Transaction
from pagedaemon.store.worker import Worker
from pagedaemon.turn.approving import granted, settled, withdrawn
from pagedaemon.turn.expected import Expected
from pagedaemon.turn.state import OpenTurn
from pagedaemon.turn.waking import LETTER, WAKINGS, Arrival, wake_messages

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
    may_go_on: bool = False
    """Whether a process that lives has begun what its plan says, and may still be at it."""


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
        self,
        tx: Transaction,
        conversation_id: str,
        wake: Wake,
        *,
        busy: bool,
        key: Key | None = None,
    ) -> tuple[str, Claimed | Turn | None]:
        """T0, and T1 with it where the conversation is idle: the turn's id, and the turn if it is
        claimed.

        Args:
            busy: this process still holds the conversation's last turn in memory.
            key: what was sent with it before is not accepted again: it is that turn, with its end
                if it has ended.

        Raises:
            NotFound: there is no such conversation.
            KeyConflict: something else was sent with the key.
            NoModel, ConfigError: its agent cannot answer.
            ModelCannotSee, PicturesTooLarge: its pictures cannot be shown to its model.
        """
        head = self.head(tx, conversation_id)
        if key is not None and (known := journal.keyed(tx, conversation_id, key)) is not None:
            done = known.status == "done"
            return known.id, journal.turn_record(tx, known) if done else None
        idle = head.first_open is None and not busy and not self.held(head)
        # What memory has on it is looked for first, and never in a transaction.
        idle = idle and not recalls(head, wake)
        window = self._bodies.window(tx, head) if idle else None
        if window is None:
            self._bodies.require(head.agent)
        if wake.attachments:
            self._bodies.require_sight(head.agent, wake.attachments)
        now = self._clock.now()
        turn_id = journal.accept(
            tx,
            head,
            wake,
            owner=self._worker.id,
            running=window is not None,
            now=now,
            key=key,
        )
        if window is None:
            return turn_id, None
        return turn_id, Claimed(
            self._claim(tx, head, turn_id, wake, window, head.last_turn + 1, now)
        )

    def queue(self, tx: Transaction, conversation_id: str, wake: Wake, *, here: bool) -> str:
        """T0 of what wakes an agent outside of any turn: the turn's id.

        Args:
            here: this process runs it. Otherwise whoever comes first does.
        """
        return journal.accept(
            tx,
            self.head(tx, conversation_id),
            wake,
            owner=self._worker.id if here else None,
            running=False,
            now=self._clock.now(),
        )

    def asked(self, row: TurnRow, head: Head) -> Asked | None:
        """What memory is to be searched for before a turn is claimed; None for nothing."""
        if row.wake is None or not recalls(head, row.wake):
            return None
        settings = head.agent.settings
        return Asked(
            head.agent.id,
            head.conversation_id,
            row.wake.text,
            self._clock.now(),
            settings.recall_hits,
        )

    def take_up(
        self,
        tx: Transaction,
        turn_id: str,
        asked: Asked | None = None,
        found: Sequence[Found] = (),
    ) -> Claimed | None:
        """T1 of a turn that waited or was left open: None if it is not its turn after all.

        Args:
            asked: what memory was searched for, and `found` what it had.
        """
        row = journal.turn_by_id(tx, turn_id)
        if row is None or row.status == "done":
            return None
        head = self.head(tx, row.conversation_id)
        if head.first_open != row.seq or self.held(head):
            return None
        now = self._clock.now()
        journal.take_up(tx, row, self._worker.id, now)
        if row.wake is not None:
            window = self._bodies.window_anyhow(tx, head)
            wake = replace(row.wake, attachments=attachments.filled(tx, row.wake.attachments))
            wake = settled(tx, wake, window.body, now)
            seen: Sequence[Recollection] = ()
            if asked is not None and found:
                timezone = head.agent.settings.timezone
                seen = recollections(tx, asked, found, window.queue, timezone)
            turn = self._claim(tx, head, row.id, wake, window, head.last_turn, now, seen)
            return Claimed(turn, granted(tx, turn, wake, now))
        turn = self._claim_again(tx, head, row, now)
        plan = journal.open_plan(tx, row.id)
        if plan is not None:
            # Without a mark of their own, nobody knows that they had not.
            turn.begun |= {one.id for one in plan.calls if one.effect in ("read", "idempotent")}
        hopeless = None
        if row.attempts >= (ATTEMPTS if plan is None else 2 * ATTEMPTS):
            hopeless = f"begun {row.attempts} times, and its process or its store failed each time"
        lives = row.owner is not None and self._worker.alive(row.owner)
        return Claimed(turn, plan, hopeless, may_go_on=lives)

    def withdraw(self, tx: Transaction, turn_id: str) -> Turn | None:
        """Ends a turn that had not begun, as if its message had never come; None if it has."""
        row = journal.turn_by_id(tx, turn_id)
        if row is None or row.status != "queued":
            return None
        now = self._clock.now()
        if row.wake is not None and row.wake.attachments:
            attachments.drop(tx, turn_id)
        if row.wake is not None and row.wake.ruling is not None:
            withdrawn(tx, row.wake.ruling, now)
        told = (journal.ENDED,)
        journal.set_turn(tx, turn_id, row.usage, told=told, stop_reason="cancelled", ended_at=now)
        if row.event == "question" and row.wake is not None and row.wake.letter is not None:
            post_answer(
                tx,
                row.wake.letter,
                self.head(tx, row.conversation_id).agent,
                (),
                "cancelled",
                label="agent",
                owner=self._worker.id,
                now=now,
            )
        end = Turn(row.id, row.conversation_id, (), "cancelled", row.usage, row.created_at, now)
        return replace(end, events=len(told))

    def head(self, tx: Transaction, conversation_id: str) -> Head:
        """The conversation and its agent.

        Raises:
            NotFound: there is none of that id.
        """
        head = journal.head(tx, conversation_id)
        if head is None:
            raise NotFound(f"conversation {conversation_id} was deleted")
        return head

    def unable(
        self,
        tx: Transaction,
        conversation_id: str,
        wake: Wake | None = None,
        *,
        with_code: bool = False,
    ) -> str | None:
        """Why an agent cannot be woken here now; None if it can.

        Args:
            wake: by what: an approved call needs its tool's code.
            with_code: the code of all its tools must be here too: nobody has asked that it acts
                here and now, and elsewhere it could do what it was made for.
        """
        agent = self.head(tx, conversation_id).agent
        try:
            self._bodies.require(agent)
        except ConfigError as error:
            return str(error)
        missing = [name for name in agent.tools if not self._bodies.has(agent, name)]
        if with_code and missing:
            return (
                f"its agent {agent.name} needs the code of its tools ({', '.join(missing)}): give "
                "it with Runtime(tools=[...])"
            )
        ruling = None if wake is None else wake.ruling
        if ruling is None or ruling.decision != "approved" or self._bodies.has(agent, ruling.tool):
            return None
        return (
            f"its approved call needs the code of tool {ruling.tool}: give it with "
            "Runtime(tools=[...])"
        )

    def held(self, head: Head) -> bool:
        """Whether another worker that lives, and renews its lease, is using the conversation.

        What we use ourselves is known from the turn that is open in it.
        """
        return held(head, self._worker)

    def orphaned(self, row: TurnRow) -> bool:
        """Whether the process that should work on an open turn is gone, or stands still: it has not
        renewed its lease, or not begun a turn whose place has come."""
        return orphaned(row, self._worker)

    def _claim(
        self,
        tx: Transaction,
        head: Head,
        turn_id: str,
        wake: Wake,
        window: Window,
        turn_seq: int,
        now: datetime,
        recalled: Sequence[Recollection] = (),
    ) -> OpenTurn:
        """T1: the lease, and the event in the window."""
        gauge = window.body.gauge
        gauge.factor = self._bodies.factor(window.body.model.name)
        blocks = block_rows.of_agent(tx, head.agent.id)
        arrival = Arrival(wake, turn_id, window.body, head, blocks, window.queue, now, recalled)
        new, warned = wake_messages(arrival)
        rows.add_messages(tx, head.agent.id, head.conversation_id, new)
        if wake.attachments:
            attachments.adopt(tx, turn_id, new[0].id)
        if shown := [one for one in recalled if one.id in new[0].recalled]:
            note_shown(tx, new[0].id, shown, now)
        agent_rows.count_recall(tx, head.agent.id, len(new))
        lease = journal.claim(
            tx,
            head,
            owner=self._worker.id,
            seconds=self._worker.lease_seconds,
            last_turn=turn_seq,
            last_seq=new[-1].seq,
            warned=warned,
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
            wake_id=new[0].id,
            user_waits=WAKINGS[wake.kind].user_waits,
            expected=_expected(wake.reply_schema),
            letter=wake.letter,
            asked=wake.kind == "question",
            told=(journal.STARTED,),
        )

    def _claim_again(self, tx: Transaction, head: Head, row: TurnRow, now: datetime) -> OpenTurn:
        """T1 of a turn whose event stands in the window already."""
        window = self._bodies.window_anyhow(tx, head)
        woken_by = next(
            (m for m in window.queue if m.turn_id == row.id and m.step_id is None), None
        )
        steps = journal.step_records(tx, row.id)
        lease = journal.claim(
            tx,
            head,
            owner=self._worker.id,
            seconds=self._worker.lease_seconds,
            last_turn=head.last_turn,
            last_seq=head.last_seq,
            warned=head.warned,
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
            wake_id=None if woken_by is None else woken_by.id,
            user_waits=WAKINGS[row.event].user_waits,
            expected=_expected(row.reply_schema),
            letter=None if woken_by is None else journal.letter_of(woken_by.data.get(LETTER)),
            asked=row.event == "question",
            told=journal.told_so_far(row, steps),
            steps=list(steps),
            usage=row.usage,
            stop_asked=row.stop_asked,
        )

    def _deadline(self, head: Head) -> float:
        return self._clock.monotonic() + head.agent.settings.limits.seconds


def recalls(head: Head, wake: Wake) -> bool:
    """Whether memory is searched for what wakes an agent."""
    return (
        head.agent.settings.recall == "auto"
        and WAKINGS[wake.kind].recalls
        and bool(wake.text.strip())
    )


def _expected(schema: str | None) -> Expected[Any] | None:
    return None if schema is None else Expected(json.loads(schema))
