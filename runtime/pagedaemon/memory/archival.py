"""Archival: long-term records the agent chose to keep, searched by words and tags, in pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from pagedaemon.clock import local_minute
from pagedaemon.errors import InvalidInput
from pagedaemon.memory.effects import Acting, Told, past_the_end, read, sought
from pagedaemon.memory.presets import doubtful_passages, search_passages
from pagedaemon.memory.repeats import Placed, keep_vectors, like
from pagedaemon.memory.search import Near, blank_is_none
from pagedaemon.messages import checked_text, lowest
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import conversations as message_rows
from pagedaemon.store import passages as rows
from pagedaemon.store.passages import NewPassage, PassageFilter, PassageRow
from pagedaemon.store.transaction import Transaction

KINDS = ("semantic", "episodic", "procedural", "document")
MAX_TAGS = 20

TOLD = 3
"""Records that are told, at most, where one that says nearly the same is kept."""

TOLD_CHARS = 200
"""Characters of each, at most."""

APART = timedelta(microseconds=1)
"""Between two records of one list, so that newest first is the order they were given in, the last
one first. Storing one takes longer."""


@dataclass
class InsertPassage:
    """`archival_memory_insert`: one fact, kept for good."""

    text: str
    tags: tuple[str, ...] = ()
    placed: Placed | None = field(default=None, init=False)
    """What `prepare` found near to it."""

    @property
    def _searched(self) -> str:
        """What is embedded of it: tags as they are stored, each once."""
        return rows.searched_text(self.text, sorted(set(self.tags)))

    async def prepare(self, acting: Acting) -> None:
        """Looks for what is near to it, where that is told."""
        if acting.meaning is None or acting.near_repeats is None or not self.text.strip():
            return
        given = PassageFilter(acting.agent_id, acting.now)
        self.placed = await acting.meaning.placed(self._searched, rows.allowed(given))

    def apply(self, tx: Transaction, acting: Acting) -> Told:
        """A repeat is not stored twice: it answers with the id of what is there, which gets the
        new tags."""
        new = NewPassage(
            self.text,
            "semantic",
            self.tags,
            importance=None,
            confidence=1.0,
            source_kind="step",
            source_id=acting.step_id,
            label=acting.label,
        )
        check(new)
        near = self._near(tx, acting)
        passage_id, existing = keep(tx, acting.agent_id, new, acting.now)
        if existing:
            near = []
        elif self.placed is not None:
            keep_vectors(tx, passage_id, self._searched, self.placed)
        shown = near[:TOLD]
        return Told(
            "results/archived",
            {
                "id": passage_id,
                "existing": existing,
                "near": [{"id": one.id, "text": _cut(one.text)} for one in shown],
                "more": len(near) - len(shown),
            },
            label=lowest(["tool", *(one.label for one in shown)]),
        )

    def _near(self, tx: Transaction, acting: Acting) -> list[PassageRow]:
        """What says nearly the same and is there, newest first."""
        least = acting.near_repeats
        if self.placed is None or least is None:
            return []
        return like(tx, acting.agent_id, self.text, self.placed, least=least, now=acting.now)


def _cut(text: str) -> str:
    """A text on one line, its beginning if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= TOLD_CHARS else line[:TOLD_CHARS].rstrip() + "…"


def keep(tx: Transaction, agent_id: str, new: NewPassage, now: datetime) -> tuple[str, bool]:
    """Stores a passage in the agent's archive.

    Returns:
        its id, and whether the same text stood there already.

    Raises:
        InvalidInput: as `check`.
    """
    check(new)
    return keep_all(tx, agent_id, [new], now)[0]


def keep_all(
    tx: Transaction, agent_id: str, new: Sequence[NewPassage], now: datetime
) -> list[tuple[str, bool]]:
    """Stores passages in the agent's archive, each an instant after the one before, as if they were
    kept one by one: the one door for tools, the API and imports.

    Args:
        new: what `check` has let pass.
        now: the first one's instant; they are a microsecond apart.

    Returns:
        of each, in the order given, its id and whether the same text stood there already, be it as
        one of these.
    """
    archive_id = rows.archive_of(tx, agent_id)
    if archive_id is None:
        archive_id = rows.add_archive(tx, agent_id, now)
    hashes = [rows.content_hash(one.text) for one in new]
    known = rows.same_texts(tx, archive_id, hashes, now)
    first = {one: place for place, one in reversed(list(enumerate(hashes))) if one not in known}
    fresh = sorted(first.values())
    instants = [now + place * APART for place in range(len(new))]
    ids = rows.add_all(
        tx, archive_id, agent_id, [new[at] for at in fresh], [instants[at] for at in fresh]
    )
    sources = [
        (("passage", passage_id), (new[at].source_kind, source))
        for passage_id, at in zip(ids, fresh, strict=True)
        if (source := new[at].source_id) is not None
    ]
    message_rows.each_made_from(tx, sources, "saved_in")
    if fresh:
        agent_rows.count_archival(tx, agent_id, len(fresh))
    known |= {hashes[at]: passage_id for passage_id, at in zip(ids, fresh, strict=True)}
    kept = []
    for place, one in enumerate(hashes):
        existing = first.get(one) != place
        if existing:
            rows.renew(tx, known[one], new[place], instants[place])
        kept.append((known[one], existing))
    return kept


