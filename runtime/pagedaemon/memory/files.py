"""Files that people bring: found, read whole and decoded, or refused with a word on what to do."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pagedaemon.errors import InvalidInput, NotFound
from pagedaemon.media import marked_encoding

LARGEST_FILE = 200_000_000
"""Bytes: a file is read whole, and takes some times its size in memory meanwhile."""

_CHARSET = re.compile(
    rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE
)


def file_path(given: object, instead: str) -> Path:
    """The file that is meant. Text is always taken as a path, never guessed to be content.

    Args:
        instead: what to do where the content itself was given.

    Raises:
        InvalidInput: no path, or a text that can be none.
        NotFound: there is no such file.
    """
    if not isinstance(given, str | os.PathLike):
        raise InvalidInput(f"give the path of a file, not {type(given).__name__}; {instead}")
    text = os.fspath(given)
    if not isinstance(text, str):
        raise InvalidInput(f"a path is text, not {type(text).__name__}; {instead}")
    if not text.strip() or "\n" in text or "\x00" in text or len(text) > 4_096:
        raise InvalidInput(f"this is not the path of a file: {text[:40]!r}; {instead}")
    path = Path(text)
    try:
        if path.is_file():
            return path
        there = path.exists()
    except OSError as error:
        raise InvalidInput(f"no file can be called {text[:200]!r} ({error}); {instead}") from error
    if there:
        raise InvalidInput(f"{path} is no file: give one file, and the next in a call of its own")
    raise NotFound(f"there is no file {path} (the folder is {Path.cwd()}); {instead}")


def decoded(path: Path, encoding: str | None, *, html: bool = False) -> str:
    """What a text file says.

    Args:
        encoding: of the file. None: what its byte order mark or an HTML page itself says, else
            UTF-8.

    Raises:
        InvalidInput: it cannot be read, is too large, is no text, or is text in another encoding.
    """
    checked_encoding(encoding)
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise InvalidInput(
                f"{path} is larger than {LARGEST_FILE:,} bytes: split it into several files"
            )
        raw = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read ({error}): check its permissions") from error
    if raw.startswith(b"%PDF-"):
        raise InvalidInput(f"{path} is a PDF, which is not read here: convert it to text first")
    said = encoding or _said(raw, html) or "utf-8"
    try:
        text = raw.decode(said)
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path} is not {said} text (byte {error.start}): give its encoding, such as "
            "encoding='cp1252', or convert it to text first if it is a PDF, an office document or "
            "an archive"
        ) from error
    except (LookupError, UnicodeError) as error:
        raise InvalidInput(f"{path} cannot be read as {said} ({error}): give encoding=") from error
    at = text.find("\x00")
    if at >= 0:
        raise InvalidInput(
            f"{path} is no text: character {at} is NUL; convert it first, or give its encoding, "
            "such as encoding='utf-16-le'"
        )
    return text.removeprefix("\ufeff")


def checked_encoding(encoding: object) -> None:
    """Refuses what is no name of a text encoding.

    Raises:
        InvalidInput: it is none that Python knows.
    """
    if encoding is None:
        return
    try:
        if isinstance(encoding, str):
            "".encode(encoding)
            return
    except (LookupError, ValueError) as error:
        raise InvalidInput(f"unknown encoding {encoding!r} ({error})") from error
    raise InvalidInput(f"an encoding is a name such as 'cp1252', not {type(encoding).__name__}")


def _said(raw: bytes, html: bool) -> str | None:
    if (marked := marked_encoding(raw)) is not None:
        return marked
    found = _CHARSET.search(raw[:2_048]) if html else None
    return None if found is None else found[1].decode("ascii")
