"""How well recall search finds the turns that answer a question, on the LoCoMo conversations.

    python tests/benchmarks/locomo.py --data PATH [--fixes PATH] [--json OUT] [--fit]

Each conversation goes into an agent of its own, with speakers and times, and each question of
categories 1 to 4 is asked as it is through `recall.search`. The same is done without an embedding
model, and both as an agent's tool searches: with `sure=True`, by which nothing is found where
nothing is likely to answer. Beside them stand two baselines over the same turns and vectors:

A   reciprocal rank fusion (k = 60) of FTS5 over "speaker: text" and the cosine;
B   the half-and-half sum, min-max scaled over the best hundred, of FTS5 over date, speaker, text
    and both neighbouring turns, and the cosine.

With `--fit` the weights of `Ranking` are learned anew (`fusion.py`), both ways together. Two rows
more say what they are worth where they were learned on all conversations but the one that is asked
about; what is learned on all of them is printed, and is what `Ranking` holds, rounded.

The data is Maharana et al., "Evaluating Very Long-Term Conversational Memory of LLM Agents", 2024,
under CC BY-NC 4.0: it is measured with, and nothing of it is kept.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import fusion
from figures import SHARED, needed, table, write_json

from pagedaemon import AsyncAgent, AsyncRuntime
from pagedaemon.llm.embedding.minilm import MiniLM
from pagedaemon.store.fulltext import day_words
from pagedaemon.store.terms import match_expression

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
DEPTH = 20
"""How far down the gold turns are looked for; beyond, their reciprocal rank counts 0."""

RANKED = 400
"""More candidates than are ranked of a question."""

SAMPLES = 1_000
"""Of the bootstrap."""

_TOKENS = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"


@dataclass(frozen=True)
class Said:
    """One turn."""

    key: str
    speaker: str
    text: str
    at: datetime


@dataclass(frozen=True)
class Question:
    """A question and the keys of the turns that answer it."""

    text: str
    category: int
    gold: frozenset[str]


@dataclass(frozen=True)
class Dialog:
    """One conversation and what is asked about it."""

    name: str
    turns: tuple[Said, ...]
    questions: tuple[Question, ...]


@dataclass
class Found:
    """What one way of searching found: for each question, the keys of turns, best first."""

    rankings: list[list[str]] = field(default_factory=list)
    cpu: float = 0.0
    """Seconds, of all questions."""
    bytes_per_turn: float | None = None
    ranked: list[fusion.Ranked] = field(default_factory=list)
    """Of each question, where the weights are learned."""


def read(data: Path, fixes: Path | None) -> list[Dialog]:
    """The conversations, with mended evidence where there is some."""
    mended = {} if fixes is None else json.loads(fixes.read_text(encoding="utf-8"))
    return [
        _dialog(one, mended.get(one["sample_id"], {}))
        for one in json.loads(data.read_text(encoding="utf-8"))
    ]


def _dialog(sample: dict[str, Any], mended: dict[str, Any]) -> Dialog:
    spoken = sample["conversation"]
    turns: list[Said] = []
    number = 1
    while f"session_{number}_date_time" in spoken:
        said_at = f"{spoken[f'session_{number}_date_time']} +0000"
        began = datetime.strptime(said_at, "%I:%M %p on %d %B, %Y %z")
        for place, turn in enumerate(spoken.get(f"session_{number}", [])):
            shown = turn.get("blip_caption")
            text = f"{turn['text']} [shows: {shown}]" if shown else turn["text"]
            at = began.astimezone(UTC) + timedelta(seconds=place)
            turns.append(Said(turn["dia_id"], turn["speaker"], text, at))
        number += 1
    known = {turn.key for turn in turns}
    questions = []
    for place, asked in enumerate(sample["qa"]):
        if asked["category"] not in CATEGORIES:
            continue
        evidence = mended.get(str(place), asked)["evidence"]
        named = re.findall(r"D:?(\d+):(\d+)", " ".join(evidence))
        gold = known.intersection(f"D{int(session)}:{int(turn)}" for session, turn in named)
        if gold:
            questions.append(Question(asked["question"], asked["category"], frozenset(gold)))
    return Dialog(sample["sample_id"], tuple(turns), tuple(questions))


async def tell(agent: AsyncAgent, dialog: Dialog) -> None:
    """Has an agent remember a conversation, with speakers and times."""
    lines = [
        {
            "role": "user",
            "name": turn.speaker,
            "content": turn.text,
            "created_at": turn.at.isoformat(),
        }
        for turn in dialog.turns
    ]
    await agent.recall.import_jsonl(lines)


async def ours(
    dialogs: Sequence[Dialog],
    folder: Path,
    embedder: str | None,
    fit: bool = False,
    *,
    sure: bool = False,
) -> Found:
    """What the public API finds.

    Args:
        sure: as `conversation_search` asks, which finds nothing where nothing is likely to answer.
    """
    found = Found()
    size = 0
    for dialog in dialogs:
        store = folder / dialog.name
        async with AsyncRuntime(store, model="offline", embedder=embedder) as runtime:
            agent = await runtime.agents.ensure("ada")
            await tell(agent, dialog)
            if embedder is not None:
                await runtime.reindex()
            keys = {(turn.at, turn.speaker, turn.text): turn.key for turn in dialog.turns}
            await agent.recall.search("to begin with", page_size=DEPTH)
            for question in dialog.questions:
                began = time.process_time()
                page = await agent.recall.search(question.text, page_size=DEPTH, sure=sure)
                found.cpu += time.process_time() - began
                messages = [hit.message for hit in page.hits]
                found.rankings.append(
                    [keys[one.created_at, str(one.author), one.text] for one in messages]
                )
                if fit:
                    page = await agent.recall.search(question.text, page_size=RANKED)
                    hits = {
                        keys[one.message.created_at, str(one.message.author), one.message.text]: one
                        for one in page.hits
                        if "episode" in one.parts
                    }
                    parts = tuple(one.parts for one in hits.values())
                    found.ranked.append(
                        fusion.Ranked(dialog.name, tuple(hits), parts, question.gold)
                    )
        size += sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
    found.bytes_per_turn = size / sum(len(dialog.turns) for dialog in dialogs)
    return found


class Baselines:
    """A and B over one conversation."""

    def __init__(self, dialog: Dialog, vectors: NDArray[np.float32]) -> None:
        self._turns = dialog.turns
        self._vectors = vectors
        plain = [f"{turn.speaker}: {turn.text}" for turn in dialog.turns]
        wide = []
        for place, turn in enumerate(dialog.turns):
            beside = dialog.turns[max(0, place - 1) : place] + dialog.turns[place + 1 : place + 2]
            words = [day_words(turn.at), plain[place], *(other.text for other in beside)]
            wide.append(" ".join(words))
        self._plain, self._wide = _index(plain), _index(wide)

    def a(self, question: str, query: NDArray[np.float32]) -> list[str]:
        """Reciprocal rank fusion."""
        cosines = (self._vectors @ query).tolist()
        by_meaning = sorted(range(len(cosines)), key=lambda one: -cosines[one])
        scores: dict[int, float] = {}
        for ranking in (list(_matches(self._plain, question)), by_meaning):
            for rank, one in enumerate(ranking[:100], 1):
                scores[one] = scores.get(one, 0.0) + 1 / (60 + rank)
        return self._keys(scores)

    def b(self, question: str, query: NDArray[np.float32]) -> list[str]:
        """The weighted sum."""
        cosines = dict(enumerate((self._vectors @ query).tolist()))
        scores: dict[int, float] = {}
        for side in (_matches(self._wide, question), cosines):
            best = dict(sorted(side.items(), key=lambda one: -one[1])[:100])
            least, most = min(best.values(), default=0.0), max(best.values(), default=0.0)
            for one, score in best.items():
                scaled = (score - least) / (most - least) if most > least else 1.0
                scores[one] = scores.get(one, 0.0) + scaled / 2
        return self._keys(scores)

    def _keys(self, scores: dict[int, float]) -> list[str]:
        order = sorted(scores, key=lambda one: -scores[one])
        return [self._turns[one].key for one in order[:DEPTH]]


def _index(texts: Iterable[str]) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute(f'CREATE VIRTUAL TABLE texts USING fts5(text, tokenize="{_TOKENS}")')
    rows = enumerate(texts)
    connection.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", rows)
    return connection


def _matches(index: sqlite3.Connection, question: str) -> dict[int, float]:
    statement = "SELECT rowid, -rank FROM texts WHERE texts MATCH ? ORDER BY rank"
    return dict(index.execute(statement, (match_expression(question),)).fetchall())


async def baselines(dialogs: Sequence[Dialog]) -> dict[str, Found]:
    """What the two baselines find. Their CPU is that of ranking alone."""
    import numpy as np

    found = {"A": Found(), "B": Found()}
    embedder = MiniLM()
    for dialog in dialogs:
        texts = [f"{turn.speaker}: {turn.text}" for turn in dialog.turns]
        vectors = np.stack(await embedder.embed(texts, purpose="document"))
        asked = [question.text for question in dialog.questions]
        queries = await embedder.embed(asked, purpose="query")
        both = Baselines(dialog, vectors)
        ways: dict[str, Callable[..., list[str]]] = {"A": both.a, "B": both.b}
        for name, way in ways.items():
            began = time.process_time()
            pairs = zip(asked, queries, strict=True)
            found[name].rankings += [way(text, query) for text, query in pairs]
            found[name].cpu += time.process_time() - began
    await embedder.aclose()
    return found


def judged(questions: Sequence[Question], found: Found) -> dict[str, list[float]]:
    """The measures of each question."""
    measures: dict[str, list[float]] = {}
    for question, ranking in zip(questions, found.rankings, strict=True):
        for depth in (5, 10, 20):
            hit = len(question.gold.intersection(ranking[:depth])) / len(question.gold)
            measures.setdefault(f"recall@{depth}", []).append(hit)
        everything = question.gold.issubset(ranking[:10])
        measures.setdefault("all@10", []).append(float(everything))
        ranks = [rank for rank, key in enumerate(ranking, 1) if key in question.gold]
        measures.setdefault("mrr", []).append(1 / ranks[0] if ranks else 0.0)
    return measures


def interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % of the means of samples drawn from these values."""
    drawn = random.Random(1)
    means = sorted(fmean(drawn.choices(values, k=len(values))) for _ in range(SAMPLES))
    return means[SAMPLES // 40], means[-SAMPLES // 40 - 1]


async def measured(dialogs: Sequence[Dialog], folder: Path, fit: bool = False) -> dict[str, Any]:
    """All figures."""
    questions = [question for dialog in dialogs for question in dialog.questions]
    ways = {
        "ours, MiniLM": await ours(dialogs, folder / "local", "local", fit),
        "ours, no model": await ours(dialogs, folder / "none", None, fit),
        "as tools, MiniLM": await ours(dialogs, folder / "tools", "local", sure=True),
        "as tools, no model": await ours(dialogs, folder / "words", None, sure=True),
        **await baselines(dialogs),
    }
    figures: dict[str, Any] = {"questions": len(questions), "ways": {}}
    if fit:
        given = {name: found.ranked for name, found in ways.items() if found.ranked}
        weights = fusion.learned([one for some in given.values() for one in some])
        figures["weights"] = dict(zip(fusion.NAMES, weights.tolist()[1:], strict=True))
        for name, rankings in fusion.left_out(given).items():
            ways[f"{name}, left out"] = Found(rankings)
    measures = {name: judged(questions, found) for name, found in ways.items()}
    for name, found in ways.items():
        mine = measures[name]
        gain = [a - b for a, b in zip(mine["recall@10"], measures["B"]["recall@10"], strict=True)]
        figures["ways"][name] = {
            **{measure: fmean(values) for measure, values in mine.items()},
            "recall@10 interval": interval(mine["recall@10"]),
            "recall@10 over B": fmean(gain),
            "recall@10 over B interval": interval(gain),
            "cpu_ms": 1_000 * found.cpu / len(questions) if found.cpu else None,
            "bytes_per_turn": found.bytes_per_turn,
            "by_category": {
                name: fmean(
                    value
                    for question, value in zip(questions, mine["recall@10"], strict=True)
                    if question.category == category
                )
                for category, name in CATEGORIES.items()
                if any(question.category == category for question in questions)
            },
        }
    return figures


def rows(figures: dict[str, Any]) -> list[tuple[object, ...]]:
    """One row of the table for each way."""
    shown = []
    for name, one in figures["ways"].items():
        low, high = one["recall@10 interval"]
        categories = one["by_category"]
        shown.append(
            (
                name,
                *(one[measure] for measure in ("recall@5", "recall@10")),
                f"{low:.3f}-{high:.3f}",
                *(one[measure] for measure in ("recall@20", "all@10", "mrr")),
                *(categories.get(category) for category in CATEGORIES.values()),
                one["cpu_ms"],
                one["bytes_per_turn"],
            )
        )
    return shown


HEAD = (
    "",
    "recall@5",
    "recall@10",
    "95 %",
    "recall@20",
    "all@10",
    "MRR",
    *CATEGORIES.values(),
    "ms CPU",
    "bytes/turn",
)


def parser_of(what: str) -> argparse.ArgumentParser:
    """The arguments of a benchmark on these conversations; `what` begins with what it measures."""
    parser = argparse.ArgumentParser(description=what.split("\n\n")[0])
    parser.add_argument("--data", help="the conversations: LoCoMo's JSON")
    parser.add_argument("--fixes", help="mended evidence; default: beside the data, if there")
    parser.add_argument("--json", help="where the figures are written")
    return parser


def given_dialogs(given: argparse.Namespace) -> list[Dialog]:
    """The conversations that were named, or that stand in their usual place."""
    default = SHARED / "data" / "locomo_open.json"
    data = needed(given.data, "LOCOMO_DATA", default, "--data", "LoCoMo's conversations")
    beside = data.with_name(f"{data.stem}_fixes.json")
    fixes = Path(given.fixes) if given.fixes else beside if beside.is_file() else None
    return read(data, fixes)


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the arguments, measures, prints. Returns the exit status: 0, whatever was measured."""
    parser = parser_of(__doc__)
    parser.add_argument("--fit", action="store_true", help="learn the weights anew")
    given = parser.parse_args(arguments)
    dialogs = given_dialogs(given)
    if given.fit and len(dialogs) < 2:
        parser.error("--fit leaves out one conversation at a time: it needs two or more")
    with tempfile.TemporaryDirectory(prefix="locomo-") as folder:
        figures = asyncio.run(measured(dialogs, Path(folder).resolve(), given.fit))
    print(table(f"LoCoMo, {figures['questions']} questions", HEAD, rows(figures)))
    for name, weight in figures.get("weights", {}).items():
        print(f"{name:10} {weight:.2f}")
    write_json(given.json, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
