"""What the agents of a space act with in this process: models, tools, and the windows kept in
memory between turns."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagedaemon.agent import AgentRecord
from pagedaemon.config import Model
from pagedaemon.context.render import Renderer
from pagedaemon.context.window import Gauge
from pagedaemon.errors import (
    ConfigError,
    ModelCannotSee,
    NoModel,
    PicturesTooLarge,
    ToolDefinitionError,
)
from pagedaemon.llm.gateway import OFFLINE, Absent, Connections
from pagedaemon.llm.prices import require_prices
from pagedaemon.llm.protocol import ChatModel
from pagedaemon.llm.sight import sees
from pagedaemon.llm.tokens import TokenCounter, image_tokens
from pagedaemon.media import Attachment, pictures
from pagedaemon.messages import Message
from pagedaemon.resources import Prompts
from pagedaemon.store import conversations as rows
from pagedaemon.store.journal import Head
from pagedaemon.store.transaction import Transaction
from pagedaemon.tools.memory_tools import NAMES, memory_tools
from pagedaemon.tools.tool import Tool
from pagedaemon.tools.toolbox import Toolbox
from pagedaemon.turn.body import Body
from pagedaemon.turn.state import OpenTurn

if TYPE_CHECKING:
    from pagedaemon.memory.meaning import Meaning

logger = logging.getLogger("pagedaemon")

REMEMBERED = 64
"""Conversations whose window is kept in memory between turns."""


@dataclass(frozen=True)
class Window:
    """A conversation's window as it was after our last commit."""

    version: int
    queue: list[Message]
    body: Body


@dataclass(frozen=True)
class Outfit:
    """What the agents of a space are given in this process."""

    prompts: Prompts
    """The texts the model reads."""
    model: Model | None
    """The default model; None for none."""
    connections: Connections
    """The models that can be asked."""
    tools: Sequence[Tool] = ()
    """Python tools, for agents that were given them in an earlier run."""
    meaning: Meaning | None = None
    """Finds by meaning; None: search is by words alone."""


