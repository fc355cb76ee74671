"""What goes over the wire to an OpenAI-compatible endpoint and what comes back, on real sockets."""

from __future__ import annotations

import asyncio
import traceback
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from pagedaemon.config import Model
from pagedaemon.errors import (
    AuthenticationFailed,
    BadReply,
    ConfigError,
    ContextTooLong,
    ModelError,
    ModelTimedOut,
    ModelUnavailable,
    QuotaExceeded,
    RateLimited,
    RequestRejected,
)
from pagedaemon.llm.openai import OpenAIModel
from pagedaemon.llm.protocol import CallPart, Part, RawCall, ReasoningPart, Reply, Request, TextPart
from pagedaemon.messages import Usage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.llm.endpoint import Endpoint

KEY = "sk-very-secret-0123456789"
TOOL = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
}
REQUEST = Request(
    messages=({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Grüße"}),
    tools=(TOOL,),
)
USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 8},
    "completion_tokens_details": {"reasoning_tokens": 3},
}
ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Let me see.",
                "reasoning_content": "hm",
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "look", "arguments": '{"q":1}'},
                    }
                ],
                "signature": "s==",
            },
            "finish_reason": "tool_calls",
        }
    ],
    "usage": USAGE,
}
REPLY = Reply(
    content="Let me see.",
    calls=(RawCall("call_1", "look", '{"q":1}'),),
    reasoning="hm",
    finish="tool_calls",
    usage=Usage(1, 10, 5, 8, 3),
    opaque={"signature": "s=="},
)
TEXT = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """A chunk of a stream."""
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


CHUNKS = [
    delta(role="assistant", content=""),
    delta(reasoning_content="hm"),
    delta(content="Let me "),
    delta(content="see.", signature="s=="),
    delta(tool_calls=[{"index": 0, "id": "call_1", "function": {"name": "look", "arguments": ""}}]),
    delta(tool_calls=[{"index": 0, "function": {"arguments": '{"q"'}}]),
    delta(tool_calls=[{"index": 0, "function": {"arguments": ":1}"}}]),
    delta("tool_calls"),
    {"choices": [], "usage": USAGE},
]


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)


class HeldClock:
    """A clock that stands still."""

    def now(self) -> datetime:
        """Always the same instant."""
        return datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)

    def monotonic(self) -> float:
        """Always the same second."""
        return 0.0


@pytest.fixture
async def connect(endpoint: Endpoint) -> AsyncIterator[Callable[..., OpenAIModel]]:
    """Makes models of the local endpoint, and closes them."""
    made: list[OpenAIModel] = []

    def make(name: str = "openai/qwen3", **settings: Any) -> OpenAIModel:
        model = Model(name, **{"base_url": endpoint.url, "api_key": KEY, **settings})
        made.append(OpenAIModel(model, HeldClock()))
        return made[-1]

    yield make
    for model in made:
        await model.aclose()


async def listen(model: OpenAIModel, request: Request = REQUEST) -> list[Part]:
    """All parts of a stream."""
    return [part async for part in model.stream(request)]


async def answer(model: OpenAIModel) -> Reply:
    """The whole reply."""
    return await model.complete(REQUEST)


async def last(model: OpenAIModel) -> Reply:
    """The reply at the end of a stream."""
    final = (await listen(model))[-1]
    assert isinstance(final, Reply)
    return final


BOTH_WAYS: list[Callable[[OpenAIModel], Awaitable[Reply]]] = [answer, last]


async def test_a_request_is_exactly_this(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel]
) -> None:
    endpoint.answer_json(ANSWER)
    assert await connect().complete(REQUEST) == REPLY
    seen = endpoint.seen[0]
    assert seen.path == "/v1/chat/completions"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.headers["content-type"] == "application/json"
    assert seen.body == {
        "model": "qwen3",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Grüße"},
        ],
        "tools": [TOOL],
        "tool_choice": "auto",
        "max_tokens": 2048,
    }


