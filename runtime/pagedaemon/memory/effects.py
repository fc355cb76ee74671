"""What a memory tool hands the loop: a value that knows how to prepare and apply itself.

Tools never reach for the store. The loop prepares effects in call order before the transaction
(where an effect may embed a text or look up candidates) and applies them inside it, so each sees
what the one before did, and all of them land together or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from pagedaemon.events import BlockChange
from pagedaemon.messages import Label
from pagedaemon.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Acting:
    """On whose behalf an effect is applied, and what that step had seen."""

    agent_id: str
    conversation_id: str
    turn_id: str
    step_id: str
    now: datetime
    timezone: str
    label: Label = "agent"
    """The trust label of what this step writes."""
    read_versions: dict[str, int] = field(default_factory=dict)
    """Block id to the version the step knows: what stood in its prompt, then what it wrote."""
    keep: frozenset[str] = frozenset()
    """Ids of messages that must stay in the window: the open turn's user message."""
    page_size: int = 5
    page_chars: int = 4_000


@dataclass(frozen=True, slots=True)
class PageOutDone:
    """What an effect moved out of the window."""

    messages: int


@dataclass(frozen=True, slots=True)
class Told:
    """What an effect tells the model: a template of `prompts/` and its values."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    label: Label = "tool"
    """The lowest label among what it shows: recalled text is trusted no more than it was."""
    changes: tuple[BlockChange, ...] = ()
    paged_out: PageOutDone | None = None


class Effect(Protocol):
    """One internal effect or built-in read."""

    async def prepare(self, acting: Acting) -> None:
        """Anything slow, before the transaction. Most have nothing to do."""
        ...

    def apply(self, tx: Transaction, acting: Acting) -> Told:
        """Inside the transaction; SQL only. Checks first, then writes: a refusal leaves no trace.

        Raises:
            EditRefused, InvalidInput, NotFound: told to the model; nothing was written.
        """
        ...


class Immediate:
    """An effect with nothing to prepare."""

    async def prepare(self, acting: Acting) -> None:
        """Nothing."""
