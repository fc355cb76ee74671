"""The summariser: folds what leaves into the notes, in a model's words or without one."""

from __future__ import annotations

import asyncio
import re
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from pagedaemon.config import Model
from pagedaemon.context.paging import Summariser, Summary
from pagedaemon.errors import ContextTooLong, ModelUnavailable
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.llm.tokens import TokenCounter, estimate
from pagedaemon.messages import Message, Usage
from pagedaemon.resources import Prompts
from pagedaemon.testing import ScriptedModel, estimated_tokens, text
from pagedaemon.testing.scripted import Answer

NOW = datetime(2026, 11, 30, 15, 53, tzinfo=UTC)


def said(seq: int, words: str, **fields: Any) -> Message:
    values: dict[str, Any] = {"role": "user", "kind": "message", **fields}
    return Message(id=f"m{seq}", seq=seq, text=words, created_at=NOW, **values)


async def fold(
    model: ScriptedModel,
    leaving: list[Message],
    previous: str = "",
    *,
    window: int = 8_192,
    max_tokens: int = 200,
    seconds: float = 60.0,
) -> Summary:
    summariser = Summariser(
        Prompts(), model, Model("script", context_window=window), "UTC", estimate
    )
    return await summariser.fold(previous, leaving, max_tokens=max_tokens, seconds=seconds)


def asked(model: ScriptedModel, number: int = -1) -> str:
    return str(model.requests[number].messages[1]["content"])


TALK = [said(n, f"On day {n} we spoke about the boat and its many sails.") for n in range(1, 7)]


async def test_the_model_is_given_the_notes_and_what_leaves_with_numbers_dates_and_speakers() -> (
    None
):
    model = ScriptedModel([text("Notes anew.")])
    reply = said(2, "", role="assistant", kind="reply", data={"said": ["Ahoy."]})
    summary = await fold(model, [said(1, "Hello there", author="Lin"), reply], "Old notes.")
    assert summary.text == "Notes anew."
    assert summary.by == "model"
    assert "Old notes." in asked(model)
    assert re.search(r"#1 Monday 2026-11-30 15:53.*Lin: Hello there", asked(model))
    assert re.search(r"#2 .*assistant: Ahoy\.", asked(model))
    assert model.requests[0].purpose == "summary"
    assert model.requests[0].tools == ()


async def test_events_and_copies_of_memory_are_not_summarised() -> None:
    model = ScriptedModel([text("Notes.")])
    noise = [
        said(2, '{"type": "heartbeat"}', kind="heartbeat"),
        said(3, '{"type": "system_alert"}', kind="alert"),
        said(4, "Delivered.", role="tool", kind="result", data={"builtin": True}),
        said(5, "", role="assistant", kind="reply"),
    ]
    await fold(model, [said(1, "The real thing"), *noise])
    assert "The real thing" in asked(model)
    assert re.findall(r"^#(\d+) ", asked(model), re.MULTILINE) == ["1"]


async def test_where_nothing_that_leaves_says_anything_no_model_is_asked_and_the_notes_stay() -> (
    None
):
    model = ScriptedModel([])
    summary = await fold(model, [said(1, "{}", kind="heartbeat")], "Old notes.")
    assert summary.text.startswith("Old notes.")
    assert model.requests == ()


@pytest.mark.parametrize(
    "answer",
    [
        text(""),
        text("   \n"),
        text("\ud800\x00 \udfff"),
        text("much longer than what it stands for " * 60),
        Reply(content="I cannot help with that.", finish="refusal"),
        ModelUnavailable("down"),
        ContextTooLong("never"),
    ],
    ids=["empty", "blank", "no text", "over-long", "refused", "unavailable", "no window"],
)
async def test_a_summary_that_cannot_stand_for_its_input_is_replaced_by_a_digest(
    answer: Answer,
) -> None:
    summary = await fold(ScriptedModel(lambda request: answer), TALK, "Lin sails.")
    assert summary.by == "digest"
    assert summary.text.startswith("Lin sails.")
    assert "On day 1 we spoke" in summary.text
    assert "cannot help" not in summary.text


