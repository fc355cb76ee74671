"""What goes over the wire to an OpenAI-compatible embedding endpoint, and what is read."""

from __future__ import annotations

import base64
import math
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pagedaemon.config import Embedding
from pagedaemon.errors import ConfigError, EmbeddingError
from pagedaemon.llm.embedding.endpoint import OpenAIEmbedder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.llm.endpoint import Endpoint

KEY = "sk-very-secret-0123456789"


def answer(*vectors: object) -> dict[str, Any]:
    """The endpoint's answer with those embeddings, in order."""
    data = [
        {"object": "embedding", "index": place, "embedding": vector}
        for place, vector in enumerate(vectors)
    ]
    return {"object": "list", "model": "m", "data": data, "usage": {"prompt_tokens": 3}}


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def waits() -> list[float]:
    """Seconds waited before further tries."""
    return []


@pytest.fixture
async def connect(
    endpoint: Endpoint, waits: list[float]
) -> AsyncIterator[Callable[..., OpenAIEmbedder]]:
    """Makes embedders of the local endpoint that never really wait, and closes them."""
    made: list[OpenAIEmbedder] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    def make(name: str = "openai/nomic", **settings: Any) -> OpenAIEmbedder:
        wanted = Embedding(name, **{"base_url": endpoint.url, "api_key": KEY, **settings})
        made.append(OpenAIEmbedder(wanted, sleep=sleep))
        return made[-1]

    yield make
    for embedder in made:
        await embedder.aclose()


async def test_what_is_sent_and_what_comes_back(
    endpoint: Endpoint, connect: Callable[..., OpenAIEmbedder]
) -> None:
    endpoint.answer_json(answer([3, 4], [0, -2]))
    first, second = await connect().embed(["Grüße", ""], purpose="document")
    (seen,) = endpoint.seen
    assert seen.path == "/v1/embeddings"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.body == {"model": "nomic", "input": ["Grüße", " "], "encoding_format": "float"}
    assert first.dtype == np.float32
    assert first.tolist() == pytest.approx([0.6, 0.8])
    assert second.tolist() == [0, -1]


async def test_dimensions_are_asked_for_and_part_of_the_name(
    endpoint: Endpoint, connect: Callable[..., OpenAIEmbedder]
) -> None:
    embedder = connect("openai/text-embedding-3-small", dimensions=2, floor=0.3)
    assert (embedder.name, embedder.dimension, embedder.floor) == (
        "openai/text-embedding-3-small@2",
        2,
        0.3,
    )
    endpoint.answer_json(answer([1, 0]))
    await embedder.embed(["tea"], purpose="query")
    assert endpoint.seen[0].body["dimensions"] == 2


async def test_the_dimension_is_learnt_from_the_first_answer_and_then_holds(
    endpoint: Endpoint, connect: Callable[..., OpenAIEmbedder]
) -> None:
    embedder = connect()
    assert (embedder.name, embedder.dimension) == ("openai/nomic", None)
    endpoint.answer_json(answer([1, 0, 0]))
    endpoint.answer_json(answer([1, 0]))
    await embedder.embed(["tea"], purpose="query")
    assert embedder.dimension == 3
    with pytest.raises(EmbeddingError, match="2 numbers instead of 3"):
        await embedder.embed(["tea"], purpose="query")
    assert (embedder.name, embedder.dimension) == ("openai/nomic", 3)


async def test_many_texts_go_in_batches_and_keep_their_order(
    endpoint: Endpoint, connect: Callable[..., OpenAIEmbedder]
) -> None:
    endpoint.answer_json(answer([1, 0], [0, 1]))
    endpoint.answer_json(answer([-1, 0], [0, -1]))
    endpoint.answer_json(answer([1, 0]))
    found = await connect(batch=2).embed(list("abcde"), purpose="document")
    assert [seen.body["input"] for seen in endpoint.seen] == [["a", "b"], ["c", "d"], ["e"]]
    assert [vector.tolist() for vector in found] == [[1, 0], [0, 1], [-1, 0], [0, -1], [1, 0]]


async def test_no_texts_make_no_call(
    endpoint: Endpoint, connect: Callable[..., OpenAIEmbedder]
) -> None:
    assert await connect().embed([], purpose="document") == []
    assert endpoint.seen == []


async def test_the_index_decides_the_order(
    endpoint: Endpoint, connect: Callable[..., OpenAIEmbedder]
) -> None:
    turned = answer([0, 1], [1, 0])
    turned["data"].reverse()
    endpoint.answer_json(turned)
    found = await connect().embed(["a", "b"], purpose="document")
    assert [vector.tolist() for vector in found] == [[0, 1], [1, 0]]


async def test_an_answer_without_indexes_is_in_order(
    endpoint: Endpoint, connect: Callable[..., OpenAIEmbedder]
) -> None:
    endpoint.answer_json({"data": [{"embedding": [0, 1]}, {"embedding": [1, 0]}]})
    found = await connect().embed(["a", "b"], purpose="document")
    assert [vector.tolist() for vector in found] == [[0, 1], [1, 0]]


async def test_base64_is_read_as_little_endian_floats(
    endpoint: Endpoint, connect: Callable[..., OpenAIEmbedder]
) -> None:
    endpoint.answer_json(answer(base64.b64encode(struct.pack("<2f", 3.0, 4.0)).decode()))
    (vector,) = await connect().embed(["a"], purpose="query")
    assert vector.tolist() == pytest.approx([0.6, 0.8])


