"""How the results of one step share the room there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pagedaemon.context.window import Load
from pagedaemon.messages import Message
from pagedaemon.store.blocks import BlockRow
from pagedaemon.turn.body import Body
from pagedaemon.turn.state import OpenTurn

SPARE = 400
"""Tokens kept free beside a step's results for the event that follows and a new summary."""

LEAST_SHOWN = 60
"""Tokens up to which a result is shown whole: a digest is no shorter."""


def sharing(
    turn: OpenTurn, new: list[Message], blocks: Sequence[BlockRow], queue: Sequence[Message]
) -> tuple[list[Message], Load]:
    """The step's messages, the largest results shortened where together they leave the request no
    room, even when all that can go has gone: the model must be shown each of them once.

    Returns:
        the messages, and what the request would weigh with them.
    """
    body = turn.body
    load = body.weigh(blocks, [*queue, *new])
    line = int(body.agent.settings.paging.evict * body.model.budget)
    if load.tokens <= line or not any(message.role == "tool" for message in new):
        return new, load
    shared = _shortened(turn, new, blocks, queue, line)
    if shared == new:
        return new, load
    return shared, body.weigh(blocks, [*queue, *shared])


def _shortened(
    turn: OpenTurn,
    new: list[Message],
    blocks: Sequence[BlockRow],
    queue: Sequence[Message],
    line: int,
) -> list[Message]:
    body = turn.body
    stays = [
        message
        for message in queue
        if message.pinned or message.kind == "summary" or message.id in turn.keep
    ]
    replies = [message for message in new if message.role != "tool"]
    results = [message for message in new if message.role == "tool"]
    # What stays, counted exactly: each kept message and the reply, on top of the fixed part.
    room = line - SPARE - body.gauge.counted((body.system(blocks).wire,), body.tools).tokens
    room -= sum(body.size(message) for message in (*stays, *replies))
    sizes = {message.id: body.size(message) for message in results}
    if sum(sizes.values()) <= room:
        return new
    share = max(LEAST_SHOWN, _share(sorted(sizes.values()), room))
    shared: list[Message] = []
    for message in new:
        if sizes.get(message.id, 0) > share:
            shorter = replace(message, digest=_shown_in(body, message, share))
            body.renderer.forget(message)
            if body.size(shorter) < sizes[message.id]:
                message = shorter
            else:
                body.renderer.forget(shorter)
        shared.append(message)
    return shared


def _share(sizes: Sequence[int], room: int) -> int:
    """The most tokens each result may have so that all fit: what small ones leave, large ones get.

    Args:
        sizes: smallest first.
    """
    left = max(0, room)
    for number, size in enumerate(sizes):
        share = left // (len(sizes) - number)
        if size > share:
            return share
        left -= size
    return left


def _shown_in(body: Body, message: Message, tokens: int) -> str | None:
    """The digest of a result that fits so many tokens; the shortest there is, where none does."""
    chars = tokens * 4
    while True:
        digest = body.digest(message.text, "result", f"#{message.seq}", cap=0, shown=chars)
        assert digest is not None, "a text over its cap has a digest"
        if chars == 0 or body.gauge.text(digest) <= tokens:
            return digest
        chars //= 2
