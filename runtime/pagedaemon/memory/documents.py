"""Documents in an archive: loaded in chunks, replaced by loading them again, and taken out.

A document is known by its name; each of its chunks is a passage of kind `document` with the source
`("file", name)`. Loading writes what is new, in batches, and only then takes out what is no longer
there. So whatever ends it halfway leaves the old text whole beside some of the
new, or the new text whole beside some of the old, and loading it again finishes the work.

The label is `tool` unless the owner says otherwise: the owner chose the document and did not write
it. So it never stands above what a user or the owner says, and reading it makes no turn suspect,
as text from an unknown hand (`external`) would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from pagedaemon.agent import checked_name
from pagedaemon.errors import AlreadyExists, InvalidInput, NotFound
from pagedaemon.memory.archival import check_tags
from pagedaemon.memory.chunks import checked_size, chunks
from pagedaemon.memory.files import decoded, file_path
from pagedaemon.memory.markup import Format, format_of, pieces
from pagedaemon.messages import LABELS, Label, checked_text
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import documents as rows
from pagedaemon.store import passages as passage_rows
from pagedaemon.store.passages import DOCUMENT, NewPassage
from pagedaemon.store.transaction import Transaction

Progress: TypeAlias = Callable[[int, int | None, str], None]
"""Told how much is done, of how much (None: not known yet), and what of."""

BATCH = 500
"""Passages or messages in one transaction, so that a long load lets others write in between."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What loading a document came to, in passages."""

    name: str
    passages: int
    """It has now."""
    removed: int
    """No longer in it, and gone."""
    unchanged: int
    """Were there before and keep their ids."""


@dataclass(frozen=True, slots=True)
class Document:
    """A loaded document."""

    name: str
    passages: int
    loaded_at: datetime
    """When it was loaded last."""


@dataclass(frozen=True, slots=True)
class Manuscript:
    """A document that was read and is not stored yet."""

    name: str
    texts: tuple[str, ...]
    """Its chunks in order, each once."""
    tags: tuple[str, ...]
    label: Label
    note: str | None
    """The file it came from."""
    named: bool
    """Whether the name was given, and not taken from the file's."""


def read_file(
    source: object,
    *,
    name: str | None,
    form: str,
    tags: Sequence[str],
    label: str,
    chunk_chars: int,
    encoding: str | None,
) -> Manuscript:
    """Reads a file into chunks. Blocks; the file's text is held in memory meanwhile.

    Raises:
        NotFound: there is no such file.
        InvalidInput: it is no readable text, or another value cannot be.
    """
    path = file_path(source, "for the text itself use load_text(text, name=...)")
    called = _called(path, name)
    found = format_of(form, path.suffix)
    checked = _checked(tags, label, chunk_chars)
    text = decoded(path, encoding, html=found == "html")
    texts = _chunked(called, text, found, chunk_chars)
    # A file's name may be no valid Unicode; it stays another one than its neighbours'.
    place = str(path.resolve()).encode(errors="backslashreplace").decode()
    return Manuscript(called, texts, *checked, place, name is not None)


def read_text(
    text: object,
    *,
    name: str,
    form: str,
    tags: Sequence[str],
    label: str,
    chunk_chars: int,
) -> Manuscript:
    """Cuts a text into chunks.

    Raises:
        InvalidInput: it cannot be stored, or another value cannot be.
    """
    called = checked_name(name, "the document's name")
    found = format_of(form, Path(called).suffix)
    checked = _checked(tags, label, chunk_chars)
    whole = checked_text(text, "the document", empty=True)
    texts = _chunked(called, whole, found, chunk_chars)
    return Manuscript(called, texts, *checked, None, named=True)


def _checked(tags: Sequence[str], label: str, chunk_chars: int) -> tuple[tuple[str, ...], Label]:
    given = tuple(tags)
    check_tags(given)
    checked_size(chunk_chars)
    for known in LABELS:
        if label == known:
            return given, known
    raise InvalidInput(f"label is one of {', '.join(LABELS)}, not {label!r}")


def _called(path: Path, name: str | None) -> str:
    if name is not None:
        return checked_name(name, "the document's name")
    try:
        return checked_name(path.name, "the document's name")
    except InvalidInput as error:
        raise InvalidInput(f"{error}. It was taken from the file's: give name=...") from error


