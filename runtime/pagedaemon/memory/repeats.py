"""Records that say the same again in other words: told when one more is kept, last in a search.

Nothing is left out and nothing is removed. What says the same is told by the vectors that are
stored, and then by the words (`sameness`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from pagedaemon.memory.sameness import LONGEST, Wording, apart, replaced, reworded
from pagedaemon.store import outbox, passages, vectors
from pagedaemon.store.passages import PassageFilter, PassageRow
from pagedaemon.store.transaction import Transaction
from pagedaemon.store.vectors import Embedded, Vector

ASKED = 16
"""The nearest records that are compared with a new one."""

SINCE = 64
"""Vectors that have come since those were looked for, and are compared too."""

AT_ONCE = 40
"""Hits that are compared in one go."""

AT_ONCE_BY_WORDS = 20
"""The same where there are no vectors, and each costs as much as it would alone."""

OF_ONE_FORM = 2
"""Hits that are one sentence but for a word, such as "likes", "loves" and "enjoys", or "two" and
"three", and keep their places. Whether they tell of one thing nobody knows; more of them repeat."""

_NO_LETTERS = re.compile(r"[\W_]+")

Hit = TypeVar("Hit")


@dataclass(frozen=True, slots=True)
class Placed:
    """A text among those that are stored."""

    model: str
    """Whose vectors they are."""
    vectors: tuple[Vector, ...]
    """Of its pieces."""
    nearest: tuple[str, ...]
    """The records that are nearest to it, by id."""
    seen: int
    """The number of the newest change of vectors when they were looked for."""


def like(
    tx: Transaction,
    agent_id: str,
    text: str,
    placed: Placed,
    *,
    least: float,
    now: datetime,
) -> list[PassageRow]:
    """The records of an agent that a text says again in other words, newest first. Compared are the
    nearest, and what has got its vectors since they were looked for.

    Args:
        least: the cosine from which two texts may say the same.
    """
    last, _ = vectors.changes(tx)
    since = (
        vectors.added(tx, placed.model, after=placed.seen, upto=last, limit=SINCE)
        if last > placed.seen
        else ()
    )
    ids = dict.fromkeys([*placed.nearest, *(row[2] for row in since)])
    there = passages.living(tx, agent_id, list(ids), now)
    pieces = _pieces(tx, placed.model, there)
    wording = Wording.of(text)
    found = [
        row
        for row in there.values()
        if row.id in pieces
        and _near(placed.vectors, pieces[row.id], least)
        and not apart(wording, Wording.of(row.text))
    ]
    return _newest_first(found)


def known(
    tx: Transaction, given: PassageFilter, text: str, placed: Placed | None, least: float | None
) -> list[PassageRow]:
    """The records that say what a text says, in the same words or in others, newest first.

    Args:
        given: which records.
        placed: None: by words alone.
        least: as `like`; None: by words alone.
    """
    found = _reworded_in(tx, given, text)
    if placed is not None and least is not None:
        found += like(tx, given.agent_id, text, placed, least=least, now=given.now)
    return _newest_first({row.id: row for row in found}.values())


def _newest_first(rows: Iterable[PassageRow]) -> list[PassageRow]:
    by_id = sorted(rows, key=lambda row: row.id)
    return sorted(by_id, key=lambda row: row.created_at, reverse=True)


def _reworded_in(tx: Transaction, given: PassageFilter, text: str) -> list[PassageRow]:
    """The records that are a text again but for case, marks and blanks."""
    ids = passages.searched(given).candidates(tx, text, (), ASKED).keywords
    wording = Wording.of(text)
    rows = passages.by_ids(tx, list(ids)).values()
    return [row for row in rows if reworded(wording, Wording.of(row.text))]


def keep_vectors(tx: Transaction, passage_id: str, searched: str, placed: Placed) -> None:
    """Gives a record that was just stored the vectors that its text has got already, so that it is
    not embedded twice.

    Args:
        searched: what is embedded of it.
    """
    if vectors.dimension(tx, placed.model) not in (None, len(placed.vectors[0])):
        return
    digest = hashlib.sha256(searched.encode()).hexdigest()
    vectors.put(tx, placed.model, [Embedded("passage", passage_id, placed.vectors, digest)])
    outbox.drop(tx, [passage_id])


def repeats_last(
    tx: Transaction,
    ranked: Mapping[str, Hit],
    *,
    least: float,
    model: str | None,
    upto: int,
) -> list[Hit]:
    """Hits, best first, with those that say again what a better one says behind all others, in
    their order.

    They are compared some at a time, until as many differ as are asked for. What stands beyond
    these is not in its place yet, but the same hits come first however many are asked for.

    Args:
        ranked: by id, best first.
        least: the cosine from which two texts may say the same.
        model: whose vectors are compared; None, or where one has none yet: equal but for case,
            marks and blanks.
        upto: how many first hits are asked for.
    """
    compared = _Compared(tx, model, least)
    ids = list(ranked)
    first: list[str] = []
    repeated: list[str] = []
    size, at = AT_ONCE if model is not None else AT_ONCE_BY_WORDS, 0
    while at < len(ids) and len(first) < upto:
        some = ids[at : at + size]
        again = compared.again(some)
        first += [one for one in some if one not in again]
        repeated += again
        at += size
    return [ranked[one] for one in [*first, *ids[at:], *repeated]]


class _Compared:
    """Hits as far as they have been looked at."""

    def __init__(self, tx: Transaction, model: str | None, least: float) -> None:
        self._tx = tx
        self._model = model
        self._least = least
        self._first: dict[str, None] = {}
        """Those that differ, best first."""
        self._seen: list[str] = []
        """Those that have vectors."""
        self._pieces: dict[str, list[Vector]] = {}
        self._texts: dict[str, str] = {}
        self._wordings: dict[str, Wording] = {}
        self._letters: dict[str, list[str]] | None = None
        """Those that differ, by their letters; None until one comes that has no vectors."""

    def again(self, ids: Sequence[str]) -> list[str]:
        """Takes more hits up. Returns those that say again what a better one says."""
        if self._model is not None:
            self._pieces |= _pieces(self._tx, self._model, ids)
        near = self._near([one for one in ids if one in self._pieces])
        unread = [one for one in ids if one not in self._pieces or one in near]
        if unread:
            self._read(dict.fromkeys([*unread, *(other for one in near for other in near[one])]))
        found = []
        for one in ids:
            others = (other for other in near.get(one, ()) if other in self._first)
            if self._repeats(one, others) or self._reworded(one):
                found.append(one)
            else:
                self._first[one] = None
                if self._letters is not None:
                    self._letters.setdefault(self._key(one), []).append(one)
        return found

    def _repeats(self, one: str, others: Iterable[str]) -> bool:
        """Whether one says again what better hits say that are near to it."""
        of_one_form = 0
        for other in others:
            mine, its = self._wording(one), self._wording(other)
            if apart(mine, its):
                continue
            if not replaced(mine, its):
                return True
            of_one_form += 1
        return of_one_form >= OF_ONE_FORM

    def _near(self, ids: Sequence[str]) -> dict[str, list[str]]:
        """Of hits that have vectors, those before it to which each is near, itself or by a third:
        of three wordings of one thing two may be nearer to the third than to each other."""
        import numpy as np

        begin = len(self._seen)
        self._seen += ids
        if not ids:
            return {}
        firsts = np.stack([self._pieces[one][0] for one in self._seen])
        near = vectors.products(firsts, firsts) >= self._least
        np.fill_diagonal(near, val=False)
        if not near[begin:].any():
            return {}
        for one, other in np.argwhere(near):
            mine, its = self._pieces[self._seen[one]], self._pieces[self._seen[other]]
            near[one, other] = _near(mine, its, self._least)
        by_third = near | np.stack([near[row].any(axis=0) for row in near])
        found = {}
        for place in range(begin, len(self._seen)):
            before = [self._seen[int(one)] for one in np.flatnonzero(by_third[place, :place])]
            if before:
                found[self._seen[place]] = before
        return found

    def _reworded(self, one: str) -> bool:
        """Whether one is equal to a better one but for case, marks and blanks, where either has no
        vectors."""
        bare = one not in self._pieces
        if self._letters is None:
            if not bare:
                return False
            self._read(self._first)
            self._letters = {}
            for other in self._first:
                self._letters.setdefault(self._key(other), []).append(other)
        self._read([one])
        return any(
            reworded(self._wording(one), self._wording(other))
            for other in self._letters.get(self._key(one), ())
            if bare or other not in self._pieces
        )

    def _read(self, ids: Iterable[str]) -> None:
        missing = [one for one in ids if one not in self._texts]
        if missing:
            self._texts |= passages.texts(self._tx, missing, LONGEST + 1)

    def _key(self, one: str) -> str:
        return _NO_LETTERS.sub("", self._texts[one].casefold())

    def _wording(self, one: str) -> Wording:
        if one not in self._wordings:
            self._wordings[one] = Wording.of(self._texts[one])
        return self._wordings[one]


def _near(one: Sequence[Vector], other: Sequence[Vector], least: float) -> bool:
    """Whether two texts are near piece by piece."""
    return len(one) == len(other) and all(
        float(mine @ its) >= least for mine, its in zip(one, other, strict=True)
    )


def _pieces(tx: Transaction, model: str, ids: Iterable[str]) -> dict[str, list[Vector]]:
    """The vectors of records, those of each in the order of its pieces."""
    import numpy as np

    numbered: dict[str, list[tuple[int, bytes]]] = {}
    for rows in vectors.of_owners(tx, model, list(ids)):
        for seq, _, owner, data in rows:
            numbered.setdefault(owner, []).append((seq, data))
    return {
        owner: [np.frombuffer(data, "<f4") for _, data in sorted(of_it)]
        for owner, of_it in numbered.items()
    }
