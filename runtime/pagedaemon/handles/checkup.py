"""A look at a space: what is wrong with it, and mending that.

What is wrong is looked for, mended, and looked for again: so `mended` is what the second look does
not find any more, whoever has mended it.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from pagedaemon.clock import Clock, SystemClock
from pagedaemon.errors import StorageUnavailable
from pagedaemon.scheduler import Scheduler
from pagedaemon.scheduler.checkup import Watcher, symptoms, tend, watcher
from pagedaemon.store import outbox, vectors
from pagedaemon.store.checkup import Report, Symptom, file, folders, rows, words
from pagedaemon.store.checkup.findings import compared, looked
from pagedaemon.store.database import INDEXES, Database
from pagedaemon.store.transaction import Transaction, tells_of_damage
from pagedaemon.store.worker import Onlooker


class Checkup:
    """A look at an open space.

    Args:
        scheduler: the space's.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._store: Database = scheduler.store
        self._indexes = scheduler.store.path.parent / INDEXES

    async def report(self, *, mend: bool) -> Report:
        """What is wrong, and what was done about it.

        Args:
            mend: False: it is only looked.

        Raises:
            StoreError: the store failed.
            Closed: the runtime was closed.
        """
        before, models = await self._look()
        if not mend:
            return Report(self._store.space, looked(before), models)
        if not any(one.kind == "file_damaged" for one in before):
            await self._mend(before)
        after, models = await self._look()
        return Report(self._store.space, compared(before, after), models)

    async def _look(self) -> tuple[list[Symptom], tuple[str, ...]]:
        try:
            found, models = await self._store.read(
                partial(_all, path=self._store.path, watching=watcher(self._scheduler))
            )
        except StorageUnavailable as error:
            return [_damaged(self._store.path, error)], ()
        if not any(one.kind == "file_damaged" for one in found):
            found += await self._reworded({one.where for one in found})
            found += await asyncio.to_thread(folders.bad_indexes, self._indexes, models)
        return found, models

    async def _reworded(self, known: set[str]) -> list[Symptom]:
        """Indexes of words that have other words than their texts."""
        found = []
        for index, _ in words.INDEXES:
            try:
                await self._store.write(words.compare(index))
            except StorageUnavailable as error:
                if not tells_of_damage(error):
                    raise
                if index not in known:
                    what = "the index of words has other words than the texts"
                    found.append(Symptom("word_index_damaged", index, what))
        return found

    async def _mend(self, found: list[Symptom]) -> None:
        store = self._store
        kinds = {one.kind for one in found}
        if "sql_index_damaged" in kinds:
            await store.write(file.remake_indexes)
        damaged = [one.where for one in found if one.kind == "word_index_damaged"]
        if damaged:
            await store.write(lambda tx: words.rebuild(tx, damaged))
        if "reference_broken" in kinds:
            await store.write(rows.remove_unreferenced)
        if "attachment_orphan" in kinds:
            await store.write(rows.return_attachments)
        if kinds & {"vector_orphan", "vector_damaged"}:
            await store.write(self._remove_bad_vectors)
        while "text_not_indexed" in kinds and await store.write(words.index_some):
            pass
        thrown = [one for one in found if one.kind in ("index_unclean", "index_unused")]
        await asyncio.to_thread(folders.throw_away, self._indexes, thrown)
        await tend(self._scheduler)
        if self._scheduler.meaning is not None:
            await self._scheduler.meaning.catch_up()

    def _remove_bad_vectors(self, tx: Transaction) -> None:
        wanted = rows.remove_bad_vectors(tx)
        outbox.enqueue(tx, wanted, self._scheduler.clock.now())


def examine(store: str | Path, space: str = "default", *, clock: Clock | None = None) -> Report:
    """Looks at a space that need not be open here, and may be open anywhere. It blocks, mends
    nothing, and writes nothing in the folder.

    Args:
        store: the folder, as of `Runtime`.
        space: which space of it.
        clock: the time that agents live in; default: this machine's.

    Raises:
        NotFound: there is no such space.
        StorageUnavailable: it cannot be read for a reason other than its content, such as that it
            is locked or not ours to read.
    """
    folder = Path(store)
    path = folder / "spaces" / space / "space.db"
    now = (SystemClock() if clock is None else clock).now()
    onlooker = Watcher(Onlooker(folder / "workers"), now)
    try:
        found, models = file.look(path, space, partial(_all, path=path, watching=onlooker))
    except StorageUnavailable as error:
        return Report(space, looked([_damaged(path, error)]))
    if not any(one.kind in ("file_damaged", "schema_old", "schema_new") for one in found):
        found += folders.bad_indexes(path.parent / INDEXES, models)
    return Report(space, looked(found), models)


def _all(
    tx: Transaction, *, path: Path, watching: Watcher
) -> tuple[list[Symptom], tuple[str, ...]]:
    """All that can be seen in the tables, and the embedding models whose vectors are stored."""
    found = file.revision(tx, path)
    if found:
        return found, ()
    found = file.damage(tx) + file.misshapen(tx)
    if not any(one.kind == "file_damaged" for one in found):
        found += list(file.unreadable(tx)) or list(rows.unreadable_agents(tx))
    if any(one.kind == "file_damaged" for one in found):
        return found, ()
    found += rows.broken_references(tx)
    found += rows.lost_attachments(tx)
    found += rows.vectors_without_text(tx)
    found += rows.damaged_vectors(tx)
    found += rows.waiting_vectors(tx)
    found += words.unindexed(tx)
    found += words.damaged_indexes(tx)
    found += symptoms(tx, watching)
    return found, tuple(name for name, _ in vectors.models(tx))


def _damaged(path: Path, error: StorageUnavailable) -> Symptom:
    """What a file that cannot be read for its content is told as; any other error is raised."""
    if not tells_of_damage(error):
        raise error
    return Symptom("file_damaged", path.name, str(error))
