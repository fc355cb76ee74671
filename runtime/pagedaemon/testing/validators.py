"""Holds a request against the rules that OpenAI, Anthropic and Google have for such histories.

All take the messages and tools in the OpenAI chat-completions shape, as the runtime sends them. The
other two providers' rules are applied to what such a history becomes there (`history.converted`).

Sources: OpenAI, API reference "Create chat completion"; Anthropic, "Messages" reference and "Handle
tool calls"; Google, Gemini API reference and "Function calling". Where a rule is known from a
refusal, that is quoted at the check.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from pagedaemon.testing.declarations import (
    ANTHROPIC_NAME,
    GEMINI_NAME,
    OPENAI_NAME,
    check_anthropic_tools,
    check_gemini_tools,
    check_openai_tools,
)
from pagedaemon.testing.history import (
    IllegalRequest,
    Part,
    Turn,
    converted,
    is_list,
    json_object,
    json_value,
)
from pagedaemon.testing.images import check_images

Provider: TypeAlias = Literal["openai", "anthropic", "gemini"]
PROVIDERS: tuple[Provider, ...] = ("openai", "anthropic", "gemini")

Messages: TypeAlias = Sequence[Mapping[str, Any]]
Tools: TypeAlias = Sequence[Mapping[str, Any]]

OPENAI_CALL_ID = 40
"""Characters. Refusals have told of 40 ("Expected a string with maximum length 40") and, from some
deployments since 2026, of 64: the smaller one is safe everywhere."""

_ANTHROPIC_CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_OPENAI_MESSAGE_NAME = re.compile(r"[^\s<|\\/>]+")
_OPENAI_CONTENT: Mapping[str, frozenset[str]] = {
    "system": frozenset({"text"}),
    "developer": frozenset({"text"}),
    "user": frozenset({"text", "image_url", "input_audio", "file"}),
    "assistant": frozenset({"text", "refusal"}),
    "tool": frozenset({"text"}),
}


def check_request(
    messages: Messages, tools: Tools = (), *, providers: Sequence[Provider] = PROVIDERS
) -> None:
    """Hold a request against these providers' rules, and against the runtime's own on top.

    The runtime's own: one system message at most, and first; no two user messages side by side; the
    results of a reply's calls in the order of the calls.

    Raises:
        IllegalRequest: the first rule that is broken. The runtime's own are `runtime.system_first`,
            `runtime.adjacent_user` and `runtime.result_order`.
    """
    for provider in providers:
        _CHECKS[provider](messages, tools)
    roles = [message.get("role") for message in messages]
    for index, role in enumerate(roles):
        if role == "system" and index > 0:
            raise IllegalRequest("runtime.system_first", f"messages[{index}] is a system message")
        if role == "user" and index > 0 and roles[index - 1] == "user":
            raise IllegalRequest(
                "runtime.adjacent_user", f"messages[{index - 1}] and messages[{index}]"
            )
        if role == "assistant":
            _check_result_order(messages, index)


def check_openai(messages: Messages, tools: Tools = ()) -> None:
    """Hold a request against OpenAI's rules.

    Raises:
        IllegalRequest: `openai.` and `not_json`, `no_messages`, `role`, `message_name`, `content`,
            `empty_message`, `tool_calls`, `call_id`, `duplicate_call_id`, `name`, `arguments`,
            `tool_call_id`, `unexpected_result`, `unknown_call`, `duplicate_result`,
            `unanswered_calls`, or what `check_images` and `check_openai_tools` raise.
    """
    _check_sendable(messages, tools)
    if not messages:
        raise IllegalRequest("openai.no_messages", "there is none")
    # The calls of the assistant's last message, and whether each has its result.
    open_calls: dict[str, bool] = {}
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        _check_openai_content(message, where)
        if message["role"] == "tool":
            _check_openai_result(message, where, open_calls)
            continue
        _demand_answers(open_calls, f"before {where}")
        open_calls = dict.fromkeys(_openai_calls(message, where), False)
    _demand_answers(open_calls, "at the end")
    check_images(messages, "openai")
    check_openai_tools(tools)


def check_anthropic(messages: Messages, tools: Tools = ()) -> None:
    """Hold a request against Anthropic's rules.

    Raises:
        IllegalRequest: `anthropic.` and `role`, `content`, `empty_message`, `tool_calls`,
            `tool_call_id`, `no_messages`, `first_turn`, `blank_text`, `call_id`,
            `duplicate_call_id`, `name`, `arguments`, `text_after_call`, `missing_result`,
            `unexpected_result`, `duplicate_result`, `results_first`, `trailing_whitespace`, or what
            `check_images` and `check_anthropic_tools` raise.
    """
    history = converted(messages, "anthropic")
    if not history.turns:
        raise IllegalRequest("anthropic.no_messages", "none is left beside the system prompt")
    if history.turns[0].role != "user":
        raise IllegalRequest(
            "anthropic.first_turn", f"{history.turns[0].parts[0].where} comes first"
        )
    for part in [*history.system, *(part for turn in history.turns for part in turn.of("text"))]:
        # "text content blocks must be non-empty", "must contain non-whitespace text".
        if not part.text.strip():
            raise IllegalRequest("anthropic.blank_text", f"{part.where} is {part.text!r}")
    seen: set[str] = set()
    for before, turn in history.exchanges():
        _check_anthropic_calls(turn, seen)
        _check_anthropic_results(turn, before)
    last = history.turns[-1]
    if last.of("call"):
        raise IllegalRequest(
            "anthropic.missing_result", f"{last.of('call')[0].where} ends the history"
        )
    # "final assistant content cannot end with trailing whitespace".
    if last.role == "assistant" and last.parts[-1].text != last.parts[-1].text.rstrip():
        raise IllegalRequest("anthropic.trailing_whitespace", last.parts[-1].where)
    check_images(messages, "anthropic")
    check_anthropic_tools(tools)


def check_gemini(messages: Messages, tools: Tools = ()) -> None:
    """Hold a request against Gemini's rules.

    Raises:
        IllegalRequest: `gemini.` and `role`, `content`, `empty_message`, `tool_calls`,
            `tool_call_id`, `no_messages`, `first_turn`, `call_turn`, `empty_part`, `name`,
            `arguments`, `unexpected_response`, `unknown_call`, `response_count`, `responses_first`,
            `last_turn`, or what `check_images` and `check_gemini_tools` raise.
    """
    history = converted(messages, "gemini")
    if not history.turns:
        raise IllegalRequest("gemini.no_messages", "no contents are left beside the system prompt")
    first, last = history.turns[0], history.turns[-1]
    if first.role != "user":
        # "function call turn comes immediately after a user turn or after a function response turn"
        rule = "gemini.call_turn" if first.of("call") else "gemini.first_turn"
        raise IllegalRequest(rule, f"{first.parts[0].where} comes first")
    for part in [*history.system, *(part for turn in history.turns for part in turn.of("text"))]:
        if not part.text:
            raise IllegalRequest("gemini.empty_part", part.where)
    for before, turn in history.exchanges():
        for call in turn.of("call"):
            _check_call(call, GEMINI_NAME, "gemini")
        _check_gemini_responses(turn, before)
    if last.of("call"):
        raise IllegalRequest("gemini.response_count", f"{last.of('call')[0].where} has no response")
    # "multiturn requests ends with a user role or a function response".
    if last.role != "user":
        raise IllegalRequest("gemini.last_turn", f"{last.parts[-1].where} is the model's own")
    check_images(messages, "gemini")
    check_gemini_tools(tools)


_CHECKS = {"openai": check_openai, "anthropic": check_anthropic, "gemini": check_gemini}


def _check_sendable(messages: Messages, tools: Tools) -> None:
    try:
        body = json.dumps([list(messages), list(tools)], ensure_ascii=False, allow_nan=False)
        body.encode()
    except (TypeError, ValueError) as error:  # a lone surrogate is a ValueError too
        raise IllegalRequest("openai.not_json", str(error)) from error


def _check_openai_content(message: Mapping[str, Any], where: str) -> None:
    role, content = message.get("role"), message.get("content")
    allowed = _OPENAI_CONTENT.get(str(role))
    if allowed is None:
        raise IllegalRequest("openai.role", f"{where} has the role {role!r}")
    # "messages[0].name … does not match pattern".
    name = message.get("name")
    if name is not None and not _OPENAI_MESSAGE_NAME.fullmatch(str(name)):
        raise IllegalRequest("openai.message_name", f"{where} is by {name!r}")
    if isinstance(content, str):
        return
    if content is None:
        if role == "assistant" and message.get("tool_calls"):
            return
        raise IllegalRequest("openai.empty_message", f"{where} ({role}) has no content")
    if not is_list(content) or not content:
        raise IllegalRequest(
            "openai.content", f"{where}: content is neither text nor a list of parts"
        )
    for index, part in enumerate(content):
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind not in allowed or not part.get(kind):
            detail = f"{where}.content[{index}]: {kind!r} in a message of the role {role}"
            raise IllegalRequest("openai.content", detail)


def _openai_calls(message: Mapping[str, Any], where: str) -> list[str]:
    calls = message.get("tool_calls")
    if calls is None:
        return []
    if message["role"] != "assistant" or not is_list(calls) or not calls:
        # "[] is too short - 'messages.1.tool_calls'".
        raise IllegalRequest("openai.tool_calls", f"{where}: only an assistant's, and never empty")
    ids: list[str] = []
    for index, call in enumerate(calls):
        ids.append(_openai_call_id(call, f"{where}.tool_calls[{index}]"))
        if ids[-1] in ids[:-1]:
            raise IllegalRequest("openai.duplicate_call_id", f"{where}: {ids[-1]!r} twice")
    return ids


def _openai_call_id(call: object, where: str) -> str:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping):
        raise IllegalRequest("openai.tool_calls", f"{where} is no function call")
    if call.get("type") != "function":
        raise IllegalRequest("openai.tool_calls", f"{where} has the type {call.get('type')!r}")
    call_id, name, arguments = call.get("id"), function.get("name"), function.get("arguments")
    if not isinstance(call_id, str) or not 0 < len(call_id) <= OPENAI_CALL_ID:
        detail = f"{where}: {call_id!r}; 1 to {OPENAI_CALL_ID} characters may be"
        raise IllegalRequest("openai.call_id", detail)
    if not isinstance(name, str) or not OPENAI_NAME.fullmatch(name):
        raise IllegalRequest("openai.name", f"{where} calls {name!r}")
    if not isinstance(arguments, str) or not json_value(arguments):
        raise IllegalRequest("openai.arguments", f"{where}: {arguments!r}")
    return call_id


def _check_openai_result(
    message: Mapping[str, Any], where: str, open_calls: dict[str, bool]
) -> None:
    call_id = message.get("tool_call_id")
    if not isinstance(call_id, str):
        raise IllegalRequest("openai.tool_call_id", f"{where} does not say what it answers")
    if not open_calls:
        # "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'".
        raise IllegalRequest("openai.unexpected_result", f"{where} follows no call")
    if call_id not in open_calls:
        raise IllegalRequest("openai.unknown_call", f"{where} answers {call_id!r}")
    if open_calls[call_id]:
        raise IllegalRequest("openai.duplicate_result", f"{where} answers {call_id!r} again")
    open_calls[call_id] = True


def _demand_answers(open_calls: Mapping[str, bool], when: str) -> None:
    # "An assistant message with 'tool_calls' must be followed by tool messages responding to each".
    missing = [call_id for call_id, answered in open_calls.items() if not answered]
    if missing:
        raise IllegalRequest("openai.unanswered_calls", f"{when}: {', '.join(missing)}")


def _check_anthropic_calls(turn: Turn, seen: set[str]) -> None:
    called = False
    for part in turn.parts:
        if part.kind != "call":
            if called and turn.role == "assistant":
                # "tool_use ids were found without tool_result blocks immediately after".
                raise IllegalRequest("anthropic.text_after_call", f"{part.where} follows a call")
            continue
        called = True
        _check_call(part, ANTHROPIC_NAME, "anthropic")
        if not _ANTHROPIC_CALL_ID.fullmatch(part.id):
            raise IllegalRequest("anthropic.call_id", f"{part.where}: {part.id!r}")
        if part.id in seen:
            raise IllegalRequest("anthropic.duplicate_call_id", f"{part.where}: {part.id!r} again")
        seen.add(part.id)


def _check_anthropic_results(turn: Turn, before: Turn | None) -> None:
    calls = before.of("call") if before else []
    results = turn.of("result")
    due, given = [call.id for call in calls], [result.id for result in results]
    for index, result in enumerate(results):
        if result.id not in due:
            raise IllegalRequest("anthropic.unexpected_result", f"{result.where}: {result.id!r}")
        if result.id in given[:index]:
            raise IllegalRequest("anthropic.duplicate_result", f"{result.where}: {result.id!r}")
    for call in calls:
        if call.id not in given:
            raise IllegalRequest("anthropic.missing_result", f"{call.where}: {call.id!r}")
    # "tool_result blocks must come first in the content array": text may only follow.
    if turn.parts[: len(results)] != results:
        raise IllegalRequest("anthropic.results_first", f"{turn.parts[0].where} precedes a result")


def _check_gemini_responses(turn: Turn, before: Turn | None) -> None:
    calls = before.of("call") if before else []
    responses = turn.of("result")
    if responses and not calls:
        # "function response turn comes immediately after a function call turn".
        raise IllegalRequest("gemini.unexpected_response", f"{responses[0].where} follows no call")
    for response in responses:
        # The name of a response is looked up by the id, so an unknown one cannot be converted.
        if response.id not in {call.id for call in calls}:
            raise IllegalRequest("gemini.unknown_call", f"{response.where} answers {response.id!r}")
    if len(responses) != len(calls):
        detail = f"{turn.parts[0].where}: {len(responses)} responses to {len(calls)} calls"
        raise IllegalRequest("gemini.response_count", detail)
    if turn.parts[: len(responses)] != responses:
        raise IllegalRequest("gemini.responses_first", f"{turn.parts[0].where} precedes a response")


def _check_call(call: Part, name: re.Pattern[str], provider: str) -> None:
    if not name.fullmatch(call.name):
        raise IllegalRequest(f"{provider}.name", f"{call.where} calls {call.name!r}")
    if not json_object(call.arguments):
        raise IllegalRequest(f"{provider}.arguments", f"{call.where}: {call.arguments!r}")


def _check_result_order(messages: Messages, index: int) -> None:
    calls = [call["id"] for call in messages[index].get("tool_calls") or ()]
    results = [
        message.get("tool_call_id")
        for message in messages[index + 1 : index + 1 + len(calls)]
        if message.get("role") == "tool"
    ]
    if results != calls[: len(results)]:
        raise IllegalRequest("runtime.result_order", f"after messages[{index}]: {results}")
