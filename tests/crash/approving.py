"""A call that waits for a person, approved, and killed at statements and commits: it is run at most
once, and its agent is told.

`python -m tests.crash.approving [n] [bug]` kills a child at every commit and at each nth statement
(default: every one; 0: none), with a bug of `bugs.py` in it, and writes what was wrong as JSON.

The child sends a message, approves the call that comes of it, and waits until the agent was told.
Whoever opens the store afterwards does what is left of that. What the tool did is counted in a file
beside the database.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from tests.crash import bugs
from tests.crash.driver import Told, folder, forked
from tests.crash.points import FaultPoints

from pagedaemon import AsyncRuntime, tool
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import FakeClock, ScriptedModel, call, say, view
from pagedaemon.tools.tool import Tool

KINDS = ("before a statement", "before a commit", "after a commit")


def mailing(ledger: Path) -> Tool:
    """The tool, which must never run twice."""

    @tool(approval="always")
    def mail(to: str) -> str:
        """Sends a mail.

        Args:
            to: whom.
        """
        with ledger.open("a") as file:
            file.write(f"{to}\n")
        return f"sent to {to}"

    return mail


def answer(request: Request) -> Reply:
    """Mails once, and says what it was told."""
    if '"reason": "approv' in str(request.messages[-1]["content"]):
        told = view(request).events[-1]
        return say(str(told.get("status", told.get("decision"))))
    if "mail" not in view(request).results:
        return call("mail", to="bob")
    return say("It waits.")


def opened(store: Path) -> AsyncRuntime:
    """With the code of the tool."""
    return AsyncRuntime(
        store / "memory",
        model="script",
        models={"script": ScriptedModel(answer)},
        tools=[mailing(store / "ledger")],
        clock=FakeClock(),
        embedder=None,
    )


async def make(store: Path) -> None:
    """The agent, before anything is said."""
    async with opened(store) as runtime:
        await runtime.agents.create("ada", tools=[mailing(store / "ledger")])


async def run(store: Path, points: FaultPoints) -> None:
    """Sends, approves, and waits for what comes of it; what was done before is not done again."""
    points.arm()
    async with opened(store) as runtime:
        ada = await runtime.agents.get("ada")
        await (await ada.send_later("Mail bob.", key="once")).wait()
        for one in await runtime.approvals.list():
            await one.approve()
        main = await ada.conversations.get("main")
        for turn in await main.turns(status="open"):
            await turn.wait()
        points.disarm()


def found(store: Path) -> tuple[list[str], list[tuple[str, str]], list[str], int]:
    """What was mailed, the turns by what woke them and how they ended, the states of approvals, and
    how often the agent was told an outcome."""
    ledger = store / "ledger"
    sent = ledger.read_text().split() if ledger.exists() else []
    with closing(sqlite3.connect(store / "memory" / "spaces" / "default" / "space.db")) as raw:
        turns = raw.execute("SELECT event, status FROM turns ORDER BY seq").fetchall()
        states = [row[0] for row in raw.execute("SELECT status FROM approvals")]
        told = raw.execute(
            """SELECT count(*) FROM messages WHERE text LIKE '%"reason": "approved_call"%'"""
        ).fetchone()[0]
    return sent, turns, states, told


def problem(store: Path, *, killed: bool) -> str | None:
    """What is wrong with a store in which all was done; None for nothing."""
    sent, turns, states, told = found(store)
    wrong = []
    # Killed within the call itself it may be that nothing was sent, and the agent is told so.
    if len(sent) > 1 or (not killed and not sent):
        wrong.append(f"mailed {sent}")
    if turns != [("message", "done"), ("approval", "done")]:
        wrong.append(f"turns {turns}")
    if states != ["used"]:
        wrong.append(f"approvals {states}")
    if told != 1:
        wrong.append(f"told {told} times")
    return "; ".join(wrong) or None


def places(store: Path) -> dict[str, int]:
    """How many places of each kind there are."""

    async def counting(tell: Told) -> None:
        points = FaultPoints()
        points.watch()
        await run(store, points)
        tell(json.dumps({kind: len(points.seen.get(kind, ())) for kind in KINDS}))

    ended = forked(counting)
    assert ended.code == 0, "a run without a kill failed"
    assert (wrong := problem(store, killed=False)) is None, wrong
    seen: dict[str, int] = json.loads(ended.said[-1])
    return seen


def killed_at(
    template: Path, store: Path, place: tuple[str, int], bug: str | None
) -> tuple[bool, str | None]:
    """Whether a child was killed there, and what is wrong with what the next one makes of it."""
    shutil.copytree(template, store)

    async def dying(tell: Told) -> None:
        if bug is not None:
            getattr(bugs, bug)()
        points = FaultPoints(place)
        points.watch()
        await run(store, points)

    async def recovering(tell: Told) -> None:
        await run(store, FaultPoints())

    killed = forked(dying).killed
    recovered = forked(recovering)
    wrong = problem(store, killed=True)
    if recovered.code or wrong:
        wrong = f"{place}: {recovered.code}, {wrong}"
    shutil.rmtree(store)
    return killed, wrong


def numbers(kind: str, count: int, nth: int) -> range:
    """At which of so many places of a kind a child is killed."""
    if kind != "before a statement":
        return range(count)
    return range(0, count, nth) if nth else range(0)


def main(nth: int = 1, bug: str | None = None) -> None:
    """Kills at every commit and each nth statement."""
    with folder() as where:
        template = where / "template"
        template.mkdir()
        asyncio.run(make(template))
        shutil.copytree(template, where / "counted")
        there = places(where / "counted")
        outcomes = [
            killed_at(template, where / "store", (kind, number), bug)
            for kind, count in there.items()
            for number in numbers(kind, count, nth)
        ]
    killed = sum(killed for killed, _ in outcomes)
    wrong = [one for _, one in outcomes if one]
    report = {"places": there, "tried": len(outcomes), "killed": killed, "wrong": wrong}
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main(int([*sys.argv, "1"][1]), *sys.argv[2:])
