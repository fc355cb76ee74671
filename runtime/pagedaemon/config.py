"""Settings, as data: which model, which style of agent, which bounds. Defaults are documented under
each field; every one of them can be given per runtime and per agent."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)

from pagedaemon.errors import ConfigError, InvalidInput

HOSTED_WINDOW = 128_000
"""Tokens assumed for a hosted model whose window is not given."""

LOCAL_WINDOW = 8_192
"""Tokens assumed behind a `base_url` whose window is not given: small, because local servers cut
silently from the front when too much is sent."""

LEASE_SECONDS = 30.0
"""Seconds for which who runs a turn has its conversation to itself; renewed meanwhile."""

CHUNK_CHARS = 1_000
"""Characters of a document's chunk unless told otherwise: about 250 tokens, what a small embedding
model reads at once."""

IMPORTED = "imported"
"""The conversation that imported history goes into where none is named."""


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


class Frozen(BaseModel):
    """Base of all settings: immutable, and a misspelt field is an error.

    Raises:
        ConfigError: a value cannot work; the message names its field.
    """

    # Values are left out of every message: one of them may be a key.
    # Built when first used: most programs give a few of these only, and each costs milliseconds.
    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True
    )

    refusal: ClassVar[type[ConfigError | InvalidInput]] = ConfigError
    """What is raised for a value that cannot work."""

    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Names that are often taken for a field of this, and where each is given."""

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise self.refusal(_readable(type(self), error)) from None


def _readable(kind: type[Frozen], error: ValidationError) -> str:
    wrong = []
    for one in error.errors(include_url=False, include_input=False):
        place = ".".join(map(str, one["loc"])) or "together"
        unknown = one["type"] == "extra_forbidden" and len(one["loc"]) == 1
        wrong.append(f"{place}: {_unknown(kind, place) if unknown else one['msg']}")
    return f"{kind.__name__} cannot be made: {'; '.join(wrong)}"


def _unknown(kind: type[Frozen], name: str) -> str:
    """What to say of a field that is none: where it is given, or which one was probably meant."""
    if name in kind.elsewhere:
        return kind.elsewhere[name]
    for field, about in kind.model_fields.items():
        inner = about.annotation
        if isinstance(inner, type) and issubclass(inner, Frozen) and name in inner.model_fields:
            return f"it stands in {field}: {field}={inner.__name__}({name}=...)"
    near = difflib.get_close_matches(name, kind.model_fields, n=1)
    if near:
        return f"there is no such field; did you mean {near[0]!r}?"
    return f"there is no such field, but {', '.join(kind.model_fields)}"


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


# Made without validation, which would build the class with every import of the package.
MEMGPT = Style.model_construct(
    name="memgpt", reply="tool", continue_on="heartbeat", thoughts="argument"
)
NATIVE = Style.model_construct(
    name="native", reply="content", continue_on="call", thoughts="provider"
)
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
    cost: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """US dollars of all calls, auxiliary ones too; the model's price must be known
    (`Model.prices`). None: no bound."""
    same_failure: int = Field(default=3, gt=0)
    """In how many steps of a turn the same call may fail before the turn stops."""
    reply_retries: int = Field(default=2, ge=0)
    """How often one turn may try again whose reply is not of the type asked for. Then `send` raises
    `ReplyInvalid`."""
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


ToolName: TypeAlias = Annotated[str, Field(min_length=1)]

ToolResult: TypeAlias = Annotated[str, Field(min_length=1)]

ToolNames: TypeAlias = Annotated[tuple[ToolName, ...], Field(min_length=1)]


class ToolRule(Frozen):
    """Base of all rules on what an agent may call; `pagedaemon.tools.rules` judges by them.

    A call counts for a rule once it has run without failing; one whose outcome is unknown counts
    too, and one that failed or was refused does not. Each turn begins anew. Rules are on calls:
    plain text is none.
    """

    tool: ToolName
    """Which tool it is about: one of the agent's own or a built-in one."""

    # For type checkers each rule says its own: otherwise they make one up that takes no position.
    def __init__(self, tool: str = "", **fields: Any) -> None:
        super().__init__(**{"tool": tool, **fields})


class First(ToolRule):
    """Comes first in a turn: until it has run, nothing else is. Of several, one is enough."""

    rule: Literal["first"] = "first"

    if TYPE_CHECKING:

        def __init__(self, tool: str, *, rule: Literal["first"] = ...) -> None: ...


class Terminal(ToolRule):
    """Ends the turn, whatever else asked to go on. It may not be called before all that is
    required (`Required`) has run."""

    rule: Literal["terminal"] = "terminal"

    if TYPE_CHECKING:

        def __init__(self, tool: str, *, rule: Literal["terminal"] = ...) -> None: ...


class After(ToolRule):
    """Says what may be called next after it: `After("search", then=("fetch", "search"))`."""

    rule: Literal["after"] = "after"
    then: ToolNames

    if TYPE_CHECKING:

        def __init__(
            self, tool: str, *, then: Sequence[str], rule: Literal["after"] = ...
        ) -> None: ...


