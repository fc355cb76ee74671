"""What a program gives an archive to keep: records as data, checked before any is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime

from pagedaemon.errors import InvalidInput, InvalidRecord
from pagedaemon.handles.arguments import checked_instant, checked_many
from pagedaemon.handles.page import number, several, text_or_none
from pagedaemon.store.passages import NewPassage


@dataclass(frozen=True, slots=True)
class Record:
    """Something to keep, for `archive.insert_many`. The fields are the arguments of
    `archive.insert`, which also checks them: making one never fails."""

    text: str
    _: KW_ONLY
    kind: str = "semantic"
    """`semantic`, `episodic`, `procedural` or `document`."""
    tags: Sequence[str] = ()
    importance: float | None = None
    """1 to 10; None: not rated."""
    confidence: float = 1.0
    """0 to 1."""
    source: str | None = None
    """Where it comes from, in your own words or as an id."""
    purposes: Sequence[str] = ()
    """What it is for: `search(purposes=...)` asks for it."""
    happened_at: datetime | None = None
    expires_at: datetime | None = None


def checked_record(record: Record, now: datetime) -> NewPassage:
    """A record as it is stored.

    Raises:
        InvalidInput: empty text, a value out of its range or of another type.
    """
    number(record.importance, "importance")
    number(record.confidence, "confidence", required=True)
    text_or_none(record.source, "source")
    new = NewPassage(
        record.text,
        record.kind,
        several(record.tags, "tags"),
        record.importance,
        record.confidence,
        source_kind="api",
        source_id=record.source,
        label="owner",
        purposes=several(record.purposes, "purposes"),
        happened_at=checked_instant(record.happened_at, "happened_at"),
        expires_at=checked_instant(record.expires_at, "expires_at"),
    )
    from pagedaemon.memory.archival import check

    check(new)
    if new.expires_at is not None and new.expires_at <= now:
        raise InvalidInput("expires_at lies in the past: the record would be gone at once")
    return new


def all_given(records: object) -> tuple[object, ...]:
    """What is in a list of records; an iterator is read here, by whoever calls.

    Raises:
        InvalidInput: it is none.
    """
    return checked_many(records, "records", '[Record("Lin moved to Porto", tags=["home"])]')


def checked_records(records: Sequence[object], now: datetime) -> list[NewPassage]:
    """All of them, in order; a text is a record of nothing but itself.

    Raises:
        InvalidRecord: one that is refused.
    """
    return [_checked(place, one, now) for place, one in enumerate(records)]


def _checked(place: int, one: object, now: datetime) -> NewPassage:
    if isinstance(one, str):
        one = Record(one)
    if not isinstance(one, Record):
        raise InvalidRecord(place, f"it is a Record or a text, not {type(one).__name__}")
    try:
        return checked_record(one, now)
    except InvalidInput as error:
        raise InvalidRecord(place, str(error)) from error
