"""Around a model: calls it wrote as text become calls, whole and while streaming."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pagedaemon.llm.protocol import (
    SAID,
    CallPart,
    Part,
    RawCall,
    Reply,
    Request,
    Restart,
    TextPart,
)
from pagedaemon.llm.text_calls import TextCalls
from pagedaemon.testing import ScriptedModel

TOOL = {
    "type": "function",
    "function": {"name": "weather", "description": "", "parameters": {"type": "object"}},
}
REQUEST = Request(({"role": "user", "content": "Hi"},), (TOOL,))
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>'


def wrapped(*answers: Reply) -> TextCalls:
    """A model that answers so, with its text read."""
    return TextCalls(ScriptedModel(answers, strict=(), usage=None))


async def parts(model: TextCalls, request: Request = REQUEST) -> list[Part]:
    """All parts of one streamed reply."""
    return [part async for part in model.stream(request)]


async def test_a_call_in_the_text_is_a_call_and_what_was_said_is_kept() -> None:
    said = f"Let me look. {CALL}"
    whole = await wrapped(Reply(content=said)).complete(REQUEST)
    assert whole == Reply(
        content="Let me look.",
        calls=(RawCall("", "weather", '{"city": "Rome"}'),),
        finish="tool_calls",
        opaque={SAID: said},
    )
    assert (await parts(wrapped(Reply(content=said))))[-1] == whole


@pytest.mark.parametrize(
    "reply",
    [
        Reply(content="Just words."),
        Reply(content=CALL, finish="refusal"),
        Reply(content=CALL, calls=(RawCall("1", "weather", "{}"),), finish="tool_calls"),
    ],
)
async def test_any_other_reply_passes_as_it_is(reply: Reply) -> None:
    assert await wrapped(reply).complete(REQUEST) == reply
    assert (await parts(wrapped(reply)))[-1] == reply


async def test_without_tools_nothing_is_read() -> None:
    request = Request(REQUEST.messages)
    assert await wrapped(Reply(content=CALL)).complete(request) == Reply(content=CALL)
    assert (await parts(wrapped(Reply(content=CALL)), request))[-1] == Reply(content=CALL)


@pytest.mark.parametrize(
    "said", ["Just words, and many of them.", "A < B [and so on]", '{"a": 1}', "```\ncode\n```"]
)
async def test_all_of_a_text_without_calls_is_streamed(said: str) -> None:
    shown = [
        part.text
        for part in await parts(wrapped(Reply(content=said)))
        if isinstance(part, TextPart)
    ]
    assert "".join(shown) == said


async def test_a_text_begun_anew_is_read_from_its_own_start() -> None:
    class Restarting(ScriptedModel):
        """Says something else first."""

        async def stream(self, request: Request) -> AsyncIterator[Part]:
            """The reply in parts, the second time."""
            yield TextPart("What was ")
            yield Restart("again")
            async for part in super().stream(request):
                yield part

    model = TextCalls(Restarting([Reply(content=CALL)], strict=(), usage=None))
    heard = await parts(model)
    assert [part for part in heard if isinstance(part, TextPart)] == [TextPart("What was ")]
    assert CallPart(0, "weather", '{"city": "Rome"}') in heard


async def test_a_listener_never_sees_a_call_as_text() -> None:
    heard = await parts(wrapped(Reply(content=f"Let me look. {CALL}")))
    shown = "".join(part.text for part in heard if isinstance(part, TextPart))
    assert shown.strip() == "Let me look."
    assert CallPart(0, "weather", '{"city": "Rome"}') in heard
