"""An agent that wakes by itself, and two agents that write to each other."""

from __future__ import annotations

import tempfile
import time
from datetime import UTC, datetime, timedelta

from pagedaemon import Block, Runtime
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.testing import ScriptedModel, call, say, text, view


# Rules in place of language models, so that this runs offline and says the same each time.
def desk(request: Request) -> Reply:
    """Asks the kitchen, and tells the user what it answered."""
    newest = str(request.messages[-1]["content"])
    if "[answer from the agent kitchen]" in newest:
        return say("The kitchen says: soup.")
    if '"reason": "timer"' in newest:
        return say("Lunch is in ten minutes.")
    if view(request).results:
        return say("I have asked the kitchen.")
    question = "What is for lunch?"
    return call(
        "send_message_to_agent", name="kitchen", message=question, answer=True, heartbeat=True
    )


def kitchen(request: Request) -> Reply:
    """Answers whoever asks."""
    return say("Soup.") if "lunch" in view(request).last_user else text("")


models = {"desk": ScriptedModel(desk), "kitchen": ScriptedModel(kitchen)}
with tempfile.TemporaryDirectory() as folder, Runtime(folder, models=models) as runtime:
    # `messaging` and `timers` give an agent the tools; each costs tokens in every request.
    ada = runtime.agents.ensure(
        "desk", model="desk", blocks=[Block.human("Name: Lin")], messaging=True, timers=True
    )
    runtime.agents.ensure("kitchen", model="kitchen")

    # Nobody waits for the other agent: its answer is an event that wakes this one later.
    print("desk:", ada.send("What is for lunch?").reply)

    # A timer is stored, rings once for each instant, and survives the process. An agent sets itself
    # some with its tool `set_timer`.
    ada.schedule("Tell the user about lunch.", at=datetime.now(UTC) + timedelta(seconds=0.2))
    daily = ada.schedule("Tidy your memory.", every=timedelta(days=1))

    main = ada.conversations["main"]
    deadline = time.monotonic() + 10
    while len(main.turns()) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    for turn in reversed(main.turns()):
        print(f"- {turn.stop_reason}: {turn.reply}")

    # For a night without timers; messages are answered as ever.
    ada.pause_heartbeats(seconds=8 * 3600)
    ada.resume_heartbeats()
    print("cancelled:", daily.cancel(), [timer.text for timer in ada.schedules()])
