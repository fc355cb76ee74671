"""What a memory tool hands the loop: a value that knows how to prepare and apply itself.

Tools never reach for the store. The loop prepares effects in call order before the transaction
(where an effect may embed a text or look up candidates) and applies them inside it, so each sees
what the one before did, and all of them land together or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from pagedaemon.config import NEAR_REPEATS
from pagedaemon.events import BlockChange
from pagedaemon.messages import Label
from pagedaemon.store.candidates import Allowed
from pagedaemon.store.journal import Letter
from pagedaemon.store.terms import match_expression
from pagedaemon.store.transaction import Transaction

if TYPE_CHECKING:
    from pagedaemon.memory.assurance import Doubt
    from pagedaemon.memory.repeats import Placed
    from pagedaemon.memory.search import Near


class Nearby(Protocol):
    """Finds by meaning: `pagedaemon.memory.meaning.Meaning`."""

    async def near(self, words: str, allowed: Allowed, limit: int) -> Near | None:
        """What is near to these words among the texts allowed, at most so many; None
        where search is by words."""
        ...

    async def placed(self, text: str, allowed: Allowed) -> Placed | None:
        """A new text's vectors and the nearest among the texts allowed; None where that is not
        known in a moment."""
        ...

    async def read(self, near: Near, doubts: Callable[[Transaction], Doubt | None]) -> Near:
        """The same with what was read closely of what was found, where that is in doubt.

        Args:
            doubts: what that is.
        """
        ...

    async def waiting(self, *, changing: bool = False) -> int:
        """How many texts it cannot find yet, because they wait for their vectors.

        Args:
            changing: only where they do because the embedder was changed; else 0.
        """
        ...


async def nearby(meaning: Nearby | None, words: str | None, allowed: Allowed) -> Near | None:
    """What is near to the words of a search; None where it is by words alone, or has none."""
    # What has neither a letter nor a digit means nothing that could be near.
    if meaning is None or words is None or match_expression(words) is None:
        return None
    from pagedaemon.memory.ranking import DEFAULT

    return await meaning.near(words, allowed, DEFAULT.candidates)


async def sought(
    meaning: Nearby | None, words: str | None, allowed: Allowed
) -> tuple[Near | None, int]:
    """`nearby`, and how many texts it could not find because they wait for their vectors."""
    if meaning is None or words is None:
        return None, 0
    # Asked before: it may end meanwhile, and the search have been by words all the same. What was
    # stored just now is asked after: the search has waited for it a moment.
    changing = await meaning.waiting(changing=True)
    near = await nearby(meaning, words, allowed)
    return near, changing or await meaning.waiting()


async def read(
    meaning: Nearby | None,
    near: Near | None,
    words: str | None,
    doubts: Callable[[Transaction, str, Near], Doubt | None],
) -> Near | None:
    """What is near, and what was read closely of what such a search finds, where it is in doubt
    whether that answers: before a sure search."""
    if meaning is None or near is None or words is None:
        return near
    return await meaning.read(near, lambda tx: doubts(tx, words, near))


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
    meaning: Nearby | None = None
    """None: searches are by words alone."""
    ranking: str = "default"
    """The preset that searches rank by."""
    near_repeats: float | None = NEAR_REPEATS
    """The cosine from which one record may say again what another says. None: none does."""
    letter: Letter | None = None
    """The mail that woke the agent, where mail did."""


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
    stirs: bool = False
    """It has queued another agent's turn, or changed when one is due: after the commit it is to be
    seen what is to be started."""


def past_the_end(query: str, page: int, total: int, size: int) -> Told:
    """What a search answers for a page after its last."""
    last = (total - 1) // size
    values = {"query": query, "page": page, "total": total, "last_page": last}
    return Told("results/past_the_end", values)


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
