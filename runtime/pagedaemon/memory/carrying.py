"""What a new conversation starts with, so that an agent can continue where it left off: the running
summaries of earlier conversations, and the last words of the latest.

It stands where the conversation's own summary will, and is folded into it by the first page-out. No
model is asked for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pagedaemon.agent import AgentRecord
from pagedaemon.clock import local_stamp, new_id
from pagedaemon.memory.recall import speaker
from pagedaemon.messages import Message, lowest
from pagedaemon.resources import Prompts
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import conversations as rows
from pagedaemon.store import endings
from pagedaemon.store.endings import Active
from pagedaemon.store.transaction import Transaction

MOST = 3
"""Conversations that one starts with, the latest ones."""

LAST_WORDS = 6
"""Messages of the latest conversation that are shown, shortened."""

LINE = 240
"""Characters of such a message, at most; together they have half of the room."""

LEAST_SUMMARY = 200
"""Characters of room for which a summary is still begun."""

CARRIED = "carried"
"""Under which a summary keeps what it began with: its text, and the conversations that was from.
When the summary is written anew from the messages of its own conversation, that stays."""


@dataclass(frozen=True, slots=True)
class _Part:
    """What is taken over of one conversation."""

    of: Active
    summary: Message | None
    said: tuple[Message, ...]
    lines: tuple[str, ...]
    shown: str | None
    """The summary's text, cut to the room there is."""

    @property
    def sources(self) -> list[Message]:
        """All it is made of."""
        return [*([] if self.summary is None else [self.summary]), *self.said]


def carry_over(
    tx: Transaction,
    agent: AgentRecord,
    conversation_id: str,
    earlier: Sequence[Active],
    prompts: Prompts,
    now: datetime,
) -> None:
    """Puts what earlier conversations came to at the head of a new one; nothing where they have
    nothing in view.

    It has as many characters as one page (`Paging.page_chars`), headings aside.

    Args:
        earlier: conversations of the same agent in which something was said, latest first.
    """
    parts = _parts(tx, earlier, agent.settings.paging.page_chars)
    if not parts:
        return
    text = prompts.render(
        "summary/carried",
        conversations=[
            {
                "name": part.of.name,
                "date": local_stamp(part.of.last_at, agent.settings.timezone),
                "summary": part.shown,
                "lines": list(part.lines),
            }
            for part in parts
        ],
    )
    sources = [message for part in parts for message in part.sources]
    seq = rows.next_seq(tx, conversation_id)
    summary = Message(
        id=new_id("message"),
        seq=seq,
        role="user",
        kind="summary",
        text=text,
        created_at=now,
        label=lowest(["agent", *(message.label for message in sources)]),
        data={
            "by": CARRIED,
            "folds": 0,
            "messages": sum(int(message.data.get("messages", 1)) for message in sources),
            "first": seq,
            "last": seq,
            "first_at": min(_at(message, "first_at") for message in sources),
            "last_at": max(_at(message, "last_at") for message in sources),
            CARRIED: {"text": text, "from": [part.of.id for part in parts]},
        },
    )
    rows.add_messages(tx, agent.id, conversation_id, [summary])
    agent_rows.count_recall(tx, agent.id, 1)
    rows.made_from(
        tx,
        ("message", summary.id),
        [("message", message.id) for message in sources],
        "carried_over",
    )
    rows.summary_moved(tx, conversation_id, summary_id=summary.id, folds=0)


def _parts(tx: Transaction, earlier: Sequence[Active], room: int) -> list[_Part]:
    parts: list[_Part] = []
    contained: set[str] = set()
    most = min(LINE, room // (2 * LAST_WORDS))
    for one in earlier:
        if one.id in contained:
            continue
        last = () if parts else endings.last_said(tx, one.id, LAST_WORDS)
        said = tuple(message for message in last if not message.is_external)
        lines = tuple(_line(message, most) for message in said)
        room -= sum(map(len, lines))
        summary = endings.summary_of(tx, one.id)
        if summary is not None and (summary.is_external or room < LEAST_SUMMARY):
            summary = None
        shown = None if summary is None else _end_of(summary.text, room)
        if summary is not None and shown is not None:
            room -= len(shown)
            contained.update(summary.data.get(CARRIED, {}).get("from", ()))
        part = _Part(one, summary, said, lines, shown)
        if part.sources:
            parts.append(part)
    return parts


def _line(message: Message, most: int) -> str:
    words = rows.searched_text(replace(message, author=None))
    said = " ".join(words[: 4 * LINE].split())
    return f"{speaker(message)}: {said if len(said) <= most else f'{said[:most]} […]'}"


def _end_of(text: str, most: int) -> str:
    return text if len(text) <= most else f"[…] {text[-most:]}"


def _at(message: Message, which: str) -> str:
    return str(message.data.get(which, message.created_at.isoformat()))
