"""A conversation as a user holds it: send, stream, look at the context, reset."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Literal, TypeVar, overload

from pagedaemon.agent import MAIN, checked_name
from pagedaemon.errors import InvalidInput, NotFound
from pagedaemon.events import Event, Turn
from pagedaemon.handles.arguments import checked_whole
from pagedaemon.handles.talking import AsyncTalking
from pagedaemon.handles.turns import (
    AsyncTurnHandle,
    OpenState,
    checked_states,
    turn_row,
)
from pagedaemon.messages import Message
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import conversations as rows
from pagedaemon.store import endings, journal
from pagedaemon.store.conversations import ConversationRow
from pagedaemon.store.transaction import Transaction

if TYPE_CHECKING:
    from pagedaemon.scheduler import Scheduler

T = TypeVar("T")


class AsyncConversation(AsyncTalking):
    """One queue of messages with an agent. The agent's memory is shared by all of its
    conversations."""

    def __init__(
        self, scheduler: Scheduler, row: ConversationRow, *, in_turn: bool = False
    ) -> None:
        self._scheduler = scheduler
        self._conversation = row
        self._in_turn = in_turn

    def __repr__(self) -> str:
        return f"<conversation {self.name!r} {self.id}>"

    @property
    def id(self) -> str:
        """Stable over export."""
        return self._conversation.id

    @property
    def name(self) -> str:
        """Unique in its agent."""
        return self._conversation.name

    @property
    def agent_id(self) -> str:
        """Whose it is."""
        return self._conversation.agent_id

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

        from pagedaemon.memory import carrying

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
