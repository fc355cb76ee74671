"""Mail between the agents of a space: a turn queued in the other's `main`, in the commit of the
step that wrote it.

Nobody waits: an answer comes back as an event of its own. Two bounds keep agents from waking each
other for ever: how many letters may follow from one another, and how often among them one may write
to the same other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from pagedaemon.agent import MAIN, AgentRecord, checked_name
from pagedaemon.errors import InvalidInput, NotFound
from pagedaemon.memory.effects import Acting, Immediate, Told
from pagedaemon.messages import Label, StopReason, checked_text, lowest
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import conversations as conversation_rows
from pagedaemon.store import journal
from pagedaemon.store.journal import Head, Letter, Wake, WakeKind, waiting
from pagedaemon.store.transaction import Transaction

MAILBOX = 20
"""Letters of others that may wait in one agent's `main`. One more is refused, so that no circle of
many agents fills the store."""

LONGEST = 20_000
"""Characters of one letter."""

MOST_NAMES = 20
"""How many agents a refusal names."""


@dataclass(frozen=True)
class SendMail(Immediate):
    """`send_message_to_agent`: words to another agent, which wake it."""

    name: str
    message: str
    answer: bool

    def apply(self, tx: Transaction, acting: Acting) -> Told:
        """Queues the other's turn. Who is busy reads it afterwards."""
        checked_text(self.message, "the message")
        if len(self.message) > LONGEST:
            raise InvalidInput(f"A message has at most {LONGEST} characters: shorten it.")
        sender = agent_rows.require(tx, acting.agent_id)
        head = _receiver(tx, self.name, sender)
        route = (*(acting.letter.route if acting.letter else ()), sender.id)
        _require_bounds(route, sender, head.agent)
        if waiting.mail_waiting(tx, head.conversation_id) >= MAILBOX:
            raise InvalidInput(
                f"{head.agent.name} has {MAILBOX} unread messages: write again when it has read "
                "some of them."
            )
        _post(
            tx,
            head,
            "question" if self.answer else "mail",
            self.message,
            sender,
            Letter(acting.conversation_id, route),
            label=acting.label,
            owner=waiting.owner_of(tx, acting.turn_id),
            now=acting.now,
        )
        told = {"name": head.agent.name, "answer": self.answer}
        return Told("results/mailed", told, stirs=True)


def _receiver(tx: Transaction, name: str, sender: AgentRecord) -> Head:
    wanted = checked_name(name, "the agent's name")
    found = agent_rows.by_name(tx, wanted)
    if found is None:
        names = [one.name for one in agent_rows.listed(tx) if one.id != sender.id]
        there = ", ".join(map(repr, names[:MOST_NAMES])) or "no others"
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        raise NotFound(f"There is no agent called {wanted!r}. There are: {there}{more}.")
    if found.id == sender.id:
        raise InvalidInput(
            "That is you: write down what you want to keep with a memory tool instead."
        )
    main = conversation_rows.by_name(tx, found.id, MAIN)
    head = None if main is None else journal.head(tx, main.id)
    assert head is not None, "every agent has the conversation main"
    return head


def _require_bounds(route: Sequence[str], sender: AgentRecord, receiver: AgentRecord) -> None:
    """Raises `InvalidInput` where one more letter would be one too many."""
    settings = sender.settings
    earlier = sum(pair == (sender.id, receiver.id) for pair in pairwise(route))
    if earlier >= settings.mail_rounds:
        raise InvalidInput(
            f"Not sent: you have written to {receiver.name} {earlier} times already because of "
            "one and the same message, so you are going round in circles. Settle it with what you "
            "know, and tell your user what is open."
        )
    if len(route) > settings.mail_hops:
        raise InvalidInput(
            f"Not sent: {len(route) - 1} messages between agents have followed from one another, "
            "and that is as many as may. Settle it with what you know, and tell your user what is "
            "open."
        )


def post_answer(
    tx: Transaction,
    letter: Letter,
    answerer: AgentRecord,
    said: Sequence[str],
    reason: StopReason,
    *,
    label: Label,
    owner: str,
    now: datetime,
) -> bool:
    """Queues what came of a question in the conversation where it was asked: what the other said
    or, where it said nothing, why its turn ended. Bounds do not hold for it: whoever asks is told.

    Returns:
        whether there was still anybody to be told.
    """
    head = journal.head(tx, letter.conversation_id)
    if head is None:
        return False
    words = "\n\n".join(said)
    route = (*letter.route, answerer.id)
    back = Letter(letter.conversation_id, route, None if words.strip() else reason)
    _post(tx, head, "answer", words, answerer, back, label=label, owner=owner, now=now)
    return True


def _post(
    tx: Transaction,
    to: Head,
    kind: WakeKind,
    text: str,
    sender: AgentRecord,
    letter: Letter,
    *,
    label: Label,
    owner: str,
    now: datetime,
) -> None:
    wake = Wake(text, label=lowest(("agent", label)), author=sender.name, kind=kind, letter=letter)
    journal.accept(tx, to, wake, owner=owner, running=False, now=now)
