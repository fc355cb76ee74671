"""How full the window is: tokens of a request before it is sent, from a real tokenizer that works
offline.

While the bytes of a request, which bound its tokens, stay under the warning line nothing needs
counting, and no tokenizer is loaded. Above, every part is counted once and remembered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pagedaemon.config import Paging
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
        self.factor = factor

    def load(self, messages: Sequence[WireMessage], tools: Sequence[WireTool]) -> Load:
        """Weighs a request; exact counting only where the bytes reach the warning line."""
        bound = self._counter.tools_bound(tools) + PER_REQUEST
        bound += sum(map(self._counter.message_bound, messages))
        if bound * self.factor < self._paging.warn * self._budget:
            return Load(round(bound / _BYTES_PER_TOKEN), 0, self._budget)
        return self.counted(messages, tools)

    def counted(self, messages: Sequence[WireMessage], tools: Sequence[WireTool]) -> Load:
        """Weighs a request exactly, as far as the tokenizer is the model's own."""
        raw = self._counter.tools_tokens(tools) + PER_REQUEST + sum(map(self._message, messages))
        return Load(round(raw * self.factor), raw, self._budget)

    def message(self, message: WireMessage) -> int:
        """Tokens of one message, corrected."""
        return round(self._message(message) * self.factor)

    def text(self, text: str) -> int:
        """Tokens of a text, corrected."""
        return round(self._counter.count(text) * self.factor)

    def oversize(self, text: str) -> bool:
        """Whether one text is more than its share of the budget."""
        most = self._paging.oversize * self._budget
        if self._counter.bound(text) * self.factor <= most:
            return False
        return self.text(text) > most

    def _message(self, message: WireMessage) -> int:
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
