"""What a question costs in tokens when memory is searched, and when the whole conversation is sent.

    python tests/benchmarks/tokens.py [--data PATH] [--fixes PATH] [--json OUT]

Each of the LoCoMo conversations goes into an agent of its own. Each question of categories 1 to 4
is looked up by `conversation_search` as an agent would, two pages of five; counted is what these
calls and their results add to the prompt, in the very words that a model reads. Beside it stands
the whole conversation, with dates and speakers, and how many of the turns that answer were shown.

The data is Maharana et al., "Evaluating Very Long-Term Conversational Memory of LLM Agents", 2024,
under CC BY-NC 4.0: it is measured with, and nothing of it is kept.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

from figures import percentile, table, write_json
from locomo import Dialog, Found, Said, given_dialogs, interval, judged, parser_of, tell

from pagedaemon import AsyncAgent, AsyncRuntime
from pagedaemon.llm.protocol import WireMessage
from pagedaemon.llm.tokens import TokenCounter
from pagedaemon.memory.effects import Acting
from pagedaemon.memory.recall import SearchMessages
from pagedaemon.resources import Prompts

PAGES = 2
SAVED = 0.95
RECALL = 0.78
"""Of the turns that answer, how many are to be among the ten that are shown."""

_COUNTER = TokenCounter("gpt-4o")
_HIT = re.compile(r"^- (\S+#\d+) · ", re.MULTILINE)


@dataclass
class Spent:
    """What the questions about one conversation took.

    Attributes:
        recalled: tokens that each search adds to the prompt.
        pasted: tokens of the whole conversation.
        fixed: tokens of the agent's prompt and tools.
        cpu: milliseconds of each search, both pages; `wall` the same by the clock.
        found: what was shown.
    """

    pasted: int
    fixed: int
    recalled: list[int] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    found: Found = field(default_factory=Found)


def whole(dialog: Dialog) -> str:
    """A conversation as it would be pasted: by session, with its date, each turn on a line."""
    return "\n\n".join(
        "\n".join([f"{began:%d %B %Y}", *(f"{turn.speaker}: {turn.text}" for turn in turns)])
        for began, turns in sessions(dialog)
    )


def sessions(dialog: Dialog) -> Iterator[tuple[datetime, list[Said]]]:
    """The turns of each session, by its number in their keys, and when it began."""
    for _, turns in groupby(dialog.turns, key=lambda turn: turn.key.split(":")[0]):
        said = list(turns)
        yield said[0].at, said


async def questions_of(dialog: Dialog, folder: Path, embedder: str | None) -> Spent:
    """Asks all that is asked about one conversation."""
    prompts = Prompts()
    async with AsyncRuntime(folder, model="offline", embedder=embedder) as runtime:
        agent = await runtime.agents.ensure("ada")
        fixed = (await agent.context()).tokens
        await tell(agent, dialog)
        if embedder is not None:
            await runtime.reindex()
        keys = {(turn.at, turn.speaker, turn.text): turn.key for turn in dialog.turns}
        page = await agent.recall.search(page_size=len(dialog.turns))
        names = {one.id: one.name for one in await agent.conversations.list()}
        key_of = {
            f"{names[hit.conversation_id]}#{hit.message.seq}": keys[
                hit.message.created_at, str(hit.message.author), hit.message.text
            ]
            for hit in page.hits
        }
        pasted = _COUNTER.message_tokens({"role": "user", "content": whole(dialog)})
        spent = Spent(pasted, fixed)
        await looked_up(agent, "to begin with", prompts)
        for question in dialog.questions:
            cpu, wall = time.process_time(), time.perf_counter()
            texts = await looked_up(agent, question.text, prompts)
            spent.cpu.append((time.process_time() - cpu) * 1_000)
            spent.wall.append((time.perf_counter() - wall) * 1_000)
            spent.recalled.append(added(question.text, texts))
            spent.found.rankings.append(
                [key_of[one] for text in texts for one in _HIT.findall(text)]
            )
    return spent


async def looked_up(agent: AsyncAgent, words: str, prompts: Prompts) -> list[str]:
    """What `conversation_search` gives back for these words, page by page, as a model reads it."""
    scheduler = agent.recall._scheduler
    acting = Acting(
        agent_id=agent.id,
        conversation_id="conversation-asking",
        turn_id="turn-asking",
        step_id="step-asking",
        now=datetime.now(UTC),
        timezone="UTC",
        meaning=scheduler.meaning,
    )
    texts = []
    for page in range(PAGES):
        effect = SearchMessages(words, page=page)
        await effect.prepare(acting)
        told = await scheduler.store.read(partial(effect.apply, acting=acting))
        texts.append(prompts.render(told.template, **told.values))
    return texts


def added(words: str, texts: Sequence[str]) -> int:
    """What these searches add to a prompt: the calls, and what came back."""
    total = 0
    for page, text in enumerate(texts):
        given = {"query": words, "page": page, "request_heartbeat": True}
        function = {"name": "conversation_search", "arguments": json.dumps(given)}
        called: WireMessage = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"call_{page}", "type": "function", "function": function}],
        }
        result: WireMessage = {"role": "tool", "tool_call_id": f"call_{page}", "content": text}
        total += _COUNTER.message_tokens(called) + _COUNTER.message_tokens(result)
    return total


async def measured(dialogs: Sequence[Dialog], folder: Path) -> dict[str, Any]:
    """All figures, with the local embedder and without one."""
    return {
        "questions": sum(len(dialog.questions) for dialog in dialogs),
        "ways": {
            name: await one_way(dialogs, folder / (embedder or "none"), embedder)
            for name, embedder in (("MiniLM", "local"), ("no model", None))
        },
    }


async def one_way(dialogs: Sequence[Dialog], folder: Path, embedder: str | None) -> dict[str, Any]:
    """The figures of one embedder."""
    spent = [await questions_of(dialog, folder / dialog.name, embedder) for dialog in dialogs]
    shares, whole_shares, recall = [], [], []
    for dialog, one in zip(dialogs, spent, strict=True):
        shares += [1 - tokens / one.pasted for tokens in one.recalled]
        sent = one.fixed + one.pasted
        whole_shares += [1 - (one.fixed + tokens) / sent for tokens in one.recalled]
        recall += judged(dialog.questions, one.found)["recall@10"]
    recalled = [tokens for one in spent for tokens in one.recalled]
    cpu, wall = ([ms for one in spent for ms in getattr(one, which)] for which in ("cpu", "wall"))
    return {
        "recalled": fmean(recalled),
        "recalled_p95": percentile(recalled, 0.95),
        "pasted": fmean(one.pasted for one in spent),
        "fixed": fmean(one.fixed for one in spent),
        "saved": fmean(shares),
        "saved_least": min(shares),
        "saved_with_fixed": fmean(whole_shares),
        "recall@10": fmean(recall),
        "recall@10 interval": interval(recall),
        "cpu_ms": fmean(cpu),
        "cpu_p95_ms": percentile(cpu, 0.95),
        "wall_p95_ms": percentile(wall, 0.95),
    }


def rows(figures: dict[str, Any]) -> list[tuple[object, ...]]:
    """Rows of (what, value, bar, verdict)."""
    found: list[tuple[object, ...]] = []
    for name, one in figures["ways"].items():
        saved, recall = one["saved"], one["recall@10"]
        found += [
            (f"{name}: tokens that a question's searches add", one["recalled"], None, ""),
            (f"{name}: the same, p95", float(one["recalled_p95"]), None, ""),
            (f"{name}: tokens of the whole conversation", one["pasted"], None, ""),
            (f"{name}: share saved", saved, SAVED, "ok" if saved >= SAVED else "BELOW"),
            (f"{name}: share saved, of the least question", one["saved_least"], None, ""),
            (f"{name}: share saved, prompt and tools on both sides", one["saved_with_fixed"]),
            (f"{name}: of the turns that answer, shown", recall, *_bar(name, recall)),
            (f"{name}: two pages, ms CPU", one["cpu_ms"], None, ""),
            (f"{name}: two pages, ms CPU p95", one["cpu_p95_ms"], None, ""),
            (f"{name}: two pages, ms p95", one["wall_p95_ms"], None, ""),
        ]
    return [(*row, *("",) * (4 - len(row))) for row in found]


def _bar(name: str, recall: float) -> tuple[object, ...]:
    if name != "MiniLM":
        return None, ""
    return RECALL, "ok" if recall >= RECALL else "BELOW"


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the arguments, measures, prints. Returns the exit status: 0, whatever was measured."""
    given = parser_of(__doc__).parse_args(arguments)
    dialogs = given_dialogs(given)
    with tempfile.TemporaryDirectory(prefix="tokens-") as folder:
        figures = asyncio.run(measured(dialogs, Path(folder).resolve()))
    head = ("", "ours", "bar", "")
    print(table(f"Tokens of a question, {figures['questions']} questions", head, rows(figures)))
    write_json(given.json, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