async def test_a_request_for_a_stream_is_exactly_this(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel]
) -> None:
    endpoint.answer_stream(*CHUNKS)
    model = connect(temperature=0.5, extra={"top_k": 3}, max_output_tokens=100)
    request = Request(messages=({"role": "user", "content": "Hi"},), max_output_tokens=7)
    await listen(model, request)
    assert endpoint.seen[0].body == {
        "model": "qwen3",
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 7,
        "temperature": 0.5,
        "top_k": 3,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_openais_own_endpoint_gets_its_own_name_for_the_limit(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-environment\n")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    endpoint.answer_json(TEXT)
    await connect("openai/gpt-5-mini", base_url=None, api_key=None).complete(REQUEST)
    seen = endpoint.seen[0]
    assert seen.body["model"] == "gpt-5-mini"
    assert seen.body["max_completion_tokens"] == 2048
    assert "max_tokens" not in seen.body
    assert seen.headers["authorization"] == "Bearer sk-from-environment"
    assert seen.headers["openai-organization"] == "org-1"


async def test_a_limit_given_by_the_developer_replaces_ours(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel]
) -> None:
    endpoint.answer_json(TEXT)
    await connect(extra={"max_completion_tokens": 9}).complete(REQUEST)
    assert endpoint.seen[0].body["max_completion_tokens"] == 9
    assert "max_tokens" not in endpoint.seen[0].body


async def test_another_endpoint_gets_neither_openais_key_nor_organization(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-1")
    endpoint.answer_json(TEXT)
    await connect(api_key=None).complete(REQUEST)
    headers = endpoint.seen[0].headers
    assert headers["authorization"] == "Bearer none"
    assert "openai-organization" not in headers
    assert "openai-project" not in headers


@pytest.mark.parametrize("base_url", [None, "https://api.openai.com/v1"])
async def test_without_a_key_the_error_says_what_to_do(base_url: str | None) -> None:
    model = OpenAIModel(Model("openai/gpt-5-mini", base_url=base_url))
    for ask in BOTH_WAYS:
        with pytest.raises(AuthenticationFailed, match="OPENAI_API_KEY"):
            await ask(model)


async def test_a_key_that_cannot_be_one_is_refused_without_being_shown(
    connect: Callable[..., OpenAIModel],
) -> None:
    with pytest.raises(AuthenticationFailed) as caught:
        await connect(api_key="sk-ключ").complete(REQUEST)
    assert "ключ" not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"name": "qwen3"},
        {"name": "openai/"},
        {"base_url": "localhost:8000/v1"},
        {"base_url": "ftp://localhost/v1"},
        {"base_url": "http://localhost:no/v1"},
        {"base_url": "http://"},
        {"extra": {"messages": []}},
        {"extra": {"stream": True}},
        {"extra": {"when": datetime(2026, 1, 1, tzinfo=UTC)}},
        {"extra": {"temperature": float("nan")}},
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_refused_at_once(settings: dict[str, Any]) -> None:
    name = settings.pop("name", "openai/qwen3")
    with pytest.raises(ConfigError):
        OpenAIModel(Model(name, **settings))


async def test_a_stream_shows_its_parts_and_ends_in_the_reply_of_the_whole(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel]
) -> None:
    endpoint.answer_stream(*CHUNKS)
    assert await listen(connect()) == [
        ReasoningPart("hm"),
        TextPart("Let me "),
        TextPart("see."),
        CallPart(0, "look", '{"q"'),
        CallPart(0, "", ":1}"),
        REPLY,
    ]


async def test_an_endpoint_that_cannot_stream_is_heard_all_the_same(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel]
) -> None:
    endpoint.answer_json(ANSWER)
    parts = await listen(connect())
    assert parts[-1] == REPLY
    assert TextPart("Let me see.") in parts


async def test_an_answer_that_is_not_called_json_is_read_as_json(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel]
) -> None:
    endpoint.answer_json(ANSWER, content_type="text/plain")
    assert await connect().complete(REQUEST) == REPLY


FAILURES: list[tuple[int, dict[str, str], type[ModelError]]] = [
    (400, {"message": "Bad thing."}, RequestRejected),
    (400, {"message": "Too long.", "code": "context_length_exceeded"}, ContextTooLong),
    (401, {"message": "Who?"}, AuthenticationFailed),
    (402, {"message": "Pay."}, QuotaExceeded),
    (403, {"message": "Not you."}, AuthenticationFailed),
    (404, {"message": "No such model."}, RequestRejected),
    (408, {"message": "Slow."}, ModelTimedOut),
    (409, {"message": "Conflict."}, ModelUnavailable),
    (422, {"message": "Bad shape."}, RequestRejected),
    (429, {"message": "Busy."}, RateLimited),
    (429, {"message": "Spent.", "code": "insufficient_quota"}, QuotaExceeded),
    (500, {"message": "Oops."}, ModelUnavailable),
    (503, {"message": "Loading model."}, ModelUnavailable),
]


