"""From stored messages to the wire: a pure function, so a request depends on nothing but the store.

One OpenAI-shaped rendering satisfies the rules of all providers: user-role neighbours are one
message, no text is empty, each call is followed at once by exactly one result, in call order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from pagedaemon.clock import local_stamp
from pagedaemon.llm.protocol import CALL_EXTRAS, WireMessage
from pagedaemon.messages import Message
from pagedaemon.resources import Prompts

JOINT = "\n\n"
"""Between two user-role events that stand next to each other."""


class Renderer:
    """Renders messages, each only once: what is stored never changes, so neither does its
    rendering.

    Args:
        prompts: the texts the model reads.
        timezone: in which the dates of a summary are shown.
    """

    def __init__(self, prompts: Prompts, timezone: str) -> None:
        self._prompts = prompts
        self._timezone = timezone
        self._known: dict[str, WireMessage | None] = {}

    def queue(self, messages: Sequence[Message]) -> list[WireMessage]:
        """The whole queue: the summary first, then everything by its number.

        A call that has no result gets one that says so, and a result that answers no call is left
        out: a store written by this runtime has neither, an imported one may.
        """
        shown: list[WireMessage] = []
        owed: dict[str, str] = {}
        for message in _summary_first(messages):
            if message.role == "tool":
                if message.call_id in owed:
                    del owed[message.call_id]
                    shown.append(self._wire(message))
                continue
            shown.extend(self._unanswered(owed))
            owed = {call.id: call.tool for call in message.calls}
            wire = self.message(message)
            if wire is None:
                continue
            if wire["role"] == "user" and shown and shown[-1]["role"] == "user":
                joined = f"{shown[-1]['content']}{JOINT}{wire['content']}"
                shown[-1] = {"role": "user", "content": joined}
            else:
                shown.append(wire)
        shown.extend(self._unanswered(owed))
        return shown

    def message(self, message: Message) -> WireMessage | None:
        """One message; None for a reply in which the model said nothing at all."""
        if message.id not in self._known:
            self._known[message.id] = self._rendered(message)
        return self._known[message.id]

    def forget(self, message: Message) -> None:
        """Forgets one rendering: of a message that is not stored yet and was still being
        written."""
        self._known.pop(message.id, None)

    def keep_only(self, messages: Iterable[Message]) -> None:
        """Forgets the rendering of everything else."""
        ids = {message.id for message in messages}
        for gone in [identity for identity in self._known if identity not in ids]:
            del self._known[gone]

    def _wire(self, message: Message) -> WireMessage:
        wire = self.message(message)
        assert wire is not None, "a result always has text"
        return wire

    def _unanswered(self, owed: dict[str, str]) -> list[WireMessage]:
        return [
            {
                "role": "tool",
                "tool_call_id": call_id,
                "content": self._prompts.render("results/unknown", tool=tool),
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
            return _assistant(message, text)
        if message.kind == "summary":
            text = self._summary(message, text)
        return {
            "role": "user",
            "content": f"{text}{JOINT}{message.status}" if message.status else text,
        }

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


def _assistant(message: Message, text: str) -> WireMessage | None:
    wire: dict[str, Any] = {"role": "assistant"}
    said = text.rstrip()
    if said:
        wire["content"] = said
    opaque = dict(message.data.get("opaque", {}))
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


def _summary_first(messages: Sequence[Message]) -> list[Message]:
    head = [message for message in messages if message.kind == "summary"]
    if not head:
        return list(messages)
    return head[-1:] + [message for message in messages if message.kind != "summary"]
