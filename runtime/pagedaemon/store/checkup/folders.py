"""The folders of vector indexes beside a space's file: which cannot be trusted, and which nobody
uses. An index is thrown away rather than repaired."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pagedaemon.store.checkup.findings import Symptom
from pagedaemon.store.index import generations


def bad_indexes(folder: Path, models: Iterable[str]) -> Iterator[Symptom]:
    """The generations that are of no use. What a process has open is left out: it sees to it.

    Args:
        folder: where indexes are kept.
        models: the embedding models whose vectors are stored.
    """
    used = {generations.folder_name(model) for model in models}
    for root in sorted(folder.glob("*")) if folder.is_dir() else ():
        if not root.is_dir() or generations.is_open(root):
            continue
        there = generations.numbers(root)
        for number in there:
            where = f"{root.name}/gen-{number}"
            if root.name not in used or number != max(there):
                yield Symptom("index_unused", where, "an index that nobody uses")
            elif (why := generations.distrust(root / f"gen-{number}")) is not None:
                yield Symptom("index_unclean", where, f"an index that {why}")


def throw_away(folder: Path, symptoms: Iterable[Symptom]) -> None:
    """Removes these generations, but for those that a process has opened meanwhile."""
    for symptom in symptoms:
        root, _, generation = symptom.where.partition("/")
        generations.throw_away(folder / root, generation)
