"""Tool rules: each against a plain model over random turns, together, and in contradiction."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pagedaemon.config import (
    After,
    AtMost,
    Conditional,
    First,
    Required,
    Rule,
    Terminal,
)
from pagedaemon.errors import ConfigError
from pagedaemon.messages import CallStatus
from pagedaemon.tools.rules import Past, allowed, closed, missing, require_possible

TOOLS = ("a", "b", "c", "d")
SEARCH_DEPTH = 300

tools = st.sampled_from(TOOLS)
following = st.lists(tools, min_size=1, max_size=3, unique=True).map(tuple)
results = st.sampled_from(["yes", "no", " yes\n", '"yes"', "3", "3.0", "True", "true", "{}", ""])
intended: st.SearchStrategy[CallStatus] = st.just("intended")
settled: st.SearchStrategy[CallStatus] = st.sampled_from(["ok", "failed", "unknown"])


@dataclass(frozen=True)
class Wish:
    """What a scripted model wants to call, and what would come of it."""

    tool: str
    result: str
    status: CallStatus
    new_reply: bool
    """It is the first call of a reply, so that all before it have their results."""


wishes = st.lists(st.builds(Wish, tools, results, settled, st.booleans()), max_size=12)


def judged(rules: list[Rule], script: list[Wish]) -> list[bool]:
    """Which of the calls are let through, as a turn would ask."""
    verdicts: list[bool] = []
    before: list[Past] = []
    reply: list[tuple[Past, Wish]] = []
    for wish in script:
        if wish.new_reply:
            before += [replace(call, status=one.status, result=one.result) for call, one in reply]
            reply = []
        may = wish.tool in allowed(rules, [*before, *(call for call, _ in reply)], TOOLS).names
        verdicts.append(may)
        if may:
            reply.append((Past(wish.tool, None, "intended"), wish))
    return verdicts


class Model:
    """The plain model: a turn replayed call by call, with one rule in mind.

    Attributes:
        seen: calls let through that have not failed, each with its result; None where it is not
            known yet.
    """

    def __init__(self) -> None:
        self.seen: list[tuple[str, str | None]] = []

    def replay(self, script: list[Wish]) -> list[bool]:
        verdicts: list[bool] = []
        open_calls: list[Wish] = []
        known: list[tuple[str, str | None]] = []
        for wish in script:
            if wish.new_reply:
                known += [(one.tool, one.result) for one in open_calls if one.status != "failed"]
                open_calls = []
            self.seen = known + [(one.tool, None) for one in open_calls]
            verdicts.append(self.may(wish.tool))
            if verdicts[-1]:
                open_calls.append(wish)
        return verdicts

    def may(self, tool: str) -> bool:
        raise NotImplementedError


class FirstModel(Model):
    """Nothing but the first tool until it has a result."""

    def __init__(self, *first: str) -> None:
        super().__init__()
        self.first = first

    def may(self, tool: str) -> bool:
        begun = [name for name, result in self.seen if name in self.first and result is not None]
        return bool(begun) or tool in self.first


class TerminalModel(Model):
    """Nothing after the last tool, and it only after what is required."""

    def __init__(self, last: str, required: tuple[str, ...]) -> None:
        super().__init__()
        self.last, self.required = last, required

    def may(self, tool: str) -> bool:
        if any(name == self.last for name, _ in self.seen):
            return False
        done = {name for name, result in self.seen if result is not None}
        return tool != self.last or set(self.required) - {self.last} <= done


class AfterModel(Model):
    """A parent has only its children behind it."""

    def __init__(self, parent: str, then: tuple[str, ...]) -> None:
        super().__init__()
        self.parent, self.then = parent, then

    def may(self, tool: str) -> bool:
        return not self.seen or self.seen[-1][0] != self.parent or tool in self.then


class ConditionalModel(Model):
    """A result says what comes next; until there is one, nothing does."""

    YES = ("yes", " yes\n", '"yes"')
    THREE = ("3", "3.0")

    def __init__(
        self, on: str, yes: tuple[str, ...], three: tuple[str, ...], other: tuple[str, ...]
    ):
        super().__init__()
        self.on, self.yes, self.three, self.other = on, yes, three, other

    def may(self, tool: str) -> bool:
        if not self.seen or self.seen[-1][0] != self.on:
            return True
        result = self.seen[-1][1]
        if result is None:
            return False
        if result in self.YES:
            return tool in self.yes
        return tool in (self.three if result in self.THREE else self.other)


class AtMostModel(Model):
    """A tool is let through so many times."""

    def __init__(self, limited: str, calls: int) -> None:
        super().__init__()
        self.limited, self.calls = limited, calls

    def may(self, tool: str) -> bool:
        made = [name for name, _ in self.seen if name == self.limited]
        return tool != self.limited or len(made) < self.calls


# ------------------------------------------------------------------ each against its model


@given(following, wishes)
def test_first(first: tuple[str, ...], script: list[Wish]) -> None:
    assert judged([First(tool=name) for name in first], script) == FirstModel(*first).replay(script)


@given(tools, st.lists(tools, max_size=2, unique=True).map(tuple), wishes)
def test_terminal_and_required(last: str, required: tuple[str, ...], script: list[Wish]) -> None:
    rules: list[Rule] = [Terminal(tool=last), *(Required(tool=name) for name in required)]
    assert judged(rules, script) == TerminalModel(last, required).replay(script)


@given(tools, following, wishes)
def test_after(parent: str, then: tuple[str, ...], script: list[Wish]) -> None:
    assert judged([After(tool=parent, then=then)], script) == AfterModel(parent, then).replay(
        script
    )


@given(tools, following, following, following, wishes)
def test_conditional(
    on: str,
    yes: tuple[str, ...],
    three: tuple[str, ...],
    other: tuple[str, ...],
    script: list[Wish],
) -> None:
    rule = Conditional(tool=on, cases={"yes": yes, "3": three}, default=other)
    assert judged([rule], script) == ConditionalModel(on, yes, three, other).replay(script)


@given(tools, st.integers(1, 3), wishes)
def test_at_most(limited: str, calls: int, script: list[Wish]) -> None:
    assert judged([AtMost(tool=limited, calls=calls)], script) == AtMostModel(
        limited, calls
    ).replay(script)


@given(tools, wishes)
def test_required_alone_forbids_nothing_and_is_missed_until_it_has_run(
    name: str, script: list[Wish]
) -> None:
    assert all(judged([Required(tool=name)], script))
    calls = [Past(wish.tool, wish.result, wish.status) for wish in script]
    has_run = any(wish.tool == name and wish.status != "failed" for wish in script)
    assert missing([Required(tool=name)], calls, TOOLS) == (() if has_run else (name,))


# ------------------------------------------------------------------ together

rules = st.lists(
    st.one_of(
        st.builds(First, tool=tools),
        st.builds(Terminal, tool=tools),
        st.builds(Required, tool=tools),
        st.builds(After, tool=tools, then=following),
        st.builds(AtMost, tool=tools, calls=st.integers(1, 2)),
        st.builds(
            Conditional,
            tool=tools,
            cases=st.fixed_dictionaries({"yes": following}),
            default=following,
        ),
    ),
    max_size=5,
)
pasts = st.lists(
    st.builds(Past, tools, results, settled) | st.builds(Past, tools, st.none(), intended),
    max_size=8,
)


@given(rules, pasts)
def test_what_is_allowed_and_what_is_refused_are_all_tools_each_refusal_with_its_rule(
    given_rules: list[Rule], history: list[Past]
) -> None:
    now = allowed(given_rules, history, TOOLS)
    assert sorted([*now.names, *now.why]) == sorted(TOOLS)
    assert all(
        reasons and set(map(id, reasons)) <= set(map(id, given_rules))
        for reasons in now.why.values()
    )


@given(rules, rules, pasts)
def test_a_further_rule_never_allows_more(
    some: list[Rule], further: list[Rule], history: list[Past]
) -> None:
    """Except that one more `First` is one more way to begin, and of `Required` none."""
    narrowing = [rule for rule in further if not isinstance(rule, First)]
    more = set(allowed([*some, *narrowing], history, TOOLS).names)
    assert more <= set(allowed(some, history, TOOLS).names)


@given(rules, pasts)
def test_calls_that_failed_change_nothing(given_rules: list[Rule], history: list[Past]) -> None:
    without = [call for call in history if call.status != "failed"]
    assert allowed(given_rules, history, TOOLS) == allowed(given_rules, without, TOOLS)


@given(rules)
def test_rules_that_are_taken_leave_something_to_begin_with(given_rules: list[Rule]) -> None:
    try:
        require_possible(given_rules, TOOLS)
    except ConfigError:
        assume(False)
    assert allowed(given_rules, (), TOOLS).names


@given(st.lists(st.builds(First, tool=tools) | st.builds(Required, tool=tools), max_size=4))
def test_rules_without_an_end_or_an_order_never_contradict(given_rules: list[Rule]) -> None:
    require_possible(given_rules, TOOLS)


def test_a_turn_is_closed_once_its_terminal_tool_has_run() -> None:
    last: list[Rule] = [Terminal(tool="d")]
    assert not closed(last, [Past("a"), Past("d", "error", "failed")])
    assert not closed(last, [Past("d", None, "started")])
    assert closed(last, [Past("d"), Past("a", "error", "failed")])
    assert closed(last, [Past("d", "?", "unknown")])
    assert not closed([], [Past("d")])


def test_a_required_tool_whose_code_is_missing_holds_neither_the_turn_nor_its_end() -> None:
    due: list[Rule] = [Required(tool="absent"), Terminal(tool="a")]
    assert missing(due, (), TOOLS) == ()
    assert "a" in allowed(due, (), TOOLS).names


def test_a_first_tool_whose_code_is_missing_leaves_nothing() -> None:
    assert allowed([First(tool="absent")], (), TOOLS).names == ()


# ------------------------------------------------------------------ results


@pytest.mark.parametrize(
    ("case", "result", "same"),
    [
        ("spam", "spam", True),
        ("spam", " spam \n", True),
        ("spam", "Spam", False),
        ("spam", "spam, I think", False),
        ("true", "True", True),
        ("False", "false", True),
        ("1", "true", False),
        ("0", "False", False),
        ("1", "1.0", True),
        ("null", "null", True),
        ("[1, true]", "[1,true]", True),
        ("[1, true]", "[1, 1]", False),
        ('{"a": 1, "b": 2}', '{"b":2,"a":1}', True),
        ('{"a": 1}', '{"a": true}', False),
        ('{"a": 1}', '{"a": 1, "b": 2}', False),
        ("[" * SEARCH_DEPTH * 10, "[" * SEARCH_DEPTH * 10, True),
    ],
)
def test_a_result_is_compared_as_json_else_as_text(case: str, result: str, same: bool) -> None:
    rule = Conditional(tool="a", cases={case: ("b",)}, default=("c",))
    assert allowed([rule], [Past("a", result)], TOOLS).names == (("b",) if same else ("c",))


@pytest.mark.parametrize(
    ("result", "then"),
    [
        ('{"kind": "spam", "score": 0.9}', "b"),
        ('{"kind": "ham"}', "c"),
        ('{"kind": {"spam": 1}}', "c"),
        ('{"score": 1}', "c"),
        ("spam", "c"),
        ('["kind", "spam"]', "c"),
        ('{"kind": true}', "d"),
    ],
)
def test_a_field_of_the_result_may_decide(result: str, then: str) -> None:
    cases: dict[str, tuple[str, ...]] = {"spam": ("b",), "true": ("d",)}
    rule = Conditional(tool="a", cases=cases, default=("c",), field="kind")
    assert allowed([rule], [Past("a", result)], TOOLS).names == (then,)


# ------------------------------------------------------------------ contradictions


@pytest.mark.parametrize(
    ("contradicting", "words"),
    [
        ([First(tool="x")], "x"),
        ([After(tool="a", then=("b", "x"))], "x"),
        ([Conditional(tool="a", cases={"yes": ("x",)}, default=("b",))], "x"),
        ([Conditional(tool="a", cases={"yes": ("b",)}, default=("x",))], "x"),
        ([Required(tool="x")], "x"),
        ([First(tool="a"), Terminal(tool="a"), Required(tool="b")], "start"),
        ([Terminal(tool="a"), Terminal(tool="b"), Required(tool="a"), Required(tool="b")], "a, b"),
        ([Terminal(tool="a"), After(tool="a", then=("b",))], "ends the turn"),
        ([After(tool="a", then=("b",)), After(tool="a", then=("c",))], "after a nothing"),
        ([After(tool="a", then=("a",)), AtMost(tool="a", calls=1)], "after a nothing"),
        (
            [
                Conditional(tool="a", cases={"yes": ("b",)}, default=("c",)),
                After(tool="a", then=("c",)),
            ],
            "where it returns 'yes'",
        ),
        (
            [
                Conditional(tool="a", cases={"yes": ("b",)}, default=("c",), field="kind"),
                After(tool="a", then=("c",)),
            ],
            "kind",
        ),
        (
            [First(tool="b"), After(tool="a", then=("b",)), AtMost(tool="b", calls=1)],
            "after a nothing",
        ),
    ],
)
def test_rules_that_no_turn_can_follow_are_refused(contradicting: list[Rule], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        require_possible(contradicting, TOOLS)


@pytest.mark.parametrize(
    "possible",
    [
        [],
        [After(tool="a", then=("a",)), AtMost(tool="a", calls=2), After(tool="b", then=("a",))],
        [After(tool="a", then=("d",)), Terminal(tool="d"), Required(tool="b")],
        [First(tool="a"), First(tool="b"), After(tool="a", then=("b",)), AtMost(tool="b", calls=1)],
        [First(tool="a"), Terminal(tool="a"), Required(tool="a")],
        [After(tool="a", then=("b",)), AtMost(tool="b", calls=1), Required(tool="b")],
    ],
)
def test_rules_that_some_turn_can_follow_are_taken(possible: list[Rule]) -> None:
    require_possible(possible, TOOLS)


@given(st.dictionaries(st.sampled_from(["yes", "3", "true"]), following, min_size=1), following)
def test_rules_survive_being_stored(
    cases: dict[str, tuple[str, ...]], other: tuple[str, ...]
) -> None:
    rule = Conditional(tool="a", cases=cases, default=other)
    assert Conditional.model_validate(json.loads(rule.model_dump_json())) == rule
