"""Any OpenAI-compatible embedding endpoint: OpenAI itself, vLLM, llama.cpp, Ollama, gateways.

It is reached as chat models are: the same client, keys, time limits, errors and further tries.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticSerializationError, to_json

from pagedaemon.clock import Clock
from pagedaemon.config import Embedding, Model
from pagedaemon.errors import EmbeddingError, ModelError, ModelUnavailable
from pagedaemon.llm.failures import Complaint
from pagedaemon.llm.openai import OpenAIModel
from pagedaemon.llm.protocol import PREFIX
from pagedaemon.llm.retrying import attempts

if TYPE_CHECKING:
    from pagedaemon.llm.embedding.protocol import Purpose, Vector


class OpenAIEmbedder:
    """An embedding model behind an OpenAI-compatible endpoint.

    Its `name` is the model's, with `@768` where 768 dimensions were asked for. Query and document
    are embedded alike: the interface knows no difference.

    Args:
        wanted: name with the prefix `openai/`, endpoint, key and settings.
        clock: dates in `Retry-After` are measured against it. None: the machine's.
        sleep: waits that many seconds before a further try. Default: `asyncio.sleep`.

    Raises:
        ConfigError: the name has no such prefix, or `base_url` is no URL.
    """

    def __init__(
        self,
        wanted: Embedding,
        clock: Clock | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._wanted = wanted
        self._sleep = sleep
        self._line = _Line(
            Model(
                wanted.name,
                base_url=wanted.base_url,
                api_key=wanted.api_key,
                timeout=wanted.timeout,
            ),
            clock,
        )
        self._dimension = wanted.dimensions

    @property
    def name(self) -> str:
        """The model's name, and the dimensions asked for."""
        asked = self._wanted.dimensions
        return self._wanted.name if asked is None else f"{self._wanted.name}@{asked}"

    @property
    def dimension(self) -> int | None:
        """Numbers per vector: as asked for, or as in the first answer. None before it."""
        return self._dimension

    @property
    def floor(self) -> float | None:
        """As configured: endpoints do not tell it."""
        return self._wanted.floor

    async def embed(self, texts: Sequence[str], *, purpose: Purpose) -> list[Vector]:
        """One vector per text, asked for in batches of `Embedding.batch`.

        Raises:
            EmbeddingError: unavailable: 429, 5xx, timeout or lost connection, after the allowed
                retries. Refused: no key, a wrong request, a spent budget, or an answer that has not
                one finite vector of the right dimension for each text.
        """
        found: list[Vector] = []
        for start in range(0, len(texts), self._wanted.batch):
            batch = texts[start : start + self._wanted.batch]
            body = self._body(batch)
            tries = attempts(self._wanted.retries, self._sleep)
            try:
                answer: object = await tries(self._line.ask, body)
            except ModelUnavailable as error:
                raise EmbeddingError(str(error), kind="unavailable") from error
            except ModelError as error:
                raise EmbeddingError(str(error)) from error
            found += self._vectors(answer, len(batch))
        return found

    async def aclose(self) -> None:
        """Let go of connections. A later call opens new ones."""
        await self._line.aclose()

    def _body(self, texts: Sequence[str]) -> bytes:
        body: dict[str, Any] = {
            "model": self._wanted.name.removeprefix(PREFIX),
            # Endpoints refuse an empty text; a blank one is as meaningless and allowed.
            "input": [text or " " for text in texts],
            # A quarter of the size; some other servers know only numbers.
            "encoding_format": "base64" if self._line.hosted else "float",
        }
        if self._wanted.dimensions is not None:
            body["dimensions"] = self._wanted.dimensions
        try:
            return to_json(body)
        except PydanticSerializationError:
            raise EmbeddingError("a text to embed is not valid Unicode: correct it") from None

    def _vectors(self, answer: object, count: int) -> list[Vector]:
        """The vectors in an answer, in the order of the texts."""
        data = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(data, list) or not all(isinstance(one, dict) for one in data):
            raise self._bad("no list of embeddings came back. Is this an embedding model?")
        placed = {
            str(one.get("index", place)): one.get("embedding") for place, one in enumerate(data)
        }
        if len(data) != count or placed.keys() != set(map(str, range(count))):
            raise self._bad(f"{count} texts were sent, {len(data)} embeddings came back")
        found = [self._vector(placed[str(place)]) for place in range(count)]
        dimension = self._dimension if self._dimension is not None else len(found[0])
        for vector in found:
            if len(vector) != dimension:
                raise self._bad(
                    f"an embedding has {len(vector)} numbers instead of {dimension}. "
                    "Set `dimensions` to what this model can give"
                )
        self._dimension = dimension
        return found

    def _vector(self, given: object) -> Vector:
        import numpy as np

        try:
            if isinstance(given, str):
                # The interface's encoding: float32, lowest byte first.
                read = np.frombuffer(base64.b64decode(given, validate=True), dtype="<f4")
            else:
                read = np.asarray(given, dtype=np.float64)
        except (binascii.Error, ValueError, TypeError):
            raise self._bad("an embedding is not readable as numbers") from None
        # In doubles, so that no length overflows or vanishes.
        exact = read.astype(np.float64)
        length = np.linalg.norm(exact) if exact.ndim == 1 else np.nan
        if not (np.isfinite(length) and length > 0):
            raise self._bad("an embedding is empty, zero or not finite")
        vector: Vector = (exact / length).astype(np.float32)
        return vector

    def _bad(self, reason: str) -> EmbeddingError:
        return EmbeddingError(f"{self._line.where}: {reason}")


class _Line(OpenAIModel):
    """The connection of a chat model to its endpoint, asked for embeddings."""

    @property
    def hosted(self) -> bool:
        """Whether the endpoint is OpenAI's own."""
        return self._hosted

    @property
    def where(self) -> str:
        """Model and host, to begin a message with."""
        return self._where

    async def ask(self, body: bytes) -> object:
        """The answer to a request, as it came.

        Raises:
            ModelError: as `OpenAIModel.complete`.
        """
        client = await self._connected()
        asking = client.post("/embeddings", cast_to=object, content=body)
        answer, _ = await self._within(self._model.timeout, asking)
        if isinstance(answer, dict) and answer.get("error"):
            raise self._failure(Complaint.of(answer))
        return answer
