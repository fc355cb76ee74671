"""What memory has on a person's message, beside it at the end of the window: once, and as much as
there is room for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pagedaemon.memory.recall import EXCERPT
from pagedaemon.memory.recollection import Recollection
from pagedaemon.messages import Message, lowest
from pagedaemon.store.blocks import BlockRow
from pagedaemon.turn.body import Body

SHARE = 0.05
"""Of the budget, that recollections may have together."""

LEAST_EXCERPT = 120
"""Characters of one, however little room there is."""

_CHARS_PER_TOKEN = 3
"""For how long an excerpt may be at first; where that does not fit, half of it is tried."""


def with_recollections(
    body: Body,
    blocks: Sequence[BlockRow],
    queue: Sequence[Message],
    message: Message,
    recalled: Sequence[Recollection],
    *,
    after: int,
) -> Message:
    """The message with recollections in its status, the best of them, as far as there is room; as
    it was where there is none.

    They bring the window over no line: never does a page-out or the alert come of them.

    Args:
        queue: what stands before it.
        recalled: best first.
        after: characters of its status that stay before them; the rest, such as how the reply is
            to be written, stands last.
    """
    paging, budget = body.agent.settings.paging, body.model.budget
    load = body.weigh(blocks, [*queue, message])
    body.renderer.forget(message)
    line = paging.evict if load.over(paging.warn) else paging.warn
    room = min(SHARE * budget, line * budget - load.tokens)
    for shown, excerpt in _choices(recalled, room):
        text = _worded(body, shown, excerpt)
        if body.gauge.over(text, room):
            continue
        fuller = replace(
            message,
            status=f"{message.status[:after]}\n{text}{message.status[after:]}",
            data={
                **message.data,
                "recalled": {
                    "ids": [one.id for one in shown],
                    "label": lowest([message.label, *(one.label for one in shown)]),
                },
            },
        )
        # Weighed as a whole: tokens of parts do not add up exactly.
        if not body.weigh(blocks, [*queue, fuller]).over(line):
            return fuller
        body.renderer.forget(fuller)
    return message


def _choices(
    recalled: Sequence[Recollection], room: float
) -> Iterator[tuple[Sequence[Recollection], int]]:
    """How many are shown, and how many characters of each: the most first."""
    for count in range(len(recalled), 0, -1):
        share = max(LEAST_EXCERPT, int(room) * _CHARS_PER_TOKEN // count)
        yield recalled[:count], min(EXCERPT, share)
        yield recalled[:count], min(EXCERPT, max(LEAST_EXCERPT, share // 2))


def _worded(body: Body, shown: Sequence[Recollection], most: int) -> str:
    return body.prompts.render(
        "events/recollections",
        hits=[
            {
                "ref": one.ref,
                "date": one.date,
                "who": one.who,
                "document": one.document,
                "position": one.position,
                "source": one.label,
                "text": one.text if len(one.text) <= most else f"{one.text[:most]} […]",
            }
            for one in shown
        ],
    )
