"""From what was wished for to an embedder, or to none."""

from __future__ import annotations

import logging

from pagedaemon.clock import Clock
from pagedaemon.config import Embedding
from pagedaemon.errors import ConfigError, InvalidInput, MissingDependency
from pagedaemon.llm.embedding.protocol import Embedder
from pagedaemon.llm.protocol import PREFIX
from pagedaemon.messages import checked_text

LONGEST_NAME = 200
"""Characters of an embedder's name, which the tables of vectors keep."""

_log = logging.getLogger(__name__)


def connect_embedder(
    wanted: Embedding | str | Embedder | None, clock: Clock | None = None
) -> Embedder | None:
    """The embedder that is meant. Nothing is opened, loaded or sent before its first `embed`.

    Args:
        wanted: `"auto"`: the local one, or none and a warning in the log where a package it needs
            is missing. `"local"`: the local one. `"openai/<model>"`: that endpoint. `"none"` or
            None: none, search is by keywords. `Embedding(...)`: the same with settings. An embedder
            of your own: itself.
        clock: what an endpoint measures dates against. None: the machine's.

    Raises:
        MissingDependency: `"local"`, and a package it needs is missing.
        ConfigError: no way leads to an embedder of that name, or a setting cannot work; or what an
            embedder of your own says of itself cannot be: an empty name, a dimension of 0.
    """
    if wanted is None:
        return None
    if isinstance(wanted, str):
        wanted = Embedding(wanted)
    if not isinstance(wanted, Embedding):
        _check_identity(wanted)
        return wanted
    if wanted.name == "none":
        return None
    if wanted.name.startswith(PREFIX):
        from pagedaemon.llm.embedding.endpoint import OpenAIEmbedder

        return OpenAIEmbedder(wanted, clock)
    if wanted.name not in ("auto", "local"):
        raise ConfigError(
            f"There is no embedder {wanted.name!r}. Give 'local', 'openai/<model>', 'auto' or "
            "'none', or an object with the methods of `Embedder`"
        )
    from pagedaemon.llm.embedding.minilm import INSTALL, MiniLM, missing_packages

    missing = missing_packages()
    if not missing:
        return MiniLM(wanted.threads)
    if wanted.name == "local":
        raise MissingDependency(
            f"The local embedder needs {', '.join(missing)}, which is not installed: {INSTALL}"
        )
    _log.warning(
        "search is by keywords only: the local embedder needs %s, which is not installed: %s",
        ", ".join(missing),
        INSTALL,
    )
    return None


def _check_identity(embedder: Embedder) -> None:
    """What stands beside its vectors, and what they are compared by: refused before there are any.

    The declared types are what should be there, and an object of a user's may have anything.
    """
    said: tuple[object, object, object] = (embedder.name, embedder.dimension, embedder.floor)
    name, dimension, floor = said
    try:
        length = len(checked_text(name, "an embedder's name"))
    except InvalidInput as error:
        raise ConfigError(f"{error}; it is stored with each vector of {embedder!r:.80}") from error
    if length > LONGEST_NAME:
        raise ConfigError(f"an embedder's name has at most {LONGEST_NAME} characters, not {length}")
    if dimension is not None and (not isinstance(dimension, int) or dimension < 1):
        raise ConfigError(f"{name}: dimension is a whole number above 0 or None, not {dimension!r}")
    if floor is not None and not (isinstance(floor, int | float) and -1 <= floor <= 1):
        raise ConfigError(f"{name}: floor is a cosine from -1 to 1 or None, not {floor!r}")


def bundled() -> str:
    """The name that vectors of the local embedder carry. Loads nothing."""
    from pagedaemon.llm.embedding.minilm import MiniLM

    return MiniLM.name
