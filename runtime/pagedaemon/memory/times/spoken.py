"""The time that a query speaks of: "last Tuesday", "between May 1 and May 3", "before 2024".

What one day or stretch of days is called stands in `names`; here it is read what is said around it.
What is not understood is not read as something else: a wrong day finds what was not asked for,
while without one the words are still looked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple

from pagedaemon.memory.times.names import Named, names
from pagedaemon.memory.times.spans import MONTHS, SEASONS, WEEKDAYS, Span, day


class Meant(NamedTuple):
    """The time that a query speaks of, from one instant on, before another; None: from the first
    on, or to the last."""

    begin: datetime | None
    end: datetime | None
    number: str | None = None
    """The year as it was written, where nothing says that it is one: `room 2024` is none."""

    def holds(self, at: datetime) -> bool:
        """Whether an instant lies within."""
        return (self.begin is None or self.begin <= at) and (self.end is None or at < self.end)

    @property
    def one_day(self) -> bool:
        """Whether it is one day, or a part of one."""
        if self.begin is None or self.end is None:
            return False
        return self.end - self.begin <= timedelta(days=1)


def meant(words: str, now: datetime, zone: tzinfo) -> Meant | None:
    """The time a query speaks of first, a number that only may be a year last; None if of none.

    Seasons are those of the north, unless clocks are put forward in January there.

    Args:
        now: what "yesterday" is seen from.
        zone: where days begin.
    """
    found = _first(words, now, zone)
    return None if found is None else found[1]


def without_time(words: str, now: datetime, zone: tzinfo) -> str:
    """A query without what `meant` reads in it, and without the words that make a stretch of it
    ("before", "between"): all of it where that is nothing."""
    found = _first(words, now, zone)
    if found is None:
        return words
    said = found[0]
    before, onwards = words[: said.start], _ONWARDS.match(words, said.stop)
    for opening in (_PART, _OPEN, _BETWEEN):
        before = opening.sub("", before)
    return f"{before} {words[said.stop if onwards is None else onwards.end() :]}"


def may_name_a_time(words: str) -> bool:
    """Whether anything can be found: all names have a figure or one of a few words. Most queries
    have neither, and to look for all names takes longer than ranking does."""
    if _FIGURE.search(words) is not None:
        return True
    said = set(_WORD.findall(words.casefold()))
    return not _TELLING.isdisjoint(said) or not (_UNITS.isdisjoint(said) or _WHICH.isdisjoint(said))


@lru_cache(maxsize=100)  # A search asks for both, and one that has to be sure more than once.
def _first(words: str, now: datetime, zone: tzinfo) -> tuple[_Said, Meant] | None:
    if not may_name_a_time(words):
        return None
    today = now.astimezone(zone).date()
    said = list(_spans(words, today, southern=_southern(zone)))
    sure = [one for one in said if one.number is None]
    for one in sure or said:
        try:
            begin, end = (
                None if at is None else datetime.combine(at, time(), zone)
                for at in (one.begin, one.end)
            )
        except OverflowError:  # pragma: no cover - no day is outside the calendar
            continue
        number = None if words.strip(" ?!.") == one.number else one.number
        return one, Meant(begin, end, number)
    return None


_FIGURE = re.compile(r"\d")
_WORD = re.compile(r"[^\W\d_]+")
_TELLING = frozenset(
    [
        *(word for month in MONTHS for word in (month, month[:3])),
        *WEEKDAYS,
        *("sept", "yesterday", "today", "tonight", "weekend", "ago"),
    ]
)
_UNITS = frozenset(
    [
        *SEASONS,
        *("night", "morning", "afternoon", "evening"),
        *(f"{unit}{s}" for unit in ("day", "week", "month", "quarter", "year") for s in ("", "s")),
    ]
)
_WHICH = frozenset(["last", "this", "past", "previous", "in", "during", "over", "since"])
"""Of each name one of the first, or a unit and which of it, unless it has a figure."""


def _southern(zone: tzinfo) -> bool:
    """By the clocks of 2009, when more of the south put them forward than today."""
    january, july = (datetime(2009, month, 15, tzinfo=zone).utcoffset() for month in (1, 7))
    return january is not None and july is not None and january > july


@dataclass(frozen=True, slots=True)
class _Said:
    """What was said of a time, from one place of the text to another."""

    start: int
    stop: int
    begin: date | None
    end: date | None
    number: str | None = None


def _spans(words: str, today: date, *, southern: bool) -> Iterator[_Said]:
    """All that is understood, in the order of the text."""
    found = names(words, southern=southern)
    at = 0
    while at < len(found):
        group = [found[at]]
        while at + len(group) < len(found) and _joined(words, group[-1], found[at + len(group)]):
            group.append(found[at + len(group)])
        at += len(group)
        try:
            said = _whole(words, group, today)
        except (ValueError, OverflowError):  # there is no such day: 31 April, the year 0
            continue
        if said is not None and (said.begin is None or said.end is None or said.begin < said.end):
            yield said


def _joined(words: str, one: Named, other: Named) -> bool:
    """Whether two names are parts of one. A number is only the end of a stretch of years."""
    if "number" in (one.sort, other.sort):
        between = words[one.end : other.begin]
        return bool(_RANGE.fullmatch(between) or _BOTH.fullmatch(between))
    return _JOINT.fullmatch(words, one.end, other.begin) is not None


def _whole(words: str, group: list[Named], today: date) -> _Said | None:
    """What names say together, with the words around them."""
    first, last = group[0], group[-1]
    before = words[: first.begin]
    if any(_REFUSED.search(words[: one.begin]) for one in group):
        return None
    if _OWN_LAST.search(before) and words[first.begin :].casefold().startswith(("last", "first")):
        return None
    number = None
    if len(group) == 1:
        span = _part(words, first, today)
        if first.sort == "number" and not _YEAR_MEANT.search(before):
            number = words[first.begin : first.begin + 4]
    elif len(group) == 2:
        joint = words[first.end : last.begin]
        if _RANGE.fullmatch(joint):
            span = _range(words, first, last, today)
        elif _BOTH.fullmatch(joint):
            span = _range(words, first, last, today, gap=_BETWEEN.search(before) is not None)
        else:
            span = _narrowed(first, last, today)
    else:
        span = None
    if span is None:
        return None
    begin, end = _opened(words, first.begin, last.end, span)
    return _Said(first.begin, last.end, begin, end, number)


def _part(words: str, one: Named, today: date) -> Span | None:
    """Of a name's days those that a word before it takes: early, mid and late are a third each."""
    span = one.read(today)
    found = _PART.search(words[: one.begin])
    if span is None or found is None:
        return span
    begin, end = span
    which, length = found["part"].casefold(), (end - begin).days
    if length < 3:
        return span
    if which.endswith("half"):
        middle = begin + timedelta(days=length // 2)
        return (begin, middle) if which.startswith("first") else (middle, end)
    third = timedelta(days=length // 3)
    if which.startswith(("early", "beginning", "start")):
        return begin, begin + third
    return (end - third, end) if which.startswith(("late", "end")) else (begin + third, end - third)


def _range(words: str, first: Named, last: Named, today: date, *, gap: bool = True) -> Span | None:
    """From one name to another.

    Args:
        gap: there may be days between them: "between Monday and Friday", not "Monday and Friday".
    """
    until = _part(words, last, today)
    if until is None:
        return None
    # What lacks a year, or is a weekday, is the last one before the other.
    since = _part(words, first, until[0] if first.sort in ("date", "weekday") else today)
    if since is None or (since[1] != until[0] and not gap):
        return None
    return since[0], until[1]


def _narrowed(first: Named, last: Named, today: date) -> Span | None:
    """Both together: "Tuesday last week", "Friday, 8 May"."""
    if last.sort == "weekday":
        first, last = last, first
    if first.sort == "weekday":
        return _weekday_in(first, last, today)
    one, other = first.read(today), last.read(today)
    if one is None or other is None:
        return None
    begin, end = max(one[0], other[0]), min(one[1], other[1])
    return (begin, end) if begin < end else None


def _weekday_in(weekday: Named, other: Named, today: date) -> Span | None:
    """The one such day of a week; a date on that weekday, of the last years the first that is."""
    named = weekday.read(today)
    if named is None:
        return None
    seen = today
    for _ in range(12):
        found = other.read(seen)
        if found is None or (found[1] - found[0]).days > 7:
            return None
        days = [found[0] + timedelta(days=n) for n in range((found[1] - found[0]).days)]
        fitting = [one for one in days if one.weekday() == named[0].weekday()]
        if fitting:
            return day(fitting[0])
        if other.sort != "date":
            return None
        seen = found[0] - timedelta(days=1)
    return None


def _opened(words: str, start: int, stop: int, span: Span) -> tuple[date | None, date | None]:
    """The span, or all before or after it where that is said."""
    begin, end = span
    part = _PART.search(words[:start])
    found = _OPEN.search(words[: start if part is None else part.start()])
    if found is not None:
        which = found["which"].casefold()
        if which == "since":
            return begin, None
        if which in ("after", "later than"):
            return end, None
        return (None, begin) if which in _EXCLUDING else (None, end)
    if _ONWARDS.match(words, stop):
        return begin, None
    return begin, end


def _at_end(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"{pattern}\s*$", re.IGNORECASE)


_EXCLUDING = ("before", "prior to", "earlier than")
_DASH = r"\s*(?:-|–|—|\b(?:to|until|till|through|thru)\b)\s*(?:the\s+)?"  # noqa: RUF001
_PARTS = (
    r"(?P<part>early|mid|late|(?:beginning|start|middle|end|first\s+half|second\s+half)"
    r"(?=\s+of\b))(?:\s+(?:of|in))?[\s-]*"
    r"(?:the\s+)?"
)
_RANGE = re.compile(rf"{_DASH}(?:{_PARTS})?", re.IGNORECASE)
_BOTH = re.compile(rf"\s+(?:and|or)\s+(?:in\s+|on\s+)?(?:the\s+)?(?:{_PARTS})?", re.IGNORECASE)
_JOINT = re.compile(
    rf"{_RANGE.pattern}|{_BOTH.pattern.replace('part', 'other')}|"
    r"\s*,?\s*(?:(?:of|in|on|the)\s+)*|\s+(?:before|after)\s+(?:the\s+)?",
    re.IGNORECASE,
)
_PART = _at_end(rf"\b{_PARTS}")
_OPEN = _at_end(
    r"\b(?P<which>before|prior\s+to|earlier\s+than|until|till|up\s+to|by|since|after|later\s+than)"
    r"(?:\s+(?:the|in|on))*"
)
_ONWARDS = re.compile(
    r"\s+(?:onwards?\b|and\s+later\b|(?:to|until|till)\s+(?:now|today|date)\b)", re.IGNORECASE
)
_BETWEEN = _at_end(rf"\bbetween(?:\s+the)?(?:\s+{_PARTS})?")
_YEAR_MEANT = _at_end(rf"\b(?:between|from|by|up\s+to|than|last|(?:{_PARTS}))")
_STRETCH = (
    r"hours?|days?|nights?|weeks?|fortnights?|months?|years?|mornings?|evenings?|weekends?|"
    rf"{'|'.join(WEEKDAYS)}"
)
_REFUSED = _at_end(
    r"\b(?:next|coming|following|upcoming|every|each|another|any|not|except|other\s+than|"
    r"not\s+(?:in|on|before|after|since|until)|"
    rf"(?:{_STRETCH})\s+(?:before|after|from)|(?:an?|one|two)\s+weeks?\s+on)(?:\s+the)?"
)
_OWN_LAST = _at_end(r"(?:\b(?:my|your|his|her|its|our|their)|'s)")