@pytest.mark.parametrize("ask", BOTH_WAYS)
@pytest.mark.parametrize(("status", "body", "kind"), FAILURES)
async def test_a_refusal_is_typed_keeps_its_message_and_is_asked_once(
    endpoint: Endpoint,
    connect: Callable[..., OpenAIModel],
    ask: Callable[[OpenAIModel], Awaitable[Reply]],
    status: int,
    body: dict[str, str],
    kind: type[ModelError],
) -> None:
    endpoint.answer_json({"error": body}, status)
    with pytest.raises(ModelError) as caught:
        await ask(connect())
    assert type(caught.value) is kind
    assert body["message"] in str(caught.value)
    assert len(endpoint.seen) == 1


@pytest.mark.parametrize("ask", BOTH_WAYS)
@pytest.mark.parametrize("status", [400, 401, 429, 500, 200])
async def test_no_error_shows_the_key_even_if_the_provider_repeats_it(
    endpoint: Endpoint,
    connect: Callable[..., OpenAIModel],
    ask: Callable[[OpenAIModel], Awaitable[Reply]],
    status: int,
) -> None:
    endpoint.answer_json({"error": {"message": f"Wrong key: {KEY}"}}, status)
    with pytest.raises(ModelError) as caught:
        await ask(connect())
    shown = "".join(traceback.format_exception(caught.value))
    assert KEY not in shown
    assert "Wrong key" in shown


@pytest.mark.parametrize(
    ("header", "seconds"), [("7", 7.0), ("Mon, 30 Nov 2026 12:00:09 GMT", 9.0), ("soon", None)]
)
async def test_a_rate_limit_says_how_long_to_wait(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel], header: str, seconds: float | None
) -> None:
    endpoint.answer_json({"error": {"message": "Busy."}}, 429, retry_after=header)
    with pytest.raises(RateLimited) as caught:
        await connect().complete(REQUEST)
    assert caught.value.retry_after == seconds


@pytest.mark.parametrize("ask", BOTH_WAYS)
async def test_an_error_under_status_200_is_an_error(
    endpoint: Endpoint,
    connect: Callable[..., OpenAIModel],
    ask: Callable[[OpenAIModel], Awaitable[Reply]],
) -> None:
    message = "the request exceeds the available context size"
    endpoint.answer_json({"error": {"code": 400, "message": message}})
    with pytest.raises(ContextTooLong, match="available context size"):
        await ask(connect())


async def test_an_error_in_the_middle_of_a_stream_is_typed(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel]
) -> None:
    endpoint.answer_stream(delta(content="Hel"), {"error": {"code": 502, "message": "Died."}})
    shown: list[Part] = []

    async def show() -> None:
        async for part in connect().stream(REQUEST):
            shown.append(part)

    with pytest.raises(ModelUnavailable, match="Died"):
        await show()
    assert shown == [TextPart("Hel")]


@pytest.mark.parametrize("broken", [True, False])
async def test_a_stream_that_breaks_inside_a_call_can_be_asked_again(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel], broken: bool
) -> None:
    endpoint.answer_stream(*CHUNKS[:6], done=False, broken=broken)
    with pytest.raises(ModelUnavailable):
        await listen(connect())


@pytest.mark.parametrize("upto", [0, 2, 6], ids=["nothing", "thoughts only", "inside a call"])
async def test_a_stream_that_is_called_done_before_anything_is_whole_can_be_asked_again(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel], upto: int
) -> None:
    endpoint.answer_stream(*CHUNKS[:upto])
    with pytest.raises(ModelUnavailable):
        await listen(connect())


async def test_a_stream_that_is_called_done_without_a_finish_is_a_whole_reply(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel]
) -> None:
    endpoint.answer_stream(*CHUNKS[:7], CHUNKS[8])
    assert (await listen(connect()))[-1] == REPLY


async def test_a_text_without_a_finish_is_whole_only_where_it_is_called_done(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel]
) -> None:
    endpoint.answer_stream(delta(content="Hello"))
    endpoint.answer_stream(delta(content="Hello"), done=False)
    assert (await listen(connect()))[-1] == Reply(content="Hello")
    with pytest.raises(ModelUnavailable):
        await listen(connect())


@pytest.mark.parametrize("body", ["not JSON", "[1]", '"text"', "{}", '{"choices": []}', ""])
@pytest.mark.parametrize("kind", ["application/json", "text/html"])
async def test_a_body_that_is_no_answer_is_a_bad_reply(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel], body: str, kind: str
) -> None:
    endpoint.will(endpoint.plain(body.encode(), kind))
    with pytest.raises(BadReply):
        await connect().complete(REQUEST)


