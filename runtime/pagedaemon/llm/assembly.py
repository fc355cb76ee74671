"""Puts a chat-completions answer together, whole or from deltas, into one `Reply`.

Pure: plain JSON in, parts and a reply out. A whole answer is read as a stream of one delta, so that
streaming cannot come to another result than not streaming.

Endpoints that call themselves compatible differ most in streamed tool calls. What is met and meant
here: the index is missing, or 0 for every call; ids come late, repeat, or change with every delta;
the name comes late, again, or in pieces before the arguments; arguments come at once, at the end,
or as an object; a finished call is sent once more; the end is called "stop" in spite of calls.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pagedaemon.errors import BadReply, ModelUnavailable
from pagedaemon.llm.protocol import (
    CALL_EXTRAS,
    MOST_TOKENS,
    CallPart,
    Part,
    RawCall,
    ReasoningPart,
    Reply,
    TextPart,
)
from pagedaemon.messages import Usage

_READ = frozenset(
    {
        "role",
        "content",
        "refusal",
        "tool_calls",
        "function_call",
        "reasoning_content",
        "reasoning",
        "annotations",
        "audio",
    }
)
"""Fields of a message that are read here or of no use; all others are opaque."""

_CALL_READ = frozenset({"index", "id", "type", "function"})
_FUNCTION_READ = frozenset({"name", "arguments"})

_CONSTANT = frozenset({"type", "id", "index", "format", "role", "name", "object"})
"""Keys in opaque fields whose text is repeated in each delta, where other text grows."""


def read(data: object) -> Reply:
    """The reply in a whole, unstreamed answer.

    Raises:
        BadReply: it is no chat completion.
        ModelUnavailable: the provider marks the answer as broken off by an error.
    """
    choice = _choice(data)
    if choice is None or not isinstance(choice.get("message"), Mapping):
        raise BadReply(f"the answer holds no message: {_shown(data)}")
    assembly = Assembly()
    assembly.add(_as_chunk(data, choice))
    return assembly.reply()


def replay(reply: Reply) -> Iterator[Part]:
    """A whole reply in parts, for an endpoint that was asked to stream and answered at once."""
    if reply.reasoning:
        yield ReasoningPart(reply.reasoning)
    if reply.content:
        yield TextPart(reply.content)
    for index, call in enumerate(reply.calls):
        yield CallPart(index, call.name, call.arguments)
    yield reply


class Assembly:
    """Takes the chunks of one stream in order and says at the end what the reply was."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[_OpenCall] = []
        self._by_index: dict[int, _OpenCall] = {}
        self._by_id: dict[str, _OpenCall] = {}
        self._opaque: dict[str, Any] = {}
        self._finish = ""
        self._usage: Usage | None = None

    def add(self, chunk: object) -> list[Part]:
        """Take one chunk; gives what is new in it, nothing for usage and keep-alive chunks.

        Raises:
            BadReply: it is no chunk of a chat completion.
        """
        return list(self._added(chunk))

    def _added(self, chunk: object) -> Iterator[Part]:
        if not isinstance(chunk, Mapping):
            raise BadReply(f"the stream holds something that is no chunk: {_shown(chunk)}")
        self._usage = _usage(chunk.get("usage")) or self._usage
        choice = _choice(chunk)
        if choice is None:
            return
        delta = choice.get("delta")
        if isinstance(delta, Mapping):
            yield from self._take(delta)
        if choice.get("finish_reason"):
            self._finish = str(choice["finish_reason"])
            for call in self._calls:
                yield from call.announce()

    @property
    def settled(self) -> bool:
        """Whether what has come could be all: something was said or called, and no call is broken
        off."""
        whole = all(
            not call.arguments or _object(call.arguments) is not None
            for call in self._finished_calls()
        )
        return whole and bool(self._text or self._refusal or self._calls)

    def done(self) -> list[Part]:
        """The endpoint has said that nothing more comes. Some never say how the reply ended: then
        it has stopped, if it could be whole."""
        if self._finish or not self.settled:
            return []
        self._finish = "stop"
        return [part for call in self._calls for part in call.announce()]

    def reply(self) -> Reply:
        """The whole reply.

        Raises:
            ModelUnavailable: the stream ended before the provider called it finished.
        """
        if not self._finish:
            raise ModelUnavailable(
                "the stream ended before the reply was finished: the connection was lost, or the "
                "server gave up"
            )
        if self._finish == "error":
            raise ModelUnavailable("the provider broke the reply off with an error of its own")
        calls = self._finished_calls()
        refusal = "".join(self._refusal)
        opaque = dict(self._opaque)
        if any(call.extra for call in calls):
            opaque[CALL_EXTRAS] = [call.extra for call in calls]
        return Reply(
            content="".join(self._text) or refusal,
            calls=tuple(RawCall(call.id, call.name, call.arguments) for call in calls),
            reasoning="".join(self._reasoning),
            finish=self._ending(bool(refusal), bool(calls)),
            usage=self._usage,
            opaque=opaque,
        )

    def _ending(
        self, refused: bool, called: bool
    ) -> Literal["stop", "tool_calls", "length", "refusal"]:
        if refused or self._finish == "content_filter":
            return "refusal"
        if self._finish in ("length", "max_tokens"):
            return "length"
        return "tool_calls" if called else "stop"

    def _take(self, delta: Mapping[str, Any]) -> Iterator[Part]:
        text, thought = _texts(delta.get("content"))
        for key in ("reasoning_content", "reasoning"):  # some send the same text under both names
            if isinstance(delta.get(key), str) and delta[key]:
                thought = delta[key]
                break
        if thought:
            self._reasoning.append(thought)
            yield ReasoningPart(thought)
        if text:
            self._text.append(text)
            yield TextPart(text)
        if isinstance(delta.get("refusal"), str) and delta["refusal"]:
            self._refusal.append(delta["refusal"])
            if not self._text:
                yield TextPart(delta["refusal"])
        yield from self._take_calls(delta)
        for key, value in delta.items():
            if value is not None and (
                key not in _READ or (key == "reasoning" and not isinstance(value, str))
            ):
                self._opaque[key] = _grown(self._opaque.get(key), value, key)

    def _take_calls(self, delta: Mapping[str, Any]) -> Iterator[Part]:
        entries = delta.get("tool_calls")
        if isinstance(entries, Sequence) and not isinstance(entries, str):
            for position, entry in enumerate(entries):
                if not isinstance(entry, Mapping):
                    raise BadReply(f"a tool call is no object: {_shown(entry)}")
                yield from self._take_call(_CallDelta.of(entry), position, len(entries))
        legacy = delta.get("function_call")
        if isinstance(legacy, Mapping):
            yield from self._take_call(_CallDelta.of({"index": 0, "function": legacy}), 0, 1)

    def _take_call(self, delta: _CallDelta, position: int, count: int) -> Iterator[Part]:
        call = self._find(delta, position, count)
        relation = "other" if call is None else call.relation(delta)
        if relation == "again":
            return
        if call is None or relation == "other":
            if self._calls:
                yield from self._calls[-1].announce()
            call = _OpenCall(len(self._calls), indexed=delta.index is not None)
            self._calls.append(call)
        if delta.index is not None:
            self._by_index[delta.index] = call
        if delta.id:
            self._by_id[delta.id] = call
        yield from call.grow(delta)

    def _find(self, delta: _CallDelta, position: int, count: int) -> _OpenCall | None:
        """The call a delta most likely belongs to: by index, by id, else by position."""
        if delta.index is not None:
            if delta.index in self._by_index:
                return self._by_index[delta.index]
            if 0 <= delta.index < len(self._calls) and not self._calls[delta.index].indexed:
                return self._calls[delta.index]
            return None
        if delta.id:
            return self._by_id.get(delta.id)
        if count == 1:
            return self._calls[-1] if self._calls else None
        return self._calls[position] if position < len(self._calls) else None

    def _finished_calls(self) -> list[_OpenCall]:
        """The calls without empty shells, and with strays put where they belong.

        Some servers continue a call under another index, without id or name. Such a stray is joined
        to the call before it exactly if that makes its arguments whole.
        """
        calls: list[_OpenCall] = []
        for call in self._calls:
            if not call.name and not call.arguments:
                continue
            if calls and not call.name and not call.id and calls[-1].absorb(call):
                continue
            calls.append(call)
        return calls


