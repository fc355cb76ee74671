"""The end of a turn that another agent's question has woken: what was said goes back to who asked,
in the transaction that ends the turn."""

from __future__ import annotations

from pagedaemon.events import Turn
from pagedaemon.memory.mail import post_answer
from pagedaemon.store.transaction import Transaction
from pagedaemon.tools.gates import tainted
from pagedaemon.turn.state import OpenTurn


def answer(tx: Transaction, turn: OpenTurn, ended: Turn) -> None:
    """Tells the sender of the mail what came of it; nothing where it wanted no answer."""
    if not turn.asked or turn.letter is None:
        return
    post_answer(
        tx,
        turn.letter,
        turn.head.agent,
        [text for step in ended.steps for text in step.replies],
        ended.stop_reason,
        label="external" if tainted(turn.queue) else "agent",
        owner=turn.lease.owner,
        now=ended.ended_at,
    )
