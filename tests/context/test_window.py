"""Weighing a request before it is sent."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedaemon.config import Paging
from pagedaemon.context.window import Gauge, Load
from pagedaemon.llm.protocol import WireMessage, WireTool
from pagedaemon.llm.tokens import TokenCounter


class Noted(TokenCounter):
    """Counts words, and notes what it was asked to count."""

    def __init__(self) -> None:
        super().__init__("script")
        self.counted: list[str] = []

    def count(self, text: str) -> int:
        self.counted.append(text)
        return len(text.split())


def gauge(counter: TokenCounter, budget: int = 1_000, factor: float = 1.0) -> Gauge:
    return Gauge(counter, factor, budget, Paging())


def user(text: str) -> WireMessage:
    return {"role": "user", "content": text}


TOOLS: Sequence[WireTool] = ({"type": "function", "function": {"name": "look"}},)


def test_nothing_is_counted_while_the_bytes_stay_under_the_warning_line() -> None:
    counter = Noted()
    load = gauge(counter).load([user("word " * 100)], TOOLS)
    assert counter.counted == []
    assert (load.raw, load.budget) == (0, 1_000)
    assert 100 < load.tokens < 200


def test_what_was_counted_once_is_not_counted_again_when_the_queue_goes_on() -> None:
    counter = Noted()
    weigher = gauge(counter)
    queue = [user(f"message {n} " + "word " * 20) for n in range(20)]
    first = weigher.load(queue, TOOLS)
    before = len(counter.counted)
    second = weigher.load([*queue, user("one more")], TOOLS)
    assert set(counter.counted[before:]) == {"user", "one more"}
    assert second.raw > first.raw > 0


@settings(max_examples=50)
@given(
    st.lists(st.lists(st.sampled_from(["a", "b c", "d e f"]), max_size=6), min_size=1, max_size=5)
)
def test_weighing_one_request_after_another_equals_weighing_each_anew(
    requests: list[list[str]],
) -> None:
    weigher = gauge(Noted())
    known = {text: user(text) for text in ("a", "b c", "d e f")}
    for texts in requests:
        messages = [known[text] for text in texts]
        assert weigher.counted(messages, TOOLS) == gauge(Noted()).counted(messages, TOOLS)
        assert weigher.load(messages, ()) == gauge(Noted()).load(messages, ())


def test_the_learnt_factor_counts_from_the_next_weighing_on() -> None:
    weigher = gauge(Noted())
    queue = [user("word " * 200)]
    before = weigher.counted(queue, ())
    weigher.factor = 1.5
    after = weigher.counted(queue, ())
    assert after.raw == before.raw
    assert after.tokens == round(before.raw * 1.5)
    # A request whose bytes pass as they are is counted once they might not.
    assert gauge(Noted(), 1_600).load([user("w" * 1_000)], ()).raw == 0
    assert gauge(Noted(), 1_600, 1.5).load([user("w" * 1_000)], ()).raw > 0


def test_schemas_weigh_and_are_measured_once_for_the_same_tools() -> None:
    counter = Noted()
    weigher = gauge(counter)
    with_tools = weigher.counted([user("hi")], TOOLS)
    before = len(counter.counted)
    again = weigher.counted([user("hi")], TOOLS)
    assert with_tools == again
    assert len(counter.counted) == before
    assert with_tools.raw > weigher.counted([user("hi")], ()).raw
    assert weigher.counted([user("hi")], TOOLS) == with_tools


@pytest.mark.parametrize(("words", "oversize"), [(249, False), (250, False), (251, True)])
def test_a_text_is_oversize_above_its_share_of_the_budget(words: int, oversize: bool) -> None:
    assert gauge(Noted()).oversize("word " * words) is oversize
    assert gauge(Noted()).over("word " * words, 250) is oversize


def test_megabytes_are_not_counted_to_the_end_to_know_that_they_are_too_much() -> None:
    counter = Noted()
    assert gauge(counter).oversize("word " * 1_000_000)
    assert sum(map(len, counter.counted)) < 10_000


def test_a_short_text_is_known_to_fit_without_counting() -> None:
    counter = Noted()
    assert not gauge(counter).oversize("w" * 250)
    assert counter.counted == []


def test_a_load_says_how_full_the_window_is() -> None:
    load = Load(tokens=715, raw=700, budget=1_000)
    assert load.percent == 72
    assert load.over(0.7)
    assert not load.over(0.715)
