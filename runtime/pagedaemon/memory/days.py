"""The time that a query speaks of: "last Tuesday", "in May", "on 3 June 2025", "2026-05-08".

Dates in figures are read in any language, words in English, which is also the language of the dates
that messages are found by (`store.fulltext.day_words`). Where a year is missing the last such day
is meant, since what is looked for has been said.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, tzinfo

MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
NUMBERS = ("a", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

Span = tuple[date, date]
"""From the first day on, before the second."""


def meant(words: str, now: datetime, zone: tzinfo) -> tuple[datetime, datetime] | None:
    """The time a query speaks of first, from one instant on, before another; None if of none.

    Args:
        now: what "yesterday" is seen from.
        zone: where days begin.
    """
    if not _may_name_a_time(words):
        return None
    today = now.astimezone(zone).date()
    said = [
        (_begins(found), place, read, found)
        for place, (pattern, read) in enumerate(_READERS)
        if (found := pattern.search(words)) is not None
    ]
    if not said:
        return None
    _, _, read, found = min(said, key=lambda one: one[:2])
    try:
        begin, end = read(found, today)
        return datetime.combine(begin, time(), zone), datetime.combine(end, time(), zone)
    except (ValueError, OverflowError):  # there is no such day: 31 April, the year 0
        return None


def _may_name_a_time(words: str) -> bool:
    """Whether any reader may find something: they all take a figure or one of a few words. Most
    queries have neither, and trying all readers takes longer than ranking does."""
    said = words.casefold()
    return _FIGURE.search(said) is not None or not _TELLING.isdisjoint(_WORD.findall(said))


def _begins(found: re.Match[str]) -> int:
    """Where the time itself begins, without the "in" before it."""
    return min(
        (found.start(name) for name in found.groupdict() if found[name]), default=found.start()
    )


def _day(day: date) -> Span:
    return day, day + timedelta(days=1)


def _month(year: int, month: int) -> Span:
    following = year * 12 + month
    return date(year, month, 1), date(following // 12, following % 12 + 1, 1)


def _year(year: int) -> Span:
    return date(year, 1, 1), date(year + 1, 1, 1)


def _before(today: date, month: int, day: int) -> int:
    """The year of the last such day."""
    return today.year - ((month, day) > (today.month, today.day))


def _in_figures(found: re.Match[str], _: date) -> Span:
    year, month, day = (found[name] for name in ("year", "month", "day"))
    if day is None:
        return _month(int(year), int(month))
    return _day(date(int(year), int(month), int(day)))


def _named(found: re.Match[str], today: date) -> Span:
    month = _month_number(found["month"])
    given = found["day"] or found["after"]
    year = None if found["year"] is None else int(found["year"])
    if given is None:
        return _month(_before(today, month, 1) if year is None else year, month)
    day = int(given)
    return _day(date(_before(today, month, day) if year is None else year, month, day))


def _month_number(name: str) -> int:
    begin = name[:3].casefold()
    return next(number for number, month in enumerate(MONTHS, 1) if month.startswith(begin))


def _of_week(found: re.Match[str], today: date) -> Span:
    wanted = next(n for n, day in enumerate(DAYS) if day == found["day"].casefold())
    back = (today.weekday() - wanted) % 7
    return _day(today - timedelta(days=back or 7))


def _relative(found: re.Match[str], today: date) -> Span:
    said = found[0].casefold()
    back = 2 if "before" in said else 1 if said in ("yesterday", "last night") else 0
    return _day(today - timedelta(days=back))


def _last(found: re.Match[str], today: date) -> Span:
    back = 0 if found["which"].casefold() == "this" else 1
    return _back(found["unit"].casefold(), back, today)


def _ago(found: re.Match[str], today: date) -> Span:
    said = found["count"].casefold()
    names = {"an": 1, "one": 1, **{name: number for number, name in enumerate(NUMBERS, 1)}}
    count = int(said) if said.isdecimal() else names[said]
    return _back(found["unit"].casefold(), count, today)


def _back(unit: str, count: int, today: date) -> Span:
    """So many days, weeks, months or years before today's, by the calendar."""
    if unit == "day":
        return _day(today - timedelta(days=count))
    if unit == "week":
        monday = today - timedelta(days=today.weekday(), weeks=count)
        return monday, monday + timedelta(weeks=1)
    if unit == "month":
        months = today.year * 12 + today.month - 1 - count
        return _month(months // 12, months % 12 + 1)
    return _year(today.year - count)


def _only_year(found: re.Match[str], _: date) -> Span:
    return _year(int(found["year"]))


# Where nothing before it says that a time is meant, these are words of their own: "may", "march".
_BEFORE = r"\b(?:in|on|since|during|until|of|by|last|this|early|late|mid)\s+"
_SURE = "|".join(rf"{name}|{name[:3]}" for name in MONTHS if name not in ("march", "may"))
_ANY = "|".join(rf"{name}|{name[:3]}" for name in MONTHS)
_DAY = r"(?:st|nd|rd|th)?"
_YEAR = r"(?:,?\s+(?P<year>(?:19|20)\d\d))?\b"


def _read(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_READERS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], date], Span]], ...] = (
    (_read(r"\b(?P<year>\d{4})-(?P<month>\d\d)(?:-(?P<day>\d\d))?\b"), _in_figures),
    (_read(r"\b(?P<day>\d{1,2})\.\s?(?P<month>\d{1,2})\.\s?(?P<year>\d{4})\b"), _in_figures),
    (
        _read(
            rf"\b(?P<day>\d{{1,2}}){_DAY}\s+(?:of\s+)?(?P<month>{_ANY})\b(?P<after>(?!))?{_YEAR}"
        ),
        _named,
    ),
    (_read(rf"\b(?P<day>(?!))?(?P<month>{_ANY})\s+(?P<after>\d{{1,2}}){_DAY}\b{_YEAR}"), _named),
    (_read(rf"{_BEFORE}(?P<day>(?!))?(?P<month>{_ANY})\b(?P<after>(?!))?{_YEAR}"), _named),
    (_read(rf"\b(?P<day>(?!))?(?P<month>{_SURE})\b(?P<after>(?!))?{_YEAR}"), _named),
    (_read(rf"\b(?P<day>{'|'.join(DAYS)})\b"), _of_week),
    (
        _read(
            r"\b(?:the day before yesterday|yesterday|last night|today|this morning|"
            r"this afternoon|this evening|tonight)\b"
        ),
        _relative,
    ),
    (_read(r"\b(?P<which>last|this|past|previous)\s+(?P<unit>week|month|year)\b"), _last),
    (
        _read(
            rf"\b(?P<count>\d{{1,3}}|an|one|{'|'.join(NUMBERS)})\s+(?P<unit>day|week|month|year)s?\s+ago\b"
        ),
        _ago,
    ),
    (_read(r"\b(?:in|of|during|since)\s+(?P<year>(?:19|20)\d\d)\b"), _only_year),
)

_FIGURE = re.compile(r"\d")
_WORD = re.compile(r"[^\W\d_]+")
_TELLING = frozenset(
    [
        *(word for month in MONTHS for word in (month, month[:3])),
        *DAYS,
        *("yesterday", "today", "tonight", "night", "morning", "afternoon", "evening"),
        *("week", "month", "year", "ago"),
    ]
)
"""Of each reader one that it cannot do without, unless that is a figure."""
