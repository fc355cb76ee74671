"""What a call costs, in US dollars.

Prices come from the model's settings, or from the list that litellm carries. The list is read
without importing litellm and without asking anyone; it is as old as the installed release.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pagedaemon.config import Model
from pagedaemon.errors import ConfigError
from pagedaemon.llm.protocol import ChatModel, Reply, Request
from pagedaemon.llm.tokens import without_images
from pagedaemon.llm.wrapping import Wrapping
from pagedaemon.messages import Usage

LIST = "model_prices_and_context_window_backup.json"
"""Name of the list in litellm's folder."""

MILLION = 1_000_000

CHARS_PER_TOKEN = 4
"""Of the estimate where a provider reports no usage: English and JSON on GPT tokenizers."""

_OFFLINE = "offline"


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars for a million tokens."""

    prompt: float
    completion: float
    cached: float
    """Of a prompt token that was read from the provider's cache."""

    def of(self, usage: Usage) -> float:
        """US dollars for these tokens: cached ones of the prompt at their own price. What a
        provider adds for writing its cache is not in it."""
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        fresh = usage.prompt_tokens - cached
        spent = fresh * self.prompt + cached * self.cached
        return (spent + usage.completion_tokens * self.completion) / MILLION


def prices_of(model: Model) -> Prices | None:
    """The prices of a model, where they are known before it is asked; the first look into the list
    takes about 50 ms. The `offline` model is free.

    Not known are those of an `openai/…` model behind a `base_url`, whatever its name.
    """
    if model.prices is not None:
        return Prices(*model.prices)
    if model.name == _OFFLINE:
        return Prices(0, 0, 0)
    name = model.name.removeprefix("litellm/")
    if model.base_url is not None and name.startswith("openai/"):
        return None
    return _listed(name)


def require_prices(model: Model) -> None:
    """Makes sure that a bound on the cost can be held.

    Raises:
        ConfigError: nobody knows what the model costs.
    """
    if prices_of(model) is None:
        raise ConfigError(
            f"Limits(cost=...) needs the price of {model.name!r}, which is not known: give "
            f"Model({model.name!r}, prices=(prompt, completion, cached)) in US dollars for a "
            "million tokens, (0, 0, 0) where it is free, or leave the bound out"
        )


class Priced(Wrapping):
    """Says with the usage of each reply what it cost, where that is known.

    Prices in the settings go before what the provider reports, and that before the list. Where
    nothing is reported and a price is known, usage is estimated, so that a bound on the cost holds
    there too.

    Args:
        model: who is asked.
        settings: its name, endpoint and prices.
    """

    def __init__(self, model: ChatModel, settings: Model) -> None:
        super().__init__(model)
        self._settings = settings

    async def heard(self, request: Request, reply: Reply) -> Reply:
        """The reply with its cost."""
        # A model may report what is no usage at all.
        usage = reply.usage if isinstance(reply.usage, Usage) else None
        if usage is not None and usage.cost is not None and self._settings.prices is None:
            return reply
        prices = await asyncio.to_thread(prices_of, self._settings)
        if prices is None:
            return reply
        if usage is None or not usage.total_tokens:
            usage = _estimated(request, reply)
        return replace(reply, usage=replace(usage, cost=prices.of(usage)))


def _estimated(request: Request, reply: Reply) -> Usage:
    words, pictures = without_images(request.messages)
    asked = json.dumps([words, request.tools], ensure_ascii=False, default=dict)
    said = len(reply.content) + len(reply.reasoning)
    said += sum(len(call.name) + len(call.arguments) for call in reply.calls)
    prompt, completion = -(-len(asked) // CHARS_PER_TOKEN), -(-said // CHARS_PER_TOKEN)
    return Usage(1, prompt + pictures, completion, estimated=True)


@lru_cache(maxsize=256)
def _listed(name: str) -> Prices | None:
    entry = listed(name)
    return None if entry is None else _read(entry)


def listed(name: str) -> Mapping[str, Any] | None:
    """What the list has of a model: under the whole name, or under the model's where the entry is
    of that provider. The list is read anew each time (50 ms)."""
    path = _path()
    provider, _, model = name.partition("/")
    if path is None or not model:
        return None
    entries = json.loads(path.read_text(encoding="utf-8"))
    entry: Mapping[str, Any] | None = entries.get(name)
    if entry is None:
        entry = entries.get(model)
        if not isinstance(entry, Mapping) or entry.get("litellm_provider") != provider:
            return None
    return entry


def _read(entry: Mapping[str, Any]) -> Prices | None:
    prompt, completion = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
    if not isinstance(prompt, int | float) or not isinstance(completion, int | float):
        return None
    cached = entry.get("cache_read_input_token_cost", prompt)
    return Prices(prompt * MILLION, completion * MILLION, cached * MILLION)


def _path() -> Path | None:
    found = importlib.util.find_spec("litellm")
    if found is None or not found.submodule_search_locations:
        return None
    path = Path(found.submodule_search_locations[0]) / LIST
    return path if path.is_file() else None
