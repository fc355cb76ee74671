"""Replies a program can use: ask for a type, see a wrong reply tried again, watch a value grow."""

from __future__ import annotations

import tempfile
from datetime import date
from typing import Literal

from pydantic import BaseModel, Field

from pagedaemon import Block, ReplyInvalid, Runtime, TypedTurn
from pagedaemon.events import ReplyPartial, TurnEnded
from pagedaemon.testing import ScriptedModel, call, say


class Trip(BaseModel):
    """What the booking program needs."""

    to: str
    leaves: date
    travellers: int = Field(ge=1)


# The model is scripted, so that this runs offline. Any model that can write JSON does this itself.
model = ScriptedModel(
    [
        call("core_memory_append", label="human", content="Sails to Porto", heartbeat=True),
        say('{"to": "Porto", "leaves": "next Friday", "travellers": 2}'),
        say('Here it is: {"to": "Porto", "leaves": "2026-06-05", "travellers": 2}'),
        say('"yes"'),
        say('["passport", "tickets", "sun cream"]'),
        say("I would rather not say."),
        say("No."),
        say("Still no."),
    ]
)

with (
    tempfile.TemporaryDirectory() as folder,
    Runtime(folder, model="scripted", models={"scripted": model}) as runtime,
):
    ada = runtime.agents.ensure("ada", blocks=[Block.human("Name: Lin")])

    # The first reply has no date. The agent is told so, and its second is taken: `turn.value`.
    turn = ada.send("Mai and I sail to Porto on Friday.", reply_type=Trip)
    for step in turn.steps:
        print(f"{step.seq}. woken by {step.heartbeat or 'the message'}: {step.replies}")
    trip = turn.value  # a Trip, also for a type checker
    print(f"{trip.travellers} to {trip.to} on {trip.leaves:%A %d %B}\n")

    # Any type that JSON can express. The memory and the tools are the same as in any other turn.
    print(ada.send("Do we need a passport?", reply_type=Literal["yes", "no"]).value, "\n")

    # As it grows; what is shown before the end is not checked yet.
    for event in ada.stream("What shall I pack?", reply_type=list[str]):
        if isinstance(event, ReplyPartial):
            print("so far", event.value)
        elif isinstance(event, TurnEnded) and isinstance(event.turn, TypedTurn):
            print("packed", event.turn.value)

    # There is a value or an error, never something else. What was said is kept, and in the error.
    try:
        ada.send("How old are you?", reply_type=int)
    except ReplyInvalid as error:
        print(f"\nno number after {len(model.requests)} model calls; it said: {error.text}")
