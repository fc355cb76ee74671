"""Writes a model's replies, one line each: for `ScriptedModel`, and wherever a test needs one."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from pagedaemon.errors import InvalidInput, ModelError, ModelUnavailable
from pagedaemon.llm.protocol import RawCall, Reply

NUMBERED = "call_#"
"""Stands for the id of a call until `ScriptedModel` plays it, and then gives it the next number."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A reply whose connection breaks. Made by `cut`."""

    reply: Reply
    after: int
    error: ModelError


def call(
    tool: str,
    /,
    *,
    heartbeat: bool | None = None,
    thoughts: str | None = None,
    call_id: str = NUMBERED,
    **arguments: Any,
) -> Reply:
    """A reply that calls one tool: `call("archival_memory_search", query="tea", heartbeat=True)`.

    Args:
        tool: its name; it need not exist.
        heartbeat: sent as `request_heartbeat`, last. None: left out.
        thoughts: sent as `inner_thoughts`, first. None: left out.
        call_id: the provider's id, sent as given, also when it is empty or repeated. Default:
            `call_1`, `call_2` and so on.
        arguments: the tool's own, in this order.
    """
    given = dict(arguments)
    if thoughts is not None:
        given = {"inner_thoughts": thoughts, **given}
    if heartbeat is not None:
        given["request_heartbeat"] = heartbeat
    return raw_call(tool, json.dumps(given, ensure_ascii=False), call_id=call_id)


def raw_call(tool: str, arguments: str, *, call_id: str = NUMBERED) -> Reply:
    """A reply that calls one tool with arguments to the letter, which need not be JSON."""
    return Reply(calls=(RawCall(call_id, tool, arguments),), finish="tool_calls")


def say(text: str, thoughts: str = "", heartbeat: bool | None = None) -> Reply:
    """A reply that tells the user something through `send_message`. An agent of the native style
    has no such tool: there `text` is the reply, and `turn.reply` what was said, in either style.

    Args:
        text: what the user hears.
        thoughts: sent as `inner_thoughts`. Empty: left out.
        heartbeat: `send_message` takes no such flag; given, it is sent all the same, as small
            models do.
    """
    return call("send_message", message=text, thoughts=thoughts or None, heartbeat=heartbeat)


def text(content: str, *, reasoning: str = "") -> Reply:
    """A reply of plain text without a call.

    Args:
        content: the text.
        reasoning: what a reasoning model shows of its own thinking.
    """
    return Reply(content=content, reasoning=reasoning)


def both(*replies: Reply) -> Reply:
    """Several replies as one: texts follow each other, calls stand side by side, in order.

    Raises:
        InvalidInput: there is nothing to join.
    """
    if not replies:
        raise InvalidInput("both() needs at least one reply")
    calls = tuple(one for reply in replies for one in reply.calls)
    return replace(
        replies[-1],
        content="".join(reply.content for reply in replies),
        reasoning="".join(reply.reasoning for reply in replies),
        calls=calls,
        finish="tool_calls" if calls else replies[-1].finish,
    )


def cut(reply: Reply | str, after: int = 1, error: ModelError | None = None) -> Cut:
    """A reply whose connection breaks: a stream after that many parts, a whole reply at once.

    Args:
        reply: what would have come.
        after: parts that still arrive; with 0 the stream breaks before the first.
        error: what is raised. Default: a `ModelUnavailable`.

    Raises:
        InvalidInput: `after` is negative.
    """
    if after < 0:
        raise InvalidInput("a stream cannot break before its beginning: `after` is 0 or more")
    whole = text(reply) if isinstance(reply, str) else reply
    return Cut(whole, after, error or ModelUnavailable("the connection broke, as scripted"))
