"""Which replies of a step are held against the type, and what a listener is told of a value that
grows."""

from __future__ import annotations

import functools
import json
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedaemon import Model
from pagedaemon.agent import AgentRecord
from pagedaemon.config import MEMGPT, NATIVE, Paging, Settings, Style
from pagedaemon.context.render import Renderer
from pagedaemon.context.window import Gauge
from pagedaemon.events import Event, ReplyDelta, ReplyPartial, StepReset, StepStarted, ThoughtDelta
from pagedaemon.llm.protocol import Reply
from pagedaemon.llm.tokens import TokenCounter
from pagedaemon.messages import Usage
from pagedaemon.resources import Prompts
from pagedaemon.testing import ScriptedModel, both, call, raw_call, say, text
from pagedaemon.tools.memory_tools import memory_tools
from pagedaemon.tools.toolbox import Toolbox
from pagedaemon.turn.body import Body
from pagedaemon.turn.draft import Draft, read_reply, spoken
from pagedaemon.turn.expected import Expected
from pagedaemon.turn.typed import Growing, reviewed

NOW = datetime(2026, 11, 30, tzinfo=UTC)
NUDGING = MEMGPT.model_copy(update={"plain_text": "nudge"})
PROMPTS = Prompts()
NUMBER = Expected.of(int)
SEARCH = call("archival_memory_search", query="tea", heartbeat=True)


@functools.cache
def body(style: Style) -> Body:
    settings = Settings(style=style)
    model = Model("script", context_window=8_000)
    return Body(
        AgentRecord("agent-1", "ada", settings, model, {}, NOW, NOW),
        model,
        ScriptedModel([]),
        Toolbox(memory_tools(PROMPTS, settings), prompts=PROMPTS),
        PROMPTS,
        Gauge(TokenCounter(model.name), 1.0, model.budget, Paging()),
        Renderer(PROMPTS, "UTC"),
    )


def review(reply: Reply, style: Style = MEMGPT) -> Draft:
    draft = read_reply(
        body(style),
        reply,
        (),
        seq=1,
        heartbeat=None,
        context_hash="",
        block_versions={},
        usage=Usage(),
        now=NOW,
    )
    return reviewed(draft, NUMBER, body(style))


@pytest.mark.parametrize(
    ("reply", "style", "refused"),
    [
        (say("7"), MEMGPT, None),
        (say("seven"), MEMGPT, "seven"),
        (both(say("7"), say("seven")), MEMGPT, "seven"),
        (both(say("six"), say("seven")), MEMGPT, "seven"),
        (text("7"), MEMGPT, None),
        (text(" seven "), MEMGPT, "seven"),
        (text("seven"), NUDGING, None),
        (both(text("thinking"), say("7")), MEMGPT, None),
        (SEARCH, MEMGPT, None),
        (raw_call("send_message", '{"message": "sev'), MEMGPT, None),
        (text("7"), NATIVE, None),
        (text("seven"), NATIVE, "seven"),
        (both(text("Let me look."), SEARCH), NATIVE, None),
        (Reply(), NATIVE, None),
    ],
)
def test_what_the_user_would_hear_is_held_against_the_type_and_nothing_else(
    reply: Reply, style: Style, refused: str | None
) -> None:
    draft = review(reply, style)
    assert (None if draft.refusal is None else draft.refusal.text) == refused


def test_refused_call_has_its_result_and_all_others_are_left_to_be_made() -> None:
    draft = review(both(SEARCH, say("seven"), say("7")))
    assert [call.row.status for call in draft.calls] == ["intended", "failed", "intended"]
    assert draft.refusal is not None
    assert draft.refusal.calls == {draft.calls[1].row.id}
    assert "not delivered" in str(draft.calls[1].row.result)


def test_reviewing_again_changes_nothing() -> None:
    """As where a step is finished once more by who closes its turn."""
    draft = review(say("7"))
    assert reviewed(draft, NUMBER, body(MEMGPT)) == draft


@pytest.mark.parametrize("style", [MEMGPT, NATIVE], ids=["memgpt", "native"])
def test_refused_text_is_not_spoken(style: Style) -> None:
    for words, heard in (("7", ("7",)), ("seven", ())):
        draft = review(text(words), style)
        assert spoken(draft, [], body(style)) == heard


# ------------------------------------------------------------------ what a listener is told

VALUE = {"to": "Porto", "people": [{"name": "Mai"}, {"name": "Ole"}], "days": 12, "fun": True}


def deltas(whole: str, cuts: list[int], step: int = 1) -> list[Event]:
    places = [0, *sorted({cut % len(whole) for cut in cuts} - {0}), len(whole)]
    return [ReplyDelta("turn-1", step, start, whole[start:end]) for start, end in pairwise(places)]


@given(st.lists(st.integers(0, 1_000)), st.sampled_from([None, 2]))
def test_value_grows_to_what_was_said_however_it_is_cut(
    cuts: list[int], indent: int | None
) -> None:
    growing = Growing(Expected.of(dict[str, object]))
    heard = [growing.hear(event) for event in deltas(json.dumps(VALUE, indent=indent), cuts)]
    told = [event for event in heard if event is not None]
    assert told[-1] == ReplyPartial("turn-1", 1, VALUE)
    assert all(set(event.value) <= set(VALUE) for event in told)
    assert all(a.value != b.value for a, b in pairwise(told))


@pytest.mark.parametrize(
    "again", [StepStarted("turn-1", 2, "invalid"), StepReset("turn-1", 1, "cut off")]
)
def test_step_that_begins_anew_begins_with_nothing(again: Event) -> None:
    growing = Growing(Expected.of(list[int]))
    assert growing.hear(ReplyDelta("turn-1", 1, 0, "[1, 2")) is not None
    assert growing.hear(again) is None
    assert growing.hear(ReplyDelta("turn-1", 2, 0, "[3]")) == ReplyPartial("turn-1", 2, [3])


def test_words_and_thoughts_are_no_value() -> None:
    growing = Growing(Expected.of(list[int]))
    assert growing.hear(ThoughtDelta("turn-1", 1, 0, "[1]")) is None
    assert growing.hear(ReplyDelta("turn-1", 1, 0, "Here: [1]")) is None
