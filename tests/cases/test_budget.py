"""Cases CX, CC-01, TL-02 and AR-06: every request fits, paging makes progress, nothing is lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from pagedaemon import AsyncRuntime, Block, Model, tool
from pagedaemon.errors import ContextOverflow, ContextTooLong, ModelTimedOut
from pagedaemon.events import PagedOut, TurnEnded
from pagedaemon.llm.protocol import Request
from pagedaemon.llm.tokens import PER_REQUEST, TokenCounter
from pagedaemon.messages import Usage
from pagedaemon.testing import ScriptedModel, call, estimated_tokens, say, text, view
from pagedaemon.testing.scripted import Answer
from pagedaemon.tools.tool import Tool

SHORT = "You are brief."
COUNTER = TokenCounter("script")
Script = Callable[[Request], Answer]


def counted(request: Request) -> int:
    """Tokens of a request by the product's own tokenizer, uncorrected."""
    messages = sum(map(COUNTER.message_tokens, request.messages))
    return messages + COUNTER.tools_tokens(request.tools) + PER_REQUEST


def opened(folder: Path, model: ScriptedModel, window: int) -> AsyncRuntime:
    """A runtime whose model has that window and keeps 256 tokens of it for the reply."""
    return AsyncRuntime(
        folder,
        model=Model("script", context_window=window, max_output_tokens=256, retries=0),
        models={"script": model},
        embedder=None,
    )


def brain(answer: Script, summarise: Script | None = None) -> Script:
    """A model as a function of the request; by default its summaries say nothing in particular."""

    def script(request: Request) -> Answer:
        if request.purpose == "summary":
            return text("They talked.") if summarise is None else summarise(request)
        return answer(request)

    return script


def chat(number: int) -> str:
    """About 60 tokens of talk that no other number has, and nothing that looks like an order
    number."""
    word = "".join(chr(ord("a") + int(digit)) for digit in f"{number:03}")
    return f"Item {number}: " + " ".join(f"word{word}{letter}" for letter in "klmnopqrstuvwxyz")


def steps(model: ScriptedModel) -> list[Request]:
    """What the agent itself was asked."""
    return [request for request in model.requests if request.purpose == "step"]


async def test_a_request_so_long_that_it_times_out_is_shortened_once_and_answered(
    tmp_path: Path,
) -> None:
    """CX-01."""
    slow_above = 10**9

    def answer(request: Request) -> Answer:
        if estimated_tokens(request) > slow_above:
            return ModelTimedOut("no whole answer in 60 s")
        return say(f"Yes: {view(request).last_user[:20]}")

    model = ScriptedModel(brain(answer))
    async with opened(tmp_path, model, 8_000) as runtime:
        agent = await runtime.agents.ensure("ada", instructions=SHORT)
        for number in range(14):
            await agent.send(chat(number))
        slow_above = estimated_tokens(model.requests[-1]) - 400
        events = [event async for event in agent.stream("Still there?")]
        refused = len(model.requests)
        await agent.send("Good.")
    assert [type(event) for event in events].count(PagedOut) == 1
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].turn.reply == "Yes: Still there?"
    # No manual repair, and the next turn meets no refusal any more.
    assert len(model.requests) == refused + 1


