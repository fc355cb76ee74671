"""What was said at the time that a query names, or was kept of it: all of it is found, whatever its
words are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Generic, TypeVar

from pagedaemon.clock import zone
from pagedaemon.memory.times import spoken
from pagedaemon.memory.times.spoken import Meant
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import passages as passage_rows
from pagedaemon.store import recall as message_rows
from pagedaemon.store.candidates import Matches, Searched
from pagedaemon.store.function_words import says_little
from pagedaemon.store.listing import Listed
from pagedaemon.store.passages import PassageFilter
from pagedaemon.store.recall import MessageFilter
from pagedaemon.store.terms import words_of
from pagedaemon.store.transaction import Transaction

F = TypeVar("F", bound=MessageFilter | PassageFilter)


@dataclass(frozen=True)
class Told(Generic[F]):
    """How what is of a time is read, of one kind of text."""

    within: Callable[[F, datetime | None, datetime | None], F]
    searched: Callable[[F], Searched]
    passing: Callable[[F], Listed]


MESSAGES = Told[MessageFilter](
    message_rows.said_within, message_rows.searched, message_rows.passing
)
RECORDS = Told[PassageFilter](passage_rows.told_within, passage_rows.searched, passage_rows.passing)
"""Whose time is when what they tell of was, or else when they were kept."""

_OF_TALK = frozenset(
    [
        *("say", "said", "tell", "told", "talk", "talked", "speak", "spoke", "mention"),
        *("mentioned", "discuss", "discussed", "chat", "write", "wrote", "written", "note"),
        *("noted", "happen", "happened", "happening", "going"),
    ]
)
"""Words of one who asks for whatever was said, or happened."""


@dataclass(frozen=True)
class Then(Generic[F]):
    """The messages of the time that a query names, or the records, under the filter of a search.
    Where the time is a number alone, which may be no year, only those that its words find as
    well."""

    tx: Transaction
    told: Told[F]
    words: str
    meant: Meant
    given: F
    """The filter of the search."""
    within: F
    """What passes it of that time."""
    beside: str
    """The words without those that name the time; all where that may be none."""

    @classmethod
    def of(
        cls, tx: Transaction, told: Told[F], words: str, given: F, now: datetime | None
    ) -> Then[F] | None:
        """None where the words name no time, seen from `now`, or a number that may be no year, and
        nothing was said in it."""
        # Most queries name none, and the agent's zone need not be read for them.
        if now is None or not spoken.may_name_a_time(words):
            return None
        there = zone(agent_rows.require(tx, given.agent_id).settings.timezone)
        meant = spoken.meant(words, now, there)
        if meant is None:
            return None
        within = told.within(given, meant.begin, meant.end)
        sure = meant.number is None
        beside = spoken.without_time(words, now, there) if sure else words
        then = cls(tx, told, words, meant, given, within, beside)
        return then if sure or not then.empty else None

    @cached_property
    def empty(self) -> bool:
        """Whether nothing was said then."""
        return not self._passing.newest(self.tx, 1)

    @property
    def asks_for_all(self) -> bool:
        """Whether the query says nothing but the time: "What did we talk about last Tuesday?"."""
        return all(
            says_little(word) or word.casefold() in _OF_TALK for word in words_of(self.beside)
        )

    @cached_property
    def _passing(self) -> Listed:
        return self.told.passing(self.within)

    @cached_property
    def _searched(self) -> Searched:
        return self.told.searched(self.within)

    @cached_property
    def _matches(self) -> Matches:
        return self._searched.matches(self.tx, self.words, signs=False)

    def candidates(self, most: int) -> list[str]:
        """Ids of the best of them by words, and of the newest, so many of either."""
        best = list(self._matches.scores)[:most]
        if self.meant.number is not None:
            return best
        return list(dict.fromkeys([*best, *self._passing.newest(self.tx, most)]))

    def holds(self, one: str, at: datetime) -> float:
        """How well what has this id fits the time, from 0 to 1. Where that is a number, what says
        it does, and what was said in that year half as well."""
        if self.meant.number is None:
            return float(self.meant.holds(at))
        return 1.0 if one in self._of_number else self.meant.holds(at) / 2

    @cached_property
    def _of_number(self) -> Collection[str]:
        """Ids of what says the number."""
        assert self.meant.number is not None, "asked where it is one"
        anywhere = self.told.searched(self.given)
        return anywhere.matches(self.tx, self.meant.number).scores.keys()

    def beyond(self, found: Collection[str]) -> int:
        """How many of them no word finds, beside those with these ids, which none finds either."""
        if self.meant.number is not None:
            return 0
        there = self._searched.there(self.tx, found)
        return self._passing.count(self.tx) - self._matches.total - len(there)

    def rest(self, without: Sequence[str], *, offset: int, limit: int) -> list[str]:
        """Ids of those that no word finds, without these, newest first."""
        return self._passing.not_found(
            self.tx, self._searched, self.words, without=without, offset=offset, limit=limit
        )
