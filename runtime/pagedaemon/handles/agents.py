"""Agents as a user holds them, and the agents of a space."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from pagedaemon.agent import AgentRecord, Block, checked_name
from pagedaemon.clock import new_id, zone
from pagedaemon.config import STYLES, Model, Settings
from pagedaemon.errors import AlreadyExists, ConfigError, InvalidInput, NotFound
from pagedaemon.events import ContextReport, Event, Turn
from pagedaemon.handles.blocks import AsyncAgentBlocks, AsyncBlock, checked_block, hold
from pagedaemon.handles.conversation import MAIN, AsyncConversation, AsyncConversations
from pagedaemon.handles.memory import AsyncArchive, AsyncRecall
from pagedaemon.messages import Usage, checked_text
from pagedaemon.scheduler import Scheduler
from pagedaemon.scheduler.bodies import checked_tools
from pagedaemon.store import agents as rows
from pagedaemon.store import blocks as block_rows
from pagedaemon.store import conversations as conversation_rows
from pagedaemon.store import fulltext
from pagedaemon.store import passages as passage_rows
from pagedaemon.store.conversations import ConversationRow
from pagedaemon.store.transaction import Transaction
from pagedaemon.tools.memory_tools import memory_tools
from pagedaemon.tools.tool import Tool

logger = logging.getLogger("pagedaemon")

SMALL_WINDOW = 16_384
"""Tokens of a window up to which it is checked that an agent fits it."""

TIGHT = 0.85
"""Share of the budget above which what is in every request leaves too little room to talk."""

GivenBlocks: TypeAlias = Sequence[Block | AsyncBlock]


class AsyncAgent:
    """An agent: settings, blocks, archive, tools, and one or more conversations."""

    def __init__(self, scheduler: Scheduler, record: AgentRecord, main: AsyncConversation) -> None:
        self._scheduler = scheduler
        self._record = record
        self._main = main
        self.blocks = AsyncAgentBlocks(scheduler, record.id)
        self.recall = AsyncRecall(scheduler, record.id)
        self.archive = AsyncArchive(scheduler, record.id)
        self.conversations = AsyncConversations(scheduler, record.id)

    def __repr__(self) -> str:
        return f"<agent {self.name!r} {self.id}>"

    @property
    def id(self) -> str:
        """Stable over export."""
        return self._record.id

    @property
    def name(self) -> str:
        """Unique in its space."""
        return self._record.name

    @property
    def settings(self) -> Settings:
        """As last read."""
        return self._record.settings

    @property
    def model(self) -> Model | None:
        """As last read, without key; None: the runtime's default."""
        return self._record.model

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of its Python tools."""
        return tuple(self._record.tools)

    async def send(self, text: str, *, author: str | None = None) -> Turn:
        """Says something in the conversation `main`: see `AsyncConversation.send`."""
        return await self._main.send(text, author=author)

    def stream(self, text: str, *, author: str | None = None) -> AsyncGenerator[Event, None]:
        """As `send`, event by event: see `AsyncConversation.stream`."""
        return self._main.stream(text, author=author)

    async def context(self) -> ContextReport:
        """What the model would see now in `main`, by section, with token counts."""
        return await self._main.context()

    async def reset(self) -> int:
        """Empties the window of `main`; all memory stays. Returns how many messages left it."""
        return await self._main.reset()

    async def cancel(self) -> int:
        """Stops the turns of `main` that run or wait in this process. Returns how many."""
        return await self._main.cancel()

    async def usage(self) -> Usage:
        """What its model calls have cost so far, summaries too.

        Raises:
            NotFound: the agent was deleted.
        """
        return await self._scheduler.store.read(lambda tx: rows.usage(tx, self.id))

    async def update(
        self,
        *,
        name: str | None = None,
        model: Model | str | None = None,
        tools: Sequence[Tool] | None = None,
        **settings: Any,
    ) -> AsyncAgent:
        """Changes what is given and leaves the rest. It holds from the next turn on.

        Args:
            settings: fields of `pagedaemon.config.Settings`.

        Raises:
            AlreadyExists: the name is taken.
            ConfigError: a setting cannot work; nothing was changed.
        """
        self._record = await _change(
            self._scheduler, self.id, name=name, model=model, tools=tools, settings=settings
        )
        return self

    async def delete(self) -> None:
        """Deletes the agent with its conversations, messages, archive and own blocks.

        Its turns are stopped, and those of other processes waited for. A block that another agent
        holds stays, also when it was made for this one.

        Raises:
            NotFound: it was deleted already.
        """

        def work(tx: Transaction) -> None:
            rows.require(tx, self.id)
            _delete(tx, self.id)

        await self._scheduler.when_agent_idle(self.id, work)


class AsyncAgents:
    """The agents of a space, by name."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def create(
        self,
        name: str,
        *,
        blocks: GivenBlocks = (),
        tools: Sequence[Tool] = (),
        model: Model | str | None = None,
        **settings: Any,
    ) -> AsyncAgent:
        """A new agent.

        Args:
            name: one line, unique in the space.
            blocks: definitions, of which the agent gets its own, or stored blocks, which it shares;
                in the order the model shall see them.
            tools: Python functions made tools by `@tool`.
            model: None: the runtime's default.
            settings: fields of `pagedaemon.config.Settings`, such as `style="native"`.

        Raises:
            AlreadyExists: the name is taken, or two blocks have one label.
            ConfigError: a setting cannot work, or a required tool is not given; nothing was stored.
            ToolDefinitionError: the tools cannot be used together; nothing was stored.
        """
        record, given = self._record(name, tools, model, settings)
        _checked_blocks(blocks)

        def work(tx: Transaction) -> AsyncConversation:
            if rows.by_name(tx, record.name) is not None:
                raise AlreadyExists(
                    f"an agent called {record.name!r} exists already: get it, or use ensure"
                )
            return self._add(tx, record, blocks)

        main = await self._scheduler.store.write(work)
        self._scheduler.bodies.give(record.id, given, tools)
        await _warn_where_tight(self._scheduler, record)
        return AsyncAgent(self._scheduler, record, main)

    async def ensure(
        self,
        name: str,
        *,
        blocks: GivenBlocks = (),
        tools: Sequence[Tool] = (),
        model: Model | str | None = None,
        **settings: Any,
    ) -> AsyncAgent:
        """The agent of that name, made if there is none: for the top of a program.

        Model, tools and settings follow the code on every call. Blocks it lacks are attached; the
        values of those it has are never touched, so nothing it learnt is overwritten.

        Raises:
            AlreadyExists: it holds another block under the label of a shared one given here.
            ConfigError: a setting cannot work; nothing was stored.
        """
        record, given = self._record(name, tools, model, settings)
        _checked_blocks(blocks)

        def work(tx: Transaction) -> tuple[AgentRecord, AsyncConversation]:
            found = rows.by_name(tx, record.name)
            if found is None:
                return record, self._add(tx, record, blocks)
            self._hold_missing(tx, found.id, blocks)
            current = replace(
                found, settings=record.settings, model=record.model, tools=record.tools
            )
            if current != found:
                fields = _stored(current)
                rows.set_fields(tx, found.id, fields, self._scheduler.clock.now())
            main = conversation_rows.by_name(tx, found.id, MAIN)
            assert main is not None, "every agent has the conversation main"
            return current, AsyncConversation(self._scheduler, main)

        current, main = await self._scheduler.store.write(work)
        self._scheduler.bodies.give(current.id, given, tools)
        await _warn_where_tight(self._scheduler, current)
        return AsyncAgent(self._scheduler, current, main)

    async def get(self, name: str) -> AsyncAgent:
        """The agent of that name or id.

        Raises:
            NotFound: there is none.
            InvalidInput: what cannot be a name.
        """
        wanted = checked_name(name, "an agent's name")

        def work(tx: Transaction) -> tuple[AgentRecord, AsyncConversation] | None:
            record = rows.by_name(tx, wanted) or rows.by_id(tx, wanted)
            return None if record is None else (record, self._main(tx, record.id))

        found = await self._scheduler.store.read(work)
        if found is None:
            raise NotFound(f"no agent called {name!r} in this space")
        return AsyncAgent(self._scheduler, *found)

    async def list(self) -> list[AsyncAgent]:
        """All of them, by name."""

        def work(tx: Transaction) -> list[tuple[AgentRecord, AsyncConversation]]:
            return [(record, self._main(tx, record.id)) for record in rows.listed(tx)]

        found = await self._scheduler.store.read(work)
        return [AsyncAgent(self._scheduler, *pair) for pair in found]

    def _main(self, tx: Transaction, agent_id: str) -> AsyncConversation:
        row = conversation_rows.by_name(tx, agent_id, MAIN)
        assert row is not None, "every agent has the conversation main"
        return AsyncConversation(self._scheduler, row)

    def _record(
        self,
        name: str,
        tools: Sequence[Tool],
        model: Model | str | None,
        settings: Mapping[str, Any],
    ) -> tuple[AgentRecord, Model | None]:
        given = _model(model)
        now = self._scheduler.clock.now()
        hashes = {tool.name: tool.schema_hash for tool in checked_tools(tools)}
        checked = _settings({}, settings)
        _require_tools(self._scheduler, checked, hashes)
        record = AgentRecord(
            new_id("agent"),
            checked_name(name, "an agent's name"),
            checked,
            _without_key(given),
            hashes,
            now,
            now,
        )
        return record, given

    def _add(self, tx: Transaction, record: AgentRecord, blocks: GivenBlocks) -> AsyncConversation:
        rows.add(tx, record)
        for block in blocks:
            hold(tx, record.id, block, block.label, record.created_at)
        main = conversation_rows.add(tx, record.id, MAIN, record.created_at)
        return AsyncConversation(self._scheduler, main)

    def _hold_missing(self, tx: Transaction, agent_id: str, blocks: GivenBlocks) -> None:
        for block in blocks:
            held = block_rows.one_of_agent(tx, agent_id, block.label)
            if held is None:
                hold(tx, agent_id, block, block.label, self._scheduler.clock.now())
            elif isinstance(block, AsyncBlock) and held.id != block.id:
                raise AlreadyExists(
                    f"the agent holds another block {block.label!r} already: detach it first, or "
                    "attach this one under another label"
                )


