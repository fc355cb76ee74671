"""What all rules of the machine stand on: one space, and the look at it after each of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant
from tests.machine import checks
from tests.machine.space import SMALL, STYLES, Space

T = TypeVar("T")

AGENTS = st.sampled_from(sorted(set(STYLES) - {SMALL}))
"""All but the one whose window is filled."""
PLACES = st.sampled_from(("main", "main", "x", "y"))

Work = TypeVar("Work", bound=Callable[..., None])


def operation(times: int = 1, **given: st.SearchStrategy[Any]) -> Callable[[Work], Work]:
    """Makes a method of the machine one of its operations.

    Args:
        times: how often it comes, beside one that comes once.
        given: what its arguments are drawn from.
    """

    def mark(work: Work) -> Work:
        vars(work)["operation"] = (times, given)
        return work

    return mark


def operations(machine: type) -> st.SearchStrategy[tuple[str, Mapping[str, Any]]]:
    """Any operation of a machine, by its name, and its arguments.

    Rules of their own would each be left out of most runs, and what goes wrong here does so where
    all of them come together.
    """
    marked = {name: vars(work)["operation"] for name, work in _marked(machine).items()}
    return st.one_of(
        [
            st.tuples(st.just(name), st.fixed_dictionaries(dict(given)))
            for name, (times, given) in marked.items()
            for _ in range(times)
        ]
    )


def _marked(machine: type) -> dict[str, Callable[..., None]]:
    found = {name: getattr(machine, name) for name in dir(machine)}
    return {
        name: work for name, work in found.items() if "operation" in getattr(work, "__dict__", {})
    }


class Machine(RuleBasedStateMachine):
    """A space from its first opening on. Rules are methods of its subclasses.

    Args:
        place: where the store is.
        done: counts what was done, by kind.
    """

    def __init__(self, place: Path, done: Counter[str]) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._done = done
        self.space = Space(place)
        self.words = (f"message {number}" for number in count())
        self.touched: set[tuple[str, str]] = set()
        """Conversations that are to be looked at, by agent and name; so is all that waits."""
        self.edited: set[str] = set()
        """Blocks that are to be looked at."""
        self._changed: set[tuple[str, str]] = set()
        """Conversations that were touched at all."""
        self._sound = True

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Does it, on the loop of the runtime."""
        self._sound = False
        value = self._loop.run_until_complete(work)
        if self.space.mistake is not None:
            raise self.space.mistake
        self._sound = True
        return value

    def reopened(self) -> None:
        """Whatever was held of the runtime before is of no use any more."""

    def counted(self, kind: str, times: int = 1) -> None:
        """So many operations of a kind were done."""
        self._done[kind] += times

    @initialize()
    def begin(self) -> None:
        """The store is made, and what it begins with."""

        async def work() -> None:
            await self.space.open()
            await self.space.furnish()

        self.run(work())

    def teardown(self) -> None:
        """A last look at everything, and the end."""
        try:
            if self._sound and self.space.agents:
                self.run(checks.check_everything(self.space, self._changed))
        finally:
            self._loop.run_until_complete(self.space.close())
            self._loop.close()

    @invariant()
    def what_was_touched_is_as_expected(self) -> None:
        """After each operation."""

        async def work() -> None:
            for agent, where in self.touched & set(self.space.places()):
                await checks.check_conversation(self.space, agent, where)
            for agent in {agent for agent, _ in self.touched}:
                await checks.check_timers(self.space, agent)
            for label in self.edited:
                await checks.check_block(self.space, label)
            if self.space.world.approvals or self.space.world.asked:
                await checks.check_waiting(self.space)

        if not self.space.agents:
            return
        self.run(work())
        self._done.update(self.space.world.came)
        self.space.world.came.clear()
        self._changed |= self.touched
        self.touched.clear()
        self.edited.clear()
