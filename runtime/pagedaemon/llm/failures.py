"""Turns what an endpoint or the line to it says went wrong into this package's errors.

Providers agree on status codes and on little else, so both the code and the words are looked at.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

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

CONTEXT_CODES = frozenset(
    {"context_length_exceeded", "exceed_context_size_error", "context_window_exceeded"}
)
"""Error codes and types that say the request is longer than the window (OpenAI, llama.cpp)."""

CONTEXT_PHRASES = (
    "maximum context length",  # OpenAI, vLLM, SGLang, Mistral, DeepSeek
    "context_length_exceeded",
    "input tokens exceed the configured limit",  # OpenAI, newer models
    "longer than the maximum model length",  # vLLM
    "longer than the model's context length",  # SGLang
    "exceeds the available context size",  # llama.cpp server
    "exceed context window",  # llama-cpp-python
    "exceeds the context window",
    "context size has been exceeded",  # LM Studio, MLX
    "when context the overflows",  # LM Studio, llama.cpp; the word order is theirs
    "is greater than the context length",  # LM Studio
    "exceeds the context length",  # Ollama
    "exceeded max context length",  # Ollama
    "maximum number of tokens allowed",  # Gemini's compatible endpoint
    "maximum prompt length",  # xAI
    "prompt is too long",  # Anthropic's compatible endpoint
    "input is too long for requested model",  # gateways before Bedrock
    "`inputs` tokens + `max_new_tokens` must be",  # text-generation-inference
    "reduce the length of the messages",  # Groq, and older OpenAI models
)
"""What servers write, in lower case, when a request is longer than the window."""

QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
"""Codes of OpenAI for a spent budget; they come with 429, and waiting does not help."""

_RATE_CODES = frozenset({"rate_limit_exceeded", "rate_limit_error", "too_many_requests"})
_KEY_CODES = frozenset({"invalid_api_key", "authentication_error", "permission_error"})
_REQUEST_CODES = frozenset({"invalid_request_error", "badrequesterror", "bad_request"})
_TIMED_OUT = frozenset({408, 504, 524})
"""The call took too long: for the server, for a gateway before it, for Cloudflare."""

_LATER = frozenset({409, 425})
"""Below 500, and yet worth another try."""

_LONGEST = 2_000
"""Characters of a provider's message that are kept; some answer with a whole web page."""


@dataclass(frozen=True, slots=True)
class Complaint:
    """An error body, read out of whichever shape the endpoint uses."""

    status: int | None
    """HTTP status; of an error inside a 200 the number it gives itself, if any."""
    words: frozenset[str]
    """Its code and type, in lower case."""
    message: str

    @classmethod
    def of(cls, body: object, status: int | None = None) -> Complaint:
        """Read a body: `{"error": {…}}`, its inside, `{"error": "…"}`, `{"detail": …}`, or text."""
        if isinstance(body, list) and len(body) == 1:  # Gemini's compatible endpoint
            body = body[0]
        if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping | str):
            body = body["error"]
        if not isinstance(body, Mapping):
            return cls(status, frozenset(), _tidy(body))
        named = [body.get("code"), body.get("type"), body.get("status")]
        numbers = [int(text) for text in map(str, named) if text.isascii() and text.isdigit()]
        words = frozenset(name.lower() for name in named if isinstance(name, str))
        message = next(
            (body[key] for key in ("message", "detail", "error_description") if body.get(key)), body
        )
        metadata = body.get("metadata")
        if isinstance(metadata, Mapping) and metadata.get("raw"):  # OpenRouter: the real reason
            message = f"{_tidy(message)}: {_tidy(metadata['raw'])}"
        own = next((number for number in numbers if 400 <= number < 600), None)
        return cls(status if status is not None else own, words, _tidy(message))

    @property
    def about_context(self) -> bool:
        """Whether the request was longer than the model's window."""
        said = self.message.lower()
        return bool(self.words & CONTEXT_CODES) or any(it in said for it in CONTEXT_PHRASES)


def failure(complaint: Complaint, where: str, retry_after: float | None = None) -> ModelError:
    """The error for what the endpoint complained of.

    Args:
        complaint: what it said.
        where: the model and its host, to begin the message with.
        retry_after: seconds it asked to wait, where it did.
    """
    status, words = complaint.status, complaint.words
    number = f" (HTTP {status})" if status is not None else ""
    text = f"{where}: {complaint.message}{number}"
    if status == 402 or (status in (429, None) and words & QUOTA_CODES):
        return QuotaExceeded(f"{text}. The account's budget is spent: top it up or use another key")
    if status == 429 or (status is None and words & _RATE_CODES):
        return RateLimited(text, retry_after=retry_after)
    if status in (401, 403) or (status is None and words & _KEY_CODES):
        return AuthenticationFailed(
            f"{text}. Check the key (`api_key`, or the provider's variable, such as "
            "OPENAI_API_KEY), and that it may use this model"
        )
    if complaint.about_context:
        return ContextTooLong(f"{text}. Set `context_window` to what the endpoint really offers")
    if status is None:
        return RequestRejected(text) if words & _REQUEST_CODES else ModelUnavailable(text)
    if status in _TIMED_OUT:
        return ModelTimedOut(text)
    if status >= 500 or status in _LATER:
        return ModelUnavailable(text)
    if status == 404:
        return RequestRejected(f"{text}. Check the model's name and `base_url`", status=status)
    return RequestRejected(text, status=status)


def waiting_time(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds a response asks to wait (`Retry-After` in seconds or as a date, or in milliseconds).

    None where it does not ask, or not readably. RFC 9110, section 10.2.3.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    date = headers.get("retry-after")
    if date is None:
        return None
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


def _tidy(message: object) -> str:
    text = message if isinstance(message, str) else json.dumps(message, default=str)
    text = " ".join(text.split())
    if not text:
        return "no reason given"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
