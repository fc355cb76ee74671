"""An embedder that needs no model: texts that share words are near each other."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pagedaemon.errors import EmbeddingError, InvalidInput

if TYPE_CHECKING:
    from pagedaemon.llm.embedding.protocol import Purpose, Vector

# Scripts without blanks between words: each character counts as one.
_WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")


class FakeEmbedder:
    """Implements `pagedaemon.llm.embedding.protocol.Embedder`: the same text has the same vector
    everywhere and always.

    Each word has a direction of its own, made from a hash of it; a text's vector is the sum of its
    words' directions, scaled to length one. So the cosine of two texts is about the share of words
    they have in common, and about 0 where there is none. Case and punctuation do not count.

        embedder = FakeEmbedder({"car": "automobile"})  # to find one by the other
        embedder.fail(2)  # the next two calls raise EmbeddingError(kind="unavailable")

    Args:
        synonyms: words that mean the same as another, by the word they are taken for.
        name: identity of its vectors. Default: `fake`.
        dimension: numbers per vector. Default 384.
        floor: cosine under which hits mean nothing. Default 0.2: unrelated texts have 0 ± 0.05.
        before: awaited at the start of each call, to hold it up.

    Attributes:
        calls: purpose and texts of every call, oldest first, the failed ones too.
        closed: how often `aclose` was called.

    Raises:
        InvalidInput: `dimension` is not positive.
    """

    def __init__(
        self,
        synonyms: Mapping[str, str] | None = None,
        *,
        name: str = "fake",
        dimension: int = 384,
        floor: float | None = 0.2,
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        if dimension < 1:
            raise InvalidInput(f"a vector has at least one number, not {dimension}")
        self.name = name
        self.dimension = dimension
        self.floor = floor
        self.calls: list[tuple[Purpose, tuple[str, ...]]] = []
        self.closed = 0
        self._synonyms = {
            word.casefold(): meant.casefold() for word, meant in (synonyms or {}).items()
        }
        self._before = before
        self._failures = 0
        self._failure = EmbeddingError("told to fail", kind="unavailable")
        self._lasting = False

    def fail(self, times: int | None = 1, error: EmbeddingError | None = None) -> None:
        """Let the next calls fail, instead of what was said before.

        Args:
            times: how many. None: all, until `fail(0)`.
            error: what is raised. None: an `EmbeddingError` of kind `unavailable`.
        """
        self._lasting = times is None
        self._failures = times or 0
        self._failure = error or EmbeddingError("told to fail", kind="unavailable")

    async def embed(self, texts: Sequence[str], *, purpose: Purpose) -> list[Vector]:
        """One vector per text; query and document alike.

        Raises:
            EmbeddingError: it was told to fail.
        """
        self.calls.append((purpose, tuple(texts)))
        if self._before is not None:
            await self._before()
        if self._lasting or self._failures > 0:
            self._failures -= 1
            raise self._failure
        return [self._vector(text) for text in texts]

    async def aclose(self) -> None:
        """Count it."""
        self.closed += 1

    def _vector(self, text: str) -> Vector:
        import numpy as np

        words = [self._synonyms.get(word, word) for word in _WORDS.findall(text.casefold())]
        # A text without words has a direction of its own, as any vector must have one.
        total = sum((self._direction(word) for word in words or [""]), np.zeros(self.dimension))
        vector: Vector = (total / np.linalg.norm(total)).astype(np.float32)
        return vector

    def _direction(self, word: str) -> Vector:
        import numpy as np

        drawn = hashlib.shake_256(word.encode("utf-8", "replace")).digest(self.dimension)
        # Moved by a half, so that no direction is zero.
        direction: Vector = np.frombuffer(drawn, np.uint8).astype(np.float32) - 127.5
        return direction / np.linalg.norm(direction)