@pytest.mark.parametrize("body", ["{", '{"choices": [{"mess', "[{"])
@pytest.mark.parametrize("kind", ["application/json", "text/html"])
@pytest.mark.parametrize("streamed", [True, False])
async def test_a_body_cut_short_can_be_asked_again(
    endpoint: Endpoint,
    connect: Callable[..., OpenAIModel],
    body: str,
    kind: str,
    streamed: bool,
) -> None:
    endpoint.will(endpoint.plain(body.encode(), kind))
    with pytest.raises(ModelUnavailable):
        await (listen(connect()) if streamed else connect().complete(REQUEST))


@pytest.mark.parametrize("data", [b"data: {no\n\n", b"data: no\n\n", b'data: {"a": "\xff"}\n\n'])
async def test_an_event_that_cannot_be_read_can_be_asked_again(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel], data: bytes
) -> None:
    endpoint.will(endpoint.plain(data, "text/event-stream"))
    with pytest.raises(ModelUnavailable):
        await listen(connect())


async def test_an_event_that_is_no_chunk_is_a_bad_reply(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel]
) -> None:
    endpoint.will(endpoint.plain(b"data: [1]\n\n", "text/event-stream"))
    with pytest.raises(BadReply):
        await listen(connect())


async def test_a_body_that_breaks_off_can_be_asked_again(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel]
) -> None:
    for status in (200, 500):
        for ask in BOTH_WAYS:
            endpoint.will(endpoint.plain(b'{"choices"', "application/json", status, broken=True))
            with pytest.raises(ModelUnavailable):
                await ask(connect())


@pytest.mark.parametrize("ask", BOTH_WAYS)
async def test_an_endpoint_that_is_not_there_can_be_asked_again(
    ask: Callable[[OpenAIModel], Awaitable[Reply]],
) -> None:
    model = OpenAIModel(Model("openai/qwen3", base_url="http://127.0.0.1:9/v1"))
    with pytest.raises(ModelUnavailable, match=r"127\.0\.0\.1:9.*server running"):
        await ask(model)
    await model.aclose()


async def test_the_time_limit_holds_for_the_whole_call_though_bytes_keep_coming(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel]
) -> None:
    endpoint.answer_stream(*[delta(content="x")] * 100, pause=0.05)
    for ask in BOTH_WAYS:
        with pytest.raises(ModelTimedOut, match=r"0\.2 s"):
            await ask(connect(timeout=0.2))


async def test_a_slow_listener_does_not_use_up_the_time_limit(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel]
) -> None:
    endpoint.answer_stream(*CHUNKS)
    model = connect(timeout=0.5)
    async for _ in model.stream(REQUEST):
        await asyncio.sleep(0.15)


async def test_text_that_no_wire_can_carry_is_a_rejected_request(
    connect: Callable[..., OpenAIModel],
) -> None:
    request = Request(messages=({"role": "user", "content": "\ud800"},))
    with pytest.raises(RequestRejected, match="Unicode"):
        await connect().complete(request)


async def test_cancelling_a_call_is_not_taken_for_a_failure(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel]
) -> None:
    endpoint.answer_stream(*CHUNKS, pause=5.0)
    for ask in BOTH_WAYS:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ask(connect()), 0.2)


async def test_leaving_a_stream_early_lets_go_of_it_and_the_next_call_works(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel]
) -> None:
    endpoint.answer_stream(*[delta(content="x")] * 200, pause=0.01)
    endpoint.answer_json(ANSWER)
    model = connect()
    parts = model.stream(REQUEST)
    assert await anext(parts) == TextPart("x")
    await parts.aclose()
    await asyncio.wait_for(endpoint.left.wait(), 1.0)
    assert await model.complete(REQUEST) == REPLY


async def test_a_closed_model_opens_again_when_asked(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel]
) -> None:
    endpoint.answer_json(ANSWER)
    model = connect()
    await model.complete(REQUEST)
    await model.aclose()
    await model.aclose()
    assert await model.complete(REQUEST) == REPLY


async def test_calls_at_once_share_one_client(
    endpoint: Endpoint, connect: Callable[..., OpenAIModel]
) -> None:
    endpoint.answer_json(ANSWER)
    model = connect()
    replies = await asyncio.gather(*(model.complete(REQUEST) for _ in range(8)))
    assert replies == [REPLY] * 8
