"""A study coach: keeps what is mastered and what is shaky, and asks again days later by a timer."""

from __future__ import annotations

import tempfile
import time
from datetime import timedelta

from pagedaemon import Agent, Block, Runtime
from pagedaemon.events import Turn
from pagedaemon.testing import FakeClock, ScriptedModel, call, say

DAYS = 24 * 60  # minutes

# The model is scripted, so that this runs offline. The starter persona `study_coach` tells any
# model to do what this one does.
model = ScriptedModel(
    [
        call("core_memory_replace", label="human", old_content="Goal: unknown",
             new_content="Goal: sail to the islands in June", heartbeat=True),
        say("Good. Which light does a boat show to port?"),
        call("core_memory_replace", label="human", old_content="Shaky: nothing yet",
             new_content="Shaky: lights (took port for green)", heartbeat=True),
        call("set_timer", note="Ask Lin again about the lights: port was shaky.",
             in_minutes=3 * DAYS, heartbeat=True),
        say("Port is red: think of port wine. I will ask you again in three days."),
        # Woken by the timer; nobody has said anything.
        call("archival_memory_search", query="lights", heartbeat=True),
        say("Three days have passed: which light is to starboard?"),
        call("core_memory_replace", label="human",
             old_content="Mastered: nothing yet\nShaky: lights (took port for green)",
             new_content="Mastered: lights\nShaky: nothing left", heartbeat=True),
        call("archival_memory_insert", content="Lights were shaky, and known three days later.",
             tags=["lights"], heartbeat=True),
        say("Green, yes. That one is yours now."),
    ]
)  # fmt: skip

clock = FakeClock()  # so that three days pass at once; leave it out of a program of yours


def open_memory(folder: str) -> Runtime:
    """The program, started once more."""
    return Runtime(folder, model="scripted", models={"scripted": model}, clock=clock)


def study(runtime: Runtime) -> Agent:
    """The coach of Lin, made the first time."""
    return runtime.agents.ensure(
        "coach",
        blocks=[Block.load("persona/study_coach"), Block.load("human/learner")],
        timers=True,  # gives it set_timer, list_timers, cancel_timer and pause_heartbeats
        timezone="Europe/Lisbon",
    )


def say_to(coach: Agent, text: str) -> None:
    """Says something and prints the answer."""
    print(f"{clock.now():%A}  Lin: {text}")
    print(f"{'':>9}coach: {coach.send(text).reply}")


def next_turn(coach: Agent, after: int) -> Turn:
    """Waits for a turn that nobody in this program began."""
    while True:
        turns = coach.conversations.get().turns()
        if len(turns) > after:
            return turns[0]
        time.sleep(0.05)


with tempfile.TemporaryDirectory() as folder:
    with open_memory(folder) as runtime:
        coach = study(runtime)
        say_to(coach, "I want to sail to the islands in June.")
        say_to(coach, "Green?")
        for timer in coach.schedules():
            print(f"\ntimer: {timer.due:%A}, set by the {timer.label}: {timer.text}\n")

    # The program ends, time passes, and it is started again: what is due meanwhile is made up for.
    clock.advance(timedelta(days=3, hours=2).total_seconds())
    with open_memory(folder) as runtime:
        coach = study(runtime)
        woken = next_turn(coach, after=2)
        print(f"{clock.now():%A}  woken by the timer: {woken.reply}")
        say_to(coach, "Green.")
        print(f"\n{coach.blocks['human'].value}")
        print("\narchive:", [passage.text for passage in coach.archive.search("lights").hits])
