"""What a model reports that a call has cost, without what no count can be."""

from __future__ import annotations

import math

from pagedaemon.llm.protocol import MOST_TOKENS, Reply
from pagedaemon.messages import Usage
from pagedaemon.turn.body import Compiled


def usage_of(reply: Reply, compiled: Compiled) -> Usage:
    """What a reply has cost: as reported, or by our own count where nothing credible is."""
    if isinstance(reply.usage, Usage):
        reported = believable(reply.usage)
        if reported.total_tokens:
            return reported
    said = len(reply.content) + sum(len(call.arguments) for call in reply.calls)
    return Usage(1, compiled.load.tokens, said // 4, estimated=True)


def believable(usage: Usage) -> Usage:
    """A report without what no count can be."""
    return Usage(
        _count(usage.calls),
        _count(usage.prompt_tokens),
        _count(usage.completion_tokens),
        _count(usage.cached_tokens),
        _count(usage.reasoning_tokens),
        estimated=bool(usage.estimated),
        cost=_money(usage.cost),
    )


def _money(value: object) -> float | None:
    if isinstance(value, int | float) and math.isfinite(value) and value >= 0:
        return float(value)
    return None


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value <= MOST_TOKENS else 0