async def test_a_summariser_that_takes_less_than_is_to_be_summarised_is_asked_in_rounds(
    tmp_path: Path,
) -> None:
    """CX-02."""
    refusals = 0

    def summarise(request: Request) -> Answer:
        nonlocal refusals
        if estimated_tokens(request) > 2_000:
            refusals += 1
            return ContextTooLong("the window holds 2000")
        seen = dict.fromkeys(re.findall(r"Item \d+", str(request.messages[1]["content"])))
        return text("; ".join(seen))

    model = ScriptedModel(brain(lambda request: say("Noted."), summarise))
    async with opened(tmp_path, model, 16_000) as runtime:
        agent = await runtime.agents.ensure("ada", instructions=SHORT)
        paged: list[PagedOut] = []
        number = 0
        while not paged:
            stream = agent.stream(chat(number))
            paged += [event async for event in stream if isinstance(event, PagedOut)]
            number += 1
    assert paged[0].summary == "model"
    assert paged[0].tokens_after < 0.6 * 16_000
    shown = str(steps(model)[-1].messages[1]["content"])
    left = paged[0].messages // 3
    assert left > 20
    assert [f"Item {n}" for n in range(left - 1)] == re.findall(r"Item \d+", shown)[: left - 1]
    summaries = [request for request in model.requests if request.purpose == "summary"]
    assert len(summaries) - refusals > 1
    assert refusals <= 4


async def test_a_summariser_that_can_take_nothing_leaves_a_digest_and_says_so(
    tmp_path: Path,
) -> None:
    """CX-02, where all fails."""
    model = ScriptedModel(
        brain(lambda request: say("Noted."), lambda request: ContextTooLong("never"))
    )
    async with opened(tmp_path, model, 6_000) as runtime:
        agent = await runtime.agents.ensure("ada", instructions=SHORT)
        paged: list[PagedOut] = []
        for number in range(40):
            stream = agent.stream(chat(number))
            paged += [event async for event in stream if isinstance(event, PagedOut)]
    assert {event.summary for event in paged} == {"digest"}
    assert all(event.tokens_after < event.tokens_before for event in paged)
    assert all(counted(request) <= 6_000 - 256 for request in steps(model))
    assert "an excerpt made without a model" in str(steps(model)[-1].messages[1])


async def test_the_second_summary_is_written_from_the_first_one_too(tmp_path: Path) -> None:
    """CX-03."""
    fact = "The spare key lies under the blue flower pot."

    def summarise(request: Request) -> Answer:
        asked = str(request.messages[1]["content"])
        return text(fact if fact in asked else "They talked about items.")

    model = ScriptedModel(brain(lambda request: say("Noted."), summarise))
    async with opened(tmp_path, model, 6_000) as runtime:
        agent = await runtime.agents.ensure("ada", instructions=SHORT)
        await agent.send(fact)
        folds = 0
        for number in range(60):
            events = [event async for event in agent.stream(chat(number))]
            folds += sum(isinstance(event, PagedOut) for event in events)
            if folds == 2:
                break
        found = await agent.recall.search("spare key flower pot")
    summaries = [request for request in model.requests if request.purpose == "summary"]
    assert fact in str(summaries[1].messages[1]["content"])
    last = steps(model)[-1]
    assert str(last.messages).count("[summary of") == 1
    assert fact in str(last.messages[1]["content"])
    assert fact in [hit.text for hit in found.hits]


@pytest.mark.parametrize("reported", [None, Usage(calls=1)], ids=["nothing", "zeros"])
async def test_the_window_is_kept_where_a_server_reports_no_usage(
    tmp_path: Path, reported: Usage | None
) -> None:
    """CX-04."""
    model = ScriptedModel(
        brain(lambda request: say("Noted.")), usage=lambda request, reply: reported
    )
    async with opened(tmp_path, model, 4_096) as runtime:
        agent = await runtime.agents.ensure("ada", instructions=SHORT)
        for number in range(60):
            turn = await agent.send(chat(number))
            assert turn.reply is not None
        assert (await agent.usage()).estimated
    assert any(request.purpose == "summary" for request in model.requests)
    assert all(counted(request) <= 4_096 - 256 for request in steps(model))


