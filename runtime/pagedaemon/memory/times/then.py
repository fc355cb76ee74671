"""What was said at the time that a query names: all of it is found, whatever its words are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from pagedaemon.clock import zone
from pagedaemon.memory.times import spoken
from pagedaemon.memory.times.spoken import Meant
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import recall as rows
from pagedaemon.store.candidates import Matches, Searched
from pagedaemon.store.function_words import says_little
from pagedaemon.store.recall import MessageFilter
from pagedaemon.store.terms import words_of
from pagedaemon.store.transaction import Transaction

_OF_TALK = frozenset(
    [
        *("say", "said", "tell", "told", "talk", "talked", "speak", "spoke", "mention"),
        *("mentioned", "discuss", "discussed", "chat", "write", "wrote", "written", "note"),
        *("noted", "happen", "happened", "happening", "going"),
    ]
)
"""Words of one who asks for whatever was said, or happened."""


@dataclass(frozen=True)
class Then:
    """The messages of the time that a query names, under the filter of a search. Where the time is
    a number alone, which may be no year, only those that its words find as well."""

    tx: Transaction
    words: str
    meant: Meant
    within: MessageFilter
    """What was said at that time."""
    beside: str
    """The words without those that name the time; all where that may be none."""

    @classmethod
    def of(
        cls, tx: Transaction, words: str, given: MessageFilter, now: datetime | None
    ) -> Then | None:
        """None where the words name no time, seen from `now`, or a number that may be no year, and
        nothing was said in it."""
        # Most queries name none, and the agent's zone need not be read for them.
        if now is None or spoken.meant(words, now, UTC) is None:
            return None
        there = zone(agent_rows.require(tx, given.agent_id).settings.timezone)
        meant = spoken.meant(words, now, there)
        if meant is None:
            return None
        within = rows.said_within(given, meant.begin, meant.end)
        if meant.number is None:
            return cls(tx, words, meant, within, spoken.without_time(words, now, there))
        return cls(tx, words, meant, within, words) if rows.newest(tx, within, limit=1) else None

    @cached_property
    def empty(self) -> bool:
        """Whether nothing was said then."""
        return not rows.newest(self.tx, self.within, limit=1)

    @property
    def asks_for_all(self) -> bool:
        """Whether the query says nothing but the time: "What did we talk about last Tuesday?"."""
        return all(
            says_little(word) or word.casefold() in _OF_TALK for word in words_of(self.beside)
        )

    @cached_property
    def _searched(self) -> Searched:
        return rows.searched(self.within)

    @cached_property
    def _matches(self) -> Matches:
        return self._searched.matches(self.tx, self.words, signs=False)

    def candidates(self, most: int) -> list[str]:
        """Ids of the best of them by words, and of the newest, so many of either."""
        best = list(self._matches.scores)[:most]
        if self.meant.number is not None:
            return best
        return list(dict.fromkeys([*best, *rows.newest(self.tx, self.within, limit=most)]))

    def holds(self, message_id: str, at: datetime) -> float:
        """How well a message fits the time, from 0 to 1. Where that is a number, one that says it
        does, and what was said in that year half as well."""
        if self.meant.number is None:
            return float(self.meant.holds(at))
        return 1.0 if message_id in self._of_number else self.meant.holds(at) / 2

    @cached_property
    def _of_number(self) -> Collection[str]:
        """Ids of messages that say the number."""
        assert self.meant.number is not None, "asked where it is one"
        anywhere = rows.searched(MessageFilter(self.within.agent_id))
        return anywhere.matches(self.tx, self.meant.number).scores.keys()

    def beyond(self, found: Collection[str]) -> int:
        """How many of them no word finds, beside those with these ids, which none finds either."""
        if self.meant.number is not None:
            return 0
        there = self._searched.there(self.tx, found)
        return rows.count(self.tx, self.within) - self._matches.total - len(there)

    def rest(self, without: Sequence[str], *, offset: int, limit: int) -> list[str]:
        """Ids of those that no word finds, without these, newest first."""
        return rows.not_found(
            self.tx, self.within, self.words, without=without, offset=offset, limit=limit
        )
