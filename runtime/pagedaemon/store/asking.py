"""What of a query is looked for, what each part of it tells, and how much of it a text covers.

A word tells the more the fewer texts have it. One that none has may have been meant otherwise.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from sqlalchemy import Select, TableClause, bindparam, func, literal, select

from pagedaemon.store import fulltext, spelling, writings
from pagedaemon.store.fulltext import Kind
from pagedaemon.store.terms import (
    has_unspaced,
    neighbours,
    query_terms,
    telling_terms,
    words_of,
)
from pagedaemon.store.transaction import Transaction

COMMON = 1 / 3
"""Share of all messages beyond which a word that they have is `common`, from `LEAST_COMMON` on. Its
idf is about 0 then, since it also stands beside most others: as a name does that each of two has
before all that he says."""

LEAST_COMMON = 100

NAMING = 1 / 4
"""Share of all texts beyond which a word that they have says nothing of what one of them is about,
from `LEAST_NAMING` on: as a name does in notes on one person."""

LEAST_NAMING = 20

MOST_WEIGHED = 8
"""Words of a long query that a text may be expected to have: the rarest."""


SAMPLE = 20_000
"""Texts, the newest, by which it is judged how many of all have a frequent word, or several at
once: looking at all would cost the more the more there are."""

MOST_COUNTED = 1_000_000
"""Texts that have the words of a query, those of each word added up. SQLite counts them anew for
every search (idf), 50 in a microsecond. Words with which there are more weigh nothing."""

ENOUGH = 10
"""Texts that must have several words at once, where those that have the rarest are too many."""


MOST_CUT = 8
"""Numbers and ids of a query that are looked for in other groups."""

MOST_GROUPINGS = 32
"""Ways to cut each that are looked for, those of the fewest groups."""

MOST_GROUPINGS_OF_MANY = 8
"""The same among more than `spelling.TOO_MANY` texts, of which many have each short number."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a query is looked for."""

    match: str
    """An FTS5 expression."""
    broad: bool = False
    """It may match more than `fulltext.MOST_SCORED` texts."""
    common: str | None = None
    """One of the words that too many messages have to be told by. Such a message is found where
    what stands beside it has the others."""
    alone: str | None = None
    """Where `match` asks for several words at once, the broad expression of the rarest: for filters
    that leave fewer than `ENOUGH` of what has several."""
    every: str | None = None
    """Where frequent words find nothing by themselves, an expression by which they do: for whom few
    of all texts are, since his may have none of what is rare among all."""
    texts: int = 0
    """How many there are at most."""

    @property
    def values(self) -> dict[str, str]:
        """The parameters of `fulltext.MATCHING`."""
        found = {"match": self.match}
        return found if self.common is None else {**found, "common": self.common}


def telling(tx: Transaction, kind: Kind, query: str) -> Asked | None:
    """A query without the words that say least, where there are others; None if nothing in it is
    searchable.

    Function words (`function_words`) go first, unless they are quoted: without them, recall@10 on
    the open LoCoMo conversations is 0.790 in place of 0.766 where no model is installed, and 0.812
    in place of 0.786 with one. A word that stands in thousands of texts tells them hardly apart,
    and scoring them all is what a search costs. So words are taken from the rarest on, as long as
    all that they match stays under `MOST_MATCHES`. Beside a word that stands nowhere those count
    that it may have meant (`spelling`). Of those that count, words that a third of all messages
    have (`COMMON`) are apart, where there are rarer ones: half of the time of a search was spent on
    what they match, for no hit more.

    More frequent words find nothing by themselves, but weigh in the score of what is found
    (`_weighing`); among more than `SAMPLE` texts also those do for which there was no room. Where
    all are that frequent, what is found has several of them (`_together`), or the only one.
    """
    terms = telling_terms(query)
    if not terms:
        return None
    found, texts = _counted(tx, kind, terms)
    room = fulltext.MOST_MATCHES
    kept: list[str] = []
    for term, frequency in sorted(found.items(), key=lambda one: one[1]):
        if frequency > room:
            break
        # Also what is in no text of its own: it may stand beside one, or be its date.
        room -= frequency
        kept.append(term)
    frequent = [term for term, frequency in found.items() if frequency > fulltext.MOST_MATCHES]
    for _, term, frequency in _meant(tx, kind, query, found, texts):
        if frequency <= room:
            room -= frequency
            terms.append(term)
            kept.append(term)
    common = _common(found, kept, texts) if kind == "message" else set()
    # In the order in which they were asked for, so that the same words are the same query.
    asked = [term for term in terms if term in kept]
    others = " OR ".join(term for term in asked if term in common)
    asked = [term for term in asked if term not in common]
    match = " OR ".join(asked)
    apart = f"{fulltext.OWN} : ({others})" if others else None
    left = [term for term in found if term not in kept and term not in frequent]
    if not frequent and (not left or texts <= SAMPLE):
        return Asked(match, common=apart)
    frequencies = _estimated(tx, kind, frequent, texts) if frequent else {}
    if room == fulltext.MOST_MATCHES:
        return _together(tx, kind, frequencies, texts, kept)
    told = _told(frequencies, texts)
    every = " OR ".join([*asked, *left, *_countable(frequencies)])
    match = _weighing(match, asked, [*left, *told])
    return Asked(match, common=apart, every=every, texts=texts)


