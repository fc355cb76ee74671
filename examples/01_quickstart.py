"""Quickstart: an agent learns, pages out, finds it again; a second one sees what they share.

Needs no key and no network: the built-in rule model answers. Nothing here looks into the store for
the agent; every line below a question is something it did with its own tools.
"""

from __future__ import annotations

import tempfile
import textwrap

from pagedaemon import Block, Model, Runtime
from pagedaemon.events import HeartbeatEvent, PagedOut, StepFinished
from pagedaemon.sync.handles import Agent

# A small window, as a local model may have, so that a little talk really fills it.
MODEL = Model("offline", context_window=8_400, max_output_tokens=512)

DIARY = (
    "The ferry to the islands was late, so we drank coffee at the pier and watched the boats.",
    "It rained all morning. We found a bookshop with a cat asleep on the shelf of atlases.",
    "A long walk over the cliffs; the wind was strong and the picnic ended in the car.",
    "We cooked with the neighbours: sardines, bread, and far too much garlic.",
)


def show(who: str, text: str) -> None:
    """One entry of the transcript."""
    for line in text.splitlines():
        print(textwrap.fill(line, 98, initial_indent=f"{who:>9} | ", subsequent_indent=" " * 12))
        who = ""


def talk(agent: Agent, text: str) -> bool:
    """Says something, prints what the agent does; returns whether messages left its window."""
    print()
    show("Lin", text)
    paged_out = False
    for event in agent.stream(text):
        if isinstance(event, StepFinished):
            calls = [call for call in event.record.calls if call.tool != "send_message"]
            if calls:
                show("thinks", event.record.thoughts)
            for call in calls:
                given = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
                show("calls", textwrap.shorten(f"{call.tool}({given})", 86, placeholder=" ..."))
            for reply in event.record.replies:
                short = textwrap.shorten(reply, 86, placeholder=" ...")
                show(agent.name, short if "no rule for it" in reply else reply)
        elif isinstance(event, HeartbeatEvent):
            show("heartbeat", f"{event.reason}: {agent.name} thinks once more")
        elif isinstance(event, PagedOut):
            paged_out = True
            tokens = f"{event.tokens_before:,} -> {event.tokens_after:,} tokens"
            show("page-out", f"{event.messages} messages leave the window, a note stays: {tokens}")
    return paged_out


with tempfile.TemporaryDirectory() as folder:
    with Runtime(folder, model=MODEL) as runtime:
        team = runtime.blocks.ensure(label="team", value="We ship on Fridays.")
        human = Block.human("Name: unknown")
        ada = runtime.agents.ensure("ada", blocks=[Block.load("persona/companion"), human, team])
        bob = runtime.agents.ensure("bob", blocks=[Block.persona("I plan shipments."), team])

        print("1. ada learns: she edits her core memory before she answers.")
        talk(ada, "Hi, I'm Lin. From now on we ship on Thursdays.")
        talk(ada, "The spare key is with Mrs. Moreira in the bakery downstairs.")
        print("\n2. Talk fills the window. ada is warned, saves what matters and makes room.")
        any(talk(ada, entry) for entry in DIARY * 5)
        print("\n3. The message about the key is out of her window. She searches for it.")
        talk(ada, "Where is the spare key?")
        print("\n4. Nobody told bob, but he holds the block that ada changed.")
        talk(bob, "On which day do we ship?")
    print("\n5. Closed and opened again: everything is still there.")
    with Runtime(folder, model=MODEL) as runtime:
        talk(runtime.agents.get("ada"), "What do you remember about me?")