class Conditional(ToolRule):
    """Says what may be called next, by what it returned:
    `Conditional("classify", cases={"spam": ("bin",)}, default=("answer",))`."""

    rule: Literal["conditional"] = "conditional"
    cases: Annotated[dict[ToolResult, ToolNames], Field(min_length=1)]
    """From a result to what may follow it. A result is compared as a JSON value where both are
    JSON (`3`, `true`, `{"a": 1}`), else as text without the blank space around it."""
    default: ToolNames
    """What may follow any other result."""
    field: str | None = None
    """Where the result is a JSON object: compare this field of it. None: the whole result."""

    if TYPE_CHECKING:

        def __init__(
            self,
            tool: str,
            *,
            cases: Mapping[str, Sequence[str]],
            default: Sequence[str],
            field: str | None = None,
            rule: Literal["conditional"] = ...,
        ) -> None: ...


class AtMost(ToolRule):
    """May be called so many times in a turn, and no more: `AtMost("mail", calls=1)`."""

    rule: Literal["at_most"] = "at_most"
    calls: int = Field(gt=0)

    if TYPE_CHECKING:

        def __init__(self, tool: str, *, calls: int, rule: Literal["at_most"] = ...) -> None: ...


class Required(ToolRule):
    """Must have run before the turn may end: the agent thinks again until it has. A tool whose code
    is not loaded holds no turn."""

    rule: Literal["required"] = "required"

    if TYPE_CHECKING:

        def __init__(self, tool: str, *, rule: Literal["required"] = ...) -> None: ...


class NeedsApproval(ToolRule):
    """Waits for a person's approval at each call, whatever the tool itself says."""

    rule: Literal["needs_approval"] = "needs_approval"


Rule: TypeAlias = Annotated[
    First | Terminal | After | Conditional | AtMost | Required | NeedsApproval,
    Field(discriminator="rule"),
]

Capability: TypeAlias = Literal["egress", "spend", "delete", "code", "core"]
"""What a tool can do beyond answering. `egress`: send something out. `spend`: money, or what costs
some. `delete`: destroy what cannot be had back. `code`: run code. `core`: edit core memory."""

DAY = 86_400.0
"""Seconds."""


class Gates(Frozen):
    """Which calls wait for a person's approval, beside those whose tool or a rule asks for it."""

    tainted: tuple[Capability, ...] = ("egress", "spend", "delete", "code", "core")
    """What a tool may not do unasked while text from outside, such as a web page, stands in the
    window. Empty: nothing is held back for what stands there."""
    expires: float = Field(default=DAY, gt=0, le=366 * DAY)
    """Seconds that a call waits for its approval. Then it counts as denied."""


class Settings(Frozen):
    """An agent's settings beside its blocks, tools and model."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "persona": "who the agent is stands in a block: blocks=[Block.persona(...)]",
        "human": "whom it talks to stands in a block: blocks=[Block.human(...)]",
        "memory_blocks": "blocks are given to agents.create: blocks=[Block.human(...)]",
        "memory": "blocks are given to agents.create: blocks=[Block.human(...)]",
        "blocks": "they are given to agents.create and ensure; afterwards agent.blocks.attach(...)",
        "model": "it is no setting: give it to agents.create, agent.update or the Runtime",
        "tools": "they are no setting: give them to agents.create or agent.update",
        "models": "they are given to the Runtime: Runtime(..., models={...})",
        "api_key": "it belongs to the model: model=Model(..., api_key=...)",
        "system": "base instructions are called instructions",
        "system_prompt": "base instructions are called instructions",
        "max_steps": "it stands in limits: limits=Limits(steps=...)",
        "required_tools": "it is a rule: rules=(Required(...),)",
    }

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
    recall: Literal["agent", "auto"] = "agent"
    """`agent`: it searches its memory itself. `auto`: what recall and archive have on a user's
    message also stands beside it, without a search. Messages of all its conversations can be
    found, as by its own searches: people who must not see each other's words need a space each.
    It costs a search, and one more commit, for each message."""
    recall_hits: int = Field(default=4, ge=1, le=10)
    """With `recall="auto"`: how many are shown at most, and together no more than a twentieth of
    the budget."""
    ranking: Literal["default", "generative_agents", "generative_agents_fixed", "blend"] = "default"
    """What its own searches rank by, as `archive.search` says. Not `recent_confident`: that ranks
    by nothing that a search asks for."""
    carry_over: bool = False
    """Whether a new conversation starts with what the others came to: their running summaries, and
    the last words of the latest. Off, since conversations may be with different people; for one
    of them, give `conversations.ensure(name, continue_from=...)`."""
    limits: Limits = Field(default_factory=Limits)
    paging: Paging = Field(default_factory=Paging)
    rules: tuple[Rule, ...] = ()
    """What it may call when, such as `rules=(First("load"), Required("log"))`. All hold
    together. A call against one is answered with what may be called now, and is not run."""
    timers: bool = False
    """Whether it has the tools with which it sets itself timers: `set_timer`, `list_timers`,
    `cancel_timer`, `pause_heartbeats`."""
    messaging: bool = False
    """Whether it has the tool with which it writes to other agents of its space:
    `send_message_to_agent`. Every agent can be written to."""
    mail_hops: int = Field(default=5, ge=1)
    """How many messages between agents may follow from one another, answers too. One more is
    refused."""
    mail_rounds: int = Field(default=2, ge=1)
    """How often, among those, it may write to the same agent. Once more is refused as a circle.

    Counted along what has followed from one another, one message after the other. A turn in which
    an agent asks back before it answers begins two such chains, so two agents that do nothing else
    come to 15 turns (5 with `mail_rounds=1`)."""
    gates: Gates = Field(default_factory=Gates)
    """Which calls wait for a person's approval, and how long."""
    parallel_tools: bool = True
    """Whether several outside tools of one reply may run at once, where each is declared safe for
    it."""
