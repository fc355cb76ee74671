"""Tool rules in whole turns: what a model tries against them is answered and not run, the turn ends
where they say, and they are kept with the agent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pagedaemon import AsyncRuntime, tool
from pagedaemon.config import (
    After,
    AtMost,
    Conditional,
    First,
    Limits,
    Required,
    Rule,
    Terminal,
)
from pagedaemon.errors import ConfigError
from pagedaemon.events import Turn
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import FakeClock, ScriptedModel, both, call, say, text, view
from pagedaemon.tools.tool import Tool


class Ledger:
    """What has really been run, outside of everything that the runtime stores."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def tools(self) -> list[Tool]:
        """Three tools that write down each run."""

        @tool(effect="read")
        def load(what: str = "") -> dict[str, str]:
            """Loads what is known.

            Args:
                what: of whom.
            """
            self.ran.append("load")
            if what == "broken":
                raise LookupError("nothing there")
            return {"kind": what}

        @tool
        def mail(to: str = "") -> str:
            """Sends a mail.

            Args:
                to: whom.
            """
            self.ran.append("mail")
            return "sent"

        @tool(effect="read")
        def close() -> str:
            """Closes the case."""
            self.ran.append("close")
            return "closed"

        return [load, mail, close]


@asynccontextmanager
async def opened(
    folder: Path, script: Any, ledger: Ledger, *rules: Rule, **settings: Any
) -> AsyncIterator[tuple[AsyncAgent, ScriptedModel]]:
    model = ScriptedModel(script)
    async with AsyncRuntime(
        folder, model="script", models={"script": model}, clock=FakeClock()
    ) as runtime:
        yield (
            await runtime.agents.ensure("ada", tools=ledger.tools(), rules=rules, **settings),
            model,
        )


def outcomes(turn: Turn) -> list[list[str]]:
    return [[f"{made.tool} {made.status}" for made in step.calls] for step in turn.steps]


async def test_call_against_a_rule_is_answered_with_what_is_allowed_and_is_not_run(
    tmp_path: Path,
) -> None:
    """The model does what its refusal says: without those words it would never load."""
    ledger = Ledger()

    def obedient(request: Request) -> Reply:
        told = view(request).results
        if "load" in told:
            return both(call("mail", heartbeat=False), say("Done"))
        if "mail" in told and "Allowed now: load." in told["mail"][0]:
            return call("load", heartbeat=True)
        return call("mail", heartbeat=True)

    async with opened(tmp_path, obedient, ledger, First(tool="load")) as (agent, model):
        turn = await agent.send("write to Lin")
    assert outcomes(turn) == [["mail failed"], ["load ok"], ["mail ok", "send_message ok"]]
    assert ledger.ran == ["load", "mail"]
    first, *later = model.requests
    assert "`load`" in view(first).system
    for request in later:
        assert request.tools == first.tools, "rules act on replies, never on the tools"
        assert request.messages[: len(first.messages)] == first.messages


async def test_later_calls_of_a_reply_wait_for_the_first_to_have_run(tmp_path: Path) -> None:
    ledger = Ledger()
    script = [
        both(
            call("load", what="broken"), call("mail"), call("archival_memory_insert", content="x")
        ),
        both(call("load"), call("mail", heartbeat=True)),
        both(call("mail"), say("Done")),
    ]
    async with opened(tmp_path, script, ledger, First(tool="load")) as (agent, _):
        turn = await agent.send("write to Lin")
        assert await agent.archive.count() == 0, "a refused memory tool changes nothing"
    assert outcomes(turn) == [
        ["load failed", "mail failed", "archival_memory_insert failed"],
        ["load ok", "mail failed"],
        ["mail ok", "send_message ok"],
    ]
    assert ledger.ran == ["load", "load", "mail"]


async def test_at_most_counts_in_one_reply_and_over_steps_and_begins_anew_each_turn(
    tmp_path: Path,
) -> None:
    ledger = Ledger()
    script = [
        both(call("mail"), call("mail", heartbeat=True)),
        both(call("mail"), say("Once is enough")),
        say("I told you"),
        both(call("mail"), say("Again")),
    ]
    async with opened(tmp_path, script, ledger, AtMost(tool="mail", calls=1)) as (agent, _):
        first = await agent.send("mail it")
        second = await agent.send("and again")
    assert outcomes(first) == [
        ["mail ok", "mail failed"],
        ["mail failed", "send_message ok"],
        ["send_message ok"],
    ]
    assert "at most once" in first.steps[1].calls[0].result
    assert outcomes(second) == [["mail ok", "send_message ok"]]
    assert ledger.ran == ["mail", "mail"]


async def test_terminal_ends_the_turn_whatever_asked_to_go_on(tmp_path: Path) -> None:
    ledger = Ledger()
    script = [both(call("load", heartbeat=True), call("close", heartbeat=True), call("mail"))]
    async with opened(tmp_path, script, ledger, Terminal(tool="close")) as (agent, model):
        turn = await agent.send("close it")
    assert outcomes(turn) == [["load ok", "close ok", "mail failed"]]
    assert turn.stop_reason == "no_reply"
    assert ledger.ran == ["load", "close"]
    assert len(model.requests) == 1


async def test_terminal_waits_for_what_is_required(tmp_path: Path) -> None:
    ledger = Ledger()
    script = [
        call("close", heartbeat=True),
        both(call("mail"), call("close", heartbeat=True)),
        call("close"),
    ]
    rules: tuple[Rule, ...] = (Terminal(tool="close"), Required(tool="mail"))
    async with opened(tmp_path, script, ledger, *rules) as (agent, _):
        turn = await agent.send("close it")
    assert outcomes(turn) == [["close failed"], ["mail ok", "close failed"], ["close ok"]]
    assert "must have run: mail" in turn.steps[0].calls[0].result
    assert ledger.ran == ["mail", "close"]


