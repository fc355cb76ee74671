"""A reply, read: ids, names, what was said and heard, what a crash leaves to be run."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedaemon import Model, tool
from pagedaemon.agent import AgentRecord
from pagedaemon.config import MEMGPT, NATIVE, After, AtMost, Paging, Settings, Style
from pagedaemon.context.render import Renderer
from pagedaemon.context.window import Gauge
from pagedaemon.events import CallRecord
from pagedaemon.llm.protocol import RawCall, Reply
from pagedaemon.llm.tokens import TokenCounter
from pagedaemon.messages import CallStatus, Message, Usage
from pagedaemon.resources import Prompts
from pagedaemon.testing import ScriptedModel, both, call, raw_call, say, text
from pagedaemon.tools.memory_tools import memory_tools
from pagedaemon.tools.toolbox import Toolbox
from pagedaemon.turn.body import Body
from pagedaemon.turn.draft import (
    Draft,
    read_reply,
    reply_message,
    result_message,
    spoken,
    take_up,
    take_up_plainly,
    thoughts,
)

NOW = datetime(2026, 11, 30, tzinfo=UTC)
NUDGING = MEMGPT.model_copy(update={"plain_text": "nudge"})
PROMPTS = Prompts()


@tool
def mail(to: str) -> str:
    """Sends a mail."""
    return f"sent to {to}"


@tool(effect="read", returns="external", max_result_chars=50)
def fetch(url: str) -> str:
    """Reads a page."""
    return url


@functools.cache
def body(style: Style = MEMGPT) -> Body:
    agent_settings = Settings(style=style)
    model = Model("script", context_window=8_000)
    agent = AgentRecord("agent-1", "ada", agent_settings, model, {}, NOW, NOW)
    return Body(
        agent,
        model,
        ScriptedModel([]),
        Toolbox([*memory_tools(PROMPTS, agent_settings), mail, fetch], prompts=PROMPTS),
        PROMPTS,
        Gauge(TokenCounter(model.name), 1.0, model.budget, Paging()),
        Renderer(PROMPTS, "UTC"),
    )


def read(reply: Reply, style: Style = MEMGPT, queue: tuple[Message, ...] = ()) -> Draft:
    return read_reply(
        body(style),
        reply,
        queue,
        seq=1,
        heartbeat=None,
        context_hash="hash",
        block_versions={},
        usage=Usage(calls=1),
        now=NOW,
    )


def done(draft: Draft, *statuses: CallStatus) -> list[Any]:
    return [
        replace(call.row, status=status, result="told")
        for call, status in zip(draft.calls, statuses, strict=True)
    ]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.text(max_size=50) | st.sampled_from(["a", "b"]), max_size=6))
def test_ids_on_the_wire_are_all_different_and_such_as_every_provider_takes(
    ids: list[str],
) -> None:
    calls = tuple(RawCall(given, "mail", '{"to": "x"}') for given in ids)
    first = read(Reply(calls=calls))
    message = reply_message(first, (), body(), 1, "turn-1")
    second = read(Reply(calls=calls), queue=(message,))
    used = [made.row.wire_id for draft in (first, second) for made in draft.calls]
    assert len(set(used)) == len(used) == 2 * len(ids)
    assert all(1 <= len(one) <= 40 and one.isascii() for one in used)
    assert all(one.replace("_", "").replace("-", "").isalnum() for one in used)


def test_id_that_can_be_kept_is_kept() -> None:
    assert read(call("mail", to="x", call_id="toolu_01-A")).calls[0].row.wire_id == "toolu_01-A"


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=80), st.text(max_size=80), st.text(max_size=80))
def test_any_reply_can_be_stored_and_shown_again(content: str, name: str, arguments: str) -> None:
    draft = read(both(text(content, reasoning=content), raw_call(name, arguments)))
    message = reply_message(draft, (), body(), 1, "turn-1")
    stored = [draft.plan.reply["content"], draft.plan.reply["reasoning"], message.text]
    stored += [draft.calls[0].row.tool, draft.calls[0].row.raw, message.calls[0].raw]
    for value in stored:
        assert "\x00" not in value
        value.encode()
    assert isinstance(json.loads(message.calls[0].arguments), dict)
    assert 1 <= len(message.calls[0].tool) <= 64


def test_what_was_said_is_kept_to_the_letter() -> None:
    raw = '{"to" : "x",\n "request_heartbeat":false}'
    draft = read(Reply(content="  hm \n", calls=(RawCall("a", "mail", raw),)))
    message = reply_message(draft, (), body(), 7, "turn-1")
    assert message.text == "  hm \n"
    assert (message.calls[0].raw, message.calls[0].arguments) == (raw, raw)
    assert (message.seq, message.label, message.kind) == (7, "agent", "reply")


@pytest.mark.parametrize(
    ("style", "reply", "statuses", "said"),
    [
        (MEMGPT, say("Hi"), ["ok"], ("Hi",)),
        (MEMGPT, say("Hi"), ["failed"], ()),
        (MEMGPT, text(" Hi\n"), [], ("Hi",)),
        (MEMGPT, text(" \n"), [], ()),
        (MEMGPT, both(text("hm"), say("Hi")), ["ok"], ("Hi",)),
        (MEMGPT, both(text("hm"), call("mail", to="x")), ["ok"], ()),
        (MEMGPT, both(say("A"), call("mail", to="x"), say("B")), ["ok", "ok", "ok"], ("A", "B")),
        (NUDGING, text("Hi"), [], ()),
        (NATIVE, text(" Hi "), [], ("Hi",)),
        (NATIVE, both(text("Hi"), call("mail", to="x")), ["failed"], ("Hi",)),
        (NATIVE, Reply(), [], ()),
    ],
)
def test_user_hears_what_the_style_says(
    style: Style, reply: Reply, statuses: list[CallStatus], said: tuple[str, ...]
) -> None:
    draft = read(reply, style)
    assert spoken(draft, done(draft, *statuses), body(style)) == said


def test_thoughts_are_what_nobody_heard_each_once() -> None:
    reply = both(
        text("aloud", reasoning="first"),
        say("Hi", thoughts="second"),
        call("mail", to="x", thoughts="second"),
    )
    draft = read(reply)
    said = spoken(draft, done(draft, "ok", "ok"), body())
    assert thoughts(draft, said, body()) == "first\naloud\nsecond"
    heard = read(text("aloud", reasoning="first"))
    assert thoughts(heard, ("aloud",), body()) == "first"
    native = read(both(text("aloud"), call("mail", to="x", thoughts="no")), NATIVE)
    assert thoughts(native, ("aloud",), body(NATIVE)) == ""


def test_call_that_cannot_be_made_has_its_result_at_once_and_never_runs() -> None:
    draft = read(
        both(call("mail", to=7), call("nobody"), raw_call("mail", "{"), call("mail", to="x"))
    )
    assert [made.row.status for made in draft.calls] == ["failed"] * 3 + ["intended"]
    assert [made.runs_outside for made in draft.calls] == [False] * 3 + [True]
    assert all(made.effect is None for made in draft.calls)


def test_effect_is_one_value_so_that_what_was_prepared_is_applied() -> None:
    (made,) = read(say("Hi")).calls
    assert made.effect is not None
    assert made.effect is made.effect


def test_plan_taken_up_again_tells_unknown_what_had_begun_and_runs_the_rest() -> None:
    draft = read(
        both(
            call("mail", to="begun", heartbeat=True),
            call("fetch", url="begun too"),
            call("mail", to="finished"),
            call("mail", to="not begun"),
            call("mail", to=7),
            say("Hi"),
        )
    )
    states: list[CallStatus] = ["started", "started", "ok", "intended", "failed", "intended"]
    rows = tuple(
        replace(made.row, status=state, result="done" if state == "ok" else made.row.result)
        for made, state in zip(draft.calls, states, strict=True)
    )
    again = take_up(body(), replace(draft.plan, calls=rows))
    assert [made.row.status for made in again.calls] == [
        "unknown",
        "started",
        "ok",
        "intended",
        "failed",
        "intended",
    ]
    assert [made.runs_outside for made in again.calls] == [False, True, False, True, False, False]
    assert "unknown" in (again.calls[0].row.result or "")
    assert again.planned
    assert again.plan.heartbeat == draft.plan.heartbeat
    assert again.reply.calls == draft.reply.calls


def test_call_against_a_rule_has_its_result_and_keeps_it_after_a_crash() -> None:
    """Judged once, with the turn's calls before it: what is stored is the verdict."""
    rules = (AtMost(tool="mail", calls=1), After(tool="mail", then=("fetch", "send_message")))
    record = body().agent
    ruled = replace(body(), agent=replace(record, settings=Settings(rules=rules)))
    draft = read_reply(
        ruled,
        both(call("archival_memory_insert", content="x"), call("fetch", url="u"), call("mail")),
        (),
        seq=2,
        heartbeat=None,
        context_hash="hash",
        block_versions={},
        usage=Usage(calls=1),
        now=NOW,
        past=[CallRecord("call-1", "mail", {"to": "x"}, "sent to x", "ok")],
    )
    again = take_up(ruled, draft.plan)
    for one in (draft, again):
        assert [made.row.status for made in one.calls] == ["failed", "intended", "failed"]
        assert [made.runs_outside for made in one.calls] == [False, True, False]
        assert one.calls[0].effect is None, "what is refused is not prepared either"
        assert "Allowed now: send_message, fetch." in (one.calls[0].row.result or "")


