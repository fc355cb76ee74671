"""A labelled set: memories, questions about them, and which memories answer each; and how well a
ranking does on it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pagedaemon.errors import InvalidInput, NotFound
from pagedaemon.memory.archival import check_tags
from pagedaemon.messages import checked_text

DEPTHS = (5, 10)
"""Of recall@k."""

DEPTH = 20
"""How far down answers are looked for; beyond, their reciprocal rank counts 0."""

BEGAN = datetime(2000, 1, 1, tzinfo=UTC)
"""The time of a first memory without one; each after it is a second later than the one before."""


OF_RECORDS = frozenset({"tags", "purposes", "importance", "confidence"})
"""What no message has."""


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    world: str = Field(default="", alias="in")


class Memory(_Line):
    """A line with a text: something that is remembered."""

    id: str = Field(min_length=1)
    text: str = Field(min_length=1)
    at: datetime | None = Field(default=None, strict=False)
    """When it was said, or what it tells of was; UTC where no zone is given."""
    kind: Literal["message", "passage"] = "message"
    author: str | None = None
    role: Literal["user", "assistant"] = "user"
    tags: tuple[str, ...] = Field(default=(), strict=False)
    purposes: tuple[str, ...] = Field(default=(), strict=False)
    importance: float | None = Field(default=None, ge=1, le=10)
    confidence: float = Field(default=1.0, ge=0, le=1)


class Question(_Line):
    """A line with a query: something that is asked, and the ids of what answers it."""

    query: str = Field(min_length=1)
    gold: tuple[str, ...] = Field(strict=False)
    """None: nothing answers it, and nothing should be found."""
    purposes: tuple[str, ...] = Field(default=(), strict=False)
    """Only records for one of them are looked at."""
    at: datetime | None = Field(default=None, strict=False)
    """When it is asked, which "yesterday" and how new a memory is are seen from; UTC where no zone
    is given. None: when it is measured."""
    groups: tuple[str, ...] = Field(default=(), strict=False)
    """Under which it is reported too."""


@dataclass(frozen=True)
class World:
    """What is remembered in one place and asked about it."""

    name: str
    memories: tuple[Memory, ...]
    questions: tuple[Question, ...]

    @property
    def kept(self) -> bool:
        """Its memories are records of the archive, not messages."""
        return self.memories[0].kind == "passage"


@dataclass
class _Collected:
    memories: list[Memory] = field(default_factory=list)
    questions: list[tuple[str, Question]] = field(default_factory=list)


def read(paths: Iterable[Path]) -> list[World]:
    """The worlds of these files, taken together, in the order in which they are first named.

    Raises:
        NotFound: there is no such file.
        InvalidInput: a line is neither a memory nor a question, has a text or a time that no store
            can keep, repeats an id, asks for one that is nowhere in its world or for purposes of
            messages, or puts a passage among messages; or nothing is asked. The text names file and
            line.
    """
    found: dict[str, _Collected] = {}
    for path in paths:
        for where, line in _lines(path):
            _add(found, where, line)
    worlds = [_world(name, collected) for name, collected in found.items()]
    if not any(world.questions for world in worlds):
        raise InvalidInput("nothing is asked: a question is a line with query and gold")
    return worlds


def _lines(path: Path) -> Iterable[tuple[str, Memory | Question]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {path}") from error
    except IsADirectoryError as error:
        raise InvalidInput(f"{path} is a folder: name the files in it") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            where = f"{path}, line {number}"
            yield where, _parsed(where, line)


def _parsed(where: str, line: str) -> Memory | Question:
    try:
        values = json.loads(line)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{where}: no JSON: {error}") from error
    if not isinstance(values, dict) or ("text" in values) == ("query" in values):
        raise InvalidInput(f"{where}: an object with either text (a memory) or query (a question)")
    shape = Memory if "text" in values else Question
    try:
        return _checked(shape.model_validate(values))
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error
    except ValidationError as error:
        told = error.errors()[0]
        named = ".".join(str(part) for part in told["loc"])
        # What is a tuple here is a list in JSON.
        wrong = "a list is meant, [...]" if told["type"] == "tuple_type" else told["msg"]
        raise InvalidInput(f"{where}: {named}: {wrong}") from error


def _checked(line: Memory | Question) -> Memory | Question:
    """The line, if a store can hold it, with its time in UTC."""
    check_tags(line.purposes, "purpose")
    if isinstance(line, Memory):
        check_tags(line.tags)
        checked_text(line.id, "the id")
        checked_text(line.text, "the text")
        if line.author is not None:
            checked_text(line.author, "the author")
        if line.kind == "message" and (given := sorted(OF_RECORDS & line.model_fields_set)):
            raise InvalidInput(
                f'{", ".join(given)}: only records have that: write "kind": "passage", or leave it '
                "out"
            )
    else:
        checked_text(line.query, "the query")
    return line if line.at is None else line.model_copy(update={"at": _utc(line.at)})


def _add(found: dict[str, _Collected], where: str, line: Memory | Question) -> None:
    world = found.setdefault(line.world, _Collected())
    if isinstance(line, Question):
        world.questions.append((where, line))
        return
    if any(one.id == line.id for one in world.memories):
        raise InvalidInput(f"{where}: there is a memory {line.id!r} already")
    if world.memories and world.memories[0].kind != line.kind:
        raise InvalidInput(
            f'{where}: messages and passages are asked apart: give each its own "in"'
        )
    world.memories.append(line)


def _world(name: str, collected: _Collected) -> World:
    known = {memory.id for memory in collected.memories}
    for where, question in collected.questions:
        if not known:
            raise InvalidInput(f"{where}: nothing is remembered there")
        if question.purposes and collected.memories[0].kind == "message":
            raise InvalidInput(f"{where}: purposes are of records, and these are messages")
        for gold in question.gold:
            if gold not in known:
                raise InvalidInput(f"{where}: there is no memory {gold!r}")
    dated: list[Memory] = []
    at = BEGAN - timedelta(seconds=1)
    for memory in collected.memories:
        at = at + timedelta(seconds=1) if memory.at is None else memory.at
        dated.append(memory.model_copy(update={"at": at}))
    return World(name, tuple(dated), tuple(question for _, question in collected.questions))


def _utc(at: datetime) -> datetime:
    try:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(f"at: outside the calendar: {at}") from error


@dataclass(frozen=True)
class Asked:
    """A question as it was answered."""

    question: Question
    found: tuple[str, ...]
    """Ids, best first."""
    cpu: float
    """Seconds."""


def measures(asked: Sequence[Asked]) -> dict[str, float | int | None]:
    """How good the answers are: of questions with an answer recall@k, the share whose first hit is
    one, and the mean reciprocal rank; of those without, the share that found nothing; of all, CPU.
    None where there are no such questions."""
    with_answer = [one for one in asked if one.question.gold]
    without = [one for one in asked if not one.question.gold]
    judged: dict[str, list[float]] = {}
    for one in with_answer:
        gold = set(one.question.gold)
        for depth in DEPTHS:
            share = len(gold.intersection(one.found[:depth])) / len(gold)
            judged.setdefault(f"recall@{depth}", []).append(share)
        ranks = [rank for rank, found in enumerate(one.found, 1) if found in gold]
        judged.setdefault("first", []).append(float(ranks[:1] == [1]))
        judged.setdefault("mrr", []).append(1 / ranks[0] if ranks else 0.0)
    names = [*(f"recall@{depth}" for depth in DEPTHS), "first", "mrr"]
    return {
        "questions": len(asked),
        **{name: fmean(judged[name]) if name in judged else None for name in names},
        "nothing": fmean(not one.found for one in without) if without else None,
        "cpu_ms": 1_000 * fmean(one.cpu for one in asked) if asked else None,
    }


def by_group(asked: Sequence[Asked]) -> dict[str, Mapping[str, float | int | None]]:
    """The measures of each group, in the order in which groups are first named."""
    groups = dict.fromkeys(group for one in asked for group in one.question.groups)
    return {
        group: measures([one for one in asked if group in one.question.groups]) for group in groups
    }
