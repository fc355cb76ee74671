"""The offline model learns, corrects, searches, shares and pages with the tools offered, and stops.

`Bench` plays the runtime around it: it compiles requests from the shipped templates, runs the calls
on plain dictionaries and goes on as the styles say.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedaemon.llm.offline import OfflineModel
from pagedaemon.llm.offline.digest import summary_of
from pagedaemon.llm.offline.facts import facts
from pagedaemon.llm.offline.view import hits, view
from pagedaemon.llm.offline.words import best_matching, is_question, plain, stem
from pagedaemon.llm.protocol import CallPart, Reply, Request, TextPart
from pagedaemon.resources import Prompts

PROMPTS = Prompts()
MODEL = OfflineModel(PROMPTS)
EDITS = {
    "memgpt": {
        "core_memory_append": ["label", "content"],
        "core_memory_replace": ["label", "old_content", "new_content"],
    },
    "edit": {
        "memory_insert": ["label", "new_str", "insert_line"],
        "memory_replace": ["label", "old_str", "new_str"],
        "memory_rethink": ["label", "new_memory"],
    },
}
COMMON = {
    "archival_memory_insert": ["content"],
    "archival_memory_search": ["query", "page"],
    "conversation_search": ["query", "roles", "page"],
    "page_out": ["through", "note"],
}
TYPES = {"page": "integer", "through": "integer", "insert_line": "integer", "roles": "array"}
STYLES = [(style, tools) for style in ("memgpt", "native") for tools in ("memgpt", "edit")]
Wire = dict[str, Any]


@dataclass
class Bench:
    """A runtime of dictionaries around the model, with at most 12 steps a turn."""

    style: str = "memgpt"
    tool_set: str = "memgpt"
    blocks: dict[str, str] = field(default_factory=lambda: {"human": "Name: unknown"})
    limit: int = 4000
    read_only: tuple[str, ...] = ()
    archive: list[str] = field(default_factory=list)
    without: tuple[str, ...] = ()
    extra_tools: dict[str, list[str]] = field(default_factory=dict)
    fail: set[str] = field(default_factory=set)
    messages: list[Wire] = field(default_factory=list)
    recall: list[str] = field(default_factory=list)
    made: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    replies: list[str] = field(default_factory=list)

    def tools(self) -> tuple[Wire, ...]:
        """The offered tools in the wire shape."""
        named = {**EDITS[self.tool_set], **COMMON, **self.extra_tools}
        if self.style == "memgpt":
            named = {"send_message": ["message"], **named}
        return tuple(self.wire(name, named[name]) for name in named if name not in self.without)

    def wire(self, name: str, parameters: list[str]) -> Wire:
        properties: Wire = {key: {"type": TYPES.get(key, "string")} for key in parameters}
        if self.style == "memgpt":
            properties = {"inner_thoughts": {"type": "string"}, **properties}
            if name != "send_message":
                properties["request_heartbeat"] = {"type": "boolean"}
        optional = ("roles", "page", "insert_line")
        required = [key for key in properties if key not in optional]
        schema = {"type": "object", "properties": properties, "required": required}
        return {"type": "function", "function": {"name": name, "parameters": schema}}

    def request(self) -> Request:
        shown = [
            {
                "id": f"block-{label}",
                "label": label,
                "description": "",
                "value": value,
                "limit": self.limit,
                "size": len(value),
                "read_only": label in self.read_only,
                "mark": f"[/block-{label}]",
            }
            for label, value in self.blocks.items()
        ]
        base = PROMPTS.render(
            f"system/{self.style}",
            agent_name="Ada",
            tool_set=self.tool_set,
            heartbeats="assisted",
        )
        system = f"{base}\n\n{PROMPTS.render('system/blocks', blocks=shown)}"
        wire = ({"role": "system", "content": system}, *self.messages)
        return Request(wire, self.tools())

    def event(self, text: str) -> None:
        """A user-role event; joined to a user message before it, as on the wire."""
        if self.messages and self.messages[-1]["role"] == "user":
            text = f"{self.messages.pop()['content']}\n\n{text}"
        self.messages.append({"role": "user", "content": text})

    def heartbeat(self, reason: str, tools: list[str] | None = None) -> None:
        reply_tool = self.style == "memgpt"
        self.event(
            PROMPTS.render(
                "events/heartbeat",
                reason=reason,
                time="now",
                tools=tools or [],
                reply_tool=reply_tool,
            )
        )

    def alert(self, newest: int) -> None:
        numbers = {"messages": newest, "oldest": 1, "newest": newest}
        self.event(
            PROMPTS.render("events/pressure", percent=71, evict_percent=90, time="now", **numbers)
        )

    async def send(self, text: str, number: int = 1) -> str:
        """A person's message, answered; what was said in that turn."""
        self.recall.append(text)
        status = PROMPTS.render(
            "events/status",
            number=number,
            author=None,
            time="Monday 2026-11-30 15:53:31 +00:00 (UTC)",
            recall_count=len(self.recall),
            archival_count=len(self.archive),
            blocks=[],
            percent=10,
        )
        self.event(f"{text}\n\n{status}")
        return await self.run()

    async def run(self) -> str:
        before = len(self.replies)
        for _ in range(12):
            reply = await MODEL.complete(self.request())
            if not self.take(reply):
                return "\n".join(self.replies[before:])
            self.heartbeat("requested")
        raise AssertionError(f"the turn did not end: {self.made}")

    def take(self, reply: Reply) -> bool:
        """Stores a reply with its results; whether the agent thinks again."""
        content = reply.content or None
        wire: Wire = {"role": "assistant", "content": content}
        if reply.calls:
            wire["tool_calls"] = [
                {"id": call.id, "function": {"name": call.name, "arguments": call.arguments}}
                for call in reply.calls
            ]
        self.messages.append(wire)
        if content is not None:
            self.replies.append(content)
        again = False
        for call in reply.calls:
            arguments = json.loads(call.arguments)
            again |= bool(arguments.get("request_heartbeat", self.style == "native"))
            self.made.append((call.name, arguments))
            result = self.result(call.name, arguments)
            self.messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        return again

    def result(self, tool: str, arguments: dict[str, Any]) -> str:
        if tool in self.fail:
            return PROMPTS.render("results/failed", tool=tool, error="told to")
        if tool == "send_message":
            self.replies.append(arguments["message"])
            return PROMPTS.render("results/sent")
        if tool.endswith("_search"):
            source = self.recall if tool == "conversation_search" else self.archive
            return self.found(tool, arguments["query"], source)
        if tool == "archival_memory_insert":
            self.archive.append(arguments["content"])
            return PROMPTS.render(
                "results/archived", id="passage-1", existing=False, near=[], more=0
            )
        if tool == "page_out":
            return PROMPTS.render("results/paged_out", messages=2, through=arguments["through"])
        if tool not in {**EDITS["memgpt"], **EDITS["edit"]}:
            return "done"
        return self.edited(arguments)

    def edited(self, arguments: dict[str, Any]) -> str:
        label = arguments["label"]
        value = self.blocks[label]
        new = arguments.get("new_content") or arguments.get("new_str") or arguments["content"]
        old = arguments.get("old_content") or arguments.get("old_str")
        if old is None:
            value = f"{value}\n{new}" if value else new
        else:
            assert value.count(old) == 1
            value = value.replace(old, new)
        assert len(value) <= self.limit
        self.blocks[label] = value
        return PROMPTS.render(
            "results/edited", label=label, size=len(value), limit=4000, version=2, operation="x"
        )

    def found(self, tool: str, query: str, source: list[str]) -> str:
        words = {word.lower() for word in query.split()}
        texts = [text for text in source if words & set(re.findall(r"\w+", text.lower()))]
        if not texts:
            return PROMPTS.render(
                "results/nothing_found",
                query=query,
                total_searched=len(source),
                filters=[],
                pending=0,
            )
        shown: list[Wire] = [
            {"ref": "1", "id": "passage-1", "date": "2026-11-28", "who": "user", "text": text}
            | {"kept": None, "tags": [], "source": "", "document": None, "position": None}
            for text in texts
        ]
        name = "results/messages" if tool == "conversation_search" else "results/passages"
        paging = {"first": 1, "total": len(shown), "next_page": None, "timezone": "UTC"}
        return PROMPTS.render(name, query=query, hits=shown, **paging)

    @property
    def called(self) -> list[str]:
        """The tools called so far, replies left out."""
        return [tool for tool, _ in self.made if tool != "send_message"]


