"""Recall: every message ever. Searching it, reading long ones in pages, pinning, paging out by
hand."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from pagedaemon.clock import local_minute, new_id, zone
from pagedaemon.errors import InvalidInput, NotFound
from pagedaemon.llm.tokens import image_tokens
from pagedaemon.media import pictures
from pagedaemon.memory.effects import (
    Acting,
    Immediate,
    PageOutDone,
    Told,
    past_the_end,
    read,
    sought,
)
from pagedaemon.memory.eviction import Group, evictable, groups
from pagedaemon.memory.presets import doubtful_messages, search_messages
from pagedaemon.memory.search import Near, blank_is_none
from pagedaemon.memory.times import spoken
from pagedaemon.messages import Label, Message, Role, checked_text, lowest
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import conversations as rows
from pagedaemon.store import recall as queries
from pagedaemon.store.recall import MessageFilter, MessageHit
from pagedaemon.store.transaction import Transaction

SHORT_NOTE = 200
"""Characters a note may have, however little it stands for."""

PINNED_PAGES = 8
"""Pages that what is pinned in a conversation may have together: about a quarter of a small window,
and less of a large one."""

_CHARS_PER_TOKEN = 4
"""What a token of a picture counts for beside text: usual for English."""

EXCERPT = 600
"""Characters of one hit that a search tool shows; `read_page` shows the rest."""


@dataclass
class SearchMessages:
    """`conversation_search` and `conversation_search_date`: one page of found messages."""

    words: str | None
    roles: tuple[Role, ...] = ()
    start: str | None = None
    end: str | None = None
    page: int = 0
    near: Near | None = field(default=None, init=False)
    """What `prepare` found by meaning."""
    pending: int = field(default=0, init=False)
    """What could not be found by meaning yet."""

    async def prepare(self, acting: Acting) -> None:
        """Looks for what is near in meaning."""
        # A range of dates that is none is refused by `apply`, where the model is told.
        with suppress(InvalidInput):
            allowed = queries.allowed(self._given(acting))
            words = blank_is_none(self.words)
            near, self.pending = await sought(acting.meaning, words, allowed)
            self.near = await read(
                acting.meaning,
                near,
                words,
                partial(
                    doubtful_messages,
                    given=self._given(acting),
                    ranking=acting.ranking,
                    now=acting.now,
                ),
            )

    def apply(self, tx: Transaction, acting: Acting) -> Told:
        """Reads; the step that searches does not find itself. By date alone, oldest first; by
        neither words nor date, newest first."""
        offset = _offset(self.page, acting.page_size)
        hits, total = search_messages(
            tx,
            blank_is_none(self.words),
            self._given(acting),
            ranking=acting.ranking,
            now=acting.now,
            offset=offset,
            limit=acting.page_size,
            near=self.near,
            sure=True,
            oldest_first=self.words is None,
        )
        asked = self.words if self.words is not None else f"{self.start} to {self.end}"
        if not hits and total:
            return past_the_end(asked, self.page, total, acting.page_size)
        if not hits:
            searched, _ = agent_rows.counts(tx, acting.agent_id)
            return Told(
                "results/nothing_found",
                {
                    "query": asked,
                    "total_searched": searched,
                    "filters": ["roles"] if self.roles else [],
                    "pending": self.pending,
                },
            )
        elsewhere = {hit.conversation_id for hit in hits} - {acting.conversation_id}
        names = {acting.conversation_id: "", **rows.names(tx, elsewhere)}
        return Told(
            "results/messages",
            {
                "query": asked,
                "timezone": acting.timezone,
                "hits": [_shown(hit, names[hit.conversation_id], acting.timezone) for hit in hits],
                "first": offset + 1,
                "total": total,
                "next_page": self.page + 1 if offset + len(hits) < total else None,
            },
            label=lowest(["tool", *(hit.message.label for hit in hits)]),
        )

    def _given(self, acting: Acting) -> MessageFilter:
        start, end = date_range(self.start, self.end, acting.timezone, acting.now)
        return MessageFilter(
            acting.agent_id,
            roles=self.roles,
            start=start,
            end=end,
            not_turn=acting.turn_id,
            with_words=blank_is_none(self.words) is None,
        )


def _shown(hit: MessageHit, conversation: str, timezone: str) -> dict[str, str]:
    message = hit.message
    return {
        "ref": _ref(message, conversation),
        "date": local_minute(message.created_at, timezone),
        "who": speaker(message),
        "text": _excerpt(rows.searched_text(replace(message, author=None))),
    }


_BRIEF = re.compile(r"[\w.-]{0,24}")
"""A name that can stand before a number: an id takes a model some 25 tokens a hit."""


def _ref(message: Message, conversation: str) -> str:
    """The number, and before it the name of a conversation that is not this one; the id where that
    name is long or of more than one word."""
    return f"{conversation}#{message.seq}" if _BRIEF.fullmatch(conversation) else message.id


def speaker(message: Message) -> str:
    """Who said it, as the model reads it."""
    if message.role == "tool":
        return f"result of {message.tool}"
    if message.author:
        return message.author
    return "assistant" if message.role == "assistant" else message.role


def _excerpt(text: str) -> str:
    return text if len(text) <= EXCERPT else f"{text[:EXCERPT]} […]"


def _offset(page: int, size: int) -> int:
    if page < 0:
        raise InvalidInput(f"page must be 0 or more, not {page}")
    return min(page, 10**9) * size


def date_range(
    start: str | None, end: str | None, timezone: str, now: datetime | None = None
) -> tuple[datetime | None, datetime | None]:
    """From two ISO dates or instants to a half-open range. A plain end date includes its whole day.

    Dates and instants without an offset are read in the agent's zone.

    Args:
        now: what a date in words is seen from ("last Monday", "May": from its first day on, or to
            the end of its last one). None: words are no dates.

    Raises:
        InvalidInput: one of them is neither, or the range ends before it starts.
    """
    first = None if not start else _instants(start, timezone, now)[0]
    last = None if not end else _instants(end, timezone, now)[1]
    if first is not None and last is not None and last <= first:
        raise InvalidInput(f"the range ends before it starts: {start} to {end}")
    return first, last


def _instants(
    text: str, timezone: str, now: datetime | None
) -> tuple[datetime | None, datetime | None]:
    """Where a date or an instant begins, and where it ends as the last one of a range."""
    there = zone(timezone)
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError as error:
        known = None if now is None or not text.isprintable() else now
        meant = None if known is None else spoken.meant(f"on {text}", known, there)
        if meant is None:
            raise InvalidInput(
                f"not a date: {text!r}; write 2026-11-30 or 2026-11-30T15:00:00"
            ) from error
        begin, end = (None if at is None else _in_utc(at, text) for at in meant[:2])
        return begin, end
    local = found if found.tzinfo is not None else found.replace(tzinfo=there)
    instant = _in_utc(local, text)
    if len(text.strip()) <= len("2026-11-30"):
        return instant, _next_day(instant, timezone)
    return instant, instant


def _in_utc(local: datetime, text: str) -> datetime:
    try:
        return local.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(f"outside the calendar: {text!r}") from error


def _next_day(instant: datetime, timezone: str) -> datetime:
    # By the calendar, not by 24 hours: days on which clocks change are shorter or longer.
    local = instant.astimezone(zone(timezone))
    try:
        return _in_utc(local + timedelta(days=1), str(local.date()))
    except OverflowError as error:
        raise InvalidInput(f"outside the calendar: {local.date()}") from error


@dataclass(frozen=True)
class ReadPage(Immediate):
    """`read_page`: one page of a message's whole text."""

    ref: str
    page: int

    def apply(self, tx: Transaction, acting: Acting) -> Told:
        """Reads."""
        message = _message(tx, acting, self.ref)
        text = whole_text(message)
        pages = pages_of(text, acting.page_chars)
        if not 0 <= self.page < pages:
            raise InvalidInput(f"message {self.ref} has pages 0 to {pages - 1}, not {self.page}")
        start = self.page * acting.page_chars
        return Told(
            "results/page",
            {
                "ref": self.ref,
                "page": self.page,
                "pages": pages,
                "text": text[start : start + acting.page_chars],
            },
            label=lowest(["tool", message.label]),
        )


