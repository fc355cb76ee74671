"""A store with much that is wrong, whose mending is killed: whoever mends it next finds the rest,
and after that nothing."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

from tests.crash.forking import forked
from tests.crash.look import Look
from tests.crash.points import FaultPoints, Tell
from tests.crash.reconciling import AGENT, Unsure

from pagedaemon import AsyncRuntime
from pagedaemon.store.checkup import Report

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

FOUND = "found "
"""How the line begins that tells what was found, and what was done about it."""


class Mending(Unsure):
    """The doctor, in a store in which a turn was cut off right after a charge. The tool does not
    know what became of that: it stays unknown, for a person to say."""

    name = "mending"
    recovers = False

    def spoil(self) -> None:
        """The turn that is cut off, in an agent that has a passage; and the damage."""

        async def dying(tell: Tell) -> None:
            process = Unsure(self.store, FaultPoints(("inside a tool", 1)), tell)
            async with process.open() as runtime:
                agent = await runtime.agents.get(AGENT)
                await agent.archive.insert("The pier is closed on Mondays.")
                process.points.arm()
                await process.act(runtime)

        assert forked(dying).killed
        space = self.store / "spaces" / "default"
        (space / "index" / "0000" / "gen-1").mkdir(parents=True)
        with closing(sqlite3.connect(space / "space.db")) as raw:
            for statement in DAMAGE:
                raw.execute(statement)
            raw.commit()

    async def act(self, runtime: AsyncRuntime) -> None:
        """One look and its mending."""
        report = await runtime.doctor()
        self.tell(FOUND + json.dumps({one.kind: one.state for one in report.findings}))

    async def look_after(self, look: Look, runtime: AsyncRuntime) -> None:
        """There is nothing left to be mended."""
        report: Report = await runtime.doctor()
        left = [(one.kind, one.state) for one in report.findings]
        look.require(left == [("outcome_unknown", "left")], "not mended", left)
        charged = len(self.effects())
        look.require(charged == 1, "ran twice", f"{charged} charges")
        told = [line for lines in look.said for line in lines if line.startswith(FOUND)]
        look.facts["found"] = json.loads(told[0].removeprefix(FOUND)) if told else None
