"""What is true now, and what was true then: which of the two a search puts first.

    python tests/benchmarks/now_then.py [--data PATH] [--json OUT]

The set is `data/now_then.jsonl` (see `sets.py`). Asked for what is true now, the memory that says
so should be the first hit ("first"); asked for what was true then, the older one should be among
the first ten ("recall@10"). Reported for all, for cases with and without a cue word, for messages
and passages, and for each language; with the local model and by words alone, and each with what is
newer left where it was ("as found").
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from figures import needed, table, write_json

from pagedaemon.cli.evaluation import answers
from pagedaemon.cli.labelled import Asked, World, measures, read
from pagedaemon.memory import presets
from pagedaemon.memory.ranking import DEFAULT

DATA = Path(__file__).with_name("data") / "now_then.jsonl"

GROUPS = ("cue", "no cue", "messages", "passages", "en", "de", "es", "fr", "zh")

HEAD = ("", "questions", "now: first", "now: MRR", "then: recall@10", "then: first", "ms CPU")


@contextmanager
def as_found() -> Iterator[None]:
    """With what is newer left where it was."""
    before = presets.PRESETS
    presets.PRESETS = {**before, "default": replace(DEFAULT, newer_first=False)}
    try:
        yield
    finally:
        presets.PRESETS = before


def figures_of(asked: Sequence[Asked]) -> dict[str, Any]:
    """The figures of all and of each group."""
    return {
        "all": _one(asked),
        **{
            group: _one(some)
            for group in GROUPS
            if (some := [one for one in asked if group in one.question.groups])
        },
    }


def _one(asked: Sequence[Asked]) -> dict[str, Any]:
    now, then = (
        measures([one for one in asked if group in one.question.groups])
        for group in ("now", "then")
    )
    return {
        "questions": len(asked),
        "now first": now["first"],
        "now mrr": now["mrr"],
        "then recall@10": then["recall@10"],
        "then first": then["first"],
        "cpu_ms": measures(asked)["cpu_ms"],
    }


def measured(worlds: Sequence[World]) -> dict[str, Any]:
    """All figures."""
    ways: dict[str, Any] = {}
    for name, embedder in (("MiniLM", "local"), ("no model", None)):
        ways[name] = figures_of(answers(worlds, ["default"], embedder)["default"])
        with as_found():
            ways[f"{name}, as found"] = figures_of(
                answers(worlds, ["default"], embedder)["default"]
            )
    return {"ways": ways}


def rows(ways: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    """One row of the table for each way and group; what is as found for all alone."""
    for name, groups in ways.items():
        for group, one in groups.items():
            if group == "all" or not name.endswith("as found"):
                yield (name if group == "all" else f"  {group}", *one.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the arguments, measures, prints. Returns the exit status: 0, whatever was measured."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", help="a set of the same form")
    parser.add_argument("--json", help="where the figures are written")
    given = parser.parse_args(arguments)
    data = needed(given.data, "NOW_THEN_DATA", DATA, "--data", "the set of what changed")
    figures = measured(read([data]))
    print(table("Now and then", HEAD, rows(figures["ways"])))
    write_json(given.json, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