def _estimated(tx: Transaction, kind: Kind, terms: Sequence[str], texts: int) -> dict[str, float]:
    """In how many texts each of these terms stands, about, the rarest first."""
    own = [f"{fulltext.OWN} : {term}" for term in terms]
    found = dict(zip(terms, _about(tx, kind, own, texts), strict=True))
    return {term: found[term] for term in sorted(found, key=lambda term: found[term])}


def _countable(frequencies: Mapping[str, float]) -> list[str]:
    """Of frequent terms, the rarest first, as many as may be counted, at least one."""
    room = float(MOST_COUNTED)
    kept: list[str] = []
    for term, frequency in frequencies.items():
        room -= frequency
        if kept and (room < 0 or len(kept) == MOST_WEIGHED):
            break
        kept.append(term)
    return kept


def _told(frequencies: Mapping[str, float], texts: int) -> list[str]:
    """Of these those that tell something."""
    return [term for term in _countable(frequencies) if frequencies[term] <= COMMON * texts]


def _weighing(match: str, terms: Sequence[str], others: Sequence[str]) -> str:
    """An expression that matches what this one does, and in which other terms weigh too.

    Args:
        terms: those of the expression, which has each once.
    """
    if not others:
        return match
    # FTS5 scores by every term as often as it stands in the expression: each twice.
    return f"({match}) AND ({' OR '.join([*terms, *others, *others])})"


def _together(
    tx: Transaction,
    kind: Kind,
    frequencies: Mapping[str, float],
    texts: int,
    nowhere: Sequence[str],
) -> Asked:
    """What has several of the words at once, where all are frequent: the rarest and any other; or,
    as long as that is more than `MOST_SCORED`, the two rarest and any other, and so on. What has
    the rarest alone, where fewer than `ENOUGH` have more.

    Args:
        frequencies: the words, the rarest first, and in how many texts each stands, about.
        nowhere: words that no text has by itself.
    """
    rarest, *others = frequencies
    told = [rarest, *(term for term in _told(frequencies, texts) if term != rarest)]
    if len(told) == 1:
        told += others[:1]
    alone = _weighing(rarest, [rarest], [*told[1:], *nowhere])
    several = [
        f"{' AND '.join(told[:needed])} AND ({' OR '.join(told[needed:])})"
        for needed in range(1, len(told))
    ]
    steps = [_weighing(step, told, nowhere) for step in several]
    every = " OR ".join([*nowhere, *_countable(frequencies)])
    found = Asked(alone, True, every=every, texts=texts)
    for step, about in zip(steps, _about(tx, kind, steps, texts), strict=True):
        if about > 2 * fulltext.MOST_SCORED:
            found = replace(found, match=step, alone=alone)
            continue
        (count,) = _matched(tx, kind, [step], fulltext.MOST_SCORED + 1)[0].values()
        if count >= ENOUGH:
            broad = count > fulltext.MOST_SCORED
            found = replace(found, match=step, broad=broad, alone=alone)
        if count <= fulltext.MOST_SCORED:
            break
    return found


def _about(tx: Transaction, kind: Kind, matches: Sequence[str], texts: int) -> list[float]:
    """In how many texts each of these expressions is found, judged by the newest."""
    since = max(0, texts - SAMPLE)
    found = _matched(tx, kind, matches, SAMPLE, since)[0]
    return [found[match] * texts / (texts - since) for match in matches]


