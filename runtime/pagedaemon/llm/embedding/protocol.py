"""What an embedder is to everything else. Implement `Embedder` to bring your own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]
    """One dimension, float32, of length one."""

Purpose = Literal["query", "document"]
"""What the vectors are for. Some models embed what is looked for and what is found differently."""


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors whose dot product says how near their meanings are."""

    @property
    def name(self) -> str:
        """Identity, stored with every vector: vectors of different names are never compared."""

    @property
    def dimension(self) -> int | None:
        """Numbers per vector. None: not known before the first answer."""

    @property
    def floor(self) -> float | None:
        """Cosine under which hits of this embedder mean nothing. None: unknown.

        Models differ so much in it that no other embedder's may be used instead.

        An embedder may have `sure` beside it: the cosine from which a hit is likely an answer. Only
        then an agent's searches say that nothing is there where all that was found is less. They
        say it more surely of an embedder that can read closely (`WordEmbedder`).
        """

    async def embed(self, texts: Sequence[str], *, purpose: Purpose) -> list[Vector]:
        """One vector of length one per text, in their order. No texts, no vectors, no work.

        Texts should be chunks (see `chunks`): what goes beyond a model's limit may be ignored.
        It may be called from several tasks at once and does not block the event loop.

        Raises:
            EmbeddingError: there are no vectors; `kind` says whether asking again can help.
        """

    async def aclose(self) -> None:
        """Let go of threads and connections. A later `embed` takes them up again."""


@dataclass(frozen=True, slots=True)
class Worded:
    """The words of a text in their order, each with what it means there."""

    words: tuple[str, ...]
    """As they are written, without marks."""
    vectors: NDArray[np.float32]
    """One row of length one for each word."""
    whole: Vector
    """That of the whole text, as `embed` makes it."""


@runtime_checkable
class WordEmbedder(Protocol):
    """What an embedder may do beside: tell the words of a text apart, so that an agent's search can
    see whether what it found speaks of what was asked."""

    @property
    def covered(self) -> float:
        """From what on a text that was read closely is likely an answer: see `memory/assurance.py`
        for what is compared with it."""

    async def words(self, texts: Sequence[str]) -> list[Worded]:
        """The words of each text; none of what the model does not know.

        Raises:
            EmbeddingError: there are no vectors.
        """
