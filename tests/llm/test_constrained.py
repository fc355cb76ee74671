"""A small model is asked for JSON in place of calls, and what it says is read as them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pagedaemon.llm.constrained import (
    LONGEST_TEXT,
    LONGEST_THOUGHT,
    MOST_ITEMS,
    Constrained,
    call_format,
)
from pagedaemon.llm.protocol import SAID, CallPart, RawCall, ReasoningPart, Reply, Request, TextPart
from pagedaemon.resources import Prompts
from pagedaemon.testing import ScriptedModel, check_request


def tool(name: str, **properties: Any) -> dict[str, Any]:
    """A tool with these parameters."""
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {
        "type": "function",
        "function": {"name": name, "description": f"About {name}.", "parameters": parameters},
    }


WEATHER = tool("weather", city={"type": "string"})
SPEAK = tool("send_message", message={"type": "string"})
HISTORY = (
    {"role": "system", "content": "You are Ada."},
    {"role": "user", "content": "Rome or Oslo?"},
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [
            {
                "id": f"c{n}",
                "type": "function",
                "function": {"name": "weather", "arguments": f'{{"city": "{city}"}}'},
            }
            for n, city in enumerate(("Rome", "Oslo"))
        ],
    },
    {"role": "tool", "tool_call_id": "c0", "content": "sunny"},
    {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    {"role": "user", "content": "Heartbeat."},
    {"role": "assistant", "content": "Rome."},
    {"role": "user", "content": "Thanks."},
)


def constrained(*answers: Reply) -> tuple[Constrained, ScriptedModel]:
    """The mode around a model that answers so, and that model."""
    inner = ScriptedModel(answers, usage=None)
    return Constrained(inner, Prompts()), inner


async def asked(tools: tuple[dict[str, Any], ...] = (WEATHER,)) -> Request:
    """The request that reaches the model."""
    model, inner = constrained(Reply(content="{}x"))
    await model.complete(Request(HISTORY, tools, 500))
    return inner.requests[0]


async def test_no_native_tool_is_left_and_every_provider_takes_the_history() -> None:
    request = await asked()
    assert request.tools == ()
    check_request(request.messages)
    assert [message["role"] for message in request.messages] == [
        "system", "user", "assistant", "user", "assistant", "user",
    ]  # fmt: skip
    assert all("tool_calls" not in message for message in request.messages)


async def test_the_tools_stand_in_the_system_text_after_all_that_was_there() -> None:
    system = (await asked()).messages[0]["content"]
    assert system.startswith("You are Ada.\n\n")
    for part in ("## weather", "About weather.", '"city"'):
        assert part in system


async def test_calls_and_results_are_plain_text_in_their_order() -> None:
    messages = (await asked()).messages
    said = messages[2]["content"].splitlines()
    assert said[0] == "I look."
    assert [json.loads(line) for line in said[1:]] == [
        {"tool": "weather", "arguments": {"city": city}} for city in ("Rome", "Oslo")
    ]
    results = messages[3]["content"]
    assert (
        results.index("[Result of weather]\nsunny")
        < results.index("rain")
        < results.index("Heartbeat.")
    )
    assert json.loads(messages[4]["content"]) == {"reply": "Rome."}


async def test_a_picture_after_a_result_is_joined_to_it_as_parts() -> None:
    part = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    model, inner = constrained(Reply(content='{"reply": "Nice."}'))
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    await model.complete(
        Request(
            (
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
                {"role": "user", "content": [part]},
            ),
            (WEATHER,),
        )
    )
    (request,) = inner.requests
    check_request(request.messages)
    said = request.messages[-1]["content"]
    assert [one["type"] for one in said] == ["text", "image_url"]
    assert "sunny" in said[0]["text"]


async def test_without_tools_the_request_passes_as_it_is() -> None:
    model, inner = constrained(Reply(content="Notes."))
    request = Request(({"role": "user", "content": "Summarise"},), purpose="summary")
    assert await model.complete(request) == Reply(content="Notes.")
    assert inner.requests == (request,)


def test_the_schema_offers_each_tool_and_speech_only_where_no_tool_speaks() -> None:
    def names(*tools: dict[str, Any]) -> list[str]:
        schema = call_format(tools, None)["json_schema"]["schema"]
        shapes = schema.get("anyOf", [schema])
        return [s["properties"].get("tool", {}).get("const", "reply") for s in shapes]

    assert names(WEATHER, tool("other")) == ["weather", "other", "reply"]
    assert names(WEATHER, SPEAK) == ["weather", "send_message"]
    assert names(SPEAK) == ["send_message"]


def test_every_text_and_array_of_the_schema_is_bounded() -> None:
    nested = tool(
        "note",
        text={"type": "string", "pattern": "^a", "maxLength": 9_000},
        short={"type": "string", "maxLength": 5},
        kind={"type": "string", "enum": ["a", "b"]},
        maybe={"anyOf": [{"type": "string"}, {"type": "null"}]},
        either={"type": ["string", "null"]},
        rows={
            "type": "array",
            "items": {"type": "object", "properties": {"k": {"type": "string"}}},
        },
        open={"type": "object", "additionalProperties": {"type": "string"}},
    )
    shape = call_format((nested, SPEAK), 10_000)["json_schema"]["schema"]["anyOf"][0]
    found = shape["properties"]["arguments"]["properties"]
    assert found["text"] == {"type": "string", "maxLength": LONGEST_TEXT}
    assert found["short"]["maxLength"] == 5
    assert found["kind"] == {"type": "string", "enum": ["a", "b"]}
    assert found["maybe"]["anyOf"][0]["maxLength"] == LONGEST_TEXT
    assert found["either"]["maxLength"] == LONGEST_TEXT
    assert found["rows"]["maxItems"] == MOST_ITEMS
    assert found["rows"]["items"]["properties"]["k"]["maxLength"] == LONGEST_TEXT
    assert found["open"]["additionalProperties"]["maxLength"] == LONGEST_TEXT
    assert "pattern" not in json.dumps(shape)


def test_no_text_may_be_longer_than_the_whole_reply() -> None:
    shape = call_format((SPEAK,), 100)["json_schema"]["schema"]
    assert shape["properties"]["arguments"]["properties"]["message"]["maxLength"] == 100


@pytest.mark.parametrize(
    ("said", "call"),
    [
        (
            '{"tool": "weather", "arguments": {"city":  "Rome"}}',
            RawCall("", "weather", '{"city":  "Rome"}'),
        ),
        ('{"tool": "weather", "arguments": {"city": "Ro', RawCall("", "weather", '{"city": "Ro')),
        (
            '{"thought": "I \\"look\\".", "tool": "weather", "arguments": {"city": "Ro',
            RawCall("", "weather", '{"city": "Ro'),
        ),
        ('{"thought": "I lo', RawCall("", "", '{"thought": "I lo')),
        ('{"tool": "wea', RawCall("", "", '{"tool": "wea')),
        ('{"city": "Rome"}', RawCall("", "", '{"city": "Rome"}')),
    ],
)
async def test_what_it_says_is_a_call_to_the_letter_also_where_it_breaks_off(
    said: str, call: RawCall
) -> None:
    expected = Reply(content="", calls=(call,), finish="tool_calls", opaque={SAID: said})
    model, _ = constrained(Reply(content=said), Reply(content=said))
    request = Request(HISTORY, (WEATHER,))
    assert await model.complete(request) == expected
    parts = [part async for part in model.stream(request)]
    assert parts == [CallPart(0, call.name, call.arguments), expected]


async def test_a_plain_reply_is_text_and_streamed_as_that() -> None:
    said = '{"reply": "Sunny."}'
    model, _ = constrained(Reply(content=said, reasoning="Hm."))
    parts = [part async for part in model.stream(Request(HISTORY, (WEATHER,)))]
    assert [part for part in parts if isinstance(part, TextPart)] == [TextPart("Sunny.")]
    assert parts[-1] == Reply(content="Sunny.", reasoning="Hm.", opaque={SAID: said})


async def test_a_server_that_knows_no_schemas_is_still_heard() -> None:
    model, _ = constrained(Reply(content="It is sunny."))
    assert await model.complete(Request(HISTORY, (WEATHER,))) == Reply(content="It is sunny.")


@pytest.mark.parametrize(
    "rest", ['"tool": "weather", "arguments": {"city": "Rome"}', '"reply": "Sunny."']
)
async def test_the_thought_before_an_answer_is_its_reasoning_streamed_or_not(rest: str) -> None:
    said = Reply(content=f'{{"thought": "Asked already.", {rest}}}')
    model, _ = constrained(said, said)
    request = Request(HISTORY, (WEATHER,))
    reply = await model.complete(request)
    assert reply.reasoning == "Asked already."
    assert (len(reply.calls), reply.content) in {(1, ""), (0, "Sunny.")}
    parts = [part async for part in model.stream(request)]
    assert parts[0] == ReasoningPart("Asked already.")
    assert parts[-1] == reply


async def test_what_the_provider_thought_is_told_once_and_kept_before_the_thought() -> None:
    model, _ = constrained(Reply(content='{"thought": "So.", "reply": "Hi."}', reasoning="Hm."))
    parts = [part async for part in model.stream(Request(HISTORY, (WEATHER,)))]
    assert [part for part in parts if isinstance(part, ReasoningPart)] == [ReasoningPart("Hm.")]


def test_every_answer_begins_with_a_thought_and_a_bounded_one() -> None:
    for shape in call_format((WEATHER,), None)["json_schema"]["schema"]["anyOf"]:
        assert shape["required"][0] == next(iter(shape["properties"])) == "thought"
        assert shape["properties"]["thought"]["maxLength"] == LONGEST_THOUGHT