async def test_what_can_never_fit_is_an_error_that_names_it_without_a_model_call(
    tmp_path: Path,
) -> None:
    """CX-05."""
    model = ScriptedModel(brain(lambda request: say("Noted.")))
    manual = Block(
        label="manual", value="Turn the valve to the left. " * 700, limit=40_000, description="How."
    )
    async with opened(tmp_path, model, 6_000) as runtime:
        agent = await runtime.agents.ensure("ada", instructions=SHORT)
        for number in range(4):
            await agent.send(chat(number))
        await agent.blocks.attach(await runtime.blocks.ensure(manual, name="manual"))
        before = (await agent.context()).messages
        asked = len(model.requests)
        with pytest.raises(ContextOverflow) as raised:
            await agent.send("And now?")
        assert len(model.requests) == asked
        # What was said before stands as it did; the new message is kept.
        after = (await agent.context()).messages
        assert after[: len(before)] == before
        assert "And now?" in str(after[-1]["content"])
        await agent.blocks.detach("manual")
        assert (await agent.send("Better?")).reply == "Noted."
    error = raised.value
    assert error.largest[0][0] == "block manual"
    assert error.largest[0][1] > 3_000
    assert error.budget == 6_000 - 256 < error.needed
    assert "block manual" in str(error)


def many_tools() -> list[Tool]:
    """60 tools with long descriptions."""

    def made(number: int) -> Tool:
        def function(city: str) -> str:
            return city

        return tool(name=f"weather_{number}", description=f"Weather by source {number}. " * 12)(
            function
        )

    return [made(number) for number in range(60)]


async def test_a_provider_that_counts_more_than_we_do_refuses_nothing_once_it_has_reported(
    tmp_path: Path,
) -> None:
    """CX-06."""
    window = 24_000

    def real(request: Request) -> int:
        return int(1.4 * counted(request))

    model = ScriptedModel(
        brain(lambda request: say("Noted.")),
        context_window=window,
        counter=real,
        usage=lambda request, reply: Usage(1, real(request), 10),
    )
    paged = 0
    async with opened(tmp_path, model, window) as runtime:
        agent = await runtime.agents.ensure("ada", instructions=SHORT, tools=many_tools())
        await agent.send("Hello.")
        # The tools alone are most of the window: they count.
        assert (await agent.context()).tokens > 0.5 * window
        for number in range(50):
            events = [event async for event in agent.stream(chat(number))]
            paged += sum(isinstance(event, PagedOut) for event in events)
            assert isinstance(events[-1], TurnEnded)
            assert events[-1].turn.stop_reason == "end_turn"
    assert paged >= 1
    assert all(real(request) <= window for request in model.requests)
    assert max(map(real, model.requests)) > 0.8 * window


async def test_a_refusal_teaches_the_true_size_and_is_met_once_only(tmp_path: Path) -> None:
    """CX-06, where the server reports no usage at all and its window is smaller than configured."""
    refused: list[bool] = []

    def answer(request: Request) -> Answer:
        refused.append(counted(request) > 5_500)
        return ContextTooLong("too long") if refused[-1] else say("Noted.")

    model = ScriptedModel(brain(answer), usage=None)
    async with opened(tmp_path, model, 8_256) as runtime:
        agent = await runtime.agents.ensure("ada", instructions=SHORT)
        for number in range(80):
            assert "Noted." in (await agent.send(chat(number))).replies
    assert refused.count(True) == 1


async def test_only_a_block_edit_breaks_the_cached_prefix_and_only_once(tmp_path: Path) -> None:
    """CC-01."""
    edit = call("core_memory_append", label="human", content="Lin.", heartbeat=True)
    model = ScriptedModel(
        [say("One."), say("Two."), edit, say("Edited."), say("Three."), say("Four.")]
    )
    async with opened(tmp_path, model, 32_000) as runtime:
        agent = await runtime.agents.ensure("ada", blocks=[Block.human("Name: unknown")])
        for words in ("one", "two", "edit", "three", "four"):
            await agent.send(words)
    requests = model.requests
    kept = [
        after.messages[: len(before.messages)] == before.messages and after.tools == before.tools
        for before, after in pairwise(requests)
    ]
    assert kept == [True, True, False, True, True]
    # The edit changes the system prompt from the block on, and nothing after it.
    before, after = requests[2], requests[3]
    system, edited = str(before.messages[0]["content"]), str(after.messages[0]["content"])
    assert edited[: system.index("[block human")] == system[: system.index("[block human")]
    assert after.messages[1 : len(before.messages)] == before.messages[1:]
    for request in requests:
        assert not re.search(r"20\d\d-\d\d-\d\d", str(request.messages[0]["content"]))


