"""Making room: what the runtime pages out when the agent has not done it in time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence

from pagedaemon.clock import Clock
from pagedaemon.context.paging import Summariser, Summary
from pagedaemon.errors import ContextOverflow
from pagedaemon.events import Event, PagedOut
from pagedaemon.memory.eviction import Group, evictable, oldest_to_leave
from pagedaemon.memory.recall import fold, lowest
from pagedaemon.messages import Message
from pagedaemon.store import blocks as block_rows
from pagedaemon.store import conversations as rows
from pagedaemon.store import journal
from pagedaemon.store.database import Database
from pagedaemon.store.transaction import Transaction
from pagedaemon.turn.body import Compiled, largest_parts
from pagedaemon.turn.state import LEASE_SECONDS, OpenTurn

REFRESH_MOST = 400
"""Messages up to which a summary is written anew from all its originals; a longer past is
folded."""


async def make_room(store: Database, clock: Clock, turn: OpenTurn) -> AsyncGenerator[Event, None]:
    """Pages out when the window is full, unless the agent is just being warned and the request
    still fits.

    Raises:
        ContextOverflow: nothing is left that could go, and the request does not fit.
    """
    compiled = turn.body.compile(turn.blocks, turn.queue)
    full = compiled.load.over(turn.body.agent.settings.paging.evict)
    told_now = bool(turn.queue) and turn.queue[-1].kind == "alert"
    if not full or (told_now and not compiled.load.over(1.0)):
        return
    async for event in page_out(store, clock, turn, compiled):
        yield event


async def page_out(
    store: Database, clock: Clock, turn: OpenTurn, compiled: Compiled
) -> AsyncGenerator[Event, None]:
    """Moves the oldest messages out, in one commit with the summary that stands for them.

    If that is not enough, the newest few that are usually kept go too.

    Raises:
        ContextOverflow: nothing is left that could go, and the request does not fit.
    """
    paging = turn.body.agent.settings.paging
    for keep_last in (paging.keep_last, 0):
        leaving = oldest_to_leave(
            evictable(turn.queue, turn.keep),
            turn.body.size,
            excess=compiled.load.tokens - int(paging.target * compiled.load.budget),
            keep_last=keep_last,
        )
        if leaving and _worth_it(turn, compiled, leaving):
            before = compiled.load.tokens
            summary = await _summarise(store, turn, leaving)
            count = await store.write(_folding(turn, leaving, summary, clock))
            await _reload(store, turn)
            compiled = turn.body.compile(turn.blocks, turn.queue)
            yield PagedOut(turn.id, count, before, compiled.load.tokens, "runtime", summary.by)
        if not compiled.load.over(1.0):
            return
    raise ContextOverflow(
        compiled.load.budget,
        compiled.load.tokens,
        largest_parts(compiled, turn.body, turn.blocks),
    )


def _worth_it(turn: OpenTurn, compiled: Compiled, leaving: Sequence[Group]) -> bool:
    # Where even an empty queue would not fit, paging out costs a model call and changes nothing.
    if not compiled.load.over(1.0):
        return True
    free = sum(
        turn.body.size(message)
        for group in evictable(turn.queue, turn.keep)
        for message in group.messages
    )
    return compiled.load.tokens - free <= compiled.load.budget and bool(leaving)


async def _summarise(store: Database, turn: OpenTurn, leaving: Sequence[Group]) -> Summary:
    body = turn.body
    settings = body.agent.settings
    previous = _summary(turn.queue)
    messages = [message for group in leaving for message in group.messages]
    text = "" if previous is None else previous.text
    covered = 0 if previous is None else int(previous.data["messages"])
    if turn.folds % settings.paging.refresh_every == settings.paging.refresh_every - 1 and (
        previous is not None and covered <= REFRESH_MOST
    ):
        first = int(previous.data["first"])
        text = ""
        messages = await store.read(
            lambda tx: rows.between(tx, turn.conversation_id, first, messages[-1].seq)
        )
    summariser = Summariser(body.prompts, body.chat, body.model, settings.timezone)
    summary = await summariser.fold(
        text, messages, max_tokens=max(80, int(settings.paging.summary_share * body.model.budget))
    )
    turn.unrecorded = turn.unrecorded + summary.usage
    return summary


def _folding(
    turn: OpenTurn, leaving: Sequence[Group], summary: Summary, clock: Clock
) -> Callable[[Transaction], int]:
    now = clock.now()

    def work(tx: Transaction) -> int:
        journal.fence(tx, turn.lease, now, LEASE_SECONDS)
        previous = _summary(turn.queue)
        labels = [message.label for group in leaving for message in group.messages]
        return fold(
            tx,
            turn.conversation_id,
            turn.agent_id,
            leaving,
            previous,
            summary.text,
            by=summary.by,
            now=now,
            folds=turn.folds + 1,
            label=lowest(["agent", *labels]),
        )

    return work


async def _reload(store: Database, turn: OpenTurn) -> None:
    """Brings the turn in memory up to what the page-out left in the store."""

    def work(tx: Transaction) -> None:
        head = journal.head(tx, turn.conversation_id)
        assert head is not None, "a conversation with a running turn is not deleted"
        turn.queue = rows.window(tx, turn.conversation_id)
        turn.blocks = block_rows.of_agent(tx, turn.agent_id)
        turn.last_seq, turn.window_version = head.last_seq, head.window_version
        turn.warned, turn.folds = head.warned, head.folds

    await store.read(work)


def _summary(queue: Sequence[Message]) -> Message | None:
    return next((message for message in queue if message.kind == "summary"), None)
