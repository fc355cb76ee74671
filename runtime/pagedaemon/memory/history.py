"""History from elsewhere: what was said before the agent was there, kept in recall with its dates.

Imported messages never stand in a window, so no provider's rule about roles and calls concerns
them; a search finds them as it finds all else. Each one's id is made from where it stood and what
it says, so that the same file brings nothing a second time, and an import that was cut off is
finished by running it again.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, NoReturn, get_args
from zoneinfo import ZoneInfo

from pagedaemon.agent import checked_name
from pagedaemon.config import IMPORTED
from pagedaemon.errors import InvalidInput
from pagedaemon.messages import Kind, Label, Message, Role, checked_text
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import conversations as message_rows
from pagedaemon.store import history as rows
from pagedaemon.store import outbox
from pagedaemon.store.transaction import Transaction

OnError = Literal["raise", "skip"]

"""The conversation of what names none."""

LATEST_SECONDS = 100_000_000_000
"""Seconds since 1970 above which a number can only be one of milliseconds."""

_NAMESPACE = uuid.UUID("6f1f2c0e-5b0a-5a53-9c0d-0f3f2f6b1c77")
_ROLES: dict[str, Role | None] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
    "system": None,
    "developer": None,
}
"""What other programs call them; None: instructions, which were not said to anyone."""

_KINDS: dict[Role, tuple[Kind, Label]] = {
    "user": ("message", "user"),
    "assistant": ("reply", "agent"),
    "tool": ("result", "tool"),
}
_TIMES = ("created_at", "time", "timestamp", "create_time")


@dataclass(frozen=True, slots=True)
class Said:
    """One message of a history, as it was read."""

    role: Role
    text: str
    at: datetime | None = None
    """When; None: not told."""
    author: str | None = None
    tool: str | None = None
    """Of a result: the tool's name."""
    call_id: str | None = None
    key: str | None = None
    """The message's own id, where it came with one."""


@dataclass(slots=True)
class Chat:
    """One conversation of a history."""

    name: str
    source: str
    """What was read: a file's name."""
    key: str | None = None
    """The conversation's own id, where it came with one."""
    said: list[Said] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Imported:
    """What importing a history came to, in messages."""

    messages: int
    """Added."""
    already: int
    """Were there before."""
    skipped: int
    """Left out: instructions, what has no text, and with `on_error="skip"` what could not be
    read."""
    conversations: tuple[str, ...]
    """Names of the conversations they stand in."""


class Reading:
    """How a history is read: in which zone, and what becomes of what cannot be.

    Args:
        zone: that of times without an offset.
        on_error: `raise`, or `skip` and count.

    Raises:
        InvalidInput: another `on_error`.
    """

    def __init__(self, zone: ZoneInfo, on_error: object) -> None:
        if on_error not in get_args(OnError):
            raise InvalidInput(f"on_error is 'raise' or 'skip', not {on_error!r}")
        self.skipped = 0
        self._zone = zone
        self._lenient = on_error == "skip"

    def message(self, record: object, where: str) -> Said | None:
        """A message of the common shape: role, content or text, a time and an author.

        Args:
            where: names the place in errors: `line 3`.

        Returns:
            None for what was skipped.

        Raises:
            InvalidInput: it is no such message.
        """
        try:
            said = self._message(record)
        except InvalidInput as error:
            self.refuse(f"{where}: {error}", error)
            return None
        self.skipped += said is None
        return said

    def refuse(self, why: str, cause: Exception | None = None) -> None:
        """Raises, or counts what could not be read.

        Raises:
            InvalidInput: as the caller of the import wants it.
        """
        if not self._lenient:
            hint = "nothing was imported; on_error='skip' leaves such out"
            raise InvalidInput(f"{why} ({hint})") from cause
        self.skipped += 1

    def _message(self, record: object) -> Said | None:
        if not isinstance(record, Mapping):
            _bad(f"a message is an object, not {type(record).__name__}")
        given = record.get("role")
        if not isinstance(given, str) or given not in _ROLES:
            _bad(f"role is one of {', '.join(_ROLES)}, not {given!r}")
        role = _ROLES[given]
        text = text_of(record)
        if role is None or not text.strip():
            return None
        author = _named(record, ("author", "name"))
        at = next((record[key] for key in _TIMES if record.get(key) is not None), None)
        return Said(
            role,
            checked_text(text, "the text"),
            None if at is None else self.instant(at),
            None if role == "tool" or author is None else checked_name(author, "the author"),
            author if role == "tool" else None,
            _named(record, ("tool_call_id",)),
            _named(record, ("id",)),
        )

    def instant(self, value: object) -> datetime:
        """A point in time from ISO text or seconds since 1970, in UTC.

        Raises:
            InvalidInput: it is neither.
        """
        try:
            if isinstance(value, str):
                found = datetime.fromisoformat(value.strip())
                local = found if found.tzinfo is not None else found.replace(tzinfo=self._zone)
                return local.astimezone(UTC)
            if isinstance(value, int | float) and not isinstance(value, bool):
                if abs(value) < LATEST_SECONDS:
                    return datetime.fromtimestamp(value, UTC)
                _bad(f"{value} is no time in seconds since 1970: divide milliseconds by 1000")
        except (ValueError, OverflowError, OSError) as error:
            raise InvalidInput(f"{value!r} is no time: write 2026-11-30T15:00:00+00:00") from error
        _bad(f"a time is ISO text or seconds since 1970, not {value!r}")


def _bad(why: str) -> NoReturn:
    raise InvalidInput(why)


