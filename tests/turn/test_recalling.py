"""Recollections beside a message: as many as there is room for, and never one that costs the
window."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pagedaemon import AsyncRuntime, Model
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.memory.recollection import Recollection
from pagedaemon.messages import Label, Message
from pagedaemon.testing import ScriptedModel, say, text
from pagedaemon.testing.views import message_text
from pagedaemon.turn.body import Body
from pagedaemon.turn.recalling import SHARE, with_recollections

NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
STATUS = "[status: message 2]"


@asynccontextmanager
async def opened(
    folder: Path, *, window: int = 8_192, style: str = "memgpt"
) -> AsyncIterator[tuple[AsyncAgent, ScriptedModel]]:
    scripted = ScriptedModel(lambda request: text("7") if style == "native" else say("7"))
    model = Model("m", context_window=window, max_output_tokens=256)
    async with AsyncRuntime(folder, model=model, models={"m": scripted}, embedder=None) as runtime:
        yield (
            await runtime.agents.ensure(
                "ada", recall="auto", recall_hits=10, instructions="Be brief.", style=style
            ),
            scripted,
        )


def body_of(agent: AsyncAgent) -> Body:
    return agent._scheduler.body(agent._record)


def said(seq: int, words: str, status: str = "") -> Message:
    return Message(f"message-{seq}", seq, "user", "message", words, NOON, status=status)


def recalled(count: int, label: Label = "user") -> list[Recollection]:
    return [
        Recollection(
            "passage",
            f"passage-{number}",
            f"passage-{number}",
            "Friday 2026-05-01",
            None,
            None,
            None,
            label,
            f"fact{number} " + "boat " * 300,
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("window", [4_096, 8_192, 128_000])
async def test_they_have_a_twentieth_of_the_budget_at_most(tmp_path: Path, window: int) -> None:
    async with opened(tmp_path, window=window) as (ada, model):
        for number in range(10):
            await ada.archive.insert(f"shed code {number}: " + f"word{number} " * 400)
        await ada.send("shed code")
        body = body_of(ada)
    content = message_text(model.requests[-1].messages[-1])
    shown = content[content.index("[recollections") :]
    assert 0 < body.gauge.text(shown) <= SHARE * body.model.budget
    assert "word" in shown


@pytest.mark.parametrize("filling", ["sail ", "\ua66e"])
async def test_they_bring_the_window_over_no_line_however_full_it_is(
    tmp_path: Path, filling: str
) -> None:
    """Also where a token is a byte, and an estimate by bytes far too low."""
    async with opened(tmp_path, window=6_256) as (ada, _):
        body = body_of(ada)
        paging = ada.settings.paging
        shown: list[int] = []
        for words in range(0, 3_600 if filling == "sail " else 1_300, 20):
            queue = [said(1, filling * words)]
            message = said(2, "boats?", STATUS)
            before = body.weigh((), [*queue, message])
            body.renderer.forget(message)
            fuller = with_recollections(body, (), queue, message, recalled(6), after=len(STATUS))
            after = body.weigh((), [*queue, fuller])
            body.renderer.keep_only(())
            for line in (paging.warn, paging.evict):
                assert before.over(line) == after.over(line), words
            shown.append(len(fuller.recalled))
            if not fuller.recalled:
                assert fuller is message
    # Most where there is most room; none close below a line; some again between the lines.
    assert shown[0] == max(shown) > 1
    empty = shown.index(0)
    assert any(shown[empty:])
    assert shown[-1] == 0


async def test_those_that_are_left_out_are_the_least_near_and_their_labels_do_not_count(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as (ada, _):
        body = body_of(ada)
        near, far = recalled(3), recalled(9, "external")[3:]
        message = said(2, "boats?", STATUS)
        fuller = with_recollections(body, (), [], message, [*near, *far], after=len(STATUS))
        count = len(fuller.recalled)
        assert 0 < count < 9
        assert fuller.recalled == tuple(one.id for one in [*near, *far][:count])
        assert fuller.shown_label == ("user" if count <= 3 else "external")
        assert fuller.text == message.text


@pytest.mark.parametrize("style", ["memgpt", "native"])
async def test_how_the_reply_is_to_be_written_stands_last(tmp_path: Path, style: str) -> None:
    async with opened(tmp_path, style=style) as (ada, model):
        await ada.archive.insert("There are 7 boats.")
        turn = await ada.send("How many boats are there?", reply_type=int)
    assert turn.value == 7
    content = message_text(model.requests[0].messages[-1])
    places = [
        content.index(part)
        for part in ("How many", "[status", "[recollections", "7 boats", "reply_format")
    ]
    assert places == sorted(places)
