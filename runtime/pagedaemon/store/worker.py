"""A worker's sign of life: an operating-system lock held for as long as its process runs.

The lease of a dead worker is told from that of a busy one by whether its lock can be taken. The
operating system frees it at any death, so recovery waits for no clock.
"""

from __future__ import annotations

import os
import uuid
import weakref
from pathlib import Path

from pagedaemon.config import LEASE_SECONDS
from pagedaemon.errors import StorageUnavailable
from pagedaemon.store.locks import hold, is_held

_here: weakref.WeakSet[Worker] = weakref.WeakSet()
"""The workers of this process."""


def _let_go_in_child() -> None:
    for worker in list(_here):
        worker.forget()


if hasattr(os, "register_at_fork"):
    # A forked child shares the lock, and would seem to be its parent long after that has died.
    os.register_at_fork(after_in_child=_let_go_in_child)


class Worker:
    """This process, as the owner of leases.

    Args:
        folder: where the workers of one store keep their locks; made if missing.
        lease_seconds: how long its leases last after each renewal.

    Raises:
        StorageUnavailable: the folder cannot be written.
    """

    def __init__(self, folder: Path, lease_seconds: float = LEASE_SECONDS) -> None:
        self.id = uuid.uuid4().hex
        self.lease_seconds = lease_seconds
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # Locked before it has its name: nobody can see it free in between and take us for dead.
            unnamed = folder / f"{self.id}.new"
            self._file = unnamed.open("xb")
            hold(self._file)
            unnamed.rename(self._path(self.id))
        except OSError as error:
            raise StorageUnavailable(f"{folder} cannot be written: {error}") from error
        _here.add(self)

    def alive(self, owner: str) -> bool:
        """Whether that owner's process still runs. Our own does."""
        if owner == self.id or _is_alive(self._folder, owner):
            return True
        path = self._path(owner)
        if not path.is_dir():  # which no worker has made, and nobody but a person can judge
            path.unlink(missing_ok=True)
        return False

    def gone(self) -> list[str]:
        """Owners whose process is gone, and whose lock file is still there."""
        return _gone(self._folder)

    def close(self) -> None:
        """Lets go: whatever this worker still held may be taken up by others."""
        if self not in _here:
            return
        self.forget()
        self._path(self.id).unlink(missing_ok=True)

    def forget(self) -> None:
        """Lets go without a trace on the disk: of a lock that belongs to the process this one was
        forked from, whose file stays that process's."""
        _here.discard(self)
        self._file.close()

    def _path(self, owner: str) -> Path:
        return _lock_file(self._folder, owner)


class Onlooker:
    """Sees which workers of a store live, and is none: it owns nothing and writes nothing.

    Args:
        folder: where the workers keep their locks. It need not be there.
    """

    id = ""
    lease_seconds = LEASE_SECONDS
    """What is taken for the lease of the workers that are looked at."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def alive(self, owner: str) -> bool:
        """Whether that owner's process still runs."""
        return _is_alive(self._folder, owner)

    def gone(self) -> list[str]:
        """As of `Worker`."""
        return _gone(self._folder)


def _lock_file(folder: Path, owner: str) -> Path:
    return folder / f"{owner}.lock"


def _is_alive(folder: Path, owner: str) -> bool:
    path = _lock_file(folder, owner)
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return False
    except OSError as error:
        if path.is_dir():
            return False
        raise StorageUnavailable(f"the lock file {path} cannot be read: {error}") from error
    with file:
        return is_held(file)


def _gone(folder: Path) -> list[str]:
    owners = sorted(path.stem for path in folder.glob("*.lock"))
    # Also one that is closing at this moment, whose file goes by itself.
    return [
        one for one in owners if not _is_alive(folder, one) and _lock_file(folder, one).exists()
    ]
