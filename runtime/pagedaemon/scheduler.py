"""Who runs when: accepts events, claims conversations, runs turns as tasks, takes up what a crash
left.

A turn runs as a task of its own over the one loop; whoever sends or streams only listens. So a
listener that goes away never halves a turn, and a message that was accepted is answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pagedaemon.agent import AgentRecord
from pagedaemon.clock import Clock
from pagedaemon.config import Model
from pagedaemon.context.render import Renderer
from pagedaemon.context.window import Gauge
from pagedaemon.errors import Closed, NoModel, NotFound, ToolDefinitionError
from pagedaemon.events import Event, Turn, TurnEnded
from pagedaemon.llm.gateway import connect
from pagedaemon.llm.protocol import ChatModel
from pagedaemon.llm.tokens import Correction, TokenCounter
from pagedaemon.loop import Loop
from pagedaemon.messages import Message
from pagedaemon.resources import Prompts
from pagedaemon.store import blocks as block_rows
from pagedaemon.store import conversations as rows
from pagedaemon.store import journal
from pagedaemon.store.database import Database
from pagedaemon.store.journal import Head, TurnRow, Wake
from pagedaemon.store.transaction import Transaction
from pagedaemon.store.worker import Worker
from pagedaemon.tools.memory_tools import NAMES, memory_tools
from pagedaemon.tools.tool import Tool
from pagedaemon.tools.toolbox import Toolbox
from pagedaemon.turn.body import Body
from pagedaemon.turn.calls import Handles
from pagedaemon.turn.state import OpenTurn, lease_until, record_end, wake_messages

T = TypeVar("T")

logger = logging.getLogger("pagedaemon")

ATTEMPTS = 3
"""How often a turn is taken up before it is given up."""

POLL = 0.05
"""Seconds between two looks at a conversation that another process has."""

REMEMBERED = 64
"""Conversations whose window is kept in memory between turns."""


class Running:
    """A turn that was accepted: listeners read its events, the caller its result."""

    def __init__(self, turn_id: str) -> None:
        self.turn_id = turn_id
        self._events: list[Event] = []
        self._changed = asyncio.Event()
        self._over = asyncio.Event()
        self._error: BaseException | None = None
        self._turn: Turn | None = None
        self.task: asyncio.Task[None] | None = None

    def tell(self, event: Event) -> None:
        """One more event for everyone who listens."""
        self._events.append(event)
        if isinstance(event, TurnEnded):
            self._turn = event.turn
        self._changed.set()

    def close(self, error: BaseException | None) -> None:
        """No more events; with what went wrong."""
        self._error = error
        self._over.set()
        self._changed.set()

    async def events(self) -> AsyncIterator[Event]:
        """All events from the first, as they come.

        Raises:
            PagedaemonError: what the turn ended with, after its last event.
        """
        told = 0
        while True:
            self._changed.clear()
            while told < len(self._events):
                yield self._events[told]
                told += 1
            if self._over.is_set():
                break
            await self._changed.wait()
        if self._error is not None:
            raise self._error

    async def result(self) -> Turn:
        """The turn, once it has ended.

        Raises:
            PagedaemonError: what it ended with.
        """
        await self._over.wait()
        if self._error is not None:
            raise self._error
        assert self._turn is not None, "a turn without error has a result"
        return self._turn

    async def settled(self) -> None:
        """Waits for the end of the turn, whatever it is."""
        await self._over.wait()

    async def cancel(self) -> None:
        """Stops the turn and waits until that is written."""
        if self.task is not None:
            self.task.cancel()
        await self._over.wait()


@dataclass
class _Window:
    """A conversation's window as it was after our last commit."""

    version: int
    queue: list[Message]
    body: Body


