"""From stored messages to the wire: a pure function, so a request depends on nothing but the store.

One OpenAI-shaped rendering satisfies the rules of all providers: user-role neighbours are one
message, no text is empty, each call is followed at once by exactly one result, in call order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeAlias

from pagedaemon.clock import local_stamp
from pagedaemon.llm.protocol import CALL_EXTRAS, ORIGIN, SAID, WireMessage
from pagedaemon.media import Attachment, in_order, in_words, pictures
from pagedaemon.messages import Message
from pagedaemon.resources import Prompts

Content: TypeAlias = "str | list[dict[str, Any]]"
"""Text, or parts where there are pictures."""

JOINT = "\n\n"
"""Between two user-role events that stand next to each other."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """How far a rendering had come after one message: enough to go on from there."""

    shown: int = 0
    last: WireMessage | None = None
    owed: Mapping[str, str] = field(default_factory=dict)
    """Calls without a result so far: id to tool."""


class Renderer:
    """Renders messages, each only once: what is stored never changes, so neither does its
    rendering (`forget` is for the exceptions). A queue that goes on where the last one was is
    rendered from there, and what is unchanged is the same object as before.

    Args:
        prompts: the texts the model reads.
        timezone: in which the dates of a summary are shown.
        family: of the model that reads it (`config.Model.family`): provider fields that came from
            another are left out. None: nobody in particular; all of them are shown.
        sees: whether it takes pictures; asked when there is one. To a model that does not, their
            placeholders are shown.
    """

    def __init__(
        self,
        prompts: Prompts,
        timezone: str,
        family: str | None = None,
        sees: Callable[[], bool] = lambda: True,
    ) -> None:
        self._prompts = prompts
        self._timezone = timezone
        self._family = family
        self._sees = sees
        self._known: dict[str, WireMessage | None] = {}
        self._queue: list[Message] = []
        self._marks: list[_Mark] = []
        self._shown: list[WireMessage] = []

    def queue(self, messages: Sequence[Message]) -> list[WireMessage]:
        """The whole queue: the summary first, then everything by its number.

        A call that has no result gets one that says so, and a result that answers no call is left
        out: a store written by this runtime has neither, an imported one may.
        """
        ordered = _summary_first(messages)
        mark = self._back_to(common(self._queue, ordered))
        for message in ordered[len(self._queue) :]:
            mark = self._after(message, mark.owed)
            self._queue.append(message)
            self._marks.append(mark)
        return [*self._shown, *self._unanswered(mark.owed)]

    def _back_to(self, count: int) -> _Mark:
        """Takes the rendering back to where it was after that many messages."""
        del self._queue[count:], self._marks[count:]
        mark = self._marks[-1] if self._marks else _Mark()
        del self._shown[mark.shown :]
        if mark.last is not None:
            # A later message may have been joined to it.
            self._shown[-1] = mark.last
        return mark

    def _after(self, message: Message, owed: Mapping[str, str]) -> _Mark:
        """Renders one message after the others."""
        shown = self._shown
        wire = self.message(message)
        if message.role == "tool":
            if message.call_id in owed and wire is not None:
                owed = {call: tool for call, tool in owed.items() if call != message.call_id}
                shown.append(wire)
        else:
            shown.extend(self._unanswered(owed))
            owed = {call.id: call.tool for call in message.calls}
            if wire is not None and wire["role"] == "user" and shown and _is_user(shown[-1]):
                joined = _joined(shown[-1]["content"], wire["content"])
                shown[-1] = {"role": "user", "content": joined}
            elif wire is not None:
                shown.append(wire)
        return _Mark(len(shown), shown[-1] if shown else None, owed)

    def message(self, message: Message) -> WireMessage | None:
        """One message; None for a reply in which the model said nothing at all."""
        if message.id not in self._known:
            self._known[message.id] = self._rendered(message)
        return self._known[message.id]

    def forget(self, message: Message) -> None:
        """Forgets one rendering: of a message that was still being written, or whose pictures are
        no longer shown."""
        self._known.pop(message.id, None)

    def keep_only(self, messages: Iterable[Message]) -> None:
        """Forgets the rendering of everything else."""
        ids = {message.id for message in messages}
        for gone in [identity for identity in self._known if identity not in ids]:
            del self._known[gone]

    def _unanswered(self, owed: Mapping[str, str]) -> list[WireMessage]:
        return [
            {
                "role": "tool",
                "tool_call_id": call_id,
                "content": self._prompts.render(
                    "results/unknown", tool=tool, problem=None, detail=""
                ),
            }
            for call_id, tool in owed.items()
        ]

    def _rendered(self, message: Message) -> WireMessage | None:
        text = message.text if message.digest is None else message.digest
        if message.role == "tool":
            content = (
                text if text.strip() else self._prompts.render("results/empty", tool=message.tool)
            )
            return {"role": "tool", "tool_call_id": message.call_id, "content": content}
        if message.role == "assistant":
            return _assistant(message, text, self._family)
        if message.kind == "summary":
            text = self._summary(message, text)
        said = self._with_pictures(message, text) if message.attachments else text
        return {"role": "user", "content": _joined(said, message.status or None)}

    def _with_pictures(self, message: Message, text: str) -> Content:
        """A message's text and pictures as parts; a shortened text stands before all of them."""
        shown = pictures(message.attachments)
        if message.digest is not None:
            shown = [replace(picture, at=len(text)) for picture in shown]
        if not shown or message.is_withheld or not self._sees():
            return in_words(text, shown)
        return [
            _text(piece) if isinstance(piece, str) else _picture(piece)
            for piece in in_order(text, shown)
        ]

    def _summary(self, message: Message, text: str) -> str:
        data = message.data
        return self._prompts.render(
            "events/summary",
            text=text,
            messages=data["messages"],
            first_date=self._date(data["first_at"]),
            last_date=self._date(data["last_at"]),
            by=data["by"],
        )

    def _date(self, instant: str) -> str:
        return local_stamp(datetime.fromisoformat(instant), self._timezone)


