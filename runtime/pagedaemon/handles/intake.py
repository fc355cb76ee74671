"""Documents into an archive and history into recall: read off the loop, stored in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from os import PathLike
from typing import TypeAlias

from pagedaemon.agent import checked_name
from pagedaemon.clock import zone
from pagedaemon.errors import InvalidInput
from pagedaemon.memory import documents, history
from pagedaemon.memory.documents import BATCH, Loaded, Manuscript, Progress
from pagedaemon.memory.files import decoded, file_path
from pagedaemon.memory.history import Chat, Imported, Reading
from pagedaemon.memory.openai_history import from_export
from pagedaemon.messages import Message
from pagedaemon.scheduler import Scheduler
from pagedaemon.store import agents as agent_rows


async def load(
    scheduler: Scheduler,
    agent_id: str,
    read: Callable[[], Manuscript],
    progress: Progress | None,
) -> Loaded:
    """Reads a document and makes the archive's copy of it the same."""
    tell = _telling(progress)
    document = await asyncio.to_thread(read)
    clock, store, total = scheduler.clock, scheduler.store, len(document.texts)
    archive_id = await store.write(
        lambda tx: documents.archive_for(tx, agent_id, document, clock.now())
    )
    new, gone = await store.read(lambda tx: documents.compare(tx, archive_id, document))
    unchanged = total - len(new)
    tell(unchanged, total, document.name)
    for at in range(0, len(new), BATCH):
        batch, now = new[at : at + BATCH], clock.now()
        await store.write(
            partial(
                documents.add,
                agent_id=agent_id,
                archive_id=archive_id,
                document=document,
                places=batch,
                now=now,
            )
        )
        tell(unchanged + at + len(batch), total, document.name)
    removed = await _remove(scheduler, agent_id, gone)
    while await store.write(lambda tx: documents.retag(tx, archive_id, document, clock.now())):
        pass
    removed += await store.write(
        lambda tx: documents.finish(tx, agent_id, archive_id, document, clock.now())
    )
    return Loaded(document.name, total, removed, unchanged)


async def unload(scheduler: Scheduler, agent_id: str, name: str) -> int:
    """Takes a document out of an archive. Returns how many passages it had."""
    ids = await scheduler.store.read(lambda tx: documents.ids_of(tx, agent_id, name))
    return await _remove(scheduler, agent_id, ids)


async def _remove(scheduler: Scheduler, agent_id: str, ids: Sequence[str]) -> int:
    removed = 0
    for at in range(0, len(ids), BATCH):
        some = ids[at : at + BATCH]
        removed += await scheduler.store.write(
            partial(documents.remove, agent_id=agent_id, passage_ids=some)
        )
    return removed


Read: TypeAlias = Callable[[Reading], list[Chat]]
"""Reads a history, whatever its format."""


def json_lines(
    given: str | PathLike[str] | Iterable[str | Mapping[str, object]],
    conversation: str,
    encoding: str | None,
) -> Read:
    """A history of JSON lines, in a file or at hand."""
    name = checked_name(conversation, "the conversation's name")

    def read(reading: Reading) -> list[Chat]:
        if isinstance(given, str | PathLike):
            path = file_path(given, "for the lines themselves give a list of them")
            lines: Iterable[object] = decoded(path, encoding).split("\n")
            return history.from_lines(lines, name, path.name, reading)
        if isinstance(given, bytes | Mapping) or not isinstance(given, Iterable):
            raise InvalidInput(
                f"give the path of a file, or lines of JSON, not {type(given).__name__}"
            )
        return history.from_lines(given, name, "lines", reading)

    return read


def openai_export(
    given: str | PathLike[str], conversation: str | None, encoding: str | None
) -> Read:
    """An export in one of OpenAI's shapes, in a file."""
    name = None if conversation is None else checked_name(conversation, "the conversation's name")

    def read(reading: Reading) -> list[Chat]:
        path = file_path(given, "for messages in memory use import_jsonl with a list of them")
        return from_export(decoded(path, encoding), name, path.name, reading)

    return read


async def bring_in(
    scheduler: Scheduler, agent_id: str, read: Read, on_error: str, progress: Progress | None
) -> Imported:
    """Reads a history and stores what is new of it."""
    tell = _telling(progress)
    store, now = scheduler.store, scheduler.clock.now()
    record = await store.read(lambda tx: agent_rows.require(tx, agent_id))
    reading = Reading(zone(record.settings.timezone), on_error)
    ready = await asyncio.to_thread(lambda: _by_conversation(read(reading), agent_id, now))
    total = sum(map(len, ready.values()))
    done = added = 0
    for name, messages in ready.items():
        for at in range(0, len(messages), BATCH):
            batch = messages[at : at + BATCH]
            added += await store.write(
                partial(history.add, agent_id=agent_id, name=name, messages=batch, now=now)
            )
            done += len(batch)
            tell(done, total, name)
    return Imported(added, total - added, reading.skipped, tuple(ready))


def _by_conversation(chats: list[Chat], agent_id: str, now: datetime) -> dict[str, list[Message]]:
    """What each conversation gets, by time."""
    ready: dict[str, list[Message]] = {}
    for chat in chats:
        if chat.said:
            ready.setdefault(chat.name, []).extend(history.dated(chat, agent_id, now))
    for messages in ready.values():
        messages.sort(key=lambda message: message.created_at)
    return ready


def _telling(progress: object) -> Progress:
    if progress is None:
        return lambda done, total, what: None
    if not callable(progress):
        raise InvalidInput("progress is a function of (done, total, what)")
    return progress
