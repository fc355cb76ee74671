"""One block, two agents: what one of them writes, the other one reads in its next request."""

from __future__ import annotations

import tempfile

from pagedaemon import Block, Runtime

with (
    tempfile.TemporaryDirectory() as folder,
    Runtime(folder, model="offline") as runtime,
):
    # A block of the space stands alone: it has a name, and belongs to no agent.
    team = runtime.blocks.ensure(Block.load("shared/team", value="We ship on Fridays."))
    # A read-only block is changed by you and never by an agent.
    policy = runtime.blocks.ensure(Block.load("shared/policy"))

    ada = runtime.agents.ensure("ada", blocks=[Block.human("Name: unknown"), team, policy])
    bob = runtime.agents.ensure("bob", blocks=[Block.human("Name: unknown"), team, policy])

    turn = ada.send("Please remember: from now on we ship on Thursdays.")
    print("ada: ", turn.reply)
    print("bob: ", bob.send("When do we ship?").reply)

    # The same block by two ways, and who made which version of it.
    assert bob.blocks["team"].id == team.id
    for version in team.history():
        print(f"\nversion {version.version}, {version.operation} by {version.by}: {version.value}")
    print()
    print(team.diff(1))

    # You may edit too; an edit is seen in the very next request of everyone who holds the block.
    team.replace("Thursdays", "Wednesdays")
    print("\nbob: ", bob.send("When do we ship?").reply)
    team.restore(1)
    print("bob: ", bob.send("When do we ship?").reply)

    # What ada was told of herself stays hers, and a shared block outlives her.
    ada.delete()
    print("\nstill there:", runtime.blocks["team"].value)
