"""A conversation as a user holds it: send, stream, look at the context, reset."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from pagedaemon.agent import checked_name
from pagedaemon.errors import ConfigError, InvalidInput, NotFound
from pagedaemon.events import ContextPart, ContextReport, Event, Turn
from pagedaemon.messages import Message, checked_text
from pagedaemon.scheduler import Running, Scheduler
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import blocks as block_rows
from pagedaemon.store import conversations as rows
from pagedaemon.store import journal
from pagedaemon.store.conversations import ConversationRow
from pagedaemon.store.journal import Wake
from pagedaemon.store.transaction import Transaction

MAIN = "main"
"""The conversation every agent has."""

LONGEST_MESSAGE = 20_000_000
"""Characters of one message. Long ones are stored whole and shown to the model in pages."""


class AsyncConversation:
    """One queue of messages with an agent. The agent's memory is shared by all of its
    conversations."""

    def __init__(
        self, scheduler: Scheduler, row: ConversationRow, *, in_turn: bool = False
    ) -> None:
        self._scheduler = scheduler
        self._row = row
        self._in_turn = in_turn

    def __repr__(self) -> str:
        return f"<conversation {self.name!r} {self.id}>"

    @property
    def id(self) -> str:
        """Stable over export."""
        return self._row.id

    @property
    def name(self) -> str:
        """Unique in its agent."""
        return self._row.name

    @property
    def agent_id(self) -> str:
        """Whose it is."""
        return self._row.agent_id

    async def send(self, text: str, *, author: str | None = None) -> Turn:
        """Says something to the agent and waits until it yields.

        While the agent is busy the message waits in order and gets a turn of its own. If the caller
        is cancelled, so is the turn: once it has begun, its message stays in the conversation; one
        that still waits is withdrawn, as if it had never been said.

        Args:
            text: any text without NUL, not empty.
            author: who says it, where several people talk in one conversation: one line of at most
                200 characters, shown to the model with the message.

        Raises:
            InvalidInput: the text cannot be stored.
            NotFound: the conversation was deleted.
            NoModel: the agent has no model; nothing was stored.
            ModelError: the model gave no usable reply; the message is kept.
            ContextOverflow: what must be in the request does not fit the model's window.
            StoreError: the store failed; its `accepted` says whether the message is stored.
            ConfigError: a tool asks it of the conversation whose turn it is part of.
            Closed: the runtime was closed, or belongs to another event loop or process.
        """
        running = await self._accept(text, author)
        try:
            return await running.result()
        except asyncio.CancelledError:
            await asyncio.shield(running.cancel())
            raise

    async def stream(self, text: str, *, author: str | None = None) -> AsyncGenerator[Event, None]:
        """As `send`, telling what happens as it happens: see `pagedaemon.events`.

        The message is accepted when the first event is asked for. A listener that stops listening
        does not stop the turn; `cancel` does.

        Raises:
            as `send`, after the last event.
        """
        running = await self._accept(text, author)
        async for event in running.events():
            yield event

    async def _accept(self, text: str, author: str | None) -> Running:
        self._require_outside()
        checked_text(text, "the message")
        if len(text) > LONGEST_MESSAGE:
            raise InvalidInput(f"a message has at most {LONGEST_MESSAGE} characters")
        if author is not None:
            checked_name(author, "the author's name")
        return await self._scheduler.send(self.id, Wake(text, author=author))

    def _require_outside(self) -> None:
        """A tool that waited for the turn it is part of would wait for itself."""
        if self._in_turn:
            raise ConfigError(
                "a tool cannot send to, reset or delete the conversation whose turn it is part "
                "of: return a result, and the agent goes on with it"
            )

    async def cancel(self) -> int:
        """Stops this conversation's turns that run or wait in this process. Returns how many.

        A step that has begun to act closes whole: what had not been run says so, and what may have
        happened is told as unknown. Messages that waited are withdrawn.
        """
        return await self._scheduler.cancel(self.id)

    async def context(self) -> ContextReport:
        """The request the agent would make now, by section, with token counts."""

        def work(
            tx: Transaction,
        ) -> tuple[journal.Head, tuple[block_rows.BlockRow, ...], list[Message]]:
            head = journal.head(tx, self.id)
            if head is None:
                raise NotFound(f"conversation {self.name!r} was deleted")
            return head, block_rows.of_agent(tx, self.agent_id), rows.window(tx, self.id)

        head, blocks, queue = await self._scheduler.store.read(work)
        body = self._scheduler.body(head.agent)
        compiled = body.compile(blocks, queue)
        gauge = body.gauge
        wire = compiled.request.messages
        load = gauge.counted(wire, body.tools)
        summary = [message for message in queue if message.kind == "summary"]
        rest = [message for message in queue if message.kind != "summary"]
        parts = [
            ContextPart(part.name, gauge.text(part.text), part.text) for part in compiled.parts
        ]
        parts.append(ContextPart("tools", gauge.counted((), body.tools).tokens, ""))
        for name, messages in (("summary", summary), ("queue", rest)):
            shown = body.renderer.queue(messages)
            if shown:
                text = "\n".join(str(message.get("content") or "") for message in shown)
                parts.append(ContextPart(name, sum(map(gauge.message, shown)), text))
        return ContextReport(
            tuple(parts), load.tokens, load.budget, body.model.window, wire, body.tools
        )

    async def messages(self) -> list[Message]:
        """The messages in the window, in order. `agent.recall` has all that ever were."""
        return await self._scheduler.store.read(lambda tx: rows.window(tx, self.id))

    async def turns(self, *, limit: int = 20) -> list[Turn]:
        """The newest turns that have ended, newest first.

        Raises:
            InvalidInput: a limit below 1.
        """
        if limit < 1:
            raise InvalidInput(f"a limit is at least 1, not {limit}")

        def work(tx: Transaction) -> list[Turn]:
            return [
                journal.turn_record(tx, row) for row in journal.turns_of(tx, self.id, limit=limit)
            ]

        return await self._scheduler.store.read(work)

    async def reset(self) -> int:
        """Starts the conversation afresh: the window is emptied, all memory and recall stay.

        Waits for a running turn to end. Returns how many messages left the window.

        Raises:
            NotFound: the conversation was deleted.
        """
        self._require_outside()
        return await self._scheduler.when_idle(self.id, lambda tx: rows.reset(tx, self.id))

    async def delete(self) -> int:
        """Deletes the conversation with its messages, also from recall. Returns how many went.

        Raises:
            InvalidInput: it is `main`, which every agent has; `reset` empties it.
            NotFound: it was deleted already.
        """
        if self.name == MAIN:
            raise InvalidInput("every agent has the conversation 'main': reset it instead")

        def work(tx: Transaction) -> int:
            gone = rows.remove(tx, self.id)
            agent_rows.count_recall(tx, self.agent_id, -gone)
            return gone

        self._require_outside()
        return await self._scheduler.when_idle(self.id, work)


class AsyncConversations:
    """An agent's conversations, by name."""

    def __init__(self, scheduler: Scheduler, agent_id: str) -> None:
        self._scheduler = scheduler
        self._agent_id = agent_id

    async def ensure(self, name: str) -> AsyncConversation:
        """The conversation of that name, made if there is none.

        Raises:
            InvalidInput: what cannot be a name.
            NotFound: the agent was deleted.
        """
        checked_name(name, "a conversation's name")

        def work(tx: Transaction) -> ConversationRow:
            agent_rows.require(tx, self._agent_id)
            found = rows.by_name(tx, self._agent_id, name)
            if found is not None:
                return found
            return rows.add(tx, self._agent_id, name, self._scheduler.clock.now())

        return AsyncConversation(self._scheduler, await self._scheduler.store.write(work))

    async def get(self, name: str = MAIN) -> AsyncConversation:
        """The conversation of that name.

        Raises:
            NotFound: there is none.
            InvalidInput: what cannot be a name.
        """
        wanted = checked_name(name, "a conversation's name")
        row = await self._scheduler.store.read(lambda tx: rows.by_name(tx, self._agent_id, wanted))
        if row is None:
            raise NotFound(f"this agent has no conversation {name!r}")
        return AsyncConversation(self._scheduler, row)

    async def list(self) -> list[AsyncConversation]:
        """All of them, oldest first."""
        found = await self._scheduler.store.read(lambda tx: rows.of_agent(tx, self._agent_id))
        return [AsyncConversation(self._scheduler, row) for row in found]
