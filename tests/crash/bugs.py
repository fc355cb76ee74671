"""Bugs seeded into a child before it is killed: what the sweep must find, or it looks at nothing.

Each is what a hurried change of the step transaction might do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pagedaemon.messages import Message
from pagedaemon.store import conversations, journal
from pagedaemon.store.journal import Lease, turns
from pagedaemon.store.transaction import Transaction
from pagedaemon.turn import finish


def two_commits() -> None:
    """The effects of a step are committed before its messages."""
    apply: Callable[..., Any] = vars(finish)["apply_calls"]

    def split(tx: Transaction, *rest: Any) -> Any:
        applied = apply(tx, *rest)
        tx._driver.commit()
        tx._driver.execute("BEGIN IMMEDIATE")
        return applied

    vars(finish)["apply_calls"] = split


def no_start_mark() -> None:
    """A call that must not run twice is planned, and nothing says that it was begun."""
    journal.start = lambda *_: None


def message_in_the_finish() -> None:
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


def no_plan() -> None:
    """The reply is not stored before its calls run."""
    journal.plan = lambda *_: None


def events_in_memory() -> None:
    """What a step has told is stored with the turn's end only."""
    set_turn: Callable[..., None] = vars(journal)["set_turn"]

    def later(tx: Transaction, turn_id: str, *rest: Any, told: Any, **named: Any) -> None:
        if "stop_reason" not in named or named["stop_reason"] is None:
            told = told[:1]
        set_turn(tx, turn_id, *rest, told=told, **named)

    vars(journal)["set_turn"] = later


def no_fence() -> None:
    """Nobody looks whether the lease is still ours."""

    def unguarded(tx: Transaction, lease: Lease, statement: Any, values: dict[str, Any]) -> None:
        keys = {"conversation": lease.conversation_id, "ours": lease.epoch, "me": lease.owner}
        tx.execute(statement, {**keys, **values})

    vars(turns)["_fenced"] = unguarded


BUGS: dict[str, Callable[[], None]] = {
    "two commits": two_commits,
    "no start mark": no_start_mark,
    "message in the finish": message_in_the_finish,
    "no plan": no_plan,
    "no fence": no_fence,
    "events in memory": events_in_memory,
}