def test_openai_itself_is_asked_for_base64() -> None:
    embedder = OpenAIEmbedder(Embedding("openai/text-embedding-3-small"))
    assert b'"encoding_format":"base64"' in embedder._body(["tea"])


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (answer([1, 0]), "2 texts were sent, 1 embeddings"),
        (answer([1, 0], [0, 1], [1, 1]), "2 texts were sent, 3 embeddings"),
        ({"data": [{"index": 0, "embedding": [1]}] * 2}, "2 texts were sent"),
        ({"data": [{"index": [], "embedding": [1]}] * 2}, "2 texts were sent"),
        (answer([1, 0], [1, 0, 0]), "3 numbers instead of 2"),
        (answer([1, 0], [math.nan, 0]), "not finite"),
        (answer([1, 0], [math.inf, 0]), "not finite"),
        (answer([1, 0], [0, 0]), "zero"),
        (answer([], []), "empty"),
        (answer([1, 0], None), "not finite|not readable"),
        (answer([1, 0], ["x", "y"]), "not readable"),
        (answer([1, 0], "no base64!"), "not readable"),
        (answer([1, 0], "AAAA"), "not readable"),
        (answer([[1, 0]], [[0, 1]]), "empty"),
        ({"data": "nothing"}, "Is this an embedding model"),
        ({"data": [1, 2]}, "Is this an embedding model"),
        ({"choices": []}, "Is this an embedding model"),
        ([], "Is this an embedding model"),
        ("text", "Is this an embedding model"),
    ],
)
async def test_an_answer_that_is_wrong_is_refused_whole(
    endpoint: Endpoint, connect: Callable[..., OpenAIEmbedder], body: object, told: str
) -> None:
    endpoint.answer_json(body)
    embedder = connect()
    with pytest.raises(EmbeddingError, match=told) as raised:
        await embedder.embed(["a", "b"], purpose="document")
    assert raised.value.kind == "refused"
    assert len(endpoint.seen) == 1
    assert embedder.dimension is None


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422])
async def test_a_refusal_is_not_tried_again(
    endpoint: Endpoint, connect: Callable[..., OpenAIEmbedder], status: int
) -> None:
    endpoint.answer_json({"error": {"message": f"no, {KEY}"}}, status)
    with pytest.raises(EmbeddingError, match=r"openai/nomic at 127\.0\.0\.1") as raised:
        await connect().embed(["a"], purpose="query")
    assert raised.value.kind == "refused"
    assert KEY not in str(raised.value)
    assert len(endpoint.seen) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_what_can_succeed_later_is_tried_again(
    endpoint: Endpoint, connect: Callable[..., OpenAIEmbedder], waits: list[float], status: int
) -> None:
    endpoint.answer_json({"error": {"message": "busy"}}, status, retry_after="7")
    endpoint.answer_json(answer([1, 0]))
    assert len(await connect().embed(["a"], purpose="query")) == 1
    assert len(endpoint.seen) == 2
    (waited,) = waits
    assert waited >= (7 if status == 429 else 0.5)


async def test_after_the_allowed_tries_it_is_unavailable(
    endpoint: Endpoint, connect: Callable[..., OpenAIEmbedder]
) -> None:
    endpoint.answer_json({"error": {"message": "down"}}, 503)
    with pytest.raises(EmbeddingError, match="down") as raised:
        await connect(retries=2).embed(["a"], purpose="query")
    assert raised.value.kind == "unavailable"
    assert len(endpoint.seen) == 3


async def test_an_error_under_status_200_is_one(
    endpoint: Endpoint, connect: Callable[..., OpenAIEmbedder]
) -> None:
    endpoint.answer_json({"error": {"message": "no such model", "code": 404}})
    with pytest.raises(EmbeddingError, match="no such model") as raised:
        await connect().embed(["a"], purpose="query")
    assert raised.value.kind == "refused"


async def test_a_page_that_is_no_json_is_an_error(
    endpoint: Endpoint, connect: Callable[..., OpenAIEmbedder]
) -> None:
    endpoint.will(endpoint.plain(b"<html>hello</html>", "text/html"))
    with pytest.raises(EmbeddingError, match="Is this an embedding model"):
        await connect().embed(["a"], purpose="query")


async def test_a_server_that_is_slow_or_gone_is_unavailable(
    endpoint: Endpoint, connect: Callable[..., OpenAIEmbedder]
) -> None:
    slow = endpoint.plain(b"{}", "application/json")
    endpoint.will(replace(slow, pause=5))
    with pytest.raises(EmbeddingError, match=r"no whole answer in 0\.2 s") as raised:
        await connect(timeout=0.2, retries=0).embed(["a"], purpose="query")
    assert raised.value.kind == "unavailable"
    gone = connect(base_url="http://127.0.0.1:9/v1", retries=0)
    with pytest.raises(EmbeddingError, match="no connection") as raised:
        await gone.embed(["a"], purpose="query")
    assert raised.value.kind == "unavailable"


async def test_text_that_no_encoding_carries_is_refused_before_the_call(
    endpoint: Endpoint, connect: Callable[..., OpenAIEmbedder]
) -> None:
    with pytest.raises(EmbeddingError, match="Unicode") as raised:
        await connect().embed(["half \ud83d"], purpose="document")
    assert raised.value.kind == "refused"
    assert endpoint.seen == []


async def test_without_a_key_openai_itself_is_not_called() -> None:
    embedder = OpenAIEmbedder(Embedding("openai/text-embedding-3-small"))
    with pytest.raises(EmbeddingError, match="OPENAI_API_KEY") as raised:
        await embedder.embed(["a"], purpose="query")
    assert raised.value.kind == "refused"


@pytest.mark.parametrize("wanted", [Embedding("local"), Embedding("openai/")])
def test_a_name_that_leads_nowhere_is_a_config_error(wanted: Embedding) -> None:
    with pytest.raises(ConfigError):
        OpenAIEmbedder(wanted)
