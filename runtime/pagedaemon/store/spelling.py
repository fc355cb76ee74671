"""What a word may have meant that stands in no text: one slip of the hand, or part of a compound.

Only such a word is looked at, so that nothing that is spelled right ever finds what it did not ask
for. The index knows words by their stems, so a word is compared with its own beginning too.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Integer, Select, TableClause, Text, bindparam, column, func, select, table

from pagedaemon.store.transaction import Transaction

LEAST = 5
"""Characters of a word that is looked at. Shorter ones have too many neighbours."""

LEAST_IN_COMPOUND = 4
"""Characters of a part of a compound."""

MOST = 5
"""Words that one may have meant, those of most texts first."""

_ENDING = 3
"""Characters that a stem may be shorter than its word, beside the slip."""

Found = tuple[str, int]
"""A word as the index has it, and in how many texts it stands."""


def vocabulary(name: str) -> TableClause:
    """The words of an index (FTS5's fts5vocab, one row for each)."""
    return table(name, column("term", Text), column("doc", Integer))


def slips(tx: Transaction, vocab: TableClause, word: str) -> list[Found]:
    """Words of the index that are this one but for one character left out, put in, changed or
    swapped with the next; never the first."""
    plain = folded(word)
    if len(plain) < LEAST:
        return []
    values = {
        "first": plain[0],
        "beyond": chr(ord(plain[0]) + 1),
        "least": max(LEAST, len(plain) - _ENDING - 1),
        "most": len(plain) + 1,
    }
    rows = tx.all(_LIKE_IT[vocab.name], values)
    return _best((row[0], row[1]) for row in rows if _is_slip(plain, row[0]))


def compounds(tx: Transaction, vocab: TableClause, word: str) -> list[Found]:
    """Words of the index that have this one as a part, or that begin or end it. Reads the whole
    vocabulary."""
    plain = folded(word)
    if len(plain) < LEAST:
        return []
    values = {"word": plain, "least": LEAST_IN_COMPOUND}
    rows = tx.all(_WITHIN[vocab.name], values)
    return _best((row[0], row[1]) for row in rows)


def folded(word: str) -> str:
    """As the index's tokenizer has it before stemming: small letters without diacritics."""
    apart = unicodedata.normalize("NFKD", word.lower())
    return "".join(char for char in apart if unicodedata.category(char) != "Mn")


def _best(found: Iterable[Found]) -> list[Found]:
    return sorted(found, key=lambda one: (-one[1], one[0]))[:MOST]


def _is_slip(word: str, stem: str) -> bool:
    """Whether a word, or its beginning as stemming leaves it, is one slip from a stem."""
    for size in range(len(stem) - 1, len(stem) + 2):
        if LEAST <= size <= len(word) and len(word) - size <= _ENDING:
            begin = word[:size]
            if _apart_by_one(begin, stem):
                return True
            # Stemming makes "stori" of "story".
            if begin[-1] == "y" and _apart_by_one(f"{begin[:-1]}i", stem):
                return True
    return False


def _apart_by_one(one: str, other: str) -> bool:
    """Whether one edit makes them equal (Damerau, 1964); none does as well."""
    if len(one) > len(other):
        one, other = other, one
    same = 0
    while same < len(one) and one[same] == other[same]:
        same += 1
    left, right = one[same:], other[same:]
    if len(one) < len(other):
        return left == right[1:]
    swapped = left[:2] == right[1::-1] and left[2:] == right[2:]
    return left[1:] == right[1:] or (len(left) > 1 and swapped)


MESSAGES = vocabulary("messages_vocab")
PASSAGES = vocabulary("passages_vocab")

_LIKE_IT = {
    vocab.name: select(vocab.c.term, vocab.c.doc).where(
        vocab.c.term >= bindparam("first"),
        vocab.c.term < bindparam("beyond"),
        func.length(vocab.c.term).between(bindparam("least"), bindparam("most")),
    )
    for vocab in (MESSAGES, PASSAGES)
}


def _within(vocab: TableClause) -> Select[Any]:
    term, word = vocab.c.term, bindparam("word", type_=Text())
    has_it = func.instr(term, word) > 0
    size = func.length(term)
    begins_it = func.substr(word, 1, size) == term
    ends_it = func.substr(word, -size) == term
    part = (size >= bindparam("least")) & (begins_it | ends_it)
    return select(term, vocab.c.doc).where(has_it | part)


_WITHIN = {vocab.name: _within(vocab) for vocab in (MESSAGES, PASSAGES)}
