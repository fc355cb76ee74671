"""A model that says what it is told to, and checks and records what it is asked."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedaemon.errors import ContextTooLong, InvalidInput, ModelUnavailable, RateLimited
from pagedaemon.llm.protocol import (
    CallPart,
    ChatModel,
    Part,
    RawCall,
    ReasoningPart,
    Reply,
    Request,
    TextPart,
)
from pagedaemon.messages import Usage
from pagedaemon.testing import (
    IllegalRequest,
    ScriptedModel,
    ScriptExhausted,
    both,
    call,
    cut,
    estimated_tokens,
    raw_call,
    say,
    text,
    view,
)
from pagedaemon.testing.scripted import Answer


def request(content: str = "Hello", **fields: Any) -> Request:
    return Request(({"role": "user", "content": content},), **fields)


async def parts_of(model: ChatModel, asked: Request) -> list[Part]:
    return [part async for part in model.stream(asked)]


async def heard_until(error: type[Exception], model: ChatModel) -> list[Part]:
    """The parts of the next stream, which has to break with that error."""
    heard: list[Part] = []

    async def listen() -> None:
        async for part in model.stream(request()):
            heard.append(part)

    with pytest.raises(error):
        await listen()
    return heard


def put_together(parts: list[Part]) -> Reply:
    content = "".join(part.text for part in parts if isinstance(part, TextPart))
    reasoning = "".join(part.text for part in parts if isinstance(part, ReasoningPart))
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    for part in parts:
        if isinstance(part, CallPart):
            names[part.index] = names.get(part.index, "") + part.name
            arguments[part.index] = arguments.get(part.index, "") + part.arguments
    last = parts[-1]
    assert isinstance(last, Reply)
    calls = tuple(RawCall(last.calls[index].id, names[index], arguments[index]) for index in names)
    return Reply(content, calls, reasoning, last.finish, last.usage)


# Replies, one line each.


def test_say_is_a_call_of_send_message() -> None:
    (made,) = say("Hi", "greet").calls
    assert made.name == "send_message"
    assert made.arguments == '{"inner_thoughts": "greet", "message": "Hi"}'
    assert json.loads(say("Hi").calls[0].arguments) == {"message": "Hi"}


def test_say_sends_a_flag_only_when_told_to() -> None:
    assert json.loads(say("Hi", heartbeat=False).calls[0].arguments)["request_heartbeat"] is False


def test_a_call_has_its_thoughts_first_and_its_flag_last() -> None:
    reply = call("search", query="tea", id=7, heartbeat=True, thoughts="look")
    assert reply.finish == "tool_calls"
    assert reply.calls[0].arguments == (
        '{"inner_thoughts": "look", "query": "tea", "id": 7, "request_heartbeat": true}'
    )


def test_a_raw_call_need_not_be_json() -> None:
    assert raw_call("search", '{"query": "te').calls[0].arguments == '{"query": "te'


def test_both_joins_texts_and_calls_in_order() -> None:
    joined = both(text("Let me look.", reasoning="hm"), call("search"), say("Moment"))
    assert joined.content == "Let me look."
    assert joined.reasoning == "hm"
    assert [made.name for made in joined.calls] == ["search", "send_message"]
    assert joined.finish == "tool_calls"
    assert both(text("a"), text("b")).finish == "stop"
    assert both(call("search"), text("a")).finish == "tool_calls"


def test_joining_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput):
        both()


# Scripts.


async def test_a_list_is_played_in_order() -> None:
    model = ScriptedModel([say("one"), "two", text("three"), call("search", query="x")])
    replies = [await model.complete(request()) for _ in range(4)]
    assert [reply.content for reply in replies] == ["", "two", "three", ""]
    assert [made.name for reply in replies for made in reply.calls] == ["send_message", "search"]
    assert model.remaining == 0


async def test_an_error_in_the_script_is_raised() -> None:
    limited = RateLimited("slow down", retry_after=2.0)
    model = ScriptedModel([limited, "two"])
    with pytest.raises(RateLimited) as raised:
        await model.complete(request())
    assert raised.value is limited
    assert (await model.complete(request())).content == "two"


async def test_running_out_says_how_often_it_was_asked() -> None:
    model = ScriptedModel(["one"])
    await model.complete(request())
    with pytest.raises(ScriptExhausted, match="asked 2 times and its script has 1 replies") as out:
        await model.complete(request())
    assert isinstance(out.value, AssertionError)
    assert (out.value.asked, out.value.replies) == (2, 1)
    model.add("three")
    assert (await model.complete(request())).content == "three"


async def test_a_function_answers_from_the_request_alone() -> None:
    model = ScriptedModel(lambda asked: say(view(asked).last_user.upper()))
    reply = await model.complete(request("quiet"))
    assert json.loads(reply.calls[0].arguments) == {"message": "QUIET"}
    assert model.remaining == 0
    with pytest.raises(InvalidInput, match="function"):
        model.add("more")


async def test_a_function_may_be_async_and_may_fail() -> None:
    async def answer(asked: Request) -> Answer:
        await asyncio.sleep(0)
        return ModelUnavailable("busy") if view(asked).last_user == "fail" else "fine"

    model = ScriptedModel(answer)
    assert (await model.complete(request())).content == "fine"
    with pytest.raises(ModelUnavailable, match="busy"):
        await model.complete(request("fail"))


async def test_auxiliary_requests_may_have_their_own_answer() -> None:
    model = ScriptedModel(["one"], summary="Notes.")
    assert (await model.complete(request(purpose="summary"))).content == "Notes."
    assert (await model.complete(request())).content == "one"


async def test_auxiliary_requests_otherwise_take_the_next_reply() -> None:
    model = ScriptedModel(["one"])
    assert (await model.complete(request(purpose="summary"))).content == "one"


def test_a_single_text_is_no_script() -> None:
    with pytest.raises(InvalidInput, match="list"):
        ScriptedModel("hello")


async def test_closing_is_noted() -> None:
    model: ChatModel = ScriptedModel([])
    await model.aclose()
    assert isinstance(model, ScriptedModel)
    assert model.closed


# Ids.


async def test_calls_are_numbered_through_all_replies() -> None:
    model = ScriptedModel([both(call("a"), call("b")), call("c")])
    first, second = await model.complete(request()), await model.complete(request())
    assert [made.id for made in first.calls + second.calls] == ["call_1", "call_2", "call_3"]


async def test_a_given_id_is_kept_and_not_given_again() -> None:
    odd = both(call("a", call_id=""), call("b", call_id="call_1"), call("c"), call("d", call_id=""))
    reply = await ScriptedModel([odd]).complete(request())
    assert [made.id for made in reply.calls] == ["", "call_1", "call_2", ""]


async def test_a_new_model_for_an_old_conversation_does_not_repeat_its_ids() -> None:
    made = {"id": "call_1", "type": "function", "function": {"name": "a", "arguments": "{}"}}
    history = Request(
        (
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": None, "tool_calls": [made]},
            {"role": "tool", "tool_call_id": "call_1", "content": "ok"},
        )
    )
    reply = await ScriptedModel([call("b")]).complete(history)
    assert reply.calls[0].id == "call_2"


# What it was asked.


async def test_requests_are_recorded_as_they_were() -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "Hello"}]}
    model = ScriptedModel(["one"])
    await model.complete(Request((message,), max_output_tokens=9, purpose="summary"))
    message["content"] = "changed later"
    (recorded,) = model.requests
    assert recorded.messages == ({"role": "user", "content": [{"type": "text", "text": "Hello"}]},)
    assert (recorded.max_output_tokens, recorded.purpose) == (9, "summary")
    assert json.loads(json.dumps(recorded.messages)) == [*recorded.messages]


async def test_recorded_requests_cannot_be_changed_but_a_copy_can() -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "Hello"}]}
    model = ScriptedModel(["one"])
    await model.complete(Request((message,)))
    recorded: Any = model.requests[0].messages[0]
    with pytest.raises(TypeError, match="cannot be changed"):
        recorded["content"] = "other"
    with pytest.raises(TypeError, match="cannot be changed"):
        recorded["content"].append("more")
    with pytest.raises(TypeError, match="cannot be changed"):
        recorded["content"][0].update(text="other")
    loose = copy.deepcopy(recorded)
    loose["content"].append("more")
    assert len(recorded["content"]) == 1


async def test_a_function_cannot_change_the_request_of_its_caller() -> None:
    def meddle(asked: Request) -> str:
        message: Any = asked.messages[0]
        message["content"] = "mine"
        return "never said"

    with pytest.raises(TypeError, match="cannot be changed"):
        await ScriptedModel(meddle).complete(request())


async def test_an_illegal_request_fails_at_once_and_is_recorded() -> None:
    model = ScriptedModel(["one"])
    with pytest.raises(IllegalRequest, match=r"anthropic\.blank_text"):
        await model.complete(request(" "))
    assert len(model.requests) == 1
    assert model.remaining == 1


async def test_strictness_is_chosen_by_provider() -> None:
    model = ScriptedModel(["one"], strict=["openai", "gemini"])
    assert (await model.complete(request(" "))).content == "one"
    with pytest.raises(IllegalRequest):
        await model.complete(Request(()))
    assert (await ScriptedModel(["one"], strict=()).complete(Request(()))).content == "one"


async def test_the_runtimes_own_rules_hold_too() -> None:
    twice = Request(({"role": "user", "content": "a"}, {"role": "user", "content": "b"}))
    with pytest.raises(IllegalRequest, match=r"runtime\.adjacent_user"):
        await ScriptedModel(["one"]).complete(twice)


async def test_a_request_above_the_window_is_refused() -> None:
    model = ScriptedModel(["one"], context_window=50)
    with pytest.raises(ContextTooLong, match="the window holds 50"):
        await model.complete(request("x" * 400))
    assert model.remaining == 1
    assert (await model.complete(request("x"))).content == "one"


async def test_the_window_counts_as_it_is_told_to() -> None:
    model = ScriptedModel(["one"], context_window=1, counter=lambda asked: len(asked.messages))
    assert (await model.complete(request("x" * 400))).content == "one"


# Usage.


async def test_usage_is_a_quarter_of_the_characters() -> None:
    reply = await ScriptedModel([text("12345")]).complete(request())
    assert reply.usage == Usage(
        calls=1, prompt_tokens=estimated_tokens(request()), completion_tokens=2
    )
    assert estimated_tokens(request("x" * 400)) == estimated_tokens(request("")) + 100


async def test_usage_may_be_left_out_or_computed() -> None:
    assert (await ScriptedModel(["one"], usage=None).complete(request())).usage is None
    own = Usage(calls=1, prompt_tokens=7)
    counted = ScriptedModel(["one"], usage=lambda asked, reply: own)
    assert (await counted.complete(request())).usage == own


async def test_a_replys_own_usage_is_kept() -> None:
    own = Usage(calls=1, prompt_tokens=7, cached_tokens=5)
    reply = await ScriptedModel([Reply("one", usage=own)]).complete(request())
    assert reply.usage == own


# Streams.

REPLIES = st.builds(
    both,
    st.builds(text, st.text(max_size=60), reasoning=st.text(max_size=60)),
    st.builds(call, st.just("search"), query=st.text(max_size=60)),
    st.builds(raw_call, st.just("send_message"), st.text(max_size=60)),
)


@given(reply=REPLIES, seed=st.integers())
def test_a_stream_is_the_same_reply_in_parts(reply: Reply, seed: int) -> None:
    whole = asyncio.run(ScriptedModel([reply], strict=()).complete(request()))
    parts = asyncio.run(parts_of(ScriptedModel([reply], strict=(), seed=seed), request()))
    assert parts[-1] == whole
    assert put_together(parts) == whole


async def test_streams_are_split_within_words_and_differently_by_seed() -> None:
    reply = both(text("a longer text " * 5), call("search", query="q" * 50))
    plays = [await parts_of(ScriptedModel([reply], seed=seed), request()) for seed in range(9)]
    assert len({tuple(map(repr, parts)) for parts in plays}) == len(plays)
    assert plays[0] == await parts_of(ScriptedModel([reply], seed=0), request())
    assert all(len(parts) > 10 for parts in plays)


async def test_a_name_comes_whole_and_once_wherever_it_stands() -> None:
    places = set()
    for seed in range(30):
        parts = await parts_of(ScriptedModel([say("Hello there")], seed=seed), request())
        calls = [part for part in parts if isinstance(part, CallPart)]
        named = [index for index, part in enumerate(calls) if part.name]
        assert [calls[index].name for index in named] == ["send_message"]
        places.add((named[0], bool(calls[0].arguments)))
    assert places == {(0, False), (0, True), (1, True)}


async def test_a_call_without_arguments_still_streams_its_name() -> None:
    parts = await parts_of(ScriptedModel([raw_call("search", "")]), request())
    assert parts[0] == CallPart(0, "search", "")
    assert len(parts) == 2


async def test_a_stream_checks_and_records_like_a_whole_reply() -> None:
    model = ScriptedModel([ModelUnavailable("busy")])
    with pytest.raises(IllegalRequest):
        await parts_of(model, Request(()))
    with pytest.raises(ModelUnavailable):
        await parts_of(model, request())
    assert len(model.requests) == 2


@pytest.mark.parametrize("after", [0, 1, 3])
async def test_a_stream_breaks_after_so_many_parts(after: int) -> None:
    model = ScriptedModel(["a longer text " * 5] * 2, fail_after=after)
    for _ in range(2):
        assert len(await heard_until(ModelUnavailable, model)) == after


async def test_a_broken_stream_never_ends_with_its_reply() -> None:
    heard = await heard_until(ModelUnavailable, ScriptedModel(["short"], fail_after=1_000))
    assert "".join(part.text for part in heard if isinstance(part, TextPart)) == "short"
    assert not any(isinstance(part, Reply) for part in heard)


async def test_one_reply_may_break_off_and_the_next_be_whole() -> None:
    limited = RateLimited("slow down")
    model = ScriptedModel([cut(say("Hello there"), 2, limited), cut("gone"), say("Hello there")])
    assert len(await heard_until(RateLimited, model)) == 2
    with pytest.raises(ModelUnavailable):
        await model.complete(request())
    assert isinstance((await parts_of(model, request()))[-1], Reply)


def test_a_stream_cannot_break_before_its_beginning() -> None:
    with pytest.raises(InvalidInput):
        cut("x", after=-1)
