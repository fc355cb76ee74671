"""Talking to an agent: saying something and waiting or not; waking it; what it would see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, TypeVar, overload

from pagedaemon.agent import checked_name
from pagedaemon.errors import ConfigError, NotFound
from pagedaemon.events import ContextPart, ContextReport, Event, Turn, TypedTurn
from pagedaemon.handles.content import Content, read_content
from pagedaemon.handles.turns import AsyncTurnHandle, checked_key
from pagedaemon.handles.typed import typed_events, typed_turn
from pagedaemon.llm.protocol import WireMessage
from pagedaemon.messages import Message
from pagedaemon.store import blocks as block_rows
from pagedaemon.store import conversations as rows
from pagedaemon.store import journal
from pagedaemon.store.conversations import ConversationRow
from pagedaemon.store.journal import Wake
from pagedaemon.store.transaction import Transaction
from pagedaemon.turn.expected import Expected
from pagedaemon.turn.within import is_within

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from pagedaemon.scheduler import Running, Scheduler

T = TypeVar("T")


class AsyncTalking:
    """What can be talked to: a conversation, or an agent, whose conversation is then `main`."""

    _scheduler: Scheduler
    _conversation: ConversationRow
    _in_turn: bool
    """Whether it is in the hands of a tool, as part of the conversation's own turn."""

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
                dataclass, a `TypedDict` (before Python 3.12 that of `typing_extensions`),
                `Literal[...]`, `list[...]`, or whatever else a `pydantic.TypeAdapter` takes and
                JSON can express. The agent is told its JSON schema with this message; a reply that
                does not fit is not the user's, but tried again, at most `Limits.reply_retries`
                times. None: words.
            key: a name of your own for this message, one line of at most 200 characters; what looks
                the same is the same, so blanks around it do not count, and composed and decomposed
                letters (NFC) are one. Sent again with it, the same message is not said again, but
                gives the same turn for ever, waiting for its end where it has not ended. What ended
                with an error raises a `ModelError` again. With a key a caller that is cancelled
                only stops waiting, and a runtime that is closed leaves the turn to the next that
                opens the store. None: every send is a message of its own.

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
        that opens the store. A tool may say something in its own conversation so: it is answered
        after the turn that the tool is part of.

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
        if not lasting:
            self._require_outside()
        known = checked_key(key, wake)
        return await self._scheduler.send(
            self._conversation.id, wake, expected, key=known, lasting=lasting
        )

    def _handle(self, turn_id: str) -> AsyncTurnHandle:
        return AsyncTurnHandle(
            self._scheduler, turn_id, self._conversation.id, self._require_outside
        )

    def _require_outside(self) -> None:
        """A tool that waited for the turn it is part of would wait for itself."""
        if self._in_turn or is_within(self._conversation.id):
            raise ConfigError(
                "a tool cannot wake, follow, reset, pop or delete the conversation whose turn it "
                "is part of, for it would wait for itself: return a result, and the agent goes on "
                "with it; or say it with send_later, or in another conversation"
            )

    async def cancel(self) -> int:
        """Stops this conversation's turns that run or wait in this process. Returns how many.

        A step that has begun to act closes whole: what had not been run says so, and what may have
        happened is told as unknown. Messages that waited are withdrawn.

        Raises:
            NotFound: the conversation was deleted.
        """
        await self._scheduler.store.read(self._require)
        return await self._scheduler.cancel(self._conversation.id)

    def _require(self, tx: Transaction) -> None:
        if journal.head(tx, self._conversation.id) is None:
            raise NotFound(f"conversation {self._conversation.name!r} was deleted")

    async def context(self) -> ContextReport:
        """The request the agent would make now, by section, with token counts."""

        def work(
            tx: Transaction,
        ) -> tuple[journal.Head, tuple[block_rows.BlockRow, ...], list[Message]]:
            head = journal.head(tx, self._conversation.id)
            if head is None:
                raise NotFound(f"conversation {self._conversation.name!r} was deleted")
            return (
                head,
                block_rows.of_agent(tx, self._conversation.agent_id),
                rows.window(tx, self._conversation.id),
            )

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

    async def reset(self) -> int:
        """Starts the conversation afresh: the window is emptied, all memory and recall stay.

        Waits for a running turn to end. Returns how many messages left the window.

        Raises:
            NotFound: the conversation was deleted.
        """
        self._require_outside()
        return await self._scheduler.when_idle(
            self._conversation.id, lambda tx: rows.reset(tx, self._conversation.id)
        )

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
        return await self._scheduler.when_idle(
            self._conversation.id, lambda tx: rows.pop(tx, self._conversation.id)
        )


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
