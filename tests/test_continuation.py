"""What follows a step: every rule, the order of the rules, and what no input can make happen."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedaemon.config import MEMGPT, NATIVE, Limits, Settings
from pagedaemon.continuation import Continue, Observed, Outcome, Stop, Yield, decide

ASSISTED = Settings()
STRICT = Settings(heartbeats="strict")
NATIVE_STYLE = Settings(style=NATIVE)

REPLIED: dict[str, Any] = {"replied": True, "terminal": True}
"""A step that told the user something and asked for nothing more."""

RULES: list[tuple[str, dict[str, Any], Settings, Outcome]] = [
    ("a reply ends the turn", REPLIED, ASSISTED, Yield("end_turn")),
    ("a turn nobody waits for may end silently", {"user_waits": False}, STRICT, Yield("end_turn")),
    ("cancelled stops", {"cancelled": True}, ASSISTED, Stop("cancelled")),
    ("a refusal stops", {"refused": True}, ASSISTED, Stop("refused")),
    ("an approval yields", {**REPLIED, "approval_pending": True}, ASSISTED, Yield("end_turn")),
    ("an approval yields unheard", {"approval_pending": True}, ASSISTED, Yield("no_reply")),
    ("pressure goes on", {**REPLIED, "crossed_warning": True}, ASSISTED, Continue("pressure")),
    ("pressure goes on in strict too", {"crossed_warning": True}, STRICT, Continue("pressure")),
    (
        "a failure goes on and is named",
        {**REPLIED, "failed": ("mail",), "same_failure": 1},
        STRICT,
        Continue("failed", ("mail",)),
    ),
    (
        "a failure short of the bound goes on",
        {"failed": ("mail",), "same_failure": 2},
        ASSISTED,
        Continue("failed", ("mail",)),
    ),
    (
        "the same failure at the bound stops",
        {"failed": ("mail",), "same_failure": 3},
        ASSISTED,
        Stop("repeated_failure"),
    ),
    (
        "a reply that is not what was asked for is tried again",
        {"invalid_reply": True, "retries": 1},
        STRICT,
        Continue("invalid"),
    ),
    (
        "but not for ever",
        {"invalid_reply": True, "retries": 2},
        ASSISTED,
        Stop("invalid_reply"),
    ),
    (
        "and not at all where no retry is allowed",
        {"invalid_reply": True},
        Settings(limits=Limits(reply_retries=0)),
        Stop("invalid_reply"),
    ),
    (
        "a requested heartbeat goes on",
        {**REPLIED, "heartbeat_requested": True},
        STRICT,
        Continue("requested"),
    ),
    ("a call without flag does not", {"called": True}, STRICT, Yield("no_reply")),
    ("in the native style it does", {"called": True}, NATIVE_STYLE, Continue("requested")),
    (
        "a required tool goes on",
        {**REPLIED, "required_missing": ("log", "mail")},
        STRICT,
        Continue("required", ("log", "mail")),
    ),
    ("silence is nudged", {}, ASSISTED, Continue("nudge")),
    ("silence after a call is nudged", {"called": True}, ASSISTED, Continue("nudge")),
    ("silence is not nudged in strict", {}, STRICT, Yield("no_reply")),
    ("silence nobody waits through is not", {"user_waits": False}, ASSISTED, Yield("end_turn")),
    ("a terminal tool is no silence", {"terminal": True}, ASSISTED, Yield("no_reply")),
    (
        "what ends the turn by a rule ends it, whatever wants to go on",
        {
            **REPLIED,
            "closed": True,
            "crossed_warning": True,
            "failed": ("mail",),
            "heartbeat_requested": True,
        },
        ASSISTED,
        Yield("end_turn"),
    ),
    (
        "also where the reply is not what was asked for, and says so",
        {"closed": True, "invalid_reply": True},
        ASSISTED,
        Stop("invalid_reply"),
    ),
    (
        "a turn that would go on with nothing to call stops",
        {"heartbeat_requested": True, "stuck": True},
        ASSISTED,
        Stop("no_tool_allowed"),
    ),
    (
        "one that is at its end ends",
        {**REPLIED, "stuck": True},
        ASSISTED,
        Yield("end_turn"),
    ),
    ("a nudge without effect is not repeated", {"nudges": 1}, ASSISTED, Yield("no_reply")),
    ("one that led to a call is", {"nudges": 1, "called": True}, ASSISTED, Continue("nudge")),
    ("but not for ever", {"nudges": 3, "called": True}, ASSISTED, Yield("no_reply")),
    (
        "no nudges at all where none are allowed",
        {},
        Settings(limits=Limits(nudges=0)),
        Yield("no_reply"),
    ),
]

# One fact for each rule, in the order in which the rules are asked, with what it alone leads to.
ORDER: list[tuple[dict[str, Any], Outcome]] = [
    ({"cancelled": True}, Stop("cancelled")),
    ({"refused": True}, Stop("refused")),
    ({"approval_pending": True}, Yield("no_reply")),
    ({"crossed_warning": True}, Continue("pressure")),
    ({"invalid_reply": True}, Continue("invalid")),
    ({"failed": ("mail",), "same_failure": 1}, Continue("failed", ("mail",))),
    ({"heartbeat_requested": True}, Continue("requested")),
    ({"required_missing": ("log",)}, Continue("required", ("log",))),
    ({}, Continue("nudge")),
]

BOUNDS: list[tuple[Limits, dict[str, Any], str]] = [
    (Limits(steps=4), {"steps": 4}, "max_steps"),
    (Limits(seconds=9.5), {"seconds": 9.5}, "max_seconds"),
    (Limits(tokens=1_000), {"tokens": 1_000}, "max_tokens"),
    (Limits(cost=0.5), {"cost": 0.5}, "max_cost"),
]


@pytest.mark.parametrize(
    ("facts", "settings", "outcome"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES]
)
def test_rule(facts: dict[str, Any], settings: Settings, outcome: Outcome) -> None:
    assert decide(Observed(**facts), settings) == outcome


@pytest.mark.parametrize("place", range(len(ORDER)))
def test_earlier_rule_goes_before_all_later_ones(place: int) -> None:
    facts: dict[str, Any] = {}
    for later, _ in ORDER[place:]:
        facts |= later
    assert decide(Observed(**facts), ASSISTED) == ORDER[place][1]


@pytest.mark.parametrize(("limits", "facts", "reason"), BOUNDS)
def test_bound_stops_a_turn_that_would_go_on(
    limits: Limits, facts: dict[str, Any], reason: str
) -> None:
    settings = Settings(limits=limits)
    for wish, outcome in ORDER:
        if isinstance(outcome, Continue):
            stopped = decide(Observed(**{**wish, **facts}), settings)
            assert stopped == Stop(reason)  # type: ignore[arg-type]


@pytest.mark.parametrize(("limits", "facts", "reason"), BOUNDS)
def test_bound_leaves_a_turn_that_is_at_its_end(
    limits: Limits, facts: dict[str, Any], reason: str
) -> None:
    assert reason.startswith("max_")
    settings = Settings(limits=limits)
    assert decide(Observed(**{**REPLIED, **facts}), settings) == Yield("end_turn")


@pytest.mark.parametrize(("limits", "facts", "reason"), BOUNDS)
def test_one_short_of_the_bound_goes_on(limits: Limits, facts: dict[str, Any], reason: str) -> None:
    assert reason.startswith("max_")
    short = {name: value - 1 for name, value in facts.items()}
    outcome = decide(Observed(heartbeat_requested=True, **short), Settings(limits=limits))
    assert outcome == Continue("requested")


names = st.lists(st.sampled_from(["mail", "log"]), max_size=2).map(tuple)
counts = st.integers(0, 6)
observations = st.builds(
    Observed,
    user_waits=st.booleans(),
    replied=st.booleans(),
    terminal=st.booleans(),
    called=st.booleans(),
    heartbeat_requested=st.booleans(),
    failed=names,
    same_failure=counts,
    crossed_warning=st.booleans(),
    required_missing=names,
    approval_pending=st.booleans(),
    invalid_reply=st.booleans(),
    retries=counts,
    nudges=counts,
    steps=st.integers(1, 6),
    seconds=st.floats(0, 12),
    tokens=st.integers(0, 1_200),
    cancelled=st.booleans(),
    refused=st.booleans(),
)
given_settings = st.builds(
    Settings,
    style=st.sampled_from([MEMGPT, NATIVE]),
    heartbeats=st.sampled_from(["assisted", "strict"]),
    limits=st.builds(
        Limits,
        steps=st.integers(1, 6),
        seconds=st.floats(0.5, 10),
        tokens=st.none() | st.integers(1, 1_000),
        same_failure=st.integers(1, 4),
        reply_retries=st.integers(0, 4),
        nudges=st.integers(0, 4),
    ),
)


@given(observations, given_settings)
def test_every_step_has_one_answer_and_no_bound_is_passed(
    observed: Observed, settings: Settings
) -> None:
    outcome = decide(observed, settings)
    assert outcome == decide(observed, settings)
    limits = settings.limits
    if observed.cancelled:
        assert outcome == Stop("cancelled")
    if isinstance(outcome, Continue):
        assert observed.steps < limits.steps
        assert observed.seconds < limits.seconds
        assert limits.tokens is None or observed.tokens < limits.tokens
        assert not observed.refused
        assert outcome.reason != "invalid" or observed.retries < limits.reply_retries
        assert not observed.approval_pending
        assert outcome.reason != "nudge" or settings.heartbeats == "assisted"
    elif isinstance(outcome, Yield):
        heard = observed.replied or not observed.user_waits
        assert outcome.reason == ("end_turn" if heard else "no_reply")
    else:
        assert outcome.reason not in ("end_turn", "no_reply")


@given(observations, given_settings)
def test_turn_that_hears_nothing_new_ends_within_its_steps(
    observed: Observed, settings: Settings
) -> None:
    steps = observed.steps
    outcome: Outcome = Continue("requested")
    while isinstance(outcome, Continue):
        outcome = decide(
            Observed(heartbeat_requested=True, steps=steps, crossed_warning=True), settings
        )
        steps += 1
    assert steps <= max(observed.steps, settings.limits.steps) + 1
