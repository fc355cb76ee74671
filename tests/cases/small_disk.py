"""A small file system that one process has for itself, to be filled."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

PAGE = 4096
"""Bytes that the file system gives at a time, as the store does."""

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
"""As in `sched.h` and `sys/mount.h` of Linux."""


def unshare_mounts() -> None:
    """What this process mounts from here on nobody else sees, and it goes with the process.

    Raises:
        OSError: the system does not permit it. It takes CAP_SYS_ADMIN, or user namespaces; a locked
            container has neither, and only Linux has mount namespaces.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "unshare"):
        raise OSError("this system has no mount namespaces")
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWNS):
        _call(libc.unshare, CLONE_NEWNS | CLONE_NEWUSER)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    _call(libc.mount, b"none", b"/", None, MS_REC | MS_PRIVATE, None)


class SmallDisk:
    """A tmpfs, mounted by a process with mounts of its own.

    Args:
        folder: where; it must be there.
        size: bytes that it holds.

    Raises:
        OSError: the system does not permit it.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self.folder = folder
        self._filler = folder / "filler"
        libc = ctypes.CDLL(None, use_errno=True)
        options = f"size={size}".encode()
        _call(libc.mount, b"tmpfs", os.fsencode(folder), b"tmpfs", 0, options)

    def fill(self, free: int = 0) -> None:
        """Leaves so many pages."""
        found = os.statvfs(self.folder)
        taken = found.f_bavail * found.f_frsize - free * PAGE
        if taken > 0:
            with self._filler.open("wb") as filler:
                os.posix_fallocate(filler.fileno(), 0, taken)

    def make_room(self) -> None:
        """Takes the filling out."""
        self._filler.unlink(missing_ok=True)


def _call(function: Callable[..., int], *arguments: object) -> None:
    if function(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
