"""Making room: what the runtime pages out when the agent has not done it in time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pagedaemon.clock import Clock
from pagedaemon.context.paging import Summariser, Summary
from pagedaemon.context.window import Load
from pagedaemon.errors import BadReply, ContextOverflow
from pagedaemon.events import Event, PagedOut
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.llm.wrapping import Wrapping
from pagedaemon.memory.carrying import CARRIED
from pagedaemon.memory.eviction import Group, evictable, groups, oldest_to_leave
from pagedaemon.memory.recall import fold
from pagedaemon.messages import Message, Usage, lowest
from pagedaemon.store import blocks as block_rows
from pagedaemon.store import conversations as rows
from pagedaemon.store import journal
from pagedaemon.store.database import Database
from pagedaemon.store.journal import Told
from pagedaemon.store.transaction import Transaction
from pagedaemon.tools.toolbox import ends_us
from pagedaemon.turn.body import largest_parts
from pagedaemon.turn.state import OpenTurn
from pagedaemon.turn.usage import believable

REFRESH_MOST = 400
"""Messages up to which a summary is written anew from all its originals; a longer past is
folded."""


LEAST_GAIN = 0.1
"""Share of the budget that a page-out must free while the request still fits: less is not worth a
model call and a new prefix."""


async def make_room(store: Database, clock: Clock, turn: OpenTurn) -> AsyncGenerator[Event, None]:
    """Pages out when the window is full, unless the agent is just being warned and the request
    still fits.

    Raises:
        ContextOverflow: nothing is left that could go, and the request does not fit.
    """
    load = turn.body.weigh(turn.blocks, turn.queue)
    if not load.over(turn.body.agent.settings.paging.evict):
        return
    told_now = turn.latest is not None and turn.latest.kind == "alert"
    if told_now and not load.over(1.0):
        return
    async for event in _page_out(store, clock, turn, refused=False):
        yield event


async def relieve(store: Database, clock: Clock, turn: OpenTurn) -> AsyncGenerator[Event, None]:
    """Pages out because the provider could not take the request, whatever we thought it weighs.

    Raises:
        ContextOverflow: as `make_room`.
    """
    async for event in _page_out(store, clock, turn, refused=True):
        yield event


async def _page_out(
    store: Database, clock: Clock, turn: OpenTurn, *, refused: bool
) -> AsyncGenerator[Event, None]:
    """Moves the oldest messages out, in one commit with the summary that stands for them.

    First down to the target, without the newest few. Where that is not enough, those go too, oldest
    first, as far as the request then fits. Results that the model has not seen stay, and so does
    what is pinned, until nothing else is left to go.

    Raises:
        ContextOverflow: nothing is left that could go, and the request does not fit even by our own
            count. What a learnt correction says is only a guess: then the provider decides.
    """
    paging = turn.body.agent.settings.paging
    # What is pinned may have changed since the window was read.
    (await store.read(lambda tx: _there(tx, turn))).carry_over(turn)
    compiled = turn.body.compile(turn.blocks, turn.queue)
    must = refused or compiled.load.over(1.0)
    for keep_last, aim, last_resort in (
        (paging.keep_last, paging.target, None),
        (0, paging.evict, None),
        (0, 1.0, "pinned"),
        (0, 1.0, "unseen"),
    ):
        if last_resort and not (refused or compiled.load.raw > compiled.load.budget):
            return
        before = compiled.load
        candidates = _candidates(turn, last_resort)
        wanted = min(_aim(turn, before, aim), before.tokens)
        if refused:
            # Our own count was wrong: half of the request has to go.
            wanted = min(wanted, before.tokens // 2)
        leaving = oldest_to_leave(
            candidates,
            turn.body.size,
            excess=before.tokens - wanted,
            keep_last=keep_last,
        )
        if leaving and _worth_it(turn, before, leaving, must=must):
            summary = await _summarise(store, clock, turn, leaving)
            folding = _folding(turn, before, leaving, summary, clock)
            now_there, turn.told, events = await store.write(folding)
            now_there.carry_over(turn)
            compiled = turn.body.compile(turn.blocks, turn.queue)
            turn.hushed = compiled.load.over(paging.warn)
            for event in events:
                yield event
            refused = False
        must = refused or compiled.load.over(1.0)
        if not must:
            return
    if compiled.load.raw > compiled.load.budget:
        raise ContextOverflow(
            compiled.load.budget,
            compiled.load.tokens,
            largest_parts(compiled, turn.body, turn.blocks, turn.keep),
        )


def _candidates(turn: OpenTurn, last_resort: str | None) -> list[Group]:
    """What may go, oldest first: as a last resort pinned messages, then unseen results too."""
    if last_resort == "unseen":
        return evictable(turn.queue, turn.keep, pinned=True)
    return evictable(turn.queue, turn.keep | turn.unseen, pinned=last_resort == "pinned")


def _aim(turn: OpenTurn, load: Load, share: float) -> int:
    """Tokens a page-out aims at: that share of the budget, where it can be reached.

    Instructions, tools and core memory stay, and may be more than that in a small window. Then the
    queue keeps half of what they leave it below the line where it is paged out again: emptied to
    the last message each time, it would be paged out each turn.
    """
    fixed = load.tokens - _weight(turn, groups(turn.queue))
    line = int(turn.body.agent.settings.paging.evict * load.budget)
    return max(int(share * load.budget), (fixed + line) // 2 if fixed < line else 0)


def _worth_it(turn: OpenTurn, load: Load, leaving: Sequence[Group], *, must: bool) -> bool:
    """Whether paging out changes anything: it costs a model call and the cached prefix."""
    if not must:
        return _weight(turn, leaving) >= LEAST_GAIN * load.budget
    # Where even an empty queue would not fit, nothing is gained by emptying it. By our own count:
    # the correction may be wrong, and would never be learnt anew if nothing was sent any more.
    rest = load.tokens - _weight(turn, evictable(turn.queue, turn.keep, pinned=True))
    return rest <= load.budget * max(1.0, turn.body.gauge.factor)


def _weight(turn: OpenTurn, of: Sequence[Group]) -> int:
    return sum(turn.body.size(message) for group in of for message in group.messages)


async def _summarise(
    store: Database, clock: Clock, turn: OpenTurn, leaving: Sequence[Group]
) -> Summary:
    body = turn.body
    settings = body.agent.settings
    previous = _summary(turn.queue)
    messages = [message for group in leaving for message in group.messages]
    text = "" if previous is None else previous.text
    if previous is not None and (_due_for_refresh(turn, previous) or previous.is_external):
        first, last = int(previous.data["first"]), int(previous.data["last"])
        last = max(last, messages[-1].seq)
        in_view = {message.id for message in turn.queue} - {message.id for message in messages}
        originals = await store.read(lambda tx: rows.between(tx, turn.conversation_id, first, last))
        text = str(previous.data.get(CARRIED, {}).get("text", ""))
        messages = [message for message in originals if message.id not in in_view]
    chat = _Contained(body.chat)
    summariser = Summariser(body.prompts, chat, body.model, settings.timezone, body.gauge.text)
    summary = await summariser.fold(
        text,
        # What stands in view from now on must not bring in the outside for good: recall has it.
        [message for message in messages if not message.is_external],
        max_tokens=_summary_room(turn, leaving),
        # The other half of the turn's time is for the step that all this is done for.
        seconds=(turn.deadline - clock.monotonic()) / 2,
    )
    turn.unrecorded = turn.unrecorded + summary.usage
    return summary


class _Contained(Wrapping):
    """The model that summarises: what it may not raise or report costs the summary and not the
    turn."""

    async def complete(self, request: Request) -> Reply:
        """The whole reply.

        Raises:
            ModelError: as the model; `BadReply` as `foreign_ends`.
        """
        with foreign_ends():
            reply = await super().complete(request)
        usage: object = reply.usage
        return replace(reply, usage=believable(usage) if isinstance(usage, Usage) else None)


@contextmanager
def foreign_ends() -> Iterator[None]:
    """While a model is waited for, which may raise what would end the program or our own task.

    Raises:
        BadReply: in place of a cancellation that nobody asked for, and of what is no `Exception`.
    """
    try:
        yield
    except Exception:
        raise
    # The interpreter's own exceptions would end the thread that every other turn runs on.
    except BaseException as error:
        if ends_us(error):
            raise
        raise BadReply(f"the model raised {type(error).__name__}: {error}") from error


def _due_for_refresh(turn: OpenTurn, previous: Message) -> bool:
    every = turn.body.agent.settings.paging.refresh_every
    # What the agent noted itself stands in no original.
    return (
        turn.folds % every == every - 1
        and previous.data["by"] != "note"
        and int(previous.data["messages"]) <= REFRESH_MOST
    )


def _folding(
    turn: OpenTurn, before: Load, leaving: Sequence[Group], summary: Summary, clock: Clock
) -> Callable[[Transaction], tuple[_There, tuple[Told, ...], tuple[Event, ...]]]:
    """The page-out's transaction: what it leaves in the store, and what it tells."""
    now = clock.now()

    def work(tx: Transaction) -> tuple[_There, tuple[Told, ...], tuple[Event, ...]]:
        journal.fence(tx, turn.lease)
        previous = _summary(turn.queue)
        gone = [message for group in leaving for message in group.messages]
        if previous is not None:
            gone.append(previous)
        labels = [message.label for message in gone if not message.is_external]
        count = fold(
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
        there = _there(tx, turn)
        after = turn.body.weigh(there.blocks, there.queue)
        told, events = journal.with_events(
            turn.told,
            [PagedOut(turn.id, count, before.tokens, after.tokens, "runtime", summary.by)],
        )
        journal.set_told(tx, turn.id, told)
        return there, told, events

    return work


@dataclass(frozen=True)
class _There:
    """What the store has of a turn's window."""

    head: journal.Head
    queue: list[Message]
    blocks: tuple[block_rows.BlockRow, ...]

    def carry_over(self, turn: OpenTurn) -> None:
        """Makes the turn in memory what it is in the store."""
        turn.queue, turn.blocks = self.queue, self.blocks
        turn.last_seq, turn.window_version = self.head.last_seq, self.head.window_version
        turn.warned, turn.folds = self.head.warned, self.head.folds


def _there(tx: Transaction, turn: OpenTurn) -> _There:
    head = journal.head(tx, turn.conversation_id)
    assert head is not None, "a conversation with a running turn is not deleted"
    return _There(
        head, rows.window(tx, turn.conversation_id), block_rows.of_agent(tx, turn.agent_id)
    )


def _summary(queue: Sequence[Message]) -> Message | None:
    return next((message for message in queue if message.kind == "summary"), None)


def _summary_room(turn: OpenTurn, leaving: Sequence[Group]) -> int:
    """Tokens the summary may have: its share, but no more than half of what the rest leaves."""
    body = turn.body
    gone = {message.id for group in leaving for message in group.messages}
    rest = [m for m in turn.queue if m.kind != "summary" and m.id not in gone]
    share = int(body.agent.settings.paging.summary_share * body.model.budget)
    free = body.model.budget - body.weigh(turn.blocks, rest).tokens
    return max(40, min(share, free // 2))
