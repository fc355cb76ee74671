"""Agents that share blocks, their queues, approvals, timers and conversations, worked on at random
through the public API and held against plain data after every operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import count
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import rule, run_state_machine_as_test
from tests.crash.forking import folder
from tests.machine.base import operations
from tests.machine.editing import Editing
from tests.machine.talking import Talking
from tests.machine.waiting import Waiting

OPERATIONS = 10_000
"""How many there are in a run, at least."""

KINDS = {
    "say",
    "say at once",
    "send again",
    "stop",
    "fill",
    "page out",
    "alert",
    "reset",
    "pop",
    "delete conversation",
    "replace agent",
    "edit made",
    "edit stale",
    "edit too_long",
    "edit not_found",
    "edit ambiguous",
    "edit no_such_line",
    "edit empty_text",
    "edit of what was deleted",
    "restore",
    "set block",
    "attach or detach",
    "make or delete block",
    "call ok",
    "call failed",
    "call awaiting",
    "approve",
    "deny",
    "answer too late",
    "ring",
    "letter",
    "answer",
    "expire",
    "schedule",
    "cancel timer",
    "hold timers",
    "let timers go on",
    "wait",
    "reopen",
}
"""What has to come about in a run, for it to show anything."""


class Operations(Talking, Editing, Waiting):
    """All that can be done."""


class Everything(Operations):
    """One operation after another."""

    @rule(chosen=operations(Operations))
    def operate(self, chosen: tuple[str, Mapping[str, Any]]) -> None:
        """Any of them."""
        name, given = chosen
        getattr(self, name)(**given)


def test_a_space_is_what_its_operations_make_of_plain_data() -> None:
    done: Counter[str] = Counter()
    numbers = count()
    with folder() as place:

        class Here(Everything):
            """In a folder of its own each time."""

            def __init__(self) -> None:
                super().__init__(place / str(next(numbers)), done)

        run_state_machine_as_test(
            Here,
            settings=settings(
                max_examples=68,
                stateful_step_count=150,
                deadline=None,
                derandomize=True,
                database=None,
                phases=[Phase.generate, Phase.shrink],
                suppress_health_check=list(HealthCheck),
            ),
        )
    assert done.total() >= OPERATIONS
    assert {kind for kind in KINDS if done[kind] < 10} == set()
