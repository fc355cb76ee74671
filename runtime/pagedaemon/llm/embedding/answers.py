"""What an embedder answered, held against what it was asked. It may be anybody's code: whatever it
raises or gives, a turn or a search must not end by it, and nothing wrong is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pagedaemon.errors import EmbeddingError
from pagedaemon.llm.embedding.protocol import Embedder, Purpose

if TYPE_CHECKING:
    from pagedaemon.llm.embedding.protocol import Vector


async def vectors_of(embedder: Embedder, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
    """One usable vector per text, in their order. Lists of numbers are made arrays.

    Raises:
        EmbeddingError: the embedder failed (`unavailable`, unless it says otherwise), or its answer
            is of another count, shape or dimension, or not of finite numbers (`refused`).
    """
    try:
        answer: object = await embedder.embed(texts, purpose=purpose)
    except EmbeddingError:
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Nobody cancelled us: something within the embedder was.
        raise _failed(embedder, error) from error
    except (Exception, SystemExit) as error:
        raise _failed(embedder, error) from error
    if isinstance(answer, str | bytes) or not isinstance(answer, Iterable):
        raise EmbeddingError(
            f"{embedder.name}: embed gives a list with one vector per text, not "
            f"{type(answer).__name__}"
        )
    given = list(answer)
    if len(given) != len(texts):
        raise EmbeddingError(f"{embedder.name}: {len(given)} vectors for {len(texts)} texts")
    return [_vector(embedder, one) for one in given]


def _failed(embedder: Embedder, error: BaseException) -> EmbeddingError:
    return EmbeddingError(f"{embedder.name}: {type(error).__name__}: {error}", kind="unavailable")


def _vector(embedder: Embedder, given: object) -> Vector:
    import numpy as np

    try:
        # What is too large for 32 bits becomes infinite, and is refused below.
        with np.errstate(over="ignore"):
            vector: Vector = np.asarray(given, dtype=np.float32)
            length = float(np.linalg.norm(vector))
    except (TypeError, ValueError) as error:
        raise EmbeddingError(
            f"{embedder.name}: a vector is a list of numbers, not {type(given).__name__}: {error}"
        ) from error
    if vector.ndim != 1 or given is None:
        raise EmbeddingError(
            f"{embedder.name}: a vector has one dimension; this answer is of shape {vector.shape} "
            f"({type(given).__name__})"
        )
    known = embedder.dimension
    if known is not None and len(vector) != known:
        raise EmbeddingError(
            f"{embedder.name}: a vector of {len(vector)} numbers, where `dimension` says {known}"
        )
    if not 0 < length < float("inf"):
        raise EmbeddingError(
            f"{embedder.name}: a vector is of finite numbers, not all of them 0; this one has the "
            f"length {length}"
        )
    return vector
