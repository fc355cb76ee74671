"""Questions that nobody answered: how often an agent's search says that it found nothing.

    python tests/benchmarks/unanswerable.py [--data PATH] [--locomo PATH] [--json OUT]

The set is `data/unanswerable.jsonl` (see `sets.py`): questions on what nobody spoke of ("far"), on
what somebody said something near to ("near"), and as many with an answer. Asked as an agent's tools
search. Beside it what that costs: recall@10 of the questions that have an answer, with and without.

The same on LoCoMo's conversations where they are given: their questions, which have an answer, and
those of `data/unspoken.txt` ("far"), asked of the speakers in turn. They were written when all that
decides was settled, about what friends seldom tell; of a few something near was said all the same.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from figures import needed, table, write_json
from locomo import read as read_locomo

from pagedaemon.cli.evaluation import answers
from pagedaemon.cli.labelled import Asked, Memory, Question, World, measures, read

DATA = Path(__file__).with_name("data") / "unanswerable.jsonl"
UNSPOKEN = DATA.with_name("unspoken.txt")

HEAD = ("", "questions", "nothing found", "far", "near", "recall@10", "asked for all", "ms CPU")


def worlds_of(locomo: Path, fixes: Path | None) -> list[World]:
    """LoCoMo's conversations as worlds, each with its own questions and with `UNSPOKEN`."""
    return [
        World(
            dialog.name,
            tuple(
                Memory(id=turn.key, text=turn.text, at=turn.at, author=turn.speaker)
                for turn in dialog.turns
            ),
            (
                *(
                    Question(query=question.text, gold=tuple(sorted(question.gold)))
                    for question in dialog.questions
                ),
                *unspoken(sorted({turn.speaker for turn in dialog.turns})),
            ),
        )
        for dialog in read_locomo(locomo, fixes)
    ]


def unspoken(speakers: Sequence[str]) -> Iterator[Question]:
    """Questions that a conversation between these answers nowhere."""
    asked = UNSPOKEN.read_text(encoding="utf-8").splitlines()
    for question, speaker in zip(asked, cycle(speakers)):
        query = question.replace("{n}", speaker)
        yield Question(query=query, gold=(), groups=("unanswerable", "far"))


def figures_of(sure: Sequence[Asked], everything: Sequence[Asked]) -> dict[str, Any]:
    """The figures of one set: asked as tools search, and as the API does."""

    def nothing(group: str) -> Any:
        return measures([one for one in sure if group in one.question.groups])["nothing"]

    whole = measures(sure)
    return {
        "questions": len(sure),
        "nothing": whole["nothing"],
        "far": nothing("far"),
        "near": nothing("near"),
        "recall@10": whole["recall@10"],
        "recall@10 of all": measures(everything)["recall@10"],
        "cpu_ms": whole["cpu_ms"],
    }


def measured(sets: Mapping[str, Sequence[World]]) -> dict[str, Any]:
    """All figures."""
    ways = {}
    for model, embedder in (("MiniLM", "local"), ("no model", None)):
        for name, worlds in sets.items():
            sure = answers(worlds, ["default"], embedder, sure=True)["default"]
            everything = answers(worlds, ["default"], embedder)["default"]
            ways[f"{name}, {model}"] = figures_of(sure, everything)
    return {"ways": ways}


def rows(ways: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[object, ...]]:
    """One row of the table for each way."""
    for name, one in ways.items():
        yield (name, *one.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the arguments, measures, prints. Returns the exit status: 0, whatever was measured."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", help="a set of the same form")
    parser.add_argument("--locomo", type=Path, help="the conversations: LoCoMo's JSON")
    parser.add_argument("--json", help="where the figures are written")
    given = parser.parse_args(arguments)
    data = needed(given.data, "UNANSWERABLE_DATA", DATA, "--data", "the set of what nobody said")
    sets = {"ours": read([data])}
    if given.locomo is not None:
        fixes = given.locomo.with_name(f"{given.locomo.stem}_fixes.json")
        sets["LoCoMo"] = worlds_of(given.locomo, fixes if fixes.is_file() else None)
    figures = measured(sets)
    print(table("Unanswerable", HEAD, rows(figures["ways"])))
    write_json(given.json, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
