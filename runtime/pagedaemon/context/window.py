"""How full the window is: tokens of a request before it is sent, from a real tokenizer that works
offline.

While the bytes of a request, which bound its tokens, stay under the warning line nothing needs
counting, and no tokenizer is loaded. Above, every part is counted once and remembered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from pagedaemon.config import Paging
from pagedaemon.context.render import common
from pagedaemon.llm.protocol import WireMessage, WireTool
from pagedaemon.llm.tokens import PER_REQUEST, TokenCounter

_BYTES_PER_TOKEN = 4
"""Only for showing a share while nothing is counted: usual for English in current vocabularies."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a request weighs.

    Attributes:
        tokens: our estimate times the learnt correction.
        raw: the estimate before the correction; what reported usage is compared with. 0 where only
            bytes were looked at.
        budget: tokens it may have.
    """

    tokens: int
    raw: int
    budget: int

    @property
    def share(self) -> float:
        """Of the budget, 1.0 being full."""
        return self.tokens / self.budget

    @property
    def percent(self) -> int:
        """Of the budget, in whole percent."""
        return round(self.share * 100)

    def over(self, line: float) -> bool:
        """Whether the window is fuller than that share of the budget."""
        return self.tokens > line * self.budget


class _Sums:
    """Sums over messages, for requests of which each mostly begins like the one before.

    Args:
        measure: what one message counts.
    """

    def __init__(self, measure: Callable[[WireMessage], int]) -> None:
        self._measure = measure
        self._messages: list[WireMessage] = []
        self._upto: list[int] = [0]

    def of(self, messages: Sequence[WireMessage]) -> int:
        """The sum over all of them; only what was not there last time is measured."""
        same = common(self._messages, messages)
        del self._messages[same:], self._upto[same + 1 :]
        for message in islice(messages, same, None):
            self._messages.append(message)
            self._upto.append(self._upto[-1] + self._measure(message))
        return self._upto[-1]


class Gauge:
    """Weighs requests for one model.

    Args:
        counter: counts for this model.
        factor: the learnt correction, 1.0 where nothing was learnt.
        budget: tokens a request may have.
        paging: where the lines are.
    """

    def __init__(self, counter: TokenCounter, factor: float, budget: int, paging: Paging) -> None:
        self._counter = counter
        self._budget = budget
        self._paging = paging
        self._known: dict[str, int] = {}
        self._bounds = _Sums(counter.message_bound)
        self._counts = _Sums(self._message)
        self._tools: tuple[Sequence[WireTool], int, int | None] = ((), 0, 0)
        self.factor = factor

    def load(self, messages: Sequence[WireMessage], tools: Sequence[WireTool]) -> Load:
        """Weighs a request; exact counting only where the bytes reach the warning line."""
        bound = self._tools_bound(tools) + PER_REQUEST + self._bounds.of(messages)
        if bound * self.factor < self._paging.warn * self._budget:
            return Load(round(bound / _BYTES_PER_TOKEN), 0, self._budget)
        return self.counted(messages, tools)

    def counted(self, messages: Sequence[WireMessage], tools: Sequence[WireTool]) -> Load:
        """Weighs a request exactly, as far as the tokenizer is the model's own."""
        raw = self.tools(tools) + PER_REQUEST + self._counts.of(messages)
        return Load(round(raw * self.factor), raw, self._budget)

    def message(self, message: WireMessage) -> int:
        """Tokens of one message, corrected."""
        return round(self._message(message) * self.factor)

    def text(self, text: str) -> int:
        """Tokens of a text, corrected."""
        return round(self._counter.count(text) * self.factor)

    def oversize(self, text: str) -> bool:
        """Whether one text is more than its share of the budget."""
        return self.over(text, self._paging.oversize * self._budget)

    def over(self, text: str, most: float) -> bool:
        """Whether one text is more than so many tokens; counted only where its bytes leave it
        open."""
        if self._counter.bound(text) * self.factor <= most:
            return False
        # Piece by piece: megabytes are not counted to the end to know that they are too much.
        piece = max(1_000, int(most) * _BYTES_PER_TOKEN)
        counted = 0.0
        for start in range(0, len(text), piece):
            counted += self._counter.count(text[start : start + piece]) * self.factor
            if counted > most:
                return True
        return False

    def tools(self, tools: Sequence[WireTool]) -> int:
        """Tokens of the tools' schemas, uncorrected."""
        bound = self._tools_bound(tools)
        if self._tools[2] is None:
            self._tools = (tools, bound, self._counter.tools_tokens(tools))
        return self._tools[2] or 0

    def _tools_bound(self, tools: Sequence[WireTool]) -> int:
        if self._tools[0] is not tools:
            self._tools = (tools, self._counter.tools_bound(tools), None)
        return self._tools[1]

    def _message(self, message: WireMessage) -> int:
        if isinstance(message.get("content"), list):
            # Pictures count by their size: megabytes of them are no key to remember it under.
            return self._counter.message_tokens(message)
        key = _key(message)
        if key not in self._known:
            if len(self._known) > 50_000:
                self._known.clear()
            self._known[key] = self._counter.message_tokens(message)
        return self._known[key]


def _key(message: Mapping[str, object]) -> str:
    content = message.get("content")
    if isinstance(content, str) and len(message) == 2:
        return content
    return json.dumps(message, ensure_ascii=False, sort_keys=True)