async def test_what_no_store_can_hold_is_marked_in_a_summary() -> None:
    summary = await fold(ScriptedModel([text("Lin \ud800sails\x00 to \ud83d\ude80.")]), TALK)
    assert summary.by == "model"
    assert summary.text.startswith("Lin \ufffdsails\ufffd to 🚀.")


async def test_a_summary_over_its_share_is_refused_in_any_script() -> None:
    # As short as its input in characters, and yet too many tokens.
    long = [said(n, "我们谈到了船和它的许多帆以及去年夏天的旅行" * 20) for n in range(1, 7)]
    model = ScriptedModel([text("船和帆" * 300)])
    summary = await fold(model, long, max_tokens=200)
    assert summary.by == "digest"
    assert estimate(summary.text) < 3 * 200


SCRIPTS = {
    "Chinese": "今天我们在港口讨论了船期安排。决定从下周开始星期四发货。" * 12,
    "Amharic": "ዛሬ በወደቡ ላይ ስለ መርከቡ የጊዜ ሰሌዳ ተወያይተናል፣ " * 12,
    "table": "\n".join("3,1,4,1,5,9,2,6,5,3,5,8,9,7,9,3,2,3,8,4" for _ in range(40)),
    "emoji": "👍🎉😂🔥" * 120,
    "short lines": "- a\n" * 400,
    "English": "We talked at the harbour about the schedule. " * 20,
}


