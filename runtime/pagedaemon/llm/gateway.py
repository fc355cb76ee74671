"""From a model's settings to something that can be asked. Each way to a model is imported when it
is first taken."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack

from pagedaemon.config import Model
from pagedaemon.errors import ConfigError
from pagedaemon.llm.own import Own, require_async
from pagedaemon.llm.prices import Priced
from pagedaemon.llm.protocol import PREFIX, ChatModel, Part, Reply, Request
from pagedaemon.llm.retrying import Retrying
from pagedaemon.llm.wrapping import Signed
from pagedaemon.resources import Prompts

OFFLINE = "offline"
"""Name of the built-in rule model."""


def connect(
    model: Model, custom: Mapping[str, ChatModel], prompts: Prompts | None = None
) -> ChatModel:
    """The model of that name. Nothing is opened, read or sent before it is asked.

    Args:
        model: which one, and its settings; `retries` holds for `custom` models too.
        custom: models by their own names, which go before all others.
        prompts: what a constrained model reads of its tools. None: the shipped texts.

    Raises:
        ConfigError: no way leads to a model of that name, or its settings cannot work.
        MissingDependency: the package that leads there is not installed.
    """
    if model.name == OFFLINE and OFFLINE not in custom:
        from pagedaemon.llm.offline import OfflineModel

        return OfflineModel()
    chat = _bare(model, custom)
    if model.constrained or model.reads_text_calls:
        # Not around a hosted model, whose provider parts thoughts from text: what it says of such
        # marks is to the letter.
        from pagedaemon.llm.thoughts import Thoughts

        chat = Thoughts(chat)
    if model.constrained:
        from pagedaemon.llm.constrained import Constrained

        chat = Constrained(chat, prompts if prompts is not None else Prompts())
    if model.reads_text_calls:
        from pagedaemon.llm.text_calls import TextCalls

        chat = TextCalls(chat)
    return Retrying(Signed(Priced(chat, model), model.family), model.retries)


def _bare(model: Model, custom: Mapping[str, ChatModel]) -> ChatModel:
    """The model itself, without what is put around all of them."""
    require_way(model.name, custom)
    if model.name in custom:
        return Own(custom[model.name])
    if model.name.startswith(PREFIX):
        from pagedaemon.llm.openai import OpenAIModel

        return OpenAIModel(model)
    from pagedaemon.llm.litellm import LiteLLMModel

    return LiteLLMModel(model)


def require_way(name: str, custom: Mapping[str, ChatModel]) -> None:
    """Refuses a name that cannot be a model's, whatever keys and packages there are.

    Raises:
        ConfigError: no way leads to a model of that name.
    """
    provider, _, bare = name.partition("/")
    if name in custom or name == OFFLINE or (provider and bare):
        return
    bare = bare or provider or "<model>"
    raise ConfigError(
        f"There is no model {name!r}. Give 'openai/<model>' with a key, or 'offline', or a "
        "name in models={...}, or another provider's as '<provider>/<model>', such as "
        f"'anthropic/<model>'. A local server's: {PREFIX + bare!r} with its `base_url`."
    )


class Connections:
    """The models that one runtime asks: for the same settings the same object, whichever agent or
    space asks; each closed once. Threads may share it.

    Args:
        custom: models by their own names.
        prompts: what constrained models read of their tools. None: the shipped texts.

    Raises:
        ConfigError: a custom model is not asynchronous.
    """

    def __init__(self, custom: Mapping[str, ChatModel], prompts: Prompts | None = None) -> None:
        for name, model in custom.items():
            require_async(name, model)
        self._custom = dict(custom)
        self._prompts = prompts
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
                made = connect(model, self._custom, self._prompts)
                self._made[key] = (model.name, made)
            return self._made[key][1]

    def require(self, model: Model) -> None:
        """Makes sure that a model of that name can be meant, without making it.

        Raises:
            ConfigError: no way leads to it.
        """
        require_way(model.name, self._custom)

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