# -- statements


@pytest.mark.parametrize(("style", "tool_set"), STYLES)
async def test_a_name_and_a_team_rule_are_learnt_in_every_style(style: str, tool_set: str) -> None:
    bench = Bench(style, tool_set)
    bench.blocks["team"] = "We ship on Fridays."
    said = await bench.send("Hi, I'm Lin. From now on we ship on Thursdays.")
    assert bench.blocks == {"human": "Name: Lin", "team": "We ship on Thursdays."}
    assert len(bench.replies) == 1
    assert "Name: Lin. We ship on Thursdays." in said


@pytest.mark.parametrize(("style", "tool_set"), STYLES)
async def test_what_was_learnt_is_answered_from_core_memory(style: str, tool_set: str) -> None:
    bench = Bench(style, tool_set)
    await bench.send("My name is Lin and I live in Berlin.")
    made = len(bench.called)
    assert "Lives in: Berlin" in await bench.send("Where do I live?")
    assert "Name: Lin" in await bench.send("What's my name?")
    everything = await bench.send("What do you remember about me?")
    assert "Name: Lin" in everything
    assert "Lives in: Berlin" in everything
    assert len(bench.called) == made


async def test_an_outdated_fact_is_replaced_and_a_like_is_added() -> None:
    bench = Bench()
    bench.blocks["human"] = "Name: Lin\nLives in: Berlin\nLikes: green tea"
    await bench.send("I moved to Lisbon. I also like black tea!")
    assert (
        bench.blocks["human"] == "Name: Lin\nLives in: Lisbon\nLikes: green tea\nLikes: black tea"
    )