@pytest.mark.parametrize(("kind", "next_tool"), [("spam", "close"), ("letter", "mail")])
async def test_result_decides_what_comes_next(tmp_path: Path, kind: str, next_tool: str) -> None:
    ledger = Ledger()
    other = {"close": "mail", "mail": "close"}[next_tool]
    rule = Conditional(tool="load", cases={"spam": ("close",)}, default=("mail",), field="kind")
    script = [
        both(call("load", what=kind), call(next_tool, heartbeat=True)),
        call(other, heartbeat=True),
        call(next_tool, heartbeat=True),
        both(call(other), say("Done")),
    ]
    async with opened(tmp_path, script, ledger, rule) as (agent, _):
        turn = await agent.send("look at this")
    assert outcomes(turn) == [
        ["load ok", f"{next_tool} failed"],
        [f"{other} failed"],
        [f"{next_tool} ok"],
        [f"{other} ok", "send_message ok"],
    ]
    assert "depends on its result" in turn.steps[0].calls[1].result
    assert f"Allowed now: {next_tool}." in turn.steps[1].calls[0].result
    assert ledger.ran == ["load", next_tool, other]


async def test_turn_that_has_nothing_left_to_call_stops_and_says_why(tmp_path: Path) -> None:
    """It cannot be seen when the agent is made: without a second round nothing is wrong."""
    ledger = Ledger()
    rules: tuple[Rule, ...] = (After(tool="load", then=("mail",)), AtMost(tool="mail", calls=1))
    script = [
        call("load", heartbeat=True),
        call("mail", heartbeat=True),
        call("load", heartbeat=True),
        say("the next turn begins anew"),
    ]
    async with opened(tmp_path, script, ledger, *rules) as (agent, _):
        stopped = await agent.send("mail it")
        after = await agent.send("and now?")
        stored = await (await agent.conversations.get()).turns()
    assert stopped.stop_reason == "no_tool_allowed"
    assert outcomes(stopped) == [["load ok"], ["mail ok"], ["load ok"]]
    assert after.reply == "the next turn begins anew"
    assert "no_tool_allowed" in [turn.stop_reason for turn in stored]


async def test_model_that_keeps_calling_against_a_rule_is_stopped(tmp_path: Path) -> None:
    ledger = Ledger()
    async with opened(
        tmp_path, lambda request: call("mail", heartbeat=True), ledger, First(tool="load")
    ) as (agent, _):
        turn = await agent.send("mail it")
    assert turn.stop_reason == "repeated_failure"
    assert ledger.ran == []


async def test_rules_hold_in_the_native_style_and_plain_text_is_no_call(tmp_path: Path) -> None:
    ledger = Ledger()
    script = [call("mail"), text("I may not yet"), call("load"), call("mail"), text("Sent")]
    async with opened(tmp_path, script, ledger, First(tool="load"), style="native") as (agent, _):
        assert (await agent.send("mail it")).reply == "I may not yet"
        assert (await agent.send("then load first")).reply == "Sent"
    assert ledger.ran == ["load", "mail"]


async def test_required_tool_that_was_refused_or_failed_is_still_required(tmp_path: Path) -> None:
    ledger = Ledger()
    script = [
        both(call("load", what="broken"), say("Hello")),
        say("Sorry"),
        call("load"),
    ]
    async with opened(tmp_path, script, ledger, Required(tool="load"), limits=Limits(steps=5)) as (
        agent,
        _,
    ):
        turn = await agent.send("hello")
    assert [step.heartbeat for step in turn.steps] == [None, "failed", "required"]
    assert turn.stop_reason == "end_turn"


async def test_rules_are_kept_with_the_agent_and_hold_when_it_is_opened_again(
    tmp_path: Path,
) -> None:
    ledger = Ledger()
    rules: tuple[Rule, ...] = (
        First(tool="load"),
        Conditional(tool="load", cases={"spam": ("close",)}, default=("mail",), field="kind"),
        AtMost(tool="mail", calls=2),
    )
    async with opened(tmp_path, [], ledger, *rules):
        pass
    model = ScriptedModel([call("mail", heartbeat=True), text("I may not")])
    async with AsyncRuntime(
        tmp_path,
        model="script",
        models={"script": model},
        tools=ledger.tools(),
        clock=FakeClock(),
    ) as runtime:
        agent = await runtime.agents.get("ada")
        assert agent.settings.rules == rules
        turn = await agent.send("mail it")
    assert outcomes(turn)[0] == ["mail failed"]
    assert ledger.ran == []


async def test_change_that_the_rules_cannot_bear_is_refused_and_nothing_changes(
    tmp_path: Path,
) -> None:
    ledger = Ledger()
    kept: tuple[Rule, ...] = (First(tool="load"),)
    async with opened(tmp_path, [], ledger, *kept) as (agent, _):
        with pytest.raises(ConfigError, match="rules name what the agent has not: load"):
            await agent.update(tools=[])
        with pytest.raises(ConfigError, match="forecast"):
            await agent.update(rules=(First(tool="forecast"),))
        with pytest.raises(ConfigError, match="at a turn's start"):
            await agent.update(
                rules=(First(tool="close"), Terminal(tool="close"), Required(tool="mail"))
            )
        assert agent.settings.rules == kept
        assert len(agent.tools) == 3
