"""Pictures and files as people give them: what is taken, what is refused, what is kept."""

from __future__ import annotations

import base64
import codecs
import hashlib
from pathlib import Path
from typing import Any

import pytest

from pagedaemon.errors import InvalidInput, NotFound
from pagedaemon.media import (
    LARGEST,
    LONGEST_NAME,
    Attachment,
    File,
    Image,
    attachment,
    from_described,
    in_order,
    in_words,
    size_in_data_url,
)
from pagedaemon.testing import png

PNG = png(64, 48)
GIF = b"GIF89a\x40\x00\x30\x00\x00\x00\x00" + b"," + bytes(9) + b"\x02\x01\x44\x00;"


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


class TestImage:
    """Pictures."""

    def test_the_same_picture_comes_in_by_four_ways(self, tmp_path: Path) -> None:
        (tmp_path / "cat.png").write_bytes(PNG)
        ways = [
            Image.from_bytes(PNG),
            Image.from_bytes(PNG, "image/png"),
            Image.from_data_url(f"data:image/png;base64,{encoded(PNG)}"),
            Image.from_data_url(f"data:IMAGE/JPEG;name=a.jpg;base64,{encoded(PNG)}"),
            Image.from_base64("\n".join([encoded(PNG)[:40], encoded(PNG)[40:]])),
            Image.from_path(tmp_path / "cat.png"),
        ]
        for image in ways:
            assert (image.data, image.media_type) == (PNG, "image/png")
            assert (image.width, image.height) == (64, 48)
        assert ways[0].name is None
        assert ways[-1].name == "cat.png"

    def test_a_url_is_kept_as_it_is_and_named_after_its_path(self) -> None:
        url = "https://example.org/a/sea%20shore.jpg?size=2"
        image = Image.from_url(url)
        assert (image.url, image.data, image.media_type) == (url, None, "image/*")
        assert image.name == "sea shore.jpg"
        assert (image.width, image.height) == (None, None)
        assert Image.from_url("https://example.org").name is None
        assert Image.from_url(url, name="shore", detail="low").detail == "low"

    @pytest.mark.parametrize(
        "url",
        [
            "ftp://example.org/a.png",
            "file:///etc/passwd",
            "/tmp/a.png",
            "https://",
            "https://exa mple.org/a",
            "https://example.org/ä",
            "http://[::1",
            "https://example.org/" + "a" * 9_000,
            "",
            7,
        ],
    )
    def test_only_http_is_a_url(self, url: Any) -> None:
        with pytest.raises(InvalidInput):
            Image.from_url(url)

    def test_a_data_url_given_as_a_url_is_told_where_it_goes(self) -> None:
        with pytest.raises(InvalidInput, match="from_data_url"):
            Image.from_url(f"data:image/png;base64,{encoded(PNG)}")

    @pytest.mark.parametrize(
        "url",
        [
            "data:image/png,abc",
            "data:image/png;base64,",
            "data:image/png;base64,!!!!",
            "data:image/png;base64," + encoded(PNG)[:-5],
            "data:image/png;base64,é",
            "https://example.org/a.png",
            None,
        ],
    )
    def test_a_broken_data_url_is_refused(self, url: Any) -> None:
        with pytest.raises(InvalidInput):
            Image.from_data_url(url)

    @pytest.mark.parametrize(
        ("data", "told"),
        [
            (b"", "no picture"),
            (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "no picture"),
            (PNG[:20], "damaged"),
            (PNG[:-5], "image/png is cut off"),
            (GIF[:-2], "image/gif is cut off"),
            (bytearray(PNG), "bytes"),
            ("text", "bytes"),
            (PNG + b"\x00" * LARGEST, "at most 20,000,000 bytes"),
        ],
    )
    def test_bytes_that_are_no_whole_picture_are_refused(self, data: Any, told: str) -> None:
        with pytest.raises(InvalidInput, match=told):
            Image.from_bytes(data)

    def test_a_wrong_media_type_is_refused_and_a_usual_alias_taken(self) -> None:
        with pytest.raises(InvalidInput, match="image/png and no image/gif"):
            Image.from_bytes(PNG, "image/gif")
        jpeg = b"\xff\xd8\xff\xc0\x00\x11\x08\x00\x30\x00\x40" + b"\x00" * 10
        jpeg += b"\xff\xda\x00\x02scan\xff\xd9"
        assert Image.from_bytes(jpeg, "image/jpg").media_type == "image/jpeg"
        with pytest.raises(InvalidInput, match="media type is text"):
            Image.from_bytes(PNG, 7)  # type: ignore[arg-type]

    def test_neither_and_both_are_refused_and_so_is_an_unknown_detail(self) -> None:
        with pytest.raises(InvalidInput, match="either"):
            Image()
        with pytest.raises(InvalidInput, match="either"):
            Image(PNG, "https://example.org/a.png")
        with pytest.raises(InvalidInput, match="auto, low, high"):
            Image.from_bytes(PNG, detail="fine")  # type: ignore[arg-type]

    def test_a_missing_file_and_a_folder_are_told_apart(self, tmp_path: Path) -> None:
        with pytest.raises(NotFound, match=r"nothing\.png"):
            Image.from_path(tmp_path / "nothing.png")
        with pytest.raises(InvalidInput, match="cannot be read"):
            Image.from_path(tmp_path)
        with pytest.raises(InvalidInput, match="path"):
            Image.from_path(7)  # type: ignore[arg-type]

    def test_a_name_is_one_line_that_cannot_end_a_placeholder(self) -> None:
        assert Image.from_bytes(PNG, name="a]\n[b\x00 ").name == "a b"
        assert Image.from_bytes(PNG, name=" ").name is None
        assert len(Image.from_bytes(PNG, name="x" * 300).name or "") == LONGEST_NAME
        assert Image.from_bytes(PNG, name="\udcff.png").name == "?.png"

    def test_a_picture_does_not_print_its_bytes(self) -> None:
        assert "data" not in repr(Image.from_bytes(PNG))


