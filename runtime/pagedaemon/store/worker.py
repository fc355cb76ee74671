"""A worker's sign of life: an operating-system lock held for as long as its process runs.

The lease of a dead worker is told from that of a busy one by whether its lock can be taken. The
operating system frees it at any death, so recovery waits for no clock.
"""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import IO

from pagedaemon.errors import StorageUnavailable

if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class Worker:
    """This process, as the owner of leases.

    Args:
        folder: where the workers of one store keep their locks; made if missing.
    """

    def __init__(self, folder: Path) -> None:
        self.id = uuid.uuid4().hex
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # Locked before it has its name: nobody can see it free in between and take us for dead.
            unnamed = folder / f"{self.id}.new"
            self._file = unnamed.open("xb")
            _try_lock(self._file)
            unnamed.rename(folder / f"{self.id}.lock")
        except OSError as error:
            raise StorageUnavailable(f"{folder} cannot be written: {error}") from error

    def alive(self, owner: str) -> bool:
        """Whether that owner's process still runs. Our own does."""
        if owner == self.id:
            return True
        path = self._folder / f"{owner}.lock"
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return False
        with file:
            if not _try_lock(file):
                return True
        path.unlink(missing_ok=True)
        return False

    def close(self) -> None:
        """Lets go: whatever this worker still held may be taken up by others."""
        self._file.close()
        (self._folder / f"{self.id}.lock").unlink(missing_ok=True)
