"""Every other provider as a model, through litellm: Anthropic, Gemini, Bedrock, Mistral, Ollama …

Importing litellm takes 5 to 10 s and 190 MB, so that is done at the first call, in a thread. It
takes and gives the OpenAI shapes; what it gives is read by the same `llm.assembly` as an endpoint's
own answer. Its retries, its token counter, its loggers and its look for a newer price list are off.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import logging
import os
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any, TypeVar

from pydantic_core import from_json

from pagedaemon.clock import Clock, SystemClock
from pagedaemon.config import Model
from pagedaemon.errors import (
    BadReply,
    ConfigError,
    ContextTooLong,
    MissingDependency,
    ModelError,
    ModelTimedOut,
    ModelUnavailable,
)
from pagedaemon.llm.assembly import Assembly, read, replay
from pagedaemon.llm.failures import Complaint, failure, waiting_time
from pagedaemon.llm.openai import Farewell, check_extra, json_body
from pagedaemon.llm.protocol import Part, Reply, Request

T = TypeVar("T")

PREFIX = "litellm/"
"""May stand before a name, to reach by litellm what would be reached another way."""

POISONED = ("1.82.7", "1.82.8")
"""Releases that carried code which steals credentials (March 2026)."""

_NO_KEY = "none"
"""Sent to an endpoint that was given without a key: the keys in the environment are for others."""

_SIGNATURE = "__thought__"
"""Behind this litellm repeats a call's signature in its id; it stands in the call's fields too."""

_FINISHES = (
    "received_finish_reason",
    "intermittent_finish_reason",
    "received_any_finish_reason",
)
"""Where a stream of litellm notes that the provider ended it, by provider."""

_MOCK = "mock_response"
"""An argument with which litellm answers by itself; such a stream notes no end."""

_STREAMS = "litellm_module_level_client"
"""Under this name litellm keeps its client, one for each event loop."""

_ADVICE = "This looks like a bug in LiteLLM"
"""Behind this stands only where to report it."""

_THINKING = "thinking_blocks"
_FIELDS = "provider_specific_fields"


class LiteLLMModel:
    """A model of any provider that litellm knows. One call is one request: it never tries again.

    The key is the one given, or the provider's variable, such as ANTHROPIC_API_KEY. With a
    `base_url` only a key given with it is sent there.

    Args:
        model: name as litellm writes it (`anthropic/claude-sonnet-4-5`), with `litellm/` before it
            or not; endpoint, key and settings. `extra` are further arguments of `acompletion`.
        clock: dates in `Retry-After` are measured against it. None: the machine's.

    Raises:
        MissingDependency: litellm is not installed.
        ConfigError: the installed release is one of `POISONED`, or `extra` is no JSON or would
            replace a field that is made here (model, messages, tools, stream).
    """

    def __init__(self, model: Model, clock: Clock | None = None) -> None:
        self._model = model
        self._clock = clock if clock is not None else SystemClock()
        self._name = model.name.removeprefix(PREFIX)
        self._where = self._name if model.base_url is None else f"{self._name} at {model.base_url}"
        given = model.api_key
        self._key = "" if given is None else given.get_secret_value().strip()
        refuse_poisoned()
        check_extra(model.extra)
        self._opening = asyncio.Lock()
        self._litellm: ModuleType | None = None

    async def complete(self, request: Request) -> Reply:
        """The whole reply.

        Raises:
            ModelError: the kinds of `llm.openai.OpenAIModel.complete`.
        """
        litellm = await self._loaded()
        asking = litellm.acompletion(**self._arguments(request))
        answer, _ = await self._within(litellm, self._model.timeout, asking)
        return _charged(_tidied(read(_plain(answer))), answer)

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """The same reply in parts; the last part is the `Reply`.

        The time limit counts waiting for the provider only, not what the listener does meanwhile.

        Raises:
            ModelError: as `complete`; `ModelUnavailable` also where the stream ends without a
                finish and without `[DONE]`, or in the middle of a call.
        """
        litellm = await self._loaded()
        asking = litellm.acompletion(**self._arguments(request, stream=True))
        chunks, left = await self._within(litellm, self._model.timeout, asking)
        if not hasattr(chunks, "__aiter__"):
            for part in replay(_tidied(read(_plain(chunks)))):
                yield part
            return
        assembly = Assembly()
        farewell = Farewell(getattr(chunks, "completion_stream", None))
        try:
            while True:
                chunk, left = await self._within(litellm, left, anext(chunks, None))
                if chunk is None:
                    break
                for part in assembly.add(_plain(chunk)):
                    yield part
            ended = farewell.said or _MOCK in self._model.extra
            if not _finished(chunks) and not (ended and assembly.settled):
                raise ModelUnavailable(f"{self._where}: the stream ended before the reply did")
            yield _tidied(assembly.reply())
        finally:
            await chunks.aclose()

    async def aclose(self) -> None:
        """Let go of connections. litellm keeps them for the process: they are closed with the last
        model that uses it."""
        litellm, self._litellm = self._litellm, None
        if litellm is not None and _users.leave():
            await _close_connections(litellm)

    def _arguments(self, request: Request, *, stream: bool = False) -> dict[str, Any]:
        model = self._model
        # litellm changes what it is given, and these are shared.
        messages, tools, form, extra = from_json(
            json_body([request.messages, request.tools, request.response_format, model.extra])
        )
        arguments: dict[str, Any] = {
            "model": self._name,
            "messages": messages,
            "max_tokens": request.max_output_tokens or model.max_output_tokens,
            "timeout": model.timeout,
            "num_retries": 0,
            "max_retries": 0,
            "no-log": True,
        }
        if tools:
            arguments |= {"tools": tools, "tool_choice": "auto"}
        if model.temperature is not None:
            arguments["temperature"] = model.temperature
        if form is not None:
            arguments["response_format"] = form
        if model.base_url is not None:
            arguments["api_base"] = model.base_url
        if self._key or model.base_url is not None:
            arguments["api_key"] = self._key or _NO_KEY
        if stream:
            arguments |= {"stream": True, "stream_options": {"include_usage": True}}
        return {**arguments, **extra}

    async def _loaded(self) -> ModuleType:
        async with self._opening:
            if self._litellm is None:
                self._litellm = await asyncio.to_thread(load)
                _users.join()
            return self._litellm

    async def _within(
        self, litellm: ModuleType, left: float, waiting: Awaitable[T]
    ) -> tuple[T, float]:
        """What is waited for, in that many seconds at most, and the seconds that remain."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        with self._typed_failures(litellm):
            async with asyncio.timeout(left):
                result = await waiting
        return result, left - (loop.time() - began)

    @contextmanager
    def _typed_failures(self, litellm: ModuleType) -> Iterator[None]:
        """Raise what litellm raises as this package's errors; the originals, which hold the whole
        request, are not chained."""
        import httpx
        import openai

        try:
            yield
        except (TimeoutError, openai.APITimeoutError, httpx.TimeoutException):
            raise ModelTimedOut(
                f"{self._where}: no whole answer in {self._model.timeout:g} s. Raise "
                "`Model.timeout`, or ask for less"
            ) from None
        except litellm.exceptions.ContextWindowExceededError as error:
            raise ContextTooLong(
                self._clean(
                    f"{self._where}: {_message(error)}. Set `context_window` to what the provider "
                    "really offers"
                )
            ) from None
        except openai.APIConnectionError as error:
            raise ModelUnavailable(self._clean(f"{self._where}: {_message(error)}")) from None
        except openai.OpenAIError as error:
            raise self._failure(error) from None
        except httpx.HTTPError as error:
            raise ModelUnavailable(self._clean(f"{self._where}: no connection: {error}")) from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # Its adapters read answers without checking them.
            told = f"{self._where}: the answer cannot be read: {type(error).__name__}: {error}"
            raise BadReply(self._clean(told)) from None

    def _failure(self, error: Exception) -> ModelError:
        status = getattr(error, "status_code", None)
        body = _body(_message(error))
        said = Complaint.of(body, int(status) if status is not None else None)
        said = replace(said, message=self._clean(said.message))
        return failure(said, self._where, waiting_time(_headers(error), self._clock.now()))

    def _clean(self, text: str) -> str:
        """The text without the key, which some providers quote."""
        return text.replace(self._key, "[key]") if self._key else text