def _named(record: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    """The first of these values that is there, as text."""
    for key in keys:
        value = record.get(key)
        if value is None or value == "":
            continue
        if isinstance(value, bool) or not isinstance(value, str | int):
            _bad(f"{key} is text, not {type(value).__name__}")
        if len(text := checked_text(str(value), key)) > 200:
            _bad(f"{key} has at most 200 characters")
        return text
    return None


def text_of(record: Mapping[str, Any]) -> str:
    """What a message says: its text, that of its parts, and the calls in it, written out.

    Raises:
        InvalidInput: its content is neither text nor parts.
    """
    content = record.get("content", record.get("text"))
    lines: list[str] = []
    if isinstance(content, str):
        lines.append(content)
    elif isinstance(content, list):
        lines += filter(None, map(_part, content))
    elif content is not None:
        _bad(f"content is text or a list of parts, not {type(content).__name__}")
    if isinstance(record.get("refusal"), str):
        lines.append(record["refusal"])
    calls = record.get("tool_calls") or ()
    if not isinstance(calls, list | tuple):
        _bad("tool_calls is a list")
    lines += map(_call, [*calls, record.get("function_call")])
    return "\n".join(line for line in lines if line)


def _part(part: object) -> str:
    """The text of a part; pictures and sounds have none."""
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, Mapping) else None
    return text if isinstance(text, str) else ""


def _call(call: object) -> str:
    function = call.get("function", call) if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return ""
    given = function.get("arguments", "")
    arguments = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return f"{function.get('name', '')}({arguments})"


def from_lines(lines: Iterable[object], name: str, source: str, reading: Reading) -> list[Chat]:
    """A chat from lines of JSON (or objects), one message each; blank lines are passed over.

    Raises:
        InvalidInput: a line is no message; it is named by its number from 1.
    """
    chat = Chat(name, source)
    for number, line in enumerate(lines, 1):
        record: object = line
        if isinstance(line, str | bytes):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                told = f"line {number} is no JSON ({error})"
                if not chat.said and line.strip()[:1] in ("[", b"["):
                    told += "; for a file that is one JSON list there is import_openai"
                reading.refuse(told, error)
                continue
        if isinstance(line, str | bytes) and isinstance(record, list):
            told = "is a JSON list and no message; for a file of chats there is import_openai"
            reading.refuse(f"line {number} {told}")
            continue
        said = reading.message(record, f"line {number}")
        if said is not None:
            chat.said.append(said)
    return [chat]


def dated(chat: Chat, agent_id: str, now: datetime) -> list[Message]:
    """A chat's messages by time, with the ids they will always have.

    One without a time has that of the message before it; the first ones that of the first that has
    one; and where none has, now.
    """
    known = next((said.at for said in chat.said if said.at is not None), now)
    ready: list[Message] = []
    times: Counter[tuple[str, ...]] = Counter()
    for said in chat.said:
        mark = _mark(chat, said)
        times[mark] += 1
        known = said.at or known
        kind, label = _KINDS[said.role]
        origin = {"source": chat.source} | ({"id": said.key} if said.key else {})
        ready.append(
            Message(
                _message_id(agent_id, mark, times[mark]),
                0,
                said.role,
                kind,
                said.text,
                known,
                call_id=None if said.call_id is None else said.call_id[:128],
                tool=None if said.role != "tool" else (said.tool or IMPORTED)[:128],
                label=label,
                author=said.author,
                data={"imported": origin},
            )
        )
    # The sort is stable: at one instant the order of the file holds.
    return sorted(ready, key=lambda message: message.created_at)


def _mark(chat: Chat, said: Said) -> tuple[str, ...]:
    """What tells a message from every other one of an agent, but for exact repeats in one chat.

    Ids alone would not do: two files may both count their messages from 1.
    """
    if chat.key is not None and said.key is not None:
        return ("ids", chat.key, said.key, said.role, said.text)
    at = "" if said.at is None else said.at.isoformat()
    place = (chat.name, chat.key or "", said.key or "")
    return ("text", *place, said.role, said.author or "", at, said.text)


def _message_id(agent_id: str, mark: tuple[str, ...], time: int) -> str:
    whole = json.dumps([agent_id, *mark, time], ensure_ascii=True)
    return f"message-{uuid.uuid5(_NAMESPACE, whole)}"


def add(
    tx: Transaction, agent_id: str, name: str, messages: Sequence[Message], now: datetime
) -> int:
    """Stores those of the messages that are not there yet, out of the window. Returns how many.

    Raises:
        NotFound: the agent was deleted.
        InvalidInput: the conversation has had turns, between which nothing can be put.
    """
    agent_rows.require(tx, agent_id)
    there = rows.present(tx, [message.id for message in messages])
    new = [message for message in messages if message.id not in there]
    if not new:
        return 0
    found = message_rows.by_name(tx, agent_id, name) or message_rows.add(tx, agent_id, name, now)
    first = rows.take_numbers(tx, found.id, len(new))
    if first is None:
        raise InvalidInput(
            f"conversation {name!r} has had turns of its own, and history belongs before them: "
            "import into another one, such as conversation='before'"
        )
    numbered = [replace(message, seq=seq) for seq, message in enumerate(new, first)]
    message_rows.add_messages(tx, agent_id, found.id, numbered)
    ids = [message.id for message in numbered]
    message_rows.leave_window(tx, ids)
    outbox.queue(tx, "message", ids, now)
    agent_rows.count_recall(tx, agent_id, len(numbered))
    return len(numbered)
