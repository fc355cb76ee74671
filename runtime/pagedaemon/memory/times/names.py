"""What people call a day or a stretch of days, by itself: "8 May 2026", "last week", "Q1 2025".

How they are put together ("between", "before", "early") is read by `spoken`, which days they are
by `spans`. Figures are read in any language, words in English, which is also the language of the
dates that messages are found by (`store.fulltext.day_words`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Literal

from pagedaemon.memory.times import spans
from pagedaemon.memory.times.spans import (
    MONTHS,
    NUMBERS,
    ORDINAL_DAYS,
    ORDINALS,
    SEASONS,
    TENS,
    WEEKDAYS,
    Reader,
    Span,
)

Sort = Literal["date", "weekday", "relative", "year", "number"]
"""What a name is: `date`, which lacks a year or does not; `weekday` by its name alone; `relative`
to today, whatever else is named; `year` by its number alone, with a word before it that says so;
`number`, the same without such a word, which may be anything."""


@dataclass(frozen=True, slots=True)
class Named:
    """A name of days, where it stands in a text."""

    begin: int
    end: int
    sort: Sort
    read: Callable[[date], Span | None]
    """Which days it means, seen from a day; None where it names days that it does not tell.
    Raises `ValueError` or `OverflowError` if there are no such days: 31 April, the year 0."""


def names(words: str, *, southern: bool = False) -> list[Named]:
    """All names of days in a text, in their order; of those that overlap the first, of those that
    begin together the longest.

    Args:
        southern: seasons are those of the southern half of the earth.
    """
    found = sorted(_all(words, southern), key=lambda one: (one.begin, -one.end))
    kept: list[Named] = []
    for one in found:
        if not kept or one.begin >= kept[-1].end:
            kept.append(one)
    return kept


def _all(words: str, southern: bool) -> Iterator[Named]:
    for pattern, sort, reader in _READERS:
        for found in pattern.finditer(words):
            yield Named(*_place(found), sort, _reading(reader, found, southern))


def _reading(reader: Reader, found: re.Match[str], southern: bool) -> Callable[[date], Span | None]:
    said = {name: part.casefold() for name, part in found.groupdict().items() if part is not None}
    if southern:
        said["southern"] = ""
    return lambda today: reader(said, today)


def _place(found: re.Match[str]) -> tuple[int, int]:
    """Where the name itself stands, without the "in" before it."""
    return found.span("name") if found["name"] is not None else found.span()


# Where nothing before it says that a time is meant, these are words or names of their own.
_ALSO_WORDS = ("march", "april", "may", "june", "august")
_BEFORE = (
    r"\b(?:in|on|since|during|until|till|of|before|after|from|between|last|this(?!\s+may\b)|early|"
    r"late|mid)[\s-]+"
)
_SURE = "|".join(name for name in MONTHS if name not in _ALSO_WORDS)
_ANY = "|".join(rf"{name}|{name[:3]}" for name in MONTHS) + "|sept"
_MONTH = rf"(?P<month>{_ANY})\b\.?"
_WEEKDAYS = rf"(?P<weekday>{'|'.join(WEEKDAYS)})"
_SEASON = rf"(?P<season>{'|'.join(SEASONS)})"
_TH = r"(?:st|nd|rd|th)?"
_ENDS = r"(?![A-Za-z0-9_/]|[-.,:][A-Za-z0-9])"
_ALONE = r"(?<![\w.,:/#-])"
"""No part of a longer number or id."""
_ONE_YEAR = rf"(?P<year>(?:19|20)\d\d){_ENDS}"
_WITH_YEAR = rf"(?:,\s*|\s+)(?:of\s+)?{_ONE_YEAR}"
_YEAR = rf"(?:{_WITH_YEAR})?"
_NO_YEAR = r"(?!\s+(?:of\s+)?\d{4})"
_UNIT = r"(?P<unit>day|week|month|quarter|year)s?\b"
_NUMBER = (
    rf"(?:\b(?:{'|'.join(TENS)})(?:[\s-](?:{'|'.join(NUMBERS[:9])}))?\b|"
    rf"\b(?:{'|'.join(NUMBERS)})\b|(?<![-\w.,/])\d{{1,4}}\b)"
)
_TO = r"\s*(?:-|–|—|\b(?:to|until|till|through)\b)\s*(?:the\s+)?"  # noqa: RUF001
_AND = r"\s+and\s+(?:the\s+)?"
_WITH = rf"(?:{_TO}|\s+(?:and|or)\s+)(?:(?:early|mid|late)[\s-]+)?"
_FIRST = rf"(?P<first>\d{{1,2}}){_TH}"
_DAY = rf"(?P<day>\d{{1,2}}){_TH}"
_NTH = r"(?P<day>\d{1,2})(?:st|nd|rd|th)\b"
_EARLIER = r"(?P<earlier>\s+before\s+last\b)"
_BETWEEN = r"\bbetween\s+(?:the\s+)?"


def _reads(
    pattern: str, sort: Sort, reader: Reader, before: str = ""
) -> tuple[re.Pattern[str], Sort, Reader]:
    return re.compile(rf"{before}(?P<name>{pattern})", re.IGNORECASE), sort, reader


_DAY_MONTH = rf"{_DAY}\s+(?:of\s+)?{_MONTH}{_YEAR}"
_DAY_AFTER = rf"{_DAY}(?:{_WITH_YEAR}|(?![\w/]|[-.,:]\d))"

_READERS: tuple[tuple[re.Pattern[str], Sort, Reader], ...] = (
    _reads(
        rf"(?P<year>\d{{4}})-(?P<month>\d\d)(?:-(?P<day>\d\d)(?:T\d\d:\d\d\S*)?)?{_ENDS}",
        "date",
        spans.in_figures,
        _ALONE,
    ),
    _reads(
        rf"(?P<day>\d{{1,2}})\.\s?(?P<month>\d{{1,2}})\.\s?(?P<year>\d{{4}}){_ENDS}",
        "date",
        spans.in_figures,
        _ALONE,
    ),
    _reads(
        rf"(?P<year>\d{{4}})/(?P<month>\d\d?)/(?P<day>\d\d?){_ENDS}",
        "date",
        spans.in_figures,
        _ALONE,
    ),
    _reads(
        rf"(?P<first>\d{{1,2}})/(?P<second>\d{{1,2}})/(?P<year>\d{{4}}){_ENDS}",
        "date",
        spans.slashed,
        _ALONE,
    ),
    _reads(
        r"(?<!\d)(?P<year>\d{4})\s?[年년]"
        r"(?:\s?(?P<month>\d{1,2})\s?[月월](?:\s?(?P<day>\d{1,2})\s?[日일])?)?",
        "date",
        spans.in_signs,
    ),
    _reads(
        r"(?<!\d)(?P<month>\d{1,2})\s?[月월]\s?(?P<day>\d{1,2})\s?[日일]", "date", spans.in_signs
    ),
    _reads(rf"(?:{_FIRST}{_TO})?{_DAY_MONTH}", "date", spans.named, _ALONE),
    _reads(rf"{_FIRST}{_AND}{_DAY_MONTH}", "date", spans.named, _BETWEEN),
    _reads(rf"\b{_MONTH}\s+(?:the\s+)?(?:{_FIRST}{_TO})?{_DAY_AFTER}", "date", spans.named),
    _reads(rf"{_MONTH}\s+(?:the\s+)?{_FIRST}{_AND}{_DAY_AFTER}", "date", spans.named, _BETWEEN),
    _reads(rf"{_MONTH}{_YEAR}", "date", spans.named, _BEFORE),
    _reads(rf"\b(?P<month>{_SURE})\b{_YEAR}", "date", spans.named),
    _reads(rf"\b{_MONTH}{_WITH_YEAR}", "date", spans.named),
    _reads(rf"\b{_MONTH}(?={_WITH}(?:{_ANY})\b)", "date", spans.named),
    _reads(rf"{_MONTH}{_YEAR}", "date", spans.named, rf"\b(?:{_ANY})(?:\s+\d+)?{_WITH}"),
    _reads(
        rf"\b(?P<nth>{'|'.join(reversed(ORDINAL_DAYS))})\s+(?:of\s+)?{_MONTH}{_YEAR}",
        "date",
        spans.named,
    ),
    _reads(
        rf"\b{_MONTH}\s+(?:the\s+)?(?P<nth>{'|'.join(reversed(ORDINAL_DAYS))})\b{_YEAR}",
        "date",
        spans.named,
    ),
    _reads(
        rf"\b(?P<which>{'|'.join(ORDINALS)}|last)\s+(?P<what>day|week|{'|'.join(WEEKDAYS)})\s+"
        rf"(?:of|in)\s+{_MONTH}{_YEAR}",
        "date",
        spans.within_month,
    ),
    _reads(rf"\b(?:(?P<which>last|this)\s+)?{_WEEKDAYS}\b{_EARLIER}?", "weekday", spans.of_weekday),
    _reads(rf"(?P<count>{_NUMBER})\s+{_WEEKDAYS}s\s+ago\b", "relative", spans.of_weekday),
    _reads(
        rf"\b(?:last\s+)?{_WEEKDAYS},?\s+(?:the\s+)?{_NTH}", "relative", spans.weekday_and_number
    ),
    _reads(rf"\bthe\s+{_NTH}\s+of\s+(?P<which>last|this)\s+month\b", "relative", spans.of_month),
    _reads(
        rf"the\s+{_NTH}(?=\s*(?:[?!.,;:)]|$|(?:about|at|to|with|i|we|you|he|she|they|it|did|was|"
        r"were|when)\b))",
        "relative",
        spans.of_month,
        r"\b(?:on|since|before|after|until|till)\s+",
    ),
    _reads(
        r"\b(?P<one>(?:the\s+)?day\s+before\s+yesterday|yesterday|last\s+night|today|tonight|"
        r"this\s+(?:morning|afternoon|evening))\b",
        "relative",
        spans.relative,
    ),
    _reads(
        rf"\b(?P<which>last|this|past|previous)\s+(?:(?P<count>{_NUMBER})\s+)?{_UNIT}",
        "relative",
        spans.last,
    ),
    _reads(rf"\b(?:the\s+)?(?P<unit>week|month|year)(?P<which>){_EARLIER}", "relative", spans.last),
    _reads(
        rf"(?P<count>\ba\s+couple(?:\s+of)?|\ban?|{_NUMBER})\s+"
        r"(?P<unit>day|week|fortnight|month|year)s?\s+ago\b",
        "relative",
        spans.ago,
    ),
    _reads(
        r"\b(?:(?:more|less|longer)\s+than|over|under|at\s+least|at\s+most|nearly|almost|half|"
        r"(?:hundred|thousand|days?|weeks?|months?|years?)\s+and)\s+[\w-]+(?:\s+[\w-]+){1,2}\s+ago\b",
        "relative",
        spans.not_told,
    ),
    _reads(
        rf"\b(?P<which>last|this|past|previous|the)\s+weekend\b{_EARLIER}?",
        "relative",
        spans.weekend,
    ),
    _reads(rf"\b(?P<which>last|this)\s+{_SEASON}\b{_NO_YEAR}", "relative", spans.season),
    _reads(
        rf"(?P<which>the)\s+{_SEASON}\b{_NO_YEAR}",
        "relative",
        spans.season,
        r"\b(?:in|during|over|since)\s+",
    ),
    _reads(rf"\b{_SEASON}\s+(?:of\s+)?{_ONE_YEAR}", "date", spans.season),
    _reads(rf"\bQ(?P<quarter>[1-4])(?:\s*[/,-]?\s*|\s+of\s+){_ONE_YEAR}", "date", spans.quarter),
    _reads(r"(?P<year>(?:19|20)\d\d)[\s/-]?Q(?P<quarter>[1-4])\b", "date", spans.quarter, _ALONE),
    _reads(r"Q(?P<quarter>[1-4])\b", "date", spans.quarter, r"\b(?:in|of|during|since|last)\s+"),
    _reads(
        rf"\b(?P<quarter>{'|'.join(ORDINALS[:4])}|last)\s+quarter\s+(?:of\s+)?{_ONE_YEAR}",
        "date",
        spans.quarter,
    ),
    _reads(
        _ONE_YEAR,
        "year",
        spans.only_year,
        r"\b(?:in|of|during|since|year|before|after|until|till|early|late|mid)[\s-]+",
    ),
    _reads(_ONE_YEAR, "number", spans.only_year, _ALONE),
)
