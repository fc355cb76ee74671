"""Histories that providers refuse, each with the rule it breaks at each of them, and legal ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from pagedaemon.testing import (
    IllegalRequest,
    check_anthropic,
    check_gemini,
    check_openai,
    check_request,
)

Message = dict[str, Any]

CHECKS: dict[str, Callable[[Sequence[Message]], None]] = {
    "openai": check_openai,
    "anthropic": check_anthropic,
    "gemini": check_gemini,
}

SYSTEM: Message = {"role": "system", "content": "You keep your own memory."}


def user(content: Any = "Hello") -> Message:
    return {"role": "user", "content": content}


def made(call_id: str = "call_1", name: str = "search", arguments: Any = "{}") -> Message:
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def assistant(content: Any = None, *calls: Message) -> Message:
    message: Message = {"role": "assistant", "content": content}
    return {**message, "tool_calls": list(calls)} if calls else message


def result(call_id: str = "call_1", content: Any = "3 hits") -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


TWO = assistant(None, made("call_1"), made("call_2"))


class Illegal(NamedTuple):
    """A history and the rule it breaks at each provider; "" where that provider accepts it."""

    what: str
    messages: list[Message]
    openai: str = ""
    anthropic: str = ""
    gemini: str = ""


ILLEGAL = [
    Illegal("nothing at all", [], "no_messages", "no_messages", "no_messages"),
    Illegal("a system prompt alone", [SYSTEM], "", "no_messages", "no_messages"),
    Illegal("an unknown role", [{"role": "critic", "content": "No."}], "role", "role", "role"),
    Illegal("a reply first", [assistant("Hi"), user()], "", "first_turn", "first_turn"),
    Illegal(
        "a call first",
        [SYSTEM, assistant(None, made()), result(), user()],
        "",
        "first_turn",
        "call_turn",
    ),
    Illegal("a reply last", [user(), assistant("Hi")], "", "", "last_turn"),
    Illegal(
        "a reply last, with a space after it",
        [user(), assistant("Hi ")],
        "",
        "trailing_whitespace",
        "last_turn",
    ),
    Illegal(
        "a call nobody answered, last",
        [user(), assistant(None, made())],
        "unanswered_calls",
        "missing_result",
        "response_count",
    ),
    Illegal(
        "a call nobody answered, before a message",
        [user(), assistant(None, made()), user("Well?")],
        "unanswered_calls",
        "missing_result",
        "response_count",
    ),
    Illegal(
        "one of two calls answered",
        [user(), TWO, result("call_2")],
        "unanswered_calls",
        "missing_result",
        "response_count",
    ),
    Illegal(
        "a message between a call and its result",
        [user(), assistant(None, made()), user("Well?"), result()],
        "unanswered_calls",
        "results_first",
        "responses_first",
    ),
    Illegal(
        "a message between two results",
        [user(), TWO, result("call_1"), user("Well?"), result("call_2")],
        "unanswered_calls",
        "results_first",
        "responses_first",
    ),
    Illegal(
        "a text between a call and its result",
        [user(), assistant(None, made()), assistant("Wait."), result(), user()],
        "unanswered_calls",
        "text_after_call",
        "",
    ),
    Illegal(
        "a result without a call",
        [user(), result()],
        "unexpected_result",
        "unexpected_result",
        "unexpected_response",
    ),
    Illegal(
        "a result of an evicted call",
        [user(), assistant("Hi"), result("call_0"), user()],
        "unexpected_result",
        "unexpected_result",
        "unexpected_response",
    ),
    Illegal(
        "a result of another call",
        [user(), assistant(None, made()), result("call_9")],
        "unknown_call",
        "unexpected_result",
        "unknown_call",
    ),
    Illegal(
        "a second result",
        [user(), assistant(None, made()), result(), result()],
        "duplicate_result",
        "duplicate_result",
        "response_count",
    ),
    Illegal(
        "a result one turn late",
        [user(), assistant(None, made()), result(), assistant("Done."), result(), user()],
        "unexpected_result",
        "unexpected_result",
        "unexpected_response",
    ),
    Illegal(
        "a result that answers nothing by name",
        [user(), assistant(None, made()), {"role": "tool", "content": "3 hits"}],
        "tool_call_id",
        "tool_call_id",
        "tool_call_id",
    ),
    Illegal(
        "one id twice in a reply",
        [user(), assistant(None, made(), made()), result()],
        "duplicate_call_id",
        "duplicate_call_id",
        "response_count",
    ),
    Illegal(
        "one id again in a later turn",
        [user(), assistant(None, made()), result(), assistant(None, made()), result()],
        "",
        "duplicate_call_id",
        "",
    ),
    Illegal(
        "an id of 41 characters",
        [user(), assistant(None, made("c" * 41)), result("c" * 41)],
        "call_id",
        "",
        "",
    ),
    Illegal(
        "an id of 65 characters",
        [user(), assistant(None, made("c" * 65)), result("c" * 65)],
        "call_id",
        "call_id",
        "",
    ),
    Illegal(
        "an id with a colon",
        [user(), assistant(None, made("search:0")), result("search:0")],
        "",
        "call_id",
        "",
    ),
    Illegal(
        "an empty id",
        [user(), assistant(None, made("")), result("")],
        "call_id",
        "call_id",
        "",
    ),
    Illegal(
        "a tool name with a dot",
        [user(), assistant(None, made(name="web.search")), result()],
        "name",
        "name",
        "",
    ),
    Illegal(
        "a tool name that begins with a digit",
        [user(), assistant(None, made(name="2fa")), result()],
        "",
        "",
        "name",
    ),
    Illegal(
        "a tool name of 65 characters",
        [user(), assistant(None, made(name="s" * 65)), result()],
        "name",
        "",
        "name",
    ),
    Illegal(
        "arguments cut off",
        [user(), assistant(None, made(arguments='{"query": "te')), result()],
        "arguments",
        "arguments",
        "arguments",
    ),
    Illegal(
        "arguments that are no object",
        [user(), assistant(None, made(arguments='["tea"]')), result()],
        "",
        "arguments",
        "arguments",
    ),
    Illegal(
        "arguments with NaN",
        [user(), assistant(None, made(arguments='{"page": NaN}')), result()],
        "arguments",
        "arguments",
        "arguments",
    ),
    Illegal(
        "arguments that are not text",
        [user(), assistant(None, made(arguments={"query": "tea"})), result()],
        "arguments",
        "tool_calls",
        "tool_calls",
    ),
    Illegal(
        "a call without type",
        [user(), assistant(None, {**made(), "type": "custom"}), result()],
        "tool_calls",
        "",
        "",
    ),
    Illegal(
        "calls as an empty list",
        [user(), {**assistant("Hi"), "tool_calls": []}, user()],
        "tool_calls",
        "",
        "",
    ),
    Illegal(
        "a user's calls",
        [{**user(), "tool_calls": [made()]}, result()],
        "tool_calls",
        "unexpected_result",
        "unexpected_response",
    ),
    Illegal(
        "a reply without anything",
        [user(), assistant(None), user()],
        "empty_message",
        "empty_message",
        "empty_message",
    ),
    Illegal(
        "a reply of empty text",
        [user(), assistant(""), user()],
        "",
        "empty_message",
        "empty_message",
    ),
    Illegal("a reply of blanks", [user(), assistant(" \n"), user()], "", "blank_text", ""),
    Illegal(
        "blanks beside a call",
        [user(), assistant("\n", made()), result()],
        "",
        "blank_text",
        "",
    ),
    Illegal("an empty message", [user("")], "", "blank_text", "empty_part"),
    Illegal("a message of blanks", [user("  ")], "", "blank_text", ""),
    Illegal(
        "a system prompt of blanks", [{**SYSTEM, "content": " "}, user()], "", "blank_text", ""
    ),
    Illegal(
        "a message without content",
        [user(None)],
        "empty_message",
        "empty_message",
        "empty_message",
    ),
    Illegal("a message of no parts", [user([])], "content", "empty_message", "empty_message"),
    Illegal("a message that is a number", [user(7)], "content", "content", "content"),
    Illegal(
        "an image in a result",
        [
            user(),
            assistant(None, made()),
            result(content=[{"type": "image_url", "image_url": {"url": "data:"}}]),
        ],
        "content",
        "",
        "",
    ),
    Illegal("a name with blanks", [{**user(), "name": "Ada Lovelace"}], "message_name", "", ""),
    Illegal("half of a surrogate pair", [user("smile \ud83d")], "not_json", "", ""),
    Illegal("an infinity", [user([{"type": "text", "text": float("inf")}])], "not_json", "", ""),
]

LEGAL = {
    "a question": [user()],
    "a question under a system prompt": [SYSTEM, user()],
    "a conversation": [SYSTEM, user(), assistant("Hi"), user("And?")],
    "a call and its result": [user(), assistant(None, made()), result()],
    "a text beside a call": [user(), assistant("Let me look.", made()), result()],
    "an empty text beside a call": [user(), assistant("", made()), result()],
    "several calls": [user(), TWO, result("call_1"), result("call_2")],
    "a heartbeat after the results": [user(), TWO, result("call_1"), result("call_2"), user("{}")],
    "a chain of steps": [
        user(),
        assistant(None, made("call_1")),
        result("call_1"),
        user('{"type": "heartbeat"}'),
        assistant(None, made("call_2")),
        result("call_2"),
        assistant("Found it."),
        user("Thanks"),
    ],
    "an empty result": [user(), assistant(None, made()), result(content="")],
    "a reply with a space after it, not last": [user(), assistant("Hi "), user()],
    "text in parts": [user([{"type": "text", "text": "Hello"}])],
    "an image": [
        user([{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}])
    ],
    "an image behind a URL": [
        user([{"type": "image_url", "image_url": {"url": "https://e.org/a.png", "detail": "low"}}])
    ],
    "an id of 40 characters": [user(), assistant(None, made("c" * 40)), result("c" * 40)],
    "every script": [user("你好, שלום, 👋🏽")],
}


@pytest.mark.parametrize("provider", CHECKS)
@pytest.mark.parametrize("case", ILLEGAL, ids=lambda case: case.what)
def test_a_provider_refuses_by_its_own_rule(case: Illegal, provider: str) -> None:
    rule = getattr(case, provider)
    if not rule:
        CHECKS[provider](case.messages)
        return
    with pytest.raises(IllegalRequest) as refusal:
        CHECKS[provider](case.messages)
    assert refusal.value.rule == f"{provider}.{rule}"
    assert refusal.value.detail in str(refusal.value)


@pytest.mark.parametrize("case", ILLEGAL, ids=lambda case: case.what)
def test_what_one_provider_refuses_is_refused_by_all_together(case: Illegal) -> None:
    with pytest.raises(IllegalRequest):
        check_request(case.messages)


@pytest.mark.parametrize("messages", LEGAL.values(), ids=list(LEGAL))
def test_a_legal_history_is_accepted_by_all(messages: list[Message]) -> None:
    for check in CHECKS.values():
        check(messages)
    check_request(messages)


@pytest.mark.parametrize(
    ("messages", "rule"),
    [
        ([user("one"), user("two")], "runtime.adjacent_user"),
        ([user(), SYSTEM, assistant("Hi"), user()], "runtime.system_first"),
        ([SYSTEM, SYSTEM, user()], "runtime.system_first"),
        ([user(), TWO, result("call_2"), result("call_1")], "runtime.result_order"),
    ],
)
def test_the_runtime_is_stricter_than_the_providers(messages: list[Message], rule: str) -> None:
    for check in CHECKS.values():
        check(messages)
    with pytest.raises(IllegalRequest) as refusal:
        check_request(messages)
    assert refusal.value.rule == rule


def test_the_place_of_the_fault_is_named() -> None:
    with pytest.raises(IllegalRequest, match=r"messages\[1\]\.tool_calls\[1\].*'web\.search'"):
        check_openai([user(), assistant(None, made(), made("call_2", "web.search"))])


def test_only_the_providers_asked_for_are_held_against() -> None:
    foreign_id = [user(), assistant(None, made("search:0")), result("search:0")]
    check_request(foreign_id, providers=["openai", "gemini"])
    with pytest.raises(IllegalRequest, match=r"anthropic\.call_id"):
        check_request(foreign_id, providers=["anthropic"])
