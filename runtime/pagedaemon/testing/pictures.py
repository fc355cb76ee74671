"""A small picture to send, where there is none at hand."""

from __future__ import annotations

import struct
import zlib

from pagedaemon.errors import InvalidInput


def png(width: int = 64, height: int = 48, grey: int = 128) -> bytes:
    """A whole PNG of one shade, as bytes for `Image.from_bytes`.

    Args:
        width, height: pixels, at least 1.
        grey: 0 (black) to 255 (white).

    Raises:
        InvalidInput: a size or a shade that cannot be.
    """
    if width < 1 or height < 1 or not 0 <= grey <= 255:
        raise InvalidInput(f"no picture is {width} x {height} pixels of grey {grey}")
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    lines = zlib.compress((b"\x00" + bytes([grey]) * width) * height, 9)
    chunks = ((b"IHDR", header), (b"IDAT", lines), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
