"""What providers complain of becomes the error that says who must act."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pagedaemon.errors import (
    AuthenticationFailed,
    ContextTooLong,
    ModelError,
    ModelTimedOut,
    ModelUnavailable,
    QuotaExceeded,
    RateLimited,
    RequestRejected,
)
from pagedaemon.llm.failures import Complaint, failure, waiting_time

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


def typed(body: object, status: int | None = None) -> ModelError:
    """The error for that body."""
    return failure(Complaint.of(body, status), "openai/m at host")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, RequestRejected),
        (401, AuthenticationFailed),
        (402, QuotaExceeded),
        (403, AuthenticationFailed),
        (404, RequestRejected),
        (405, RequestRejected),
        (408, ModelTimedOut),
        (409, ModelUnavailable),
        (413, RequestRejected),
        (422, RequestRejected),
        (425, ModelUnavailable),
        (429, RateLimited),
        (500, ModelUnavailable),
        (502, ModelUnavailable),
        (503, ModelUnavailable),
        (504, ModelTimedOut),
        (524, ModelTimedOut),
        (529, ModelUnavailable),
    ],
)
def test_a_status_has_its_error(status: int, kind: type[ModelError]) -> None:
    error = typed({"message": "Sorry."}, status)
    assert type(error) is kind
    assert str(error).startswith("openai/m at host: Sorry.")
    assert f"HTTP {status}" in str(error)


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 128000 tokens. However, your messages resulted in "
        "140000 tokens.",
        "Input tokens exceed the configured limit of 272000 tokens.",
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        "the request exceeds the available context size. try increasing the context size",
        "Trying to keep the first 10136 tokens when context the overflows. However, the model is "
        "loaded with context length of only 7866 tokens",
        "The number of tokens to keep from the initial prompt is greater than the context length.",
        "Context size has been exceeded.",
        "the input length exceeds the context length",
        "prompt too long; exceeded max context length by 12 tokens",
        "Requested tokens (2100) exceed context window of 2048",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
    ],
)
@pytest.mark.parametrize("status", [400, 422, 500, None])
def test_a_request_longer_than_the_window_is_known_by_the_usual_words(
    message: str, status: int | None
) -> None:
    assert type(typed({"error": {"message": message}}, status)) is ContextTooLong


@pytest.mark.parametrize(
    "error",
    [
        {"message": "Too long.", "code": "context_length_exceeded"},
        {"message": "Too long.", "type": "exceed_context_size_error", "code": 400},
    ],
)
def test_a_request_longer_than_the_window_is_known_by_its_code(error: dict[str, object]) -> None:
    assert type(typed({"error": error}, 400)) is ContextTooLong


@pytest.mark.parametrize(
    "message", ["max_tokens is too large", "context is required", "Rate limit on tokens per min"]
)
def test_other_refusals_are_not_taken_for_a_long_request(message: str) -> None:
    assert type(typed({"message": message}, 400)) is RequestRejected


def test_words_about_the_window_do_not_hide_a_rate_limit() -> None:
    assert type(typed({"message": "reduce the length of the messages"}, 429)) is RateLimited


@pytest.mark.parametrize("field", ["code", "type"])
def test_a_spent_budget_is_not_a_rate_limit(field: str) -> None:
    body = {"error": {"message": "You exceeded your quota.", field: "insufficient_quota"}}
    assert type(typed(body, 429)) is QuotaExceeded
    assert not isinstance(typed(body, 429), ModelUnavailable)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "Plain."}}, "Plain."),
        ({"error": "Ollama says no."}, "Ollama says no."),
        ({"detail": "FastAPI says no."}, "FastAPI says no."),
        ([{"error": {"message": "In a list.", "status": "INVALID_ARGUMENT"}}], "In a list."),
        ({"message": "At the top."}, "At the top."),
        ("<html>\n  <h1>Bad\tGateway</h1>", "<html> <h1>Bad Gateway</h1>"),
        ("", "no reason given"),
        (None, "null"),
        (
            {"error": {"message": "Provider returned error", "metadata": {"raw": "Too hot."}}},
            "Provider returned error: Too hot.",
        ),
        ({"error": {"weird": 1}}, '{"weird": 1}'),
    ],
)
def test_the_message_is_found_in_every_usual_shape(body: object, message: str) -> None:
    assert Complaint.of(body, 400).message == message


def test_a_web_page_is_cut() -> None:
    assert len(Complaint.of("x" * 100_000, 502).message) < 2_100


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "Upstream died.", "code": 502}, ModelUnavailable),
        ({"message": "Slow down.", "code": "429"}, RateLimited),
        ({"message": "Slow down.", "code": "rate_limit_exceeded"}, RateLimited),
        ({"message": "No.", "type": "invalid_request_error"}, RequestRejected),
        ({"message": "No.", "type": "BadRequestError", "code": 400}, RequestRejected),
        ({"message": "Who?", "code": "invalid_api_key"}, AuthenticationFailed),
        ({"message": "Paid?", "code": "insufficient_quota"}, QuotaExceeded),
        ({"message": "Oops."}, ModelUnavailable),
    ],
)
def test_an_error_without_a_status_is_judged_by_its_own_code(
    error: dict[str, object], kind: type[ModelError]
) -> None:
    assert type(typed({"error": error})) is kind


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "Mon, 30 Nov 2026 12:00:09 GMT"}, 9.0),
        ({"retry-after": "Mon, 30 Nov 2026 12:00:09 -0000"}, 9.0),
        ({"retry-after": "Mon, 30 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_the_time_to_wait_is_read_as_seconds_or_as_a_date(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert waiting_time(headers, NOW) == seconds
