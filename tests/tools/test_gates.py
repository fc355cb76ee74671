"""Which calls wait for a person: by tool, by rule, and by what stands in the window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedaemon.config import AtMost, Capability, Gates, NeedsApproval, Settings
from pagedaemon.errors import ConfigError
from pagedaemon.messages import LABELS, Label, Message
from pagedaemon.resources import Prompts
from pagedaemon.tools.gates import needs_approval, tainted
from pagedaemon.tools.memory_tools import memory_tools
from pagedaemon.tools.tool import Tool, tool

CAPABILITIES: tuple[Capability, ...] = ("egress", "spend", "delete", "code", "core")


def mail(to: str) -> str:
    """Sends a mail."""
    return to


MAIL = tool(mail, can=("egress",))


def said(label: Label, recalled: Label | None = None) -> Message:
    """A message of that label, with what was recalled beside it."""
    return Message(
        id=f"message-{label}",
        seq=1,
        role="user",
        kind="message",
        text="x",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        label=label,
        data={} if recalled is None else {"recalled": {"ids": ["a"], "label": recalled}},
    )


@pytest.mark.parametrize("label", LABELS)
def test_only_text_from_outside_taints(label: Label) -> None:
    outside = label == "external"
    assert tainted([said("owner"), said(label)]) is outside
    assert tainted([said("user", recalled=label)]) is outside
    assert not tainted([])


@given(
    can=st.sets(st.sampled_from(CAPABILITIES)),
    gated=st.sets(st.sampled_from(CAPABILITIES)),
    is_tainted=st.booleans(),
)
def test_a_tool_that_says_nothing_waits_for_what_it_can_do_in_a_tainted_step(
    can: set[Capability], gated: set[Capability], is_tainted: bool
) -> None:
    one = replace(MAIL, can=tuple(can))
    settings = Settings(gates=Gates(tainted=tuple(gated)))
    waits = needs_approval(one, {}, settings, is_tainted=is_tainted)
    assert waits == ("tainted" if is_tainted and can & gated else None)


@pytest.mark.parametrize("is_tainted", [False, True])
def test_what_a_tool_says_itself_goes_before_the_gates(is_tainted: bool) -> None:
    def asked(one: Tool) -> str | None:
        return needs_approval(one, {"to": "bob"}, Settings(), is_tainted=is_tainted)

    def refuses(arguments: Mapping[str, Any], tainted: bool) -> bool:
        raise KeyError("subject")

    assert asked(replace(MAIL, approval="always")) == "always"
    assert asked(replace(MAIL, approval="never")) is None
    assert asked(replace(MAIL, approval=lambda arguments, _: arguments["to"] == "bob")) == "asked"
    assert asked(replace(MAIL, approval=lambda arguments, _: arguments["to"] == "mai")) is None
    assert asked(replace(MAIL, approval=lambda _, tainted: tainted)) == (
        "asked" if is_tainted else None
    )
    assert asked(replace(MAIL, approval=refuses)) == "asked"


def test_a_function_that_changes_the_arguments_changes_nothing() -> None:
    given: dict[str, Any] = {"to": "bob"}

    def forget(arguments: Mapping[str, Any], tainted: bool) -> bool:
        assert isinstance(arguments, dict)
        arguments.clear()
        return False

    assert (
        needs_approval(replace(MAIL, approval=forget), given, Settings(), is_tainted=True) is None
    )
    assert given == {"to": "bob"}


def test_a_rule_goes_before_what_the_tool_says() -> None:
    settings = Settings(rules=(AtMost(tool="mail", calls=1), NeedsApproval(tool="mail")))
    free = replace(MAIL, approval="never")
    assert needs_approval(free, {}, settings, is_tainted=False) == "rule"
    assert needs_approval(replace(free, name="other"), {}, settings, is_tainted=True) is None


@pytest.mark.parametrize("tool_set", ["memgpt", "edit"])
def test_core_memory_is_gated_and_nothing_else_of_the_memory_tools(tool_set: Any) -> None:
    settings = Settings(tool_set=tool_set, timers=True, messaging=True)
    gated = {
        one.name
        for one in memory_tools(Prompts(), settings)
        if needs_approval(one, {}, settings, is_tainted=True)
    }
    edits = {
        "memgpt": {"core_memory_append", "core_memory_replace"},
        "edit": {"memory_insert", "memory_replace", "memory_rethink"},
    }
    assert gated == edits[tool_set]


@pytest.mark.parametrize(
    "wrong", [{"tainted": ("egres",)}, {"expires": 0}, {"expires": 1e9}, {"expire": 3}]
)
def test_gates_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Gates(**wrong)
