"""Core memory: blocks that are read, edited as they were read, restored, held, made and deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import strategies as st
from tests.machine.acts import WORDS
from tests.machine.base import AGENTS, Machine, operation
from tests.machine.plain import Change, PlainBlock, appended, inserted, replaced, rewritten
from tests.machine.space import STYLES, edited

from pagedaemon import EditRefused, NotFound
from pagedaemon.handles.blocks import AsyncBlock

BLOCKS = st.sampled_from(("team", "team", "plan", *sorted(STYLES)))
WORD = st.sampled_from(WORDS)
EDITS = st.sampled_from(("append", "insert", "replace", "rewrite"))
SLOTS = st.integers(0, 3)


@dataclass
class Held:
    """A block as somebody has read it.

    Attributes:
        seen: which version.
    """

    block: AsyncBlock
    plain: PlainBlock
    label: str
    seen: int


class Editing(Machine):
    """What people do with blocks."""

    def __init__(self, place: Path, done: Counter[str]) -> None:
        super().__init__(place, done)
        self.held: dict[int, Held] = {}

    def reopened(self) -> None:
        """What was read is forgotten."""
        self.held = {}

    @operation(12, slot=SLOTS, label=BLOCKS)
    def read_block(self, slot: int, label: str) -> None:
        """Somebody reads a block, and keeps what they have read."""
        if label not in self.space.world.shared and label not in STYLES:
            return

        async def work() -> None:
            block, plain = await self.space.block(label)
            self.held[slot] = Held(block, plain, label, plain.version)
            assert (block.value, block.version) == (plain.value, plain.version)

        self.run(work())
        self.counted("read")

    def _is_there(self, held: Held) -> bool:
        world = self.space.world
        holders = [*world.shared.values(), *(world.agents[name].blocks[name] for name in STYLES)]
        return any(plain is held.plain for plain in holders)

    @operation(40, slot=SLOTS, edit=EDITS, one=WORD, other=WORD, line=st.integers(-2, 4))
    def edit_block(self, slot: int, edit: str, one: str, other: str, line: int) -> None:
        """Somebody edits a block as they have read it."""
        if slot not in self.held:
            return
        held = self.held[slot]
        block, plain = held.block, held.plain
        ways: dict[str, tuple[Callable[[], Change], Callable[[], Awaitable[object]]]] = {
            "append": (lambda: appended(one), lambda: block.append(one)),
            "insert": (
                lambda: inserted(one, line, plain.at(held.seen)),
                lambda: block.insert(one, line),
            ),
            "replace": (lambda: replaced(one, other), lambda: block.replace(one, other)),
            "rewrite": (lambda: rewritten(one, held.seen), lambda: block.rewrite(one)),
        }
        change, work = ways[edit]
        self.run(self._edit(held, edit, change(), work))

    async def _edit(
        self, held: Held, edit: str, change: Change, work: Callable[[], Awaitable[object]]
    ) -> None:
        if not self._is_there(held):
            with pytest.raises(NotFound):
                await work()
            self.counted("edit of what was deleted")
            return
        refusal = await edited(held.plain, edit, change, work())
        if refusal is None:
            held.seen = held.plain.version
        assert held.block.value == held.plain.at(held.seen)
        self.edited.add(held.label)
        self.counted(f"edit {refusal or 'made'}")

    @operation(label=BLOCKS, back=st.integers(0, 6))
    def restore_block(self, label: str, back: int) -> None:
        """An earlier version becomes the newest one."""
        if label not in self.space.world.shared and label not in STYLES:
            return

        async def work() -> None:
            block, plain = await self.space.block(label)
            version = plain.version - back
            if version < 1:
                with pytest.raises(NotFound):
                    await block.restore(version)
                return
            value = plain.at(version)
            await edited(plain, "restore", lambda _: value, block.restore(version))

        self.run(work())
        self.edited.add(label)
        self.counted("restore")

    @operation(label=BLOCKS, limit=st.sampled_from((None, 3, 60, 120)), read_only=st.booleans())
    def set_block(self, label: str, limit: int | None, read_only: bool) -> None:
        """What surrounds the value is changed."""
        if label not in self.space.world.shared and label not in STYLES:
            return

        async def work() -> None:
            block, plain = await self.space.block(label)
            if limit is not None and len(plain.value) > limit:
                with pytest.raises(EditRefused) as refused:
                    await block.update(limit=limit, read_only=read_only)
                assert refused.value.reason == "too_long"
                return
            await block.update(limit=limit, read_only=read_only)
            plain.limit, plain.read_only = limit or plain.limit, read_only

        self.run(work())
        self.edited.add(label)
        self.counted("set block")

    @operation(agent=AGENTS, label=st.sampled_from(("team", "plan")))
    def hold_or_let_go(self, agent: str, label: str) -> None:
        """A shared block is attached to an agent, or taken off it."""
        world, real = self.space.world, self.space.agents[agent].blocks

        async def work() -> None:
            if label in world.agents[agent].blocks:
                await real.detach(label)
                del world.agents[agent].blocks[label]
            elif label in world.shared:
                await self.space.attach(agent, label)

        self.run(work())
        self.counted("attach or detach")

    @operation()
    def make_or_delete_plan(self) -> None:
        """The block `plan` is deleted for all that hold it, or made anew."""
        world = self.space.world

        async def work() -> None:
            if "plan" not in world.shared:
                await self.space.add_block("plan")
                return
            await (await self.space.runtime.blocks.get("plan")).delete()
            del world.shared["plan"]
            for agent in world.agents.values():
                agent.blocks.pop("plan", None)

        self.run(work())
        self.counted("make or delete block")
