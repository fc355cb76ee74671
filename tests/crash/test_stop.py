"""A turn cancelled at every commit, await and tool: it ends whole, and the conversation goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.parametrize("caller", [False, True], ids=["by cancel()", "with the task that sends"])
def test_a_turn_cancelled_anywhere_leaves_a_sound_conversation(
    drive: Callable[..., dict[str, Any]], caller: bool
) -> None:
    outcomes = drive(do="stop", caller=caller)["outcomes"]
    broken = [
        (outcome["place"], outcome["problems"]) for outcome in outcomes if outcome["problems"]
    ]
    assert broken == []
    stopped = [outcome["effects"] for outcome in outcomes if outcome["stop reason"] == "cancelled"]
    assert len(stopped) > len(outcomes) // 2
    assert set(stopped) == {0, 1}, "cancelled before the charge and after it"
