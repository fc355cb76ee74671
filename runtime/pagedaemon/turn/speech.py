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
        self._reply = 0
        self._thoughts = 0

    def hear(self, part: Part) -> list[Event]:
        """The events one more part makes."""
        if isinstance(part, TextPart):
            spoken = self._style.reply == "content"
            return [self._delta(part.text, spoken=spoken)] if part.text else []
        if isinstance(part, ReasoningPart):
            return [self._delta(part.text, spoken=False)] if part.text else []
        if isinstance(part, CallPart):
            return self._hear_call(part)
        if isinstance(part, Restart):
            self._start()
            return [StepReset(self._turn_id, self._step, part.reason)]
        return []

    def _hear_call(self, part: CallPart) -> list[Event]:
        name, text = self._calls.get(part.index, ("", ""))
        name, text = name or part.name, text + part.arguments
        self._calls[part.index] = (name, text)
        events: list[Event] = []
        given = _so_far(text) if name else {}
        if self._style.thoughts == "argument":
            events += self._more(part.index, THOUGHTS, given.get(THOUGHTS), spoken=False)
        if name == SPEAK:
            events += self._more(part.index, "message", given.get("message"), spoken=True)
        return events

    def _more(self, index: int, key: str, value: Any, *, spoken: bool) -> list[Event]:
        told = self._told.get((index, key), "")
        if not isinstance(value, str) or len(value) <= len(told) or not value.startswith(told):
            return []
        self._told[index, key] = value
        return [self._delta(value[len(told) :], spoken=spoken)]

    def _delta(self, text: str, *, spoken: bool) -> Event:
        if spoken:
            offset, self._reply = self._reply, self._reply + len(text)
            return ReplyDelta(self._turn_id, self._step, offset, text)
        offset, self._thoughts = self._thoughts, self._thoughts + len(text)
        return ThoughtDelta(self._turn_id, self._step, offset, text)


def _so_far(text: str) -> dict[str, Any]:
    """What can be read of a JSON object that is not complete yet."""
    try:
        value = from_json(text, allow_partial="trailing-strings")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
