"""Histories in common shapes: what is read of them, and what is refused with its place."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from pagedaemon.errors import InvalidInput
from pagedaemon.memory.history import Chat, Reading, Said, dated, from_lines
from pagedaemon.memory.openai_history import from_export

NOW = datetime(2026, 11, 30, tzinfo=UTC)
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def reading(on_error: str = "raise") -> Reading:
    """In a zone that is not UTC."""
    return Reading(ZoneInfo("Asia/Tokyo"), on_error)


def lines(*records: object) -> list[Said]:
    """What these lines say."""
    [chat] = from_lines([json.dumps(record) for record in records], "c", "f", reading())
    return chat.said


@pytest.mark.parametrize(
    ("given", "instant"),
    [
        ({"created_at": "2024-05-01T12:00:00Z"}, NOON),
        ({"time": "2024-05-01T14:00:00+02:00"}, NOON),
        ({"timestamp": "2024-05-01 21:00"}, NOON),
        ({"created_at": NOON.timestamp()}, NOON),
        ({"create_time": int(NOON.timestamp())}, NOON),
        ({"created_at": None, "time": None}, None),
        ({}, None),
    ],
)
def test_times_are_read_in_every_usual_spelling(
    given: dict[str, Any], instant: datetime | None
) -> None:
    assert lines({"role": "user", "content": "x", **given}) == [Said("user", "x", instant)]


def test_roles_authors_parts_and_calls_are_read() -> None:
    said = lines(
        {"role": "human", "text": "one", "author": "Lin"},
        {
            "role": "ai",
            "content": ["two", {"type": "text", "text": "three"}, {"type": "image_url"}],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"function": {"name": "look", "arguments": '{"at": 1}'}}],
        },
        {"role": "tool", "content": "4", "name": "look", "tool_call_id": "call_1"},
    )
    assert said == [
        Said("user", "one", author="Lin"),
        Said("assistant", "two\nthree"),
        Said("assistant", 'look({"at": 1})'),
        Said("tool", "4", tool="look", call_id="call_1"),
    ]


def test_instructions_and_messages_without_text_are_counted_as_skipped() -> None:
    how = reading()
    records: list[object] = [
        {"role": "system", "content": "be kind"},
        {"role": "developer", "content": "be kind"},
        {"role": "user", "content": " "},
        {"role": "user", "content": [{"type": "image_url"}]},
        {"role": "user", "content": "hello"},
    ]
    [chat] = from_lines([*records, "", " \n"], "c", "f", how)
    assert [said.text for said in chat.said] == ["hello"]
    assert how.skipped == 4


BAD = [
    "{",
    "[" * 100_000,
    "5",
    '{"content": "x"}',
    '{"role": "robot", "content": "x"}',
    '{"role": ["user"], "content": "x"}',
    '{"role": "user", "content": 5}',
    '{"role": "user", "content": "a\\u0000b"}',
    '{"role": "user", "content": "\\ud800"}',
    '{"role": "user", "content": "x", "time": "yesterday"}',
    '{"role": "user", "content": "x", "time": 1714564800000}',
    '{"role": "user", "content": "x", "time": true}',
    '{"role": "user", "content": "x", "time": NaN}',
    '{"role": "user", "content": "x", "author": {"id": 1}}',
    '{"role": "user", "content": "x", "author": "a\\nb"}',
    '{"role": "user", "content": "x", "tool_calls": 5}',
]


@pytest.mark.parametrize("line", BAD, ids=range(len(BAD)))
def test_a_bad_line_is_named_or_left_out(line: str) -> None:
    good = '{"role": "user", "content": "x"}'
    with pytest.raises(InvalidInput, match=r"^line 3.*nothing was imported"):
        from_lines([good, "", line, good], "c", "f", reading())
    lenient = reading("skip")
    [chat] = from_lines([good, line, good], "c", "f", lenient)
    assert (len(chat.said), lenient.skipped) == (2, 1)


def test_another_way_with_errors_is_refused() -> None:
    with pytest.raises(InvalidInput, match="on_error"):
        reading("ignore")


def test_messages_stand_by_time_and_those_without_follow_what_they_followed() -> None:
    late, early = datetime(2024, 6, 1, tzinfo=UTC), datetime(2024, 5, 1, tzinfo=UTC)
    chat = Chat("c", "f")
    chat.said = [
        Said("user", "before any time"),
        Said("user", "late", late),
        Said("assistant", "after late"),
        Said("user", "early", early),
    ]
    messages = dated(chat, "agent-1", NOW)
    assert [(message.text, message.created_at) for message in messages] == [
        ("early", early),
        ("before any time", late),
        ("late", late),
        ("after late", late),
    ]
    chat.said = [Said("user", "no time at all")]
    assert dated(chat, "agent-1", NOW)[0].created_at == NOW


def test_ids_hold_for_one_agent_and_place_and_exact_repeats_get_their_own() -> None:
    def ids(name: str, agent: str, *texts: str) -> list[str]:
        chat = Chat(name, "f")
        chat.said = [Said("user", text, NOON) for text in texts]
        return [message.id for message in dated(chat, agent, NOW)]

    first = ids("c", "a", "hi", "hi", "other")
    assert len(set(first)) == 3
    assert ids("c", "a", "hi", "hi", "other", "new")[:3] == first
    assert not set(first) & set(ids("d", "a", "hi", "hi", "other"))
    assert not set(first) & set(ids("c", "b", "hi", "hi", "other"))


def test_files_that_both_count_from_one_are_both_kept_and_each_only_once() -> None:
    def ids(key: str | None, text: str) -> str:
        chat = Chat("c", "f", key)
        chat.said = [Said("user", text, NOON, key="1")]
        return dated(chat, "a", NOW)[0].id

    assert ids(None, "one") != ids(None, "other")
    assert ids("1", "one") != ids("1", "other")
    assert ids(None, "one") == ids(None, "one")


def chatgpt(**changes: Any) -> dict[str, Any]:
    """A chat as ChatGPT exports it: a tree with an answer that was asked for again."""

    def node(name: str, parent: str | None, role: str, *parts: Any, **message: Any) -> Any:
        content = {"content_type": "text", "parts": list(parts)}
        said = {"id": name, "author": {"role": role}, "create_time": 1.0, "content": content}
        return {"id": name, "parent": parent, "children": [], "message": said | message}

    nodes = {
        "root": {"id": "root", "parent": None, "children": ["system"], "message": None},
        "system": node("system", "root", "system", ""),
        "question": node("question", "system", "user", "Which harbour?"),
        "first": node("first", "question", "assistant", "The old one."),
        "second": node("second", "question", "assistant", "The new one.", create_time=2.5),
        "picture": node("picture", "second", "user", {"content_type": "image_asset_pointer"}),
        "search": node(
            "search",
            "picture",
            "assistant",
            recipient="browser",
            content={"content_type": "code", "text": "tides"},
        ),
        "thought": node(
            "thought", "search", "assistant", content={"content_type": "thoughts", "thoughts": []}
        ),
        "result": node("result", "thought", "tool", "High at noon."),
    }
    nodes["result"]["message"]["author"]["name"] = "browser"
    for key, one in nodes.items():
        one["children"] = [other for other, it in nodes.items() if it["parent"] == key]
    return {
        "title": "The  sea\n",
        "id": "0123456789ab",
        "mapping": nodes,
        "current_node": "result",
        **changes,
    }


def test_of_chatgpts_trees_the_branch_last_shown_is_read() -> None:
    how = reading()
    [chat] = from_export(json.dumps([chatgpt()]), None, "conversations.json", how)
    assert (chat.name, chat.key) == ("The sea (01234567)", "0123456789ab")
    assert [(said.role, said.text, said.key) for said in chat.said] == [
        ("user", "Which harbour?", "question"),
        ("assistant", "The new one.", "second"),
        ("assistant", "browser(tides)", "search"),
        ("tool", "High at noon.", "result"),
    ]
    assert chat.said[1].at == datetime(1970, 1, 1, 0, 0, 2, 500_000, tzinfo=UTC)
    assert chat.said[3].tool == "browser"
    assert how.skipped == 3
    [chat] = from_export(json.dumps([chatgpt(current_node=None)]), "mine", "f", reading())
    assert (chat.name, chat.said[-1].text) == ("mine", "High at noon.")


def test_a_tree_that_bites_its_tail_is_refused_or_left_out() -> None:
    bad = chatgpt()
    bad["mapping"]["question"]["parent"] = "result"
    with pytest.raises(InvalidInput, match="chat 2 is no tree"):
        from_export(json.dumps([chatgpt(), bad]), None, "f", reading())
    lenient = reading("skip")
    assert len(from_export(json.dumps([bad, chatgpt()]), None, "f", lenient)) == 1


HI, HELLO = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([HI, HELLO]),
        json.dumps({"messages": [HI, HELLO]}),
        json.dumps([[HI, HELLO]]),
        json.dumps([{"messages": [HI]}, {"messages": [HELLO]}]),
        json.dumps({"conversations": [{"messages": [HI, HELLO]}]}),
        json.dumps(HI) + "\n" + json.dumps(HELLO) + "\n",
        json.dumps({"messages": [HI]}) + "\n\n" + json.dumps({"messages": [HELLO]}),
    ],
)
def test_lists_of_messages_are_read_in_every_wrapping(text: str) -> None:
    [chat] = from_export(text, None, "f", reading())
    assert (chat.name, [said.text for said in chat.said]) == ("imported", ["hi", "hello"])


def test_the_same_words_in_two_chats_without_a_name_are_both_kept() -> None:
    text = json.dumps([{"messages": [HI, HELLO]}, {"messages": [HI, HELLO]}])
    [chat] = from_export(text, None, "f", reading())
    assert len({message.id for message in dated(chat, "a", NOW)}) == 4


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is no JSON"),
        ("PK\x03\x04", "unpacked"),
        ("5", "holds no chats"),
        ("[5]", "chat 1 is no chat"),
        ('[{"title": "x"}]', "chat 1 is no chat"),
        ('[{"messages": [{"role": "x"}]}]', "chat 1, message 1: role"),
        ('{"role": "user", "content": "x"}\nnothing', "line 2 is no JSON"),
    ],
)
def test_what_is_no_export_is_said(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        from_export(text, None, "f", reading())
