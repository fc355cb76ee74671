"""Any OpenAI-compatible endpoint as a model: OpenAI itself, vLLM, llama.cpp, Ollama, LM Studio,
gateways.

The `openai` package is imported at the first call (half a second). Requests go through its
low-level `post`, because `chat.completions.create` walks every message on every call; answers are
read as plain JSON, because endpoints send fields and shapes that its types do not know.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from pydantic_core import PydanticSerializationError, to_json

from pagedaemon.clock import Clock, SystemClock
from pagedaemon.config import Model
from pagedaemon.errors import (
    AuthenticationFailed,
    BadReply,
    ConfigError,
    ModelError,
    ModelTimedOut,
    ModelUnavailable,
    RequestRejected,
)
from pagedaemon.llm.assembly import Assembly, read, replay
from pagedaemon.llm.failures import Complaint, failure, waiting_time
from pagedaemon.llm.protocol import PREFIX, Part, Reply, Request

if TYPE_CHECKING:
    import openai

T = TypeVar("T")

HOSTED = "https://api.openai.com/v1"
"""The endpoint where nothing else is said."""

_HOSTED_HOST = "api.openai.com"
_NO_KEY = "none"
"""Sent to an endpoint that was given without a key: local servers ask for none, the client does."""

_PATH = "/chat/completions"
_OWN_FIELDS = ("model", "messages", "tools", "stream")
_LIMITS = ("max_tokens", "max_completion_tokens")


class OpenAIModel:
    """A model behind an OpenAI-compatible endpoint. One call is one request: it never tries again.

    Without `base_url` it is OpenAI's own, or what the variable OPENAI_BASE_URL names, with the key
    of OPENAI_API_KEY. With a `base_url` of another host only a key given with it is sent there.

    Args:
        model: name with the prefix `openai/`, endpoint, key and settings.
        clock: dates in `Retry-After` are measured against it. None: the machine's.

    Raises:
        ConfigError: the name has no such prefix, `base_url` is no URL, or `extra` is no JSON or
            would replace a field that is made here (model, messages, tools, stream).
    """

    def __init__(self, model: Model, clock: Clock | None = None) -> None:
        self._model = model
        self._clock = clock if clock is not None else SystemClock()
        self._name = model.name.removeprefix(PREFIX)
        if not model.name.startswith(PREFIX) or not self._name:
            raise ConfigError(f"{model.name!r} is no name of the form 'openai/<model>'")
        self._url = model.base_url or os.environ.get("OPENAI_BASE_URL") or HOSTED
        host, port = _host(self._url)
        self._where = f"{model.name} at {host}{port}"
        self._hosted = model.base_url is None or f".{host}".endswith(f".{_HOSTED_HOST}")
        check_extra(model.extra)
        self._secret = ""
        self._client: openai.AsyncOpenAI | None = None
        self._opening = asyncio.Lock()

    async def complete(self, request: Request) -> Reply:
        """The whole reply.

        Raises:
            ModelUnavailable: 5xx, 409, connection lost, an answer that breaks off; `ModelTimedOut`
                where that is the reason (`Model.timeout`, for the whole call; 408, 504).
            RateLimited: 429, with the seconds to wait where the provider names them.
            RequestRejected: 400, 404, 422 and other refusals; `ContextTooLong` where that is the
                reason.
            AuthenticationFailed: no key, or 401, 403.
            QuotaExceeded: 402, or 429 for a spent budget.
            BadReply: the answer is no chat completion.
        """
        client = await self._connected()
        asking = client.post(_PATH, cast_to=object, content=json_body(self._body(request)))
        data, _ = await self._within(self._model.timeout, asking)
        return self._whole(data)

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """The same reply in parts; the last part is the `Reply`.

        The time limit counts waiting for the endpoint only, not what the listener does meanwhile.

        Raises:
            ModelError: as `complete`; `ModelUnavailable` also where the stream ends without a
                finish and without `[DONE]`, or in the middle of a call.
        """
        client = await self._connected()
        from openai import AsyncStream

        asking = client.post(
            _PATH,
            cast_to=object,
            content=json_body(self._body(request, stream=True)),
            stream=True,
            stream_cls=AsyncStream[object],
        )
        chunks, left = await self._within(self._model.timeout, asking)
        farewell = Farewell(chunks)
        try:
            if "json" in chunks.response.headers.get("content-type", ""):
                # It ignored the wish for a stream, or reports an error under status 200.
                body, _ = await self._within(left, chunks.response.aread())
                for part in replay(self._whole(body)):
                    yield part
                return
            assembly = Assembly()
            while True:
                chunk, left = await self._within(left, anext(chunks, None), piecewise=True)
                if chunk is None:
                    break
                for part in assembly.add(chunk):
                    yield part
            if farewell.said:
                for part in assembly.done():
                    yield part
            yield assembly.reply()
        finally:
            await chunks.close()

    async def aclose(self) -> None:
        """Let go of connections. A later call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _body(self, request: Request, *, stream: bool = False) -> dict[str, Any]:
        limit = "max_completion_tokens" if self._hosted else "max_tokens"
        body: dict[str, Any] = {"model": self._name, "messages": list(request.messages)}
        if request.tools:
            body |= {"tools": list(request.tools), "tool_choice": "auto"}
        if not any(name in self._model.extra for name in _LIMITS):
            body[limit] = request.max_output_tokens or self._model.max_output_tokens
        if self._model.temperature is not None:
            body["temperature"] = self._model.temperature
        if request.response_format is not None:
            body["response_format"] = dict(request.response_format)
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body | self._model.extra

    def _whole(self, data: object) -> Reply:
        """The reply in an unstreamed answer, which some servers send as text and some errors as
        200."""
        if isinstance(data, str | bytes):
            body = data
            try:
                data = json.loads(body)
            except ValueError:
                if _begun(body):
                    raise ModelUnavailable(f"{self._where}: the answer breaks off") from None
                raise BadReply(f"{self._where}: the answer is not JSON") from None
        if isinstance(data, dict) and data.get("error"):
            raise self._failure(Complaint.of(data))
        return read(data)

    async def _connected(self) -> openai.AsyncOpenAI:
        """The client, opened in a thread: importing it and reading certificates would hold up the
        loop."""
        async with self._opening:
            if self._client is None:
                self._secret = self._key()
                self._client = await asyncio.to_thread(self._open, self._secret or _NO_KEY)
            return self._client

    def _open(self, key: str) -> openai.AsyncOpenAI:
        from openai import AsyncOpenAI

        client = AsyncOpenAI(
            api_key=key, base_url=self._url, timeout=self._model.timeout, max_retries=0
        )
        if not self._hosted:
            # Read from OpenAI's variables; another company's endpoint has no business with them.
            client.organization = client.project = None
        return client

    def _key(self) -> str:
        """The key to send; empty where the endpoint was given without one."""
        given = self._model.api_key
        key = given.get_secret_value() if given is not None else ""
        if not key and self._hosted:
            key = os.environ.get("OPENAI_API_KEY", "")
        key = key.strip()
        if not key and self._hosted:
            raise AuthenticationFailed(
                f"{self._where}: there is no key. Set the variable OPENAI_API_KEY, pass `api_key`, "
                "or name a local server with `base_url`"
            )
        if not key.isascii() or not key.isprintable():
            raise AuthenticationFailed(
                f"{self._where}: the key holds characters that no key has. Copy it again"
            )
        return key

    async def _within(
        self, left: float, waiting: Awaitable[T], *, piecewise: bool = False
    ) -> tuple[T, float]:
        """What is waited for, in that many seconds at most, and the seconds that remain."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        with self._typed_failures(piecewise=piecewise):
            async with asyncio.timeout(left):
                result = await waiting
        return result, left - (loop.time() - began)

    @contextmanager
    def _typed_failures(self, *, piecewise: bool) -> Iterator[None]:
        """Raise what the client raises as this package's errors.

        The originals are not chained: they hold the whole request, and a provider may have quoted
        the key in them.

        Args:
            piecewise: the answer comes as events, of which one that is unreadable was garbled on
                its way; a whole answer may never have been meant to be JSON.
        """
        import httpx2
        import openai

        try:
            yield
        except TimeoutError:
            raise self._timed_out() from None
        except openai.APIStatusError as error:
            wait = waiting_time(error.response.headers, self._clock.now())
            raise self._failure(Complaint.of(error.body, error.status_code), wait) from None
        except (openai.APITimeoutError, httpx2.TimeoutException):
            raise self._timed_out() from None
        except (openai.APIConnectionError, httpx2.HTTPError) as error:
            reason = str(error.__cause__ or error) or type(error.__cause__ or error).__name__
            raise ModelUnavailable(
                self._clean(f"{self._where}: no connection: {reason}. Is the server running?")
            ) from None
        except openai.APIError as error:
            raise self._failure(Complaint.of(error.body or error.message)) from None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            told = f"{self._where}: the answer cannot be read: {error}"
            if isinstance(error, json.JSONDecodeError) and not piecewise and not _begun(error.doc):
                raise BadReply(told) from None
            raise ModelUnavailable(told) from None

    def _timed_out(self) -> ModelTimedOut:
        return ModelTimedOut(f"{self._where}: no whole answer in {self._model.timeout:g} s")

    def _failure(self, complaint: Complaint, retry_after: float | None = None) -> ModelError:
        cleaned = Complaint(complaint.status, complaint.words, self._clean(complaint.message))
        return failure(cleaned, self._where, retry_after)

    def _clean(self, text: str) -> str:
        return text.replace(self._secret, "[key]") if self._secret else text


class Farewell:
    """Notes whether a stream ended with `[DONE]`, which the client keeps to itself.

    Args:
        stream: of the `openai` package, not begun yet. Of any other kind it notes nothing.
    """

    def __init__(self, stream: Any) -> None:
        self.said = False
        """Whether it has."""
        events = getattr(stream, "_iter_events", None)
        if events is not None:
            stream._iter_events = lambda: self._noting(events())

    async def _noting(self, events: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
        async for event in events:
            if event.data.startswith("[DONE]"):
                self.said = True
            yield event


def json_body(body: Any) -> bytes:
    """A body as it is sent. The client's own encoder takes five times as long over a long talk.

    Raises:
        RequestRejected: text that no encoding can carry.
    """
    try:
        return to_json(body)
    except PydanticSerializationError:
        raise RequestRejected("the request holds text that is not valid Unicode") from None


def _begun(body: str | bytes) -> bool:
    """Whether what is no JSON began as an object or a list: it was cut off or garbled on its way,
    and may come whole another time."""
    start = body.lstrip()[:1]
    return start in ("{", "[") if isinstance(start, str) else start in (b"{", b"[")


def _host(url: str) -> tuple[str, str]:
    """Host of an endpoint, and its port as `:8000` or nothing.

    Raises:
        ConfigError: it is no http(s) URL.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"base_url {url!r} is no http(s) URL: give one such as http://localhost:8000/v1"
        )
    return parts.hostname, "" if port is None else f":{port}"


def check_extra(extra: dict[str, Any]) -> None:
    """Make sure that fields of the user's own can be sent.

    Raises:
        ConfigError: they are no JSON, or would replace a field that is made here.
    """
    taken = [name for name in _OWN_FIELDS if name in extra]
    if taken:
        raise ConfigError(f"`extra` may not replace {', '.join(taken)}: they are made per request")
    try:
        json.dumps(extra, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"`extra` cannot be written as JSON: {error}") from error
