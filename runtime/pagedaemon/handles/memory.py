"""Recall and archive as a user holds them: search in pages, with totals, ids, dates and sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar, cast, get_args

from pagedaemon.errors import InvalidInput, NotFound
from pagedaemon.memory import archival
from pagedaemon.messages import Label, Message, Role
from pagedaemon.scheduler import Scheduler
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import passages as rows
from pagedaemon.store import recall as queries
from pagedaemon.store.passages import NewPassage, PassageFilter, PassageRow
from pagedaemon.store.recall import MessageFilter
from pagedaemon.store.transaction import Transaction

H = TypeVar("H")

MOST = 10**12
"""Number of the last hit that can be asked for: more than any store holds."""


@dataclass(frozen=True, slots=True)
class Page(Generic[H]):
    """One page of hits, best first, or newest first where no words were given."""

    hits: tuple[H, ...]
    total: int
    """How many there are on all pages."""
    page: int
    """From 0."""
    page_size: int

    @property
    def next_page(self) -> int | None:
        """The number of the next page, or None after the last."""
        return self.page + 1 if (self.page + 1) * self.page_size < self.total else None


@dataclass(frozen=True, slots=True)
class RecallHit:
    """A found message. `score` is higher for better, comparable within one search only."""

    message: Message
    conversation_id: str
    score: float

    @property
    def id(self) -> str:
        """The message's."""
        return self.message.id

    @property
    def text(self) -> str:
        """What was said: for a reply through `send_message`, what the user heard."""
        said = self.message.data.get("said")
        return "\n".join(said) if said else self.message.text


@dataclass(frozen=True, slots=True)
class Passage:
    """A record of archival memory. `score` is that of the search which found it, else 0."""

    id: str
    text: str
    kind: str
    tags: tuple[str, ...]
    importance: float | None
    confidence: float
    source: tuple[str, str | None]
    """What it came from: a kind (`step`, `api`, `import`) and an id."""
    label: Label
    uses: int
    created_at: datetime
    used_at: datetime | None
    score: float


class AsyncRecall:
    """Every message of an agent, in and out of the window."""

    def __init__(self, scheduler: Scheduler, agent_id: str) -> None:
        self._scheduler = scheduler
        self._agent_id = agent_id

    async def search(
        self,
        query: str | None = None,
        *,
        roles: Sequence[Role] = (),
        author: str | None = None,
        conversation_id: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        page: int = 0,
        page_size: int = 10,
    ) -> Page[RecallHit]:
        """Messages by words, newest first without any.

        Args:
            query: words, of which any may match; `"quoted phrases"` must match whole.
            start: from this instant on.
            end: before this instant.

        Raises:
            InvalidInput: a negative page, a page size below 1, a naive datetime.
        """
        offset = _offset(page, page_size, start, end)
        given = MessageFilter(
            self._agent_id,
            roles=cast("tuple[Role, ...]", _several(roles, "roles", get_args(Role))),
            author=author,
            conversation_id=conversation_id,
            start=start,
            end=end,
        )
        hits, total = await self._scheduler.store.read(
            lambda tx: queries.search(tx, query, given, offset=offset, limit=page_size)
        )
        found = tuple(RecallHit(hit.message, hit.conversation_id, hit.score) for hit in hits)
        return Page(found, total, page, page_size)

    async def count(self) -> int:
        """Messages stored, all conversations together."""
        counts = await self._scheduler.store.read(lambda tx: agent_rows.counts(tx, self._agent_id))
        return counts[0]


