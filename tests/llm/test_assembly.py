"""One answer, one reply: whole, in deltas, and in the odd deltas of endpoints that differ."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedaemon.errors import BadReply, ModelUnavailable
from pagedaemon.llm.assembly import Assembly, read, replay
from pagedaemon.llm.protocol import CallPart, Part, RawCall, ReasoningPart, Reply, TextPart
from pagedaemon.messages import Usage

Json = dict[str, Any]


def chunk(finish: str | None = None, **delta: Any) -> Json:
    """A chunk with that delta."""
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def calling(*entries: Json, finish: str | None = None) -> Json:
    """A chunk with these entries of `tool_calls`."""
    return chunk(finish, tool_calls=list(entries))


def entry(
    name: str | None = None, arguments: Any = None, *, id: str | None = None, index: Any = None
) -> Json:
    """An entry of `tool_calls`; what is None is left out."""
    function = {"name": name, "arguments": arguments}
    made: Json = {"function": {key: text for key, text in function.items() if text is not None}}
    made |= {key: value for key, value in {"id": id, "index": index}.items() if value is not None}
    return made


def whole(finish: str | None = "stop", usage: Json | None = None, **message: Any) -> Json:
    """An unstreamed answer with that message."""
    return {
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": usage,
    }


def assembled(chunks: Sequence[object]) -> tuple[list[Part], Reply]:
    """All parts of a stream, and its reply."""
    assembly = Assembly()
    parts = [part for one in chunks for part in assembly.add(one)]
    return parts, assembly.reply()


A = RawCall("a", "look", '{"q":1}')
B = RawCall("b", "look", '{"q":2}')
C = RawCall("", "write", '{"text":"x"}')
STOP = chunk("stop")

ODD: dict[str, tuple[list[Json], tuple[RawCall, ...]]] = {
    "as documented": (
        [
            calling(entry("look", "", id="a", index=0)),
            calling(entry(None, '{"q"', index=0)),
            calling(entry(None, ":1}", index=0)),
            calling(entry("look", "", id="b", index=1)),
            calling(entry(None, '{"q":2}', index=1)),
            chunk("tool_calls"),
        ],
        (A, B),
    ),
    "interleaved": (
        [
            calling(entry("look", '{"q"', id="a", index=0), entry("look", "{", id="b", index=1)),
            calling(entry(None, '"q":2}', index=1), entry(None, ":1}", index=0)),
            chunk("tool_calls"),
        ],
        (A, B),
    ),
    "no index, ids first": (
        [
            calling(entry("look", '{"q"', id="a")),
            calling(entry(None, ":1}")),
            calling(entry("look", id="b")),
            calling(entry(None, '{"q":2}')),
            STOP,
        ],
        (A, B),
    ),
    "no index, ids always": (
        [
            calling(entry("look", '{"q"', id="a")),
            calling(entry("look", "{", id="b")),
            calling(entry(None, ":1}", id="a")),
            calling(entry(None, '"q":2}', id="b")),
            STOP,
        ],
        (A, B),
    ),
    "neither index nor id, one delta": (
        [calling(entry("look", '{"q":1}'), entry("write", '{"text":"x"}')), STOP],
        (RawCall("", "look", '{"q":1}'), C),
    ),
    "neither index nor id, in step": (
        [
            calling(entry("look", '{"q"'), entry("write", '{"te')),
            calling(entry(None, ":1}"), entry(None, 'xt":"x"}')),
            STOP,
        ],
        (RawCall("", "look", '{"q":1}'), C),
    ),
    "neither index nor id, one after the other": (
        [
            calling(entry("look", '{"q":1}')),
            calling(entry("look", '{"q":')),
            calling(entry(None, "2}")),
            STOP,
        ],
        (RawCall("", "look", '{"q":1}'), RawCall("", "look", '{"q":2}')),
    ),
    "index only after the first delta": (
        [calling(entry("look", '{"q"', id="a")), calling(entry(None, ":1}", index=0)), STOP],
        (A,),
    ),
    "index 0 for all": (
        [
            calling(entry("look", '{"q":1}', id="a", index=0)),
            calling(entry("look", '{"q":2}', id="b", index=0)),
            STOP,
        ],
        (A, B),
    ),
    "index 0 for all, split": (
        [
            calling(entry("look", "", id="a", index=0)),
            calling(entry(None, '{"q":1}', index=0)),
            calling(entry("look", "", id="b", index=0)),
            calling(entry(None, '{"q":2}', index=0)),
            STOP,
        ],
        (A, B),
    ),
    "a new id in every delta": (
        [
            calling(entry("look", '{"q"', id="a", index=0)),
            calling(entry(None, ":1}", id="z", index=0)),
            STOP,
        ],
        (A,),
    ),
    "one id for all": (
        [
            calling(entry("look", '{"q":1}', id="a", index=0)),
            calling(entry("look", '{"q":2}', id="a", index=1)),
            STOP,
        ],
        (A, RawCall("a", "look", '{"q":2}')),
    ),
    "late id and name": (
        [
            calling(entry(None, '{"q"', index=0)),
            calling(entry("look", ":1}", index=0)),
            calling(entry(id="a", index=0)),
            STOP,
        ],
        (A,),
    ),
    "name in pieces": (
        [
            calling(entry("lo", id="a", index=0)),
            calling(entry("ok", index=0)),
            calling(entry(None, '{"q":1}', index=0)),
            STOP,
        ],
        (A,),
    ),
    "name repeated": (
        [
            calling(entry("look", '{"q"', id="a", index=0)),
            calling(entry("look", ":1}", id="a", index=0)),
            calling(entry("look", "", id="a", index=0)),
            STOP,
        ],
        (A,),
    ),
    "arguments only at the end": (
        [
            calling(entry("look", id="a", index=0)),
            calling(entry(None, "", index=0)),
            calling(entry(None, '{"q":1}', index=0), finish="tool_calls"),
        ],
        (A,),
    ),
    "arguments as an object": (
        [calling(entry("look", {"q": 1}, id="a", index=0)), STOP],
        (RawCall("a", "look", '{"q": 1}'),),
    ),
    "the finished call once more": (
        [
            calling(entry("look", '{"q"', id="a", index=0)),
            calling(entry(None, ":1}", index=0)),
            calling(entry("look", '{"q": 1}', id="a", index=0), finish="tool_calls"),
        ],
        (A,),
    ),
    "continued under another index": (
        [
            calling(entry("look", '{"q"', id="a", index=0)),
            calling(entry(None, ":1}", index=1)),
            STOP,
        ],
        (A,),
    ),
    "an empty shell": (
        [calling(entry("", "", index=0)), calling(entry("look", '{"q":1}', id="a", index=1)), STOP],
        (A,),
    ),
    "the old single call": (
        [
            chunk(function_call={"name": "look", "arguments": ""}),
            chunk(function_call={"arguments": '{"q":1}'}),
            chunk("function_call"),
        ],
        (RawCall("", "look", '{"q":1}'),),
    ),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_deltas_come_together_as_the_calls_that_were_meant(case: str) -> None:
    chunks, calls = ODD[case]
    parts, reply = assembled(chunks)
    assert reply == Reply(calls=calls, finish="tool_calls")
    if case != "continued under another index":  # a stray is recognised only at the end
        for index, call in enumerate(calls):
            own = [part for part in parts if isinstance(part, CallPart)]
            shown = [part for part in own if part.index - min(p.index for p in own) == index]
            assert [part.name for part in shown if part.name] == [call.name]
            assert "".join(part.arguments for part in shown) == call.arguments


pieces = st.text(min_size=0, max_size=12)
values = st.dictionaries(pieces, st.one_of(pieces, st.integers(), st.none()), max_size=3)
names = st.sampled_from(["look", "write", "page_out"])
STYLES = ["index", "fresh ids", "ids", "index 0", "position"]


def split(text: str, cuts: list[int]) -> list[str]:
    """The text cut at these places, as far as it has them; never without a piece."""
    places = sorted({cut for cut in cuts if 0 < cut < len(text)})
    edges = [0, *places, len(text)]
    return [text[begin:end] for begin, end in pairwise(edges)]


@st.composite
def answers(draw: st.DrawFn) -> tuple[Json, list[Json]]:
    """A whole answer, and the same answer in arbitrary deltas of one of the known styles."""
    cuts = st.lists(st.integers(0, 40), max_size=6)
    style = draw(st.sampled_from(STYLES))
    text, thought, signed = draw(pieces), draw(pieces), draw(pieces)
    # Where nothing tells calls apart, the same call again counts as sent twice: no repeats there.
    calls = draw(
        st.lists(
            st.tuples(names, values),
            max_size=3,
            unique_by=json.dumps if style == "position" else None,
        )
    )
    message: Json = {"role": "assistant", "content": text or None, "reasoning_content": thought}
    chunks = [chunk(role="assistant", content=""), {"choices": []}]
    chunks += [chunk(reasoning_content=piece) for piece in split(thought, draw(cuts))]
    chunks += [chunk(content=piece) for piece in split(text, draw(cuts))]
    if signed:
        detail = {"type": "reasoning.text", "index": 0}
        message["reasoning_details"] = [{**detail, "text": signed}]
        chunks += [
            chunk(reasoning_details=[{**detail, "text": piece}])
            for piece in split(signed, draw(cuts))
        ]
    streams: list[list[Json]] = []
    whole_calls: list[Json] = []
    for number, (name, value) in enumerate(calls):
        arguments = json.dumps(value, ensure_ascii=draw(st.booleans()))
        call_id = "" if style == "position" else f"call_{number}"
        function = {"name": name, "arguments": arguments}
        whole_calls.append({"id": call_id, "type": "function", "function": function})
        streams.append(_deltas(draw, style, number, whole_calls[-1], split(arguments, draw(cuts))))
    if whole_calls:
        message["tool_calls"] = whole_calls
    if style == "index" and draw(st.booleans()):  # explicit indexes may take turns
        chunks += [calling(stream.pop(0)) for stream in streams]
        while left := [stream for stream in streams if stream]:
            chunks.append(calling(draw(st.sampled_from(left)).pop(0)))
    else:
        chunks += [calling(delta) for stream in streams for delta in stream]
    finish = draw(st.sampled_from(["stop", "tool_calls", "length"]))
    usage = {"prompt_tokens": draw(st.integers(0, 9)), "completion_tokens": draw(st.integers(0, 9))}
    chunks += [chunk(finish), {"choices": [], "usage": usage}]
    return whole(finish, usage, **message), chunks


def _deltas(draw: st.DrawFn, style: str, number: int, call: Json, cut: list[str]) -> list[Json]:
    name = call["function"]["name"]
    if draw(st.booleans()):
        cut = ["", *cut] if style != "position" else cut
    if draw(st.booleans()):  # everything in the last delta
        cut = [""] * (len(cut) - 1) + ["".join(cut)] if style != "position" else ["".join(cut)]
    made = [entry(None, piece) for piece in cut]
    named = (
        "first"
        if style in ("index 0", "position", "fresh ids")
        else draw(st.sampled_from(["first", "last", "always"]))
    )
    at = {"first": [0], "last": [len(made) - 1], "always": range(len(made))}[named]
    for place in at:
        made[place]["function"]["name"] = name
    for place, delta in enumerate(made):
        if style in ("index", "fresh ids"):
            delta["index"] = number
        if style == "index 0":
            delta["index"] = 0
        if style == "ids" or (style in ("index", "index 0", "fresh ids") and place == 0):
            delta["id"] = call["id"]
        elif style == "fresh ids":
            delta["id"] = f"other_{number}_{place}"
    if style in ("index", "ids") and draw(st.booleans()):  # the finished call once more
        made.append({**made[-1], "id": call["id"], "function": dict(call["function"])})
    return made


@given(answers())
def test_any_answer_in_any_deltas_is_the_reply_it_is_in_one_piece(
    case: tuple[Json, list[Json]],
) -> None:
    answer, chunks = case
    parts, reply = assembled(chunks)
    assert reply == read(answer)
    assert "".join(part.text for part in parts if isinstance(part, TextPart)) == reply.content
    thoughts = [part.text for part in parts if isinstance(part, ReasoningPart)]
    assert "".join(thoughts) == reply.reasoning
    for index, call in enumerate(reply.calls):
        shown = [part for part in parts if isinstance(part, CallPart) and part.index == index]
        assert [part.name for part in shown if part.name] == [call.name]
        assert "".join(part.arguments for part in shown) == call.arguments


def test_a_stream_without_a_finish_can_be_asked_again() -> None:
    with pytest.raises(ModelUnavailable, match="before the reply was finished"):
        assembled([chunk(content="Hel")])
    with pytest.raises(ModelUnavailable):
        assembled([calling(entry("look", '{"q"', id="a", index=0))])
    with pytest.raises(ModelUnavailable):
        assembled([])


def test_an_answer_the_provider_broke_off_can_be_asked_again() -> None:
    with pytest.raises(ModelUnavailable):
        read(whole("error", content="Hel"))


@pytest.mark.parametrize(
    "data", [None, [], "text", {}, {"choices": []}, {"choices": [{}]}, {"choices": "no"}]
)
def test_what_is_no_answer_is_a_bad_reply(data: object) -> None:
    with pytest.raises(BadReply):
        read(data)


@pytest.mark.parametrize("broken", ["text", 3, [], {"choices": [{"delta": {"tool_calls": [1]}}]}])
def test_what_is_no_chunk_is_a_bad_reply(broken: object) -> None:
    with pytest.raises(BadReply):
        Assembly().add(broken)


@pytest.mark.parametrize(
    ("raw", "meant"),
    [
        ("stop", "stop"),
        ("eos", "stop"),
        (None, "stop"),
        ("length", "length"),
        ("content_filter", "refusal"),
    ],
)
def test_a_finish_reason_gets_its_plain_meaning(raw: str | None, meant: str) -> None:
    assert read(whole(raw, content="x")).finish == meant


def test_a_cut_off_call_is_told_apart_from_a_finished_one() -> None:
    call = {"id": "a", "function": {"name": "look", "arguments": '{"q'}}
    assert read(whole("length", tool_calls=[call])).finish == "length"
    assert read(whole("stop", tool_calls=[call])).finish == "tool_calls"


def test_a_refusal_is_its_own_finish_and_its_words_are_the_content() -> None:
    assert read(whole(refusal="No.", content=None)) == Reply(content="No.", finish="refusal")
    parts, reply = assembled([chunk(refusal="N"), chunk(refusal="o."), STOP])
    assert parts == [TextPart("N"), TextPart("o.")]
    assert reply == Reply(content="No.", finish="refusal")


def test_content_in_parts_is_text_and_thinking_is_reasoning() -> None:
    content = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "Hel"},
        "lo",
        {"type": "image", "url": "…"},
    ]
    assert read(whole(content=content)) == Reply(content="Hello", reasoning="hm")


def test_reasoning_under_two_names_is_taken_once() -> None:
    assert read(whole(reasoning="hm", reasoning_content="hm")).reasoning == "hm"


def test_usage_has_its_details_and_zeros_are_none() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    assert read(whole(usage=usage, content="x")).usage == Usage(1, 10, 5, 8, 3)
    zeros = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    assert read(whole(usage=zeros, content="x")).usage is None
    assert read(whole(content="x")).usage is None
    assert read(whole(usage={"prompt_tokens": "many"}, content="x")).usage is None


def test_the_last_usage_of_a_stream_counts_and_zeros_do_not_undo_it() -> None:
    growing = [
        {**chunk(content="x"), "usage": {"prompt_tokens": 10, "completion_tokens": 1}},
        {**STOP, "usage": {"prompt_tokens": 10, "completion_tokens": 2}},
        {"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0}},
    ]
    assert assembled(growing)[1].usage == Usage(1, 10, 2)


def test_fields_nobody_knows_come_back_unchanged() -> None:
    details = [{"type": "reasoning.encrypted", "data": "AQ==", "index": 0}, {"signature": "s"}]
    reply = read(whole(content="x", reasoning_details=details, audio=None, annotations=[]))
    assert reply.opaque == {"reasoning_details": details}


def test_fields_nobody_knows_grow_in_a_stream_by_their_index() -> None:
    chunks = [
        chunk(reasoning_details=[{"type": "text", "index": 0, "text": "a", "signature": None}]),
        chunk(reasoning_details=[{"type": "text", "index": 0, "text": "b"}]),
        chunk(reasoning_details=[{"type": "text", "index": 1, "text": "c"}]),
        chunk(reasoning_details=[{"type": "text", "index": 0, "signature": "s"}], mood={"x": 1}),
        chunk("stop", mood={"y": 2}),
    ]
    assert assembled(chunks)[1].opaque == {
        "reasoning_details": [
            {"type": "text", "index": 0, "text": "ab", "signature": "s"},
            {"type": "text", "index": 1, "text": "c"},
        ],
        "mood": {"x": 1, "y": 2},
    }


def test_fields_of_a_call_nobody_knows_are_kept_by_call() -> None:
    signed = {"extra_content": {"google": {"thought_signature": "s=="}}}
    calls = [entry("look", '{"q":1}', id="a"), {**entry("look", '{"q":2}', id="b"), **signed}]
    expected = Reply(calls=(A, B), finish="tool_calls", opaque={"call_extras": [{}, signed]})
    assert read(whole(tool_calls=calls)) == expected
    assert assembled([calling(calls[0]), calling(calls[1]), STOP])[1] == expected


def test_only_the_first_of_several_choices_is_read() -> None:
    other = {"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"}
    both = {"choices": [other, *chunk(content="yes")["choices"]]}
    assert assembled([both, STOP])[1].content == "yes"


def test_a_whole_reply_can_be_played_in_parts() -> None:
    reply = Reply("Hi", (A,), "hm", "tool_calls")
    assert list(replay(reply)) == [
        ReasoningPart("hm"),
        TextPart("Hi"),
        CallPart(0, "look", '{"q":1}'),
        reply,
    ]


@pytest.mark.parametrize("count", [2**63, 2**70, 10**12 + 1, -1, 1.5, "7"])
def test_a_count_that_no_request_has_is_no_report(count: object) -> None:
    usage = {"prompt_tokens": count, "completion_tokens": 3}
    choice = {"message": {"content": "Hi"}, "finish_reason": "stop"}
    assert read({"choices": [choice], "usage": usage}).usage == Usage(1, 0, 3)


def test_halves_of_a_character_in_an_opaque_field_are_joined() -> None:
    assembly = Assembly()
    for half in ("a\ud83d", "\ude00b"):
        assembly.add({"choices": [{"delta": {"sig": half, "deep": {"sig": half}}}]})
    assembly.add({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    assert assembly.reply().opaque == {"sig": "a😀b", "deep": {"sig": "a😀b"}}
