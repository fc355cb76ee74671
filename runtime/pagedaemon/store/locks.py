"""Locks of the operating system on files: let go of at any death of the process that holds them."""

from __future__ import annotations

import sys
from typing import IO

if sys.platform == "win32":
    import msvcrt

    def hold(file: IO[bytes]) -> None:
        """Takes the lock on an open file, or raises `OSError` at once where another has it."""
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

    def is_held(file: IO[bytes]) -> bool:
        """Whether another has it."""
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return True
        return False
else:
    import fcntl

    def hold(file: IO[bytes]) -> None:
        """Takes the lock on an open file, or raises `OSError` at once where another has it."""
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def is_held(file: IO[bytes]) -> bool:
        """Whether another has it."""
        # Shared: two who ask at once must not take each other for the owner.
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
