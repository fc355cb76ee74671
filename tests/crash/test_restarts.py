"""What a process does that opens a store after others have died on it, one after the other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.crash.driving import Report

CLAIMED = ["after a commit", 0]
"""Of a turn and of its recovery: it is ours, and nothing else has happened yet."""
STEP_ONE_DONE = ["after a commit", 1]
STEP_TWO_DONE_IN_RECOVERY = ["after a commit", 3]
CHARGED = ["inside a tool", 1]
"""The card is charged, and the result not stored."""
BALANCE_NOT_READ = ["inside a tool", 2]
"""The second call of the reply has begun; the result of the first is stored."""


KILLS = {
    "charged": [CHARGED, CLAIMED, CLAIMED],
    "in the second call": [BALANCE_NOT_READ],
    "getting nowhere": [CLAIMED, CLAIMED, CLAIMED],
    "getting further": [STEP_ONE_DONE, STEP_TWO_DONE_IN_RECOVERY, CLAIMED],
}
"""Where one process after the other dies; who comes then lives."""

ENDS = {"getting nowhere": ["interrupted"]}
"""Stop reasons that are honest there."""


@pytest.fixture(scope="module")
def reports(drive: Callable[..., Report]) -> dict[str, Report]:
    """What came of each."""
    jobs = [
        {"do": "restarts", "kills": kills, "ends": ENDS.get(name, [])}
        for name, kills in KILLS.items()
    ]
    return dict(zip(KILLS, drive(do="several", jobs=jobs)["reports"], strict=True))


def test_a_charge_without_result_is_unknown_after_three_restarts_and_never_made_again(
    reports: dict[str, Report],
) -> None:
    report = reports["charged"]
    assert report["killed"] == [True, True, True]
    assert report["problems"] == []
    assert (report["effects"], report["status"]) == (1, "unknown")
    assert report["asked"] == ["3", "later"]


def test_a_process_that_died_in_its_second_call_leaves_a_valid_history(
    reports: dict[str, Report],
) -> None:
    report = reports["in the second call"]
    assert report["problems"] == []
    assert (report["effects"], report["status"]) == (1, "ok")
    assert report["asked"] == ["3", "later"]
    assert report["taken up"] == 1, "the repair is logged once"


def test_a_turn_that_kills_every_process_before_it_gets_anywhere_is_given_up(
    reports: dict[str, Report],
) -> None:
    report = reports["getting nowhere"]
    assert report["killed"] == [True, True, True]
    assert report["problems"] == []
    assert report["stop reason"] == "interrupted"
    assert report["asked"] == ["later"]


def test_restarts_of_a_turn_that_gets_further_each_time_do_not_end_it(
    reports: dict[str, Report],
) -> None:
    report = reports["getting further"]
    assert report["killed"] == [True, True, True]
    assert report["problems"] == []
    assert report["stop reason"] == "end_turn"
    assert report["asked"] == ["3", "later"]
