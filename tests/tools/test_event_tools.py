"""Tools for timers and mail: only where they are wanted, and after those of memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pagedaemon import AsyncRuntime, tool
from pagedaemon.config import Settings
from pagedaemon.errors import ConfigError, ToolDefinitionError
from pagedaemon.resources import Prompts
from pagedaemon.tools.event_tools import EVENT_NAMES, event_functions
from pagedaemon.tools.memory_tools import memory_tools

TIMERS = ["set_timer", "list_timers", "cancel_timer", "pause_heartbeats"]
MAIL = ["send_message_to_agent"]


@pytest.mark.parametrize("timers", [False, True])
@pytest.mark.parametrize("messaging", [False, True])
def test_a_setting_brings_them(timers: bool, messaging: bool) -> None:
    plain = [made.name for made in memory_tools(Prompts(), Settings())]
    made = memory_tools(Prompts(), Settings(timers=timers, messaging=messaging))
    wanted = TIMERS * timers + MAIL * messaging
    assert [one.name for one in made] == [*plain, *wanted]
    assert all(one.effect == "internal" for one in made)


def test_all_of_them_are_kept_for_us() -> None:
    everything = event_functions(Settings(timers=True, messaging=True))
    assert {function.__name__ for function in everything} == EVENT_NAMES == {*TIMERS, *MAIL}


@pytest.mark.parametrize("name", sorted(EVENT_NAMES))
async def test_a_users_tool_may_not_take_their_names(tmp_path: Path, name: str) -> None:
    @tool(name=name)
    def mine() -> str:
        """Mine."""
        return ""

    async with AsyncRuntime(tmp_path) as runtime:
        with pytest.raises(ToolDefinitionError, match=name):
            await runtime.agents.create("ada", tools=[mine])


@pytest.mark.parametrize("bad", [{"mail_hops": 0}, {"mail_rounds": 0}, {"timers": "often"}])
def test_a_setting_that_cannot_be_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Settings(**bad)