async def test_what_is_known_is_not_written_again() -> None:
    bench = Bench()
    bench.blocks["human"] = "Name: Lin"
    assert "had that already" in await bench.send("My name is Lin.")
    assert bench.called == []


async def test_another_agent_reads_the_shared_rule_from_its_own_prompt() -> None:
    ada, bob = Bench(), Bench()
    ada.blocks["team"] = ""
    await ada.send("We meet at ten on Mondays.")
    bob.blocks["team"] = ada.blocks["team"]
    assert "We meet at ten on Mondays." in await bob.send("When do we meet?")


async def test_a_named_block_gets_the_statement() -> None:
    bench = Bench()
    bench.blocks["project"] = "The deadline is 3 May."
    await bench.send("Remember for the project that the deadline is 1 June.")
    assert bench.blocks["project"] == "The deadline is 1 June."
    assert bench.blocks["human"] == "Name: unknown"


async def test_a_read_only_block_is_left_alone() -> None:
    bench = Bench(read_only=("team",))
    bench.blocks["team"] = "We ship on Fridays."
    await bench.send("From now on we ship on Thursdays.")
    assert bench.blocks["team"] == "We ship on Fridays."
    assert "We ship on Thursdays." in bench.blocks["human"]


async def test_what_does_not_fit_goes_to_the_archive() -> None:
    bench = Bench(limit=20)
    said = await bench.send("I live in Llanfairpwllgwyngyll.")
    assert bench.archive == ["Lives in: Llanfairpwllgwyngyll"]
    assert "archival memory" in said


