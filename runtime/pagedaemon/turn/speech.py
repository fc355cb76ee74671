"""What a listener hears while the model still speaks.

In the MemGPT style a reply sits inside the arguments of `send_message`, so it is read out of JSON
that is still growing. Everything told from here is provisional until its step is committed.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from pagedaemon.config import Style
from pagedaemon.events import Event, ReplyDelta, StepReset, ThoughtDelta
from pagedaemon.llm.protocol import CallPart, Part, ReasoningPart, Restart, TextPart
from pagedaemon.messages import storable
from pagedaemon.tools.memory_tools import SPEAK
from pagedaemon.tools.schema import THOUGHTS


class Speech:
    """One step's reply, as far as it has come.

    Args:
        turn_id, step: which step's events are made.
        style: where replies and thoughts stand.
    """

    def __init__(self, turn_id: str, step: int, style: Style) -> None:
        self._turn_id = turn_id
        self._step = step
        self._style = style
        self._start()

    def _start(self) -> None:
        self._calls: dict[int, tuple[str, str]] = {}
        self._told: dict[tuple[int, str], str] = {}
        self._held = ""
        self._reply = 0
        self._thoughts = 0

    def hear(self, part: Part) -> list[Event]:
        """The events one more part makes."""
        if isinstance(part, TextPart):
            return self._hear_text(part.text)
        if isinstance(part, ReasoningPart):
            return self._said(part.text, spoken=False)
        if isinstance(part, CallPart):
            return self._hear_call(part)
        if isinstance(part, Restart):
            self._start()
            return [StepReset(self._turn_id, self._step, part.reason)]
        return self._let_go(spoken=not part.calls)

    def _hear_text(self, text: str) -> list[Event]:
        if self._style.reply == "content":
            return self._said(text, spoken=True)
        if self._style.plain_text == "reply" and not self._calls:
            # Without a call it will be the reply, beside one it is a thought: nobody knows yet.
            self._held += text
            return []
        return self._said(text, spoken=False)

    def _let_go(self, *, spoken: bool) -> list[Event]:
        held, self._held = self._held, ""
        return self._said(held.strip() if spoken else held, spoken=spoken)

    def _hear_call(self, part: CallPart) -> list[Event]:
        events = self._let_go(spoken=False)
        name, text = self._calls.get(part.index, ("", ""))
        name, text = name or part.name, text + part.arguments
        self._calls[part.index] = (name, text)
        thinks = self._style.thoughts == "argument"
        given = _so_far(text) if name == SPEAK or (name and thinks) else {}
        if thinks:
            events += self._more(part.index, THOUGHTS, given.get(THOUGHTS), spoken=False)
        if name == SPEAK:
            events += self._more(part.index, "message", given.get("message"), spoken=True)
        return events

    def _more(self, index: int, key: str, value: Any, *, spoken: bool) -> list[Event]:
        told = self._told.get((index, key), "")
        if not isinstance(value, str) or len(value) <= len(told) or not value.startswith(told):
            return []
        self._told[index, key] = value
        more = value[len(told) :]
        if not told and (self._reply if spoken else self._thoughts):
            # As `Turn.reply` and `StepRecord.thoughts` put several together.
            more = ("\n\n" if spoken else "\n") + more
        return self._said(more, spoken=spoken)

    def _said(self, text: str, *, spoken: bool) -> list[Event]:
        if not text:
            return []
        text = storable(text)
        if spoken:
            offset, self._reply = self._reply, self._reply + len(text)
            return [ReplyDelta(self._turn_id, self._step, offset, text)]
        offset, self._thoughts = self._thoughts, self._thoughts + len(text)
        return [ThoughtDelta(self._turn_id, self._step, offset, text)]


def _so_far(text: str) -> dict[str, Any]:
    """What can be read of a JSON object that is not complete yet."""
    try:
        value = from_json(storable(text), allow_partial="trailing-strings")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