def _chunked(name: str, text: str, form: Format, size: int) -> tuple[str, ...]:
    # What stands in a document twice, such as a line at the foot of each page, is found once.
    texts = tuple(dict.fromkeys(chunks(pieces(text, form), size)))
    if not texts:
        raise InvalidInput(
            f"{name!r} has no text that could be loaded: it is empty, or no {form} document; to "
            "take a document out, use unload(name)"
        )
    return texts


def archive_for(tx: Transaction, agent_id: str, document: Manuscript, now: datetime) -> str:
    """The archive that a document goes to.

    Raises:
        NotFound: the agent was deleted.
        AlreadyExists: its name was taken from its file, and another file's document has it.
    """
    agent_rows.require(tx, agent_id)
    archive_id = passage_rows.archive_of(tx, agent_id)
    if archive_id is None:
        return passage_rows.add_archive(tx, agent_id, now)
    origin = rows.origin(tx, archive_id, document.name)
    if origin is not None and origin[0] != document.note and not document.named:
        raise AlreadyExists(
            f"a document {document.name!r} was loaded from another place "
            f"({origin[0] or 'a text'}): give name={document.name!r} to "
            "replace it, or another name to keep both"
        )
    return archive_id


def compare(tx: Transaction, archive_id: str, document: Manuscript) -> tuple[list[int], list[str]]:
    """Which of a document's chunks are not stored yet, by their place in it from 0, and the ids of
    what is stored and no longer in it."""
    places = {text: at for at, text in enumerate(document.texts)}
    stored = rows.texts_of(tx, archive_id, document.name)
    gone = [passage_id for passage_id, text in stored if places.pop(text, None) is None]
    return list(places.values()), gone


def add(
    tx: Transaction,
    agent_id: str,
    archive_id: str,
    document: Manuscript,
    places: Sequence[int],
    now: datetime,
) -> None:
    """Stores some of a document's chunks, by their place in it from 0."""
    agent_rows.require(tx, agent_id)
    new = [
        NewPassage(
            document.texts[at],
            "document",
            document.tags,
            importance=None,
            confidence=1.0,
            source_kind=DOCUMENT,
            source_id=document.name,
            source_note=document.note,
            label=document.label,
            position=at + 1,
        )
        for at in places
    ]
    passage_rows.add_all(tx, archive_id, agent_id, new, [now] * len(new))
    agent_rows.count_archival(tx, agent_id, len(new))


def finish(
    tx: Transaction, agent_id: str, archive_id: str, document: Manuscript, now: datetime
) -> int:
    """Makes the document just what was read, whatever another load of the same name has done
    meanwhile: the last one to end wins whole. Returns how many passages went."""
    new, gone = compare(tx, archive_id, document)
    removed = remove(tx, agent_id, gone)
    if new:
        add(tx, agent_id, archive_id, document, new, now)
    places = {text: at for at, text in enumerate(document.texts, 1)}
    stored = rows.texts_of(tx, archive_id, document.name)
    rows.reload(
        tx,
        archive_id,
        document.name,
        positions={passage_id: places[text] for passage_id, text in stored},
        label=document.label,
        note=document.note,
        now=now,
    )
    return removed


def retag(tx: Transaction, archive_id: str, document: Manuscript, now: datetime) -> int:
    """Gives some of a document's passages its tags; how many had others. To be repeated until that
    is 0."""
    return rows.retag(tx, archive_id, document.name, document.tags, BATCH, now)


def remove(tx: Transaction, agent_id: str, passage_ids: Sequence[str]) -> int:
    """Takes passages out of an agent's archive. Returns how many were there."""
    removed = passage_rows.remove(tx, agent_id, passage_ids)
    agent_rows.count_archival(tx, agent_id, -removed)
    return removed


def listed(tx: Transaction, agent_id: str) -> list[Document]:
    """An agent's documents, by name.

    Raises:
        NotFound: the agent was deleted.
    """
    agent_rows.require(tx, agent_id)
    archive_id = passage_rows.archive_of(tx, agent_id)
    if archive_id is None:
        return []
    return [Document(row.name, row.passages, row.loaded_at) for row in rows.listed(tx, archive_id)]


def ids_of(tx: Transaction, agent_id: str, name: str) -> list[str]:
    """Ids of a document's passages.

    Raises:
        NotFound: there is none of that name.
    """
    archive_id = passage_rows.archive_of(tx, agent_id)
    ids = [] if archive_id is None else rows.ids_of(tx, archive_id, name)
    if not ids:
        known = ", ".join(repr(row.name) for row in listed(tx, agent_id)) or "none"
        raise NotFound(f"no document {name!r} in this agent's archive; there are: {known}")
    return ids
