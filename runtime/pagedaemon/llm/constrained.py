"""Tool calls of small local models: by a JSON schema that the server holds the reply to.

A grammar makes the form certain where training does not. It fails in one way only, by being cut
off, so every text in the schema is bounded, and so is the reply.

Every answer begins with a thought. A model that must begin with a tool's name chooses it before it
has looked at what it did last: Qwen2.5-Coder 1.5B saved one fact again and again, and with a
thought before it replied once that was done.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pagedaemon.llm.assembly import replay
from pagedaemon.llm.protocol import (
    SAID,
    ChatModel,
    Part,
    RawCall,
    ReasoningPart,
    Reply,
    Request,
    WireMessage,
    WireTool,
)
from pagedaemon.llm.tolerant import read_calls
from pagedaemon.llm.wrapping import Wrapping
from pagedaemon.resources import Prompts

LONGEST_TEXT = 1_500
"""Characters a text in a call may have. llama.cpp refuses grammars that repeat more than 2,000
times."""

LONGEST_THOUGHT = 200
"""Characters that the thought before a call or a reply may have."""

MOST_ITEMS = 20
"""Items an array in a call may have."""

SPEAKER = "send_message"
"""Where a tool of this name is offered, it is how the agent speaks; else a plain reply is one of
the choices."""

_THOUGHT = "thought"
_REPLY = "reply"
_JOINT = "\n\n"
_KEPT = frozenset(
    {"type", "properties", "required", "items", "enum", "const", "anyOf", "additionalProperties"}
)
"""Schema words that servers with grammars know; what else narrows a value is checked when it is
read."""


class Constrained(Wrapping):
    """Asks for JSON in place of tool calls, and reads the calls out of it.

    The tools stand in the system text, calls and results of the history are plain text, so no chat
    template needs to know tools. Requests without tools pass as they are.

    Args:
        model: who is asked; its server must know `response_format` with a JSON schema.
        prompts: the texts the model reads.
    """

    def __init__(self, model: ChatModel, prompts: Prompts) -> None:
        super().__init__(model)
        self._prompts = prompts

    def asked(self, request: Request) -> Request:
        """The request without native tools."""
        if not request.tools:
            return request
        return replace(
            request,
            messages=tuple(self._messages(request)),
            tools=(),
            response_format=call_format(request.tools, request.max_output_tokens),
        )

    async def heard(self, request: Request, reply: Reply) -> Reply:
        """The reply with the call that its JSON is.

        JSON that breaks off becomes a call that cannot be read, so that the model is told. A text
        that is no JSON, from a server that knows no schemas, stays text.
        """
        text = reply.content
        if not request.tools or reply.calls or reply.finish == "refusal" or not text.strip():
            return reply
        thought, spoken = _said(text)
        reply = replace(reply, reasoning=reply.reasoning or thought)
        if spoken is not None:
            return replace(reply, content=spoken, opaque={SAID: text, **reply.opaque})
        names = frozenset(tool["function"]["name"] for tool in request.tools)
        found = read_calls(text, names)
        if found is not None:
            calls, rest = found.calls, found.rest
        elif text.lstrip().startswith("{"):
            calls, rest = (_unreadable(text),), ""
        else:
            return reply
        finish = reply.finish if reply.finish == "length" else "tool_calls"
        opaque = {SAID: text, **reply.opaque}
        return replace(reply, content=rest, calls=calls, finish=finish, opaque=opaque)

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """The reply in parts; what the JSON says is shown when it is whole.

        Raises:
            ModelError: as the other model.
        """
        async with self.parts(request) as parts:
            async for part in parts:
                if not request.tools or isinstance(part, ReasoningPart):
                    yield part
                elif isinstance(part, Reply):
                    reply = await self.heard(request, part)
                    # What the provider thought was passed on as it came.
                    new = "" if part.reasoning else reply.reasoning
                    for piece in replay(replace(reply, reasoning=new)):
                        if not isinstance(piece, Reply):
                            yield piece
                    yield reply

    def _messages(self, request: Request) -> Iterator[WireMessage]:
        """The history as plain text, sides in turn; the tools end the system message."""
        tools = self._prompts.render(
            "constrained/tools",
            tools=[_described(tool) for tool in request.tools],
            speech=_speech(request.tools),
        )
        names: dict[str, str] = {}
        shown: list[dict[str, Any]] = []
        if not request.messages or request.messages[0]["role"] != "system":
            shown.append({"role": "system", "content": tools})
        for message in request.messages:
            wire = self._plain(message, names)
            if message["role"] == "system" and not shown:
                wire["content"] = f"{wire['content']}{_JOINT}{tools}"
            if shown and shown[-1]["role"] == wire["role"]:
                shown[-1]["content"] = _joined(shown[-1]["content"], wire["content"])
            else:
                shown.append(wire)
        yield from shown

    def _plain(self, message: WireMessage, names: dict[str, str]) -> dict[str, Any]:
        if message["role"] == "tool":
            tool = names.get(message["tool_call_id"], "")
            text = self._prompts.render("constrained/result", tool=tool, text=message["content"])
            return {"role": "user", "content": text}
        if message["role"] != "assistant":
            return dict(message)
        calls: Sequence[Mapping[str, Any]] = message.get("tool_calls") or ()
        names.update((call["id"], call["function"]["name"]) for call in calls)
        lines = [_line(call["function"]) for call in calls]
        said = message.get("content")
        if said:
            lines.insert(0, said if calls else json.dumps({_REPLY: said}, ensure_ascii=False))
        return {"role": "assistant", "content": "\n".join(lines)}


def call_format(tools: Sequence[WireTool], max_tokens: int | None) -> dict[str, Any]:
    """The `response_format` of a call of one of the tools, or of a plain reply where none of them
    speaks.

    Args:
        tools: what may be called.
        max_tokens: of the reply; no text in a call is given more characters than that.
    """
    longest = LONGEST_TEXT if max_tokens is None else min(LONGEST_TEXT, max_tokens)
    shapes = [
        _shape(
            tool={"type": "string", "const": tool["function"]["name"]},
            arguments=_bounded(_parameters(tool), longest),
        )
        for tool in tools
    ]
    if _speech(tools):
        shapes.append(_shape(reply={"type": "string", "maxLength": longest}))
    schema = {"anyOf": shapes} if len(shapes) > 1 else shapes[0]
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def _shape(**members: Any) -> dict[str, Any]:
    thought = {"type": "string", "maxLength": LONGEST_THOUGHT}
    properties = {_THOUGHT: thought, **members}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _bounded(schema: Any, longest: int) -> Any:
    """The schema with a bound on each text and array; words that grammars do not know left out."""
    if not isinstance(schema, Mapping):
        return schema
    bounded: dict[str, Any] = {key: schema[key] for key in schema if key in _KEPT}
    if "properties" in bounded:
        bounded["properties"] = {
            name: _bounded(inner, longest) for name, inner in schema["properties"].items()
        }
    for key in ("items", "additionalProperties"):
        if key in bounded:
            bounded[key] = _bounded(bounded[key], longest)
    if "anyOf" in bounded:
        bounded["anyOf"] = [_bounded(inner, longest) for inner in schema["anyOf"]]
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "string" in kinds and not {"enum", "const"} & set(bounded):
        bounded["maxLength"] = min(schema.get("maxLength", longest), longest)
    if "array" in kinds:
        bounded["maxItems"] = min(schema.get("maxItems", MOST_ITEMS), MOST_ITEMS)
    return bounded


def _described(tool: WireTool) -> dict[str, Any]:
    function = tool["function"]
    return {
        "name": function["name"],
        "description": function.get("description", ""),
        "parameters": json.dumps(_parameters(tool), ensure_ascii=False),
    }


def _parameters(tool: WireTool) -> Mapping[str, Any]:
    parameters: Mapping[str, Any] = tool["function"].get("parameters") or {"type": "object"}
    return parameters


def _speech(tools: Sequence[WireTool]) -> bool:
    return all(tool["function"]["name"] != SPEAKER for tool in tools)


def _joined(one: Any, other: Any) -> Any:
    """Two contents as one: text, or parts where one of them has pictures."""
    if isinstance(one, str) and isinstance(other, str):
        return f"{one}{_JOINT}{other}"
    return [*_parts(one), *_parts(other)]


def _parts(content: Any) -> Sequence[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _line(function: Mapping[str, Any]) -> str:
    name = json.dumps(function["name"], ensure_ascii=False)
    return f'{{"tool": {name}, "arguments": {function["arguments"]}}}'


def _said(text: str) -> tuple[str, str | None]:
    """The thought that an answer begins with, empty where it has none, and what it says where it is
    a plain reply."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return "", None
    if not isinstance(said, dict):
        return "", None
    thought, spoken = said.pop(_THOUGHT, ""), said.get(_REPLY)
    speaks = list(said) == [_REPLY] and isinstance(spoken, str)
    return thought if isinstance(thought, str) else "", spoken if speaks else None


def _unreadable(text: str) -> RawCall:
    """A call that its reader cannot read: what stands in place of JSON that breaks off."""
    found = read_calls(f"<tool_call>{text}", ())
    return found.calls[0] if found is not None else RawCall("", "", text)
