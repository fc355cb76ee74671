"""Replays a real chat of hundreds of turns through an agent with a small window.

    python tests/benchmarks/replay.py [--data FILE] [--conversation NAME | --all] [--json OUT]

The chat is one of LoCoMo's (Maharana et al., ACL 2024; CC BY-NC 4.0), which is not shipped. The
model is a script, a function of the request alone. Shown is whether every request fits its budget,
who paged out what, whether every turn is found again by its own words, and how often
`conversation_search`, called by the agent with a question's words, brings a turn that answers it
into its first page. Ends with status 1 where a promise was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from dialog import CATEGORIES, Dialog, Question, Said, read_dialogs
from figures import SHARED, needed, share, table, write_json

from pagedaemon import AsyncRuntime, Block, Model
from pagedaemon.events import PagedOut
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.handles.recall import RecallHit
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.llm.ranks import encoding
from pagedaemon.llm.tokens import PER_REQUEST, TokenCounter
from pagedaemon.messages import Message, Usage
from pagedaemon.testing import FakeClock, ScriptedModel, call, say, text, view

WINDOW = 8_192
"""Tokens of the model's window."""

PAGE = 5
"""Hits on a page of `conversation_search`."""

BETWEEN_TURNS = 30.0
"""Seconds from one turn of a session to the next."""

ASKED = "Question: "
"""Begins what is asked after the dialog, for the script to know it by."""

_HIT = re.compile(r"^- \S+(?P<number>#\d+) · ", re.MULTILINE)
"""A hit of another conversation than the one that asks: its name, and the number there."""


def answer(request: Request) -> Reply:
    """The scripted agent: listens, sometimes makes room itself, and searches to answer a question.

    Warned that its window fills up, it pages out the older half where the newest message has an
    even number, and leaves it to the runtime where that is odd.
    """
    if request.purpose == "summary":
        return text(_summary(str(request.messages[-1]["content"])))
    seen = view(request)
    alert = _pressure(str(request.messages[-1].get("content") or ""))
    if alert is not None and alert["newest"] % 2 == 0:
        middle = (alert["oldest"] + alert["newest"]) // 2
        return call(
            "page_out",
            through=middle,
            note=f"Small talk and news up to message {middle}; recall has the words.",
            heartbeat="send_message" not in seen.results,
        )
    if seen.last_user.startswith(ASKED) and "conversation_search" not in seen.results:
        query = seen.last_user.removeprefix(ASKED)
        return call("conversation_search", query=query, heartbeat=True)
    return say("Go on.")


def _pressure(content: str) -> dict[str, Any] | None:
    for line in content.split("\n"):
        if line.startswith('{"type": "system_alert"'):
            alert: dict[str, Any] = json.loads(line)
            return alert
    return None


def _summary(request: str) -> str:
    """The first words of every line: what a script can say of a transcript."""
    lines = [" ".join(line.split()[:12]) for line in request.split("\n") if line.strip()]
    return "\n".join(lines)[:1_500]


@lru_cache(maxsize=100_000)
def _tokens(words: str) -> int:
    tokenizer = encoding("o200k_base")
    if tokenizer is None:
        raise SystemExit("the second count needs tiktoken's rank files, which litellm brings")
    return len(tokenizer.encode_ordinary(words))


def independent_count(request: Request) -> int:
    """Tokens of a request by tiktoken and the OpenAI Cookbook's rule, apart from the product's own
    count: 3 a message and its values, 3 to begin the reply, the schemas as compact JSON."""
    total = 3 + _tokens(json.dumps(list(request.tools), ensure_ascii=False, separators=(",", ":")))
    for message in request.messages:
        total += 3 + _tokens(message["role"]) + _tokens(str(message.get("content") or ""))
        for made in message.get("tool_calls") or ():
            total += _tokens(made["function"]["name"]) + _tokens(made["function"]["arguments"])
    return total