def live_handles(
    scheduler: Scheduler, record: AgentRecord, conversation_id: str
) -> tuple[AsyncAgent, AsyncConversation]:
    """The handles of a turn that is running, made without asking the store."""
    row = ConversationRow(conversation_id, record.id, MAIN, record.created_at, 0)
    conversation = AsyncConversation(scheduler, row, in_turn=True)
    return AsyncAgent(scheduler, record, conversation), conversation


async def _change(
    scheduler: Scheduler,
    agent_id: str,
    *,
    name: str | None,
    model: Model | str | None,
    tools: Sequence[Tool] | None,
    settings: Mapping[str, Any],
) -> AgentRecord:
    given = _model(model)
    wanted = None if name is None else checked_name(name, "an agent's name")
    hashes = {tool.name: tool.schema_hash for tool in checked_tools(tools or ())}

    def work(tx: Transaction) -> AgentRecord:
        found = rows.require(tx, agent_id)
        current = replace(found, settings=_settings(found.settings.model_dump(), settings))
        if wanted is not None and wanted != found.name:
            if rows.by_name(tx, wanted) is not None:
                raise AlreadyExists(f"an agent called {wanted!r} exists already")
            current = replace(current, name=wanted)
        if given is not None:
            current = replace(current, model=_without_key(given))
        if tools is not None:
            current = replace(current, tools=hashes)
        _require_tools(scheduler, current.settings, current.tools)
        rows.set_fields(tx, agent_id, _stored(current), scheduler.clock.now())
        return current

    record = await scheduler.store.write(work)
    scheduler.bodies.give(agent_id, given, tools or ())
    await _warn_where_tight(scheduler, record)
    return record


