"""A model that says what it is told to: the double of the seam `llm.protocol.ChatModel`."""

from __future__ import annotations

import copy
import inspect
import json
import random
from collections import deque
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from itertools import islice
from typing import Any, NoReturn, TypeAlias

from pagedaemon.errors import ContextTooLong, InvalidInput, ModelError
from pagedaemon.llm.protocol import CallPart, Part, RawCall, ReasoningPart, Reply, Request, TextPart
from pagedaemon.llm.tokens import without_images
from pagedaemon.messages import Usage
from pagedaemon.testing.replies import NUMBERED, Cut, cut, text
from pagedaemon.testing.validators import PROVIDERS, Provider, check_request

Answer: TypeAlias = Reply | str | Cut | ModelError
"""What a script holds: a reply, plain text as one, a reply that breaks off, an error to raise."""

Script: TypeAlias = Callable[[Request], Answer | Awaitable[Answer]]
"""A model as a function of the request alone."""


class ScriptExhausted(AssertionError):
    """A scripted model was asked more often than it has replies.

    It fails the test, and is no `ModelError`: the code under test should not handle it.

    Attributes:
        asked: how many requests there were, this one included.
        replies: how many replies the script had.
    """

    def __init__(self, asked: int, replies: int) -> None:
        super().__init__(f"the model was asked {asked} times and its script has {replies} replies")
        self.asked = asked
        self.replies = replies


def estimated_tokens(request: Request) -> int:
    """Tokens of a request at four characters of its JSON each, rounded up, and of pictures by their
    size; for tests only."""
    words, pictures = without_images(request.messages)
    return pictures + _quarter(len(json.dumps([words, request.tools], ensure_ascii=False)))


def estimated_usage(request: Request, reply: Reply) -> Usage:
    """What a provider might report: `estimated_tokens`, and the reply's characters / 4."""
    said = len(reply.content) + len(reply.reasoning)
    called = sum(len(call.name) + len(call.arguments) for call in reply.calls)
    return Usage(
        calls=1, prompt_tokens=estimated_tokens(request), completion_tokens=_quarter(said + called)
    )


