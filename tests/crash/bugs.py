"""Bugs seeded into a process before it is killed: what the sweeps must find, or they look at
nothing.

Each is what a hurried change might do. The process that comes afterwards has none of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pagedaemon.clock import Clock
from pagedaemon.messages import Message
from pagedaemon.scheduler.leases import Renewal
from pagedaemon.store import approvals, conversations, journal, schedules, vectors
from pagedaemon.store.database import Database
from pagedaemon.store.journal import Lease
from pagedaemon.store.journal import lease as leases
from pagedaemon.store.pool import Write
from pagedaemon.store.transaction import Transaction
from pagedaemon.turn import closing, finish
from pagedaemon.turn.draft import Draft
from pagedaemon.turn.state import OpenTurn

TELLING = 0.05
"""Seconds that a listener is given to hear what is not committed yet."""


def _split(tx: Transaction) -> None:
    """Commits what the transaction has written so far, and goes on in another."""
    tx._driver.commit()
    tx._driver.execute("BEGIN IMMEDIATE")


def _split_after(module: Any, name: str) -> None:
    """Makes a commit of its own of all that is written up to the end of a function."""
    original: Callable[..., Any] = vars(module)[name]

    def split(tx: Transaction, *rest: Any, **named: Any) -> Any:
        value = original(tx, *rest, **named)
        _split(tx)
        return value

    vars(module)[name] = split


def _split_before(module: Any, name: str) -> None:
    """Makes a commit of its own of all that is written before a function is called."""
    original: Callable[..., Any] = vars(module)[name]

    def split(tx: Transaction, *rest: Any, **named: Any) -> Any:
        _split(tx)
        return original(tx, *rest, **named)

    vars(module)[name] = split


def finish_in_two() -> None:
    """The effects of a step are committed before its messages."""
    _split_after(finish, "apply_calls")


def edits_apart() -> None:
    """The effects of a step are a transaction of their own, before the one that finishes it."""
    finishing: Callable[..., Any] = vars(closing)["finish_step"]
    apply: Callable[..., Any] = vars(finish)["apply_calls"]

    async def apart(
        store: Database, clock: Clock, turn: OpenTurn, draft: Draft, **named: Any
    ) -> Any:
        acting = vars(finish)["_acting"](turn, draft, clock)
        applied = await store.write(lambda tx: apply(tx, turn.body, draft, acting))
        vars(finish)["apply_calls"] = lambda *_: applied
        return await finishing(store, clock, turn, draft, **named)

    vars(closing)["finish_step"] = apart


def no_start_mark() -> None:
    """A call that must not run twice is planned, and nothing says that it was begun."""
    journal.start = lambda *_: None


def no_plan() -> None:
    """The reply is not stored before its calls run."""
    journal.plan = lambda *_: None


def message_saved_late() -> None:
    """The user's message is held back and stored with the step that answers it."""
    add = conversations.add_messages
    held: list[Message] = []

    def later(tx: Transaction, agent_id: str, conversation_id: str, new: Sequence[Message]) -> None:
        if all(message.step_id is None for message in new):
            held.extend(new)
            return
        add(tx, agent_id, conversation_id, [*held, *new])
        held.clear()

    conversations.add_messages = later


def events_saved_late() -> None:
    """What a step has told is stored with the turn's end only."""
    set_turn: Callable[..., Any] = vars(journal)["set_turn"]

    def later(tx: Transaction, turn_id: str, *rest: Any, told: Any, **named: Any) -> Any:
        if named.get("stop_reason") is None:
            told = told[:1]
        return set_turn(tx, turn_id, *rest, told=told, **named)

    vars(journal)["set_turn"] = later


def told_before_the_commit() -> None:
    """Whoever waits for a write goes on as soon as its statements have run."""
    running = Database._run_writes

    def early(self: Database, batch: Sequence[Write[Any]]) -> Sequence[Write[Any]]:
        if len(batch) > 1:
            return running(self, batch)
        (write,) = batch

        def settled(tx: Transaction) -> Any:
            value = write.work(tx)
            write.future.set_result(value)
            time.sleep(TELLING)
            return value

        write.keep(partial(self._run_write, settled))
        if not write.future.done():
            write.settle()
        return ()

    Database._run_writes = early  # type: ignore[method-assign]


