"""Settings, as data: which model, which style of agent, which bounds. Defaults are documented under
each field; every one of them can be given per runtime and per agent."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from pagedaemon.errors import ConfigError, InvalidInput

HOSTED_WINDOW = 128_000
"""Tokens assumed for a hosted model whose window is not given."""

LOCAL_WINDOW = 8_192
"""Tokens assumed behind a `base_url` whose window is not given: small, because local servers cut
silently from the front when too much is sent."""


class Frozen(BaseModel):
    """Base of all settings: immutable, and a misspelt field is an error.

    Raises:
        ConfigError: a value cannot work; the message names its field.
    """

    # Values are left out of every message: one of them may be a key.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    refusal: ClassVar[type[ConfigError | InvalidInput]] = ConfigError
    """What is raised for a value that cannot work."""

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise self.refusal(_readable(type(self).__name__, error)) from None


def _readable(what: str, error: ValidationError) -> str:
    wrong = [
        f"{'.'.join(map(str, one['loc'])) or 'together'}: {one['msg']}"
        for one in error.errors(include_url=False, include_input=False)
    ]
    return f"{what} cannot be made: {'; '.join(wrong)}"


class Model(Frozen):
    """Which model answers, and how it is reached.

    `Model("openai/gpt-5-mini")`, `Model("openai/qwen3", base_url="http://localhost:8000/v1",
    context_window=8192)`, `Model("offline")`.
    """

    name: str = Field(min_length=1)
    """`provider/model`. `openai/…` talks to any OpenAI-compatible endpoint, `offline` to the
    built-in rule model; a name registered with `Runtime(models={...})` to that object."""
    base_url: str | None = None
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
    extra: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request body, passed on as they are."""

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
    def budget(self) -> int:
        """Tokens one request may have: the window less what is kept for the reply (at most
        half)."""
        return self.window - min(self.max_output_tokens, self.window // 2)


class Style(Frozen):
    """How an agent speaks and what makes it think again. Presets: `MEMGPT`, `NATIVE`."""

    name: str
    reply: Literal["tool", "content"]
    """`tool`: the user hears what is passed to `send_message`. `content`: the reply's plain
    text."""
    continue_on: Literal["heartbeat", "call"]
    """`heartbeat`: only where the call asks for it. `call`: after any call of a non-terminal
    tool."""
    thoughts: Literal["argument", "provider"]
    """`argument`: each tool takes `inner_thoughts` first. `provider`: the model's own reasoning."""
    plain_text: Literal["reply", "nudge"] = "reply"
    """With `reply="tool"`: whether plain text without a call counts as the reply, or is answered by
    a heartbeat that asks for the tool."""

    @property
    def heartbeat_flag(self) -> bool:
        """Whether tools carry the required boolean `request_heartbeat`."""
        return self.continue_on == "heartbeat"


MEMGPT = Style(name="memgpt", reply="tool", continue_on="heartbeat", thoughts="argument")
NATIVE = Style(name="native", reply="content", continue_on="call", thoughts="provider")
STYLES = {style.name: style for style in (MEMGPT, NATIVE)}


class Limits(Frozen):
    """What bounds one turn. A turn that meets a bound ends with that stop reason, never an
    error."""

    steps: int = Field(default=25, gt=0)
    """Model calls."""
    seconds: float = Field(default=300.0, gt=0)
    """Wall time."""
    tokens: int | None = Field(default=None, gt=0)
    """Prompt and completion tokens of all calls, auxiliary ones too. None: no bound."""
    same_failure: int = Field(default=3, gt=0)
    """In how many steps of a turn the same call may fail before the turn stops."""
    nudges: int = Field(default=3, ge=0)
    """How often one turn may be reminded that its user has no reply yet (`heartbeats="assisted"`).
    A reminder is repeated only when the step after the last one called a tool."""


class Paging(Frozen):
    """When the queue is under pressure and what is done about it; shares are of the budget."""

    warn: float = Field(default=0.70, gt=0, lt=1)
    """The agent is told, once per window, and gets a step of its own."""
    evict: float = Field(default=0.90, gt=0, le=1)
    """The runtime pages out."""
    target: float = Field(default=0.50, gt=0, lt=1)
    """How full the window is afterwards."""
    keep_last: int = Field(default=4, ge=1)
    """The newest messages that stay verbatim where they fit."""
    oversize: float = Field(default=0.25, gt=0, lt=1)
    """A single message or result above this share is shown as a digest with pages."""
    page_chars: int = Field(default=4_000, gt=200)
    """Characters of one page of an oversize message."""
    refresh_every: int = Field(default=4, ge=1)
    """After how many folds the running summary is written anew from the stored originals."""
    summary_share: float = Field(default=0.12, gt=0, lt=0.5)
    """The running summary's own share."""

    @model_validator(mode="after")
    def _ordered(self) -> Paging:
        if not self.target < self.warn <= self.evict:
            raise ValueError("paging needs target < warn <= evict")
        return self


class Settings(Frozen):
    """An agent's settings beside its blocks, tools and model."""

    style: Style = MEMGPT
    heartbeats: Literal["assisted", "strict"] = "assisted"
    """`assisted` reminds an agent that would leave a user without a reply; `strict` does not."""
    tool_set: Literal["memgpt", "edit"] = "memgpt"
    """Which memory tools it has: `core_memory_append`/`core_memory_replace`, or
    `memory_insert`/`memory_replace`/`memory_rethink`. Archival, recall and paging tools come with
    both."""
    instructions: str | None = None
    """Base instructions in place of the style's own text. Literal: never a template."""
    timezone: str = "UTC"
    """IANA name of the zone in which the model reads the time."""
    limits: Limits = Limits()
    paging: Paging = Paging()
    required_tools: tuple[str, ...] = ()
    """Tools that must have been called before a turn may end."""
    parallel_tools: bool = True
    """Whether several outside tools of one reply may run at once, where each is declared safe for
    it."""
