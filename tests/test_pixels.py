"""Headers of pictures: what they are, and how large."""

from __future__ import annotations

import pytest

from pagedaemon.pixels import size_of, sniffed
from pagedaemon.testing import png


def jpeg(width: int, height: int, *, frame: int = 0xC0, before: bytes = b"") -> bytes:
    """The markers of a JPEG up to its frame."""
    size = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    return b"\xff\xd8" + before + bytes([0xFF, frame]) + b"\x00\x11\x08" + size + b"\x03" * 10


def segment(marker: int, length: int) -> bytes:
    return bytes([0xFF, marker]) + (length + 2).to_bytes(2, "big") + b"\xff" * length


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + width.to_bytes(2, "little") + height.to_bytes(2, "little") + b"\x00" * 3


def webp(form: bytes, body: bytes) -> bytes:
    whole = form + len(body).to_bytes(4, "little") + body.ljust(20, b"\x00")
    return b"RIFF" + (len(whole) + 4).to_bytes(4, "little") + b"WEBP" + whole


def lossy(width: int, height: int) -> bytes:
    size = width.to_bytes(2, "little") + height.to_bytes(2, "little")
    return webp(b"VP8 ", b"\x30\x01\x00\x9d\x01\x2a" + size)


def lossless(width: int, height: int) -> bytes:
    bits = (width - 1) | (height - 1) << 14
    return webp(b"VP8L", b"\x2f" + bits.to_bytes(4, "little"))


def extended(width: int, height: int) -> bytes:
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return webp(b"VP8X", b"\x10\x00\x00\x00" + size)


PICTURES = {
    "png": ("image/png", png(640, 480)),
    "gif": ("image/gif", gif(640, 480)),
    "gif of 1987": ("image/gif", gif(640, 480).replace(b"89a", b"87a")),
    "baseline jpeg": ("image/jpeg", jpeg(640, 480)),
    "progressive jpeg": ("image/jpeg", jpeg(640, 480, frame=0xC2)),
    "jpeg from a camera": (
        "image/jpeg",
        jpeg(640, 480, before=segment(0xE1, 60_000) + segment(0xE2, 60_000) + segment(0xC4, 30)),
    ),
    "jpeg with fill bytes": ("image/jpeg", jpeg(640, 480, before=b"\xff\xff\xff\x01")),
    "lossy webp": ("image/webp", lossy(640, 480)),
    "lossless webp": ("image/webp", lossless(640, 480)),
    "extended webp": ("image/webp", extended(640, 480)),
}


@pytest.mark.parametrize(("kind", "data"), PICTURES.values(), ids=list(PICTURES))
def test_a_picture_tells_what_it_is_and_its_size(kind: str, data: bytes) -> None:
    assert sniffed(data) == kind
    assert size_of(data) == (640, 480)


@pytest.mark.parametrize("data", [data for _, data in PICTURES.values()], ids=list(PICTURES))
def test_a_header_that_is_cut_off_tells_no_size_wherever_it_is_cut(data: bytes) -> None:
    whole = next(end for end in range(len(data) + 1) if size_of(data[:end]) is not None)
    assert size_of(data[:whole]) == (640, 480)
    assert all(size_of(data[:end]) is None for end in range(min(whole, 400)))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<svg/>",
        b"BM" + b"\x00" * 60,
        b"RIFF\x00\x00\x00\x00WAVE" + b"\x00" * 40,
        gif(0, 480),
        jpeg(640, 0),
        b"\xff\xd8\xff\xe0\x00\x04\x00\x00junk that is no marker",
        b"\x89PNG\r\n\x1a\n" + b"\x00" * 40,
        webp(b"VP8 ", b"\x00" * 20),
        webp(b"ALPH", b"\x00" * 20),
    ],
)
def test_what_is_no_picture_or_has_no_pixels_has_no_size(data: bytes) -> None:
    assert size_of(data) is None