@dataclass(frozen=True, slots=True)
class _CallDelta:
    """One entry of `tool_calls`, read once."""

    index: int | None
    id: str
    name: str
    arguments: str
    extra: Mapping[str, Any]

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> _CallDelta:
        function = entry.get("function")
        if not isinstance(function, Mapping):
            function = {}
        index, name, arguments = entry.get("index"), function.get("name"), function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        extra = {
            key: value
            for source, known in ((entry, _CALL_READ), (function, _FUNCTION_READ))
            for key, value in source.items()
            if key not in known and value is not None
        }
        return cls(
            index=index if isinstance(index, int) else None,
            id=str(entry.get("id") or ""),
            name=name if isinstance(name, str) else "",
            arguments=arguments or "",
            extra=extra,
        )


@dataclass(slots=True)
class _OpenCall:
    """A call that is still growing."""

    place: int
    indexed: bool
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    announced: bool = False

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    def relation(self, delta: _CallDelta) -> Literal["more", "again", "other"]:
        """Whether a delta continues this call, repeats it, or begins another in its place."""
        if not delta.name or not self.name:
            return "more"
        renamed = bool(delta.id and self.id and delta.id != self.id)
        if delta.name != self.name:
            in_pieces = delta.index is not None and not self.pieces and not renamed
            return "more" if in_pieces else "other"
        whole = _object(self.arguments)
        if whole is None:
            return "more"
        if renamed:
            return "other"
        if not delta.arguments.lstrip().startswith("{"):
            return "more"
        return "again" if _object(delta.arguments) == whole else "other"

    def grow(self, delta: _CallDelta) -> Iterator[CallPart]:
        self.id = self.id or delta.id
        if delta.name and delta.name != self.name:
            self.name += delta.name
        for key, value in delta.extra.items():
            self.extra[key] = _grown(self.extra.get(key), value, key)
        if delta.arguments:
            self.pieces.append(delta.arguments)
            name = "" if self.announced else self.name
            self.announced = self.announced or bool(self.name)
            yield CallPart(self.place, name, delta.arguments)
        elif self.pieces:
            yield from self.announce()

    def announce(self) -> Iterator[CallPart]:
        """Tell the name, once, when nothing can be added to it any more."""
        if self.name and not self.announced:
            self.announced = True
            yield CallPart(self.place, self.name)

    def absorb(self, stray: _OpenCall) -> bool:
        """Take a stray's arguments if they complete this call's."""
        if _object(self.arguments) is not None:
            return False
        if _object(self.arguments + stray.arguments) is None:
            return False
        self.pieces += stray.pieces
        self.extra.update(stray.extra)
        return True


