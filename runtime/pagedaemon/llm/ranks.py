"""The tokenizers that can be had without a network: tiktoken, with the rank files litellm ships.

litellm is located and never imported (that takes seconds), and tiktoken is pointed to the file only
after its hash was found right, so that it neither downloads nor replaces anything.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import tiktoken

EncodingName = Literal["o200k_base", "cl100k_base"]

_FOLDER = Path("litellm_core_utils") / "tokenizers"
_CACHE_VARIABLE = "TIKTOKEN_CACHE_DIR"

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_loaded: dict[str, tiktoken.Encoding | None] = {}


@dataclass(frozen=True, slots=True)
class RankFile:
    """A file of token ranks: tiktoken looks for it under the SHA-1 of the address it comes from."""

    name: str
    sha256: str
    """As tiktoken's own `openai_public` states it."""


FILES: dict[EncodingName, RankFile] = {
    "o200k_base": RankFile(
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
    "cl100k_base": RankFile(
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
}


def encoding_name(model: str) -> EncodingName:
    """Which encoding counts for a model: OpenAI's by tiktoken's own table, all others o200k_base.

    Args:
        model: with or without the provider in front, such as `openai/gpt-5-mini` or `qwen3`.
    """
    from tiktoken.model import encoding_name_for_model

    try:
        named = encoding_name_for_model(model.rpartition("/")[2])
    except KeyError:  # not one of OpenAI's
        return "o200k_base"
    return "cl100k_base" if named == "cl100k_base" else "o200k_base"


def encoding(name: EncodingName) -> tiktoken.Encoding | None:
    """The encoding, loaded once per process (o200k_base: 0.3 s and 80 MB). None where its file is
    not at hand, which is logged once."""
    if name in _loaded:
        return _loaded[name]
    with _lock:
        if name not in _loaded:
            _loaded[name] = _load(name)
        return _loaded[name]


def _load(name: EncodingName) -> tiktoken.Encoding | None:
    folder = _folder()
    file = FILES[name]
    if folder is None or not _is_right(folder / file.name, file.sha256):
        _log.warning("no rank file for %s: token counts are estimates by script", name)
        return None
    import tiktoken

    with _cache_at(folder):
        return tiktoken.get_encoding(name)


def _folder() -> Path | None:
    found = importlib.util.find_spec("litellm")
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0]) / _FOLDER


def _is_right(path: Path, sha256: str) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256


@contextmanager
def _cache_at(folder: Path) -> Iterator[None]:
    before = os.environ.get(_CACHE_VARIABLE)
    os.environ[_CACHE_VARIABLE] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_CACHE_VARIABLE]
        else:
            os.environ[_CACHE_VARIABLE] = before
