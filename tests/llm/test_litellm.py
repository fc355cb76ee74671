"""Other providers through litellm: what leaves this machine, and what their answers become."""

from __future__ import annotations

import copy
import importlib.metadata
import json
import threading
from types import ModuleType
from typing import Any

import pytest

from pagedaemon.config import Model
from pagedaemon.errors import (
    AuthenticationFailed,
    BadReply,
    ConfigError,
    ContextTooLong,
    MissingDependency,
    ModelError,
    ModelTimedOut,
    ModelUnavailable,
    QuotaExceeded,
    RateLimited,
    RequestRejected,
)
from pagedaemon.llm import litellm as gateway
from pagedaemon.llm.litellm import LiteLLMModel
from pagedaemon.llm.protocol import CALL_EXTRAS, CallPart, Part, RawCall, Reply, Request, TextPart

# What pydantic says of litellm's own models.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Accessing the 'model_:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Items? .* on TypedDict:UserWarning"),
]

CLAUDE = "anthropic/claude-sonnet-4-5"
GEMINI = "gemini/gemini-2.5-pro"
VLLM = "hosted_vllm/qwen"
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
REQUEST = Request(
    ({"role": "system", "content": "You are Ada."}, {"role": "user", "content": "Hi"}), (TOOL,), 100
)

CLAUDE_BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "Let me think", "signature": "U0lH+/=="},
    {"type": "redacted_thinking", "data": "UkVEQUNU=="},
    {"type": "text", "text": "Hello"},
    {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Rome"}},
]
CLAUDE_USED = {
    "input_tokens": 10,
    "cache_read_input_tokens": 5,
    "cache_creation_input_tokens": 2,
    "output_tokens": 20,
}
CLAUDE_WHOLE = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": CLAUDE_BLOCKS,
    "stop_reason": "tool_use",
    "usage": CLAUDE_USED,
}


def claude_delta(index: int, kind: str, **fields: str) -> dict[str, Any]:
    """One delta of a block."""
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def claude_start(index: int, block: dict[str, Any]) -> dict[str, Any]:
    """The begin of a block."""
    return {"type": "content_block_start", "index": index, "content_block": block}


