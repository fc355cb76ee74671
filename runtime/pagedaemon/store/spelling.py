"""What a word may have meant that stands in no text: one slip of the hand, or part of a compound.

Only such a word is looked at, so that nothing that is spelled right ever finds what it did not ask
for. The index knows words by their stems, so a word is compared with its own beginning too; what
a compound is told by that alone is asked of a text that has it.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Integer,
    Select,
    TableClause,
    Text,
    bindparam,
    column,
    func,
    select,
    table,
)

from pagedaemon.store import fulltext
from pagedaemon.store.transaction import Transaction

LEAST = 5
"""Characters of a word that is looked at. Shorter ones have too many neighbours."""

LEAST_IN_COMPOUND = 4
"""Characters of a part that a compound begins with."""

LEAST_AT_END = 5
"""Characters of a part that a compound ends with, of one in -ing one more: "crossing" is no kind of
"sing", and "clothing" none of "thing"."""

LEAST_STEM = 3
"""Characters that stemming leaves of a part at the end of a compound."""

MOST_READ = 40
"""Stems of which texts are asked whether the word they come from has a part, or is one; those of
most texts first."""

EACH_READ = 3
"""Texts that are asked for each."""

MOST_LETTERS = 1_000
"""Characters of a word that is found as one that begins with another."""

MOST = 5
"""Words that one may have meant, those of most texts first."""

MANY = 10_000
"""Texts from which on looking up what a slip may have made of a word is less than reading all words
that begin as it does: SQLite counts the texts of each word that it reads."""

TOO_MANY = 100_000
"""Texts beyond which not all words are read, which would take a second among a million."""

_ENDING = 3
"""Characters that a stem may be shorter than its word, beside the slip."""

Found = tuple[str, int]
"""A word as the index has it, and in how many texts it stands."""


def vocabulary(name: str) -> TableClause:
    """The words of an index (FTS5's fts5vocab, one row for each)."""
    return table(name, column("term", Text), column("doc", Integer))


def slips(tx: Transaction, vocab: TableClause, word: str, texts: int = 0) -> list[Found]:
    """Words of the index that are this one but for one character left out, put in, changed or
    swapped with the next; never the first.

    Args:
        texts: how many there are; how they are looked for depends on it, and not what is found.
    """
    plain = folded(word)
    if len(plain) < LEAST:
        return []
    begins = [plain[0]] if texts < MANY else _begins(tx, vocab, plain)
    least, most = max(LEAST, len(plain) - _ENDING - 1), len(plain) + 1
    rows = _between(tx, vocab, [(begin, _beyond(begin)) for begin in begins], least, most)
    return _best(row for row in rows if _is_slip(plain, row[0]))


def compounds(tx: Transaction, vocab: TableClause, word: str, texts: int = 0) -> list[Found]:
    """Words of the index that have this one as a part, or that begin or end it, also where stemming
    took the ending of the part ("telefonnumm" has "Nummer"). Reads the whole vocabulary; of more
    than `TOO_MANY` texts only what begins with the word, and what begins or ends it unstemmed.

    Args:
        texts: how many there are.
    """
    plain = folded(word)
    if len(plain) < LEAST:
        return []
    at_end = LEAST_AT_END + plain.endswith("ing")
    if texts <= TOO_MANY:
        stem = plain[: max(LEAST_STEM, len(plain) - _ENDING)]
        values = {"word": plain, "stem": stem, "least": LEAST_IN_COMPOUND}
        rows = {(row[0], row[1]) for row in tx.all(_WITHIN[vocab.name], values)}
        begun = {row for row in rows if plain in row[0] or _begins_with(plain, row[0])}
        stems = tuple(_stems(plain))
        cut = [row for row in rows - begun if row[0].endswith(stems) or _ends(plain, row[0])]
        return _best([*begun, *_with_part(tx, vocab, plain, cut, at_end)])
    parts = {plain[:size] for size in range(LEAST_IN_COMPOUND, len(plain))}
    parts |= {plain[-size:] for size in range(at_end, len(plain))}
    whole = [(part, f"{part}\x01") for part in sorted(parts)]
    rows = _between(tx, vocab, [(plain, _beyond(plain)), *whole], LEAST_IN_COMPOUND, MOST_LETTERS)
    return _best(rows)


def _stems(word: str) -> set[str]:
    """What stemming may leave of a word where it ends a longer one: "stori" of "story"."""
    sizes = range(max(LEAST_STEM, len(word) - _ENDING), len(word))
    found = {word[:size] for size in sizes}
    return found | {f"{word[: size - 1]}i" for size in (*sizes, len(word)) if word[size - 1] == "y"}


def _begins_with(word: str, part: str) -> bool:
    return len(part) >= LEAST_IN_COMPOUND and word.startswith(part)


def _ends(word: str, stem: str) -> bool:
    """Whether a stem stands at the end of a word, or as far from it as an ending is long."""
    return word.find(stem, max(0, len(word) - len(stem) - _ENDING)) > 0


def _with_part(
    tx: Transaction, vocab: TableClause, word: str, stems: Iterable[Found], at_end: int
) -> list[Found]:
    """Those of stems that come from words that have this one as a part, or that end it with at
    least so many characters, as the first texts with them tell."""
    asked = sorted(stems, key=lambda one: (-one[1], one[0]))[:MOST_READ]
    terms = {f'{fulltext.OWN} : "{stem}"*': (stem, count) for stem, count in asked}
    if not terms:
        return []
    values = {"terms": json.dumps(list(terms)), "each": EACH_READ}
    found: list[Found] = []
    for term, read in tx.all(_READ[vocab.name], values):
        written = folded(read or "").split()
        # Behind one letter alone it is no part, but a slip of the first one.
        has_it = any(one.find(word) > 1 for one in written)
        if has_it or any(len(one) >= at_end and word.endswith(one) for one in written):
            found.append(terms[term])
    return found


def _begins(tx: Transaction, vocab: TableClause, word: str) -> list[str]:
    """What words begin with that are one slip from this one: as it does, or with a slip in the
    second or third character and then as it goes on."""
    found = [word[:3]]
    for at in (1, 2):
        same, after = word[:at], word[at + 1 : 4]
        found += [f"{same}{after}", f"{same}{word[at + 1]}{word[at]}{word[at + 2 : 4]}"]
        # Any other character there, in place of the word's or before it.
        values = {"same": same, "size": at, "beyond": _beyond(same)}
        others = {row[0][at : at + 1] for row in tx.all(_NEXT[vocab.name], values) if row[0]}
        for other in others - {""}:
            found += [f"{same}{other}{after}", f"{same}{other}{word[at:4]}"]
    return found


def _beyond(begin: str) -> str:
    """The first that comes after all that begin so."""
    return f"{begin[:-1]}{chr(ord(begin[-1]) + 1)}"


def _between(
    tx: Transaction,
    vocab: TableClause,
    ranges: Iterable[tuple[str, str]],
    least: int,
    most: int,
) -> set[Found]:
    """Words of the index from one on, before another, of so many characters."""
    values = {"ranges": json.dumps(list(ranges)), "least": least, "most": most}
    rows = tx.all(_BETWEEN[vocab.name], values)
    return {(row[0], row[1]) for row in rows if row[0] is not None}


def folded(word: str) -> str:
    """As the index's tokenizer has it before stemming: small letters without diacritics."""
    if word.isascii():
        return word.lower()
    apart = unicodedata.normalize("NFKD", word.lower())
    return "".join(char for char in apart if unicodedata.category(char) != "Mn")


def _best(found: Iterable[Found]) -> list[Found]:
    return sorted(found, key=lambda one: (-one[1], one[0]))[:MOST]


def _is_slip(word: str, stem: str) -> bool:
    """Whether a word, or its beginning as stemming leaves it, is one slip from a stem that has the
    same first character."""
    kept = word[1:3]
    if stem[1] not in kept and stem[2] not in kept:
        return False  # wherever the slip is, it leaves one of them
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


def _ranged(vocab: TableClause) -> Select[Any]:
    ranges = func.json_each(bindparam("ranges")).table_valued("value")
    first, beyond = (func.json_extract(ranges.c.value, f"$[{at}]", type_=Text()) for at in (0, 1))
    size = func.length(vocab.c.term).between(bindparam("least"), bindparam("most"))
    within = (vocab.c.term >= first) & (vocab.c.term < beyond) & size
    # An outer join, and nothing asked of what it gives: else SQLite reads all words for each range.
    return select(vocab.c.term, vocab.c.doc).select_from(ranges.outerjoin(vocab, within))


_BETWEEN = {vocab.name: _ranged(vocab) for vocab in (MESSAGES, PASSAGES)}


def _each_next(vocab: TableClause) -> Select[Any]:
    """A word for each character that follows `same`: from one to the first with another one."""
    same, beyond = bindparam("same", type_=Text()), bindparam("beyond", type_=Text())

    def first_from(begin: ColumnElement[str]) -> ColumnElement[str]:
        words = vocab.alias()
        found = select(words.c.term).where(words.c.term >= begin).order_by(words.c.term)
        return found.limit(1).scalar_subquery()

    found = select(first_from(same).label("term")).cte("found", recursive=True)
    last = func.substr(found.c.term, bindparam("size") + 1, 1)
    after = same.concat(func.char(func.unicode(last) + 1))
    others = select(first_from(after)).where(found.c.term < beyond)
    every = found.union(others)
    return select(every.c.term).where(every.c.term < beyond)


_NEXT = {vocab.name: _each_next(vocab) for vocab in (MESSAGES, PASSAGES)}


def _within(vocab: TableClause) -> Select[Any]:
    term, word = vocab.c.term, bindparam("word", type_=Text())
    has_it = func.instr(term, bindparam("stem", type_=Text())) > 0
    part = (func.length(term) >= bindparam("least")) & (func.instr(word, term) > 0)
    return select(term, vocab.c.doc).where(has_it | part)


_WITHIN = {vocab.name: _within(vocab) for vocab in (MESSAGES, PASSAGES)}


def _read(index: TableClause) -> Select[Any]:
    """For each term the words that it matches, as the first texts with it have them."""
    term = func.json_each(bindparam("terms")).table_valued("value")
    written = func.snippet(index.c[index.name], 0, " ", " ", "", 1, type_=Text()).label("written")
    matched = select(written).where(index.c[index.name].op("MATCH")(term.c.value))
    some = matched.limit(bindparam("each")).correlate(term).subquery()
    together = select(func.group_concat(some.c.written, " ")).correlate(term).scalar_subquery()
    return select(term.c.value, together)


_READ = {
    MESSAGES.name: _read(fulltext.TABLES["message"][1]),
    PASSAGES.name: _read(fulltext.TABLES["passage"][1]),
}
