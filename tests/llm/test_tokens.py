"""Counts are a real tokenizer's, bounds are never below them, and reports correct both."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedaemon.llm import ranks, tokens
from pagedaemon.llm.ranks import encoding, encoding_name
from pagedaemon.llm.tokens import (
    IMAGE,
    IMAGE_LOW,
    Correction,
    TokenCounter,
    estimate,
    image_tokens,
)
from pagedaemon.testing import png

COUNTER = TokenCounter("openai/gpt-5-mini")
SAMPLES = {
    "English": "The page daemon wakes under memory pressure and moves pages out of the way. ",
    "German": "Der Seitendämon wacht auf, wenn der Speicher knapp wird, und räumt auf. ",
    "Russian": "Страничный демон просыпается, когда память заканчивается. ",
    "Arabic": "يستيقظ برنامج الصفحات عندما تضيق الذاكرة. ",
    "Chinese": "当内存不足时页面守护进程会被唤醒并移出页面。",
    "Japanese": "メモリが足りなくなると、ページデーモンが目を覚まします。",
    "Korean": "메모리가 부족해지면 페이지 데몬이 깨어납니다. ",
    "Hindi": "जब स्मृति कम होती है तो पृष्ठ डेमन जागता है। ",
    "code": 'def page_out(queue: list[str]) -> None:\n    return {"a": [1, 2, 3]}\n',
    "emoji": "😀👍🏽🎉🧑‍🚀",
}


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("openai/gpt-5-mini", "o200k_base"),
        ("gpt-4o-mini", "o200k_base"),
        ("openai/o3-mini", "o200k_base"),
        ("gpt-4.1-nano", "o200k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("openai/gpt-3.5-turbo-0125", "cl100k_base"),
        ("openai/gpt-oss-20b", "o200k_base"),
        ("openai/qwen3", "o200k_base"),
        ("davinci", "o200k_base"),
        ("", "o200k_base"),
    ],
)
def test_a_model_is_counted_with_its_own_encoding_or_the_newest(model: str, name: str) -> None:
    assert encoding_name(model) == name


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
def test_the_rank_files_are_the_ones_tiktoken_asks_for(name: ranks.EncodingName) -> None:
    found = encoding(name)
    assert found is not None
    assert found.name == name
    address = f"https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
    assert ranks.FILES[name].name == hashlib.sha1(address.encode()).hexdigest()


def test_a_count_is_the_tokenizers_own() -> None:
    assert COUNTER.count("Hello, world!") == 4
    assert COUNTER.count("") == 0
    assert TokenCounter("gpt-4").count("Страничный демон") > COUNTER.count("Страничный демон")


def test_names_of_special_tokens_are_plain_text() -> None:
    assert COUNTER.count("<|endoftext|><|im_start|>") > 5


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_bound_is_never_below_the_count(sample: str) -> None:
    assert COUNTER.count(SAMPLES[sample]) <= COUNTER.bound(SAMPLES[sample])


@given(st.text())
def test_a_bound_is_the_bytes_and_never_below_the_count(text: str) -> None:
    assert COUNTER.bound(text) == len(text.encode())
    assert COUNTER.count(text) <= COUNTER.bound(text)


def test_text_that_is_not_valid_unicode_is_counted_all_the_same() -> None:
    assert 0 < COUNTER.count("\ud800") <= COUNTER.bound("\ud800")


@pytest.mark.parametrize("letter", ["a", " ", "\n", "漢", "😀", "!", "0", "ab"])
def test_a_megabyte_without_a_break_is_counted_quickly(letter: str) -> None:
    text = letter * (1_000_000 // len(letter.encode()))
    began = time.process_time()
    assert 0 < COUNTER.count(text) <= len(text.encode())
    assert time.process_time() - began < 3.0


@pytest.mark.parametrize("run", ["x" * 5_000, "漢" * 5_000, " " * 5_000, "a1-" * 3_000])
def test_cutting_a_long_run_loses_next_to_nothing(run: str) -> None:
    text = f"Some words, {run} and some more."
    real = encoding("o200k_base")
    assert real is not None
    assert COUNTER.count(text) == pytest.approx(len(real.encode_ordinary(text)), rel=0.02, abs=8)


def test_ordinary_text_is_not_cut() -> None:
    real = encoding("o200k_base")
    assert real is not None
    text = "".join(SAMPLES.values()) * 50
    assert COUNTER.count(text) == len(real.encode_ordinary(text))


@pytest.mark.parametrize("sample", SAMPLES)
def test_an_estimate_errs_upwards_within_reason(sample: str) -> None:
    text = SAMPLES[sample] * 20
    assert COUNTER.count(text) * 0.95 <= estimate(text) <= COUNTER.count(text) * 3.2


def test_where_no_rank_file_is_right_the_estimate_counts_and_nothing_is_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrong = tmp_path / ranks.FILES["o200k_base"].name
    wrong.write_bytes(b"IQ== 0\n")
    monkeypatch.setattr(ranks, "_folder", lambda: tmp_path)
    monkeypatch.setattr(ranks, "_loaded", {})
    text = SAMPLES["English"]
    assert TokenCounter("qwen3").count(text) == estimate(text)
    assert wrong.read_bytes() == b"IQ== 0\n"
    monkeypatch.setattr(ranks, "_loaded", {})
    monkeypatch.setattr(ranks, "_folder", lambda: None)
    assert TokenCounter("qwen3").count(text) == estimate(text)


@pytest.mark.parametrize("cache", [{}, {"TIKTOKEN_CACHE_DIR": "kept"}])
def test_counting_needs_neither_litellm_nor_the_network_and_leaves_the_environment(
    cache: dict[str, str],
) -> None:
    code = (
        "import os, sys\n"
        "from pagedaemon.testing.network import block_network\n"
        "from pagedaemon.llm.tokens import TokenCounter\n"
        "block = block_network(allow_loopback=False)\n"
        "counter = TokenCounter('qwen3')\n"
        "counter.bound('Hello')\n"
        "print('tiktoken' in sys.modules, counter.count('Hello, world!'))\n"
        "print('litellm' in sys.modules, os.environ.get('TIKTOKEN_CACHE_DIR'), block.attempts)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), **cache},
    )
    assert done.stdout.splitlines() == [
        "False 4",
        f"False {cache.get('TIKTOKEN_CACHE_DIR')} []",
    ]


def both(wire: dict[str, Any]) -> tuple[int, int]:
    """Count and bound of a message."""
    return COUNTER.message_tokens(wire), COUNTER.message_bound(wire)


def test_a_message_costs_its_fields_and_three_tokens_around_it() -> None:
    assert both({"role": "user", "content": "Hello, world!"}) == (3 + 1 + 4, 3 + 4 + 13)
    assert both({"role": "assistant", "content": None}) == (3 + 1, 3 + 9)
    named, _ = both({"role": "user", "content": "Hello, world!", "name": "lin"})
    assert named == 8 + COUNTER.count("lin") + 1


def test_a_conversation_costs_what_the_cookbook_says() -> None:
    # The example of OpenAI's cookbook, which prints 124 for gpt-4o and 129 for gpt-4.
    messages = [
        ("system", "You are a helpful, pattern-following assistant that translates corporate "
         "jargon into plain English.", None),
        ("system", "New synergies will help drive top-line growth.", "example_user"),
        ("system", "Things working well together will increase revenue.", "example_assistant"),
        ("system", "Let's circle back when we have more bandwidth to touch base on opportunities "
         "for increased leverage.", "example_user"),
        ("system", "Let's talk later when we're less busy about how to do better.",
         "example_assistant"),
        ("user", "This late pivot means we don't have time to boil the ocean for the client "
         "deliverable.", None),
    ]  # fmt: skip
    wires = [
        {"role": role, "content": text, **({"name": name} if name else {})}
        for role, text, name in messages
    ]
    for model, expected in (("gpt-4o", 124), ("gpt-4", 129)):
        counter = TokenCounter(model)
        assert sum(map(counter.message_tokens, wires)) + tokens.PER_REQUEST == expected


def test_calls_and_fields_nobody_knows_are_counted() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    plain = {"role": "assistant", "content": ""}
    without, with_call = both(plain), both({**plain, "tool_calls": [call]})
    assert with_call[0] >= without[0] + tokens.PER_CALL + 2
    assert with_call[1] == without[1] + tokens.PER_CALL + len("call_1look{}")
    details = [{"type": "reasoning.text", "text": "hm " * 100}]
    assert both({**plain, "reasoning_details": details})[0] > without[0] + 100


def test_an_image_has_a_fixed_price_whatever_its_bytes() -> None:
    def image(url: str, **detail: str) -> dict[str, Any]:
        part = {"type": "image_url", "image_url": {"url": url, **detail}}
        return {"role": "user", "content": [{"type": "text", "text": "Look:"}, part]}

    text, text_bound = both({"role": "user", "content": "Look:"})
    data = "data:image/png;base64," + "A" * 100_000
    assert both(image(data)) == (text + IMAGE, text_bound + IMAGE)
    assert both(image(data, detail="low")) == (text + IMAGE_LOW, text_bound + IMAGE_LOW)


def test_tools_are_counted_and_none_cost_nothing() -> None:
    tool = {
        "type": "function",
        "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
    }
    assert COUNTER.tools_tokens([]) == COUNTER.tools_bound([]) == 0
    one, two = COUNTER.tools_tokens([tool]), COUNTER.tools_tokens([tool, tool])
    assert one == COUNTER.count(json.dumps(tool)) + tokens.PER_TOOL + tokens.TOOLS
    assert two - one == one - tokens.TOOLS
    assert COUNTER.tools_bound([tool]) >= one


wires = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool"]), "content": st.none() | st.text()},
    optional={"tool_call_id": st.text(), "name": st.text(min_size=1), "reasoning": st.text()},
)


@settings(max_examples=50)
@given(wires)
def test_a_messages_bound_is_never_below_its_count(wire: dict[str, Any]) -> None:
    count, bound = both(wire)
    assert 0 < count <= bound


def test_nothing_is_corrected_before_anything_was_learnt() -> None:
    assert Correction().factor("m") == 1.0
    assert Correction().corrected("m", 100) == 100


def test_one_report_is_enough_never_to_count_too_low_again() -> None:
    learnt = Correction().learn("m", 1_250, 1_000)
    assert learnt.corrected("m", 1_000) >= 1_250
    assert learnt.factor("other") == 1.0


def test_a_correction_falls_slowly_and_never_below_one() -> None:
    learnt = Correction().learn("m", 2_000, 1_000)
    fallen = learnt.learn("m", 1_000, 1_000)
    assert fallen.factor("m") == pytest.approx(1.9)
    for _ in range(100):
        fallen = fallen.learn("m", 900, 1_000)
    assert fallen.factor("m") == 1.0


@pytest.mark.parametrize(("reported", "counted"), [(0, 100), (100, 0), (-1, 100), (10, 100)])
def test_reports_that_say_nothing_are_ignored(reported: int, counted: int) -> None:
    learnt = Correction().learn("m", 150, 100)
    assert learnt.learn("m", reported, counted) is learnt


def test_an_absurd_report_is_clamped() -> None:
    assert Correction().learn("m", 100_000, 10).factor("m") == Correction.HIGHEST


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)), max_size=30))
def test_a_correction_stays_in_its_bounds_and_above_the_last_report(
    reports: list[tuple[int, int]],
) -> None:
    learnt = Correction()
    for reported, counted in reports:
        learnt = learnt.learn("m", reported, counted)
        assert 1.0 <= learnt.factor("m") <= Correction.HIGHEST
        if counted and reported / counted <= Correction.HIGHEST:
            assert learnt.corrected("m", counted) >= reported


@pytest.mark.parametrize(
    ("size", "detail", "tokens"),
    [
        # The documented examples.
        ((1_024, 1_024), None, 765),
        ((2_048, 4_096), "high", 1_105),
        ((4_096, 8_192), "low", 85),
        # The bounds: one tile, a strip, the most there can be.
        ((1, 1), None, 255),
        ((512, 512), "auto", 255),
        ((513, 512), None, 425),
        ((100_000, 1), None, 765),
        ((2_048, 768), None, IMAGE),
        ((None, None), None, IMAGE),
        ((None, None), "low", IMAGE_LOW),
    ],
)
def test_a_picture_counts_by_its_tiles(
    size: tuple[int | None, int | None], detail: str | None, tokens: int
) -> None:
    assert image_tokens(*size, detail) == tokens


def test_a_picture_in_a_data_url_counts_by_its_header() -> None:
    url = f"data:image/png;base64,{base64.b64encode(png(1_024, 1_024)).decode()}"
    counter = TokenCounter("openai/gpt-4o")
    wire = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
    plain = {"role": "user", "content": []}
    assert counter.message_tokens(wire) - counter.message_tokens(plain) == 765
    assert counter.message_bound(wire) - counter.message_bound(plain) == 765
