"""The requests of a real agent, as litellm sends them: held against each provider's rules.

An agent talks to a scripted model; each of its requests is sent once more through litellm to an
endpoint of that provider's, and the body that arrives is read back into messages.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pagedaemon import AsyncRuntime, Block, Model, tool
from pagedaemon.config import NATIVE, Paging
from pagedaemon.errors import ModelError
from pagedaemon.llm.litellm import LiteLLMModel
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import FakeClock, ScriptedModel, both, call, say, text, view
from pagedaemon.testing.validators import check_anthropic, check_gemini, check_openai

pytestmark = [
    pytest.mark.filterwarnings("ignore:Accessing the 'model_:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Items? .* on TypedDict:UserWarning"),
]


@tool(effect="read")
def plan(stops: list[dict[str, str]], budget: float | None = None) -> str:
    """Plans a journey.

    Args:
        stops: where and when.
        budget: in euro.
    """
    return f"{len(stops)} stops"


def answers(request: Request) -> Reply:
    """Parallel calls, then a heartbeat, then words; notes where a summary is asked for."""
    if request.purpose == "summary":
        return text("Lin travels.")
    results = [wire for wire in request.messages if wire["role"] == "tool"]
    last = request.messages[-1]["role"] == "tool" or "heartbeat" in view(request).last_user.lower()
    if results and last:
        return say("Planned.")
    stops = [{"city": "Rome", "day": "Monday"}, {"city": "Oslo", "day": "Friday"}]
    return both(
        call("plan", stops=stops, budget=None, heartbeat=True),
        call("archival_memory_insert", content="Lin travels", heartbeat=True),
    )


@pytest.fixture(scope="module")
def requests(tmp_path_factory: pytest.TempPathFactory) -> list[Request]:
    """What a MemGPT agent and a native one were asked in a conversation that pages out."""

    async def talk(folder: Path) -> list[Request]:
        scripted = ScriptedModel(answers)
        model = Model("script", context_window=7_000, max_output_tokens=500)
        models = {"script": scripted}
        async with AsyncRuntime(
            folder, model=model, models=models, tools=[plan], clock=FakeClock()
        ) as opened:
            for name, settings in (("ada", {}), ("bob", {"style": NATIVE})):
                agent = await opened.agents.ensure(
                    name,
                    blocks=[Block(label="human")],
                    tools=[plan],
                    paging=Paging(keep_last=2),
                    **settings,  # type: ignore[arg-type]
                )
                for number in range(7):
                    await agent.send(f"Trip {number}? " + "word " * 350)
        return list(scripted.requests)

    return asyncio.run(talk(tmp_path_factory.mktemp("talk")))


def anthropic_messages(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A body of Anthropic's as messages, in its own order."""
    for part in body.get("system", ()):
        yield {"role": "system", "content": part["text"]}
    for message in body["messages"]:
        blocks = message["content"]
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        if message["role"] == "user":
            for block in blocks:
                if block["type"] == "tool_result":
                    yield {
                        "role": "tool",
                        "tool_call_id": block["tool_use_id"],
                        "content": json.dumps(block["content"]),
                    }
                else:
                    yield {"role": "user", "content": block["text"]}
            continue
        said = [block["text"] for block in blocks if block["type"] == "text"]
        calls = [
            _call(block["id"], block["name"], block["input"])
            for block in blocks
            if block["type"] == "tool_use"
        ]
        kinds = [block["type"] for block in blocks]
        assert kinds == sorted(kinds), "text stands before calls"
        yield _assistant("".join(said), calls)


def gemini_messages(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A body of Gemini's as messages: its responses answer the calls before them in order."""
    for part in body.get("system_instruction", {}).get("parts", ()):
        yield {"role": "system", "content": part["text"]}
    number = 0
    open_calls: list[tuple[str, str]] = []
    for content in body["contents"]:
        calls = []
        for part in content["parts"]:
            if "function_call" in part:
                number += 1
                made = part["function_call"]
                open_calls.append((f"call_{number}", made["name"]))
                calls.append(_call(f"call_{number}", made["name"], made["args"]))
            elif "function_response" in part:
                answered, name = open_calls.pop(0)
                assert part["function_response"]["name"] == name
                yield {"role": "tool", "tool_call_id": answered, "content": "result"}
            elif content["role"] == "user":
                yield {"role": "user", "content": part["text"]}
        if content["role"] == "model":
            yield _assistant("".join(part.get("text", "") for part in content["parts"]), calls)


def _call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": call_id, "type": "function", "function": function}


def _assistant(said: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant"}
    if said:
        message["content"] = said
    if calls:
        message["tool_calls"] = calls
    return message


def _function(name: str, description: str, parameters: Any) -> dict[str, Any]:
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


async def sent(name: str, endpoint: Any, requests: list[Request]) -> list[dict[str, Any]]:
    """The bodies that reach a provider."""
    endpoint.answer_json({"error": {"message": "enough"}}, 400)
    asked = LiteLLMModel(Model(name, base_url=endpoint.url.removesuffix("/v1"), api_key="k"))
    for request in requests:
        with pytest.raises(ModelError):
            await asked.complete(request)
    await asked.aclose()
    assert len(endpoint.seen) == len(requests)
    return [seen.body for seen in endpoint.seen]


def test_the_conversations_have_all_that_is_to_be_checked(requests: list[Request]) -> None:
    text = json.dumps([list(map(dict, request.messages)) for request in requests])
    assert any(request.purpose == "summary" for request in requests)
    for part in ("tool_calls", "tool_call_id", "heartbeat", "Lin travels."):
        assert part in text
    assert any(
        len(wire.get("tool_calls", ())) == 2 for request in requests for wire in request.messages
    )


async def test_anthropic_gets_only_what_it_takes(endpoint: Any, requests: list[Request]) -> None:
    for body in await sent("anthropic/claude-sonnet-4-5", endpoint, requests):
        tools = [
            _function(made["name"], made["description"], made["input_schema"])
            for made in body.get("tools", ())
        ]
        check_anthropic(list(anthropic_messages(body)), tools)


async def test_gemini_gets_only_what_it_takes(endpoint: Any, requests: list[Request]) -> None:
    for body in await sent("gemini/gemini-2.5-pro", endpoint, requests):
        tools = [
            _function(made["name"], made["description"], made["parameters"])
            for group in body.get("tools", ())
            for made in group["function_declarations"]
        ]
        check_gemini(list(gemini_messages(body)), tools)


@pytest.mark.parametrize("name", ["hosted_vllm/qwen", "litellm/openai/qwen"])
async def test_a_local_server_gets_the_messages_as_they_are(
    endpoint: Any, requests: list[Request], name: str
) -> None:
    for body, request in zip(await sent(name, endpoint, requests), requests, strict=True):
        check_openai(body["messages"], body.get("tools", ()))
        assert body["messages"] == [dict(wire) for wire in request.messages]
        given, made = body.get("tools", []), [dict(offered) for offered in request.tools]
        if name == "hosted_vllm/qwen":  # to which litellm never says `additionalProperties`
            given, made = ([it["function"]["name"] for it in tools] for tools in (given, made))
        assert given == made
