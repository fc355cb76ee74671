"""What a search is asked for besides its filters, checked before anything is looked at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from pagedaemon.handles.arguments import checked_flag, checked_floor
from pagedaemon.handles.page import Page, offset_of, words

H = TypeVar("H")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which page, of what, ranked by what."""

    words: str | None
    """None: nothing is ranked, and the newest comes first."""
    ranking: str
    floor: float | None
    sure: bool
    page: int
    page_size: int

    @classmethod
    def of(
        cls,
        query: object,
        *,
        of: str,
        ranking: str,
        floor: object,
        sure: bool,
        page: int,
        page_size: int,
    ) -> Wanted:
        """As a caller has given it.

        Args:
            of: what is ranked, `records` or `messages`.

        Raises:
            InvalidInput: one of them cannot be.
        """
        # What ranks is loaded by the first search.
        from pagedaemon.memory.presets import preset

        offset_of(page, page_size)
        preset(ranking, of=of)
        return cls(
            words(query),
            ranking,
            checked_floor(floor),
            checked_flag(sure, "sure"),
            page,
            page_size,
        )

    @property
    def offset(self) -> int:
        """The number of the page's first hit, from 0."""
        return self.page * self.page_size

    def filled(self, hits: Iterable[H], total: int, pending: int) -> Page[H]:
        """The page with what was found."""
        return Page(tuple(hits), total, self.page, self.page_size, pending)
