"""Candidates of a search: the best by words, and what an index named, under the same filters.

Filters come in a few shapes (which of their fields are given). The statements of a shape are made
once and take their values as parameters: making one takes longer than running it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, FromClause, Select, Subquery, Table, bindparam, func, select
from sqlalchemy.sql.selectable import TableValuedAlias

from pagedaemon.store import asking, fulltext, terms
from pagedaemon.store.transaction import AnyRow, Transaction

MOST_READ = fulltext.MOST_MATCHES
"""Matches that are read at once. Only words that all stand in more texts can have more."""


FEW = 5_000
"""Texts of one agent: where it has no more, and no more than a tenth of all, they are told from
those of others by their numbers, and no word is too frequent to find them."""


class ByWords(NamedTuple):
    """How well words find a text, higher for better: see `fulltext.MATCHING`."""

    score: float
    """In all."""
    own: float
    """By its own words, without those beside it."""
    day: float
    """By its date; 0 for passages."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """What a search has to rank."""

    keywords: Mapping[str, ByWords]
    """What words find: the best, and every one that an index named too."""
    near: tuple[str, ...]
    """Of what an index named: what is there and passes the filters, newest first."""
    matching: int
    """How many there are by words in all, more than are ranked."""


@dataclass(frozen=True, slots=True)
class Matches:
    """What matches by words under a filter."""

    scores: Mapping[str, ByWords]
    """Of the best, at most `MOST_READ`, best first, the newest first among equals."""
    total: int
    """How many there are."""
    asked: Mapping[str, Any] | None = None
    """The parameters by which words match; None if none is searchable."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """Which texts may be found: a query of their ids, and its values."""

    query: Select[Any]
    values: Mapping[str, Any]


Order: TypeAlias = Callable[[FromClause], Sequence[ColumnElement[Any]]]
"""The order newest first, of a table or an alias of it."""


def listed(name: str) -> TableValuedAlias:
    """Values that a statement is given as one parameter, a JSON list of them (`as_list`), in its
    column `value`: however many they are, it is the same statement."""
    return func.json_each(bindparam(name)).table_valued("value")


def as_list(values: Collection[str]) -> str:
    """Values as the parameter that `listed` names."""
    return json.dumps(list(values))


class ByMatch:
    """The statements that read what an index of words matches.

    Args:
        match: what it matches.
        table: where the texts stand.
        conditions: of the filter, with parameters for its values.
        newest_first: the order among equals.
    """

    def __init__(
        self,
        match: Subquery,
        table: Table,
        conditions: Sequence[ColumnElement[bool]],
        newest_first: Order,
    ) -> None:
        self.match = match
        joined = table.join(match, match.c.id == table.c.id)
        best = select(table.c.id, *_scored(match)).select_from(joined).where(*conditions)
        ordered = best.order_by(match.c.score.desc(), *newest_first(table))
        without = table.c.id.not_in(select(listed("without").c.value))
        self.best = ordered.limit(bindparam("limit"))
        self.matching = select(func.count()).select_from(joined).where(*conditions)
        self.of_these = best.where(table.c.id.in_(select(listed("ids").c.value)))
        self.rest = ordered.where(without).limit(bindparam("limit")).offset(bindparam("offset"))


class Shape:
    """The statements of searches whose filters have one shape.

    Args:
        kind: what is searched.
        table: where it stands.
        conditions: of the filter, with parameters for its values; the first says whose.
        newest_first: the order among equals.
    """

    def __init__(
        self,
        kind: fulltext.Kind,
        table: Table,
        conditions: Sequence[ColumnElement[bool]],
        newest_first: Order,
    ) -> None:
        words, numbered = fulltext.TABLES[kind][0], fulltext.NUMBERED[kind]
        passing = numbered.join(table, table.c.id == numbered.c.id)
        newest = select(numbered.c.number).select_from(passing).where(*conditions)
        newest = newest.order_by(numbered.c.number.desc()).limit(bindparam("most"))
        self.kind = kind
        self.allowed = select(table.c.id).where(*conditions)
        self.any = ByMatch(fulltext.MATCHING[kind], table, conditions, newest_first)
        self.few = ByMatch(fulltext.MATCHING_OF_FEW[kind], table, conditions, newest_first)
        some = select(table.c.id).where(conditions[0]).limit(bindparam("most")).subquery()
        self.owned = select(func.count()).select_from(some)
        owned = words.join(table, words.c.id == table.c.id)
        self.numbers = select(words.c.number).select_from(owned).where(conditions[0])
        self.since = select(func.count(), func.min(newest.subquery().c.number))
        without = table.c.id.not_in(select(listed("without").c.value))
        signs = fulltext.has_signs(kind, table.c.id)
        self.with_signs = select(func.count()).select_from(table).where(*conditions, signs)
        signed = select(table.c.id).where(*conditions, signs, without)
        signed = signed.order_by(*newest_first(table))
        self.of_signs = signed.limit(bindparam("limit")).offset(bindparam("offset"))
        # Asked for each id by itself: of "these ids, and this filter" the database may take the
        # filter first and read all that passes it.
        named = table.alias("named")
        passes = select(table.c.id).where(*conditions, table.c.id == named.c.id)
        there = select(named.c.id).where(named.c.id.in_(select(listed("ids").c.value)))
        self.there = there.where(passes.exists()).order_by(*newest_first(named))


@dataclass(frozen=True, slots=True)
class Searched:
    """What is searched: one kind of text, under one filter."""

    shape: Shape
    values: Mapping[str, Any]
    """Of the filter."""

    @property
    def allowed(self) -> Allowed:
        """Which texts pass the filter."""
        return Allowed(self.shape.allowed, self.values)

    def matches(self, tx: Transaction, words: str, *, signs: bool = True) -> Matches:
        """What matches by these words.

        Args:
            signs: where no word is found, what has the signs beside them.
        """
        asked = self.asked(tx, words)
        found = Matches({}, 0) if asked is None else self._by_words(tx, asked)
        beside = terms.signs(words) if signs and not found.total else []
        if not beside:
            return found
        total = tx.scalar(self.shape.with_signs, {**self.values, "signs": as_list(beside)})
        signed = self._of_signs(tx, beside, (), offset=0, limit=MOST_READ)
        return Matches(signed, int(total), asked)

    def asked(self, tx: Transaction, words: str) -> Mapping[str, Any] | None:
        """The parameters by which these words match under the filter; None if none is searchable.

        Of more than `fulltext.MOST_SCORED` that pass it, only the newest match.
        """
        asked = asking.telling(tx, self.shape.kind, words)
        if asked is None:
            return None
        values = {**self.values, **asked.values}
        broad = asked.broad
        rare = False
        if asked.every is not None:
            rare = self._newest(tx, values, asking.ENOUGH)[0] < asking.ENOUGH
        if (broad or rare) and self._has_few(tx, asked.texts):
            numbers = [row[0] for row in tx.all(self.shape.numbers, self.values)]
            return {**values, "match": asked.every, "numbers": json.dumps(numbers)}
        if rare and asked.alone is not None:
            values["match"], broad = asked.alone, True
        if broad:
            _, values["since"] = self._newest(tx, values, fulltext.MOST_SCORED)
        return values

    def without(
        self, tx: Transaction, words: str, column: ColumnElement[str]
    ) -> tuple[list[ColumnElement[bool]], Mapping[str, Any]]:
        """That the text of an id matches by none of these words: conditions, and their parameters
        with those of the filter."""
        asked = self.asked(tx, words)
        if asked is None:
            return [], self.values
        return [column.not_in(select(self._ways(asked).match.c.id))], asked

    def _ways(self, asked: Mapping[str, Any]) -> ByMatch:
        return self.shape.few if "numbers" in asked else self.shape.any

    def _has_few(self, tx: Transaction, texts: int) -> bool:
        """Whether few of so many texts are the agent's."""
        most = min(FEW, texts // 10)
        return int(tx.scalar(self.shape.owned, {**self.values, "most": most + 1})) <= most

    def _newest(self, tx: Transaction, asked: Mapping[str, Any], most: int) -> tuple[int, int]:
        """How many match, up to so many, and the number from which on they do."""
        ((count, since),) = tx.all(self.shape.since, {**asked, "most": most})
        return count, since or 0

    def _by_words(self, tx: Transaction, asked: Mapping[str, Any]) -> Matches:
        rows = tx.all(self._ways(asked).best, {**asked, "limit": MOST_READ})
        total = len(rows)
        if total == MOST_READ:
            total = int(tx.scalar(self._ways(asked).matching, asked))
        return Matches(_scores(rows), total, asked)

    def candidates(
        self, tx: Transaction, words: str, near: Collection[str], limit: int
    ) -> Candidates:
        """The candidates for these words, filtered before anything is cut off.

        Args:
            near: ids that an index named.
            limit: how many to take by words, beside those.
        """
        return self.chosen(tx, words, self.matches(tx, words), near, limit)

    def chosen(
        self, tx: Transaction, words: str, found: Matches, near: Collection[str], limit: int
    ) -> Candidates:
        """`candidates` among what is known to match."""
        scores = found.scores
        keywords = dict(islice(scores.items(), limit))
        if near and len(scores) > limit:
            named = set(near)
            keywords.update(one for one in islice(scores.items(), limit, None) if one[0] in named)
        there = self.there(tx, near)
        unread = [one for one in there if one not in scores]
        if found.asked is not None and found.total > len(scores) and unread:
            values = {**found.asked, "ids": as_list(unread)}
            keywords.update(_scores(tx.all(self._ways(values).of_these, values)))
        return Candidates(keywords, there, found.total)

    def rest(
        self,
        tx: Transaction,
        words: str,
        without: Collection[str],
        *,
        offset: int,
        limit: int,
    ) -> Mapping[str, ByWords]:
        """What else matches by words, with its score, best first."""
        asked = self.asked(tx, words)
        page = {"without": as_list(without), "offset": offset, "limit": limit}
        found = {}
        if asked is not None:
            found = _scores(tx.all(self._ways(asked).rest, {**asked, **page}))
        signs = [] if found else terms.signs(words)
        return self._of_signs(tx, signs, without, offset=offset, limit=limit) if signs else found

    def _of_signs(
        self,
        tx: Transaction,
        signs: Sequence[str],
        without: Collection[str],
        *,
        offset: int,
        limit: int,
    ) -> dict[str, ByWords]:
        """What has one of these signs, newest first: all alike."""
        values = {**self.values, "signs": as_list(signs), "without": as_list(without)}
        rows = tx.all(self.shape.of_signs, {**values, "limit": limit, "offset": offset})
        return {row[0]: ByWords(1.0, 1.0, 0.0) for row in rows}

    def there(self, tx: Transaction, near: Collection[str]) -> tuple[str, ...]:
        """Of these ids what is there and passes the filters, newest first."""
        if not near:
            return ()
        rows = tx.all(self.shape.there, {**self.values, "ids": as_list(near)})
        return tuple(row[0] for row in rows)


def _scored(match: Subquery) -> tuple[ColumnElement[Any], ...]:
    return match.c.score, match.c.own, match.c.day


def _scores(rows: Sequence[AnyRow]) -> dict[str, ByWords]:
    return {one: ByWords(score, own, day) for one, score, own, day in rows}


@lru_cache(maxsize=256)
def passing(query: Select[Any]) -> Select[Any]:
    """Those of the ids in the parameter `these` that a query of ids gives too.

    Asked for each id by itself, see `Shape`.
    """
    these = listed("these")
    (column,) = query.selected_columns
    return select(these.c.value).where(query.where(column == these.c.value).exists())