CLAUDE_STREAM: list[dict[str, Any]] = [
    {"type": "message_start", "message": {**CLAUDE_WHOLE, "content": [], "stop_reason": None}},
    claude_start(0, {"type": "thinking", "thinking": "", "signature": ""}),
    claude_delta(0, "thinking_delta", thinking="Let me"),
    claude_delta(0, "thinking_delta", thinking=" think"),
    claude_delta(0, "signature_delta", signature="U0lH+/=="),
    {"type": "content_block_stop", "index": 0},
    claude_start(1, CLAUDE_BLOCKS[1]),
    {"type": "content_block_stop", "index": 1},
    claude_start(2, {"type": "text", "text": ""}),
    claude_delta(2, "text_delta", text="Hello"),
    {"type": "content_block_stop", "index": 2},
    claude_start(3, {**CLAUDE_BLOCKS[3], "input": {}}),
    claude_delta(3, "input_json_delta", partial_json='{"city": '),
    claude_delta(3, "input_json_delta", partial_json='"Rome"}'),
    {"type": "content_block_stop", "index": 3},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 20},
    },
    {"type": "message_stop"},
]
GEMINI_WHOLE = {
    "candidates": [
        {
            "content": {
                "role": "model",
                "parts": [
                    {"text": "Hm.", "thought": True},
                    {"text": "Hello"},
                    {
                        "functionCall": {"name": "weather", "args": {"city": "Rome"}},
                        "thoughtSignature": "R1NJRw==",
                    },
                    {"functionCall": {"name": "weather", "args": {"city": "Oslo"}}},
                ],
            },
            "finishReason": "STOP",
            "index": 0,
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 10,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 7,
        "totalTokenCount": 22,
        "cachedContentTokenCount": 4,
    },
}


def model(name: str, endpoint: Any, **settings: Any) -> LiteLLMModel:
    """A model of that provider, served by the endpoint."""
    url = endpoint.url if name == VLLM else endpoint.url.removesuffix("/v1")
    return LiteLLMModel(Model(name, **{"base_url": url, "api_key": "secret-key", **settings}))


async def parts(asked: LiteLLMModel, request: Request = REQUEST) -> list[Part]:
    """All parts of one streamed reply."""
    return [part async for part in asked.stream(request)]


def chunk(delta: dict[str, Any] | None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """One chunk of an OpenAI-compatible stream."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "qwen"}
    return {**base, "choices": choices, **more}


# ------------------------------------------------------------------ answers


async def test_anthropic_streams_what_it_answers_whole_with_signatures_to_the_byte(
    endpoint: Any,
) -> None:
    endpoint.answer_json(CLAUDE_WHOLE)
    endpoint.answer_stream(*CLAUDE_STREAM, done=False)
    asked = model(CLAUDE, endpoint)
    whole = await asked.complete(REQUEST)
    heard = await parts(asked)
    await asked.aclose()
    assert heard[-1] == whole
    assert whole.opaque == {"thinking_blocks": CLAUDE_BLOCKS[:2]}
    assert (whole.content, whole.reasoning, whole.finish) == ("Hello", "Let me think", "tool_calls")
    assert whole.calls == (RawCall("toolu_1", "weather", '{"city": "Rome"}'),)
    used = whole.usage
    assert used is not None
    assert (used.prompt_tokens, used.completion_tokens, used.cached_tokens) == (17, 20, 5)
    # With what writing the cache costs on top: 10 and 5 and 2 tokens have three prices.
    assert used.cost == pytest.approx((10 * 3 + 5 * 0.3 + 2 * 3.75 + 20 * 15) / 1e6)


async def test_gemini_streams_what_it_answers_whole_and_signs_its_calls(endpoint: Any) -> None:
    endpoint.answer_json(GEMINI_WHOLE)
    endpoint.answer_stream(GEMINI_WHOLE, done=False)
    asked = model(GEMINI, endpoint)
    whole = await asked.complete(REQUEST)
    heard = (await parts(asked))[-1]
    await asked.aclose()
    assert isinstance(heard, Reply)
    for reply in (whole, heard):
        assert (reply.content, reply.reasoning, reply.finish) == ("Hello", "Hm.", "tool_calls")
        assert [call.arguments for call in reply.calls] == ['{"city": "Rome"}', '{"city": "Oslo"}']
        assert all(0 < len(call.id) <= 40 and "R1NJRw" not in call.id for call in reply.calls)
        signed, unsigned = reply.opaque[CALL_EXTRAS]
        assert signed == {"provider_specific_fields": {"thought_signature": "R1NJRw=="}}
        assert unsigned == {}
        assert "thinking_blocks" not in reply.opaque
        assert reply.usage is not None
        assert (reply.usage.cached_tokens, reply.usage.reasoning_tokens) == (4, 7)
        assert reply.usage.completion_tokens == 12
    assert heard.opaque == whole.opaque
    assert heard.usage == whole.usage


def piece(arguments: str | None, name: str | None = None, **call: Any) -> dict[str, Any]:
    """A part of one call, as it stands in a chunk."""
    function = {"arguments": arguments, **({} if name is None else {"name": name})}
    return {**call, "type": "function", "function": function}


ROME = '{"city": "Rome"}'
WHOLE_CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": ROME}}
ODD_STREAMS: dict[str, list[dict[str, Any]]] = {
    "whole call in one delta": [chunk({"tool_calls": [{"index": 0, **WHOLE_CALL}]})],
    "no index": [chunk({"tool_calls": [WHOLE_CALL]})],
    "name repeated": [
        chunk({"tool_calls": [piece("{", index=0, id="c1", name="weather")]}),
        chunk({"tool_calls": [piece(ROME[1:], index=0, name="weather")]}),
    ],
    "arguments null, then whole": [
        chunk({"tool_calls": [piece(None, index=0, id="c1", name="weather")]}),
        chunk({"tool_calls": [piece(ROME, index=0)]}),
    ],
    "id in the last": [
        chunk({"tool_calls": [piece(ROME[:5], index=0, name="weather")]}),
        chunk({"tool_calls": [piece(ROME[5:], index=0, id="c1")]}),
    ],
    "empty chunks between": [
        chunk(None),
        chunk({"role": "assistant", "content": ""}),
        chunk({"tool_calls": [{"index": 0, **WHOLE_CALL}]}),
        chunk({}),
    ],
}


@pytest.mark.parametrize("odd", ODD_STREAMS)
@pytest.mark.parametrize("finish", ["tool_calls", "stop"])
async def test_odd_streams_of_calls_come_to_the_same_call(
    endpoint: Any, odd: str, finish: str
) -> None:
    used = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    endpoint.answer_stream(*ODD_STREAMS[odd], chunk({}, finish), chunk(None, usage=used))
    asked = model(VLLM, endpoint)
    heard = await parts(asked)
    await asked.aclose()
    reply = heard[-1]
    assert isinstance(reply, Reply)
    assert [(call.name, call.arguments) for call in reply.calls] == [("weather", ROME)]
    assert reply.finish == "tool_calls"
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (7, 3)
    shown = [part for part in heard if isinstance(part, CallPart)]
    assert "".join(part.arguments for part in shown) == ROME


async def test_two_calls_under_one_index_stay_two(endpoint: Any) -> None:
    other = {**WHOLE_CALL, "id": "c2"}
    endpoint.answer_stream(
        chunk({"tool_calls": [{"index": 0, **WHOLE_CALL}]}),
        chunk({"tool_calls": [{"index": 0, **other}]}),
        chunk({}, "tool_calls"),
    )
    asked = model(VLLM, endpoint)
    reply = (await parts(asked))[-1]
    await asked.aclose()
    assert isinstance(reply, Reply)
    assert [call.id for call in reply.calls] == ["c1", "c2"]


async def test_usage_that_nobody_reported_is_none_and_not_counted(endpoint: Any) -> None:
    endpoint.answer_stream(chunk({"role": "assistant", "content": "Hi"}), chunk({}, "stop"))
    asked = model(VLLM, endpoint)
    heard = await parts(asked)
    await asked.aclose()
    assert heard == [TextPart("Hi"), Reply(content="Hi")]


# ------------------------------------------------------------------ requests


async def test_one_call_is_one_request_with_what_was_asked_and_nothing_is_changed(
    endpoint: Any,
) -> None:
    endpoint.answer_json(CLAUDE_WHOLE)
    request = Request(REQUEST.messages, REQUEST.tools, 100)
    before = copy.deepcopy(request)
    asked = model(f"litellm/{CLAUDE}", endpoint, temperature=0.5, extra={"top_p": 0.9})
    await asked.complete(request)
    await asked.aclose()
    assert request == before
    (seen,) = endpoint.seen
    assert seen.path == "/v1/messages"
    assert seen.headers["x-api-key"] == "secret-key"
    assert seen.body["model"] == "claude-sonnet-4-5"
    assert (seen.body["max_tokens"], seen.body["temperature"], seen.body["top_p"]) == (
        100,
        0.5,
        0.9,
    )
    assert seen.body["tools"][0]["input_schema"] == TOOL["function"]["parameters"]  # type: ignore[index]


def signed_history(**opaque: Any) -> Request:
    """A request in which the model's own reply goes back to it, as the runtime renders it."""
    extras = opaque.pop(CALL_EXTRAS, [{}])
    made = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": ROME}}
    reply = {
        **opaque,
        "role": "assistant",
        "content": "Hello",
        "tool_calls": [{**extras[0], **made}],
    }
    result = {"role": "tool", "tool_call_id": "c1", "content": "sunny"}
    return Request((*REQUEST.messages, reply, result), REQUEST.tools, 100)


async def test_signed_thinking_goes_back_to_anthropic_to_the_byte(endpoint: Any) -> None:
    endpoint.answer_json(CLAUDE_WHOLE)
    asked = model(CLAUDE, endpoint)
    said = await asked.complete(REQUEST)
    await asked.complete(signed_history(**said.opaque))
    await asked.aclose()
    sent = endpoint.seen[1].body["messages"][1]["content"]
    assert json.dumps(sent[:2]) == json.dumps(CLAUDE_BLOCKS[:2])
    assert [block["type"] for block in sent[2:]] == ["text", "tool_use"]


async def test_a_signature_goes_back_to_gemini_with_its_call(endpoint: Any) -> None:
    endpoint.answer_json(GEMINI_WHOLE)
    asked = model(GEMINI, endpoint)
    said = await asked.complete(REQUEST)
    await asked.complete(signed_history(**said.opaque))
    await asked.aclose()
    sent = endpoint.seen[1].body["contents"][1]["parts"]
    made = next(part for part in sent if "function_call" in part)
    assert made["thoughtSignature"] == "R1NJRw=="
    assert all("thoughtSignature" not in part for part in sent if part is not made)


async def test_a_key_of_the_environment_is_not_sent_to_an_endpoint_of_ones_own(
    endpoint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-the-environment")
    endpoint.answer_json(CLAUDE_WHOLE)
    asked = model(CLAUDE, endpoint, api_key=None)
    await asked.complete(REQUEST)
    await asked.aclose()
    assert "sk-of-the-environment" not in json.dumps(dict(endpoint.seen[0].headers))


@pytest.mark.parametrize(
    ("name", "field"), [(VLLM, "response_format"), ("ollama_chat/qwen", "format")]
)
async def test_a_schema_for_the_reply_reaches_local_servers(
    endpoint: Any, name: str, field: str
) -> None:
    schema = {"type": "object", "properties": {"reply": {"type": "string"}}, "required": ["reply"]}
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    said = '{"reply": "Hi"}'
    endpoint.answer_json(
        {
            "model": "qwen",
            "message": {"role": "assistant", "content": said},
            "done": True,
            "done_reason": "stop",
            "choices": [{"index": 0, "message": {"content": said}, "finish_reason": "stop"}],
        }
    )
    asked = model(name, endpoint)
    reply = await asked.complete(Request(REQUEST.messages, response_format=form))
    await asked.aclose()
    assert reply.content == said
    sent = endpoint.seen[0].body[field]
    assert (sent["json_schema"]["schema"] if field == "response_format" else sent) == schema


async def test_after_closing_it_can_be_asked_again(endpoint: Any) -> None:
    endpoint.answer_json(CLAUDE_WHOLE)
    one, other = model(CLAUDE, endpoint), model(CLAUDE, endpoint)
    for _ in range(2):
        await one.complete(REQUEST)
        await other.complete(REQUEST)
        await one.aclose()
        await other.complete(REQUEST)
        await other.aclose()
    assert len(endpoint.seen) == 6


# ------------------------------------------------------------------ failures

FAILURES: list[tuple[int, Any, type[ModelError]]] = [
    (400, {"message": "prompt is too long: 9 tokens > 8 maximum"}, ContextTooLong),
    (400, {"message": "odd", "type": "invalid_request_error"}, RequestRejected),
    (401, {"message": "invalid x-api-key"}, AuthenticationFailed),
    (403, {"message": "may not"}, AuthenticationFailed),
    (404, {"message": "no such model"}, RequestRejected),
    (429, {"message": "slow down", "type": "rate_limit_error"}, RateLimited),
    (429, {"message": "spent", "code": "insufficient_quota"}, QuotaExceeded),
    (500, {"message": "broken"}, ModelUnavailable),
    (503, {"message": "busy"}, ModelUnavailable),
    (529, {"message": "overloaded", "type": "overloaded_error"}, ModelUnavailable),
]


@pytest.mark.parametrize(("status", "error", "kind"), FAILURES)
@pytest.mark.parametrize("name", [CLAUDE, VLLM])
async def test_what_a_provider_complains_of_says_who_must_act_and_never_the_key(
    endpoint: Any, name: str, status: int, error: dict[str, str], kind: type[ModelError]
) -> None:
    message = f"{error['message']} (key secret-key)"
    body = {"type": "error", "error": {**error, "message": message}}
    endpoint.answer_json(body, status, retry_after="7")
    asked = model(name, endpoint)
    for asking in (asked.complete(REQUEST), parts(asked)):
        with pytest.raises(ModelError) as caught:
            await asking
        assert type(caught.value) is kind
        assert "secret-key" not in str(caught.value)
        assert caught.value.__cause__ is None
        if isinstance(caught.value, RateLimited):
            assert caught.value.retry_after == 7.0
    await asked.aclose()
    assert len(endpoint.seen) == 2


@pytest.mark.parametrize("name", [CLAUDE, VLLM])
async def test_a_stream_that_breaks_off_is_no_reply(endpoint: Any, name: str) -> None:
    events = (
        CLAUDE_STREAM[:-2] if name == CLAUDE else [chunk({"role": "assistant", "content": "H"})]
    )
    endpoint.answer_stream(*events, done=False)
    endpoint.answer_stream(*events, done=False, broken=True)
    asked = model(name, endpoint)
    for _ in range(2):
        with pytest.raises(ModelUnavailable):
            await parts(asked)
    await asked.aclose()


async def test_a_stream_that_is_called_done_without_a_finish_is_a_whole_reply(
    endpoint: Any,
) -> None:
    endpoint.answer_stream(chunk({"role": "assistant", "content": "Hi"}))
    endpoint.answer_stream(chunk({"role": "assistant", "content": "Hi"}), done=False)
    asked = model(VLLM, endpoint)
    assert (await parts(asked))[-1] == Reply(content="Hi")
    with pytest.raises(ModelUnavailable):
        await parts(asked)
    await asked.aclose()


async def test_an_answer_that_litellm_is_told_to_make_up_is_streamed_too(endpoint: Any) -> None:
    asked = model(VLLM, endpoint, extra={"mock_response": "Made up."})
    reply = (await parts(asked))[-1]
    await asked.aclose()
    assert isinstance(reply, Reply)
    assert (reply.content, reply.finish) == ("Made up.", "stop")


async def test_no_answer_in_time_is_a_time_out(endpoint: Any) -> None:
    endpoint.answer_stream(*CLAUDE_STREAM, done=False, pause=5)
    asked = model(CLAUDE, endpoint, timeout=0.3)
    with pytest.raises(ModelTimedOut):
        await parts(asked)
    await asked.aclose()


async def test_no_server_is_told_as_unavailable(endpoint: Any) -> None:
    asked = LiteLLMModel(Model(VLLM, base_url="http://127.0.0.1:1/v1", api_key="k"))
    with pytest.raises(ModelUnavailable):
        await asked.complete(REQUEST)
    await asked.aclose()


async def test_an_answer_that_is_none_is_not_taken_for_one(endpoint: Any) -> None:
    endpoint.answer_json({"type": "message", "content": None})
    asked = model(CLAUDE, endpoint)
    with pytest.raises((BadReply, ModelUnavailable, RequestRejected)):
        await asked.complete(REQUEST)
    await asked.aclose()


async def test_an_unknown_provider_is_refused() -> None:
    asked = LiteLLMModel(Model("nosuch/model", api_key="k"))
    with pytest.raises(RequestRejected, match="nosuch/model"):
        await asked.complete(REQUEST)
    await asked.aclose()


# ------------------------------------------------------------------ loading


@pytest.mark.parametrize("version", gateway.POISONED)
def test_a_poisoned_release_is_refused_before_it_is_imported(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _: version)
    with pytest.raises(ConfigError, match=f"litellm {version}"):
        LiteLLMModel(Model(CLAUDE))
    with pytest.raises(ConfigError, match=f"litellm {version}"):
        gateway.load()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(MissingDependency, match="pip install litellm"):
        LiteLLMModel(Model(CLAUDE))


async def test_it_is_imported_off_the_event_loop(
    endpoint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    loading = gateway.load

    def load() -> ModuleType:
        threads.append(threading.current_thread())
        return loading()

    monkeypatch.setattr(gateway, "load", load)
    endpoint.answer_json(CLAUDE_WHOLE)
    asked = model(CLAUDE, endpoint)
    await asked.complete(REQUEST)
    await asked.complete(REQUEST)
    await asked.aclose()
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


def test_what_it_would_do_beside_is_off() -> None:
    litellm = gateway.load()
    assert litellm.disable_token_counter is True
    assert litellm.token_counter(model="gpt-4o", text="a few words") == 0
    assert litellm.disable_hf_tokenizer_download is True
    assert litellm.suppress_debug_info is True
    assert litellm.callbacks == []
    # Its own, which keeps no answer where no cache is set up.
    assert {*litellm.success_callback, *litellm.failure_callback} <= {"cache"}
    assert litellm.cache is None


def test_extra_may_not_replace_what_is_made_here() -> None:
    with pytest.raises(ConfigError, match="messages"):
        LiteLLMModel(Model(CLAUDE, extra={"messages": []}))