async def test_a_refused_edit_is_tried_another_way_and_then_told() -> None:
    bench = Bench(fail={"core_memory_replace"})
    await bench.send("My name is Lin.")
    assert bench.called == ["core_memory_replace", "core_memory_append"]
    assert bench.blocks["human"] == "Name: unknown\nName: Lin"
    bench = Bench(fail={"core_memory_replace", "core_memory_append"})
    assert "could not save this: Name: Lin." in await bench.send("My name is Lin.")
    assert bench.called == ["core_memory_replace", "core_memory_append"]


async def test_a_statement_and_a_question_in_one_message_are_both_served() -> None:
    bench = Bench()
    bench.blocks["team"] = "We ship on Fridays."
    said = await bench.send("I'm Lin. When do we ship?")
    assert "Name: Lin" in said
    assert "We ship on Fridays." in said


@pytest.mark.parametrize(
    "text",
    ["Thank you!", "I'm tired", "We went to the park.", "If I live in Rome one day, good.", "哈哈"],
)
async def test_small_talk_leaves_no_trace(text: str) -> None:
    bench = Bench()
    before = dict(bench.blocks)
    assert "rule" in await bench.send(text)
    assert bench.called == []
    assert bench.blocks == before


async def test_passwords_are_not_kept() -> None:
    bench = Bench()
    await bench.send("Remember that my password is hunter2.")
    assert bench.called == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Hello Ada, my name is Zoë de la Cruz.", ["Name: Zoë de la Cruz"]),
        ("Please call me Max", ["Name: Max"]),
        ("I'm Lin from Oslo.", ["Name: Lin", "From: Oslo"]),
        ("I\u2019m Lin", ["Name: Lin"]),
        ("I'm German.", ["Is: German"]),
        ("I am a nurse and I work at Charité.", ["Is: a nurse", "Works at: Charité"]),
        ("I'm 34 years old", ["Age: 34"]),
        ("My dog is called Rex.", ["Dog: Rex"]),
        ("My favourite colour is blue now", ["Favourite colour: blue"]),
        ("I don't like coriander.", ["Dislikes: coriander"]),
        ("I like swimming, and I'm allergic to nuts.", ["Likes: swimming", "Allergic to: nuts"]),
        ("I have two cats.", ["Has: two cats"]),
        ("Remember that the spare key is under the pot.", ["The spare key is under the pot."]),
        ("Can you remember that I prefer trains?", ["Prefers: trains"]),
        ("From now on, always answer in French.", ["Always answer in French."]),
        ("Our office is in Graz.", ["Our office is in Graz."]),
        ("Is my name Lin? My name is Lin.", ["Name: Lin"]),
        ("I live in Rome. No, I live in Milan.", ["Lives in: Milan"]),
        ("Remember when we met?", []),
        ("I have a question.", []),
        ("I'm looking for a hotel", []),
        ("I like it.", []),
        ("My question is simple.", []),
    ],
)
def test_statements_become_lines(text: str, lines: list[str]) -> None:
    assert [fact.line for fact in facts(plain(text), ())] == lines


# -- questions


@pytest.mark.parametrize(("style", "tool_set"), STYLES)
async def test_older_words_are_found_by_conversation_search(style: str, tool_set: str) -> None:
    bench = Bench(style, tool_set, recall=["The spare key hangs behind the blue door."])
    said = await bench.send("Where did we hide the spare key?")
    assert '2026-11-28: "The spare key hangs behind the blue door."' in said
    assert bench.called == ["conversation_search"]
    assert bench.made[0][1]["query"] == "hide spare key"
    assert bench.made[0][1]["roles"] == ["user"]
    assert "Where did we hide" not in said


async def test_the_archive_is_searched_when_messages_have_nothing() -> None:
    bench = Bench(archive=["Contract number 4711 was signed in Graz."])
    said = await bench.send("What was the contract number?")
    assert bench.called == ["conversation_search", "archival_memory_search"]
    assert "In archival memory I found" in said
    assert "4711" in said


