"""Whatever an embedder of one's own gives or raises, it is a vector per text or one error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from pagedaemon.errors import EmbeddingError
from pagedaemon.llm.embedding.answers import vectors_of

TEXTS = ("one", "two")


class Own:
    """Gives whatever it is told to."""

    name, floor = "own", None

    def __init__(self, answer: Callable[[Sequence[str]], Any], dimension: int | None = 2) -> None:
        self.dimension = dimension
        self._answer = answer

    async def embed(self, texts: Sequence[str], *, purpose: str) -> Any:
        return self._answer(texts)

    async def aclose(self) -> None:
        """Holds nothing."""


def raising(error: BaseException) -> Callable[[Sequence[str]], Any]:
    def answer(texts: Sequence[str]) -> Any:
        raise error

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        [[1, 0], [0.6, 0.8]],
        ((1, 0), (0.6, 0.8)),
        np.array([[1, 0], [0.6, 0.8]], dtype=np.float64),
        [np.array([1, 0], dtype=np.float32), [0.6, 0.8]],
    ],
    ids=["lists", "tuples", "matrix", "mixed"],
)
async def test_numbers_in_any_list_are_vectors(answer: Any) -> None:
    found = await vectors_of(Own(lambda texts: answer), TEXTS, "document")
    assert [vector.dtype for vector in found] == [np.float32, np.float32]
    assert np.allclose(np.stack(found), np.array([[1, 0], [0.6, 0.8]]))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "one vector per text, not NoneType"),
        ("ab", "one vector per text, not str"),
        ([[1, 0]], "1 vectors for 2 texts"),
        ([[1, 0]] * 3, "3 vectors for 2 texts"),
        ([None, None], r"shape \(\) \(NoneType\)"),
        ([1.0, 2.0], r"shape \(\) \(float\)"),
        (["x", "y"], "not str"),
        ([[[1, 0]], [[0, 1]]], r"shape \(1, 2\)"),
        ([[1, [0, 1]], [1, 0]], "not list"),
        ([[1, 0, 0], [0, 1, 0]], "3 numbers, where `dimension` says 2"),
        ([[float("nan"), 0], [1, 0]], "finite"),
        ([[float("inf"), 0], [1, 0]], "finite"),
        ([[1e300, 0], [1, 0]], "finite"),
        ([[0, 0], [1, 0]], "not all of them 0"),
    ],
)
async def test_another_answer_is_refused_in_words(answer: Any, why: str) -> None:
    with pytest.raises(EmbeddingError, match=why) as raised:
        await vectors_of(Own(lambda texts: answer), TEXTS, "document")
    assert raised.value.kind == "refused"
    assert str(raised.value).startswith("own: ")


async def test_empty_vectors_are_none_where_no_dimension_is_known() -> None:
    with pytest.raises(EmbeddingError, match="length 0"):
        await vectors_of(Own(lambda texts: [[], []], None), TEXTS, "query")


@pytest.mark.parametrize(
    "error",
    [KeyError("k"), SystemExit(1), asyncio.CancelledError()],
    ids=lambda e: type(e).__name__,
)
async def test_whatever_it_raises_is_one_error_that_can_pass(error: BaseException) -> None:
    with pytest.raises(EmbeddingError, match=f"own: {type(error).__name__}") as raised:
        await vectors_of(Own(raising(error)), TEXTS, "query")
    assert raised.value.kind == "unavailable"


async def test_its_own_error_stays_as_it_is() -> None:
    error = EmbeddingError("no such model", kind="refused")
    with pytest.raises(EmbeddingError) as raised:
        await vectors_of(Own(raising(error)), TEXTS, "query")
    assert raised.value is error


async def test_who_is_cancelled_while_it_works_is_cancelled() -> None:
    class Slow(Own):
        async def embed(self, texts: Sequence[str], *, purpose: str) -> Any:
            await asyncio.Event().wait()

    task = asyncio.create_task(vectors_of(Slow(lambda texts: None), TEXTS, "query"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
