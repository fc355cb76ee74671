"""A turn whose message does not fit any more: the oldest messages leave the window with a summary,
the agent finds again what left, and in the end all texts get their vectors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.crash.look import ACCEPTED, HEARD, Look
from tests.crash.points import FaultPoints, Tell, unheard
from tests.crash.workload import Workload

from pagedaemon import AsyncRuntime, Model
from pagedaemon.config import LEASE_SECONDS
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import FakeEmbedder, ScriptedModel, call, say, text, view

AGENT = "skipper"
SUMMARY = "They talked of boats, of their sails and of a red anchor."
FILLING = "boats and their sails " * 12
FULL = 0.8
"""Share of the window that is filled before: the agent has been warned, and nothing has left."""


class Paging(Workload):
    """The agent's window is full."""

    name = "paging"
    task = ("What colour has the anchor of my boat? " + "Think of all our boats. " * 120).strip()
    agents = (AGENT,)

    def __init__(
        self, store: Path, points: FaultPoints | None = None, tell: Tell = unheard
    ) -> None:
        super().__init__(store, points, tell)
        self._model = ScriptedModel(_answer, usage=None)

    @property
    def models(self) -> Mapping[str, ScriptedModel]:
        """One, that summarises too."""
        return {"script": self._model}

    def open(self, *, lease_seconds: float = LEASE_SECONDS) -> AsyncRuntime:
        """With a small window, and vectors."""
        return AsyncRuntime(
            self.store,
            model=Model("script", context_window=6_256, max_output_tokens=256),
            models=self.models,
            embedder=FakeEmbedder(dimension=8),
            lease_seconds=lease_seconds,
        )

    async def make(self) -> None:
        """The agent, and as much said as it can hold."""
        async with self.open() as runtime:
            agent = await runtime.agents.create(AGENT, instructions="Be brief.")
            await agent.send("The anchor of my boat is red.")
            report = await agent.context()
            while report.tokens < FULL * report.budget:
                await agent.send(f"Of {FILLING}")
                report = await agent.context()
            assert report.tokens < 0.9 * report.budget

    async def act(self, runtime: AsyncRuntime) -> None:
        """The turn, and then the vectors."""
        agent = await runtime.agents.get(AGENT)
        assert self.task is not None
        async for happened in agent.stream(self.task):
            self.tell(ACCEPTED)
            self.hear(happened)
        await runtime.reindex()

    def look_before(self, look: Look) -> None:
        """At the window, and at what has a vector."""
        super().look_before(look)
        self._no_half_page_out(look)
        self._all_searched(look)

    async def look_after(self, look: Look, runtime: AsyncRuntime) -> None:
        """At the same, and at the answer."""
        self._no_half_page_out(look)
        self._all_searched(look)
        stored = look.number("SELECT count(*) FROM messages WHERE text = ?", self.task)
        folds = look.number("SELECT folds FROM conversations")
        look.require(folds >= stored, "half paged out", f"{folds} folds")
        look.facts["folds"] = folds
        told = look.number(
            "SELECT count(*) FROM turns, json_each(told)"
            " WHERE json_extract(value, '$.type') = 'paged_out'"
        )
        look.require(told == folds, "half paged out", f"{told} told of {folds}")

    def _no_half_page_out(self, look: Look) -> None:
        """One summary stands for all that has left."""
        ((folds, summary_id),) = look.rows("SELECT folds, summary_id FROM conversations")
        summaries = look.number("SELECT count(*) FROM messages WHERE kind = 'summary'")
        shown = look.rows(
            "SELECT id, json_extract(data, '$.messages') FROM messages"
            " WHERE kind = 'summary' AND in_window"
        )
        left = {
            one
            for (one,) in look.rows(
                "SELECT id FROM messages WHERE NOT in_window AND kind != 'summary'"
            )
        }
        stood_for = {
            one
            for (one,) in look.rows(
                "WITH RECURSIVE of(id) AS (SELECT ? UNION SELECT parent_id FROM provenance"
                " JOIN of ON child_id = of.id) SELECT of.id FROM of JOIN messages"
                " ON messages.id = of.id WHERE kind != 'summary'",
                summary_id,
            )
        }
        there = [] if summary_id is None else [(summary_id, len(left))]
        whole = summaries == folds and shown == there and stood_for == left
        look.require(whole, "half paged out", (folds, summaries, shown, len(left)))

    def _all_searched(self, look: Look) -> None:
        """What was said in turns that have ended has vectors, or waits for them."""
        without = look.rows(
            "SELECT text FROM messages JOIN turns ON turns.id = turn_id"
            " WHERE turns.status = 'done' AND messages.id IN (SELECT id FROM message_words)"
            " AND messages.id NOT IN (SELECT owner_id FROM embeddings)"
            " AND messages.id NOT IN (SELECT owner_id FROM outbox)"
        )
        look.require(not without, "not searched", [row[0][:40] for row in without])


def _answer(request: Request) -> Reply:
    if request.purpose == "summary":
        return text(SUMMARY)
    seen = view(request)
    if seen.last_user != Paging.task:
        return say(f"{HEARD}{seen.last_user.splitlines()[-1]}")
    if "conversation_search" not in seen.results:
        return call("conversation_search", query="anchor", heartbeat=True)
    return say("Red.")