class _Users:
    """How many models use litellm's connections, which belong to the process."""

    def __init__(self) -> None:
        self._count = 0
        self._lock = threading.Lock()

    def join(self) -> None:
        """One more."""
        with self._lock:
            self._count += 1

    def leave(self) -> bool:
        """One less; whether that was the last."""
        with self._lock:
            self._count -= 1
            return self._count == 0


_users = _Users()
_loading = threading.Lock()


def refuse_poisoned() -> None:
    """Look at litellm's release without importing it.

    Raises:
        MissingDependency: it is not installed.
        ConfigError: it is one of `POISONED`.
    """
    try:
        version = importlib.metadata.version("litellm")
    except importlib.metadata.PackageNotFoundError:
        raise MissingDependency("this model is reached by litellm: pip install litellm") from None
    if version in POISONED:
        raise ConfigError(
            f"litellm {version} was published by thieves and steals credentials: remove it, "
            "install a release of 1.108 or later, and renew the keys this machine holds"
        )


def load() -> ModuleType:
    """litellm, imported and kept quiet: no network at import, nothing counted, printed or logged.

    A program that had imported it before keeps its own settings, but for the token counter, which
    may look for files on the network.

    Raises:
        MissingDependency, ConfigError: as `refuse_poisoned`.
    """
    refuse_poisoned()
    with _loading:
        first = "litellm" not in sys.modules
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
        import litellm

        # Usage that nobody reported is estimated by whoever asked.
        litellm.disable_token_counter = True
        litellm.disable_hf_tokenizer_download = True
        vars(litellm)["module_level_aclient"] = _LoopClient()
        if first:
            from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER

            # A task in the event loop of whoever asks first, which outlives it.
            vars(GLOBAL_LOGGING_WORKER)["ensure_initialized_and_enqueue"] = _discard
            litellm.suppress_debug_info = True
            litellm.turn_off_message_logging = True
            # A second HTTP client, which is slower to import and warns where it is not closed.
            litellm.disable_aiohttp_transport = True
            logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
        return litellm


