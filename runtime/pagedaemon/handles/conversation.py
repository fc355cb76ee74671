"""A conversation as a user holds it: send, stream, look at the context, reset."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from pagedaemon.agent import MAIN, checked_name
from pagedaemon.errors import ConfigError, InvalidInput, NotFound
from pagedaemon.events import ContextPart, ContextReport, Event, Turn, TypedTurn
from pagedaemon.handles.arguments import checked_whole
from pagedaemon.handles.content import Content, read_content
from pagedaemon.handles.turns import (
    AsyncTurnHandle,
    OpenState,
    checked_key,
    checked_states,
    turn_row,
)
from pagedaemon.handles.typed import typed_events, typed_turn
from pagedaemon.llm.protocol import WireMessage
from pagedaemon.memory import carrying
from pagedaemon.messages import Message
from pagedaemon.scheduler import Running, Scheduler
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import blocks as block_rows
from pagedaemon.store import conversations as rows
from pagedaemon.store import endings, journal
from pagedaemon.store.conversations import ConversationRow
from pagedaemon.store.journal import Wake
from pagedaemon.store.transaction import Transaction
from pagedaemon.turn.expected import Expected

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")


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

    @overload
    async def send(
        self,
        content: Content,
        *,
        author: str | None = None,
        reply_type: None = None,
        key: str | None = None,
    ) -> Turn: ...

    @overload
    async def send(
        self,
        content: Content,
        *,
        author: str | None = None,
        reply_type: TypeForm[T],
        key: str | None = None,
    ) -> TypedTurn[T]: ...

    async def send(
        self,
        content: Content,
        *,
        author: str | None = None,
        reply_type: TypeForm[Any] | None = None,
        key: str | None = None,
    ) -> Turn:
        """Says something to the agent and waits until it yields.

        While the agent is busy the message waits in order and gets a turn of its own. If the caller
        is cancelled, so is the turn: once it has begun, its message stays in the conversation; one
        that still waits is withdrawn, as if it had never been said.

        Args:
            content: any text without NUL, not empty; or texts with pictures and files among them,
                such as `["What is this?", Image.from_path("shore.jpg")]`. Parts in OpenAI's shape
                (`{"type": "image_url", …}`) and pictures in Anthropic's (`{"type": "image",
                "source": {"type": "base64", …}}`) are taken too. A file's text becomes part of the
                message.
            author: who says it, where several people talk in one conversation: one line of at most
                200 characters, shown to the model with the message.
            reply_type: the type the reply must have, for a program to use: a pydantic model, a
                dataclass, a `TypedDict`, `Literal[...]`, `list[...]`, or whatever else a
                `pydantic.TypeAdapter` takes and JSON can express. The agent is told its JSON schema
                with this message; a reply that does not fit is not the user's, but tried again, at
                most `Limits.reply_retries` times. None: words.
            key: a name of your own for this message, one line of at most 200 characters: sent again
                with it, the same message is not said again, but gives the same turn for ever,
                waiting for its end where it has not ended. What ended with an error raises a
                `ModelError` again. With a key a caller that is cancelled only stops waiting, and a
                runtime that is closed leaves the turn to the next that opens the store. None: every
                send is a message of its own.

        Returns:
            the turn; with a `reply_type` its `value` is the validated reply.

        Raises:
            InvalidInput: the content cannot be stored, or is no text, picture or file; or JSON
                cannot express the `reply_type`. Nothing was stored.
            KeyConflict: another message was sent with the key; this one was not stored.
            ReplyInvalid: with a `reply_type`: the turn ended, for whatever reason, without a reply
                of that type; the message is kept.
            NotFound: the conversation was deleted.
            NoModel: the agent has no model; nothing was stored.
            ModelCannotSee: there are pictures, and its model takes none; nothing was stored.
            PicturesTooLarge: they are more than one message's share of the window; nothing was
                stored.
            ModelError: the model gave no usable reply; the message is kept.
            ContextOverflow: what must be in the request does not fit the model's window.
            StoreError: the store failed; its `accepted` says whether the message is stored.
            LeaseLost: this process stood still for longer than its lease lasts, and another one
                answers the message; `turn` waits for that.
            ConfigError: a tool asks it of the conversation whose turn it is part of.
            Closed: the runtime was closed, or belongs to another event loop or process.
        """
        if reply_type is None:
            return await _result(await self._say(content, author, key=key))
        expected: Expected[Any] = Expected.of(reply_type)
        running = await self._say(content, author, expected, key=key)
        return typed_turn(await _result(running), expected)

    async def send_later(
        self, content: Content, *, author: str | None = None, key: str | None = None
    ) -> AsyncTurnHandle:
        """As `send`, without waiting: when this returns the message is stored, and its turn runs or
        waits for its place in the background. A runtime that is closed before leaves it to the next
        that opens the store.

        Args:
            content, author, key: as of `send`.

        Returns:
            what waits for the turn, or stops it.

        Raises:
            as `send`, but for what a turn ends with.
        """
        running = await self._say(content, author, key=key, lasting=True)
        return self._handle(running.turn_id)

    async def stream(
        self,
        content: Content,
        *,
        author: str | None = None,
        reply_type: TypeForm[Any] | None = None,
        key: str | None = None,
    ) -> AsyncGenerator[Event, None]:
        """As `send`, telling what happens as it happens: see `pagedaemon.events`.

        The message is accepted when the first event is asked for. A listener that stops listening
        does not stop the turn; `cancel` does. With a `reply_type` the value is told as it grows
        (`ReplyPartial`), and the turn of `TurnEnded` is a `TypedTurn` where there is one.

        Raises:
            as `send`, after the last event.
        """
        expected: Expected[Any] | None = None if reply_type is None else Expected.of(reply_type)
        running = await self._say(content, author, expected, key=key)
        events = running.events()
        async for event in events if expected is None else typed_events(events, expected):
            yield event

    async def heartbeat(self, *, key: str | None = None) -> Turn:
        """Wakes the agent without a message, to go on with what is left to do or to put its memory
        in order, and waits until it yields.

        Nobody waits for a reply, and the agent is told so; what it says all the same is in the
        turn's `reply`. In everything else it is an event like a message: stored before it is
        acknowledged, with a place in the order and a turn of its own.

        Raises:
            as `send`.
        """
        return await _result(await self._wake(Wake(kind="heartbeat", label="owner"), key=key))

    async def stream_heartbeat(self, *, key: str | None = None) -> AsyncGenerator[Event, None]:
        """As `heartbeat`, telling what happens as it happens: see `stream`.

        Raises:
            as `send`, after the last event.
        """
        running = await self._wake(Wake(kind="heartbeat", label="owner"), key=key)
        async for event in running.events():
            yield event

    async def events(self, turn_id: str, *, after: int = 0) -> AsyncGenerator[Event, None]:
        """The events of a turn, for a listener that comes late or comes back: first those that are
        stored, then as they happen, until its `TurnEnded`.

        Each numbered event comes once and in order, whatever process runs the turn, and also after
        it has ended. Provisional ones (whose `number` is None) come only where it runs in this
        process, from the beginning of the step in progress; their `step` and `offset` say what
        they belong to. To stop listening changes nothing in the turn.

        Args:
            after: the number of the last event that was heard. Default: from the first.

        Raises:
            InvalidInput: `after` is no whole number from 0.
            NotFound: there is no such turn in this conversation.
            StoreError: the store failed; go on from the last number.
            ConfigError: a tool asks it of the conversation whose turn it is part of.
            Closed: the runtime was closed, or belongs to another event loop or process.
        """
        self._require_outside()
        after = checked_whole(after, "`after`", least=0)
        async for event in self._scheduler.follow(self.id, turn_id, after):
            yield event

    async def _say(
        self,
        content: Content,
        author: str | None,
        expected: Expected[Any] | None = None,
        *,
        key: str | None,
        lasting: bool = False,
    ) -> Running:
        text, attachments = read_content(content, self._scheduler.prompts)
        if author is not None:
            author = checked_name(author, "the author's name")
        schema = None if expected is None else expected.text
        wake = Wake(text, author=author, attachments=attachments, reply_schema=schema)
        return await self._wake(wake, expected, key=key, lasting=lasting)

    async def _wake(
        self,
        wake: Wake,
        expected: Expected[Any] | None = None,
        *,
        key: str | None,
        lasting: bool = False,
    ) -> Running:
        self._require_outside()
        known = checked_key(key, wake)
        return await self._scheduler.send(self.id, wake, expected, key=known, lasting=lasting)

    def _handle(self, turn_id: str) -> AsyncTurnHandle:
        return AsyncTurnHandle(self._scheduler, turn_id, self.id, self._require_outside)

    def _require_outside(self) -> None:
        """A tool that waited for the turn it is part of would wait for itself."""
        if self._in_turn:
            raise ConfigError(
                "a tool cannot wake, follow, reset, pop or delete the conversation whose turn it "
                "is part of: return a result, and the agent goes on with it"
            )

    async def cancel(self) -> int:
        """Stops this conversation's turns that run or wait in this process. Returns how many.

        A step that has begun to act closes whole: what had not been run says so, and what may have
        happened is told as unknown. Messages that waited are withdrawn.

        Raises:
            NotFound: the conversation was deleted.
        """
        await self._scheduler.store.read(self._require)
        return await self._scheduler.cancel(self.id)

    def _require(self, tx: Transaction) -> None:
        if journal.head(tx, self.id) is None:
            raise NotFound(f"conversation {self.name!r} was deleted")

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
                text = "\n".join(map(_shown, shown))
                parts.append(ContextPart(name, sum(map(gauge.message, shown)), text))
        return ContextReport(
            tuple(parts), load.tokens, load.budget, body.model.window, wire, body.tools
        )

    async def messages(self) -> list[Message]:
        """The messages in the window, in order. `agent.recall` has all that ever were.

        Raises:
            NotFound: the conversation was deleted.
        """

        def work(tx: Transaction) -> list[Message]:
            self._require(tx)
            return rows.window(tx, self.id)

        return await self._scheduler.store.read(work)

    async def summarised(self) -> list[Message]:
        """The messages that the summary at the head of the window was made from, in order, whole as
        they were said; none where there is no summary. For looking up what it rests on.

        Raises:
            NotFound: the conversation was deleted.
        """

        def work(tx: Transaction) -> list[Message]:
            self._require(tx)
            return rows.summarised(tx, self.id)

        return await self._scheduler.store.read(work)

    async def turn(self, turn_id: str) -> AsyncTurnHandle:
        """One of this conversation's turns, whether open or ended, to wait for or to stop.

        Raises:
            NotFound: there is none of that id here.
        """
        await self._scheduler.store.read(lambda tx: turn_row(tx, turn_id, self.id))
        return self._handle(turn_id)

    @overload
    async def turns(self, *, limit: int = 20, status: Literal["done"] = "done") -> list[Turn]: ...

    @overload
    async def turns(self, *, limit: int = 20, status: OpenState) -> list[AsyncTurnHandle]: ...

    async def turns(
        self, *, limit: int = 20, status: Literal["done"] | OpenState = "done"
    ) -> list[Turn] | list[AsyncTurnHandle]:
        """The newest turns that have ended, or those that have not; newest first.

        Args:
            limit: how many at most.
            status: `done`: those that have ended, each with its stop reason. `queued`, `running`,
                `open` (both): what can be waited for or stopped, whichever process runs it.

        Raises:
            InvalidInput: a limit below 1, or another status.
            NotFound: the conversation was deleted.
        """
        limit = checked_whole(limit, "the limit", least=1)
        states = checked_states(status)

        def work(tx: Transaction) -> list[Turn] | list[AsyncTurnHandle]:
            self._require(tx)
            found = journal.turns_of(tx, self.id, limit=limit, status=states)
            if status == "done":
                return [journal.turn_record(tx, row) for row in found]
            return [self._handle(row.id) for row in found]

        return await self._scheduler.store.read(work)

    async def reset(self) -> int:
        """Starts the conversation afresh: the window is emptied, all memory and recall stay.

        Waits for a running turn to end. Returns how many messages left the window.

        Raises:
            NotFound: the conversation was deleted.
        """
        self._require_outside()
        return await self._scheduler.when_idle(self.id, lambda tx: rows.reset(tx, self.id))

    async def pop(self) -> list[Message]:
        """Takes the last exchange out of the window: the message or heartbeat that woke the agent
        last, and everything since. All of it stays in recall, and edits of memory stay made.

        Waits for a running turn to end. Called again, it takes the exchange before. A summary of
        earlier messages is never taken out, nor what it stands for brought back.

        Returns:
            the messages that left, in order; none where the window holds no exchange.

        Raises:
            NotFound: the conversation was deleted.
        """
        self._require_outside()
        return await self._scheduler.when_idle(self.id, lambda tx: rows.pop(tx, self.id))

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


def _shown(wire: WireMessage) -> str:
    """A message's text, without the bytes of its pictures."""
    content = wire.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", f"[{part['type']}]")) for part in content)


async def _result(running: Running) -> Turn:
    """The turn's end; whoever stops waiting for it stops the turn, where nobody else can ask for
    it."""
    try:
        return await running.result()
    except asyncio.CancelledError:
        if not running.lasting:
            await asyncio.shield(running.cancel())
        raise


class AsyncConversations:
    """An agent's conversations, by name."""

    def __init__(self, scheduler: Scheduler, agent_id: str) -> None:
        self._scheduler = scheduler
        self._agent_id = agent_id

    async def ensure(self, name: str, *, continue_from: str | None = None) -> AsyncConversation:
        """The conversation of that name, made if there is none.

        A new one has an empty window, unless it continues others: then what they came to stands at
        its head, as a summary would. Where it is there already, it stays as it is.

        Args:
            continue_from: the name of an earlier one to go on from. None: the three latest, if the
                agent's settings say `carry_over`.

        Raises:
            InvalidInput: what cannot be a name.
            NotFound: there is none to continue from, and nothing was made; or the agent was
                deleted.
        """
        wanted = checked_name(name, "a conversation's name")
        before = continue_from
        if before is not None:
            before = checked_name(before, "the name of the conversation to continue from")

        def work(tx: Transaction) -> ConversationRow:
            agent = agent_rows.require(tx, self._agent_id)
            found = rows.by_name(tx, self._agent_id, wanted)
            if found is not None:
                return found
            if before is not None and rows.by_name(tx, self._agent_id, before) is None:
                raise NotFound(f"this agent has no conversation {before!r} to continue from")
            now = self._scheduler.clock.now()
            made = rows.add(tx, self._agent_id, wanted, now)
            if before is not None or agent.settings.carry_over:
                earlier = endings.active(tx, self._agent_id, name=before, limit=carrying.MOST)
                carrying.carry_over(tx, agent, made.id, earlier, self._scheduler.prompts, now)
            return made

        return AsyncConversation(self._scheduler, await self._scheduler.store.write(work))

    async def get(self, name: str = MAIN) -> AsyncConversation:
        """The conversation of that name.

        Raises:
            NotFound: there is none, or the agent was deleted.
            InvalidInput: what cannot be a name.
        """
        wanted = checked_name(name, "a conversation's name")

        def work(tx: Transaction) -> ConversationRow | None:
            agent_rows.require(tx, self._agent_id)
            return rows.by_name(tx, self._agent_id, wanted)

        row = await self._scheduler.store.read(work)
        if row is None:
            raise NotFound(f"this agent has no conversation {name!r}")
        return AsyncConversation(self._scheduler, row)

    async def list(self) -> list[AsyncConversation]:
        """All of them, oldest first.

        Raises:
            NotFound: the agent was deleted.
        """

        def work(tx: Transaction) -> tuple[ConversationRow, ...]:
            agent_rows.require(tx, self._agent_id)
            return rows.of_agent(tx, self._agent_id)

        found = await self._scheduler.store.read(work)
        return [AsyncConversation(self._scheduler, row) for row in found]
