"""Makes the two labelled sets of our own: what was true and is not any more, and what nobody said.

    python tests/benchmarks/sets.py [--to FOLDER]

writes `now_then.jsonl` and `unanswerable.jsonl` into `data/` or that folder, the same from the same
seed; a test compares. Each line is one of those `pagedaemon eval` reads: a memory, or a question
with the ids of the memories that answer it. The sentences stand in `data/changes.json` and
`data/topics.json`, all of them our own.

Now and then: in each world a person says things that later become untrue (where one lives, a phone
number, how a knee is), once or twice, and later what is true instead, months apart, among other
talk; often somebody else says of himself what is of the same kind. Half of the cases have no cue
word: neither what is said later nor the question says moved, changed, new or now.

Unanswerable: in each world a person speaks of half of the topics, and is asked about all of them in
the same words. Of some that were not spoken of, something near was said that answers nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("data")

BEGAN = datetime(2022, 1, 10, 8, 0, tzinfo=UTC)
DAYS = 1_200
"""Days from the first memory of a world to the last."""

WORLDS = {"en": 24, "de": 8, "es": 4, "fr": 4, "zh": 4}

Line = dict[str, Any]


@dataclass
class World:
    """What is remembered in one place, and what is asked about it."""

    name: str
    language: str
    kept: bool
    """Its memories are passages of the archive, in place of messages."""
    drawn: random.Random

    def __post_init__(self) -> None:
        self.said: list[Line] = []
        self.asked: list[Line] = []

    def memory(self, text: str, day: int, author: str, role: str = "user") -> str:
        """One more memory, at some time of a day. Returns its id."""
        at = BEGAN + timedelta(days=day, minutes=self.drawn.randrange(14 * 60))
        identity = f"{self.name}-{len(self.said) + 1}"
        line: Line = {"in": self.name, "id": identity, "text": text, "at": at.isoformat()}
        if self.kept:
            line["kind"] = "passage"
        else:
            line |= {"author": author} if role == "user" else {"role": role}
        self.said.append(line)
        return identity

    def question(self, text: str, gold: Iterable[str], groups: Iterable[str]) -> None:
        """One more question."""
        medium = "passages" if self.kept else "messages"
        named = [*groups, self.language, medium]
        self.asked.append({"in": self.name, "query": text, "gold": list(gold), "groups": named})

    def lines(self) -> list[Line]:
        """Memories as time goes, and the questions behind them."""
        return [*sorted(self.said, key=lambda line: str(line["at"])), *self.asked]


def now_then(seed: int = 1) -> list[Line]:
    """All lines of the set of what changed."""
    sentences = _read("changes.json")
    topics = _read("topics.json")
    lines: list[Line] = []
    for language, count in WORLDS.items():
        for number in range(1, count + 1):
            drawn = random.Random(f"{seed} {language} {number}")
            world = World(f"{language}-{number:02}", language, number % 2 == 0, drawn)
            here = sentences[language]
            person, *others = drawn.sample(here["people"], 3)
            for place, subject in enumerate(here["subjects"]):
                _changed(world, here, subject, person, others, cue=(place + number // 2) % 2 == 0)
            _small_talk(world, topics, person, count=34)
            lines += world.lines()
    return lines


def _changed(
    world: World,
    here: Line,
    subject: Line,
    person: str,
    others: Sequence[str],
    *,
    cue: bool,
) -> None:
    """One thing that is no longer as it was."""
    drawn = world.drawn
    old, new, rival, older = drawn.sample(subject["values"], 4)
    plain, changed = ("kept", "kept_cue") if world.kept else ("plain", "cue")
    wordings = drawn.sample(subject[plain], 2)
    first = drawn.randrange(20, 500)
    last = first + drawn.randrange(30, 600)

    def say(template: str, who: str, value: str, day: int, before: str = "") -> str:
        return world.memory(_filled(template, n=who, v=value, o=before), day, who)

    if drawn.random() < 0.2:
        say(drawn.choice(subject[plain]), person, older, first - 15)
    then = [say(wordings[0], person, old, first)]
    if drawn.random() < 0.25:
        then.append(say(wordings[1], person, old, first + drawn.randrange(1, 25)))
    later = drawn.choice(subject[changed]) if cue else wordings[1]
    now = [say(later, person, new, last, old)]
    if drawn.random() < 0.4:
        other = drawn.choice(others)
        say(drawn.choice(subject[plain]), other, rival, drawn.randrange(first, DAYS))
    asked = drawn.choice([*subject["now"], *subject["now_cue"]] if cue else subject["now"])
    named = [subject["name"], "cue" if cue else "no cue"]
    world.question(_filled(asked, n=person), now, ["now", *named])
    day = BEGAN + timedelta(days=first)
    back = _filled(
        drawn.choice(subject["then"]),
        n=person,
        month=here["months"][day.month - 1],
        year=str(day.year),
    )
    world.question(back, then, ["then", *named])


def unanswerable(seed: int = 2, worlds: int = 20, topics: int = 24) -> list[Line]:
    """All lines of the set of what nobody said."""
    sentences = _read("topics.json")
    people = _read("changes.json")["en"]["people"]
    lines: list[Line] = []
    for number in range(1, worlds + 1):
        drawn = random.Random(f"{seed} {number}")
        world = World(f"talk-{number:02}", "en", number % 2 == 0, drawn)
        person = drawn.choice(people)
        for place, topic in enumerate(drawn.sample(sentences["topics"], topics)):
            question = _filled(drawn.choice(topic["asked"]), n=person)
            day = drawn.randrange(DAYS)
            if place % 2:
                said = drawn.choice(topic["said"])
                text = f"{person} said: {said}" if world.kept else said
                gold = [world.memory(text, day, person)]
                world.question(question, gold, ["answerable", topic["name"]])
            elif place % 6 == 0:
                world.memory(topic["near"], day, person)
                world.question(question, [], ["unanswerable", "near", topic["name"]])
            else:
                world.question(question, [], ["unanswerable", "far", topic["name"]])
        _small_talk(world, {**sentences, "topics": []}, person, count=40)
        lines += world.lines()
    return lines


def _small_talk(world: World, sentences: Line, person: str, *, count: int) -> None:
    drawn = world.drawn
    talk = [*sentences["talk"], *(topic["near"] for topic in sentences["topics"])]
    for text in drawn.sample(talk, min(count, len(talk))):
        day = drawn.randrange(DAYS)
        world.memory(text, day, person)
        if not world.kept and drawn.random() < 0.3:
            world.memory(drawn.choice(sentences["answers"]), day, "", role="assistant")


def _filled(template: str, **values: str) -> str:
    # Not `format`: what is no name of ours in braces would stop it.
    for name, value in values.items():
        template = template.replace(f"{{{name}}}", value)
    return template[:1].upper() + template[1:]


def _read(name: str) -> Any:
    return json.loads((DATA / name).read_text(encoding="utf-8"))


def written(lines: Iterable[Line]) -> str:
    """Lines as their file holds them."""
    return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes both files."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--to", type=Path, default=DATA, help="the folder they are written to")
    folder = parser.parse_args(arguments).to
    for name, lines in (("now_then", now_then()), ("unanswerable", unanswerable())):
        (folder / f"{name}.jsonl").write_text(written(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
