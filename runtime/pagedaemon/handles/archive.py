"""The archive as a user holds it: records to keep, find and delete."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from pagedaemon.errors import InvalidInput, NotFound
from pagedaemon.handles.arguments import checked_flag, checked_instant
from pagedaemon.handles.documents import AsyncDocuments
from pagedaemon.handles.page import Page, checked_id, several
from pagedaemon.handles.records import Record, all_given, checked_record, checked_records
from pagedaemon.handles.wanted import Wanted
from pagedaemon.messages import Label
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import passages as rows
from pagedaemon.store.passages import NewPassage, PassageFilter, PassageRow
from pagedaemon.store.transaction import Transaction

if TYPE_CHECKING:
    from pagedaemon.memory.assurance import Doubt
    from pagedaemon.memory.search import Near


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
    """What it came from: a kind and an id or name. `("step", id)`: the agent saved it in that step;
    `("api", …)`: your program, in your words; `("file", name)`: a document of that name."""
    label: Label
    uses: int
    created_at: datetime
    used_at: datetime | None
    happened_at: datetime | None
    """When what it tells of was; None where nobody said."""
    expires_at: datetime | None
    """When it stops being found; None: never."""
    position: int | None
    """Of a document's passage: its place there, from 1."""
    purposes: tuple[str, ...]
    """What it is for, in your own words."""
    score: float
    parts: Mapping[str, float] = field(default_factory=dict)
    """What the score is the sum of: `keywords`, `meaning`, `named` (it has the names in the query),
    `day` (what it tells of was at the time the query names), `newer` where it comes before the best
    hit because it is about the same and newer, and `older` where it does because the best hit is of
    after the time that the query names; with another `ranking` the parts of that."""
    via: str | None = None
    """What found it: `keywords` where words alone did, else the index that named it, `exact` or
    `chroma`; None where nothing was ranked."""