def whole_text(message: Message) -> str:
    """Everything a message holds: its text, and what its calls were given."""
    return whole_of(message.words, [call.raw for call in message.calls])


def whole_of(text: str, arguments: Sequence[str]) -> str:
    """What `read_page` reads in pages of a message with this text and these calls."""
    return "\n".join(part for part in (text, *arguments) if part)


def pages_of(text: str, page_chars: int) -> int:
    """How many pages a text has; an empty one has one."""
    return max(1, math.ceil(len(text) / page_chars))


def _message(tx: Transaction, acting: Acting, ref: str) -> Message:
    message = rows.by_ref(tx, acting.agent_id, acting.conversation_id, ref)
    if message is None:
        raise NotFound(f"no message {ref!r}")
    return message


@dataclass(frozen=True)
class Pin(Immediate):
    """`pin`: a message stays in the window, or no longer must."""

    ref: str
    pinned: bool

    def apply(self, tx: Transaction, acting: Acting) -> Told:
        """A reply and its results are pinned together."""
        message = _message(tx, acting, self.ref)
        window = rows.window(tx, acting.conversation_id)
        together = next(
            (
                group
                for group in groups(window)
                if any(member.id == message.id for member in group.messages)
            ),
            None,
        )
        if together is None:
            raise InvalidInput(
                f"message {self.ref} is not in the window; conversation_search brings it back"
            )
        if self.pinned:
            _require_room(window, together, acting)
        rows.set_pinned(tx, [member.id for member in together.messages], self.pinned)
        return Told("results/pinned", {"ref": self.ref, "pinned": self.pinned})


