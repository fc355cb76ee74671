"""A typed Python function as a tool: enum, default, the calling agent, errors the model reads."""

from __future__ import annotations

import tempfile
from enum import Enum
from typing import Annotated

from pydantic import Field

from pagedaemon import Block, Runtime, ToolContext, ToolFailure, tool
from pagedaemon.testing import ScriptedModel, call, say


class Unit(Enum):
    """How a temperature is told."""

    celsius = "C"
    fahrenheit = "F"


# `read`: running it again changes nothing. The default, `once`, is for what acts on the world: such
# a call is never run a second time, and if a crash hides its outcome, the model is told just that.
@tool(effect="read", timeout=10)
def forecast(
    city: str,
    context: ToolContext,  # filled in by the runtime; the model does not see it
    days: Annotated[int, Field(ge=1, le=7)] = 1,
    unit: Unit = Unit.celsius,
) -> str:
    """The weather of the coming days.

    Args:
        city: its name in English.
        days: how many, from today on.
        unit: of the temperature.
    """
    if city != "Porto":
        raise ToolFailure(f"no station in {city!r}; the nearest is Porto")  # the model reads this
    told = f"{city}, {days} days, for {context.agent_name}: sunny, 21 {unit.value}"
    context.agent.archive.insert(told, tags=["weather"])  # a tool may use the agent's memory
    return told


print(forecast.parameters, "\n")  # what the model is shown

# The model is scripted, so that this runs offline: it errs twice and reads what was wrong.
model = ScriptedModel(
    [
        call("forecast", city="Porto", days=30, heartbeat=True),
        call("forecast", city="Braga", heartbeat=True),
        call("forecast", city="Porto", days=3, unit="F", heartbeat=True),
        say("Three sunny days, 21 degrees."),
    ]
)

with (
    tempfile.TemporaryDirectory() as folder,
    # Given to the runtime, the code is also found by agents of an earlier run.
    Runtime(folder, model="scripted", models={"scripted": model}, tools=[forecast]) as runtime,
):
    ada = runtime.agents.ensure("ada", blocks=[Block.human("Name: Lin")], tools=[forecast])
    turn = ada.send("Will it rain here?")
    for step in turn.steps:
        for made in step.calls:
            print(f"step {step.seq} ({step.heartbeat}) {made.tool} {made.status}: {made.result}")
    print("\nada:", turn.reply)
    print("kept:", [passage.text for passage in ada.archive.search(tags=["weather"]).hits])