def _common(found: Mapping[str, int], kept: Sequence[str], texts: int) -> set[str]:
    """Those of the words that count which too many of the messages have, where some have a rarer
    one.

    Args:
        found: in how many each stands.
    """
    most = max(LEAST_COMMON, COMMON * texts)
    if not any(0 < found.get(term, 0) <= most for term in kept):
        return set()
    return {term for term in kept if found.get(term, 0) > most}


@dataclass(frozen=True, slots=True)
class Weighed:
    """What a query asks for, and how much each part of it tells."""

    weights: Mapping[str, float]
    """By term, the heaviest first."""
    covering: Mapping[str, Sequence[str]]
    """By term, what counts as it: itself, and what it may have meant where it stands nowhere."""


def weighed(
    tx: Transaction,
    kind: Kind,
    query: str,
    *,
    telling: bool = False,
    without: Collection[str] = (),
    known: Collection[str] = (),
) -> Weighed:
    """The `MOST_WEIGHED` heaviest terms of a query.

    A word's weight is its idf, ln(1 + (N - n + 0.5) / (n + 0.5)), with n of N texts that have it
    (Robertson and Zaragoza, 2009, in the form of Lucene, which is above 0 in the smallest index).
    What stands nowhere weighs as much as what stands in one text; what `telling` would find too
    frequent, or a quarter of all texts have (`NAMING`), weighs nothing.

    Args:
        telling: function words do not count, where the query has others.
        without: names whose words do not count either.
        known: words that count only where they stand somewhere.
    """
    left_out = {word.casefold() for name in without for word in words_of(name)}
    asked = telling_terms(query) if telling else query_terms(query)
    terms = [term for term in asked if term.strip('"').casefold() not in left_out]
    frequencies, texts = _counted(tx, kind, terms)
    weights: dict[str, float] = {}
    covering = {term: [term] for term in terms}
    for term, meant, _ in _meant(tx, kind, query, frequencies, texts):
        covering[term].append(meant)
    only_known = {f'"{word.casefold()}"' for word in known}
    most = min(fulltext.MOST_MATCHES, NAMING * texts if texts >= LEAST_NAMING else texts)
    for term, frequency in frequencies.items():
        found = max(1, frequency)
        if found <= most and (frequency or term.casefold() not in only_known):
            weights[term] = math.log(1 + (max(texts - found, 0) + 0.5) / (found + 0.5))
    heaviest = sorted(weights, key=lambda term: -weights[term])[:MOST_WEIGHED]
    return Weighed({term: weights[term] for term in heaviest}, covering)


def coverage(tx: Transaction, kind: Kind, asked: Weighed, ids: Sequence[str]) -> dict[str, float]:
    """How much of a query the texts with these ids cover, from 0 to 1: the weight of its words that
    they have over the weight of all. Comparable between queries, which the score of a match is
    not."""
    covered = dict.fromkeys(ids, 0.0)
    terms = {
        f"{fulltext.OWN} : ({' OR '.join(asked.covering[term])})": weight
        for term, weight in asked.weights.items()
    }
    values = {"terms": json.dumps(list(terms)), "ids": json.dumps(list(ids))}
    found = {(row[0], row[1]) for row in tx.all(_HAVING[kind], values)} if ids and terms else set()
    for term, weight in terms.items():
        for one in ids:
            if (term, one) in found:
                covered[one] += weight
    whole = sum(asked.weights.values())
    return {one: weight / whole for one, weight in covered.items()} if whole else covered


def _meant(
    tx: Transaction, kind: Kind, query: str, found: Mapping[str, int], texts: int
) -> Iterator[tuple[str, str, int]]:
    """Terms of a query that stand nowhere, each with one that may have been meant, and in how many
    texts that stands: the same written otherwise (`writings`), else a slip (`spelling`). Parts of
    compounds, which take longer, only where nothing else would be found.

    Args:
        found: the terms, and in how many texts each stands.
        texts: how many there are at most.
    """
    vocab = spelling.MESSAGES if kind == "message" else spelling.PASSAGES
    nowhere = [term for term, frequency in found.items() if not frequency]
    alone = len(nowhere) == len(found)
    otherwise = list(_otherwise(tx, kind, query, found, texts)) if nowhere else []
    yield from otherwise
    known = {term for term, _, _ in otherwise}
    for term in nowhere:
        if term in known:
            continue
        word = term.strip('"')
        if not word.isalpha() or has_unspaced(word):
            continue
        likely = spelling.slips(tx, vocab, word, texts)
        if alone and not likely:
            likely = spelling.compounds(tx, vocab, word, texts)
        for meant, frequency in likely:
            # As a beginning: stemmed a second time it may be shorter.
            yield term, f'"{meant}"*', frequency


