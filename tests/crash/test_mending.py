"""Mending that is killed is finished by whoever mends next, whenever it was.

See `mending.py` for how.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.crash.driving import Report, unkilled
from tests.crash.mending import WRONG

KINDS = ["before a statement", "before a commit", "after a commit"]

NOWHERE = ["inside a tool", 9]
"""A place that mending does not come to."""


def test_mending_that_was_killed_is_finished_and_then_finds_nothing(
    drive: Callable[..., Report],
) -> None:
    sweep = {"do": "sweep", "kinds": KINDS, "sparse": True, "pairs": 0, "kills": 0, "seed": 1}
    whole = {"do": "restarts", "kills": [NOWHERE]}
    killed, undisturbed = drive(do="several", workload="mending", jobs=[sweep, whole])["reports"]
    assert undisturbed["problems"] == []
    assert undisturbed["found"] == {**dict.fromkeys(WRONG, "mended"), "outcome_unknown": "left"}
    assert killed["broken"] == []
    assert unkilled(killed) == []
    assert killed["places"]["before a statement"] >= 90
    assert killed["places"]["after a commit"] >= 10
