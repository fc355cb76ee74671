"""A document in chunks: of nearly one size, cut where its author paused, under their headings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pagedaemon.errors import InvalidInput

FEWEST_CHARS, MOST_CHARS = 100, 100_000
"""Between these a chunk's size may lie."""

_SENTENCE_END = re.compile("[.!?\u2026][\"'\u201d\u2019)\\]]*\\s|[\u3002\uff01\uff1f]")
_APART = "\n\n"


@dataclass(frozen=True, slots=True)
class Piece:
    """A paragraph, a block of code or a heading."""

    text: str
    """As it stands in the chunk."""
    level: int = 0
    """Of a heading: 1 for the highest, more for those below it. 0: no heading."""
    title: str = ""
    """Of a heading: its words alone, as they stand in the trail above what is under it."""


@dataclass(frozen=True, slots=True)
class _Part:
    text: str
    trail: str
    heading: bool


def checked_size(size: object) -> int:
    """A chunk's size in characters.

    Raises:
        InvalidInput: no whole number, or outside 100 to 100,000.
    """
    if not isinstance(size, int) or isinstance(size, bool):
        raise InvalidInput(f"chunk_chars is a number of characters, not {type(size).__name__}")
    if not FEWEST_CHARS <= size <= MOST_CHARS:
        raise InvalidInput(f"chunk_chars goes from {FEWEST_CHARS} to {MOST_CHARS}, not {size}")
    return size


def chunks(pieces: Iterable[Piece], size: int) -> Iterator[str]:
    """The pieces in chunks of at most `size` characters, each once and in order.

    A chunk begins with the headings it stands under (`Guide > Install`), as far as it does not show
    them itself. One that is half full ends before the next heading, and before a paragraph that
    does not fit; a paragraph that is longer is cut after a line, a sentence or a word, and inside a
    word only where there is nothing else. No heading is left behind at the end of a chunk.
    """
    page = _Page(size)
    trail: list[tuple[int, str]] = []
    for piece in pieces:
        if piece.level:
            if page.half_full:
                yield from page.turn()
            trail = [higher for higher in trail if higher[0] < piece.level]
            above = _line(trail, size // 4)
            # What is too long for a heading is read on as a paragraph.
            yield from page.put(piece.text, above, heading=len(piece.text) <= size // 4)
            trail.append((piece.level, piece.title))
        else:
            yield from page.put(piece.text, _line(trail, size // 4), heading=False)
    yield from page.turn(last=True)


def _line(trail: list[tuple[int, str]], most: int) -> str:
    """Headings from the highest to the nearest; of a long trail its end."""
    titles: list[str] = []
    for _, title in trail:
        if title and titles[-1:] != [title]:
            titles.append(title)
    while len(titles) > 1 and len(" > ".join(titles)) > most:
        del titles[0]
    line = " > ".join(titles)
    return line if len(line) <= most else f"{line[: most - 1]}…"


class _Page:
    """The chunk that is being filled."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._parts: list[_Part] = []
        self._body = 0

    @property
    def half_full(self) -> bool:
        """Whether it may end before what does not fit."""
        return self._body >= self._size // 2

    def put(self, text: str, trail: str, *, heading: bool) -> Iterator[str]:
        """Adds a text; the chunks that became full by it."""
        at, end = 0, len(text)
        while at < end:
            above = self._parts[0].trail if self._parts else trail
            room = self._size - self._body - (len(above) + len(_APART) if above else 0)
            if end - at <= room:
                self._add(text[at:], trail, heading)
                return
            if self.half_full:
                yield from self.turn()
                continue
            cut = _cut(text, at, at + room)
            self._add(text[at:cut], trail, heading)
            yield from self.turn()
            at = _next_word(text, cut)

    def _add(self, text: str, trail: str, heading: bool) -> None:
        kept = text.strip("\n").rstrip()
        if kept:
            self._parts.append(_Part(kept, trail, heading))
            self._body += len(kept) + len(_APART)

    def turn(self, *, last: bool = False) -> Iterator[str]:
        """Ends the chunk; headings at its end go to the next one."""
        keep = len(self._parts)
        while not last and keep and self._parts[keep - 1].heading:
            keep -= 1
        if keep == 0:
            keep = len(self._parts)
        shown, self._parts = self._parts[:keep], self._parts[keep:]
        self._body = sum(len(part.text) + len(_APART) for part in self._parts)
        if shown:
            above = [shown[0].trail] if shown[0].trail else []
            yield _APART.join([*above, *(part.text for part in shown)])


def _cut(text: str, start: int, end: int) -> int:
    """Where to end a chunk that may reach from `start` to `end`: in its second half."""
    middle = start + (end - start) // 2
    line = text.rfind("\n", middle, end)
    if line > 0:
        return line
    ends = [found.end() for found in _SENTENCE_END.finditer(text, middle, end)]
    if ends:
        return ends[-1]
    return max((text.rfind(blank, middle, end) for blank in " \t\u3000"), default=-1) + 1 or end


def _next_word(text: str, at: int) -> int:
    """Past the blank at a cut; the indentation of a next line stays."""
    if text.startswith("\n", at):
        return at + 1
    while at < len(text) and text[at] in " \t\u3000":
        at += 1
    return at
