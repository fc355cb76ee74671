"""Pages of what a search found, and what may be asked of one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pagedaemon.errors import InvalidInput

H = TypeVar("H")

MOST = 10**12
"""Number of the last hit that can be asked for: more than any store holds."""


@dataclass(frozen=True, slots=True)
class Page(Generic[H]):
    """One page of hits, best first, or newest first where no words were given."""

    hits: tuple[H, ...]
    total: int
    """How many there are on all pages."""
    page: int
    """From 0."""
    page_size: int
    pending: int = 0
    """Texts of the space that wait for their vectors, as after a change of the embedder: they are
    found by their words, and not yet by their meaning."""

    @property
    def next_page(self) -> int | None:
        """The number of the next page, or None after the last."""
        return self.page + 1 if (self.page + 1) * self.page_size < self.total else None


def several(given: Sequence[str], what: str, known: Sequence[str] = ()) -> tuple[str, ...]:
    """The values of a filter, or tags.

    Raises:
        InvalidInput: one text where a list is meant, which would be read letter by letter; no list
            of text; or a value that can match nothing.
    """
    if isinstance(given, str):
        raise InvalidInput(f"{what} is a list: write [{given!r}]")
    if not isinstance(given, Iterable):
        raise InvalidInput(f"{what} is a list of text, not {type(given).__name__}")
    values = tuple(given)
    for value in values:
        if not isinstance(value, str):
            raise InvalidInput(f"{what} is a list of text; {value!r} in it is none")
        if known and value not in known:
            raise InvalidInput(f"{what} are among {', '.join(known)}, not {value!r}")
    return values


def words(query: object) -> str | None:
    """What to search for; None for what is blank: then there is nothing to rank.

    Raises:
        InvalidInput: it is no text.
    """
    text_or_none(query, "query")
    return query if isinstance(query, str) and query.strip() else None


def text_or_none(value: object, what: str) -> None:
    """Refuses what is neither.

    Raises:
        InvalidInput: another type.
    """
    if value is not None and not isinstance(value, str):
        raise InvalidInput(f"{what} is text or None, not {type(value).__name__}")


def checked_id(value: object) -> None:
    """Refuses what cannot be a passage's id.

    Raises:
        InvalidInput: it is no text.
    """
    if not isinstance(value, str):
        hint = "; pass several as delete(*ids)" if isinstance(value, list | tuple | set) else ""
        raise InvalidInput(f"a passage's id is text, not {type(value).__name__}{hint}")


def number(value: object, what: str, *, required: bool = False) -> None:
    """Refuses what is no number, or None where one is required.

    Raises:
        InvalidInput: another type.
    """
    if value is None and not required:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"{what} is a number, not {type(value).__name__}")


def offset_of(page: object, size: object) -> int:
    """The number of a page's first hit, from 0.

    Raises:
        InvalidInput: there is no such page.
    """
    for value, what in ((page, "page"), (size, "page_size")):
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidInput(f"{what} is a whole number, not {value!r}")
    assert isinstance(page, int)
    assert isinstance(size, int)
    if page < 0 or size < 1:
        raise InvalidInput(f"pages count from 0 and hold at least 1: page={page}, page_size={size}")
    if page * size > MOST or size > MOST:
        raise InvalidInput(f"no search goes beyond hit {MOST}: page={page}, page_size={size}")
    return page * size
