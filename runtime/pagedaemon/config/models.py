"""Which model answers and which embedder makes vectors, and how each is reached."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from pagedaemon.config.frozen import Frozen

HOSTED_WINDOW = 128_000
"""Tokens assumed for a hosted model whose window is not given."""

LOCAL_WINDOW = 8_192
"""Tokens assumed behind a `base_url` whose window is not given: small, because local servers cut
silently from the front when too much is sent."""

Price: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""US dollars for a million tokens."""


def _reachable_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        right = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        right = False
    if not right or re.search(r"[^\x21-\x7e]", url):
        raise ValueError("it is no http(s) URL: give one such as http://localhost:8000/v1, or None")
    return url


def _json_fields(fields: dict[str, Any]) -> dict[str, Any]:
    try:
        json.dumps(fields, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"it cannot be written as JSON: {error}") from error
    return fields


BaseUrl: TypeAlias = Annotated[str, AfterValidator(_reachable_url)]
"""An endpoint's http(s) URL."""


class Model(Frozen):
    """Which model answers, and how it is reached.

    `Model("openai/gpt-5-mini")`, `Model("openai/qwen3", base_url="http://localhost:8000/v1",
    context_window=8192)`, `Model("offline")`.
    """

    name: str = Field(min_length=1)
    """`provider/model`. `openai/…` talks to any OpenAI-compatible endpoint, `offline` to the
    built-in rule model; a name registered with `Runtime(models={...})` to that object; any other
    provider's, or `litellm/<provider>/<model>`, to that provider through litellm."""
    base_url: BaseUrl | None = None
    """Endpoint, such as `http://localhost:8000/v1`. None: the provider's own."""
    api_key: SecretStr | None = None
    """Never stored and never logged. None: the provider's environment variable."""
    context_window: int | None = Field(default=None, gt=0)
    """Tokens the model can read and write together. None: 128,000 hosted, 8,192 behind a
    `base_url`."""
    max_output_tokens: int = Field(default=2_048, gt=0)
    """Tokens kept free for the reply, and asked of the provider as its limit."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """None: the provider's default."""
    timeout: float = Field(default=120.0, gt=0)
    """Seconds one call may take."""
    retries: int = Field(default=3, ge=0)
    """How often a call that can succeed later (429, 5xx, timeout) is tried again."""
    extra: Annotated[dict[str, Any], AfterValidator(_json_fields)] = Field(default_factory=dict)
    """Further fields of the request body, passed on as they are: JSON."""
    prices: tuple[Price, Price, Price] | None = None
    """US dollars for a million tokens: prompt, completion, prompt read from the cache. None: what
    the provider reports, else the price list that litellm carries, where the model is in it."""
    constrained: bool = False
    """For small local models: tools are described in the system text, and the server holds the
    reply to a JSON schema of their calls. It must know `response_format` with `json_schema`."""
    vision: bool | None = None
    """Whether it takes pictures. None: hosted ones do, unless the list that litellm carries says
    otherwise; behind a `base_url` of your own it does not, and neither does `offline`."""
    text_calls: bool | None = None
    """Whether calls that a model writes as text (`<tool_call>…`) are read as calls. None: behind a
    `base_url` of your own they are, at a hosted provider they are not."""

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(**{"name": name, **settings})

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, data: Any) -> Any:
        return {"name": data} if isinstance(data, str) else data

    @property
    def window(self) -> int:
        """Tokens of the context window, with the default filled in."""
        if self.context_window is not None:
            return self.context_window
        return HOSTED_WINDOW if self.base_url is None else LOCAL_WINDOW

    @property
    def family(self) -> str:
        """Who understands what this model sends for itself to get back, such as signed reasoning:
        `anthropic/claude` of `anthropic/claude-sonnet-4-5`; behind a `base_url` exactly it."""
        name = self.name.removeprefix("litellm/")
        if self.base_url is not None:
            return f"{name} at {self.base_url}"
        return re.split(r"[-:@\d]", name.lower(), maxsplit=1)[0] or name

    @property
    def reads_text_calls(self) -> bool:
        """`text_calls`, with the default filled in."""
        return self.base_url is not None if self.text_calls is None else self.text_calls

    @property
    def budget(self) -> int:
        """Tokens one request may have: the window less what is kept for the reply (at most
        half)."""
        return self.window - min(self.max_output_tokens, self.window // 2)


class Embedding(Frozen):
    """Which embedder makes the vectors of search by meaning, and how it is reached.

    `Embedding("local")`, `Embedding("openai/text-embedding-3-small", dimensions=768)`,
    `Embedding("openai/nomic-embed-text", base_url="http://localhost:11434/v1")`.
    """

    name: str = Field(default="auto", min_length=1)
    """`local`: MiniLM on this machine. `openai/…`: a model behind an OpenAI-compatible endpoint.
    `none`: search by keywords only. `auto`: local where its packages are installed, else none."""
    base_url: BaseUrl | None = None
    """Endpoint, such as `http://localhost:8000/v1`. None: OpenAI's own."""
    api_key: SecretStr | None = None
    """Never stored and never logged. None: the variable OPENAI_API_KEY, for OpenAI's own only."""
    dimensions: int | None = Field(default=None, gt=0)
    """Numbers per vector to ask the endpoint for. None: the model's own."""
    floor: float | None = Field(default=None, ge=-1, le=1)
    """Cosine under which this endpoint's hits mean nothing. None: unknown, so no hit is left out.
    The local embedder brings its own."""
    timeout: float = Field(default=30.0, gt=0)
    """Seconds one call of the endpoint may take."""
    retries: int = Field(default=3, ge=0)
    """How often a call that can succeed later (429, 5xx, timeout) is tried again."""
    batch: int = Field(default=96, gt=0, le=2_048)
    """Texts per call of the endpoint, at most."""
    threads: int = Field(default=1, gt=0)
    """Threads the local embedder computes with."""

    def __init__(self, name: str = "auto", **settings: Any) -> None:
        super().__init__(**{"name": name, **settings})

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, data: Any) -> Any:
        return {"name": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _reachable(self) -> Embedding:
        if "/" not in self.name:
            remote = ("base_url", "api_key", "dimensions", "floor")
            given = [field for field in remote if getattr(self, field) is not None]
            if given:
                raise ValueError(f"{', '.join(given)} need an endpoint: name it 'openai/<model>'")
        return self
