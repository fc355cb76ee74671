"""Agents as a user holds them, and the agents of a space."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from pagedaemon.agent import MAIN, AgentRecord, checked_name
from pagedaemon.clock import new_id
from pagedaemon.config import Model, Settings
from pagedaemon.errors import AlreadyExists, ConfigError, NotFound
from pagedaemon.handles.approvals import AsyncApprovals
from pagedaemon.handles.archive import AsyncArchive
from pagedaemon.handles.arguments import UNCHANGED, NotGiven
from pagedaemon.handles.blocks import AsyncBlock
from pagedaemon.handles.conversation import AsyncConversation, AsyncConversations
from pagedaemon.handles.definition import (
    GivenBlocks,
    checked_blocks,
    checked_code,
    given_model,
    require_rules,
    settled,
    without_key,
)
from pagedaemon.handles.holding import AsyncAgentBlocks, held_as, held_only_by, hold
from pagedaemon.handles.outcomes import AsyncOutcomes
from pagedaemon.handles.recall import AsyncRecall
from pagedaemon.handles.talking import AsyncTalking
from pagedaemon.handles.timers import AsyncTimed
from pagedaemon.messages import Usage
from pagedaemon.store import agents as rows
from pagedaemon.store import blocks as block_rows
from pagedaemon.store import conversations as conversation_rows
from pagedaemon.store import fulltext
from pagedaemon.store import passages as passage_rows
from pagedaemon.store.conversations import ConversationRow
from pagedaemon.store.transaction import Transaction
from pagedaemon.tools.tool import Tool

if TYPE_CHECKING:
    from pagedaemon.scheduler import Scheduler

T = TypeVar("T")

logger = logging.getLogger("pagedaemon")

SMALL_WINDOW = 16_384
"""Tokens of a window up to which it is checked that an agent fits it."""

TIGHT = 0.85
"""Share of the budget above which what is in every request leaves too little room to talk."""


class AsyncAgent(AsyncTalking, AsyncTimed):
    """An agent: settings, blocks, archive, tools, and one or more conversations. What is said to it
    is said in its conversation `main`."""

    def __init__(self, scheduler: Scheduler, record: AgentRecord, main: AsyncConversation) -> None:
        self._scheduler = scheduler
        self._record = record
        self._conversation = main._conversation
        self._in_turn = main._in_turn
        self.blocks = AsyncAgentBlocks(scheduler, record.id)
        self.recall = AsyncRecall(scheduler, record.id)
        self.archive = AsyncArchive(scheduler, record.id)
        self.approvals = AsyncApprovals(scheduler, record.id)
        self.outcomes = AsyncOutcomes(scheduler, record.id)
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
        model: Model | str | NotGiven | None = UNCHANGED,
        tools: Sequence[Tool] | None = None,
        **settings: Any,
    ) -> AsyncAgent:
        """Changes what is given and leaves the rest. It holds from the next turn on.

        Args:
            name: None: as it is.
            model: None: the runtime's default, from now on. Not given: as it is.
            tools: all it shall have; None: as they are.
            settings: fields of `pagedaemon.config.Settings`.

        Raises:
            AlreadyExists: the name is taken.
            ConfigError: a setting cannot work, or no way leads to a model of that name; nothing was
                changed.
            ToolDefinitionError: the tools cannot be used together; nothing was changed.
            InvalidInput: what cannot be a name.
            NotFound: the agent was deleted.
        """
        self._record = await _change(
            self._scheduler, self.id, name=name, model=model, tools=tools, settings=settings
        )
        return self

    async def delete(self) -> None:
        """Deletes the agent with its conversations, messages, archive and own blocks.

        Its turns are stopped, and those of other processes waited for. A block that has a name, or
        that another agent holds, stays, also when it was made for this one.

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
            ConfigError: a setting or the rules cannot work, or no way leads to a model of that
                name; nothing was stored.
            ToolDefinitionError: the tools cannot be used together; nothing was stored.
            InvalidInput: what cannot be a name or a block; nothing was stored.
        """
        tools, blocks = checked_code(tools), checked_blocks(blocks)
        record, given = self._record(name, tools, model, settings)

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
        values of those it has are never touched, so nothing it learnt is overwritten. A stored
        block that it holds under another label is not attached again.

        Raises:
            AlreadyExists: it holds another block under the label of a shared one given here.
            ConfigError: a setting cannot work, or no way leads to a model of that name; nothing was
                stored.
            ToolDefinitionError: the tools cannot be used together; nothing was stored.
            InvalidInput: what cannot be a name or a block; nothing was stored.
        """
        tools, blocks = checked_code(tools), checked_blocks(blocks)
        record, given = self._record(name, tools, model, settings)

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
        given = given_model(model)
        self._scheduler.bodies.require_way(given)
        now = self._scheduler.clock.now()
        hashes = {tool.name: tool.schema_hash for tool in tools}
        checked = settled({}, settings)
        require_rules(self._scheduler, checked, hashes)
        record = AgentRecord(
            new_id("agent"),
            checked_name(name, "an agent's name"),
            checked,
            without_key(given),
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
            # The agent may call a shared block otherwise than the handle that is given.
            if isinstance(block, AsyncBlock) and held_as(tx, agent_id, block) is not None:
                continue
            held = block_rows.one_of_agent(tx, agent_id, block.label)
            if held is None:
                hold(tx, agent_id, block, block.label, self._scheduler.clock.now())
            elif isinstance(block, AsyncBlock):
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
    model: Model | str | NotGiven | None,
    tools: Sequence[Tool] | None,
    settings: Mapping[str, Any],
) -> AgentRecord:
    given = None if model is UNCHANGED else given_model(model)
    scheduler.bodies.require_way(given)
    wanted = None if name is None else checked_name(name, "an agent's name")
    code = None if tools is None else checked_code(tools)

    def work(tx: Transaction) -> AgentRecord:
        found = rows.require(tx, agent_id)
        current = replace(found, settings=settled(found.settings.model_dump(), settings))
        if wanted is not None and wanted != found.name:
            if rows.by_name(tx, wanted) is not None:
                raise AlreadyExists(f"an agent called {wanted!r} exists already")
            current = replace(current, name=wanted)
        if model is not UNCHANGED:
            current = replace(current, model=without_key(given))
        if code is not None:
            current = replace(current, tools={tool.name: tool.schema_hash for tool in code})
        require_rules(scheduler, current.settings, current.tools)
        rows.set_fields(tx, agent_id, _stored(current), scheduler.clock.now())
        return current

    record = await scheduler.store.write(work)
    scheduler.bodies.give(agent_id, given, code or ())
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
    own = [row.id for row in block_rows.of_agent(tx, agent_id) if held_only_by(tx, row, agent_id)]
    block_rows.remove(tx, own)
    block_rows.disown(tx, agent_id)
    rows.remove(tx, agent_id)


def _stored(record: AgentRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "settings": record.settings.model_dump(mode="json"),
        "model": rows.stored_model(record.model),
        "tools": dict(record.tools),
    }
