"""A store with much that is wrong, whose mending is killed at statements and commits: whoever mends
it next finds the rest, and after that nothing.

`python -m tests.crash.mending [n]` kills a child at every commit and at each nth statement
(default: every one), and writes what was wrong as JSON.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

from tests.crash.forking import folder, forked
from tests.crash.points import FaultPoints, Tell
from tests.crash.reconciling import answer, charged, charging, make

from pagedaemon import AsyncRuntime
from pagedaemon.store.checkup import Report
from pagedaemon.testing import ScriptedModel

KINDS = ("before a statement", "before a commit", "after a commit")

DAMAGE = (
    "DELETE FROM message_words",
    "DELETE FROM passages_fts_docsize",
    "INSERT INTO attachments (id, space, position, kind, media_type, size, sha256, created_at) "
    "SELECT 'attachment-lost', space, 0, 'file', 'text/plain', 0, '', created_at FROM agents",
    "INSERT INTO embeddings (owner_kind, owner_id, chunk, model, space, seq, dimension, "
    "content_hash, vector) SELECT 'message', 'message-gone', 0, 'm', space, 1, 1, '', x'00000000' "
    "FROM agents",
    "INSERT INTO passage_tags (passage_id, tag) VALUES ('passage-gone', 'sea')",
    "INSERT INTO conversations (id, space, agent_id, name, epoch, lease_owner, last_seq, last_turn,"
    " window_version, warned, folds, created_at) SELECT 'conversation-2', space, id, 'second', 3, "
    "'gone', 0, 0, 0, 0, 0, created_at FROM agents",
)

WRONG = {
    "attachment_orphan",
    "index_unused",
    "lease_left",
    "reference_broken",
    "text_not_indexed",
    "turn_open",
    "vector_orphan",
    "word_index_damaged",
}
"""What is then to be found."""


def opened(store: Path) -> AsyncRuntime:
    """A tool that cannot be asked: what a crash cuts off stays unknown."""
    return AsyncRuntime(
        store / "memory",
        model="script",
        models={"script": ScriptedModel(answer)},
        tools=[charging(store, FaultPoints(), lambda key: None)],
        recover=False,
        embedder=None,
    )


async def fall_ill(store: Path) -> None:
    """The damage, in a store that has a passage, and a turn that was cut off in a charge."""
    index = store / "memory" / "spaces" / "default" / "index" / "0000" / "gen-1"
    index.mkdir(parents=True)
    with closing(sqlite3.connect(store / "memory" / "spaces" / "default" / "space.db")) as raw:
        for statement in DAMAGE:
            raw.execute(statement)
        raw.commit()


async def die(store: Path, tell: Tell) -> None:
    """Dies right after the charge."""
    points = FaultPoints(("inside a tool", 1))
    tools = [charging(store, points, lambda key: None)]
    async with AsyncRuntime(
        store / "memory",
        model="script",
        models={"script": ScriptedModel(answer)},
        tools=tools,
        embedder=None,
    ) as runtime:
        ada = await runtime.agents.get("ada")
        await ada.archive.insert("The pier is closed on Mondays.")
        points.arm()
        await ada.send("Charge order 41.")


async def mend(store: Path, points: FaultPoints) -> Report:
    """One look and its mending."""
    async with opened(store) as runtime:
        points.arm()
        report = await runtime.doctor()
        points.disarm()
    return report


async def mend_twice(store: Path) -> tuple[Report, Report, str | None]:
    """Mending, another look, and what the agent says then."""
    async with opened(store) as runtime:
        first, second = await runtime.doctor(), await runtime.doctor()
        ada = await runtime.agents.get("ada")
        await ada.update(model="offline")
        turn = await ada.send("Are you there?")
    return first, second, turn.reply


def problem(store: Path, told: list[str]) -> str | None:
    """What is wrong after that; None for nothing."""
    if not told:
        return "the next one did not end"
    second, reply = json.loads(told[-1])
    wrong = []
    # A person has to say what became of the charge.
    if second != [["outcome_unknown", "left"]]:
        wrong.append(f"found again: {second}")
    if not reply:
        wrong.append("not answered")
    if len(charged(store)) != 1:
        wrong.append(f"charged {len(charged(store))} times")
    return "; ".join(wrong) or None


def killed_at(template: Path, store: Path, place: tuple[str, int]) -> tuple[bool, str | None]:
    """Whether a child was killed there, and what is wrong with what the next one makes of it."""
    shutil.copytree(template, store)

    async def dying(tell: Tell) -> None:
        points = FaultPoints(place)
        points.watch()
        await mend(store, points)

    async def next_one(tell: Tell) -> None:
        _, second, reply = await mend_twice(store)
        tell(json.dumps([[[one.kind, one.state] for one in second.findings], reply]))

    killed = forked(dying).killed
    wrong = problem(store, forked(next_one).said)
    shutil.rmtree(store)
    return killed, None if wrong is None else f"{place}: {wrong}"


def swept(nth: int) -> dict[str, object]:
    """Kills at every commit and each nth statement."""
    with folder() as where:
        template = where / "template"
        template.mkdir()
        asyncio.run(make(template))
        assert forked(partial(die, template)).killed
        asyncio.run(fall_ill(template))
        shutil.copytree(template, where / "counted")

        async def counting(tell: Tell) -> None:
            points = FaultPoints()
            points.watch()
            report = await mend(where / "counted", points)
            seen = {kind: len(points.seen.get(kind, ())) for kind in KINDS}
            tell(json.dumps([seen, {one.kind: one.state for one in report.findings}]))

        there, found = json.loads(forked(counting).said[-1])
        outcomes = [
            killed_at(template, where / "store", (kind, number))
            for kind, count in there.items()
            for number in range(0, count, nth if kind == "before a statement" else 1)
        ]
    return {
        "places": there,
        "found": found,
        "tried": len(outcomes),
        "killed": sum(killed for killed, _ in outcomes),
        "wrong": [wrong for _, wrong in outcomes if wrong],
    }


if __name__ == "__main__":
    json.dump(swept(int([*sys.argv, "1"][1])), sys.stdout)
