"""Which edit of an agent's core memory comes next when edits are taken back one by one."""

from __future__ import annotations

from collections.abc import Sequence

from pagedaemon.handles.blocks import BlockVersion
from pagedaemon.sync.blocks import StoredBlock
from pagedaemon.sync.handles import Agent


def standing(history: Sequence[BlockVersion]) -> list[BlockVersion]:
    """The versions that led to the value of now, oldest first.

    A version that restores an earlier one takes back what came between, and itself: so undoing
    twice goes back two edits, and not there and back again.
    """
    led: list[BlockVersion] = []
    for version in history:
        again = next(
            (k for k in range(len(led) - 1, -1, -1) if led[k].value == version.value), None
        )
        if version.operation == "restore" and again is not None:
            del led[again + 1 :]
        else:
            led.append(version)
    return led


def newest_edit(agent: Agent) -> tuple[StoredBlock, BlockVersion, BlockVersion] | None:
    """The newest edit that the agent made and that still stands: its block, the version before and
    the one it made. None where there is none.

    A block whose newest edit is another agent's, or the owner's, is left alone.
    """
    found = None
    for block in agent.blocks.list():
        led = standing(block.history())
        if len(led) < 2 or led[-1].agent_id != agent.id:
            continue
        if found is None or led[-1].created_at > found[2].created_at:
            found = block, led[-2], led[-1]
    return found
