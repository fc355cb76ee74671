"""The events of one turn as they happen: what is provisional, and what is stored."""

from __future__ import annotations

import tempfile

from pagedaemon import Block, Runtime
from pagedaemon.events import (
    HeartbeatEvent,
    PagedOut,
    ReplyDelta,
    StepFinished,
    StepReset,
    StepStarted,
    ThoughtDelta,
    TurnEnded,
    TurnStarted,
)

with (
    tempfile.TemporaryDirectory() as folder,
    Runtime(folder, model="offline") as runtime,
):
    ada = runtime.agents.ensure("ada", blocks=[Block.human("Name: unknown")])
    for event in ada.stream("Hi, I'm Lin and I live in Porto."):
        match event:
            case TurnStarted():
                print("turn started: the message is stored, whatever happens now")
            case StepStarted(step=step, heartbeat=heartbeat):
                print(f"step {step}, woken by {heartbeat or 'the message'}")
            case ThoughtDelta(text=text):
                print(f"  thought  {text!r}")
            case ReplyDelta(offset=offset, text=text):
                print(f"  reply    {text!r} at {offset}")
            case StepReset(reason=reason):
                print(f"  asked again ({reason}): forget the deltas of this step")
            case StepFinished(record=record):
                print(f"  stored   {[f'{call.tool}: {call.status}' for call in record.calls]}")
                for change in record.changes:
                    print(f"           {change.label} is now {change.after!r}")
            case HeartbeatEvent(reason=reason):
                print(f"heartbeat: {reason}")
            case PagedOut(messages=messages, by=by):
                print(f"{messages} messages left the window, by the {by}")
            case TurnEnded(turn=turn):
                print(f"turn ended: {turn.stop_reason}, {turn.usage.total_tokens} tokens")

    # A listener that goes away does not stop the turn, and half a turn is never stored.
    for event in ada.stream("Remember that the bicycle has a flat tyre."):
        if isinstance(event, TurnStarted):
            break
    ada.send("Thanks!")  # waits its turn: turns of a conversation run in order
    print("\nstored all the same:", repr(ada.blocks["human"].value))
