"""From a model's settings to something that can be asked."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack

from pagedaemon.config import Model
from pagedaemon.errors import ConfigError
from pagedaemon.llm.openai import PREFIX, OpenAIModel
from pagedaemon.llm.protocol import ChatModel, Part, Reply, Request
from pagedaemon.llm.retrying import Retrying

OFFLINE = "offline"
"""Name of the built-in rule model."""


def connect(model: Model, custom: Mapping[str, ChatModel]) -> ChatModel:
    """The model of that name. Nothing is opened, read or sent before it is asked.

    Args:
        model: which one, and its settings; `retries` holds for `custom` models too.
        custom: models by their own names, which go before all others.

    Raises:
        ConfigError: no way leads to a model of that name.
    """
    if model.name in custom:
        return Retrying(custom[model.name], model.retries)
    if model.name == OFFLINE:
        from pagedaemon.llm.offline import OfflineModel

        return OfflineModel()
    if model.name.startswith(PREFIX):
        return Retrying(OpenAIModel(model), model.retries)
    bare = model.name.rpartition("/")[2] or "<model>"
    raise ConfigError(
        f"There is no model {model.name!r}. Give 'openai/<model>' with a key, or 'offline', or a "
        f"name in models={{...}}. Another provider's: {PREFIX + bare!r} with the `base_url` of its "
        "OpenAI-compatible endpoint."
    )


class Connections:
    """The models that one runtime asks: for the same settings the same object, whichever agent or
    space asks; each closed once. Threads may share it.

    Args:
        custom: models by their own names.
    """

    def __init__(self, custom: Mapping[str, ChatModel]) -> None:
        self._custom = dict(custom)
        self._made: dict[str, tuple[str, ChatModel]] = {}
        self._lock = threading.Lock()

    def to(self, model: Model) -> ChatModel:
        """The model of those settings.

        Raises:
            ConfigError: no way leads to a model of that name.
        """
        secret = "" if model.api_key is None else model.api_key.get_secret_value()
        key = f"{model.model_dump_json(exclude={'api_key'})} {secret}"
        with self._lock:
            if key not in self._made:
                self._made[key] = (model.name, connect(model, self._custom))
            return self._made[key][1]

    async def aclose(self) -> None:
        """Lets go of all that were made, and of the custom ones that were asked for. What one of
        them raises is raised when all are closed."""
        with self._lock:
            made, self._made = list(self._made.values()), {}
        open_models = {
            id(found): found for name, chat in made for found in [self._custom.get(name, chat)]
        }
        async with AsyncExitStack() as stack:
            for model in open_models.values():
                stack.push_async_callback(model.aclose)


class Absent:
    """Stands where there is no model, so that what needs none can still be done.

    Args:
        error: why there is none; raised whenever it is asked.
    """

    def __init__(self, error: ConfigError) -> None:
        self._error = error

    async def complete(self, request: Request) -> Reply:
        """Raises the error."""
        raise self._error

    def stream(self, request: Request) -> AsyncIterator[Part]:
        """Raises the error."""
        raise self._error

    async def aclose(self) -> None:
        """Has nothing to let go of."""