@dataclass
class Weighed:
    """The requests of a replay, weighed in two ways as they come."""

    counter: TokenCounter
    budget: int
    requests: int = 0
    summaries: int = 0
    largest: int = 0
    largest_independent: int = 0
    too_large: int = 0
    _known: dict[str, int] = field(default_factory=dict)

    def usage(self, request: Request, reply: Reply) -> Usage:
        """Weighs a request, and reports what a provider would report for it."""
        ours, independent = self._count(request), independent_count(request)
        self.requests += 1
        self.summaries += request.purpose == "summary"
        self.largest = max(self.largest, ours)
        self.largest_independent = max(self.largest_independent, independent)
        self.too_large += max(ours, independent) > self.budget
        said = len(reply.content) + sum(len(made.arguments) for made in reply.calls)
        return Usage(1, independent, said // 4)

    def _count(self, request: Request) -> int:
        tools = self._remembered(request.tools, self.counter.tools_tokens)
        each = (self._remembered(one, self.counter.message_tokens) for one in request.messages)
        return PER_REQUEST + tools + sum(each)

    def _remembered(self, part: Any, measure: Callable[[Any], int]) -> int:
        key = json.dumps(part, ensure_ascii=False)
        if key not in self._known:
            self._known[key] = measure(part)
        return self._known[key]


@dataclass
class Replayed:
    """What a replay came to."""

    figures: dict[str, Any]
    questions: list[dict[str, Any]]
    broken: list[str]


async def replay(dialog: Dialog, folder: Path) -> Replayed:
    """One dialog, from its first turn to its last question."""
    clock = FakeClock(dialog.turns[0].session_at)
    settings = Model("replay", context_window=WINDOW)
    weighed = Weighed(TokenCounter(settings.name), settings.budget)
    scripted = ScriptedModel(answer, usage=weighed.usage)
    runtime = AsyncRuntime(folder, model=settings, models={"replay": scripted}, clock=clock)
    async with runtime:
        agent = await runtime.agents.ensure(
            "listener",
            blocks=[
                Block.load("persona/companion"),
                Block.human("Two people who talk to each other."),
            ],
        )
        began, cpu = time.perf_counter(), time.process_time()
        paged = [event async for event in _tell(agent, dialog.turns, clock)]
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        stored = await _stored(agent)
        found = await _found_again(agent, dialog.turns, stored)
        turn_of = {
            name: turn.id
            for message, turn in zip(stored, dialog.turns, strict=False)
            for name in (message.id, f"#{message.seq}")
        }
        asked = [
            await _ask(agent, question, turn_of)
            for question in dialog.questions
            if question.evidence
        ]
    by = Counter(event.by for event in paged)
    figures = {
        "conversation": dialog.name,
        "turns": len(dialog.turns),
        "seconds": round(seconds, 2),
        "cpu_ms_per_turn": round(1_000 * cpu / len(dialog.turns), 2),
        "requests": weighed.requests,
        "budget_tokens": weighed.budget,
        "requests_over_budget": weighed.too_large,
        "largest_request_tokens": weighed.largest,
        "largest_request_tokens_independent": weighed.largest_independent,
        "page_outs_by_agent": by["agent"],
        "page_outs_by_runtime": by["runtime"],
        "most_page_outs_in_one_turn": max(
            Counter(one.turn_id for one in paged).values(), default=0
        ),
        "messages_paged_out": sum(event.messages for event in paged),
        "summaries_by_model": weighed.summaries,
        **found,
    }
    return Replayed(figures, asked, list(_broken(figures)))


async def _tell(
    agent: AsyncAgent, turns: Sequence[Said], clock: FakeClock
) -> AsyncIterator[PagedOut]:
    session = turns[0].session_at
    for turn in turns:
        if turn.session_at != session:
            session = turn.session_at
            # A session may begin, by its date, before the one before it is over at our pace.
            clock.advance(max(0.0, (session - clock.now()) / timedelta(seconds=1)))
        async for event in agent.stream(turn.text, author=turn.speaker):
            if isinstance(event, PagedOut):
                yield event
        clock.advance(BETWEEN_TURNS)


async def _stored(agent: AsyncAgent) -> list[Message]:
    """Everything people said, as recall has it, oldest first."""
    found: list[Message] = []
    number: int | None = 0
    while number is not None:
        page = await agent.recall.search(roles=["user"], page=number, page_size=500)
        found += [hit.message for hit in page.hits]
        number = page.next_page
    return found[::-1]


async def _found_again(
    agent: AsyncAgent, turns: Sequence[Said], stored: Sequence[Message]
) -> dict[str, Any]:
    """Each turn, looked for by its own words: where it stands among the first ten."""
    places: Counter[int] = Counter()
    wordless = 0
    for turn in turns:
        if not any(letter.isalnum() for letter in turn.text):
            wordless += 1
            continue
        page = await agent.recall.search(turn.text)
        places[_place(page.hits, turn)] += 1
    there = [(message.author, message.text) for message in stored]
    searched = len(turns) - wordless
    return {
        "lost": sum((Counter(map(_said, turns)) - Counter(there)).values()),
        "in_order": there == [_said(turn) for turn in turns],
        "turns_without_words": wordless,
        "found_first": share(places[1], searched),
        "found_on_first_page": share(searched - places[0], searched),
    }


def _said(turn: Said) -> tuple[str | None, str]:
    return turn.speaker, turn.text


def _place(hits: Sequence[RecallHit], turn: Said) -> int:
    """From 1; 0 where it is not among them. The same words said twice are found by either."""
    for place, hit in enumerate(hits, start=1):
        if (hit.message.author, hit.message.text) == _said(turn):
            return place
    return 0


async def _ask(agent: AsyncAgent, question: Question, turn_of: Mapping[str, str]) -> dict[str, Any]:
    """One question, in a conversation of its own that is deleted again: no question is to find
    the one before it."""
    conversation = await agent.conversations.ensure("examination")
    turn = await conversation.send(f"{ASKED}{question.text}", author="examiner")
    results = [
        made.result
        for step in turn.steps
        for made in step.calls
        if made.tool == "conversation_search"
    ]
    await conversation.delete()
    shown = [turn_of.get(match["number"], "") for match in _HIT.finditer("\n".join(results))]
    page = await agent.recall.search(question.text)
    ten = {turn_of.get(hit.id, "") for hit in page.hits}
    return {
        "question": question.text,
        "category": question.category,
        "evidence": list(question.evidence),
        "searched": len(results),
        "shown": shown,
        "evidence_on_first_page": not set(shown).isdisjoint(question.evidence),
        "recall_at_10": share(len(ten.intersection(question.evidence)), len(question.evidence)),
    }


def _broken(figures: Mapping[str, Any]) -> Iterator[str]:
    if figures["requests_over_budget"]:
        yield "a request was over its budget"
    if figures["lost"] or not figures["in_order"]:
        yield "a message was lost or moved"
    if not figures["page_outs_by_agent"] + figures["page_outs_by_runtime"]:
        yield "nothing was paged out"


def _by_category(questions: Sequence[Mapping[str, Any]]) -> list[tuple[str, int, float, float]]:
    """Rows of (category, questions, share with evidence on the first page, mean recall@10)."""
    answerable = [one for one in questions if one["category"] != CATEGORIES[5]]
    groups = [
        (name, [one for one in questions if one["category"] == name])
        for name in CATEGORIES.values()
    ]
    return [
        (
            name,
            len(group),
            share(sum(one["evidence_on_first_page"] for one in group), len(group)),
            sum(one["recall_at_10"] for one in group) / len(group),
        )
        for name, group in [*groups, ("all but adversarial", answerable)]
        if group
    ]


def _chosen(dialogs: Sequence[Dialog], name: str | None, every: bool) -> Sequence[Dialog]:
    if every:
        return dialogs
    if name is None:
        return [max(dialogs, key=lambda dialog: len(dialog.turns))]
    chosen = [dialog for dialog in dialogs if dialog.name == name]
    if not chosen:
        names = ", ".join(dialog.name for dialog in dialogs)
        print(f"there is no conversation {name!r}: the file has {names}", file=sys.stderr)
        raise SystemExit(2)
    return chosen


def main() -> int:
    """Reads the arguments, replays, prints. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", help="LoCoMo's file; default: $PAGEDAEMON_LOCOMO")
    parser.add_argument("--fixes", help="corrected evidence; default: *_fixes.json beside the file")
    parser.add_argument("--conversation", help="its name; default: the longest of the file")
    parser.add_argument("--all", action="store_true", help="every conversation of the file")
    parser.add_argument("--json", help="where the figures are written")
    given = parser.parse_args()
    usual = SHARED / "data" / "locomo_open.json"
    data = needed(given.data, "PAGEDAEMON_LOCOMO", usual, "--data", "the LoCoMo conversations")
    fixes = Path(given.fixes) if given.fixes else data.with_name(f"{data.stem}_fixes.json")
    replays: list[Replayed] = []
    for dialog in _chosen(
        read_dialogs(data, fixes if fixes.is_file() else None), given.conversation, given.all
    ):
        with tempfile.TemporaryDirectory(prefix="replay-") as folder:
            replays.append(asyncio.run(replay(dialog, Path(folder))))
    asked = [one for replayed in replays for one in replayed.questions]
    rows = _by_category(asked)
    names = list(replays[0].figures)
    columns = [[str(replayed.figures["conversation"]) for replayed in replays]]
    print(
        table(
            f"Replay in a window of {WINDOW} tokens",
            ["", *columns[0]],
            [[name, *(one.figures[name] for one in replays)] for name in names[1:]],
        )
    )
    print(
        table(
            "Questions: is a turn that answers it found?",
            ["category", "questions", f"first page ({PAGE}), by the agent", "recall@10, API"],
            rows,
        )
    )
    write_json(
        given.json,
        {
            "window": WINDOW,
            "conversations": [replayed.figures for replayed in replays],
            "categories": [
                {"category": name, "questions": count, "first_page": first, "recall_at_10": ten}
                for name, count, first, ten in rows
            ],
            "questions": asked,
        },
    )
    broken = [problem for replayed in replays for problem in replayed.broken]
    for problem in broken:
        print(f"BROKEN: {problem}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
