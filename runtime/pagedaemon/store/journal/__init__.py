"""The record a turn is written into and recovered from: accept, claim, plan, start, finish, end.

Each function is part of one transaction; which of them share one is the loop's to say (T0 to T5).
Every one after the claim begins with the fence: the conversation's epoch is still ours.
"""

from __future__ import annotations

from pagedaemon.store.journal.keys import Key, key_of
from pagedaemon.store.journal.lease import claim, fence, holds, moved
from pagedaemon.store.journal.records import events_after, told_so_far, turn_record
from pagedaemon.store.journal.shapes import (
    Head,
    Lease,
    Letter,
    Plan,
    PlannedCall,
    Ring,
    Ruling,
    Settlement,
    TurnRow,
    Wake,
    WakeKind,
    letter_data,
    letter_of,
    ring_data,
    ring_of,
)
from pagedaemon.store.journal.steps import (
    close_step,
    not_begun,
    open_plan,
    plan,
    result,
    start,
    step_records,
)
from pagedaemon.store.journal.told import ENDED, STARTED, Told, told_again, with_events
from pagedaemon.store.journal.turns import (
    accept,
    ask_to_stop,
    first_open_turn,
    head,
    keyed,
    open_turns,
    put_back,
    renew,
    set_told,
    set_turn,
    take_up,
    turn_by_id,
    turns_of,
)

__all__ = [
    "ENDED",
    "STARTED",
    "Head",
    "Key",
    "Lease",
    "Letter",
    "Plan",
    "PlannedCall",
    "Ring",
    "Ruling",
    "Settlement",
    "Told",
    "TurnRow",
    "Wake",
    "WakeKind",
    "accept",
    "ask_to_stop",
    "claim",
    "close_step",
    "events_after",
    "fence",
    "first_open_turn",
    "head",
    "holds",
    "key_of",
    "keyed",
    "letter_data",
    "letter_of",
    "moved",
    "not_begun",
    "open_plan",
    "open_turns",
    "plan",
    "put_back",
    "renew",
    "result",
    "ring_data",
    "ring_of",
    "set_told",
    "set_turn",
    "start",
    "step_records",
    "take_up",
    "told_again",
    "told_so_far",
    "turn_by_id",
    "turn_record",
    "turns_of",
    "with_events",
]