async def test_a_huge_result_is_shown_in_part_and_read_on_page_by_page(tmp_path: Path) -> None:
    """TL-02."""
    whole = "".join(f"line {n} of the log\n" for n in range(250_000))
    assert len(whole) > 5_000_000

    @tool(effect="read", max_result_chars=2_000)
    def log() -> str:
        """The whole log."""
        return whole

    def answer(request: Request) -> Answer:
        results = view(request).results
        pages = results.get("read_page", ())
        if not results:
            return call("log", heartbeat=True)
        shown = results["log"][0]
        found = re.search(r'has (\d+) characters.*read_page\(id="(#\d+)", page=0\)', shown)
        assert found is not None
        if len(pages) < 2:
            return call("read_page", id=found[2], page=len(pages), heartbeat=True)
        return say(f"{found[1]} characters; page 1 begins {pages[1].splitlines()[1]!r}")

    model = ScriptedModel(answer)
    async with opened(tmp_path, model, 16_000) as runtime:
        agent = await runtime.agents.ensure("ada", instructions=SHORT, tools=[log])
        turn = await agent.send("Read the log.")
        stored = (await agent.recall.search("line 249999 of the log", roles=("tool",))).hits
    page = turn.steps[1].calls[0].result.split("\n", 1)[1].rsplit("\n", 1)[0]
    assert turn.reply is not None
    assert turn.reply.startswith(f"{len(whole)} characters")
    assert whole.startswith(page)
    assert repr(whole[len(page) :].split("\n")[0]) in turn.reply
    assert stored[0].text == whole
    assert all(estimated_tokens(request) < 16_000 for request in model.requests)
    digest = view(model.requests[1]).results["log"][0]
    assert len(digest) < 2_500


async def test_what_was_paged_out_is_found_again_by_the_agents_own_search(tmp_path: Path) -> None:
    """AR-06."""

    def answer(request: Request) -> Answer:
        seen = view(request)
        if seen.last_user != "Where does the heron nest?":
            return say("Noted.")
        pages = seen.results.get("conversation_search", ())
        if len(pages) < 2:
            return call("conversation_search", query="heron", page=len(pages), heartbeat=True)
        first = [line for line in pages[0].splitlines() if "Zanzibar" in line]
        return say(f"{first} {' '.join(pages)}")

    model = ScriptedModel(brain(answer))
    async with opened(tmp_path, model, 6_000) as runtime:
        agent = await runtime.agents.ensure("ada", instructions=SHORT)
        await agent.send("The heron nests in Zanzibar.")
        for number in range(8):
            await agent.send(f"Heron sighting {number}.")
        for number in range(30):
            await agent.send(chat(number))
        before = len(model.requests)
        assert "Zanzibar" not in str((await agent.context()).messages)
        turn = await agent.send("Where does the heron nest?")
    results = [c.result for step in turn.steps for c in step.calls if "search" in c.tool]
    assert [re.findall(r"Messages (\d+) to (\d+) of (\d+)", r)[0] for r in results] == [
        ("1", "5", "9"),
        ("6", "9", "9"),
    ]
    refs = re.findall(r"^- (#\d+) · \w+ (20\d\d-\d\d-\d\d)", "\n".join(results), re.MULTILINE)
    assert len({ref for ref, _ in refs}) == 9
    assert "Zanzibar" in str(turn.reply)
    asked = [request for request in model.requests[before:] if request.purpose == "step"]
    assert len(asked) == len(turn.steps)