def end_apart() -> None:
    """The last step of a turn is committed before the turn's end."""
    set_turn: Callable[..., Any] = vars(journal)["set_turn"]

    def apart(tx: Transaction, *rest: Any, **named: Any) -> Any:
        if named.get("stop_reason") is not None:
            _split(tx)
        return set_turn(tx, *rest, **named)

    vars(journal)["set_turn"] = apart


def no_fence() -> None:
    """Nobody looks whether the lease is still ours."""

    def unguarded(tx: Transaction, lease: Lease, statement: Any, values: dict[str, Any]) -> None:
        keys = {"conversation": lease.conversation_id, "ours": lease.epoch, "me": lease.owner}
        tx.execute(statement, {**keys, **values})

    vars(leases)["_fenced"] = unguarded


def never_renewed() -> None:
    """A lease ends however long its turn lasts."""

    def never(self: Renewal) -> None:
        """It is not begun."""

    Renewal._begin = never  # type: ignore[method-assign]


def summary_apart() -> None:
    """Messages leave the window before there is a summary of them."""
    _split_after(conversations, "leave_window")


def outbox_first() -> None:
    """A text waits for a vector no longer, and has none yet."""
    _split_before(vectors, "_remove")


def outcome_dropped() -> None:
    """The agent does not hear what came of a call that was approved."""
    messages: Callable[..., list[Message]] = vars(finish)["step_messages"]
    vars(finish)["step_messages"] = lambda draft, *rest: (
        [] if draft.granted is not None else messages(draft, *rest)
    )


def approval_left_unused() -> None:
    """A call that is being run may be approved and run again."""
    move: Callable[..., bool] = vars(approvals)["move"]

    def kept(tx: Transaction, approval_id: str, before: str, after: str, **named: Any) -> bool:
        return after == "used" or move(tx, approval_id, before, after, **named)

    vars(approvals)["move"] = kept


def answer_in_two() -> None:
    """An approval is answered before there is a turn that carries it out."""
    _split_after(approvals, "move")


def ring_in_two() -> None:
    """A timer has rung, and will again."""
    _split_before(schedules, "move_on")


def letter_apart() -> None:
    """A turn ends before its answer is on its way to who asked."""
    _split_before(finish, "answer")


@dataclass(frozen=True)
class Bug:
    """A bug, and where it shows.

    Attributes:
        seed: puts it into this process.
        promises: which of them are seen broken, one or the other.
        workload: in which; None: where a process stands still, or lasts.
    """

    seed: Callable[[], None]
    promises: tuple[str, ...]
    workload: str | None


BUGS: dict[str, Bug] = {
    "finish in two": Bug(finish_in_two, ("half a step",), "charging"),
    "edits apart": Bug(edits_apart, ("half a step",), "charging"),
    "no start mark": Bug(no_start_mark, ("ran twice",), "charging"),
    "no plan": Bug(no_plan, ("ran twice",), "charging"),
    "message saved late": Bug(message_saved_late, ("message lost",), "charging"),
    "events saved late": Bug(events_saved_late, ("event lost",), "charging"),
    "told before the commit": Bug(
        told_before_the_commit, ("message lost", "event lost"), "charging"
    ),
    "end apart": Bug(end_apart, ("event lost",), "charging"),
    "summary apart": Bug(summary_apart, ("half paged out",), "paging"),
    "outbox first": Bug(outbox_first, ("not searched",), "paging"),
    "outcome dropped": Bug(outcome_dropped, ("approved wrongly",), "approving"),
    "approval left unused": Bug(approval_left_unused, ("approved wrongly",), "approving"),
    "answer in two": Bug(answer_in_two, ("approved wrongly",), "approving"),
    "ring in two": Bug(ring_in_two, ("woken wrongly",), "waking"),
    "letter apart": Bug(letter_apart, ("woken wrongly",), "waking"),
    "no fence": Bug(no_fence, ("written late",), None),
    "never renewed": Bug(never_renewed, ("taken away",), None),
}
