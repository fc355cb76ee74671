"""The folders of an index on the disk: generations, of which one is alive.

An index is thrown away rather than repaired. A generation is opened only if a marker says that it
was closed cleanly and every file is as it was then; the marker goes when it is opened. Otherwise
the next generation begins empty. One process at a time has the folder, by a lock of the operating
system that ends with the process.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pagedaemon.store.locks import hold, is_held

_CHROMA = "chroma"
_MARKER = "closed.json"
_LOCK = "lock"
_PIECE = 1 << 20

UNREADABLE = (OSError, ValueError, KeyError, TypeError)
"""What reading a marker raises that is missing, cut short, or of another shape."""


class Busy(Exception):
    """Another process has the folder."""


@dataclass(frozen=True, slots=True)
class Place:
    """How far an index has followed the table.

    Attributes:
        added: it has every vector that changes up to this number added.
        removed: it is without every vector that changes up to this number removed.
    """

    added: int = 0
    removed: int = 0


class Generations:
    """The folder of one space and model, held until the process ends.

    Args:
        root: the folder; made if missing.
        made_of: what the index was made of and with; one that was made otherwise is not opened.

    Raises:
        Busy: another process has it.
        OSError: it cannot be used.
    """

    def __init__(self, root: Path, made_of: dict[str, Any]) -> None:
        self._root = root
        self._made_of = made_of
        root.mkdir(parents=True, exist_ok=True)
        self._lock = (root / _LOCK).open("ab")
        try:
            hold(self._lock)
        except OSError as error:
            self._lock.close()
            raise Busy(f"another process has {root}") from error
        self._current = max(numbers(root), default=0)

    @property
    def folder(self) -> Path:
        """Where Chroma keeps the generation that is alive."""
        return self._generation / _CHROMA

    @property
    def _generation(self) -> Path:
        return self._root / f"gen-{self._current}"

    def take(self) -> Place | None:
        """Takes up the newest generation, from here on without its marker; None if it cannot be
        trusted."""
        marker = self._generation / _MARKER
        try:
            found = json.loads(marker.read_bytes())
            marker.unlink()
            _sync(self._generation)
            if found["made_of"] != self._made_of or found["files"] != _sums(self.folder):
                return None
            place = Place(int(found["place"]["added"]), int(found["place"]["removed"]))
        except UNREADABLE:
            # Whatever it is, the answer is to begin anew.
            return None
        self._clear(but=self._current)
        return place

    def begin(self) -> None:
        """Begins an empty generation and removes the others."""
        self._current += 1
        self.folder.mkdir(parents=True)
        self._clear(but=self._current)

    def leave(self, place: Place) -> None:
        """Marks the generation as closed cleanly. Nobody may have it open any more."""
        written = {"made_of": self._made_of, "place": asdict(place), "files": _sums(self.folder)}
        unfinished = self._generation / f"{_MARKER}.unfinished"
        with unfinished.open("wb") as file:
            file.write(json.dumps(written).encode())
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._generation / _MARKER)
        _sync(self._generation)

    def _clear(self, but: int) -> None:
        for number in numbers(self._root):
            if number != but:
                # What stays, because it cannot be removed now, is tried again next time.
                shutil.rmtree(self._root / f"gen-{number}", ignore_errors=True)


def folder_name(model: str) -> str:
    """The name of the folder in which the index of an embedding model is kept."""
    return hashlib.sha256(model.encode()).hexdigest()[:16]


def numbers(root: Path) -> list[int]:
    """The generations that are there."""
    names = [path.name for path in root.glob("gen-*")]
    return [int(name[4:]) for name in names if name[4:].isascii() and name[4:].isdecimal()]


def is_open(root: Path) -> bool:
    """Whether a process has the folder. Only looks."""
    try:
        file = (root / _LOCK).open("rb")
    except FileNotFoundError:
        return False
    with file:
        return is_held(file)


def distrust(generation: Path) -> str | None:
    """Why a generation would not be taken up; None where it would, as far as its files say. Only
    looks."""
    try:
        found = json.loads((generation / _MARKER).read_bytes())
        changed = found["files"] != _sums(generation / _CHROMA)
    except UNREADABLE:
        return "was not closed cleanly"
    return "has other files than when it was closed" if changed else None


def throw_away(root: Path, generation: str) -> None:
    """Removes a generation, unless a process has the folder."""
    try:
        with (root / _LOCK).open("ab") as lock:
            hold(lock)
            shutil.rmtree(root / generation, ignore_errors=True)
    except OSError:
        return  # in use, or not to be written: whoever looks again sees it


def remove(root: Path) -> bool:
    """Removes the folder of an index that is no longer wanted. Returns whether it is gone: not
    where another process has it."""
    if not root.is_dir():
        return True
    with (root / _LOCK).open("ab") as lock:
        try:
            hold(lock)
        except OSError:
            return False
        for generation in root.glob("gen-*"):
            shutil.rmtree(generation, ignore_errors=True)
    shutil.rmtree(root, ignore_errors=True)
    return not root.exists()


def _sums(folder: Path) -> dict[str, list[int]]:
    """Size and CRC-32 of every file. They are to find damage, not intent: every hit is looked up in
    the table anyway."""
    sums: dict[str, list[int]] = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        total = 0
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                total = zlib.crc32(piece, total)
        sums[path.relative_to(folder).as_posix()] = [path.stat().st_size, total]
    return sums


def _sync(folder: Path) -> None:
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