def _discard(async_coroutine: Coroutine[Any, Any, None]) -> None:
    """What is to be logged is dropped."""
    async_coroutine.close()


class _LoopClient:
    """In place of the one client that litellm streams with in all threads: that of the running
    event loop. A client that met another loop fails there, as after a runtime was opened anew."""

    def __getattr__(self, name: str) -> Any:
        from litellm.llms.custom_httpx.http_handler import get_async_httpx_client

        return getattr(get_async_httpx_client(llm_provider=_STREAMS), name)


async def _close_connections(litellm: ModuleType) -> None:
    from litellm.llms.custom_httpx.async_client_cleanup import close_litellm_async_clients

    close: Callable[[], Awaitable[None]] = close_litellm_async_clients
    await close()
    litellm.in_memory_llm_clients_cache.flush_cache()
    await asyncio.sleep(0)  # in which the sockets close


def _finished(chunks: object) -> bool:
    """Whether the provider ended a stream: litellm itself calls every stream that ends finished."""
    return any(getattr(chunks, name, "unknown") for name in _FINISHES)


def _plain(answer: Any) -> Any:
    """An answer or chunk as plain JSON."""
    return answer.model_dump(exclude_none=True)


def _tidied(reply: Reply) -> Reply:
    """The reply without what litellm adds to it: copies of signatures and of thinking, and places
    in a stream. What the provider signed is left to the byte."""
    calls = tuple(replace(call, id=call.id.partition(_SIGNATURE)[0]) for call in reply.calls)
    opaque = {name: value for name, value in reply.opaque.items() if value not in ([], {}, None)}
    own = opaque.get(_FIELDS)
    if isinstance(own, Mapping):
        own = {
            name: value
            for name, value in own.items()
            if value is not None and not (name == _THINKING and _THINKING in opaque)
        }
        opaque = {**opaque, _FIELDS: own} if own else _without(opaque, _FIELDS)
    blocks = opaque.get(_THINKING)
    if isinstance(blocks, list):
        signed = [_without(block, "index") for block in blocks if _is_signed(block)]
        opaque = {**opaque, _THINKING: signed} if signed else _without(opaque, _THINKING)
    return replace(reply, calls=calls, opaque=opaque)


def _charged(reply: Reply, answer: object) -> Reply:
    """The reply with the cost that litellm works out beside a whole answer; in a stream it stands
    in the usage."""
    cost = getattr(answer, "_hidden_params", {}).get("response_cost")
    if reply.usage is None or not isinstance(cost, int | float):
        return reply
    return replace(reply, usage=replace(reply.usage, cost=float(cost)))


def _is_signed(block: Mapping[str, Any]) -> bool:
    """Whether the provider wants it back: thoughts without a signature are plain reasoning."""
    return block.get("type") != "thinking" or bool(block.get("signature"))


def _without(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != name}


def _message(error: Exception) -> str:
    told = str(getattr(error, "message", None) or error)
    return Complaint.of(told.partition(_ADVICE)[0]).message


def _body(message: str) -> object:
    """The provider's own error object, which litellm quotes behind names of its own."""
    start = message.find("{")
    try:
        body, _ = json.JSONDecoder().raw_decode(message, start) if start >= 0 else (message, 0)
    except ValueError:
        return message
    return body if isinstance(body, dict) and body.get("error") else message


def _headers(error: Exception) -> Mapping[str, str]:
    own = getattr(error, "litellm_response_headers", None)
    found = own or getattr(getattr(error, "response", None), "headers", None) or {}
    return {str(name).lower(): str(value) for name, value in found.items()}
