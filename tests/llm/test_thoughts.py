"""Thoughts written into the text are reasoning, whole and streamed; no call is read out of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedaemon.config import Model
from pagedaemon.llm.gateway import connect
from pagedaemon.llm.protocol import (
    ORIGIN,
    SAID,
    CallPart,
    Part,
    ReasoningPart,
    Reply,
    Request,
    Restart,
    TextPart,
)
from pagedaemon.llm.thoughts import Thoughts
from pagedaemon.testing import ScriptedModel

TOOL = {
    "type": "function",
    "function": {"name": "weather", "description": "", "parameters": {"type": "object"}},
}
REQUEST = Request(({"role": "user", "content": "Hi"},), (TOOL,))
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>'

PARTED = {
    "a block": ("<think>hm</think>fine", "hm", "fine"),
    "with lines around it": ("\n<think>\nhm\n</think>\n\nfine\n", "hm", "fine\n"),
    "another name": ("<thinking>hm</thinking> fine", "hm", "fine"),
    "a third": ("<reasoning>hm</reasoning>fine", "hm", "fine"),
    "several in a row": ("<think>a</think>\n<think>b</think>\nfine", "ab", "fine"),
    "an empty one": ("<think>\n\n</think>\n\nfine", "", "fine"),
    "cut off inside": ("<think>hm, and", "hm, and", ""),
    "cut off in its end": ("<think>hm</thi", "hm</thi", ""),
    "the opening swallowed": ("hm, well\n</think>\n\nfine", "hm, well", "fine"),
    "the opening swallowed, no line": ("hm</think>fine", "hm", "fine"),
    "the opening swallowed, nothing thought": ("</think>\nfine", "", "fine"),
    "another mark inside": ("<think>a <thinking> b</think>fine", "a <thinking> b", "fine"),
    "its marks in the reply": (
        "<think>hm</think>So <think>x</think> it is",
        "hm",
        "So <think>x</think> it is",
    ),
}

WHOLE = [
    "Just words.",
    "  indented",
    "Models write `<think>` before, and `</think>` after.",
    "The mark `</think>` closes it.",
    'It ends with "</think>".',
    "A < B, and <thi",
    "<thin",
    "< think>",
    "<thoughts>x</thoughts>",
    "",
]


def asked(said: str, seed: int = 0, **fields: object) -> Thoughts:
    reply = Reply(content=said, **fields)  # type: ignore[arg-type]
    return Thoughts(ScriptedModel([reply], strict=(), usage=None, seed=seed))


async def heard(said: str, seed: int = 0) -> list[Part]:
    """All parts of one streamed reply."""
    return [part async for part in asked(said, seed).stream(REQUEST)]


def shown(parts: list[Part]) -> tuple[str, str]:
    """What a listener has at the end: thoughts and text."""
    restarts = [place for place, part in enumerate(parts) if isinstance(part, Restart)]
    parts = parts[restarts[-1] :] if restarts else parts
    thoughts = "".join(part.text for part in parts if isinstance(part, ReasoningPart))
    return thoughts.strip(), "".join(part.text for part in parts if isinstance(part, TextPart))


@pytest.mark.parametrize(("said", "thought", "spoken"), PARTED.values(), ids=PARTED)
async def test_thoughts_are_reasoning_and_the_rest_is_the_text(
    said: str, thought: str, spoken: str
) -> None:
    whole = await asked(said).complete(REQUEST)
    assert whole == Reply(content=spoken, reasoning=thought, opaque={SAID: said})
    for seed in range(5):
        parts = await heard(said, seed)
        assert parts[-1] == whole
        assert shown(parts) == (thought, spoken)


@pytest.mark.parametrize("said", WHOLE)
async def test_a_text_that_only_speaks_of_such_marks_is_left_to_the_letter(said: str) -> None:
    assert await asked(said).complete(REQUEST) == Reply(content=said)
    parts = await heard(said)
    assert parts[-1] == Reply(content=said)
    assert shown(parts) == ("", said)


@given(
    st.lists(
        st.sampled_from(["<think>", "</think>", "<thinking>", "<", "</th", "`", " ", "a", "\n"])
    ).map("".join),
    st.integers(0, 99),
)
async def test_streaming_parts_any_text_as_the_whole_is_parted(said: str, seed: int) -> None:
    parts = await heard(said, seed)
    whole = parts[-1]
    assert isinstance(whole, Reply)
    assert whole == await asked(said).complete(REQUEST)
    assert shown(parts) == (whole.reasoning, whole.content)


async def test_a_listener_never_hears_a_block_as_the_reply() -> None:
    parts = await heard("<think>a secret of many words, in pieces</think>fine")
    assert "".join(part.text for part in parts if isinstance(part, TextPart)) == "fine"
    assert not any(isinstance(part, Restart) for part in parts)


async def test_the_providers_own_reasoning_comes_first_and_a_refusal_is_left_alone() -> None:
    both = await asked("<think>mine</think>fine", reasoning="given").complete(REQUEST)
    assert (both.reasoning, both.content) == ("given\nmine", "fine")
    refusal = Reply(content="<think>no</think>", finish="refusal")
    model = Thoughts(ScriptedModel([refusal], strict=(), usage=None))
    assert await model.complete(REQUEST) == refusal


DRAFT = f"I might say {CALL} but no."


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("said", [f"<think>{DRAFT}</think>Fine.", f"{DRAFT}</think>Fine."])
async def test_a_call_drafted_in_thoughts_is_none(said: str, constrained: bool) -> None:
    settings = Model("mine", text_calls=True, constrained=constrained)
    script = ScriptedModel(lambda request: Reply(content=said), strict=(), usage=None)
    model = connect(settings, {"mine": script})
    whole = await model.complete(REQUEST)
    parts = [part async for part in model.stream(REQUEST)]
    assert (whole.content, whole.reasoning, whole.calls) == ("Fine.", DRAFT, ())
    assert parts[-1] == whole
    assert not any(isinstance(part, CallPart) for part in parts)
    assert shown(parts)[1] == "Fine."


async def test_a_call_after_the_thoughts_is_one_and_all_that_was_said_is_kept() -> None:
    said = f"<think>hm</think>{CALL}"
    script = ScriptedModel([Reply(content=said)], strict=(), usage=None)
    whole = await connect(Model("mine", text_calls=True), {"mine": script}).complete(REQUEST)
    assert [call.name for call in whole.calls] == ["weather"]
    assert (whole.content, whole.reasoning) == ("", "hm")
    assert whole.opaque == {SAID: said, ORIGIN: "mine"}


async def test_a_models_text_is_literal_where_nothing_is_read_out_of_it() -> None:
    said = "<think> is the mark, and </think> closes it."
    script = ScriptedModel([Reply(content=said)], strict=(), usage=None)
    assert (await connect(Model("mine"), {"mine": script}).complete(REQUEST)).content == said