class ScriptedModel:
    """Plays replies in order, or asks a function for each; checks and records what it is asked.

        ScriptedModel([say("Hello"), call("archival_memory_search", query="tea", heartbeat=True),
                       "plain text", ModelUnavailable("try later")])
        ScriptedModel(lambda request: say(view(request).last_user.upper()))

    Args:
        script: answers in order, or a function of the request, which may be async.
        summary: the answer to every auxiliary request (`purpose="summary"`), which then takes none
            of the script. None (the default): they are answered like any other.
        strict: providers whose published rules each request must satisfy, with the runtime's own on
            top (`check_request`). Default: all three. Empty: nothing is checked.
        context_window: tokens above which a request is refused. None (the default): none is.
        counter: counts the tokens of a request. Default: `estimated_tokens`.
        usage: what is reported with a reply that has no usage of its own. Default:
            `estimated_usage`. None: nothing is.
        fail_after: parts after which every stream breaks with `ModelUnavailable`. None (the
            default): none does. To break a single reply, see `cut`.
        seed: decides where streams are split.

    Raises:
        InvalidInput: `script` is a single text.
    """

    def __init__(
        self,
        script: Iterable[Answer] | Script,
        *,
        summary: Answer | None = None,
        strict: Sequence[Provider] = PROVIDERS,
        context_window: int | None = None,
        counter: Callable[[Request], int] = estimated_tokens,
        usage: Callable[[Request, Reply], Usage | None] | None = estimated_usage,
        fail_after: int | None = None,
        seed: int = 0,
    ) -> None:
        if isinstance(script, str):
            raise InvalidInput("a script is a list of replies or a function, not a single text")
        self._function = script if callable(script) else None
        self._left: deque[Answer] = deque(() if callable(script) else script)
        self._scripted = len(self._left)
        self._summary = summary
        self._strict = tuple(strict)
        self._window = context_window
        self._counter = counter
        self._usage = usage
        self._fail_after = fail_after
        self._seed = seed
        self._numbered = 0
        self._requests: list[Request] = []
        self.closed = False
        """Whether `aclose` was called."""

    @property
    def requests(self) -> tuple[Request, ...]:
        """Everything it was asked, refused requests too: deep copies that cannot be changed."""
        return tuple(self._requests)

    @property
    def remaining(self) -> int:
        """Replies of the list that were not asked for yet; 0 for a function."""
        return len(self._left)

    def add(self, *answers: Answer) -> None:
        """Append to the list of replies.

        Raises:
            InvalidInput: the script is a function.
        """
        if self._function is not None:
            raise InvalidInput("this model is a function: it has no list to add to")
        self._left.extend(answers)
        self._scripted += len(answers)

    async def complete(self, request: Request) -> Reply:
        """The next reply, whole.

        Raises:
            IllegalRequest: the request breaks a rule of `strict`.
            ContextTooLong: it has more tokens than `context_window`.
            ScriptExhausted: the list has no reply left.
            ModelError: the script says so.
        """
        answer = await self._answer(request)
        if isinstance(answer, Cut):
            raise answer.error
        return answer

    async def stream(self, request: Request) -> AsyncIterator[Part]:
        """The next reply in parts, split at odd places: within words, escapes and numbers.

        Raises:
            IllegalRequest, ContextTooLong, ScriptExhausted, ModelError: as `complete`.
        """
        answer = await self._answer(request)
        if isinstance(answer, Reply) and self._fail_after is not None:
            answer = cut(answer, self._fail_after)
        reply = answer.reply if isinstance(answer, Cut) else answer
        # Seeded by the turn too: the same reply is not split the same way twice.
        parts = _split(reply, random.Random(f"{self._seed}/{len(self._requests)}"))
        if isinstance(answer, Cut):
            for part in islice(parts, answer.after):
                yield part
            raise answer.error
        for part in parts:
            yield part
        yield reply

    async def aclose(self) -> None:
        """Note that it was closed; there is nothing to let go of."""
        self.closed = True

    async def _answer(self, request: Request) -> Reply | Cut:
        asked = _frozen_request(request)
        self._requests.append(asked)
        if self._strict:
            check_request(asked.messages, asked.tools, providers=self._strict)
        self._demand_room(asked)
        answer = await self._next(asked)
        if isinstance(answer, ModelError):
            raise answer
        if isinstance(answer, Cut):
            return replace(answer, reply=self._finished(asked, answer.reply))
        return self._finished(asked, text(answer) if isinstance(answer, str) else answer)

    async def _next(self, request: Request) -> Answer:
        if self._summary is not None and request.purpose == "summary":
            return self._summary
        if self._function is not None:
            answer = self._function(request)
            return await answer if inspect.isawaitable(answer) else answer
        if not self._left:
            raise ScriptExhausted(len(self._requests), self._scripted)
        return self._left.popleft()

    def _demand_room(self, request: Request) -> None:
        if self._window is None:
            return
        tokens = self._counter(request)
        if tokens > self._window:
            raise ContextTooLong(f"{tokens} tokens were sent; the window holds {self._window}")

    def _finished(self, request: Request, reply: Reply) -> Reply:
        taken = {call.id for call in reply.calls} | set(_call_ids(request))
        calls = tuple(self._with_id(call, taken) for call in reply.calls)
        reply = replace(reply, calls=calls)
        if reply.usage is None and self._usage is not None:
            reply = replace(reply, usage=self._usage(request, reply))
        return reply

    def _with_id(self, call: RawCall, taken: set[str]) -> RawCall:
        if call.id != NUMBERED:
            return call
        self._numbered += 1
        # A model made anew for a stored conversation does not start over with an id that is in it.
        while f"call_{self._numbered}" in taken:
            self._numbered += 1
        return replace(call, id=f"call_{self._numbered}")


def _call_ids(request: Request) -> Iterator[str]:
    for message in request.messages:
        for call in message.get("tool_calls") or ():
            yield call["id"]


def _split(reply: Reply, chance: random.Random) -> Iterator[Part]:
    for piece in _pieces(reply.reasoning, chance):
        yield ReasoningPart(piece)
    for piece in _pieces(reply.content, chance):
        yield TextPart(piece)
    for index, call in enumerate(reply.calls):
        pieces = _pieces(call.arguments, chance)
        # The name comes whole: alone, with the first piece, or (as the protocol allows) after it.
        place = chance.randrange(3) if pieces else 0
        if place == 0:
            pieces = ["", *pieces]
        for number, piece in enumerate(pieces):
            yield CallPart(index, call.name if number == 0 and place < 2 else "", piece)
            if number == 0 and place == 2:
                yield CallPart(index, call.name)


def _pieces(whole: str, chance: random.Random) -> list[str]:
    longest = max(7, len(whole) // 12)
    pieces: list[str] = []
    start = 0
    while start < len(whole):
        end = start + chance.randint(1, longest)
        pieces.append(whole[start:end])
        start = end
    return pieces


def _quarter(characters: int) -> int:
    return -(-characters // 4)


def _frozen_request(request: Request) -> Request:
    return replace(
        request,
        messages=tuple(_frozen(message) for message in request.messages),
        tools=tuple(_frozen(tool) for tool in request.tools),
    )


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _FrozenDict((key, _frozen(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return _FrozenList(_frozen(item) for item in value)
    return value


def _refuse(self: object, *_: object, **__: object) -> NoReturn:
    raise TypeError("a recorded request cannot be changed; copy.deepcopy gives one that can")


class _FrozenDict(dict[str, Any]):
    """A dict to compare and to serialise, not to change."""

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return {key: copy.deepcopy(item, memo) for key, item in self.items()}


class _FrozenList(list[Any]):
    """A list to compare and to serialise, not to change."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return [copy.deepcopy(item, memo) for item in self]