class Bodies:
    """Makes bodies, and keeps those of the conversations used last.

    Changed by the event loop's thread alone; the store's threads only look things up.

    Args:
        outfit: what the agents are given.
        factor: from a model's name to the learnt correction of its token counts.

    Raises:
        ToolDefinitionError: the tools cannot be used together.
    """

    def __init__(self, outfit: Outfit, factor: Callable[[str], float]) -> None:
        self._prompts = outfit.prompts
        self._default = outfit.model
        self._connections = outfit.connections
        self._meaning = outfit.meaning
        self.factor = factor
        self._tools: dict[str, Tool] = {}
        self._own: dict[str, dict[str, Tool]] = {}
        self._keys: dict[str, Model] = {}
        self._windows: dict[str, Window] = {}
        self._told_missing: set[tuple[str, str]] = set()
        for tool in checked_tools(outfit.tools):
            self._tools[tool.name] = tool

    # ------------------------------------------------------------------ what agents are given

    def give(self, agent_id: str, model: Model | None, tools: Iterable[Tool]) -> None:
        """Remembers what an agent was given in this process and no store keeps: its model's key,
        and the code of its tools."""
        if model is not None and model.api_key is not None:
            self._keys[agent_id] = model
        given = {tool.name: tool for tool in tools}
        self._own[agent_id] = {**self._own.get(agent_id, {}), **given}
        # Another agent that was given a tool of that name in an earlier run finds its code here.
        self._tools.update(given)

    def forget(self, agent_id: str, conversation_ids: Iterable[str]) -> None:
        """Lets go of what belonged to an agent that was deleted."""
        self._keys.pop(agent_id, None)
        self._own.pop(agent_id, None)
        for conversation_id in conversation_ids:
            self._windows.pop(conversation_id, None)

    def model_of(self, agent: AgentRecord) -> Model:
        """The model an agent answers with, with the key it was given.

        Raises:
            NoModel: neither the agent nor the runtime has one.
        """
        model = agent.model or self._default
        if model is None:
            raise NoModel(
                f"agent {agent.name!r} has no model. Give it or the runtime model=… as one of "
                '"openai/gpt-5-mini" with OPENAI_API_KEY set; Model("openai/qwen3", '
                'base_url="http://localhost:8000/v1", context_window=8192) for a local server; '
                '"offline" for the built-in rules.'
            )
        if model.api_key is not None:
            return model
        for given in (self._keys.get(agent.id), self._default):
            if given is not None and given.api_key is not None and _same_account(given, model):
                return model.model_copy(update={"api_key": given.api_key})
        return model

    def require(self, agent: AgentRecord) -> None:
        """Makes sure that an agent's model can be asked.

        Raises:
            NoModel, ConfigError: it cannot.
        """
        self._chat(agent, self.model_of(agent))

    def require_way(self, model: Model | None) -> None:
        """Makes sure that an agent may be given a model, before it is stored with it.

        Raises:
            ConfigError: no way leads to a model of that name.
        """
        if model is not None:
            self._connections.require(model)

    def _chat(self, agent: AgentRecord, model: Model) -> ChatModel:
        if agent.settings.limits.cost is not None:
            require_prices(model)
        return self._connections.to(model)

    def require_sight(self, agent: AgentRecord, given: Sequence[Attachment]) -> None:
        """Makes sure that an agent's model can be shown these pictures.

        Raises:
            NoModel: there is no model.
            ModelCannotSee: it takes no pictures.
            PicturesTooLarge: they are more than one message's share of its window.
        """
        shown = pictures(given)
        if not shown:
            return
        model = self.model_of(agent)
        if not sees(model):
            raise ModelCannotSee(
                f"{model.name!r} takes no pictures: send words, or give agent {agent.name!r} a "
                f"model that does. If this one does, say so: Model({model.name!r}, vision=True)"
            )
        share = int(agent.settings.paging.oversize * model.budget)
        factor = self.factor(model.name)
        sizes = [
            (one.placeholder, round(image_tokens(one.width, one.height, one.detail) * factor))
            for one in shown
        ]
        needed = sum(tokens for _, tokens in sizes)
        if needed > share:
            largest = sorted(sizes, key=lambda size: size[1], reverse=True)[:5]
            raise PicturesTooLarge(share, needed, tuple(largest))

    # ------------------------------------------------------------------ bodies

    def make(self, agent: AgentRecord) -> Body:
        """What an agent acts with, made anew.

        Raises:
            NoModel, ConfigError: its model cannot be had.
        """
        model = self.model_of(agent)
        return self._make(agent, model, self._chat(agent, model))

    def make_anyhow(self, agent: AgentRecord) -> Body:
        """As `make`; where there is no model, one that says so when it is asked, so that what was
        begun can be brought to an end."""
        try:
            return self.make(agent)
        except ConfigError as error:
            return self._make(agent, Model(OFFLINE), Absent(error))

    def _make(self, agent: AgentRecord, model: Model, chat: ChatModel) -> Body:
        found = [self._tool(agent, name) for name in agent.tools]
        missing = [name for name in agent.tools if self._tool(agent, name) is None]
        self._tell_missing(agent, missing)
        return Body(
            agent,
            model,
            chat,
            Toolbox(
                [
                    *memory_tools(self._prompts, agent.settings),
                    *(tool for tool in found if tool is not None),
                ],
                prompts=self._prompts,
                missing=missing,
            ),
            self._prompts,
            Gauge(
                TokenCounter(model.name),
                self.factor(model.name),
                model.budget,
                agent.settings.paging,
            ),
            Renderer(self._prompts, agent.settings.timezone, model.family, lambda: sees(model)),
            self._meaning,
        )

    def has(self, agent: AgentRecord, name: str) -> bool:
        """Whether a tool's code is here."""
        return name in NAMES or self._tool(agent, name) is not None

    def _tool(self, agent: AgentRecord, name: str) -> Tool | None:
        return self._own.get(agent.id, {}).get(name) or self._tools.get(name)

    def _tell_missing(self, agent: AgentRecord, missing: Sequence[str]) -> None:
        new = [name for name in missing if (agent.id, name) not in self._told_missing]
        if new:
            self._told_missing.update((agent.id, name) for name in new)
            logger.warning(
                "agent %s: no code for its tools %s; give it with Runtime(tools=[...])",
                agent.name,
                ", ".join(new),
            )

    # ------------------------------------------------------------------ windows

    def window(self, tx: Transaction, head: Head) -> Window:
        """A conversation's window, from memory where nothing has changed.

        Raises:
            NoModel, ConfigError: the agent's model cannot be had.
        """
        known = self._windows.get(head.conversation_id)
        body = self._body(known, head.agent)
        if known is not None and known.version == head.window_version and known.body is body:
            return known
        return Window(head.window_version, rows.window(tx, head.conversation_id), body)

    def window_anyhow(self, tx: Transaction, head: Head) -> Window:
        """As `window`; where there is no model, with a body as of `make_anyhow`."""
        try:
            return self.window(tx, head)
        except ConfigError:
            body = self.make_anyhow(head.agent)
            return Window(head.window_version, rows.window(tx, head.conversation_id), body)

    def keep(self, turn: OpenTurn) -> None:
        """Keeps the window that a turn left."""
        self._windows.pop(turn.conversation_id, None)
        if isinstance(turn.body.chat, Absent):
            return
        turn.body.renderer.keep_only(turn.queue)
        self._windows[turn.conversation_id] = Window(turn.window_version, turn.queue, turn.body)
        while len(self._windows) > REMEMBERED:
            del self._windows[next(iter(self._windows))]

    def _body(self, known: Window | None, agent: AgentRecord) -> Body:
        if known is not None and self._fits(known.body, agent):
            return known.body
        return self.make(agent)

    def _fits(self, body: Body, agent: AgentRecord) -> bool:
        return (
            body.agent == agent
            and body.model == self.model_of(agent)
            and all(body.toolbox.get(name) is self._tool(agent, name) for name in agent.tools)
        )


def checked_tools(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """The tools, if they can be given to an agent.

    Raises:
        ToolDefinitionError: one is no tool, two have one name, or the name is a memory tool's.
    """
    checked: dict[str, Tool] = {}
    for tool in tools:
        if not isinstance(tool, Tool):
            raise ToolDefinitionError(f"{tool!r} is no tool: put @tool above its function")
        if tool.name in NAMES:
            raise ToolDefinitionError(
                f"{tool.name!r} is a memory tool's name: give yours another with tool(name=...)"
            )
        if checked.setdefault(tool.name, tool) is not tool:
            raise ToolDefinitionError(
                f"two tools are called {tool.name!r}: rename one with tool(name=...)"
            )
    return tuple(checked.values())


def _same_account(given: Model, model: Model) -> bool:
    """Whether the key of one model may be sent to where the other is."""
    if given.base_url is not None or model.base_url is not None:
        return given.base_url == model.base_url
    return given.name.partition("/")[0] == model.name.partition("/")[0]