def test_plan_of_a_reply_with_unstorable_calls_fails_them_again() -> None:
    """What was cleaned for the store does not become a good call by that."""
    draft = read(both(raw_call("mail", '{"to": "\ud800"}'), call("mail", to="x")))
    assert draft.calls[0].row.status == "failed"
    again = take_up(body(), draft.plan)
    assert again.calls[0].row == draft.calls[0].row
    assert not again.calls[0].runs_outside


def test_results_carry_the_trust_of_their_tool() -> None:
    draft = read(both(call("fetch", url="x"), call("mail", to="x"), say("Hi"), call("nobody")))
    used = body()
    messages = [
        result_message(
            replace(made.row, status="ok", result="r" * 60),
            made.tool,
            used,
            number,
            "turn-1",
            draft.plan.step_id,
            NOW,
            None,
        )
        for number, made in enumerate(draft.calls)
    ]
    assert [message.label for message in messages] == ["external", "tool", "tool", "tool"]
    assert [bool(message.data) for message in messages] == [False, False, True, False]
    assert [message.digest is None for message in messages] == [False, True, True, True]
    assert [message.call_id for message in messages] == [made.row.wire_id for made in draft.calls]


@pytest.mark.parametrize(
    ("opaque", "kept"),
    [
        ({"sig": "\ud83d\ude00 \ud800 \x00"}, {"sig": "😀 \ufffd \ufffd"}),
        ({"sig": [float("inf"), {"a": b"x", "b": None}]}, {"sig": [None, {"b": None}]}),
        ({"role": "system", "content": "x", "tool_calls": [], "sig": 1}, {"sig": 1}),
        ({"call_extras": [{"sig": 1}]}, {"call_extras": [{"sig": 1}]}),
        ({"call_extras": [{"sig": 1}, {}]}, {}),
        ({"call_extras": []}, {}),
        ({"call_extras": ["sig"]}, {}),
    ],
)
def test_of_opaque_fields_is_kept_what_can_be_stored_and_sent(
    opaque: dict[str, Any], kept: dict[str, Any]
) -> None:
    draft = read(replace(say("Hi"), opaque=opaque))
    assert draft.reply.opaque == kept
    assert draft.plan.reply["opaque"] == kept


def test_a_plan_taken_up_plainly_has_a_result_for_every_call_and_runs_none() -> None:
    reply = both(call("mail", to="a"), call("mail", to="b"), call("mail", to="c"))
    plan = read(replace(reply, opaque={"sig": 1})).plan
    done = replace(plan.calls[0], status="ok", result="sent to a")
    begun = replace(plan.calls[1], status="started")
    draft = take_up_plainly(body(), replace(plan, calls=(done, begun, plan.calls[2])), ())
    assert [made.row.status for made in draft.calls] == ["ok", "unknown", "failed"]
    assert draft.calls[0].row.result == "sent to a"
    assert all(made.row.result for made in draft.calls)
    assert not draft.has_outside
    assert not draft.reply.opaque
