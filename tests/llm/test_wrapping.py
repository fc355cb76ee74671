"""What is put around a model changes only what it is there for."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pagedaemon.llm.protocol import ORIGIN, Part, Reply, Request, TextPart
from pagedaemon.llm.wrapping import Signed, Wrapping
from pagedaemon.testing import ScriptedModel

REQUEST = Request(({"role": "user", "content": "Hi"},))


async def test_a_wrapping_that_changes_nothing_is_the_model_itself() -> None:
    inner = ScriptedModel([Reply(content="Hello"), Reply(content="Hello")], usage=None)
    model = Wrapping(inner)
    assert await model.complete(REQUEST) == Reply(content="Hello")
    parts = [part async for part in model.stream(REQUEST)]
    assert parts[-1] == Reply(content="Hello")
    assert "".join(part.text for part in parts if isinstance(part, TextPart)) == "Hello"
    await model.aclose()
    assert inner.closed


async def test_a_listener_that_goes_away_closes_the_model_within() -> None:
    closed: list[bool] = []

    class Endless(ScriptedModel):
        """Never comes to an end."""

        async def stream(self, request: Request) -> AsyncIterator[Part]:
            """More and more."""
            try:
                while True:
                    yield TextPart("more ")
            finally:
                closed.append(True)

    stream = Wrapping(Signed(Endless([]), "x")).stream(REQUEST)
    await anext(stream)
    await stream.aclose()
    assert closed == [True]


async def test_opaque_fields_are_marked_with_whose_they_are() -> None:
    fields = {"thinking_blocks": [{"signature": "S=="}]}
    inner = ScriptedModel([Reply(content="a", opaque=fields)] * 2, usage=None)
    model = Signed(inner, "anthropic/claude")
    whole = await model.complete(REQUEST)
    assert whole.opaque == {**fields, ORIGIN: "anthropic/claude"}
    assert [part async for part in model.stream(REQUEST)][-1] == whole


async def test_a_reply_without_opaque_fields_has_no_mark() -> None:
    model = Signed(ScriptedModel([Reply(content="a")], usage=None), "anthropic/claude")
    assert (await model.complete(REQUEST)).opaque == {}
