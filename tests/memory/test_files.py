"""Files that people bring: found and decoded, or refused with a word on what to do."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from pagedaemon.errors import InvalidInput, NotFound
from pagedaemon.memory.files import decoded, file_path

TEXT = "Grüße, 世界 🚀\n"


@pytest.mark.parametrize(
    ("raw", "encoding"),
    [
        (TEXT.encode(), None),
        (codecs.BOM_UTF8 + TEXT.encode(), None),
        (TEXT.encode("utf-16"), None),
        (codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"), None),
        (TEXT.encode("utf-32"), None),
        (TEXT.encode("utf-16-le"), "utf-16-le"),
        (codecs.BOM_UTF8 + TEXT.encode(), "utf-8"),
    ],
)
def test_a_text_is_read_as_it_was_written(tmp_path: Path, raw: bytes, encoding: str | None) -> None:
    path = tmp_path / "text"
    path.write_bytes(raw)
    assert decoded(path, encoding) == TEXT


def test_a_page_says_its_own_encoding_and_the_caller_knows_better(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_bytes('<meta charset="windows-1252"><p>für'.encode("cp1252"))
    assert "für" in decoded(path, None, html=True)
    assert "fьr" in decoded(path, "cp1251", html=True)
    with pytest.raises(InvalidInput, match=r"utf-8 text \(byte 33\): give its encoding"):
        decoded(path, None)


@pytest.mark.parametrize(
    ("raw", "encoding", "why"),
    [
        (b"\x89PNG\r\n\x1a\n\x00", None, "not utf-8 text"),
        (b"PK\x03\x04\x00\x00", None, "NUL; convert it first"),
        (b"a", "rot13", "unknown encoding"),
        (b"a", "no-such", "unknown encoding"),
        (b"a", 8, "name such as 'cp1252'"),
        (b"abc", "utf-16", "not utf-16 text"),
    ],
)
def test_what_is_no_text_is_said(
    tmp_path: Path, raw: bytes, encoding: str | None, why: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(raw)
    with pytest.raises(InvalidInput, match=why):
        decoded(path, encoding)


def test_a_page_that_names_an_unknown_encoding_asks_for_one(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(b"<meta charset=klingon>")
    with pytest.raises(InvalidInput, match="give encoding="):
        decoded(path, None, html=True)


@pytest.mark.parametrize("given", ["", "  ", "a\nb", "x" * 5_000, 5, None, b"raw", ["a"]])
def test_what_is_no_path_is_said_with_what_to_do(given: object) -> None:
    with pytest.raises(InvalidInput, match="do that"):
        file_path(given, "do that")


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"there is no file .*do that"):
        file_path(tmp_path / "none.md", "do that")
    with pytest.raises(InvalidInput, match="is no file"):
        file_path(tmp_path, "do that")
    with pytest.raises(InvalidInput, match="do that"):
        file_path("x" * 300, "do that")
    path = tmp_path / "there"
    path.touch()
    assert file_path(str(path), "") == path


def test_a_pdf_is_no_text_even_where_all_of_it_is_ascii(tmp_path: Path) -> None:
    path = tmp_path / "paper.txt"
    path.write_bytes(b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog >>\nendobj\n")
    with pytest.raises(InvalidInput, match=r"paper\.txt is a PDF.*convert it to text"):
        decoded(path, None)
