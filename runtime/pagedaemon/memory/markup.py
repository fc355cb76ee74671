"""What stands in a text, a Markdown or an HTML document: its headings and paragraphs, in order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
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
        return _html(text)
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


_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_UNSEEN = frozenset({"script", "style", "template", "svg", "noscript", "iframe", "object"})
_BLOCKS = frozenset(
    {
        *(
            "address",
            "article",
            "aside",
            "blockquote",
            "body",
            "caption",
            "center",
            "dd",
            "details",
        ),
        *(
            "dialog",
            "div",
            "dl",
            "dt",
            "fieldset",
            "figcaption",
            "figure",
            "footer",
            "form",
            "head",
        ),
        *(
            "header",
            "hr",
            "html",
            "legend",
            "li",
            "main",
            "menu",
            "nav",
            "ol",
            "option",
            "p",
            "pre",
        ),
        *("section", "select", "summary", "table", "tbody", "tfoot", "thead", "title", "ul"),
    }
)


def _html(text: str) -> Iterator[Piece]:
    reader = _Html()
    # In slices, so that what was read can be taken on before the rest is.
    for at in range(0, len(text), 65_536):
        reader.feed(text[at : at + 65_536])
        yield from reader.taken()
    reader.close()
    reader.end()
    yield from reader.taken()


class _Html(HTMLParser):
    """Reads what a page says: entities resolved, scripts and styles left out, headings told apart.

    A list item keeps a dash, cells of a row stand on one line, a picture gives its description.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._found: list[Piece] = []
        self._words: list[str] = []
        self._heading = ""
        self._unseen: list[str] = []
        self._pre = 0

    def taken(self) -> list[Piece]:
        """What was found since the last call."""
        found, self._found = self._found, []
        return found

    def end(self) -> None:
        """Ends the paragraph that is being read."""
        text = "".join(self._words)
        self._words.clear()
        if not self._pre:
            lines = (_spaced(line) for line in text.split("\n"))
            text = "\n".join(line for line in lines if line)
        text = text.strip("\n").rstrip()
        if text.strip() in ("", "-"):
            return
        level = 1 if self._heading == "title" else _HEADINGS.get(self._heading, 0)
        # One that is never closed heads what follows it, and does not swallow it.
        self._heading = ""
        self._found.append(Piece(text, level, text.replace("\n", " ") if level else ""))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A new paragraph, or part of the one that is being read."""
        if tag in _UNSEEN:
            self._unseen.append(tag)
        elif self._unseen:
            return
        elif tag in _HEADINGS or tag == "title":
            self.end()
            self._heading = tag
        elif tag in _BLOCKS:
            self.end()
            self._pre += tag == "pre"
            self._words += ["- "] if tag == "li" else []
        elif tag in ("br", "tr"):
            self._words.append("\n")
        elif tag in ("td", "th") and self._words and self._words[-1] != "\n":
            self._words.append(" | ")
        elif tag == "img":
            self._words.append(dict(attrs).get("alt") or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """`<script/>` and the like hold nothing to leave out."""
        if tag not in _UNSEEN:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        """The end of a paragraph, of a heading, or of what is not shown."""
        if tag in self._unseen:
            while self._unseen.pop() != tag:
                pass
        elif not self._unseen and (tag in _BLOCKS or tag in _HEADINGS):
            self.end()
            if tag == self._heading:
                self._heading = ""
            self._pre = max(0, self._pre - (tag == "pre"))

    def handle_data(self, data: str) -> None:
        """Text that is shown."""
        if not self._unseen:
            # Outside of `pre` a line break in the source is a blank.
            self._words.append(data if self._pre else data.replace("\n", " "))


_BLANKS = re.compile(r"\s+")


def _spaced(text: str) -> str:
    return _BLANKS.sub(" ", text).strip()
