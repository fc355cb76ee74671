"""The memory tools: what the model calls to edit, search, page and speak. Each returns an effect.

Names and parameters follow the field, so that existing prompts and fine-tuned models work; the
words that describe them stand in `prompts/tools/`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field

from pagedaemon.config import Capability, Settings
from pagedaemon.memory import blocks
from pagedaemon.memory.archival import InsertPassage, SearchPassages
from pagedaemon.memory.blocks import Edit, InsertAt, Rethink
from pagedaemon.memory.effects import Acting, Effect, Immediate, Told
from pagedaemon.memory.recall import PageOut, Pin, ReadPage, SearchMessages
from pagedaemon.messages import checked_text
from pagedaemon.resources import Prompts
from pagedaemon.store.transaction import Transaction
from pagedaemon.tools.event_tools import EVENT_NAMES, event_functions
from pagedaemon.tools.tool import Tool, internal_tool

Page = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class Say(Immediate):
    """`send_message`: what the user hears. Nothing but the message itself is stored."""

    message: str

    def apply(self, tx: Transaction, acting: Acting) -> Told:
        """Nothing to write. A message of blank space alone is refused: the user would see
        nothing."""
        checked_text(self.message, "the message")
        return Told("results/sent")


def send_message(message: Annotated[str, Field(min_length=1)]) -> Effect:
    """Speaks to the user."""
    return Say(message)


def core_memory_append(label: str, content: str) -> Effect:
    """Adds a line to a block."""
    return Edit(label, blocks.append(content), "append")


def core_memory_replace(label: str, old_content: str, new_content: str) -> Effect:
    """Replaces exact text in a block."""
    return Edit(label, blocks.replace(old_content, new_content), "replace")


def memory_insert(label: str, new_str: str, insert_line: int = -1) -> Effect:
    """Inserts a line into a block."""
    return InsertAt(label, new_str, insert_line)


def memory_replace(label: str, old_str: str, new_str: str) -> Effect:
    """Replaces exact text in a block."""
    return Edit(label, blocks.replace(old_str, new_str), "replace")


def memory_rethink(label: str, new_memory: str) -> Effect:
    """Rewrites a block."""
    return Rethink(label, new_memory)


def archival_memory_insert(content: str, tags: list[str] | None = None) -> Effect:
    """Keeps a passage."""
    return InsertPassage(content, tuple(tags or ()))


def archival_memory_search(query: str, tags: list[str] | None = None, page: Page = 0) -> Effect:
    """Finds passages."""
    return SearchPassages(query, tuple(tags or ()), page)


def conversation_search(
    query: str, roles: list[Literal["user", "assistant", "tool"]] | None = None, page: Page = 0
) -> Effect:
    """Finds messages by words."""
    return SearchMessages(query, roles=tuple(roles or ()), page=page)


def conversation_search_date(start_date: str, end_date: str, page: Page = 0) -> Effect:
    """Finds messages by date."""
    return SearchMessages(None, start=start_date, end=end_date, page=page)


def page_out(through: int, note: str) -> Effect:
    """Moves old messages out of the window."""
    return PageOut(through, note)


def pin(message: str | int, pinned: bool = True) -> Effect:
    """Keeps a message in the window."""
    return Pin(str(message), pinned)


def read_page(id: str | int, page: Page = 0) -> Effect:
    """Reads one page of a long message."""
    return ReadPage(str(id), page)


_EDITING: dict[str, tuple[Callable[..., Effect], ...]] = {
    "memgpt": (core_memory_append, core_memory_replace),
    "edit": (memory_insert, memory_replace, memory_rethink),
}
_ALWAYS: tuple[Callable[..., Effect], ...] = (
    archival_memory_insert,
    archival_memory_search,
    conversation_search,
    conversation_search_date,
    page_out,
    pin,
    read_page,
)

SPEAK = "send_message"
"""The tool through which a MemGPT-style agent speaks: terminal, and without a heartbeat flag."""

NAMES = EVENT_NAMES | frozenset(
    function.__name__
    for function in (send_message, *_ALWAYS, *_EDITING["memgpt"], *_EDITING["edit"])
)
"""Names that a tool of the user's may not take."""


def memory_tools(prompts: Prompts, settings: Settings) -> list[Tool]:
    """The built-in tools of an agent with these settings, in the order the model sees them."""
    editing = _EDITING[settings.tool_set]
    functions = (*editing, *_ALWAYS, *event_functions(settings))
    tools = [_made(prompts, one, can=("core",) if one in editing else ()) for one in functions]
    if settings.style.reply == "tool":
        tools.insert(0, _made(prompts, send_message, terminal=True))
    return tools


def _made(
    prompts: Prompts,
    function: Callable[..., Effect],
    *,
    terminal: bool = False,
    can: tuple[Capability, ...] = (),
) -> Tool:
    return _worded(function, prompts.render(f"tools/{function.__name__}"), terminal, can)


@lru_cache(maxsize=256)
def _worded(
    function: Callable[..., Effect], description: str, terminal: bool, can: tuple[Capability, ...]
) -> Tool:
    """Reading a signature takes about a millisecond, and agents share what their words are."""
    return internal_tool(function, description=description, terminal=terminal, can=can)