async def _warn_where_tight(scheduler: Scheduler, record: AgentRecord) -> None:
    """Says so where an agent's own texts leave its model's window no room: otherwise one would
    learn it only by sending. Only of small windows, and counted only where bytes do not tell."""
    try:
        if scheduler.bodies.model_of(record).window > SMALL_WINDOW:
            return
        body = scheduler.bodies.make(record)
    except ConfigError:
        return  # Without a model there is no window yet; sending says what is missing.
    blocks = await scheduler.store.read(lambda tx: block_rows.of_agent(tx, record.id))
    load = body.weigh(blocks, ())
    if load.over(TIGHT):
        logger.warning(
            "agent %s: instructions, tools and blocks take %d of the %d tokens of a request "
            "(%d%%): %s",
            record.name,
            load.tokens,
            load.budget,
            load.percent,
            f"lower max_output_tokens ({body.model.max_output_tokens}), give a larger "
            f"context_window ({body.model.window}), or fewer or shorter blocks and tools",
        )


def _delete(tx: Transaction, agent_id: str) -> None:
    for conversation in conversation_rows.of_agent(tx, agent_id):
        conversation_rows.remove(tx, conversation.id)
    archive_id = passage_rows.archive_of(tx, agent_id)
    if archive_id is not None:
        passages = passage_rows.of_archive(tx, archive_id)
        fulltext.unindex_passages(tx, passages)
        passage_rows.remove(tx, agent_id, passages)
    block_rows.remove(tx, block_rows.owned_only_by(tx, agent_id))
    block_rows.disown(tx, agent_id)
    rows.remove(tx, agent_id)


def _stored(record: AgentRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "settings": record.settings.model_dump(mode="json"),
        "model": rows.stored_model(record.model),
        "tools": dict(record.tools),
    }


def _model(model: Model | str | None) -> Model | None:
    if model is None or isinstance(model, Model):
        return model
    return Model(model)


def _without_key(model: Model | None) -> Model | None:
    return None if model is None else model.model_copy(update={"api_key": None})


def _settings(current: Mapping[str, Any], changes: Mapping[str, Any]) -> Settings:
    given = dict(changes)
    style = given.get("style")
    if isinstance(style, str):
        if style not in STYLES:
            raise ConfigError(f"style is one of {', '.join(STYLES)} or a Style, not {style!r}")
        given["style"] = STYLES[style]
    settings = Settings(**{**current, **given})
    try:
        zone(settings.timezone)
    except InvalidInput as error:
        raise ConfigError(str(error)) from error
    if settings.instructions is not None:
        checked_text(settings.instructions, "instructions")
    return settings


def _require_tools(scheduler: Scheduler, settings: Settings, tools: Mapping[str, str]) -> None:
    """A tool that is required and that the agent has not would keep every turn from ending."""
    if not settings.required_tools:
        return
    built_in = {tool.name for tool in memory_tools(scheduler.prompts, settings)}
    unknown = [name for name in settings.required_tools if name not in built_in | set(tools)]
    if unknown:
        raise ConfigError(f"required_tools names what the agent has not: {', '.join(unknown)}")


def _checked_blocks(blocks: GivenBlocks) -> None:
    for block in blocks:
        checked_block(block)