async def test_nothing_found_is_said_honestly() -> None:
    bench = Bench()
    said = await bench.send("Who won the chess match?")
    assert bench.called == ["conversation_search", "archival_memory_search"]
    assert "no memory of that" in said
    assert "earlier messages, archival memory" in said


async def test_a_failing_search_is_not_repeated() -> None:
    bench = Bench(fail={"conversation_search", "archival_memory_search"})
    assert "no memory of that" in await bench.send("Who won the chess match?")
    assert bench.called == ["conversation_search", "archival_memory_search"]


@pytest.mark.parametrize("text", ["What are you?", "Are you ChatGPT?", "Tell me about yourself"])
async def test_it_says_what_it_is(text: str) -> None:
    bench = Bench()
    assert "not a language model" in await bench.send(text)
    assert bench.called == []


async def test_a_greeting_is_answered_by_name() -> None:
    bench = Bench()
    bench.blocks["human"] = "Name: Lin"
    assert (await bench.send("Good morning!")).startswith("Hello, Lin.")


# -- pressure


def queue(bench: Bench) -> None:
    for number, text in [(1, "The deadline is 14 May."), (3, "Nice."), (5, "Anna leads it.")]:
        status = f"[status: message {number} · now · window 60% full]"
        bench.event(f"{text}\n\n{status}")
        bench.messages.append({"role": "assistant", "content": "Fine."})


@pytest.mark.parametrize("style", ["memgpt", "native"])
async def test_under_pressure_it_saves_pages_out_and_then_answers(style: str) -> None:
    bench = Bench(style)
    queue(bench)
    bench.recall.append("x")
    bench.event("My name is Lin.\n\n[status: message 21 · now · window 71% full]")
    bench.alert(newest=22)
    said = await bench.run()
    assert bench.called == ["archival_memory_insert", "page_out", "core_memory_replace"]
    assert "The deadline is 14 May." in bench.archive[0]
    assert "Nice" not in bench.archive[0]
    paged = bench.made[1][1]
    assert paged["through"] == 11
    assert "The deadline is 14 May." in paged["note"]
    assert "Name: Lin" in said


@pytest.mark.parametrize("style", ["memgpt", "native"])
async def test_pressure_after_the_answer_ends_without_a_second_one(style: str) -> None:
    bench = Bench(style)
    queue(bench)
    await bench.send("Hello", number=21)
    answers = len(bench.replies)
    bench.alert(newest=23)
    await bench.run()
    assert bench.called == ["archival_memory_insert", "page_out"]
    expected = answers if style == "memgpt" else answers + 1
    assert len(bench.replies) == expected


async def test_the_newest_words_are_never_paged_out() -> None:
    bench = Bench()
    bench.event("Where is Anna?\n\n[status: message 3 · now · window 71% full]")
    bench.alert(newest=90)
    await bench.run()
    assert bench.made[0][0] == "page_out"
    assert bench.made[0][1]["through"] == 2


async def test_an_alert_without_tools_for_it_is_passed_over() -> None:
    bench = Bench(without=("page_out", "archival_memory_insert"))
    queue(bench)
    bench.event("Hello\n\n[status: message 21 · now · window 71% full]")
    bench.alert(newest=22)
    assert "offline rule model" in await bench.run()
    assert bench.called == []


async def test_refused_paging_is_not_repeated() -> None:
    bench = Bench(fail={"page_out", "archival_memory_insert"})
    queue(bench)
    bench.event("Hello\n\n[status: message 21 · now · window 71% full]")
    bench.alert(newest=22)
    await bench.run()
    assert bench.called == ["archival_memory_insert", "page_out"]


# -- the seam


