"""Pictures on the wire: what each provider is sent, through both gateways."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from pagedaemon.config import Model
from pagedaemon.llm.gateway import connect
from pagedaemon.llm.prices import Priced
from pagedaemon.llm.protocol import ChatModel, Reply, Request
from pagedaemon.llm.tokens import image_tokens, without_images
from pagedaemon.testing import ScriptedModel, check_request, png

pytestmark = [
    pytest.mark.filterwarnings("ignore:Accessing the 'model_:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Items? .* on TypedDict:UserWarning"),
]

DATA = base64.b64encode(png(1, 1)).decode()
SHOWN: dict[str, Any] = {
    "role": "user",
    "content": [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
        {"type": "text", "text": "\nWhat is it?"},
    ],
}
REQUEST = Request(({"role": "system", "content": "You are Ada."}, SHOWN), (), 100)
USED = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
OPENAI_ANSWER = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "A dot."}, "finish_reason": "stop"}
    ],
    "usage": USED,
}
CLAUDE_ANSWER = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "A dot."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 10, "output_tokens": 5},
}
GEMINI_ANSWER = {
    "candidates": [
        {"content": {"role": "model", "parts": [{"text": "A dot."}]}, "finishReason": "STOP"}
    ],
    "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
}


async def asked(name: str, endpoint: Any, answer: object, *, v1: bool) -> dict[str, Any]:
    """The body that a provider is sent."""
    endpoint.answer_json(answer)
    url = endpoint.url if v1 else endpoint.url.removesuffix("/v1")
    model: ChatModel = connect(Model(name, base_url=url, api_key="key"), {})
    reply = await model.complete(REQUEST)
    await model.aclose()
    assert reply.content == "A dot."
    body: dict[str, Any] = endpoint.seen[-1].body
    return body


def test_the_request_is_legal_everywhere() -> None:
    check_request(REQUEST.messages)


@pytest.mark.parametrize("name", ["openai/gpt-5-mini", "hosted_vllm/llava"])
async def test_openai_is_sent_it_as_it_is_through_both_gateways(endpoint: Any, name: str) -> None:
    body = await asked(name, endpoint, OPENAI_ANSWER, v1=True)
    assert body["messages"] == list(REQUEST.messages)


async def test_anthropic_is_sent_a_base64_source(endpoint: Any) -> None:
    body = await asked("anthropic/claude-sonnet-4-5", endpoint, CLAUDE_ANSWER, v1=False)
    (message,) = body["messages"]
    assert message["role"] == "user"
    assert message["content"] == [
        {"type": "text", "text": "Look:"},
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": DATA},
        },
        {"type": "text", "text": "\nWhat is it?"},
    ]


async def test_gemini_is_sent_inline_data(endpoint: Any) -> None:
    body = await asked("gemini/gemini-2.5-pro", endpoint, GEMINI_ANSWER, v1=False)
    (turn,) = body["contents"]
    assert [part.get("text") for part in turn["parts"]] == ["Look:", None, "\nWhat is it?"]
    inline = turn["parts"][1].get("inline_data") or turn["parts"][1]["inlineData"]
    assert inline["data"] == DATA
    assert "image/png" in inline.values()


async def test_where_no_usage_is_reported_a_picture_is_estimated_by_its_size() -> None:
    silent = ScriptedModel([Reply(content="A dot.")], usage=None)
    reply = await Priced(silent, Model("mine", prices=(1, 1, 1))).complete(REQUEST)
    assert reply.usage is not None
    words, pictures = without_images(REQUEST.messages)
    assert pictures == image_tokens(1, 1) == 255
    assert DATA not in str(words)
    assert 255 < reply.usage.prompt_tokens < 255 + 80
