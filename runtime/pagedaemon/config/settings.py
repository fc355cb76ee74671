"""What an agent is set to: its style, its bounds, when it pages out, which calls wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, TypeAlias

from pydantic import Field, model_validator

from pagedaemon.config.frozen import Frozen
from pagedaemon.config.rules import Rule

LEASE_SECONDS = 30.0
"""Seconds for which who runs a turn has its conversation to itself; renewed meanwhile."""

CHUNK_CHARS = 1_000
"""Characters of a document's chunk unless told otherwise: about 250 tokens, what a small embedding
model reads at once."""

IMPORTED = "imported"
"""The conversation that imported history goes into where none is named."""

NEAR_REPEATS = 0.95
"""The cosine from which two records may say the same, unless told otherwise. Of 55 pairs of our own
that do, 38 are that near by the local model, and of 64 that do not, 24: what tells these apart is
in their words (`memory/sameness.py`)."""


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
    near_repeats: float | None = Field(default=NEAR_REPEATS, ge=0, le=1)
    """The cosine, 0 to 1, from which one record may say again in other words what another says.
    Then a note that the agent saves is stored, and it is told which were there that say nearly the
    same; a search has them after all that differ. Never where a number, a date, an id, a name or a
    denial differs. None: no record repeats another, unless it is the same text."""
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