class Scheduler:
    """Runs the turns of one space in this process.

    Args:
        store: the space.
        worker: this process, as the owner of leases.
        clock: the time.
        prompts: the texts the model reads.
        model: the default model; None for none.
        models: models registered by name.
        tools: Python tools by name.
        handles: makes the live handles that a tool's context carries.
    """

    def __init__(
        self,
        store: Database,
        worker: Worker,
        clock: Clock,
        prompts: Prompts,
        model: Model | None,
        models: Mapping[str, ChatModel],
        tools: Iterable[Tool],
        handles: Handles,
    ) -> None:
        self.store = store
        self.clock = clock
        self.prompts = prompts
        self._worker = worker
        self._model = model
        self._models = dict(models)
        self._tools: dict[str, Tool] = {}
        self._windows: dict[str, _Window] = {}
        for tool in tools:
            self.register(tool)
        self._given: dict[str, Model] = {}
        self._chats: dict[str, ChatModel] = {}
        self._loop = Loop(store, clock, handles)
        self._running: dict[str, Running] = {}
        self._freed = asyncio.Event()
        self._closed = False

    # ------------------------------------------------------------------ what agents act with

    def register(self, tool: Tool) -> None:
        """Makes a Python tool known by its name, for agents that were given it.

        Raises:
            ToolDefinitionError: the name belongs to a memory tool.
        """
        if tool.name in NAMES:
            raise ToolDefinitionError(
                f"{tool.name!r} is a memory tool's name: give yours another with tool(name=...)"
            )
        if self._tools.get(tool.name) is not tool:
            self._tools[tool.name] = tool
            self._windows.clear()

    def give_model(self, agent_id: str, model: Model) -> None:
        """Remembers the model an agent was given in this process, with its key."""
        self._given[agent_id] = model

    def model_of(self, agent: AgentRecord) -> Model:
        """The model an agent answers with.

        Raises:
            NoModel: neither the agent nor the runtime has one.
        """
        model = self._given.get(agent.id) or agent.model or self._model
        if model is None:
            raise NoModel(
                f"agent {agent.name!r} has no model. Give the runtime or the agent one of: "
                'model="openai/gpt-5-mini" with OPENAI_API_KEY set; '
                'model=Model("openai/qwen3", base_url="http://localhost:8000/v1", '
                'context_window=8192) for a local server; model="offline" for the built-in rules.'
            )
        default = self._model
        if model.api_key is None and default is not None and default.base_url == model.base_url:
            model = model.model_copy(update={"api_key": default.api_key})
        return model

    def body(self, agent: AgentRecord) -> Body:
        """What an agent acts with, made anew.

        Raises:
            NoModel, ConfigError: its model cannot be had.
        """
        model = self.model_of(agent)
        mine = [self._tools[name] for name in agent.tools if name in self._tools]
        missing = [name for name in agent.tools if name not in self._tools]
        if missing:
            logger.warning(
                "agent %s: no code for its tools %s; give it with Runtime(tools=[...])",
                agent.name,
                ", ".join(missing),
            )
        return Body(
            agent,
            model,
            self._chat(model),
            Toolbox(
                [*memory_tools(self.prompts, agent.settings), *mine],
                prompts=self.prompts,
                missing=missing,
            ),
            self.prompts,
            Gauge(
                TokenCounter(model.name),
                self._loop.correction.factor(model.name),
                model.budget,
                agent.settings.paging,
            ),
            Renderer(self.prompts, agent.settings.timezone),
        )

    def _chat(self, model: Model) -> ChatModel:
        key = model.model_dump_json() + repr(model.api_key and model.api_key.get_secret_value())
        if key not in self._chats:
            self._chats[key] = connect(model, self._models)
        return self._chats[key]

    # ------------------------------------------------------------------ accepting and claiming

    async def open(self) -> None:
        """Reads what was learnt about token counts."""
        self._loop.correction = Correction(await self.store.read(journal.factors))

    async def send(self, conversation_id: str, wake: Wake) -> Running:
        """Accepts a message: when this returns it is stored, and its turn runs or waits for its
        place.

        Raises:
            NotFound: there is no such conversation.
            NoModel: its agent has no model.
            StoreError: the message could not be stored.
        """
        self._require_open()

        def work(tx: Transaction) -> tuple[str, OpenTurn | None]:
            head = self._head(tx, conversation_id)
            idle = head.first_open is None and not self._held(head)
            turn_id = journal.accept(
                tx, head, wake, owner=self._worker.id, running=idle, now=self.clock.now()
            )
            if not idle:
                self._body(head)
                return turn_id, None
            return turn_id, self._claim(tx, head, turn_id, wake, head.last_turn + 1)

        turn_id, turn = await self.store.write(work)
        return self._start(turn_id, conversation_id, turn)

    async def recover(self) -> list[Running]:
        """Takes up every turn that a process which is gone left open. Returns them, running."""
        self._require_open()
        abandoned = [
            row
            for row in await self.store.read(journal.open_turns)
            if row.id not in self._running and self._abandoned(row)
        ]
        if abandoned:
            logger.info("taking up %d turn(s) left open by a process that is gone", len(abandoned))
        return [self._start(row.id, row.conversation_id, None) for row in abandoned]

    def _start(self, turn_id: str, conversation_id: str, turn: OpenTurn | None) -> Running:
        if turn_id in self._running:
            return self._running[turn_id]
        running = self._running[turn_id] = Running(turn_id)
        running.task = asyncio.create_task(self._run(running, conversation_id, turn))
        running.task.add_done_callback(lambda task: self._over(running, task))
        return running

    def _over(self, running: Running, task: asyncio.Task[None]) -> None:
        """Tells whoever listens how the task ended, also where it ended in a mistake of ours."""
        del self._running[running.turn_id]
        running.close(asyncio.CancelledError() if task.cancelled() else task.exception())
        freed, self._freed = self._freed, asyncio.Event()
        freed.set()

    async def _run(self, running: Running, conversation_id: str, turn: OpenTurn | None) -> None:
        plan = None
        try:
            if turn is None:
                claimed = await self._wait_for(running.turn_id, conversation_id)
                if claimed is None:
                    raise NotFound(f"turn {running.turn_id} was deleted or ended elsewhere")
                turn, plan = claimed
            if turn.ended is not None:
                running.tell(TurnEnded(turn.id, turn.ended))
                return
            async for event in self._loop.live(turn, plan):
                running.tell(event)
        except asyncio.CancelledError:
            ended = await self._stopped(running, turn)
            if ended is None:
                raise
            running.tell(TurnEnded(running.turn_id, ended))
        finally:
            if turn is not None:
                self._remember(turn)

    async def _stopped(self, running: Running, turn: OpenTurn | None) -> Turn | None:
        """How a cancelled turn ended: like any other; one that had not begun ends here."""
        if turn is not None:
            return turn.ended
        row = await self.store.read(lambda tx: journal.turn_by_id(tx, running.turn_id))
        if row is None or row.status != "queued":
            return None
        now = self.clock.now()
        await self.store.write(
            lambda tx: journal.set_turn(
                tx, row.id, row.usage, stop_reason="cancelled", ended_at=now
            )
        )
        return Turn(row.id, row.conversation_id, (), "cancelled", row.usage, now, now)

    async def _wait_for(
        self, turn_id: str, conversation_id: str
    ) -> tuple[OpenTurn, journal.Plan | None] | None:
        """Waits until a turn is the first of its conversation and claims it; None if it is gone."""

        def work(tx: Transaction) -> tuple[TurnRow | None, Head, TurnRow | None]:
            return (
                journal.turn_by_id(tx, turn_id),
                self._head(tx, conversation_id),
                journal.first_open_turn(tx, conversation_id),
            )

        while True:
            freed = self._freed
            row, head, first = await self.store.read(work)
            if row is None or row.status == "done" or first is None:
                return None
            if first.id == turn_id and not self._held(head):
                claimed = await self.store.write(lambda tx: self._take_up(tx, turn_id))
                if claimed is not None:
                    return claimed
            elif first.id not in self._running and self._abandoned(first):
                self._start(first.id, conversation_id, None)
            ours = first.id in self._running
            await _wait(freed, 1.0 if ours else POLL)

    def _take_up(
        self, tx: Transaction, turn_id: str
    ) -> tuple[OpenTurn, journal.Plan | None] | None:
        """T1 of a turn that waited or was left open: None if it is not its turn after all."""
        row = journal.turn_by_id(tx, turn_id)
        if row is None or row.status == "done":
            return None
        head = self._head(tx, row.conversation_id)
        if head.first_open != row.seq or self._held(head):
            return None
        journal.take_up(tx, row, self._worker.id, self.clock.now())
        if row.wake is not None:
            return self._claim(tx, head, row.id, row.wake, head.last_turn), None
        turn = self._claim_again(tx, head, row)
        plan = journal.open_plan(tx, row.id)
        if plan is None and row.attempts >= ATTEMPTS:
            turn.ended = record_end(
                tx,
                turn,
                "interrupted",
                f"taken up {row.attempts} times without a reply of the model",
                self.clock.now(),
            )
        return turn, plan

    def _claim(
        self, tx: Transaction, head: Head, turn_id: str, wake: Wake, turn_seq: int
    ) -> OpenTurn:
        """T1: the lease, and the event in the window."""
        window = self._window(tx, head)
        gauge = window.body.gauge
        gauge.factor = self._loop.correction.factor(window.body.model.name)
        blocks = block_rows.of_agent(tx, head.agent.id)
        now = self.clock.now()
        new, warned = wake_messages(window.body, head, blocks, window.queue, wake, turn_id, now)
        rows.add_messages(tx, head.agent.id, head.conversation_id, new)
        lease = journal.claim(
            tx,
            head,
            owner=self._worker.id,
            last_turn=turn_seq,
            last_seq=new[-1].seq,
            warned=warned,
            until=lease_until(now),
        )
        return OpenTurn(
            id=turn_id,
            head=head,
            lease=lease,
            body=window.body,
            queue=[*window.queue, *new],
            blocks=blocks,
            started_at=now,
            deadline=self._deadline(head),
            last_seq=new[-1].seq,
            window_version=head.window_version + 1,
            warned=warned,
            folds=head.folds,
            user_message_id=new[0].id,
        )

    def _claim_again(self, tx: Transaction, head: Head, row: TurnRow) -> OpenTurn:
        """T1 of a turn whose event stands in the window already."""
        queue = rows.window(tx, head.conversation_id)
        now = self.clock.now()
        lease = journal.claim(
            tx,
            head,
            owner=self._worker.id,
            last_turn=head.last_turn,
            last_seq=head.last_seq,
            warned=head.warned,
            until=lease_until(now),
        )
        return OpenTurn(
            id=row.id,
            head=head,
            lease=lease,
            body=self._body(head),
            queue=queue,
            blocks=block_rows.of_agent(tx, head.agent.id),
            started_at=row.started_at or now,
            deadline=self._deadline(head),
            last_seq=head.last_seq,
            window_version=head.window_version + 1,
            warned=head.warned,
            folds=head.folds,
            user_message_id=next(
                (m.id for m in queue if m.turn_id == row.id and m.kind == "message"), None
            ),
            steps=list(journal.step_records(tx, row.id)),
            usage=row.usage,
        )

    def _deadline(self, head: Head) -> float:
        return self.clock.monotonic() + head.agent.settings.limits.seconds

    def _head(self, tx: Transaction, conversation_id: str) -> Head:
        head = journal.head(tx, conversation_id)
        if head is None:
            raise NotFound(f"there is no conversation {conversation_id} any more")
        return head

    def _held(self, head: Head) -> bool:
        """Whether another worker that lives is using the conversation.

        What we use ourselves is known from the turn that is open in it.
        """
        return head.lease_owner != self._worker.id and self._alive(head.lease_owner)

    def _abandoned(self, row: TurnRow) -> bool:
        """Whether nobody works on an open turn: its owner is gone, or we gave it up on an error."""
        return row.owner == self._worker.id or not self._alive(row.owner)

    def _alive(self, owner: str | None) -> bool:
        return owner is not None and self._worker.alive(owner)

    # ------------------------------------------------------------------ windows in memory

    def _window(self, tx: Transaction, head: Head) -> _Window:
        known = self._windows.get(head.conversation_id)
        body = self._body(head)
        if known is not None and known.version == head.window_version and known.body is body:
            return known
        return _Window(head.window_version, rows.window(tx, head.conversation_id), body)

    def _body(self, head: Head) -> Body:
        known = self._windows.get(head.conversation_id)
        if (
            known is not None
            and known.body.agent == head.agent
            and (known.body.model == self.model_of(head.agent))
        ):
            return known.body
        return self.body(head.agent)

    def _remember(self, turn: OpenTurn) -> None:
        self._windows.pop(turn.conversation_id, None)
        turn.body.renderer.keep_only(turn.queue)
        self._windows[turn.conversation_id] = _Window(turn.window_version, turn.queue, turn.body)
        while len(self._windows) > REMEMBERED:
            del self._windows[next(iter(self._windows))]

    # ------------------------------------------------------------------ beside turns

    async def when_idle(self, conversation_id: str, work: Callable[[Transaction], T]) -> T:
        """Runs a transaction on a conversation while no turn of it is open, after those that are.

        Raises:
            NotFound: there is no such conversation.
        """

        def guarded(tx: Transaction) -> tuple[bool, T | None]:
            head = self._head(tx, conversation_id)
            if head.first_open is not None or self._held(head):
                return False, None
            return True, work(tx)

        while True:
            freed = self._freed
            done, value = await self.store.write(guarded)
            if done:
                return value  # type: ignore[return-value]
            await _wait(freed, POLL)

    async def cancel(self, conversation_id: str) -> int:
        """Stops the turns of a conversation that run or wait in this process. Returns how many."""
        open_here = [
            self._running[row.id]
            for row in await self.store.read(journal.open_turns)
            if row.conversation_id == conversation_id and row.id in self._running
        ]
        for running in reversed(open_here):
            await running.cancel()
        return len(open_here)

    async def close(self) -> None:
        """Stops what runs, waits until that is written, and lets go of the models."""
        self._closed = True
        for running in list(self._running.values()):
            await running.cancel()
        for chat in self._chats.values():
            await chat.aclose()

    def _require_open(self) -> None:
        if self._closed:
            raise Closed("this runtime was closed: open a new one")


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return