def _choice(data: object) -> Mapping[str, Any] | None:
    """The first choice: several are answers to choose from, and nobody would choose."""
    choices = data.get("choices") if isinstance(data, Mapping) else None
    if not isinstance(choices, Sequence) or isinstance(choices, str):
        return None
    for choice in choices:
        if isinstance(choice, Mapping) and not choice.get("index"):
            return choice
    return None


def _as_chunk(data: object, choice: Mapping[str, Any]) -> Mapping[str, Any]:
    message = dict(choice["message"])
    calls = message.get("tool_calls")
    if isinstance(calls, Sequence) and not isinstance(calls, str):
        # Unstreamed calls stand apart from each other whatever their ids are.
        message["tool_calls"] = [
            {**call, "index": index} if isinstance(call, Mapping) else call
            for index, call in enumerate(calls)
        ]
    finish = choice.get("finish_reason") or "stop"
    usage = data.get("usage") if isinstance(data, Mapping) else None
    return {"choices": [{"delta": message, "finish_reason": finish}], "usage": usage}


def _texts(content: object) -> tuple[str, str]:
    """Text and reasoning of a content field, which is a string or a list of typed parts."""
    if isinstance(content, str):
        return content, ""
    if not isinstance(content, Sequence):
        return "", ""
    text: list[str] = []
    thought: list[str] = []
    for part in content:
        if isinstance(part, str):
            text.append(part)
        elif isinstance(part, Mapping):
            if isinstance(part.get("text"), str):
                text.append(part["text"])
            elif "thinking" in part:
                thought.append("".join(_texts(part["thinking"])))
    return "".join(text), "".join(thought)


def _usage(data: object) -> Usage | None:
    if not isinstance(data, Mapping):
        return None
    prompt = data.get("prompt_tokens_details")
    completion = data.get("completion_tokens_details")
    usage = Usage(
        calls=1,
        prompt_tokens=_number(data, "prompt_tokens"),
        completion_tokens=_number(data, "completion_tokens"),
        cached_tokens=_number(prompt, "cached_tokens"),
        reasoning_tokens=_number(completion, "reasoning_tokens"),
        cost=_money(data.get("cost")),
    )
    return usage if usage.total_tokens else None


def _money(value: object) -> float | None:
    """US dollars, where a gateway such as OpenRouter says what it charged."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None


def _number(data: object, key: str) -> int:
    value = data.get(key) if isinstance(data, Mapping) else None
    return value if isinstance(value, int) and 0 < value <= MOST_TOKENS else 0


def _object(text: str) -> dict[str, Any] | None:
    """The JSON object that is the whole of the text, or None."""
    if not text.rstrip().endswith("}"):
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _grown(old: Any, new: Any, key: str) -> Any:
    """An opaque value after one more delta: text grows, objects merge, lists merge by `index`."""
    if old is None or new is None:
        return old if new is None else new
    if isinstance(old, str) and isinstance(new, str):
        return new if key in _CONSTANT else _joined(old + new)
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {**old, **{name: _grown(old.get(name), value, name) for name, value in new.items()}}
    if isinstance(old, list) and isinstance(new, list):
        return _grown_list(old, new)
    return new


def _joined(text: str) -> str:
    """The text with halves of one character, come in two deltas, as that character."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _grown_list(old: list[Any], new: list[Any]) -> list[Any]:
    grown = list(old)
    places = {
        item["index"]: place
        for place, item in enumerate(grown)
        if isinstance(item, Mapping) and isinstance(item.get("index"), int)
    }
    for item in new:
        index = item.get("index") if isinstance(item, Mapping) else None
        if isinstance(index, int) and index in places:
            grown[places[index]] = _grown(grown[places[index]], item, "")
        else:
            if isinstance(index, int):
                places[index] = len(grown)
            grown.append(item)
    return grown


def _shown(data: object) -> str:
    text = json.dumps(data, ensure_ascii=False, default=str)
    return text if len(text) <= 300 else f"{text[:300]}…"
