"""History in OpenAI's shapes: the export of ChatGPT, and lists of chat completion messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pagedaemon.config import IMPORTED
from pagedaemon.errors import InvalidInput
from pagedaemon.memory.history import Chat, Reading

_UNSAID = frozenset(
    {"thoughts", "reasoning_recap", "user_editable_context", "model_editable_context"}
)
"""Kinds of content in ChatGPT's export that nobody said to anyone."""

LONGEST_TITLE = 150


def from_export(text: str, name: str | None, source: str, reading: Reading) -> list[Chat]:
    """The chats of an export.

    Known are `conversations.json` of ChatGPT's data export (of each tree the branch that was shown
    last), a list of messages, objects with `messages`, lists of these, and all of them as JSON
    lines, such as a file for fine-tuning.

    Args:
        name: the conversation that all go to. None: each to one of its own, named by its title and
            id; those without a title to `imported`.
        source: what was read: a file's name.

    Raises:
        InvalidInput: it is none of these.
    """
    untitled = Chat(name or IMPORTED, source)
    chats: list[Chat] = []
    records: list[tuple[int, object]]
    for where, item in _items(text, source, reading):
        if isinstance(item, Mapping) and isinstance(item.get("mapping"), Mapping):
            chat = _chat_of(item, name, source)
            records = _branch(item, where, reading)
        elif isinstance(item, Mapping) and isinstance(item.get("messages"), list):
            chat = _chat_of(item, name, source)
            records = [(number, record) for number, record in enumerate(item["messages"], 1)]
        elif isinstance(item, Mapping) and "role" in item:
            chat, records = untitled, [(0, item)]
        else:
            reading.refuse(f"{where} is no chat and no message of a known shape")
            continue
        # What has neither a title nor an id is one conversation: its repeats are counted together.
        chat = chat or untitled
        for number, record in records:
            said = reading.message(record, f"{where}, message {number}" if number else where)
            if said is not None:
                chat.said.append(said)
        if chat is not untitled:
            chats.append(chat)
    return [chat for chat in [*chats, untitled] if chat.said]


def _items(text: str, source: str, reading: Reading) -> Iterator[tuple[str, object]]:
    """The chats or messages in a file, each with the words that name its place."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        lines = [(at, line) for at, line in enumerate(text.split("\n"), 1) if line.strip()]
        if not lines or not lines[0][1].lstrip().startswith("{"):
            raise InvalidInput(
                f"{source} is no JSON ({error}): give conversations.json from the unpacked export, "
                "a list of messages, or JSON lines"
            ) from error
        yield from _from_lines(lines, reading)
        return
    if isinstance(whole, Mapping) and isinstance(whole.get("conversations"), list):
        whole = whole["conversations"]
    if isinstance(whole, Mapping):
        yield "the chat", whole
        return
    if not isinstance(whole, list):
        raise InvalidInput(f"{source} holds no chats: it is a JSON {type(whole).__name__}")
    for number, item in enumerate(whole, 1):
        if isinstance(item, list):
            yield f"chat {number}", {"messages": item}
        else:
            single = isinstance(item, Mapping) and "role" in item
            yield f"{'message' if single else 'chat'} {number}", item


def _from_lines(lines: list[tuple[int, str]], reading: Reading) -> Iterator[tuple[str, object]]:
    for number, line in lines:
        try:
            yield f"line {number}", json.loads(line)
        except (ValueError, RecursionError) as error:
            reading.refuse(f"line {number} is no JSON ({error})", error)


def _chat_of(item: Mapping[str, Any], name: str | None, source: str) -> Chat | None:
    """The conversation of a chat with a title or an id; None for one with neither."""
    key = item.get("conversation_id") or item.get("id")
    key = key if isinstance(key, str) else None
    given = item.get("title")
    title = given if isinstance(given, str) else ""
    # A title is for people: what no store can keep is left out of it.
    title = title.replace("\x00", "").encode("utf-8", "ignore").decode()
    title = " ".join(title.split())[:LONGEST_TITLE]
    if key is None and not title:
        return None
    called = " ".join(part for part in (title, f"({key[:8]})" if key else "") if part)
    return Chat(name or called, source, key)


def _branch(item: Mapping[str, Any], where: str, reading: Reading) -> list[tuple[int, object]]:
    """The messages from a tree's root to where its reader stood last, in the common shape."""
    nodes: Mapping[str, Any] = item["mapping"]
    at = item.get("current_node")
    if at not in nodes:
        leaves = [key for key, node in nodes.items() if not _of(node, "children")]
        at = leaves[-1] if leaves else None
    path: list[Mapping[str, Any]] = []
    seen: set[object] = set()
    while at is not None:
        node = nodes.get(at) if isinstance(at, str) and at not in seen else None
        if not isinstance(node, Mapping):
            reading.refuse(f"{where} is no tree: node {at!r} is missing or above itself")
            return []
        seen.add(at)
        if isinstance(node.get("message"), Mapping):
            path.append(node["message"])
        at = node.get("parent")
    return [(number, _common(message)) for number, message in enumerate(reversed(path), 1)]


def _common(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message of ChatGPT's export in the common shape; without text where nobody said it."""
    author = message.get("author")
    role = _of(author, "role")
    content = message.get("content")
    kind = _of(content, "content_type")
    parts = _of(content, "parts")
    shown = kind not in _UNSAID and not _of(
        message.get("metadata"), "is_visually_hidden_from_conversation"
    )
    text: object = parts if isinstance(parts, list) else _of(content, "text")
    if isinstance(text, str) and message.get("recipient") not in (None, "all", "assistant"):
        text = f"{message['recipient']}({text})"
    return {
        "id": message.get("id"),
        "role": role,
        "content": text if shown else "",
        "created_at": message.get("create_time"),
        "name": _of(author, "name"),
    }


def _of(value: object, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None
