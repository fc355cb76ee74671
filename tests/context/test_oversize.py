"""A text too large for the window is stored whole, shown as a digest, and read on page by page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pagedaemon import AsyncRuntime, Model, tool
from pagedaemon.config import Limits, Paging
from pagedaemon.llm.protocol import Request
from pagedaemon.llm.tokens import PER_REQUEST, TokenCounter
from pagedaemon.testing import ScriptedModel, call, raw_call, say, text, view
from pagedaemon.testing.scripted import Answer

SHORT = "You are brief."
WINDOW = 16_000
COUNTER = TokenCounter("script")
DIGEST = re.compile(
    r'\[this (\w+) has (\d+) characters .*?read_page\(id="(#\d+)", page=0\)(?: to page=(\d+))?'
)


def opened(folder: Path, model: ScriptedModel) -> AsyncRuntime:
    return AsyncRuntime(
        folder, model=Model("script", context_window=WINDOW), models={"script": model}
    )


def counted(request: Request) -> int:
    messages = sum(map(COUNTER.message_tokens, request.messages))
    return messages + COUNTER.tools_tokens(request.tools) + PER_REQUEST


def long(characters: int) -> str:
    """A text of which no two pages are alike."""
    line = "line {} of a long text\n"
    return "".join(line.format(number) for number in range(characters // 20))[:characters]


def page_of(result: str) -> str:
    """The text between the first and the last line of what `read_page` returned."""
    return result[result.index("\n") + 1 : result.rindex("\n")]


def reader(start: Callable[[Request], Answer | None]) -> Callable[[Request], Answer]:
    """Reads on wherever the newest result says so, else whatever digest was shown last."""

    def script(request: Request) -> Answer:
        first = start(request)
        if first is not None:
            return first
        pages = view(request).results.get("read_page", ())
        if pages:
            on = re.search(r'read_page\(id="(#\d+)", page=(\d+)\)\]$', pages[-1])
            if on is None:
                return say("Read.")
            return call("read_page", id=on[1], page=int(on[2]), heartbeat=True)
        found = [DIGEST.search(str(message.get("content"))) for message in request.messages]
        newest = [match for match in found if match is not None][-1]
        return call("read_page", id=newest[3], page=0, heartbeat=True)

    return script


async def test_a_message_of_10_mb_is_stored_whole_and_shown_as_a_digest_that_never_changes(
    tmp_path: Path,
) -> None:
    whole = long(10_000_000)
    model = ScriptedModel([say("Long."), say("Yes.")])
    async with opened(tmp_path, model) as runtime:
        agent = await runtime.agents.ensure("ada", instructions=SHORT)
        await agent.send(whole)
        await agent.send("Was it long?")
        hits = (await agent.recall.search("line 499999", roles=("user",))).hits
    assert hits[0].text == whole
    shown = str(model.requests[0].messages[1]["content"])
    found = DIGEST.search(shown)
    assert found is not None
    assert found.group(1, 2, 3) == ("message", str(len(whole)), "#1")
    assert whole[:100] in shown
    assert whole[-100:].strip() in shown
    assert all(counted(request) < 0.7 * WINDOW for request in model.requests)
    again = ScriptedModel([say("Still.")])
    async with opened(tmp_path, again) as runtime:
        await (await runtime.agents.get("ada")).send("And now?")
    for request in (model.requests[1], again.requests[0]):
        assert request.messages[1] == model.requests[0].messages[1]


@pytest.mark.parametrize("letter", ["a", "帆", "🚀"])
async def test_pages_put_together_are_the_whole_text_in_any_script(
    tmp_path: Path, letter: str
) -> None:
    unit = f"{letter * 40}\n"
    whole = "".join(f"{n}{unit}" for n in range(700))
    model = ScriptedModel(reader(lambda request: None), usage=None)
    async with opened(tmp_path, model) as runtime:
        agent = await runtime.agents.ensure("ada", instructions=SHORT, limits=Limits(steps=40))
        turn = await agent.send(whole)
    results = [c.result for step in turn.steps for c in step.calls if c.tool == "read_page"]
    assert len(results) > 3
    assert "".join(map(page_of, results)) == whole
    # What a page showed was shown as it is, never as a digest of a page.
    shown = [m for r in model.requests for m in r.messages if m["role"] == "tool"]
    assert not any(DIGEST.match(str(message["content"])) for message in shown)
    assert all(counted(r) <= WINDOW for r in model.requests)


async def test_a_result_over_its_tools_cap_is_read_to_the_end(tmp_path: Path) -> None:
    whole = long(30_000)

    @tool(effect="read", max_result_chars=500)
    def log() -> str:
        """The log."""
        return whole

    def start(request: Request) -> Answer | None:
        return None if view(request).results else call("log", heartbeat=True)

    model = ScriptedModel(reader(start), usage=None)
    async with opened(tmp_path, model) as runtime:
        agent = await runtime.agents.ensure("ada", instructions=SHORT, tools=[log])
        turn = await agent.send("Read the log.")
    results = [c.result for step in turn.steps for c in step.calls if c.tool == "read_page"]
    assert "".join(map(page_of, results)) == whole
    assert "end of the last page" in results[-1]
    assert turn.steps[0].calls[0].result == whole


async def test_arguments_of_5_mb_are_stored_whole_and_shown_as_a_legal_object(
    tmp_path: Path,
) -> None:
    content = long(5_000_000)
    arguments = json.dumps({"content": content, "request_heartbeat": True})
    model = ScriptedModel([raw_call("archival_memory_insert", arguments), say("Saved.")])
    async with opened(tmp_path, model) as runtime:
        agent = await runtime.agents.ensure("ada", instructions=SHORT)
        turn = await agent.send("Save it.")
        model.add(call("read_page", id="#2", page=1, heartbeat=True), say("Read."))
        reading = await agent.send("Read it back.")
        found = await agent.archive.search("line 249999")
    assert turn.reply == "Saved."
    made = model.requests[1].messages[2]["tool_calls"][0]["function"]
    shown = json.loads(made["arguments"])["shortened"]
    match = DIGEST.search(shown)
    assert match is not None
    assert match.group(1, 2, 3) == ("arguments", str(len(arguments)), "#2")
    page = page_of(reading.steps[0].calls[0].result)
    assert arguments[len(page) : 2 * len(page)] == page
    assert found.hits[0].text == content
    assert all(counted(request) < 0.7 * WINDOW for request in model.requests)


@pytest.mark.parametrize("style", ["memgpt", "native"])
async def test_a_reply_of_5_mb_reaches_the_user_whole_and_stands_shortened_in_the_window(
    tmp_path: Path, style: str
) -> None:
    whole = long(5_000_000)
    spoken = say(whole) if style == "memgpt" else text(whole)
    model = ScriptedModel([spoken, say("Yes.") if style == "memgpt" else text("Yes.")])
    async with opened(tmp_path, model) as runtime:
        agent = await runtime.agents.ensure("ada", instructions=SHORT, style=style)
        turn = await agent.send("Talk at length.")
        await agent.send("Was that all?")
        hits = (await agent.recall.search("line 249999", roles=("assistant",))).hits
    assert turn.reply == whole
    assert hits[0].text == whole
    reply = json.dumps(model.requests[1].messages[2])
    assert "shown shortened" in reply
    assert len(reply) < 10_000
    assert counted(model.requests[1]) < 0.7 * WINDOW


async def test_a_digest_says_how_many_pages_there_are_to_read(tmp_path: Path) -> None:
    """Also where a reply has text and calls: its pages hold all of it."""
    words = "so " * 20_000
    both = text(words)
    made = raw_call("archival_memory_insert", json.dumps({"content": long(60_000)}))
    reply = type(both)(content=words, calls=made.calls, finish="tool_calls")
    model = ScriptedModel([reply, say("Well.")])
    async with opened(tmp_path, model) as runtime:
        agent = await runtime.agents.ensure("ada", instructions=SHORT)
        await agent.send("Go on.")
        shown = (
            json.dumps(model.requests[1].messages[2]).replace('\\\\\\"', '"').replace('\\"', '"')
        )
        digests = DIGEST.findall(shown)
        last = int(digests[0][3])
        model.add(call("read_page", id="#2", page=last, heartbeat=True), say("Read."))
        turn = await agent.send("Read the last page.")
    assert len(digests) == 2
    assert {digest[3] for digest in digests} == {str(last)}
    assert "end of the last page" in turn.steps[0].calls[0].result


async def test_what_was_shown_whole_stays_whole_and_what_was_shortened_stays_so(
    tmp_path: Path,
) -> None:
    """A correction learnt later, or another setting, changes nothing that was shown before."""
    near = "word " * 3_000
    model = ScriptedModel([say("One."), say("Two.")])
    async with opened(tmp_path, model) as runtime:
        agent = await runtime.agents.ensure("ada", instructions=SHORT)
        await agent.send(near)
        await agent.update(paging=Paging(oversize=0.05))
        await agent.send("And?")
    assert near.strip() in str(model.requests[0].messages[1]["content"])
    assert model.requests[1].messages[1] == model.requests[0].messages[1]
