"""Models that answer questions about what is stored, knowing nothing but the request before them:
they search, read on page by page and follow what they find, as the text of the results says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pagedaemon.llm.protocol import Reply, Request, WireMessage
from pagedaemon.llm.tokens import TokenCounter
from pagedaemon.testing import call, say, view
from pagedaemon.testing.scripted import Answer, Script

UNKNOWN = "I do not know."
WINDOW = 8_192

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"

_DIGEST = re.compile(r"shown shortened; read it with read_page\(id=\"([^\"]+)\", page=0\)")
_FURTHER = re.compile(r"\[end of page; next: read_page\(id=\"([^\"]+)\", page=(\d+)\)\]$")
_MORE = re.compile(r"^More: page=(\d+)\.$", re.MULTILINE)
_PAGE = re.compile(r"^\[\S+ · page \d+, pages [^\]]*\]\n([\s\S]*)\n\[end of [^\]]*\]$")
_COUNTER = TokenCounter("gpt-4o")


@dataclass(frozen=True)
class Made:
    """A call and its result, as they stand in a request."""

    tool: str
    arguments: dict[str, object]
    text: str


def tokens(request: Request) -> int:
    """What a request counts."""
    return sum(map(_COUNTER.message_tokens, request.messages)) + _COUNTER.tools_tokens(
        request.tools
    )


def made_since_asked(request: Request) -> list[Made]:
    """The calls that stand in the request behind the newest words of a person."""
    asked = view(request).last_user
    made: list[Made] = []
    open_calls: dict[str, tuple[str, dict[str, object]]] = {}
    for message in request.messages:
        content = str(message.get("content") or "")
        if message["role"] == "user" and asked and asked in content:
            made = []
        for one in message.get("tool_calls") or ():
            function = one["function"]
            open_calls[one["id"]] = function["name"], json.loads(function["arguments"])
        if message["role"] == "tool":
            made.append(Made(*open_calls[message["tool_call_id"]], content))
    return made


class Found(str):
    """What a search was made for."""


def look(
    request: Request,
    tool: str,
    query: str,
    wanted: Callable[[str], str | None],
    *,
    far: Callable[[str], bool] = lambda text: False,
    **given: Any,
) -> Reply | Found | None:
    """What is wanted of a search, or the call that goes on with it: the search itself, its next
    page, or the next page of a result that is shown shortened. None: it has ended without.

    Args:
        far: whether a page has nothing more to do with the query; the best come first.
    """
    seen = [
        one
        for one in made_since_asked(request)
        if one.tool == "read_page" or one.arguments.get("query") == query
    ]
    if not seen:
        return call(tool, query=query, heartbeat=True, **given)
    found = wanted("".join(map(_body, seen)))
    if found is not None:
        return Found(found)
    # Whatever has left the window meanwhile: the last result says how it goes on.
    last = seen[-1].text
    if shortened := _DIGEST.search(last):
        return call("read_page", id=shortened[1], page=0, heartbeat=True)
    if further := _FURTHER.search(last):
        return call("read_page", id=further[1], page=int(further[2]), heartbeat=True)
    more = _MORE.search(_body(seen[-1]))
    if more is None or far(last):
        return None
    return call(tool, query=query, page=int(more[1]), heartbeat=True, **given)


def _body(made: Made) -> str:
    """A result without what is around a page of it, so that what was cut apart is whole again."""
    page = _PAGE.match(made.text)
    return page[1] if page else f"{made.text}\n"


def follows_keys(request: Request) -> Answer:
    """Looks the key of the question up, and what it finds as a key again, until that is none. When
    it is woken once more because its window is full, it makes room."""
    if any(one.tool == "send_message" for one in made_since_asked(request)):
        newest = int(view(request).events[-1]["newest"])
        return call("page_out", through=newest - 4, note="Keys were followed.", heartbeat=False)
    asked = re.search(UUID, view(request).last_user)
    assert asked is not None, "a key is asked for"
    searched = [
        str(one.arguments["query"])
        for one in made_since_asked(request)
        if one.tool == "archival_memory_search"
    ]
    # What came before the last search may have left the window.
    current = searched[-1] if searched else asked[0]
    while True:
        found = look(
            request,
            "archival_memory_search",
            current,
            partial(_value_of, current),
            far=partial(_names_no_pair_of, current),
        )
        if isinstance(found, Reply):
            return found
        if found is None:
            return say(UNKNOWN if current == asked[0] else f"The value is {current}.")
        current = str(found)


def _value_of(key: str, text: str) -> str | None:
    found = re.search(rf"{key} -> ({UUID})", text)
    return found[1] if found else None


def _names_no_pair_of(key: str, text: str) -> bool:
    return not re.search(rf"{key} -> |-> {key}", text)


def reads_documents(query: str, pattern: str, request: Request) -> Answer:
    """Reads what a search of the archive finds, page by page, until it has what answers."""
    found = look(
        request,
        "archival_memory_search",
        query,
        lambda text: match[1] if (match := re.search(pattern, text)) else None,
    )
    return found if isinstance(found, Reply) else say(f"In {found}." if found else UNKNOWN)


def remembers_first(query: str, pattern: str, request: Request) -> Answer:
    """Reads all that a search of the conversations finds, and answers by the oldest of it."""
    ended = look(request, "conversation_search", query, lambda text: None, roles=["user"])
    if isinstance(ended, Reply):
        return ended
    seen = "\n".join(
        one.text for one in made_since_asked(request) if one.tool == "conversation_search"
    )
    told = sorted(
        (date, match[1]) for date, text in _dated(seen) if (match := re.search(pattern, text))
    )
    return say(f"It is {told[0][1]}." if told else UNKNOWN)


def _dated(text: str) -> Iterator[tuple[str, str]]:
    """The date and words of each hit."""
    for hit in re.finditer(r"^- \S+ · \w+ (\S+ \S+) · .*\n((?:  .*\n)+)", text, re.MULTILINE):
        yield hit[1], hit[2]


def without_results(script: Script) -> Script:
    """The same model, from whose requests what its searches gave back is taken out."""

    def blind(message: WireMessage) -> WireMessage:
        return {**message, "content": "(nothing)"} if message["role"] == "tool" else message

    return lambda request: script(
        replace(request, messages=tuple(blind(message) for message in request.messages))
    )
