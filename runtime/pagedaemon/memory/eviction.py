"""Which messages may leave the window, and which must leave together. Pure functions over the
queue.

A reply and the results of its calls are one group: no cut goes through it. The open turn's user
message, pinned groups and the summary stay whatever happens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pagedaemon.messages import Message


@dataclass(frozen=True, slots=True)
class Group:
    """Messages that enter and leave the window together."""

    messages: tuple[Message, ...]

    @property
    def last_seq(self) -> int:
        """The number of its newest message."""
        return self.messages[-1].seq

    @property
    def pinned(self) -> bool:
        """Whether any of it is pinned: then all of it stays."""
        return any(message.pinned for message in self.messages)


def groups(queue: Sequence[Message]) -> list[Group]:
    """The queue in groups, in order; the summary is not part of it."""
    found: list[list[Message]] = []
    for message in queue:
        if message.kind == "summary":
            continue
        if message.role == "tool" and found and found[-1][0].role == "assistant":
            found[-1].append(message)
        else:
            found.append([message])
    return [Group(tuple(members)) for members in found]


def evictable(
    queue: Sequence[Message], keep: frozenset[str], *, pinned: bool = False
) -> list[Group]:
    """The groups that may leave, oldest first.

    Args:
        keep: ids of messages that must stay, such as the open turn's user message.
        pinned: whether pinned groups may leave too: a last resort.
    """
    return [
        group
        for group in groups(queue)
        if (pinned or not group.pinned)
        and not any(message.id in keep for message in group.messages)
    ]


def oldest_to_leave(
    candidates: Sequence[Group], size: Callable[[Message], int], *, excess: int, keep_last: int
) -> list[Group]:
    """The shortest run of oldest groups whose leaving frees `excess` tokens.

    The newest `keep_last` messages stay where that leaves anything at all to free; the caller asks
    again with `keep_last=0` where the request still does not fit.

    Args:
        candidates: what may leave, oldest first.
        size: tokens of one message.
        excess: tokens to be freed; 0 or less frees nothing.
    """
    boundary, kept = len(candidates), 0
    while boundary > 0 and kept < keep_last:
        boundary -= 1
        kept += len(candidates[boundary].messages)
    leaving: list[Group] = []
    freed = 0
    for group in candidates[:boundary]:
        if freed >= excess:
            break
        leaving.append(group)
        freed += sum(size(message) for message in group.messages)
    return leaving