def _otherwise(
    tx: Transaction, kind: Kind, query: str, terms: Mapping[str, int], texts: int
) -> Iterator[tuple[str, str, int]]:
    """Terms that stand nowhere, with the same as it is written in texts, and in how many."""
    words = {term.strip('"'): term for term in terms if term[-1] == '"' and " " not in term}
    missing = [word for word, term in words.items() if not terms[term]]
    if not missing:
        return
    asked = [
        (other, [word])
        for word in missing
        for ways in (writings.apart, writings.hyphenated, writings.stroked)
        for other in ways(word)
    ]
    beside = neighbours(query)
    asked += writings.joined(beside, missing, strange=2 * len(missing) >= len(words))
    for number, of in islice(writings.runs(beside, missing), MOST_CUT):
        asked += [(other, of) for other in _grouped(tx, kind, number, texts)]
    if not asked:
        return
    found = _frequencies(tx, kind, list(dict.fromkeys(other for other, _ in asked)))
    for other, of in asked:
        if found[other]:
            yield from ((words[word], other, found[other]) for word in of)


def _grouped(tx: Transaction, kind: Kind, number: str, texts: int) -> list[str]:
    """The likeliest ways to cut a number or id into groups that stand in texts."""
    own = {f"{fulltext.OWN} : {group}": group for group in writings.groups(number)}
    found, _ = _matched(tx, kind, list(own), 1)
    known = {own[match] for match, there in found.items() if there}
    most = MOST_GROUPINGS if texts <= spelling.TOO_MANY else MOST_GROUPINGS_OF_MANY
    return list(islice(writings.grouped(number, known), most))


def _counted(tx: Transaction, kind: Kind, terms: Sequence[str]) -> tuple[dict[str, int], int]:
    """In how many texts each term stands, up to one more than `MOST_MATCHES`, and how many texts
    there are at most."""
    asked = {f"{fulltext.OWN} : {term}": term for term in terms}
    found, texts = _matched(tx, kind, list(asked), fulltext.MOST_MATCHES + 1)
    return {asked[match]: frequency for match, frequency in found.items()}, texts


def _matched(
    tx: Transaction, kind: Kind, matches: Sequence[str], most: int, since: int = 0
) -> tuple[dict[str, int], int]:
    """The same of FTS5 expressions, up to so many, among texts with that number or a higher one."""
    values = {"terms": json.dumps(matches), "most": most, "since": since}
    rows = tx.all(_FREQUENCY[kind], values)
    return {row[0]: row[1] for row in rows}, rows[0][2] or 0 if rows else 0


def _frequencies(tx: Transaction, kind: Kind, terms: Sequence[str]) -> dict[str, int]:
    """The first of `_counted`."""
    return _counted(tx, kind, terms)[0]


def _frequency(words: TableClause, index: TableClause) -> Select[Any]:
    term = func.json_each(bindparam("terms")).table_valued("value")
    # Counted only up to where it no longer matters.
    found = select(literal(1)).where(
        index.c[index.name].op("MATCH")(term.c.value), index.c.rowid >= bindparam("since")
    )
    some = found.limit(bindparam("most")).correlate(term).subquery()
    counted = select(func.count()).select_from(some).correlate(term).scalar_subquery()
    # The last number given: no less than there are texts, and known without counting them.
    texts = select(func.max(words.c.number)).scalar_subquery()
    return select(term.c.value, counted, texts)


_FREQUENCY = {kind: _frequency(*both) for kind, both in fulltext.TABLES.items()}


def _having(words: TableClause, index: TableClause) -> Select[Any]:
    term = func.json_each(bindparam("terms")).table_valued("value")
    listed = select(func.json_each(bindparam("ids")).table_valued("value").c.value)
    there = select(words.c.number).where(words.c.id.in_(listed))
    number = fulltext.once(index.c.rowid)
    matched = term.join(index, index.c[index.name].op("MATCH", is_comparison=True)(term.c.value))
    joined = matched.join(words, words.c.number == number)
    return select(term.c.value, words.c.id).select_from(joined).where(number.in_(there))


_HAVING = {kind: _having(*both) for kind, both in fulltext.TABLES.items()}
