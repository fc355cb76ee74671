"""What a web page says, in pieces: for `pagedaemon.memory.markup`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

from pagedaemon.memory.chunks import Piece

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


def pieces_of(text: str) -> Iterator[Piece]:
    """A page's headings and paragraphs."""
    reader = _Reader()
    # In slices, so that what was read can be taken on before the rest is.
    for at in range(0, len(text), 65_536):
        reader.feed(text[at : at + 65_536])
        yield from reader.taken()
    reader.close()
    reader.end()
    yield from reader.taken()


class _Reader(HTMLParser):
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
