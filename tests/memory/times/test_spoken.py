"""The time that a query speaks of."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedaemon.memory.times.spoken import meant, without_time

# A Monday.
NOW = datetime(2026, 11, 30, 15, 0, tzinfo=UTC)


THURSDAY = datetime(2026, 5, 14, 12, 0, tzinfo=UTC)


def span(words: str, now: datetime = NOW) -> tuple[str | None, str | None] | None:
    """The first day and the one after the last, of a time that is no mere number."""
    found = meant(words, now, UTC)
    if found is None or found.number is not None:
        return None
    begin, end = (None if at is None else str(at.date()) for at in (found.begin, found.end))
    return begin, end


def days(words: str) -> str:
    """The first day and the last, seen from a Thursday in May."""
    found = span(words, THURSDAY)
    if found is None:
        return "none"
    begin, after = found
    end = None if after is None else str(date.fromisoformat(after) - timedelta(days=1))
    return begin or "" if begin == end else f"{begin or ''}..{end or ''}"


@pytest.mark.parametrize(
    ("words", "begin", "end"),
    [
        ("what did I eat yesterday?", "2026-11-29", "2026-11-30"),
        ("the day before yesterday", "2026-11-28", "2026-11-29"),
        ("what have I said today", "2026-11-30", "2026-12-01"),
        ("What happened last Tuesday?", "2026-11-24", "2026-11-25"),
        ("and on Monday", "2026-11-23", "2026-11-24"),
        ("on Sunday", "2026-11-29", "2026-11-30"),
        ("where was she in May?", "2026-05-01", "2026-06-01"),
        ("in December", "2025-12-01", "2026-01-01"),
        ("in May 2023", "2023-05-01", "2023-06-01"),
        ("on 7 May 2023", "2023-05-07", "2023-05-08"),
        ("on May 7th, 2023", "2023-05-07", "2023-05-08"),
        ("on the 3rd of March", "2026-03-03", "2026-03-04"),
        ("on 24 Dec", "2025-12-24", "2025-12-25"),
        ("the September trip", "2026-09-01", "2026-10-01"),
        ("was am 8.5.2026 war", "2026-05-08", "2026-05-09"),
        ("2026-05-08 の予定", "2026-05-08", "2026-05-09"),
        ("notes of 2026-05", "2026-05-01", "2026-06-01"),
        ("last week", "2026-11-23", "2026-11-30"),
        ("this month", "2026-11-01", "2026-12-01"),
        ("last month", "2026-10-01", "2026-11-01"),
        ("last year", "2025-01-01", "2026-01-01"),
        ("two weeks ago", "2026-11-16", "2026-11-23"),
        ("3 days ago", "2026-11-27", "2026-11-28"),
        ("11 months ago", "2025-12-01", "2026-01-01"),
        ("a year ago", "2025-01-01", "2026-01-01"),
        ("who was hired in 2024", "2024-01-01", "2025-01-01"),
        ("yesterday, not in May", "2026-11-29", "2026-11-30"),
        ("on 29 February 2024", "2024-02-29", "2024-03-01"),
    ],
)
def test_a_time_in_words_or_figures_is_read(words: str, begin: str, end: str) -> None:
    assert span(words) == (begin, end)


@pytest.mark.parametrize(
    "words",
    [
        "may I ask you something?",
        "march on",
        "what is the weather",
        "room 2024",
        "on 31 April 2023",
        "2026-13-40",
        "version 1.2.3",
        "99.99.2026",
        "decide",
        "",
    ],
)
def test_what_only_looks_like_a_time_is_none(words: str) -> None:
    assert span(words) is None


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        ("day before yesterday", "2026-05-12"),
        ("yesterday morning", "2026-05-13"),
        ("a fortnight ago", "2026-04-27..2026-05-03"),
        ("twenty days ago", "2026-04-24"),
        ("twenty-one days ago", "2026-04-23"),
        ("a couple of weeks ago", "2026-04-27..2026-05-03"),
        ("two Tuesdays ago", "2026-05-05"),
        ("the week before last", "2026-04-27..2026-05-03"),
        ("the Tuesday before last", "2026-05-05"),
        ("in the last 3 days", "2026-05-11..2026-05-14"),
        ("the past week", "2026-05-07..2026-05-14"),
        ("the past month", "2026-04-14..2026-05-14"),
        ("last two years", "2024-05-14..2026-05-14"),
        ("last weekend", "2026-05-09..2026-05-10"),
        ("over the weekend", "2026-05-09..2026-05-10"),
        ("the weekend before last", "2026-05-02..2026-05-03"),
        ("this Tuesday", "2026-05-12"),
        ("last Friday the 13th", "2026-03-13"),
        ("Friday 8 May", "2026-05-08"),
        ("Thursday, 8 May", "2025-05-08"),
        ("Friday, 8 May 2026", "2026-05-08"),
        ("Tuesday last week", "2026-05-05"),
        ("last week on Tuesday", "2026-05-05"),
        ("Tuesday two weeks ago", "2026-04-28"),
        ("on the 3rd", "2026-05-03"),
        ("what was it on the 20th?", "2026-04-20"),
        ("the 3rd of last month", "2026-04-03"),
        ("the first of May", "2026-05-01"),
        ("May the 4th", "2026-05-04"),
        ("December 1,2023", "2023-12-01"),
        ("Sept 2025", "2025-09-01..2025-09-30"),
        ("May 2024", "2024-05-01..2024-05-31"),
        ("2026年5月8日の予定", "2026-05-08"),
        ("5月8日", "2026-05-08"),
        ("2026년 4월", "2026-04-01..2026-04-30"),
        ("2026-05-08T10:00", "2026-05-08"),
        ("2026/05/08", "2026-05-08"),
        ("13/5/2026", "2026-05-13"),
        ("5/13/2026", "2026-05-13"),
        ("5/5/2026", "2026-05-05"),
        ("early May", "2026-05-01..2026-05-10"),
        ("mid-March", "2026-03-11..2026-03-21"),
        ("at the end of last month", "2026-04-21..2026-04-30"),
        ("the beginning of 2024", "2024-01-01..2024-05-01"),
        ("second half of February 2025", "2025-02-15..2025-02-28"),
        ("early last week", "2026-05-04..2026-05-05"),
        ("late yesterday", "2026-05-13"),
        ("the first week of May 2024", "2024-05-01..2024-05-07"),
        ("last week of April", "2026-04-24..2026-04-30"),
        ("the last Monday in April", "2026-04-27"),
        ("last summer", "2025-06-01..2025-08-31"),
        ("last winter", "2025-12-01..2026-02-28"),
        ("last spring", "2025-03-01..2025-05-31"),
        ("this spring", "2026-03-01..2026-05-31"),
        ("in the autumn", "2025-09-01..2025-11-30"),
        ("in the summer of 2024", "2024-06-01..2024-08-31"),
        ("Q1 2025", "2025-01-01..2025-03-31"),
        ("2025-Q4", "2025-10-01..2025-12-31"),
        ("in Q3", "2025-07-01..2025-09-30"),
        ("last quarter", "2026-01-01..2026-03-31"),
        ("third quarter of 2024", "2024-07-01..2024-09-30"),
        ("in early 2023", "2023-01-01..2023-05-01"),
        ("2024", "2024-01-01..2024-12-31"),
        ("room 2024, last Tuesday", "2026-05-12"),
    ],
)
def test_what_people_call_a_time_is_read(words: str, meaning: str) -> None:
    assert days(words) == meaning


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        ("between May 1 and May 3", "2026-05-01..2026-05-03"),
        ("between 1 and 3 May 2026", "2026-05-01..2026-05-03"),
        ("between May 1 and 3", "2026-05-01..2026-05-03"),
        ("1 May 2026 to 3 May 2026", "2026-05-01..2026-05-03"),
        ("2026-05-01 – 2026-05-03", "2026-05-01..2026-05-03"),  # noqa: RUF001
        ("1-3 May", "2026-05-01..2026-05-03"),
        ("May 1-3, 2025", "2025-05-01..2025-05-03"),
        ("from May 5 to June 3, 2023", "2023-05-05..2023-06-03"),
        ("between May and July 2024", "2024-05-01..2024-07-31"),
        ("from December to January", "2025-12-01..2026-01-31"),
        ("from early May to late June", "2025-05-01..2025-06-30"),
        ("between Monday and Wednesday", "2026-05-11..2026-05-13"),
        ("Monday and Tuesday", "2026-05-11..2026-05-12"),
        ("in May and June 2024", "2024-05-01..2024-06-30"),
        ("May or June 2023", "2023-05-01..2023-06-30"),
        ("between 2023 and 2024", "2023-01-01..2024-12-31"),
        ("from 2023 to 2024", "2023-01-01..2024-12-31"),
        ("since Monday", "2026-05-11.."),
        ("since 2020", "2020-01-01.."),
        ("from May 1 onwards", "2026-05-01.."),
        ("from May until now", "2026-05-01.."),
        ("after May 2024", "2024-06-01.."),
        ("before 2024", "..2023-12-31"),
        ("before 2024-05-01", "..2024-04-30"),
        ("before last Tuesday", "..2026-05-11"),
        ("until 2020", "..2020-12-31"),
        ("by the end of May 2025", "..2025-05-31"),
    ],
)
def test_a_stretch_of_time_is_read_whole(words: str, meaning: str) -> None:
    assert days(words) == meaning


@pytest.mark.parametrize(
    "words",
    [
        "next Tuesday",
        "tomorrow",
        "next December",
        "this Friday",
        "this weekend",
        "every Monday",
        "not on Monday",
        "not before May",
        "-3 days ago",
        "3.5 days ago",
        "1,000 days ago",
        "9999 years ago",
        "a few days ago",
        "half a year ago",
        "two and a half weeks ago",
        "a year and two months ago",
        "over a year ago",
        "more than two weeks ago",
        "Monday before 3 May",
        "two days after 3 May",
        "a week on Tuesday",
        "Tuesday in May",
        "Monday and Thursday",
        "Thursday 8 May 2026",
        "Monday Tuesday last week",
        "my last week at the bank",
        "5/8/2026",
        "on the 3rd floor",
        "winter 2024",
        "What did April say?",
        "by June",
        "this may be wrong",
        "Q1: what is it",
        "INV-2024-05-08",
        "v2024.1",
        "in 2019/20",
    ],
)
def test_what_is_not_understood_is_not_read_as_another_time(words: str) -> None:
    assert days(words) == "none"


def test_a_number_that_may_be_a_year_says_so() -> None:
    found = meant("piano 2024", NOW, UTC)
    assert found == (datetime(2024, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC), "2024")
    sure = meant("the piano in 2024", NOW, UTC)
    assert sure is not None
    assert sure.number is None


def test_where_it_is_summer_in_january_the_seasons_are_those_of_the_south() -> None:
    found = meant("last summer", THURSDAY, ZoneInfo("Australia/Sydney"))
    assert found is not None
    assert found.begin is not None
    assert found.end is not None
    assert (str(found.begin.date()), str(found.end.date())) == ("2025-12-01", "2026-03-01")


def test_days_begin_where_the_agent_is() -> None:
    tokyo = ZoneInfo("Asia/Tokyo")
    found = meant("today", NOW, tokyo)
    assert found is not None
    # In Tokyo it is already 1 December.
    assert found.begin == datetime(2026, 11, 30, 15, 0, tzinfo=UTC)
    assert found.end == found.begin + timedelta(days=1)


PARTS = (
    *("2026-05-08", "5/8/2026", "8", "2024", "31", "May", "Feb", "Monday", "yesterday", "last"),
    *("week", "weeks", "ago", "to", "and", "between", "before", "since", "early", "end of", "the"),
    *("first", "3rd", "Q1", "winter", "weekend", "this", "past", "two", "in", "-", ",", "next"),
)


@given(
    st.text("0123456789-. agolstyermhwk", max_size=30)
    | st.lists(st.sampled_from(PARTS), max_size=9).map(" ".join)
)
def test_whatever_is_asked_it_is_a_time_or_none(words: str) -> None:
    found = meant(words, NOW, UTC)
    if found is not None and found.begin is not None and found.end is not None:
        assert found.begin < found.end
    assert found is None or found[:2] != (None, None)


@pytest.mark.parametrize(
    ("words", "beside"),
    [
        ("What did we do on 8 May 2025?", "What did we do on ?"),
        ("the rent in early 2023", "the rent in"),
        ("yesterday", ""),
        ("who called between May 1 and May 3", "who called"),
        ("before 2024", ""),
        ("what happened until early 2023?", "what happened ?"),
        ("the rent from 2023 onwards", "the rent from"),
        ("who came after the first half of 2023", "who came"),
        ("since last Monday", ""),
        ("the key of the hall", "the key of the hall"),
    ],
)
def test_what_a_query_says_beside_its_time(words: str, beside: str) -> None:
    assert " ".join(without_time(words, NOW, UTC).split()) == beside
