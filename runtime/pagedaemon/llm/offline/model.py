"""A model without a model: fixed rules that really use the memory tools, for a first look offline.

It shows learning, correcting, searching, sharing and paging without a key or a network, in every
style and with every tool set, and says what it is when asked. It is a pure function of the request:
it holds no state, reads no store, and sees only what any model would see. In order:

1. the window fills: save what matters of the oldest messages, then page them out;
2. a statement about the person or "us": write it to a block, in place of what it contradicts;
3. a question: answer from the blocks, else search messages, else the archive, else say there is
   nothing;
4. anything else: a short honest word.

Each rule makes a call at most once a turn (an edit is tried a second time another way), so it
cannot loop.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pagedaemon.llm.offline import words
from pagedaemon.llm.offline.digest import notable, summary_of
from pagedaemon.llm.offline.facts import Fact, facts, same_subject
from pagedaemon.llm.offline.view import Hit, Made, Said, SeenBlock, View, hits, user_text, view
from pagedaemon.llm.protocol import CallPart, Part, RawCall, Reply, Request, TextPart
from pagedaemon.resources import Prompts

_PIECES = 4
_NOTES = 6
_QUOTES = 3
_QUOTE_CHARS = 300
_KEEP_LAST = 4

_APPENDS = {"core_memory_append": "content", "memory_insert": "new_str"}
_REPLACES = {
    "core_memory_replace": ("old_content", "new_content"),
    "memory_replace": ("old_str", "new_str"),
}

Doing = Literal["save", "look", "archive", "page_out", "required", "speak"]
Fate = Literal["saved", "archived", "known", "refused"]


class OfflineModel:
    """The built-in rule model; `Model("offline")` gets you here.

    Args:
        prompts: where its words come from; None: the shipped ones.
    """

    def __init__(self, prompts: Prompts | None = None) -> None:
        self._prompts = prompts if prompts is not None else Prompts()

    async def complete(self, request: Request) -> Reply:
        """The whole reply. It reports no usage: there are no tokens."""
        if request.purpose == "summary":
            return Reply(content=summary_of(user_text(request)))
        return _Rules(view(request), self._prompts).reply()

    async def stream(self, request: Request) -> AsyncIterator[Part]:
        """The same reply in a few parts."""
        reply = await self.complete(request)
        for piece in _pieces(reply.content):
            yield TextPart(piece)
        for index, call in enumerate(reply.calls):
            yield CallPart(index, name=call.name)
            for piece in _pieces(call.arguments):
                yield CallPart(index, arguments=piece)
        yield reply

    async def aclose(self) -> None:
        """Nothing is held open."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """A call that a rule wants made."""

    tool: str
    arguments: Mapping[str, Any]
    doing: Doing
    heartbeat: bool = True


class _Rules:
    """The rules over one request."""

    def __init__(self, seen: View, prompts: Prompts) -> None:
        self._seen = seen
        self._prompts = prompts
        self._said = words.plain(seen.said.text)
        self._question = " ".join(words.questions(self._said))
        self._facts = facts(self._said, [block.label for block in seen.blocks])

    def reply(self) -> Reply:
        """What the first rule that applies makes of it."""
        wishes = self._make_room() or self._learn() or self._required() or self._look()
        if wishes:
            return self._calls(*wishes)
        if self._seen.woken:
            return Reply()  # Nobody waits for a word.
        failed = any(call.tool == "send_message" and call.failed for call in self._seen.made)
        text = self._last_word() if self._seen.answered else self._answer()
        if "send_message" in self._seen.tools and not failed:
            return self._calls(_Wish("send_message", {"message": text}, "speak"))
        return Reply(content=text)

    def _calls(self, *wishes: _Wish) -> Reply:
        before = sum(isinstance(item, Made) for item in (*self._seen.earlier, *self._seen.recent))
        return Reply(
            calls=tuple(
                RawCall(f"offline-{before + index}", wish.tool, self._arguments(wish))
                for index, wish in enumerate(wishes)
            ),
            finish="tool_calls",
        )

    def _arguments(self, wish: _Wish) -> str:
        controls = {
            "inner_thoughts": self._prompts.render("offline/thoughts", doing=wish.doing),
            "request_heartbeat": wish.heartbeat,
        }
        return self._seen.tools[wish.tool].fill({**controls, **wish.arguments})

    # -- the window fills

    def _make_room(self) -> list[_Wish]:
        alert = self._seen.alert
        if alert is None:
            return []
        done, tools = self._seen.made_since_alert, self._seen.tools
        can_page = "page_out" in tools.keys() - done
        through = self._through(alert) if can_page else None
        leaving = self._leaving(through)
        saved = self._archived_before()
        lines = notable((line for line in leaving if line not in saved), _NOTES)
        if "archival_memory_insert" in tools.keys() - done and lines:
            more = through is not None or not self._seen.answered
            content = self._prompts.render("offline/notes", lines=lines)
            return [_Wish("archival_memory_insert", {"content": content}, "archive", more)]
        if through is None:
            return []
        note = self._prompts.render("offline/page_note", lines=notable(leaving, _NOTES))
        arguments = {"through": through, "note": note}
        return [_Wish("page_out", arguments, "page_out", not self._seen.answered)]

    def _through(self, alert: Mapping[str, Any]) -> int | None:
        """The last message to page out: half the queue, never the newest words or the last few."""
        oldest, newest = alert.get("oldest"), alert.get("newest")
        if not isinstance(oldest, int) or not isinstance(newest, int):
            return None
        through = min(oldest + (newest - oldest) // 2, newest - _KEEP_LAST)
        if self._seen.said.number is not None:
            through = min(through, self._seen.said.number - 1)
        return through if through >= oldest else None

    def _leaving(self, through: int | None) -> list[str]:
        return [
            sentence
            for item in self._seen.earlier
            if isinstance(item, Said)
            and (through is None or item.number is None or item.number <= through)
            for sentence in words.sentences(item.text)
        ]

    def _archived_before(self) -> str:
        return "\n".join(
            str(item.arguments.get("content"))
            for item in (*self._seen.earlier, *self._seen.recent)
            if isinstance(item, Made) and item.tool == "archival_memory_insert" and not item.failed
        )

    # -- a statement

    def _learn(self) -> list[_Wish]:
        if self._seen.answered:
            return []
        fates = [self._fate(fact) for fact in self._facts]
        return [fate for fate in fates if isinstance(fate, _Wish)]

    def _fate(self, fact: Fact) -> Fate | _Wish:
        """What has become of a statement, or the edit that is to be tried for it now."""
        tried = [call for call in self._seen.made if fact.line in call.arguments.values()]
        kept = [call for call in tried if not call.failed]
        if kept:
            return "archived" if kept[-1].tool == "archival_memory_insert" else "saved"
        if len(tried) > 1:
            return "refused"
        block = self._home(fact)
        if block is not None:
            if any(_same(fact.line, unit) for unit in words.units(block.value)):
                return "known"
            edit = self._edit(fact, block, frozenset(call.tool for call in tried))
            if edit is not None:
                return edit
        if "archival_memory_insert" in self._seen.tools:
            return _Wish("archival_memory_insert", {"content": fact.line}, "save")
        return "refused"

    def _home(self, fact: Fact) -> SeenBlock | None:
        """The block it belongs in: the one it names; for "us" `team` or another; else `human`."""
        writable = {block.label: block for block in self._seen.blocks if not block.read_only}
        if fact.place in writable:
            return writable[fact.place]
        if fact.place == "archive":
            return None
        if fact.shared:
            others = [label for label in writable if label not in ("persona", "human")]
            wanted = ["team", *others, "human"]
        else:
            wanted = ["human"]
        return next((writable[label] for label in wanted if label in writable), None)

    def _edit(self, fact: Fact, block: SeenBlock, tried: frozenset[str]) -> _Wish | None:
        room = block.limit - len(block.value)
        for tool, (old, new) in _REPLACES.items():
            outdated = self._outdated(fact, block)
            if tool not in self._seen.tools or tried or outdated is None:
                continue
            if len(fact.line) - len(outdated) <= room:
                arguments = {"label": block.label, old: outdated, new: fact.line}
                return _Wish(tool, arguments, "save")
        for tool, text in _APPENDS.items():
            if tool in self._seen.tools and tool not in tried and len(fact.line) < room:
                added = {"label": block.label, text: fact.line, "insert_line": -1}
                return _Wish(tool, added, "save")
        return None

    def _outdated(self, fact: Fact, block: SeenBlock) -> str | None:
        """The statement it takes the place of, where that stands in the block once only."""
        for unit in words.units(block.value):
            if same_subject(fact, unit) and block.value.count(unit) == 1:
                return unit
        return None

    # -- what the turn must have called

    def _required(self) -> list[_Wish]:
        """Only tools that it knows or that need no argument: it never guesses at an effect."""
        known = {
            "archival_memory_insert": {"content": self._said},
            "archival_memory_search": {"query": self._query()},
            "conversation_search": {"query": self._query()},
        }
        return [
            _Wish(name, known.get(name, {}), "required", not self._seen.answered)
            for name in self._seen.still_required
            if name in known or not self._seen.tools[name].needed
        ]

    # -- a question

    def _look(self) -> list[_Wish]:
        if self._seen.answered or not self._question or words.asks_what_it_is(self._question):
            return []
        if self._from_blocks():
            return []
        for tool in ("conversation_search", "archival_memory_search"):
            if any(call.tool == tool for call in self._seen.made):
                if self._found(tool):
                    return []
            elif tool in self._seen.tools:
                arguments: dict[str, Any] = {"query": self._query(), "page": 0}
                if self._seen.tools[tool].takes("roles", "array"):
                    arguments["roles"] = ["user"]
                return [_Wish(tool, arguments, "look")]
        return []

    def _query(self) -> str:
        return " ".join(words.content_words(self._question or self._said)[:12]) or self._said

    def _from_blocks(self) -> list[str]:
        """Statements of the blocks that answer the question; the persona is about itself."""
        about_person = words.asks_about_person(self._question)
        labels = ["human"] if about_person else [block.label for block in self._seen.blocks]
        known = [
            unit
            for block in self._seen.blocks
            if block.label in labels and block.label != "persona"
            for unit in words.units(block.value)
            if not words.is_blank(unit)
        ]
        return known if about_person else words.best_matching(self._question, known)

    def _found(self, tool: str) -> list[Hit]:
        """The hits of a search, without the question itself and others like it."""
        wanted = words.stems(self._question)
        found = [
            hit
            for call in self._seen.made
            if call.tool == tool and call.result is not None and not call.failed
            for hit in hits(call.result)
            if not words.is_question(words.plain(hit.text))
        ]
        found.sort(key=lambda hit: -len(wanted & words.stems(words.plain(hit.text))))
        return found[:_QUOTES]

    # -- words

    def _answer(self) -> str:
        said = [part for part in (self._on_statements(), self._on_question()) if part]
        if said:
            return "\n\n".join(said)
        if words.is_greeting(self._said):
            return self._prompts.render("offline/hello", name=self._name())
        return self._prompts.render("offline/heard")

    def _last_word(self) -> str:
        return self._prompts.render("offline/done", paged="page_out" in self._seen.made_since_alert)

    def _on_statements(self) -> str:
        lines: dict[str, list[str]] = {"saved": [], "archived": [], "known": [], "refused": []}
        for fact in self._facts:
            fate = self._fate(fact)
            assert not isinstance(fate, _Wish), "an edit that is due comes before words"
            lines[fate].append(fact.line if fact.line.endswith(".") else f"{fact.line}.")
        return self._prompts.render("offline/kept", **lines)

    def _on_question(self) -> str:
        if not self._question:
            return ""
        if words.asks_what_it_is(self._question):
            return self._prompts.render("offline/about")
        lines = self._from_blocks()
        if lines:
            return self._prompts.render("offline/answer", lines=lines)
        places = {"conversation_search": "conversation", "archival_memory_search": "archive"}
        for tool, place in places.items():
            found = [
                {
                    "date": hit.head[1] if len(hit.head) > 1 else hit.head[0],
                    "text": _quote(hit.text),
                }
                for hit in self._found(tool)
            ]
            if found:
                return self._prompts.render("offline/found", place=place, hits=found)
        searched = {call.tool for call in self._seen.made}
        looked = [place for tool, place in places.items() if tool in searched]
        return self._prompts.render("offline/nothing", places=looked)

    def _name(self) -> str:
        for block in self._seen.blocks:
            for unit in words.units(block.value) if block.label == "human" else []:
                if unit.startswith("Name:") and not words.is_blank(unit):
                    return unit.removeprefix("Name:").strip()
        return ""


def _same(line: str, unit: str) -> bool:
    return line.rstrip(".").casefold() == unit.rstrip(".").casefold()


def _quote(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _QUOTE_CHARS else f"{flat[:_QUOTE_CHARS]}…"


def _pieces(text: str) -> list[str]:
    size = max(1, math.ceil(len(text) / _PIECES))
    return [text[start : start + size] for start in range(0, len(text), size)]
