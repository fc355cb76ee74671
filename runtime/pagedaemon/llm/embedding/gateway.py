"""From what was wished for to an embedder, or to none."""

from __future__ import annotations

import logging

from pagedaemon.clock import Clock
from pagedaemon.config import Embedding
from pagedaemon.errors import ConfigError, MissingDependency
from pagedaemon.llm.embedding.protocol import Embedder
from pagedaemon.llm.protocol import PREFIX

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
        ConfigError: no way leads to an embedder of that name, or a setting cannot work.
    """
    if wanted is None:
        return None
    if isinstance(wanted, str):
        wanted = Embedding(wanted)
    if not isinstance(wanted, Embedding):
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


def bundled() -> str:
    """The name that vectors of the local embedder carry. Loads nothing."""
    from pagedaemon.llm.embedding.minilm import MiniLM

    return MiniLM.name
