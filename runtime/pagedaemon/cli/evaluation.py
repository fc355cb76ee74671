"""`pagedaemon eval`: how well search finds what a labelled set of the user's says it should."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

import click

from pagedaemon.cli.labelled import DEPTH, Asked, Memory, World, by_group, measures, read
from pagedaemon.cli.progress import Progress, progress, remark
from pagedaemon.cli.screen import Screen, one_line
from pagedaemon.clock import SystemClock
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
    if out is not None:
        _require_writable(Path(out))
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
    for ids in figures["same"]:
        remark(one_line(f"{', '.join(ids)} say the same and are kept once: any of them counts"))
    if out is not None:
        text = json.dumps(figures, indent=2, ensure_ascii=False)
        try:
            Path(out).write_text(f"{text}\n", encoding="utf-8")
        except OSError as error:
            raise InvalidInput(f"{out} cannot be written: {error}") from error


def _require_writable(out: Path) -> None:
    """Tells before a long run what would be told after it.

    Raises:
        InvalidInput: no file can be written there.
    """
    if out.is_dir():
        raise InvalidInput(f"{out} cannot be written: it is a folder")
    if not os.access(out if out.exists() else out.parent, os.W_OK):
        raise InvalidInput(f"{out} cannot be written: there is no such folder, or it is not yours")


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
    same: list[tuple[str, ...]] = []
    done = answers(worlds, rankings, embedder, sure=sure, told=told, same=same)
    return {
        "embedder": embedder,
        "sure": sure,
        "memories": sum(len(world.memories) for world in worlds),
        "same": same,
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
    same: list[tuple[str, ...]] | None = None,
) -> dict[str, list[Asked]]:
    """What each ranking answers. One that a world's memories do not have is left out there, and one
    that no world has altogether.

    Args:
        same: takes the ids of memories that say the same, and are kept once.

    Raises:
        InvalidInput: none of the rankings is one of these memories, or a memory cannot be stored.
    """
    asked: dict[str, list[Asked]] = {ranking: [] for ranking in rankings}
    clock = _Clock()
    with (
        tempfile.TemporaryDirectory(prefix="pagedaemon-eval-") as folder,
        _ended_by_signal(),
        Runtime(Path(folder).resolve(), model="offline", embedder=embedder, clock=clock) as runtime,
    ):
        for number, world in enumerate(worlds, 1):
            # A space each: how rare a word is, is counted over all texts of one.
            space = runtime.space(f"world-{number}")
            agent = space.agents.create("main")
            keys = _stored(agent, world)
            if same is not None:
                same += _same(keys)
            space.reindex()
            known = known_presets("records" if world.kept else "messages")
            for ranking in (one for one in rankings if one in known):
                asked[ranking] += _asked(agent, world, keys, ranking, sure, clock)
            if told is not None:
                told(number, len(worlds), "worlds asked")
    done = {ranking: some for ranking, some in asked.items() if some}
    if not done:
        raise InvalidInput(f"messages are ranked by one of {', '.join(known_presets('messages'))}")
    return done


class _Clock(SystemClock):
    """The machine's, but for what is "now" while a question of another time is asked."""

    at: datetime | None = None

    def now(self) -> datetime:
        """The question's time, or the machine's."""
        return super().now() if self.at is None else self.at


@contextmanager
def _ended_by_signal() -> Iterator[None]:
    """SIGTERM ends the run as an error does, so that its folder is removed."""

    def ended(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield  # only there a signal can be taken
        return
    before = signal.signal(signal.SIGTERM, ended)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@dataclass(frozen=True)
class _Keys:
    """Ids of the set."""

    of_hits: Mapping[Any, str]
    """By what a hit is known by; of memories that say the same the first."""
    first: Mapping[str, str]
    """By the id of each memory."""


def _stored(agent: Agent, world: World) -> _Keys:
    if world.kept:
        known_by: list[Any] = [
            agent.archive.insert(
                memory.text,
                tags=memory.tags,
                purposes=memory.purposes,
                importance=memory.importance,
                confidence=memory.confidence,
                happened_at=memory.at,
            ).id
            for memory in world.memories
        ]
    else:
        known_by = [(one.at, one.author, one.text.strip()) for one in world.memories]
        agent.recall.import_jsonl([_line(memory) for memory in world.memories])
    of_hits: dict[Any, str] = {}
    for key, memory in zip(known_by, world.memories, strict=True):
        of_hits.setdefault(key, memory.id)
    ids = (memory.id for memory in world.memories)
    return _Keys(of_hits, {one: of_hits[key] for one, key in zip(ids, known_by, strict=True)})


def _line(memory: Memory) -> dict[str, str]:
    assert memory.at is not None, "each was given a time"
    line = {"role": memory.role, "content": memory.text, "created_at": memory.at.isoformat()}
    return line if memory.author is None else {**line, "name": memory.author}


def _same(keys: _Keys) -> list[tuple[str, ...]]:
    """The ids that stand for one memory, where there are several."""
    alike: dict[str, list[str]] = {}
    for one, first in keys.first.items():
        alike.setdefault(first, []).append(one)
    return [tuple(ids) for ids in alike.values() if len(ids) > 1]


def _asked(
    agent: Agent, world: World, keys: _Keys, ranking: str, sure: bool, clock: _Clock
) -> Iterator[Asked]:
    for question in world.questions:
        clock.at = question.at
        began = time.process_time()
        if world.kept:
            found: list[Any] = [
                hit.id
                for hit in agent.archive.search(
                    question.query,
                    purposes=question.purposes,
                    ranking=ranking,
                    sure=sure,
                    page_size=DEPTH,
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
        clock.at = None
        gold = tuple(dict.fromkeys(keys.first[one] for one in question.gold))
        judged = question
        if gold != question.gold:
            judged = question.model_copy(update={"gold": gold})
        yield Asked(judged, tuple(keys.of_hits[one] for one in found), cpu)
