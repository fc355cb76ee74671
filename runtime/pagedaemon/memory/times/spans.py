"""Which days are meant by what people call them, seen from a day; the words are known (`names`).

Where a year is missing the last such day is meant, since what is looked for has been said.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import TypeAlias

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
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
SEASONS = ("spring", "summer", "autumn", "fall", "winter")
NUMBERS = (
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
    *("eighteen", "nineteen"),
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
ORDINAL_DAYS = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"),
    *("tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth"),
    *("seventeenth", "eighteenth", "nineteenth", "twentieth", "twenty-first", "twenty-second"),
    *("twenty-third", "twenty-fourth", "twenty-fifth", "twenty-sixth", "twenty-seventh"),
    *("twenty-eighth", "twenty-ninth", "thirtieth", "thirty-first"),
)
ORDINALS = ORDINAL_DAYS[:5]

Span: TypeAlias = tuple[date, date]
"""From the first day on, before the second."""

Said: TypeAlias = dict[str, str]
"""What the groups of a pattern found, in lower case, by name."""
Reader: TypeAlias = Callable[[Said, date], Span | None]


def day(one: date) -> Span:
    """That day."""
    return one, one + timedelta(days=1)


def month(year: int, number: int) -> Span:
    """A month, from 1; one beyond 12 or below 1 is of another year."""
    year, number = year + (number - 1) // 12, (number - 1) % 12 + 1
    following = year * 12 + number
    return date(year, number, 1), date(following // 12, following % 12 + 1, 1)


def year_of(number: int) -> Span:
    """A year."""
    return date(number, 1, 1), date(number + 1, 1, 1)


def week_of(one: date) -> Span:
    """The week of a day, from Monday."""
    monday = one - timedelta(days=one.weekday())
    return monday, monday + timedelta(weeks=1)


def back(unit: str, count: int, today: date) -> Span:
    """The day, week, month, quarter or year that is so many before today's, by the calendar."""
    if unit == "day":
        return day(today - timedelta(days=count))
    if unit == "week":
        return week_of(today - timedelta(weeks=count))
    if unit == "month":
        return month(today.year, today.month - count)
    if unit == "quarter":
        return _quarter_of(today.year, (today.month - 1) // 3 + 1 - count)
    return year_of(today.year - count)


def _before(today: date, month: int, day: int = 1) -> int:
    """The year of the last such day."""
    return today.year - ((month, day) > (today.month, today.day))


def in_figures(said: Said, _: date) -> Span:
    year, number = int(said["year"]), int(said["month"])
    return day(date(year, number, int(said["day"]))) if "day" in said else month(year, number)


def in_signs(said: Said, today: date) -> Span:
    if "month" not in said:
        return year_of(int(said["year"]))
    number, given = int(said["month"]), int(said.get("day", 1))
    year = int(said["year"]) if "year" in said else _before(today, number, given)
    return day(date(year, number, given)) if "day" in said else month(year, number)


def slashed(said: Said, _: date) -> Span | None:
    """5/8/2026 is 5 August to some and 8 May to others: neither is taken where both are days."""
    first, second, year = (int(said[name]) for name in ("first", "second", "year"))
    if first > 12 or first == second:
        return day(date(year, second, first))
    return day(date(year, first, second)) if second > 12 else None


def _month_number(name: str) -> int:
    return next(n for n, whole in enumerate(MONTHS, 1) if whole.startswith(name[:3]))


def named(said: Said, today: date) -> Span:
    number = _month_number(said["month"])
    if "nth" in said:
        said = {**said, "day": str(ORDINAL_DAYS.index(said["nth"]) + 1)}
    if "day" not in said:
        year = int(said["year"]) if "year" in said else _before(today, number)
        return month(year, number)
    first, last = int(said.get("first", said["day"])), int(said["day"])
    year = int(said["year"]) if "year" in said else _before(today, number, last)
    begin, (_, end) = date(year, number, first), day(date(year, number, last))
    return begin, end


def of_weekday(said: Said, today: date) -> Span | None:
    wanted = WEEKDAYS.index(said["weekday"])
    which = said.get("which", "last")
    if which == "this":
        this = week_of(today)[0] + timedelta(days=wanted)
        return day(this) if this <= today else None
    last = today - timedelta(days=(today.weekday() - wanted) % 7 or 7)
    more = 1 if "earlier" in said else _count(said["count"]) - 1 if "count" in said else 0
    return day(last - timedelta(weeks=more))


def weekday_and_number(said: Said, today: date) -> Span | None:
    """The last such day: "Friday the 13th". No calendar has one more than 12 years from another."""
    wanted, number = WEEKDAYS.index(said["weekday"]), int(said["day"])
    for months in range(12 * 12):
        begin, end = back("month", months, today)
        if number <= (end - begin).days:
            one = begin.replace(day=number)
            if one < today and one.weekday() == wanted:
                return day(one)
    return None


def of_month(said: Said, today: date) -> Span | None:
    """The last day of that number, or that of a month that is told from this one."""
    number = int(said["day"])
    if "which" in said:
        begin, _ = back("month", said["which"] == "last", today)
        return day(begin.replace(day=number))
    for months in range(3):
        begin, end = back("month", months, today)
        if number <= (end - begin).days and begin.replace(day=number) <= today:
            return day(begin.replace(day=number))
    return None


def within_month(said: Said, today: date) -> Span | None:
    """ "The first week of May", "the last Monday in April 2024"."""
    begin, end = named(said, today)
    which = -1 if said["which"] == "last" else ORDINALS.index(said["which"])
    if said["what"] == "week":
        first = end - timedelta(weeks=1) if which < 0 else begin + timedelta(weeks=which)
        return first, min(first + timedelta(weeks=1), end)
    days = [begin + timedelta(days=n) for n in range((end - begin).days)]
    wanted = said["what"]
    fitting = [one for one in days if wanted == "day" or WEEKDAYS[one.weekday()] == wanted]
    return day(fitting[which]) if which < len(fitting) else None


def relative(said: Said, today: date) -> Span:
    one = said["one"]
    if "before" in one:
        return day(today - timedelta(days=2))
    return day(today - timedelta(days=one.startswith(("yesterday", "last"))))


def last(said: Said, today: date) -> Span:
    if said["which"] == "past" or "count" in said:
        return _up_to(said, today)
    count = 2 if "earlier" in said else 0 if said["which"] == "this" else 1
    return back(said["unit"], count, today)


def _up_to(said: Said, today: date) -> Span:
    """So many days or other units up to today: "the past week", "the last three days"."""
    unit, count = said["unit"], _count(said.get("count", "one"))
    end = today + timedelta(days=1)
    if unit in ("day", "week"):
        return today - timedelta(days=count * (7 if unit == "week" else 1)), end
    months = {"month": 1, "quarter": 3, "year": 12}[unit] * count
    begin, before_next = month(today.year, today.month - months)
    return begin.replace(day=min(today.day, (before_next - begin).days)), end


def ago(said: Said, today: date) -> Span:
    if said["unit"] == "fortnight":
        return back("week", 2 * _count(said["count"]), today)
    return back(said["unit"], _count(said["count"]), today)


def _count(said: str) -> int:
    if said.isdecimal():
        return int(said)
    if said in ("a", "an", "the"):
        return 1
    if said.startswith("a couple"):
        return 2
    tens, _, ones = said.replace("-", " ").partition(" ")
    if tens in TENS:
        return 10 * (TENS.index(tens) + 2) + (NUMBERS.index(ones) + 1 if ones else 0)
    return NUMBERS.index(tens) + 1


def weekend(said: Said, today: date) -> Span | None:
    saturday = week_of(today)[0] + timedelta(days=5)
    which, begun = said["which"], saturday <= today
    if which == "this" and not begun:
        return None
    weeks = 0 if begun and which in ("this", "the") else 1
    first = saturday - timedelta(weeks=weeks + ("earlier" in said))
    return first, first + timedelta(days=2)


def season(said: Said, today: date) -> Span | None:
    """Whole months, as the weather is counted: summer is June to August in the north."""
    named = {"fall": "autumn"}.get(said["season"], said["season"])
    first = {"spring": 3, "summer": 6, "autumn": 9, "winter": 12}[named]
    if "southern" in said:
        first = (first + 5) % 12 + 1
    if "year" in said:  # one that begins in December is of two years
        return None if first == 12 else _months(int(said["year"]), first, 3)
    begun = today.year - (_months(today.year, first, 3)[0] > today)
    begin, end = _months(begun, first, 3)
    if said["which"] == "this":
        return (begin, end) if today < end or begin.year == today.year else None
    if said["which"] == "last" and today < end:
        return _months(begun - 1, first, 3)
    return begin, end


def _months(year: int, first: int, count: int) -> Span:
    return month(year, first)[0], month(year, first + count)[0]


def quarter(said: Said, today: date) -> Span:
    number = 4 if said["quarter"] == "last" else 0
    if not number:
        which = said["quarter"]
        number = int(which) if which.isdecimal() else ORDINALS.index(which) + 1
    year = int(said["year"]) if "year" in said else _before(today, 3 * number - 2)
    return _quarter_of(year, number)


def _quarter_of(year: int, number: int) -> Span:
    return _months(year, 3 * number - 2, 3)


def only_year(said: Said, _: date) -> Span:
    return year_of(int(said["year"]))


def not_told(_: Said, __: date) -> None:
    """It cannot be told which days are named: "over a year ago"."""