class AsyncArchive:
    """An agent's long-term records."""

    def __init__(self, scheduler: Scheduler, agent_id: str) -> None:
        self._scheduler = scheduler
        self._agent_id = agent_id

    async def insert(
        self,
        text: str,
        *,
        kind: str = "semantic",
        tags: Sequence[str] = (),
        importance: float | None = None,
        confidence: float = 1.0,
        source: str | None = None,
        happened_at: datetime | None = None,
        expires_at: datetime | None = None,
    ) -> Passage:
        """Keeps a record. The same text again answers with the one that is there.

        Args:
            kind: `semantic`, `episodic`, `procedural` or `document`.
            importance: 1 to 10; None: not rated.
            confidence: 0 to 1.
            source: where it comes from, in your own words or as an id.

        Raises:
            InvalidInput: empty text or a value out of its range; nothing was stored.
            NotFound: the agent was deleted.
        """
        _aware(happened_at, expires_at)
        new = NewPassage(
            text,
            kind,
            _several(tags, "tags"),
            importance,
            confidence,
            source_kind="api",
            source_id=source,
            label="owner",
            happened_at=happened_at,
            expires_at=expires_at,
        )

        def work(tx: Transaction) -> PassageRow:
            agent_rows.require(tx, self._agent_id)
            now = self._scheduler.clock.now()
            passage_id, _ = archival.keep(tx, self._agent_id, new, now)
            row = rows.by_id(tx, self._agent_id, passage_id, now)
            if row is None:
                raise InvalidInput("expires_at lies in the past: the record would be gone at once")
            return row

        return _passage(await self._scheduler.store.write(work))

    async def search(
        self,
        query: str | None = None,
        *,
        tags: Sequence[str] = (),
        kinds: Sequence[str] = (),
        start: datetime | None = None,
        end: datetime | None = None,
        page: int = 0,
        page_size: int = 10,
    ) -> Page[Passage]:
        """Records by words, newest first without any.

        Args:
            tags: any of them.
            start: stored from this instant on.
            end: stored before this instant.

        Raises:
            InvalidInput: a negative page, a page size below 1, a naive datetime.
        """
        offset = _offset(page, page_size, start, end)
        given = PassageFilter(
            self._agent_id,
            self._scheduler.clock.now(),
            _several(tags, "tags"),
            _several(kinds, "kinds", archival.KINDS),
            start,
            end,
        )
        hits, total = await self._scheduler.store.read(
            lambda tx: rows.search(tx, query, given, offset=offset, limit=page_size)
        )
        return Page(tuple(map(_passage, hits)), total, page, page_size)

    async def get(self, passage_id: str) -> Passage:
        """One record.

        Raises:
            NotFound: this agent has no such record.
        """
        now = self._scheduler.clock.now()
        row = await self._scheduler.store.read(
            lambda tx: rows.by_id(tx, self._agent_id, passage_id, now)
        )
        if row is None:
            raise NotFound(f"no passage {passage_id} in this agent's archive")
        return _passage(row)

    async def delete(self, *passage_ids: str) -> int:
        """Deletes records and returns how many there were.

        Raises:
            InvalidInput: no id was given; deleting everything is not what an empty list means.
        """
        if not passage_ids:
            raise InvalidInput("give the ids of the passages to delete")

        def work(tx: Transaction) -> int:
            gone = rows.remove(tx, self._agent_id, passage_ids)
            agent_rows.count_archival(tx, self._agent_id, -gone)
            return gone

        return await self._scheduler.store.write(work)

    async def count(self) -> int:
        """Records stored."""
        counts = await self._scheduler.store.read(lambda tx: agent_rows.counts(tx, self._agent_id))
        return counts[1]


def _several(given: Sequence[str], what: str, known: Sequence[str] = ()) -> tuple[str, ...]:
    """The values of a filter, or tags.

    Raises:
        InvalidInput: one text where a list is meant, which would be read letter by letter; or a
            value that can match nothing.
    """
    if isinstance(given, str):
        raise InvalidInput(f"{what} is a list: write [{given!r}]")
    odd = [value for value in given if known and value not in known]
    if odd:
        raise InvalidInput(f"{what} are among {', '.join(known)}, not {odd[0]!r}")
    return tuple(given)


def _offset(page: int, size: int, *instants: datetime | None) -> int:
    if page < 0 or size < 1:
        raise InvalidInput(f"pages count from 0 and hold at least 1: page={page}, page_size={size}")
    if page * size > MOST:
        raise InvalidInput(f"no search goes beyond hit {MOST}: page={page}, page_size={size}")
    _aware(*instants)
    return page * size


def _aware(*instants: datetime | None) -> None:
    for instant in instants:
        if instant is not None and instant.tzinfo is None:
            raise InvalidInput(f"{instant!r} has no time zone: give one, such as datetime.UTC")


def _passage(row: PassageRow) -> Passage:
    return Passage(
        row.id,
        row.text,
        row.kind,
        row.tags,
        row.importance,
        row.confidence,
        (row.source_kind, row.source_id),
        row.label,
        row.uses,
        row.created_at,
        row.used_at,
        row.score,
    )