def check(new: NewPassage) -> None:
    """Refuses what cannot be kept.

    Raises:
        InvalidInput: empty text, a tag that is no short line, an unknown kind, a bad number.
    """
    checked_text(new.text, "the passage")
    check_tags(new.tags)
    check_tags(new.purposes, "purpose")
    for value, what in (
        (new.source_id, "the source"),
        (new.subject, "the subject"),
        (new.attribute, "the attribute"),
        (new.scope, "the scope"),
    ):
        if value is not None:
            checked_text(value, what)
    if new.kind not in KINDS:
        raise InvalidInput(f"kind must be one of {', '.join(KINDS)}, not {new.kind!r}")
    if new.importance is not None and not 1 <= new.importance <= 10:
        raise InvalidInput(f"importance goes from 1 to 10, not {new.importance}")
    if not 0 <= new.confidence <= 1:
        raise InvalidInput(f"confidence goes from 0 to 1, not {new.confidence}")


def check_tags(tags: tuple[str, ...], what: str = "tag") -> None:
    """Refuses what cannot be tags, or purposes.

    Raises:
        InvalidInput: more than 20, or one that is no line of 1 to 100 characters.
    """
    if len(tags) > MAX_TAGS:
        raise InvalidInput(f"at most {MAX_TAGS} {what}s, not {len(tags)}")
    for tag in tags:
        if len(checked_text(tag, f"a {what}")) > 100 or len(tag.splitlines()) > 1:
            raise InvalidInput(f"a {what} is one line of at most 100 characters: {tag[:40]!r}")


def _dates(row: PassageRow, timezone: str) -> dict[str, str | None]:
    """When it happened where that is known, and when it was kept: which of two is true now is told
    by the former."""
    kept = local_minute(row.created_at, timezone)
    if row.happened_at is None:
        return {"date": kept, "kept": None}
    return {"date": local_minute(row.happened_at, timezone), "kept": kept}


@dataclass
class SearchPassages:
    """`archival_memory_search`: one page of found passages."""

    words: str
    tags: tuple[str, ...] = ()
    page: int = 0
    near: Near | None = field(default=None, init=False)
    """What `prepare` found by meaning."""
    pending: int = field(default=0, init=False)
    """What could not be found by meaning yet."""

    async def prepare(self, acting: Acting) -> None:
        """Looks for what is near in meaning."""
        given, words = self._given(acting), blank_is_none(self.words)
        near, self.pending = await sought(acting.meaning, words, rows.allowed(given))
        doubts = partial(
            doubtful_passages,
            given=given,
            ranking=acting.ranking,
            near_repeats=acting.near_repeats,
        )
        self.near = await read(acting.meaning, near, words, doubts)

    def _given(self, acting: Acting) -> PassageFilter:
        return PassageFilter(acting.agent_id, acting.now, tags=self.tags)

    def apply(self, tx: Transaction, acting: Acting) -> Told:
        """Reads, and notes that what it shows was used."""
        if self.page < 0:
            raise InvalidInput(f"page must be 0 or more, not {self.page}")
        offset = min(self.page, 10**9) * acting.page_size
        hits, total = search_passages(
            tx,
            blank_is_none(self.words),
            self._given(acting),
            ranking=acting.ranking,
            offset=offset,
            limit=acting.page_size,
            near=self.near,
            sure=True,
            near_repeats=acting.near_repeats,
        )
        if not hits and total:
            return past_the_end(self.words, self.page, total, acting.page_size)
        if not hits:
            _, searched = agent_rows.counts(tx, acting.agent_id)
            return Told(
                "results/nothing_found",
                {
                    "query": self.words,
                    "total_searched": searched,
                    "filters": ["tags"] if self.tags else [],
                    "pending": self.pending,
                },
            )
        rows.refresh(tx, [hit.id for hit in hits], acting.now)
        return Told(
            "results/passages",
            {
                "query": self.words,
                "timezone": acting.timezone,
                "hits": [
                    {
                        "id": hit.id,
                        **_dates(hit, acting.timezone),
                        "tags": list(hit.tags),
                        "source": hit.label,
                        "document": hit.source_id if hit.source_kind == rows.DOCUMENT else None,
                        "position": hit.position,
                        "text": hit.text,
                    }
                    for hit in hits
                ],
                "first": offset + 1,
                "total": total,
                "next_page": self.page + 1 if offset + len(hits) < total else None,
            },
            label=lowest(["tool", *(hit.label for hit in hits)]),
        )
