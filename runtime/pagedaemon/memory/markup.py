"""What stands in a text, a Markdown or an HTML document: its headings and paragraphs, in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

from pagedaemon.errors import InvalidInput
from pagedaemon.memory.chunks import Piece

Format = Literal["auto", "text", "markdown", "html"]

_SUFFIXES: dict[str, Format] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
}

LONGEST_FRONT_MATTER = 200
"""Lines in which the front matter of a Markdown file must end."""


def format_of(given: object, suffix: str) -> Format:
    """The format that is meant; with `auto` the one a file's suffix names, else plain text.

    Raises:
        InvalidInput: no such format.
    """
    for known in get_args(Format):
        if given == known:
            return _SUFFIXES.get(suffix.lower(), "text") if known == "auto" else known
    raise InvalidInput(f"format is one of {', '.join(get_args(Format))}, not {given!r}")


def pieces(text: str, form: Format) -> Iterator[Piece]:
    """The document's headings and paragraphs."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if form == "html":
        # Python's parser of it is loaded by those who have such a document.
        from pagedaemon.memory.webpage import pieces_of

        return pieces_of(text)
    return _markdown(text) if form == "markdown" else _text(text)


def _lines(text: str) -> Iterator[str]:
    at = 0
    while at <= len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        yield text[at:end]
        at = end + 1


def _text(text: str) -> Iterator[Piece]:
    paragraph: list[str] = []
    for line in _lines(text):
        if line.strip():
            paragraph.append(line)
        else:
            yield from _paragraph(paragraph)
    yield from _paragraph(paragraph)


def _paragraph(lines: list[str]) -> Iterator[Piece]:
    """The lines as one piece; the list is empty afterwards."""
    if lines:
        yield Piece("\n".join(lines))
        lines.clear()


def _markdown(text: str) -> Iterator[Piece]:
    """Verbatim: what is marked stays marked. Only headings are read."""
    paragraph: list[str] = []
    fence = ""
    for line in _lines(_after_front_matter(text)):
        mark = _fence(line)
        if fence:
            paragraph.append(line)
            if mark.startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
                yield from _paragraph(paragraph)
            continue
        heading = _heading(line)
        if mark:
            yield from _paragraph(paragraph)
            fence = mark
            paragraph.append(line)
        elif heading is not None:
            yield from _paragraph(paragraph)
            yield heading
        elif not line.strip():
            yield from _paragraph(paragraph)
        elif len(paragraph) == 1 and (level := _underline(line)):
            title = paragraph.pop().strip()
            yield Piece(f"{'#' * level} {title}", level, title)
        else:
            paragraph.append(line)
    yield from _paragraph(paragraph)


def _after_front_matter(text: str) -> str:
    """Without the `---` lines around YAML at the top: the second would be read as underlining."""
    if not text.startswith("---\n"):
        return text
    matter: list[str] = []
    for line in _lines(text[4:]):
        if line.rstrip() in ("---", "..."):
            size = 4 + sum(len(one) + 1 for one in matter) + len(line) + 1
            return "\n".join([*matter, "", text[size:]])
        if len(matter) == LONGEST_FRONT_MATTER:
            break
        matter.append(line)
    return text


def _fence(line: str) -> str:
    """The row of backticks or tildes that begins or ends a block of code; empty for others."""
    bare = line.strip()
    if not bare.startswith(("```", "~~~")):
        return ""
    return bare[0] * (len(bare) - len(bare.lstrip(bare[0])))


def _heading(line: str) -> Piece | None:
    bare = line.lstrip(" ")
    level = len(bare) - len(bare.lstrip("#"))
    if len(line) - len(bare) > 3 or not 1 <= level <= 6:
        return None
    title = bare[level:]
    if title and title[0] not in " \t":
        return None
    title = title.strip()
    closed = title.rstrip("#")
    if not closed or closed[-1] in " \t":
        title = closed.rstrip()
    return Piece(f"{'#' * level} {title}".rstrip(), level, title)


def _underline(line: str) -> int:
    """1 under a line of `=`, 2 under one of `-`; else 0."""
    bare = line.strip()
    if len(bare) >= 2 and not bare.strip("="):
        return 1
    return 2 if len(bare) >= 2 and not bare.strip("-") else 0
