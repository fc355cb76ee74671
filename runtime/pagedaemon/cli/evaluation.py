"""`pagedaemon eval`: how well search finds what a labelled set of the user's says it should."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pagedaemon.cli.labelled import DEPTH, Asked, World, by_group, measures, read
from pagedaemon.cli.progress import Progress, progress
from pagedaemon.cli.screen import Screen
from pagedaemon.errors import InvalidInput
from pagedaemon.memory.presets import PRESETS, known_presets
from pagedaemon.sync.handles import Agent
from pagedaemon.sync.runtime import Runtime

Figures = dict[str, Any]

COLUMNS = ("questions", "recall@5", "recall@10", "first", "mrr", "nothing", "cpu_ms")
HEAD = ("", "questions", "recall@5", "recall@10", "first", "MRR", "nothing", "ms CPU")


@click.command("eval")
@click.option(
    "--ranking",
    "rankings",
    type=click.Choice(list(PRESETS)),
    multiple=True,
    help="What to rank by; may be repeated.  [default: all]",
)
@click.option(
    "--embedder",
    type=click.Choice(["local", "none"]),
    default="local",
    show_default=True,
    help="By words and by meaning with the model on this machine, or by words alone.",
)
@click.option(
    "--sure",
    is_flag=True,
    help="Search as an agent's tools do: nothing where nothing found is likely to answer.",
)
@click.option("--groups", is_flag=True, help="Show each group of questions too.")
@click.option("--json", "out", metavar="OUT", help="Where all figures are written.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
def evaluation(
    files: tuple[str, ...],
    rankings: tuple[str, ...],
    embedder: str,
    sure: bool,
    groups: bool,
    out: str | None,
) -> None:
    """Measure search on a labelled set of yours: FILEs of JSON lines.

    A memory is {"id": "m1", "text": "I moved to Leeds", "at": "2024-05-01T09:00:00Z", "author":
    "Lin"}, a question {"query": "Where does Lin live?", "gold": ["m1"]}; with an empty "gold"
    nothing should be found. The README says what else a line may hold. Everything is stored anew in
    a folder that is removed afterwards; no store of yours is read.

    recall@k is the share of the gold memories among the first k hits, first the share of questions
    whose first hit is gold, MRR the mean reciprocal rank, nothing the share of those without an
    answer that find nothing.
    """
    worlds = read(map(Path, files))
    with progress() as told:
        figures = measured(
            worlds, rankings or tuple(PRESETS), None if embedder == "none" else embedder, sure, told
        )
    rows = [(name, one) for name, one in figures["rankings"].items()]
    if groups:
        rows = [
            row
            for name, one in rows
            for row in (
                (name, one),
                *((f"{name}: {group}", of) for group, of in one["groups"].items()),
            )
        ]
    Screen().table(HEAD, [_row(*row) for row in rows], right=tuple(range(1, len(HEAD))))
    if out is not None:
        text = json.dumps(figures, indent=2, ensure_ascii=False)
        try:
            Path(out).write_text(f"{text}\n", encoding="utf-8")
        except OSError as error:
            raise InvalidInput(f"{out} cannot be written: {error}") from error


def _row(name: str, figures: Mapping[str, Any]) -> tuple[str, ...]:
    return (name, *(_shown(figures[column]) for column in COLUMNS))


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def measured(
    worlds: Sequence[World],
    rankings: Sequence[str],
    embedder: str | None,
    sure: bool,
    told: Progress | None = None,
) -> Figures:
    """All figures: of each ranking the measures, and those of each group.

    Raises:
        InvalidInput: none of the rankings is one of these memories, or a memory cannot be stored.
    """
    done = answers(worlds, rankings, embedder, sure=sure, told=told)
    return {
        "embedder": embedder,
        "sure": sure,
        "memories": sum(len(world.memories) for world in worlds),
        "rankings": {
            ranking: {**measures(asked), "groups": by_group(asked)}
            for ranking, asked in done.items()
        },
    }


def answers(
    worlds: Sequence[World],
    rankings: Sequence[str],
    embedder: str | None,
    *,
    sure: bool = False,
    told: Progress | None = None,
) -> dict[str, list[Asked]]:
    """What each ranking answers. One that a world's memories do not have is left out there, and one
    that no world has altogether.

    Raises:
        InvalidInput: none of the rankings is one of these memories, or a memory cannot be stored.
    """
    asked: dict[str, list[Asked]] = {ranking: [] for ranking in rankings}
    with (
        tempfile.TemporaryDirectory(prefix="pagedaemon-eval-") as folder,
        Runtime(Path(folder).resolve(), model="offline", embedder=embedder) as runtime,
    ):
        for number, world in enumerate(worlds, 1):
            # A space each: how rare a word is, is counted over all texts of one.
            space = runtime.space(f"world-{number}")
            agent = space.agents.create("main")
            keys = _stored(agent, world)
            space.reindex()
            known = known_presets("records" if world.kept else "messages")
            for ranking in (one for one in rankings if one in known):
                asked[ranking] += _asked(agent, world, keys, ranking, sure)
            if told is not None:
                told(number, len(worlds), "worlds asked")
    done = {ranking: some for ranking, some in asked.items() if some}
    if not done:
        raise InvalidInput(f"messages are ranked by one of {', '.join(known_presets('messages'))}")
    return done


Keys = Mapping[Any, str]
"""Ids of the set by what a hit is known by."""


def _stored(agent: Agent, world: World) -> Keys:
    if world.kept:
        keys: dict[Any, str] = {}
        for memory in world.memories:
            stored = agent.archive.insert(
                memory.text,
                tags=memory.tags,
                purposes=memory.purposes,
                importance=memory.importance,
                confidence=memory.confidence,
                happened_at=memory.at,
            )
            keys.setdefault(stored.id, memory.id)
        return keys
    lines = []
    for memory in world.memories:
        assert memory.at is not None, "each was given a time"
        line = {"role": memory.role, "content": memory.text, "created_at": memory.at.isoformat()}
        lines.append(line if memory.author is None else {**line, "name": memory.author})
    agent.recall.import_jsonl(lines)
    return {(one.at, one.author, one.text.strip()): one.id for one in reversed(world.memories)}


def _asked(agent: Agent, world: World, keys: Keys, ranking: str, sure: bool) -> Iterable[Asked]:
    for question in world.questions:
        began = time.process_time()
        if world.kept:
            found: list[Any] = [
                hit.id
                for hit in agent.archive.search(
                    question.query, ranking=ranking, sure=sure, page_size=DEPTH
                ).hits
            ]
        else:
            found = [
                (hit.message.created_at, hit.message.author, hit.text.strip())
                for hit in agent.recall.search(
                    question.query, ranking=ranking, sure=sure, page_size=DEPTH
                ).hits
            ]
        cpu = time.process_time() - began
        yield Asked(question, tuple(keys[one] for one in found), cpu)
