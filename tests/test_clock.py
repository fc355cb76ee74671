"""Time as it is read and told."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pagedaemon.clock import local_minute, local_stamp


def test_an_instant_is_told_in_the_readers_zone() -> None:
    noon = datetime(2026, 11, 30, 6, 53, 31, tzinfo=UTC)
    assert local_stamp(noon, "Asia/Tokyo") == "Monday 2026-11-30 15:53:31 +09:00 (Asia/Tokyo)"
    assert local_minute(noon, "Asia/Tokyo") == "Monday 2026-11-30 15:53"


@pytest.mark.parametrize(
    ("edge", "zone"),
    [
        (datetime.max.replace(tzinfo=UTC), "Asia/Tokyo"),
        (datetime.min.replace(tzinfo=UTC), "America/New_York"),
    ],
)
def test_where_a_zone_has_no_such_day_it_is_told_in_utc(edge: datetime, zone: str) -> None:
    assert local_stamp(edge, zone).endswith("+00:00 (UTC)")
