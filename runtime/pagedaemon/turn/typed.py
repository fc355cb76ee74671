"""Typed replies in a turn: a step's replies are held against what was asked for before they are the
user's, and a listener sees the value grow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pagedaemon.events import Event, ReplyDelta, ReplyPartial, StepReset, StepStarted
from pagedaemon.tools.memory_tools import SPEAK
from pagedaemon.tools.toolbox import Outcome
from pagedaemon.turn.body import Body
from pagedaemon.turn.draft import Draft, DraftCall, Refusal
from pagedaemon.turn.expected import Expected, Unfit


def reviewed(draft: Draft, expected: Expected[Any], body: Body) -> Draft:
    """The step with each reply in it that does not fit refused: such a call has its result, such a
    text is not spoken. Text beside calls is a remark on the way, never the reply.

    Raises:
        Exception: what a validator of the type raises, other than `ValueError`.
    """
    calls: list[DraftCall] = []
    refusal = None
    for call in draft.calls:
        message = _message(call)
        verdict = None if message is None else expected.read(message)
        if message is not None and isinstance(verdict, Unfit):
            told = body.prompts.render("results/not_delivered")
            call = call.came_to(Outcome("failed", told))
            earlier: frozenset[str] = frozenset() if refusal is None else refusal.calls
            refusal = Refusal(message, verdict.problems, earlier | {call.row.id})
        calls.append(call)
    style, text = body.agent.settings.style, draft.reply.content.strip()
    unspoken = bool(draft.calls)
    if text and not draft.calls and (style.reply == "content" or style.plain_text == "reply"):
        verdict = expected.read(text)
        if isinstance(verdict, Unfit):
            unspoken, refusal = True, Refusal(text, verdict.problems)
    return replace(draft, calls=tuple(calls), refusal=refusal, unspoken=unspoken)


def _message(call: DraftCall) -> str | None:
    """What a call is about to say to the user."""
    if call.row.tool != SPEAK or call.row.result is not None:
        return None
    message = call.understood.arguments.get("message")
    return message if isinstance(message, str) else None


class Growing:
    """A typed reply as a listener sees it grow.

    Args:
        expected: what it is to be.
    """

    def __init__(self, expected: Expected[Any]) -> None:
        self._expected = expected
        self._text = ""
        self._told: dict[str, Any] | list[Any] | None = None

    def hear(self, event: Event) -> ReplyPartial | None:
        """What one more event adds; None where that is nothing."""
        if isinstance(event, StepStarted | StepReset):
            self._text, self._told = "", None
        if not isinstance(event, ReplyDelta):
            return None
        self._text += event.text
        value = self._expected.partial(self._text)
        if value is None or value == self._told:
            return None
        self._told = value
        return ReplyPartial(event.turn_id, event.step, value)