@pytest.mark.parametrize("factor", [1.0, 2.5])
@pytest.mark.parametrize("script", SCRIPTS)
async def test_no_request_has_more_tokens_than_the_budget_in_any_script(
    script: str, factor: float
) -> None:
    """By a real tokenizer, and by what was learnt of the model's own."""
    counter = TokenCounter("script")
    settings = Model("script", context_window=3_000, max_output_tokens=500)

    def measure(words: str) -> int:
        return round(counter.count(words) * factor)

    def weighs(request: Request) -> int:
        return round((3 + sum(map(counter.message_tokens, request.messages))) * factor)

    model = ScriptedModel(lambda request: text("Short."), usage=None)
    summariser = Summariser(Prompts(), model, settings, "UTC", measure)
    leaving = [said(n, f"{n} {SCRIPTS[script]}") for n in range(1, 31)]
    notes = SCRIPTS[script] * 5
    summary = await summariser.fold(notes, leaving, max_tokens=200, seconds=60)
    assert summary.by == "model"
    sizes = [weighs(request) for request in model.requests]
    assert len(sizes) > 1
    assert max(sizes) <= settings.budget
    # Nor are they so small that a call is made for nothing.
    assert sorted(sizes)[len(sizes) // 2] > settings.budget * 0.6


async def test_a_window_without_room_for_a_summary_is_not_asked_for_one() -> None:
    model = ScriptedModel(lambda request: text("Short."))
    summary = await fold(model, TALK, window=500)
    assert (summary.by, model.requests) == ("digest", ())


@pytest.mark.parametrize("script", SCRIPTS)
async def test_a_digest_is_held_to_its_share_in_any_script(script: str) -> None:
    counter = TokenCounter("script")
    model = ScriptedModel(lambda request: ModelUnavailable("down"))
    settings = Model("script", context_window=8_192)
    summariser = Summariser(Prompts(), model, settings, "UTC", counter.count)
    leaving = [said(n, SCRIPTS[script]) for n in range(1, 31)]
    summary = await summariser.fold(SCRIPTS[script] * 4, leaving, max_tokens=600, seconds=60)
    assert summary.by == "digest"
    assert 300 < counter.count(summary.text) < 700


async def test_an_empty_answer_in_a_later_round_loses_nothing_of_the_rounds_before() -> None:
    long = [said(n, f"Fact {n}. " + "talk " * 220) for n in range(1, 30)]
    model = ScriptedModel([text("Facts 1 and so on."), text("")])
    summary = await fold(model, long, "The oldest fact.", window=2_048, max_tokens=600)
    assert len(model.requests) == 2
    assert summary.by == "digest"
    assert "The oldest fact." in summary.text


async def test_input_larger_than_the_window_is_folded_in_rounds_none_of_which_exceeds_it() -> None:
    def answer(request: Request) -> Reply:
        seen = dict.fromkeys(re.findall(r"Fact \d+", str(request.messages[1]["content"])))
        return text("; ".join(seen))

    model = ScriptedModel(answer, context_window=2_048)
    long = [said(n, f"Fact {n}. " + "talk " * 150) for n in range(1, 31)]
    summary = await fold(model, long, window=2_560, max_tokens=250)
    assert len(model.requests) > 2
    assert summary.by == "model"
    assert summary.text.split("; ") == [f"Fact {n}" for n in range(1, 31)]


async def test_notes_larger_than_the_window_are_folded_like_messages() -> None:
    def answer(request: Request) -> Answer:
        seen = dict.fromkeys(re.findall(r"Fact \d+", str(request.messages[1]["content"])))
        return text("; ".join(seen))

    model = ScriptedModel(answer, context_window=2_048)
    notes = "\n".join(f"Fact {n}: " + "note " * 60 for n in range(40))
    summary = await fold(model, TALK, notes, window=2_560, max_tokens=250)
    assert summary.by == "model"
    assert summary.text.split("; ") == [f"Fact {n}" for n in range(40)]


async def test_a_model_that_takes_less_than_its_settings_say_is_asked_for_less() -> None:
    model = ScriptedModel(lambda request: text("Short."), context_window=1_000)
    long = [said(n, f"Fact {n}. " + "talk " * 100) for n in range(1, 20)]
    summary = await fold(model, long, window=32_000)
    assert (summary.by, summary.text) == ("model", "Short.")
    assert estimated_tokens(model.requests[0]) > 1_000


async def test_a_model_that_never_gets_done_is_given_up() -> None:
    # It copies its notes and takes hardly anything at once.
    model = ScriptedModel(lambda request: text("n" * 700), context_window=1_100)
    long = [said(n, f"Fact {n}. " + "talk " * 230) for n in range(1, 200)]
    summary = await fold(model, long, window=128_000, max_tokens=2_000)
    assert summary.by == "digest"
    assert len(model.requests) < 60


async def test_a_summary_takes_no_longer_than_it_may() -> None:
    async def slow(request: Request) -> Reply:
        await asyncio.sleep(60)
        return text("Too late.")

    summary = await fold(ScriptedModel(slow), TALK, seconds=0.05)
    assert summary.by == "digest"


IDENTIFIERS = ("https://x.test/a?b=1", "lin@mail.test", "INV-20391", "4711234", "MAX_RETRY_MS")


async def test_identifiers_that_the_prose_leaves_out_are_carried_over_to_the_letter() -> None:
    words = "See {}, write to {}; order {}, call {}, set {}.".format(*IDENTIFIERS)
    summary = await fold(ScriptedModel([text("Orders were made.")]), [said(1, words)])
    assert all(identifier in summary.text for identifier in IDENTIFIERS)
    again = await fold(ScriptedModel([text("Still made.")]), TALK, summary.text)
    assert all(identifier in again.text for identifier in IDENTIFIERS)


async def test_identifiers_take_no_more_than_their_place() -> None:
    words = " ".join(f"https://x.test/{n}/{'p' * 150}" for n in range(60))
    summary = await fold(ScriptedModel([text("Links.")]), [said(1, words)], max_tokens=400)
    assert len(summary.text) < 600
    assert "https://x.test/59/" in summary.text


@pytest.mark.parametrize("run", ["a", "a@", "1a-", "a-", "A_", "a.", "+", "-", "1"])
async def test_megabytes_without_a_break_are_summarised_at_once(run: str) -> None:
    huge = said(1, run * (3_000_000 // len(run)), digest="[shortened]")
    whole = said(2, run * (60_000 // len(run)))
    before = time.process_time()
    await fold(ScriptedModel([text("Noise.")]), [huge, whole, *TALK])
    assert time.process_time() - before < 2


async def test_what_the_model_was_asked_is_paid_for_also_where_nothing_was_reported() -> None:
    reported = Usage(1, 100, 10)
    counted = await fold(ScriptedModel([text("Notes.")], usage=lambda *_: reported), TALK)
    assert counted.usage == reported
    guessed = await fold(ScriptedModel([text("Notes.")], usage=None), TALK)
    assert guessed.usage.estimated
    assert guessed.usage.prompt_tokens > 100