class AsyncArchive(AsyncDocuments):
    """An agent's long-term records."""

    async def insert(
        self,
        text: str,
        *,
        kind: str = "semantic",
        tags: Sequence[str] = (),
        importance: float | None = None,
        confidence: float = 1.0,
        source: str | None = None,
        purposes: Sequence[str] = (),
        happened_at: datetime | None = None,
        expires_at: datetime | None = None,
    ) -> Passage:
        """Keeps a record. The same text again answers with the one that is there. What says the
        same in other words is stored beside it: `near_repeats` tells.

        Args:
            kind: `semantic`, `episodic`, `procedural` or `document`.
            importance: 1 to 10; None: not rated.
            confidence: 0 to 1.
            purposes: what it is for, such as `"tone"`: `search(purposes=...)` asks for it.
            source: where it comes from, in your own words or as an id.

        Raises:
            InvalidInput: empty text or a value out of its range; nothing was stored.
            NotFound: the agent was deleted.
        """
        record = Record(
            text,
            kind=kind,
            tags=tags,
            importance=importance,
            confidence=confidence,
            source=source,
            purposes=purposes,
            happened_at=happened_at,
            expires_at=expires_at,
        )
        now = self._scheduler.clock.now()
        (kept,) = await self._keep([checked_record(record, now)], now)
        return kept

    async def insert_many(self, records: Iterable[Record | str]) -> list[Passage]:
        """`insert` for many: each as if they were inserted one after the other.

        All are checked before the first is stored. They are stored 500 in one transaction, so that
        others write in between; what was cut off is finished by inserting the same again, since
        what is there already is not stored twice.

        Args:
            records: each a `Record`, or a text to keep as it is.

        Returns:
            what is kept of each, in the order given; the same text gives the same passage.

        Raises:
            InvalidRecord: one of them is refused, and `index` says which; none was stored.
            InvalidInput: no list was given.
            NotFound: the agent was deleted.
        """
        from pagedaemon.memory.documents import BATCH

        now = self._scheduler.clock.now()
        new = await asyncio.to_thread(checked_records, all_given(records), now)
        kept: list[Passage] = []
        # Of an empty list one transaction too: a deleted agent takes none.
        for at in range(0, len(new) or 1, BATCH):
            kept += await self._keep(new[at : at + BATCH], now, after=at)
        return kept

    async def _keep(
        self, new: Sequence[NewPassage], now: datetime, *, after: int = 0
    ) -> list[Passage]:
        from pagedaemon.memory import archival

        begin = now + after * archival.APART

        def work(tx: Transaction) -> list[Passage]:
            agent_rows.require(tx, self._agent_id)
            ids = [one for one, _ in archival.keep_all(tx, self._agent_id, new, begin)]
            found = rows.living(tx, self._agent_id, ids, now)
            return [_passage(found[one]) for one in ids]

        return await self._scheduler.store.write(work)

    async def search(
        self,
        query: str | None = None,
        *,
        tags: Sequence[str] = (),
        kinds: Sequence[str] = (),
        purposes: Sequence[str] = (),
        start: datetime | None = None,
        end: datetime | None = None,
        floor: float | None = None,
        sure: bool = False,
        ranking: str = "default",
        refresh: bool = False,
        page: int = 0,
        page_size: int = 10,
    ) -> Page[Passage]:
        """Records by words and by meaning, newest first without words (or with blank ones).

        Args:
            query: any of its words may match, and a record may be near to it without them. Where it
                names a time ("last Tuesday", "in May 2023"), by the agent's clock and zone, records
                of that time are found whatever their words, and of several about the same that
                comes first which was so then. A record's time is `happened_at`, or else when it was
                stored. A word that stands in over 1,000 records makes no match where there are
                rarer ones: it counts in the order of what they find. Where all are that frequent,
                what has several matches, and of more than 3,000 the newest.
            tags: any of them.
            purposes: any of them.
            start: stored from this instant on, whatever time a record tells of.
            end: stored before this instant.
            floor: the least cosine, -1 to 1, of a record that no word found. None hides nothing:
                what is far stands last.
            sure: as the agent's own searches: nothing that is only far, and nothing at all where
                nothing found is likely to answer.
            ranking: by what they are ranked. `default`: words and meaning, what is newer before
                what it takes the place of, and what says again what a better hit says
                (`Settings.near_repeats`) after all that differs, at its own score.
                `generative_agents` (Park et al., 2023): relevance, recency of use and importance,
                each scaled over what was found, in equal parts; `generative_agents_fixed` scales
                each over its whole range. `blend`: 0.6 meaning, 0.25 recency of use with a
                half-life of 30 days, 0.15 names. `recent_confident`: the three newest whose
                confidence is at least 0.8, whatever the query. Only `default` has every match on
                some page: `generative_agents` ranks the nearest 100 and the best 100 by words,
                `blend` 30 and 30, and the total is of these. Without words nothing is ranked, and
                only `recent_confident` differs.
            refresh: notes that the hits of this page were used, as the agent's own searches do:
                `uses` and `used_at`, which recency goes by. Without it a search only reads.

        Raises:
            NotFound: the agent was deleted.
            InvalidInput: a negative page, a page size below 1, a datetime that is naive or that UTC
                cannot express, a floor that is no cosine, an unknown ranking, or a value of another
                type.
        """
        wanted = Wanted.of(
            query,
            of="records",
            ranking=ranking,
            floor=floor,
            sure=sure,
            page=page,
            page_size=page_size,
        )
        given = self._filter(tags, kinds, purposes, start, end)
        return await self._page(wanted, given, used=checked_flag(refresh, "refresh"))

    def _filter(
        self,
        tags: Sequence[str],
        kinds: Sequence[str],
        purposes: Sequence[str],
        start: datetime | None,
        end: datetime | None,
    ) -> PassageFilter:
        from pagedaemon.memory.archival import KINDS

        return PassageFilter(
            self._agent_id,
            self._scheduler.clock.now(),
            several(tags, "tags"),
            several(kinds, "kinds", KINDS),
            checked_instant(start, "start"),
            checked_instant(end, "end"),
            several(purposes, "purposes"),
        )

    async def _page(self, wanted: Wanted, given: PassageFilter, *, used: bool) -> Page[Passage]:
        from pagedaemon.memory.effects import read, sought
        from pagedaemon.memory.presets import search_passages

        meaning = self._scheduler.meaning
        near, pending = await sought(meaning, wanted.words, rows.allowed(given))
        if wanted.sure:
            doubts = partial(self._doubtful, given=given, ranking=wanted.ranking)
            near = await read(meaning, near, wanted.words, doubts)

        def work(tx: Transaction) -> tuple[list[PassageRow], int]:
            near_repeats = agent_rows.near_repeats(tx, self._agent_id)
            found, total = search_passages(
                tx,
                wanted.words,
                given,
                ranking=wanted.ranking,
                offset=wanted.offset,
                limit=wanted.page_size,
                near=near,
                floor=wanted.floor,
                sure=wanted.sure,
                near_repeats=near_repeats,
            )
            if used:
                rows.refresh(tx, [row.id for row in found], given.now)
            return found, total

        store = self._scheduler.store
        hits, total = await (store.write(work) if used else store.read(work))
        return wanted.filled(map(_passage, hits), total, pending)

    def _doubtful(
        self, tx: Transaction, words: str, near: Near, *, given: PassageFilter, ranking: str
    ) -> Doubt | None:
        from pagedaemon.memory.presets import doubtful_passages

        least = agent_rows.near_repeats(tx, self._agent_id)
        return doubtful_passages(tx, words, near, given=given, ranking=ranking, near_repeats=least)

    async def near_repeats(self, text: str, *, tags: Sequence[str] = ()) -> list[Passage]:
        """The records that say what a text says, in the same words or in others, newest first: what
        the agent is told when it saves a note (`Settings.near_repeats`). Nothing is stored.

        Compared are the nearest 16 by their vectors, and by words those that are equal but for
        case, marks and blanks: all that is found without vectors, or where the setting is None. A
        text of more than 2,000 characters says nothing again.

        Args:
            text: one that is to be kept, or that a record has.
            tags: those it is to be kept with. They are embedded with it.

        Raises:
            InvalidInput: what cannot be kept.
            NotFound: the agent was deleted.
        """
        from pagedaemon.memory import repeats

        now = self._scheduler.clock.now()
        new = checked_record(Record(text, tags=tags), now)
        given = PassageFilter(self._agent_id, now)
        searched = rows.searched_text(new.text, sorted(set(new.tags)))
        meaning = self._scheduler.meaning
        placed = None if meaning is None else await meaning.placed(searched, rows.allowed(given))

        def work(tx: Transaction) -> list[PassageRow]:
            least = agent_rows.near_repeats(tx, self._agent_id)
            return repeats.known(tx, given, new.text, placed, least)

        return [_passage(row) for row in await self._scheduler.store.read(work)]

    async def get(self, passage_id: str) -> Passage:
        """One record.

        Raises:
            NotFound: this agent has no such record, or was deleted.
            InvalidInput: what cannot be an id.
        """
        checked_id(passage_id)
        now = self._scheduler.clock.now()

        def work(tx: Transaction) -> PassageRow | None:
            agent_rows.require(tx, self._agent_id)
            return rows.by_id(tx, self._agent_id, passage_id, now)

        row = await self._scheduler.store.read(work)
        if row is None:
            raise NotFound(f"no passage {passage_id} in this agent's archive")
        return _passage(row)

    async def delete(self, *passage_ids: str) -> int:
        """Deletes records and returns how many there were.

        Raises:
            InvalidInput: no id was given (deleting everything is not what an empty list means), or
                a list of them.
            NotFound: the agent was deleted.
        """
        if not passage_ids:
            raise InvalidInput("give the ids of the passages to delete")
        for passage_id in passage_ids:
            checked_id(passage_id)

        def work(tx: Transaction) -> int:
            agent_rows.require(tx, self._agent_id)
            gone = rows.remove(tx, self._agent_id, passage_ids)
            agent_rows.count_archival(tx, self._agent_id, -gone)
            return gone

        return await self._scheduler.store.write(work)

    async def count(self) -> int:
        """How many records there are: as many as `search()` finds, those that have expired not
        among them.

        Raises:
            NotFound: the agent was deleted.
        """
        from pagedaemon.memory.search import find_passages

        given = PassageFilter(self._agent_id, self._scheduler.clock.now())

        def work(tx: Transaction) -> int:
            agent_rows.require(tx, self._agent_id)
            return find_passages(tx, None, given, offset=0, limit=1)[1]

        return await self._scheduler.store.read(work)


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
        row.happened_at,
        row.expires_at,
        row.position,
        row.purposes,
        row.score,
        row.parts,
        row.via,
    )
