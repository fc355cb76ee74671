"""Headers of pictures: what they are, and how large."""

from __future__ import annotations

import pytest

from pagedaemon.pixels import is_whole, size_of, sniffed
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


SCAN = b"\xff\xda\x00\x08" + b"\x01" * 6 + b"\x12\xff\x00\x34\xff\xd0\x56" * 3
THUMBNAIL = b"\xff\xe1\x00\x0cExif\xff\xd8\xff\xd9\x00\x00"
FRAME = b"," + bytes(8) + b"\x81" + bytes(12) + b"\x02" + b"\x03abc\x01d\x00"
LOOP = b"!\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00"

WHOLE = {
    "png": png(640, 480),
    "jpeg": jpeg(640, 480) + SCAN + b"\xff\xd9",
    "jpeg with a thumbnail": jpeg(640, 480, before=THUMBNAIL) + SCAN + b"\xff\xd9",
    "progressive jpeg": jpeg(640, 480, frame=0xC2) + SCAN + segment(0xC4, 9) + SCAN + b"\xff\xd9",
    "gif": gif(640, 480) + FRAME + b";",
    "gif that moves": (
        gif(640, 480)[:10] + b"\x80\x00\x00" + bytes(6) + LOOP + FRAME + LOOP + FRAME + b";"
    ),
    "lossy webp": lossy(640, 480),
    "lossless webp": lossless(640, 480),
    "extended webp": extended(640, 480),
}


@pytest.mark.parametrize("data", WHOLE.values(), ids=list(WHOLE))
def test_a_picture_is_whole_whatever_stands_behind_it(data: bytes) -> None:
    assert is_whole(data)
    assert is_whole(data + b"\x00what a phone adds")


@pytest.mark.parametrize("name", WHOLE)
def test_a_picture_that_is_cut_off_is_not_whole_wherever_it_is_cut(name: str) -> None:
    data = WHOLE[name]
    # A GIF that ends behind a frame lacks its trailer only, or the frames that would have followed.
    ends = {len(data[: -len(tail)]) for tail in (b";", LOOP + FRAME + b";", FRAME + b";")}
    forgiven = ends if data.startswith(b"GIF") else set()
    whole = {end for end in range(len(data)) if is_whole(data[:end])}
    assert whole <= forgiven


def test_what_is_no_picture_is_not_whole() -> None:
    assert not is_whole(b"")
    assert not is_whole(b"<svg/>")
    assert not is_whole(gif(640, 480) + b";")
    assert not is_whole(gif(640, 480) + b"what is no block")