class TestFile:
    """Documents."""

    @pytest.mark.parametrize(
        "data",
        [
            "Grüße".encode(),
            codecs.BOM_UTF8 + "Grüße".encode(),
            "Grüße".encode("utf-16"),
            "Grüße".encode("utf-32"),
        ],
    )
    def test_its_text_is_read_by_its_mark(self, data: bytes) -> None:
        assert File.from_bytes(data, "a.txt").text == "Grüße"

    def test_it_is_read_from_disk_under_its_name(self, tmp_path: Path) -> None:
        (tmp_path / "notes.MD").write_bytes("# Küste".encode("cp1252"))
        file = File.from_path(tmp_path / "notes.MD", encoding="cp1252")
        assert (file.name, file.text, file.media_type) == ("notes.MD", "# Küste", "text/markdown")
        assert File.from_bytes(b"x", "LICENSE").media_type == "text/plain"
        assert "data" not in repr(file)

    @pytest.mark.parametrize(
        ("data", "told"),
        [
            (b"%PDF-1.7 ...", "extract its text"),
            (b"PK\x03\x04...", "archive.load"),
            (PNG, "Image.from_bytes"),
            (b"Gr\xfc\xdfe", "encoding='cp1252'"),
            (b"a\x00b", "NUL"),
            (b"x" * (LARGEST + 1), "at most"),
            ("text", "bytes"),
        ],
    )
    def test_what_is_no_text_is_refused_with_what_to_do(self, data: Any, told: str) -> None:
        with pytest.raises(InvalidInput, match=told):
            File.from_bytes(data, "a.bin")

    def test_an_unknown_encoding_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="cp0"):
            File.from_bytes(b"x", "a", encoding="cp0")


class TestAttachment:
    """What is kept."""

    def test_it_comes_back_from_its_description_without_the_bytes(self) -> None:
        kept = attachment(Image.from_bytes(PNG, name="a"), "attachment-1", "[image a 64x48]", 7)
        assert kept.sha256 == hashlib.sha256(PNG).hexdigest()
        assert (kept.size, kept.width, kept.height) == (len(PNG), 64, 48)
        (back,) = from_described([kept.described()])
        assert back == kept
        assert back.data is None
        assert kept.source == f"data:image/png;base64,{encoded(PNG)}"

    def test_a_url_and_a_file_are_kept_as_what_they_are(self) -> None:
        link = attachment(Image.from_url("https://example.org/a.png"), "attachment-1")
        assert (link.source, link.size) == ("https://example.org/a.png", 0)
        file = attachment(File.from_bytes(b"text", "a.txt"), "attachment-2")
        assert (file.kind, file.data, file.placeholder) == ("file", b"text", "")


def picture(identity: str, at: int) -> Attachment:
    return attachment(Image.from_bytes(GIF), identity, f"[image {identity}]", at)


def test_text_and_pictures_stand_in_the_order_they_were_said() -> None:
    one, two, three = picture("1", 5), picture("2", 9), picture("3", 9)
    file = attachment(File.from_bytes(b"x", "f"), "f")
    pieces = list(in_order("Look:\nand", [file, one, two, three]))
    assert pieces == ["Look:", one, "\nand", two, three]
    words = in_words("Look:\nand", [one, two, three])
    assert words == "Look:\n[image 1]\nand\n[image 2]\n[image 3]"
    assert in_words("", [picture("1", 0)]) == "[image 1]"
    assert in_words(" \n", [file]) == " \n"


def test_the_size_in_a_data_url_is_found_also_behind_a_long_header() -> None:
    far = b"\xff\xe1\xff\xff" + b"\x00" * 65_533
    frame = b"\xff\xc0\x00\x11\x08\x00\x30\x00\x40" + b"\x00" * 10
    jpeg = b"\xff\xd8" + far + far + frame
    assert size_in_data_url(f"data:image/jpeg;base64,{encoded(jpeg)}") == (64, 48)
    assert size_in_data_url(f"data:image/png;base64,{encoded(PNG)}") == (64, 48)
    for none in ("https://example.org/a.png", "data:image/png;base64,", "data:image/png;base64,é"):
        assert size_in_data_url(none) is None
