"""`FakeEmbedder`: near where words are shared, the same always, failing when told to."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import numpy as np
import pytest

from pagedaemon.errors import EmbeddingError, InvalidInput
from pagedaemon.testing import FakeEmbedder


async def cosine(embedder: FakeEmbedder, first: str, second: str) -> float:
    """How near two texts are to each other."""
    one, other = await embedder.embed([first, second], purpose="document")
    return float(one @ other)


async def test_texts_that_share_words_are_near_and_others_are_not() -> None:
    embedder = FakeEmbedder()
    assert embedder.floor is not None
    near = await cosine(embedder, "Ada drives a red car", "a red CAR, fast!")
    far = await cosine(embedder, "Ada drives a red car", "tomatoes need water daily")
    assert near > 0.5 > embedder.floor > far
    assert await cosine(embedder, "我喜欢茶", "他喜欢茶") > 0.5


async def test_synonyms_are_one_word() -> None:
    embedder = FakeEmbedder({"Car": "automobile"})
    assert await cosine(embedder, "my car", "my automobile") == pytest.approx(1, abs=1e-5)
    assert await cosine(FakeEmbedder(), "my car", "my automobile") < 0.7


@pytest.mark.parametrize("text", ["", "?!", "tea", "\udc80", "long " * 5_000])
async def test_every_text_has_a_vector_of_length_one(text: str) -> None:
    (vector,) = await FakeEmbedder(dimension=16).embed([text], purpose="query")
    assert vector.dtype == np.float32
    assert vector.shape == (16,)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


def test_another_process_makes_the_same_vector() -> None:
    source = (
        "import asyncio; from pagedaemon.testing import FakeEmbedder; "
        "print(asyncio.run(FakeEmbedder().embed(['red car'], purpose='query'))[0].tobytes().hex())"
    )
    done = subprocess.run(
        [sys.executable, "-c", source],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "7"},
    )
    (vector,) = asyncio.run(FakeEmbedder().embed(["red car"], purpose="document"))
    assert bytes.fromhex(done.stdout.strip()) == vector.tobytes()


async def test_it_fails_as_often_as_told_and_remembers_each_call() -> None:
    embedder = FakeEmbedder()
    embedder.fail(2)
    for _ in range(2):
        with pytest.raises(EmbeddingError) as raised:
            await embedder.embed(["a"], purpose="query")
        assert raised.value.kind == "unavailable"
    assert len(await embedder.embed(["b", "c"], purpose="document")) == 2
    assert embedder.calls == [("query", ("a",)), ("query", ("a",)), ("document", ("b", "c"))]


async def test_it_fails_with_the_given_error_until_told_to_work() -> None:
    embedder = FakeEmbedder()
    error = EmbeddingError("no more", kind="refused")
    embedder.fail(None, error)
    for _ in range(5):
        with pytest.raises(EmbeddingError) as raised:
            await embedder.embed(["a"], purpose="query")
        assert raised.value is error
    embedder.fail(0)
    assert len(await embedder.embed(["a"], purpose="query")) == 1


async def test_a_call_can_be_held_up() -> None:
    order: list[str] = []

    async def before() -> None:
        order.append("held")

    embedder = FakeEmbedder(before=before)
    await embedder.embed(["a"], purpose="query")
    await embedder.aclose()
    assert order == ["held"]
    assert embedder.closed == 1


def test_a_vector_without_numbers_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least one number"):
        FakeEmbedder(dimension=0)