def _require_room(window: Sequence[Message], more: Group, acting: Acting) -> None:
    """What is pinned never leaves the window, so it must not fill it.

    Raises:
        InvalidInput: with these messages too much would be pinned.
    """
    pinned = {message.id: message for message in window if message.pinned}
    pinned.update({message.id: message for message in more.messages})
    size, most = sum(map(_shown_chars, pinned.values())), PINNED_PAGES * acting.page_chars
    if size > most:
        raise InvalidInput(
            f"pinned messages may have {most} characters together, and with this one they would "
            f"have {size}: unpin another first, or save what matters in your memory"
        )


def _shown_chars(message: Message) -> int:
    text = message.text if message.digest is None else message.digest
    shown = len(text) + sum(len(call.arguments) for call in message.calls)
    return shown + sum(
        _CHARS_PER_TOKEN * image_tokens(one.width, one.height, one.detail)
        for one in pictures(message.attachments)
    )


@dataclass(frozen=True)
class PageOut(Immediate):
    """`page_out`: the agent makes room itself and leaves a note in place of what goes."""

    through: int
    note: str

    def apply(self, tx: Transaction, acting: Acting) -> Told:
        """Moves whole groups up to that number out; the open turn's user message and pinned ones
        stay."""
        note = checked_text(self.note, "the note")
        window = rows.window(tx, acting.conversation_id)
        leaving = [
            group for group in evictable(window, acting.keep) if group.last_seq <= self.through
        ]
        if not leaving:
            raise InvalidInput(f"no message up to number {self.through} can leave the window")
        replaced = sum(len(whole_text(message)) for group in leaving for message in group.messages)
        if len(note) > max(replaced, SHORT_NOTE):
            raise InvalidInput("the note is longer than the messages it would stand for")
        previous = next((message for message in window if message.kind == "summary"), None)
        text = note if previous is None else f"{previous.text}\n{note}"
        # What leaves stood in the window that the note was written in.
        sources = [message.label for group in leaving for message in group.messages]
        if previous is not None:
            sources.append(previous.label)
        count = fold(
            tx,
            acting.conversation_id,
            acting.agent_id,
            leaving,
            previous,
            text,
            by="note",
            now=acting.now,
            folds=int(previous.data["folds"]) + 1 if previous else 1,
            label=lowest([acting.label, *sources]),
        )
        return Told(
            "results/paged_out",
            {"messages": count, "through": leaving[-1].last_seq},
            paged_out=PageOutDone(count),
        )


def fold(
    tx: Transaction,
    conversation_id: str,
    agent_id: str,
    leaving: Sequence[Group],
    previous: Message | None,
    text: str,
    *,
    by: str,
    now: datetime,
    folds: int,
    label: Label,
) -> int:
    """Moves groups out of the window and puts one summary at its head. Returns how many messages
    left.

    Args:
        label: the lowest of what the text was made from, which may be less than what it stands for.

    The summary is a message with provenance: the messages it covers and the summary it continues.
    The earlier one leaves the window with them; every original stays in recall.
    """
    gone = [message for group in leaving for message in group.messages]
    replaced = gone if previous is None else [*gone, previous]
    earlier = dict(previous.data) if previous is not None else {}
    first_at, last_at = gone[0].created_at.isoformat(), gone[-1].created_at.isoformat()
    summary = Message(
        id=new_id("message"),
        seq=rows.next_seq(tx, conversation_id),
        role="user",
        kind="summary",
        text=text,
        created_at=now,
        label=label,
        data={
            "by": by,
            "folds": folds,
            "messages": int(earlier.get("messages", 0)) + len(gone),
            # A message that was pinned may leave after younger ones.
            "first": min(gone[0].seq, earlier.get("first", gone[0].seq)),
            "last": max(gone[-1].seq, earlier.get("last", 0)),
            "first_at": min(first_at, earlier.get("first_at", first_at)),
            "last_at": max(last_at, earlier.get("last_at", last_at)),
            # What it began with stands in no message of this conversation.
            **{key: earlier[key] for key in ("carried",) if key in earlier},
        },
    )
    leave = [message.id for message in replaced]
    rows.leave_window(tx, leave)
    rows.add_messages(tx, agent_id, conversation_id, [summary])
    agent_rows.count_recall(tx, agent_id, 1)
    rows.made_from(
        tx, ("message", summary.id), [("message", identity) for identity in leave], "summary"
    )
    rows.summary_moved(tx, conversation_id, summary_id=summary.id, folds=folds)
    return len(gone)
