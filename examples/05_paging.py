"""Paging in a small window: what the model sees by section, what leaves, and what comes back."""

from __future__ import annotations

import tempfile

from pagedaemon import Block, Model, Paging, Runtime
from pagedaemon.sync.handles import Agent

MODEL = Model("offline", context_window=8_192, max_output_tokens=512)


def show(agent: Agent, title: str) -> None:
    """The request the agent would make now."""
    context = agent.context()
    print(f"\n{title}: {context.tokens:,} of {context.budget:,} tokens")
    for part in context.parts:
        print(f"  {part.name:<14}{part.tokens:>6,}  {'#' * (part.tokens // 80)}")


with (
    tempfile.TemporaryDirectory() as folder,
    Runtime(folder, model=MODEL) as runtime,
):
    ada = runtime.agents.ensure(
        "ada",
        blocks=[Block.load("persona/companion"), Block.human("Name: Lin")],
        # Shares of the budget: warn the agent, page out for it, and down to where. The defaults.
        paging=Paging(warn=0.70, evict=0.90, target=0.50, keep_last=4),
    )
    show(ada, "new")

    ada.send("The blue bicycle is locked at the station, the code is the year of the flood.")
    left = 0
    for day in range(1, 13):
        turn = ada.send(f"Day {day} of the walk: rain until noon, then cliffs, gulls and soup.")
        for step in turn.steps:
            for call in step.calls:
                if call.tool == "page_out":
                    print(f"day {day}: {call.result} Note: {call.arguments['note'][:40]!r} ...")
    show(ada, "after the walk")

    window = ada.conversations.get("main").messages()
    kinds = [message.kind for message in window]
    print(f"\n{len(window)} messages in the window, {kinds.count('summary')} of them a summary;")
    print(f"{ada.recall.count()} in recall, which keeps every message there ever was.")

    # Not in the window any more, and yet found: by you, and by the agent's own search.
    hit = ada.recall.search("bicycle station", roles=["user"]).hits[0]
    print("\nrecall:", hit.text)
    print("ada:", ada.send("Where is the blue bicycle?").reply)

    # A text above its share is stored whole and shown as a digest; the agent reads on by page.
    ada.send("The minutes of the meeting: " + "We talked about bridges. " * 600)
    print("\na long text as the model sees it:")
    shown = ada.context().messages
    print(next(str(m["content"]) for m in shown if "bridges" in str(m.get("content")))[:420], "...")
