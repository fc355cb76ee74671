"""From a model's settings to something that can be asked."""

from __future__ import annotations

from collections.abc import Mapping

from pagedaemon.config import Model
from pagedaemon.errors import ConfigError
from pagedaemon.llm.openai import PREFIX, OpenAIModel
from pagedaemon.llm.protocol import ChatModel
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
