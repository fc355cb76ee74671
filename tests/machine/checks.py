"""Holds a space against what is expected of it."""

from __future__ import annotations

from tests.machine.plain import Entry
from tests.machine.space import Space

from pagedaemon.messages import Message
from pagedaemon.testing import check_request


def shown(message: Message) -> tuple[int, str, tuple[str, ...]]:
    """A message, as far as it can be known beforehand."""
    words: tuple[str, ...] = (message.text,)
    if message.kind == "reply":
        said = "\n".join(message.data.get("said", ())) or message.text
        words = (said, *(call.tool for call in message.calls))
    elif message.kind == "result":
        words = (str(message.tool),)
    elif message.kind == "heartbeat":
        words = (message.data["reason"],)
    elif message.kind == "alert":
        words = ("alert",)
    return message.seq, message.kind, words


def expected(entry: Entry) -> tuple[int, str, tuple[str, ...]]:
    """The same of what is expected."""
    return entry.seq, entry.kind, entry.words


async def check_conversation(space: Space, agent: str, where: str) -> None:
    """Its window and its last turn."""
    plain = space.world.agents[agent].conversations[where]
    conversation = await space.conversation(agent, where)
    messages = await conversation.messages()
    found = [shown(message) for message in messages]
    assert found == [expected(entry) for entry in plain.window]
    newest = [(turn.stop_reason, turn.reply) for turn in await conversation.turns(limit=1)]
    assert newest == plain.ended[-1:]


async def check_request_of(space: Space, agent: str, where: str) -> None:
    """What the agent would be asked next is legal for every provider."""
    report = await (await space.conversation(agent, where)).context()
    messages = [*report.messages]
    if messages[-1]["role"] != "user":
        messages.append({"role": "user", "content": "next"})
    check_request(messages, report.tools)


async def check_block(space: Space, label: str) -> None:
    """Its value and version."""
    block, plain = await space.block(label)
    assert (block.value, block.version) == (plain.value, plain.version)
    assert (block.limit, block.read_only) == (plain.limit, plain.read_only)


async def check_waiting(space: Space) -> None:
    """Approvals: asked, answered and run. Those of which only the question was known are known by
    their id from now on."""
    world = space.world
    found = await space.runtime.approvals.list(None)
    fresh = [one for one in found if one.id not in world.approvals]
    assert [one.arguments["to"] for one in fresh] == [one.to for one in world.asked]
    for one, asked in zip(fresh, world.asked, strict=True):
        world.approvals[one.id] = asked
    world.asked = []
    assert {one.id: one.status for one in found} == {
        key: one.status for key, one in world.approvals.items()
    }
    assert space.called == world.called, "each call outside happened once, in order"


async def check_timers(space: Space, agent: str) -> None:
    """Its timers and when they ring; those it has set itself are known by their id from now on."""
    world = space.world
    found = await space.agents[agent].schedules()
    fresh = sorted((one.due, one.id) for one in found if one.id not in world.timers)
    own = sorted((one for one in world.set_by_agents if one.agent == agent), key=lambda t: t.due)
    assert [due for due, _ in fresh] == [one.due for one in own]
    for (_, timer_id), timer in zip(fresh, own, strict=True):
        world.timers[timer_id] = timer
        world.set_by_agents.remove(timer)
    kept = {key: one for key, one in world.timers.items() if one.agent == agent}
    assert {one.id: (one.due, one.every) for one in found} == {
        key: (one.due, one.every) for key, one in kept.items()
    }


async def check_everything(space: Space, changed: set[tuple[str, str]]) -> None:
    """All of it: also what has left the windows, and every version of every block.

    Args:
        changed: the conversations of which it is asked what would be sent next.
    """
    for name, agent in space.world.agents.items():
        assert await space.agents[name].recall.count() == agent.messages
        names = {one.name for one in await space.agents[name].conversations.list()}
        assert names == set(agent.conversations)
        held = {block.label for block in await space.agents[name].blocks.list()}
        assert held == set(agent.blocks)
        await check_timers(space, name)
    await check_waiting(space)
    for name, where in space.places():
        await check_conversation(space, name, where)
        if (name, where) in changed:
            await check_request_of(space, name, where)
        await _check_recall(space, name, where)
    for label in (*space.world.shared, *space.world.agents):
        await check_block(space, label)
        block, plain = await space.block(label)
        history = await block.history()
        assert [(one.value, one.operation, one.by) for one in history] == plain.versions
        assert [one.version for one in history] == list(range(1, len(history) + 1))


async def _check_recall(space: Space, agent: str, where: str) -> None:
    """Every message ever is found exactly once, in order, and every turn has its end."""
    plain = space.world.agents[agent].conversations[where]
    conversation = await space.conversation(agent, where)
    found = await space.agents[agent].recall.search(
        conversation_id=conversation.id, page_size=100_000
    )
    said = [entry for entry in plain.log if entry.kind in ("message", "reply", "result")]
    assert [shown(hit.message) for hit in found.hits][::-1] == list(map(expected, said))
    assert await conversation.turns(status="open") == []
    turns = await conversation.turns(limit=100_000)
    assert [(turn.stop_reason, turn.reply) for turn in turns][::-1] == plain.ended