async def test_a_required_tool_without_arguments_is_called_and_no_other_is_guessed() -> None:
    bench = Bench(extra_tools={"log_visit": [], "pay": ["amount"]})
    await bench.send("Hello")
    bench.heartbeat("required", ["log_visit", "pay"])
    await bench.run()
    assert bench.called == ["log_visit"]


async def test_a_failing_reply_tool_is_given_up_for_plain_text() -> None:
    bench = Bench(fail={"send_message"})
    await bench.send("Hello")
    bench.heartbeat("failed", ["send_message"])
    assert "offline rule model" in await bench.run()
    assert [tool for tool, _ in bench.made] == ["send_message"]


async def test_control_arguments_come_only_where_the_schema_has_them() -> None:
    memgpt, native = Bench("memgpt"), Bench("native")
    for bench in (memgpt, native):
        await bench.send("My name is Lin.")
    edit, reply = memgpt.made[0][1], memgpt.made[-1][1]
    assert next(iter(edit)) == "inner_thoughts"
    assert edit["inner_thoughts"]
    assert edit["request_heartbeat"] is True
    assert set(reply) == {"inner_thoughts", "message"}
    assert set(native.made[0][1]) == {"label", "old_content", "new_content"}


async def test_it_answers_without_any_tool() -> None:
    request = Request(({"role": "user", "content": "My name is Lin. Who am I?"},))
    reply = await MODEL.complete(request)
    assert reply.calls == ()
    assert reply.finish == "stop"
    assert reply.usage is None
    assert "could not save this: Name: Lin." in reply.content


async def test_calls_have_ids_of_their_own() -> None:
    bench = Bench()
    bench.blocks["team"] = ""
    await bench.send("My name is Lin. We meet at ten on Mondays.")
    await bench.send("Where is Anna?")
    ids = [call["id"] for message in bench.messages for call in message.get("tool_calls", ())]
    assert len(ids) == len(set(ids)) == 6


@pytest.mark.parametrize("style", ["memgpt", "native"])
@pytest.mark.parametrize("text", ["Hello", "My name is Lin. I like tea.", "Who won?"])
async def test_streaming_is_the_same_reply_in_parts(style: str, text: str) -> None:
    bench = Bench(style)
    bench.event(text)
    whole = await MODEL.complete(bench.request())
    parts = [part async for part in MODEL.stream(bench.request())]
    assert parts[-1] == whole
    assert len(parts) > 3
    assert "".join(part.text for part in parts if isinstance(part, TextPart)) == whole.content
    for index, call in enumerate(whole.calls):
        of_call = [part for part in parts if isinstance(part, CallPart) and part.index == index]
        assert "".join(part.name for part in of_call) == call.name
        assert "".join(part.arguments for part in of_call) == call.arguments


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=60),
            st.sampled_from(
                [
                    "My name is Lin.",
                    "Who am I?",
                    "we ship on {x}",
                    '{"type": "heartbeat"}',
                    "- a\n  b",
                ]
            ),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(STYLES),
)
async def test_whatever_is_said_every_turn_ends_with_one_answer(
    texts: list[str], style: tuple[str, str]
) -> None:
    bench = Bench(*style)
    for number, text in enumerate(texts, 1):
        assert await bench.send(text, number=number)
    assert len(bench.replies) == len(texts)


# -- reading


def test_blocks_are_read_to_the_letter() -> None:
    bench = Bench()
    value = "[block team · 0/1 characters · block-x]\nfake\n[/block-x]\n\n"
    bench.blocks = {"human": value, "team": "", "notes": "last"}
    assert {block.label: block.value for block in view(bench.request()).blocks} == bench.blocks


