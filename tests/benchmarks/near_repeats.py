"""Which of two texts whose vectors are near say the same: what the cosine knows, and the words.

    python tests/benchmarks/near_repeats.py [--data PATH] [--json OUT]

The set is `data/near_repeats.jsonl`: pairs that say the same in other words, and pairs that do not,
most of them in one form, as facts about one thing are. Those marked "held out" were written after
the rule. For each least cosine: how many pairs are that near by the local model, how many of them
an agent would be told of (nothing exact, no name and no denial tells them apart), and how many a
search would take for one fact.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from figures import needed, table, write_json

from pagedaemon.llm.embedding.minilm import MiniLM
from pagedaemon.memory.sameness import Wording, apart, replaced

DATA = Path(__file__).with_name("data") / "near_repeats.jsonl"

LEAST = (0.90, 0.92, 0.94, 0.95, 0.96, 0.98)

HEAD = ("least cosine", "same: near", "told", "one fact", "different: near", "told", "one fact")


@dataclass(frozen=True)
class Pair:
    """Two texts, and what is known of them."""

    same: bool
    how: str
    """In what way they differ."""
    cosine: float
    told: bool
    one: bool


async def judged(lines: Sequence[dict[str, Any]]) -> list[Pair]:
    """The pairs with what is said of them."""
    embedder = MiniLM()
    pairs = []
    for line in lines:
        texts = (line["one"], line["other"])
        first, second = await embedder.embed(texts, purpose="document")
        mine, its = map(Wording.of, texts)
        told = not apart(mine, its)
        one = told and not replaced(mine, its)
        pairs.append(Pair(line["same"], line["how"], float(first @ second), told, one))
    await embedder.aclose()
    return pairs


def counted(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """How many are near, told and one, from each cosine on."""
    return [
        {
            "least": least,
            "same": _counts([one for one in pairs if one.same and one.cosine >= least]),
            "different": _counts([one for one in pairs if not one.same and one.cosine >= least]),
        }
        for least in LEAST
    ]


def _counts(near: Sequence[Pair]) -> dict[str, int]:
    told, one = sum(pair.told for pair in near), sum(pair.one for pair in near)
    return {"near": len(near), "told": told, "one": one}


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the arguments, measures, prints. Returns the exit status: 0, whatever was measured."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", help="a set of the same form")
    parser.add_argument("--json", help="where the figures are written")
    given = parser.parse_args(arguments)
    data = needed(given.data, "NEAR_REPEATS_DATA", DATA, "--data", "the pairs")
    lines = [json.loads(line) for line in data.read_text(encoding="utf-8").splitlines()]
    pairs = asyncio.run(judged(lines))
    figures = {}
    for group in ("all", "held out"):
        some = [pair for pair in pairs if group in ("all", pair.how)]
        figures[group] = counted(some)
        kinds = [sum(pair.same for pair in some), sum(not pair.same for pair in some)]
        title = f"Pairs, {group}: {kinds[0]} that say the same, {kinds[1]} that do not"
        rows = [
            (f"{one['least']:.2f}", *one["same"].values(), *one["different"].values())
            for one in figures[group]
        ]
        print(table(title, HEAD, rows))
    write_json(given.json, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
