"""What passes a filter, in an order of its own: newest, counted, and what of it no word finds.

As with `candidates`, the statements of one shape of filter are made once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Table, bindparam, func, select

from pagedaemon.store.candidates import Searched, as_list, listed
from pagedaemon.store.transaction import Transaction


class Listing:
    """The statements that list what passes filters of one shape.

    Args:
        table: where it stands.
        conditions: of the filter, with parameters for its values.
        order: of what is listed.
    """

    def __init__(
        self,
        table: Table,
        conditions: Sequence[ColumnElement[bool]],
        order: Sequence[ColumnElement[Any]],
    ) -> None:
        self.id = table.c.id
        passing = select(table.c.id).where(*conditions).order_by(*order)
        self.newest = passing.limit(bindparam("limit"))
        self.count = select(func.count()).select_from(table).where(*conditions)
        left = table.c.id.not_in(select(listed("without").c.value))
        self.left = passing.where(left).limit(bindparam("limit")).offset(bindparam("offset"))


@dataclass(frozen=True, slots=True)
class Listed:
    """What passes one filter."""

    listing: Listing
    values: Mapping[str, Any]
    """Of the filter."""

    def newest(self, tx: Transaction, limit: int) -> list[str]:
        """Ids of the first."""
        return [row[0] for row in tx.all(self.listing.newest, {**self.values, "limit": limit})]

    def count(self, tx: Transaction) -> int:
        """How many there are."""
        return int(tx.scalar(self.listing.count, self.values))

    def not_found(
        self,
        tx: Transaction,
        searched: Searched,
        words: str,
        *,
        without: Collection[str],
        offset: int,
        limit: int,
    ) -> list[str]:
        """Ids of what matches by none of these words.

        Args:
            searched: the same filter as it is searched.
            without: ids that are left out too.
        """
        unmatched, values = searched.without(tx, words, self.listing.id)
        page = {"without": as_list(without), "offset": offset, "limit": limit}
        left = self.listing.left.where(*unmatched)
        return [row[0] for row in tx.all(left, {**values, **page})]
