"""An embedder whose cosines are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pagedaemon.testing import FakeEmbedder

if TYPE_CHECKING:
    from pagedaemon.llm.embedding.protocol import Purpose, Vector


class Chosen(FakeEmbedder):
    """As a `FakeEmbedder`, but for texts about which it is told more.

    Args:
        near: by text, the one it is near to, and the cosine between the two.
    """

    def __init__(self, near: dict[str, tuple[str, float]]) -> None:
        super().__init__(name="chosen")
        self._near = near

    async def embed(self, texts: Sequence[str], *, purpose: Purpose) -> list[Vector]:
        """One vector per text."""
        plain = await super().embed(texts, purpose=purpose)
        return [
            self._at(text, vector) if text in self._near else vector
            for text, vector in zip(texts, plain, strict=True)
        ]

    def _at(self, text: str, beside: Vector) -> Vector:
        import numpy as np

        other, cosine = self._near[text]
        centre = self._vector(other)
        away = beside - (beside @ centre) * centre
        away /= np.linalg.norm(away)
        turned: Vector = cosine * centre + np.sqrt(1 - cosine**2) * away
        return turned.astype(np.float32)
