"""The time that a query speaks of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedaemon.memory.days import meant

# A Monday.
NOW = datetime(2026, 11, 30, 15, 0, tzinfo=UTC)


def span(words: str) -> tuple[str, str] | None:
    found = meant(words, NOW, UTC)
    return None if found is None else (str(found[0].date()), str(found[1].date()))


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


def test_days_begin_where_the_agent_is() -> None:
    tokyo = ZoneInfo("Asia/Tokyo")
    found = meant("today", NOW, tokyo)
    assert found is not None
    # In Tokyo it is already 1 December.
    assert found[0] == datetime(2026, 11, 30, 15, 0, tzinfo=UTC)
    assert found[1] - found[0] == timedelta(days=1)


@given(st.text("0123456789-. agolstyermhwk", max_size=30))
def test_whatever_is_asked_it_is_a_time_or_none(words: str) -> None:
    found = meant(words, NOW, UTC)
    assert found is None or found[0] < found[1]