def test_events_summary_and_status_are_told_from_words() -> None:
    bench = Bench()
    bench.event(
        PROMPTS.render(
            "events/summary",
            text="Lin said: My name is Lin.",
            messages=9,
            first_date="a",
            last_date="b",
            by="note",
        )
    )
    bench.event("First\nline\n\n[status: message 7 · now · window 1% full]")
    bench.event('{"type": "note"}\n\n[status: message 8 · now · window 1% full]')
    bench.alert(newest=8)
    seen = view(bench.request())
    assert (seen.said.text, seen.said.number) == ('{"type": "note"}', 8)
    assert [getattr(item, "text", None) for item in seen.earlier] == ["First\nline"]
    assert seen.alert is not None
    assert seen.alert["newest"] == 8


def test_hits_are_read_back_from_a_result() -> None:
    shown = {"ref": "12", "date": "2026", "who": "user", "text": "one\n- two\n  three"}
    result = PROMPTS.render(
        "results/messages",
        query="- q",
        timezone="UTC",
        hits=[shown, shown],
        first=1,
        total=7,
        next_page=1,
    )
    assert [(hit.head, hit.text) for hit in hits(result)] == [
        (("12", "2026", "user"), "one\n- two\n  three")
    ] * 2


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Where do I live", True),
        ("do you remember my dog", True),
        ("Tell me what we agreed on.", True),
        ("你好吗\uff1f", True),
        ("What a day!", False),
        ("When I was young I lived in Rome.", False),
        ("Have a nice day.", False),
    ],
)
def test_questions_are_told_from_statements(text: str, asks: bool) -> None:
    assert is_question(text) is asks


def test_endings_do_not_matter_for_matching() -> None:
    assert len({stem(word) for word in ("ship", "ships", "shipped", "shipping")}) == 1
    assert len({stem(word) for word in ("live", "lives", "living", "lived")}) == 1
    assert best_matching("Where do I live?", ["Name: Lin", "Lives in: Rome"]) == ["Lives in: Rome"]
    assert best_matching("Where is the spare key of the boat?", ["The boat is red."]) == []


# -- summaries


async def test_a_summary_keeps_notes_names_and_numbers_and_drops_small_talk() -> None:
    entries = [
        {"number": 3, "date": "2026-11-01 10:00", "who": "user", "text": "Hi.\nIt rains."},
        {"number": 4, "date": "2026-11-01 10:01", "who": "user", "text": "Anna pays 40 euros."},
        {"number": 5, "date": "2026-11-01 10:02", "who": "Ada", "text": "Fine. Maybe in May."},
    ]
    transcript = PROMPTS.render("summary/transcript", entries=entries)
    request = PROMPTS.render(
        "summary/request", previous="Lin lives in Rome.", transcript=transcript, max_words=60
    )
    wire = (
        {"role": "system", "content": PROMPTS.render("summary/system")},
        {"role": "user", "content": request},
    )
    reply = await MODEL.complete(Request(wire, purpose="summary"))
    assert reply.content == (
        "Lin lives in Rome.\n"
        "2026-11-01 10:01 user: Anna pays 40 euros.\n"
        "2026-11-01 10:02 Ada: Maybe in May."
    )


def test_a_summary_keeps_to_its_words_and_is_never_empty() -> None:
    request = PROMPTS.render(
        "summary/request", previous="", transcript="#1 today user: " + "word " * 90, max_words=20
    )
    assert len(summary_of(request).split()) == 20
    folded = PROMPTS.render(
        "summary/request",
        previous="Lin lives in Rome.",
        transcript="#1 today user: " + "x " * 50,
        max_words=10,
    )
    assert summary_of(folded).startswith("Lin lives in Rome.")
    assert summary_of("Anything else") == "Anything else"


@pytest.mark.parametrize(("style", "tool_set"), STYLES)
async def test_woken_without_a_message_it_stays_silent_and_answers_the_next(
    style: str, tool_set: str
) -> None:
    bench = Bench(style, tool_set)
    await bench.send("I live in Berlin.")
    bench.heartbeat("woken")
    calls = len(bench.made)
    assert (await bench.run(), len(bench.made)) == ("", calls)
    assert "Berlin" in await bench.send("Where do I live?", number=4)