def common(before: Sequence[object], now: Sequence[object]) -> int:
    """How many items two sequences begin with in common, by identity."""
    for count, (one, other) in enumerate(zip(before, now, strict=False)):
        if one is not other:
            return count
    return min(len(before), len(now))


def _joined(one: Content, other: Content | None) -> Content:
    """Two events of the user's role as one; text alone stays text."""
    if other is None:
        return one
    if isinstance(one, str) and isinstance(other, str):
        return f"{one}{JOINT}{other}"
    return [*_parts(one), *_parts(other)]


def _parts(content: Content) -> list[dict[str, Any]]:
    return [_text(content)] if isinstance(content, str) else content


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _picture(picture: Attachment) -> dict[str, Any]:
    image = {"url": picture.source}
    if picture.detail is not None:
        image["detail"] = picture.detail
    return {"type": "image_url", "image_url": image}


def _is_user(wire: WireMessage) -> bool:
    return bool(wire["role"] == "user")


def _assistant(message: Message, text: str, family: str | None) -> WireMessage | None:
    wire: dict[str, Any] = {"role": "assistant"}
    said = text.rstrip()
    if said:
        wire["content"] = said
    opaque = _opaque_for(family, message.data.get("opaque", {}))
    extras = opaque.pop(CALL_EXTRAS, None) or [{}] * len(message.calls)
    if message.calls:
        wire["tool_calls"] = [
            {
                **extra,
                "id": call.id,
                "type": "function",
                "function": {"name": call.tool, "arguments": call.arguments},
            }
            for call, extra in zip(message.calls, extras, strict=True)
        ]
    return {**opaque, **wire} if len(wire) > 1 else None


def _opaque_for(family: str | None, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The provider's own fields of a message, where the reader is who they came from."""
    origin = fields.get(ORIGIN)
    if family is not None and origin is not None and origin != family:
        return {}
    return {name: value for name, value in fields.items() if name not in (ORIGIN, SAID)}


def _summary_first(messages: Sequence[Message]) -> list[Message]:
    head = [message for message in messages if message.kind == "summary"]
    if not head:
        return list(messages)
    return head[-1:] + [message for message in messages if message.kind != "summary"]
