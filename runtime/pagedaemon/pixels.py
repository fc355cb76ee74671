"""What the bytes of a picture say without being decoded: its format, its size, and whether they are
all there.

Sources: PNG specification, "Chunk layout", "IHDR", "IEND"; GIF89a specification, sections 15, 18,
20 to 23 and 27; ITU-T T.81, annex B (JPEG markers); RFC 9649 (WebP: the RIFF header, VP8, VP8L and
VP8X chunks).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

Size = tuple[int, int]
"""Width and height, in pixels."""

_SIGNATURES = (
    ("image/png", b"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", b"\xff\xd8\xff"),
    ("image/gif", b"GIF87a"),
    ("image/gif", b"GIF89a"),
)

_NOT_FRAMES = (0xC4, 0xC8, 0xCC)
"""JPEG markers from C0 to CF that begin no frame: tables, and one that is reserved."""

_BARE = (0x01, *range(0xD0, 0xD9))
"""JPEG markers without a length after them."""


def sniffed(data: bytes) -> str | None:
    """The media type of PNG, JPEG, GIF or WebP; None of everything else, whatever its name says."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for kind, signature in _SIGNATURES if data.startswith(signature)), None)


def size_of(data: bytes) -> Size | None:
    """The size of a picture from its header.

    None where these bytes do not tell: they are no such picture, are cut off before they say it, or
    say that it has no pixels.
    """
    kind = sniffed(data)
    found = _READERS[kind](data) if kind is not None else None
    return found if found is not None and min(found) > 0 else None


def is_whole(data: bytes) -> bool:
    """Whether a picture goes on to its end, as far as that can be told from how its parts are laid
    out. What stands behind the end, as phones and cameras write it, does not matter.

    False of what is no such picture.
    """
    kind = sniffed(data)
    return kind is not None and _WHOLE[kind](data)


def _png(data: bytes) -> Size | None:
    if len(data) < 24 or data[12:16] != b"IHDR":
        return None
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def _gif(data: bytes) -> Size | None:
    if len(data) < 10:
        return None
    return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")


def _jpeg(data: bytes) -> Size | None:
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
        elif marker in _BARE:
            at += 2
        elif 0xC0 <= marker <= 0xCF and marker not in _NOT_FRAMES:
            if at + 9 > len(data):
                return None
            height = int.from_bytes(data[at + 5 : at + 7], "big")
            return int.from_bytes(data[at + 7 : at + 9], "big"), height
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def _webp(data: bytes) -> Size | None:
    if len(data) < 30:
        return None
    form = data[12:16]
    if form == b"VP8X":
        width, height = data[24:27], data[27:30]
        return 1 + int.from_bytes(width, "little"), 1 + int.from_bytes(height, "little")
    if form == b"VP8L" and data[20] == 0x2F:
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if form == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = data[26:28], data[28:30]
        # The two high bits of each are a scale for showing it.
        return int.from_bytes(width, "little") & 0x3FFF, int.from_bytes(height, "little") & 0x3FFF
    return None


_READERS: Mapping[str, Callable[[bytes], Size | None]] = {
    "image/png": _png,
    "image/gif": _gif,
    "image/jpeg": _jpeg,
    "image/webp": _webp,
}


def _whole_png(data: bytes) -> bool:
    at = 8
    while at + 12 <= len(data):
        length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        at += 12 + length
        if kind == b"IEND":
            return at <= len(data)
    return False


def _whole_gif(data: bytes) -> bool:
    if len(data) < 13:
        return False
    at = 13 + _colours(data[10])
    frames = 0
    while at < len(data) and data[at] != 0x3B:  # the trailer
        if data[at] == 0x2C and at + 10 < len(data):
            frames += 1
            at = _behind_blocks(data, at + 11 + _colours(data[at + 9]))
        elif data[at] == 0x21:
            at = _behind_blocks(data, at + 2)
        else:
            return False
    # Some writers leave the trailer out, and all readers forgive them.
    return frames > 0 and at <= len(data)


def _colours(packed: int) -> int:
    """Bytes of the colour table that a GIF's packed field announces."""
    return 3 << (packed & 0x07) + 1 if packed & 0x80 else 0


def _behind_blocks(data: bytes, at: int) -> int:
    """Where a GIF goes on after a row of sub-blocks; behind the end where they are cut off."""
    while at < len(data) and data[at]:
        at += 1 + data[at]
    return at + 1


def _whole_jpeg(data: bytes) -> bool:
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xDA:  # the picture itself, in which no other FF D9 can stand
            return data.find(b"\xff\xd9", at) >= 0
        if marker == 0xFF:
            at += 1
        else:
            at += 2 if marker in _BARE else 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return False


def _whole_webp(data: bytes) -> bool:
    return len(data) >= 8 + int.from_bytes(data[4:8], "little")


_WHOLE: Mapping[str, Callable[[bytes], bool]] = {
    "image/png": _whole_png,
    "image/gif": _whole_gif,
    "image/jpeg": _whole_jpeg,
    "image/webp": _whole_webp,
}
