"""What every blocking handle is: a door, the async handle behind it, and its words."""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from pagedaemon.errors import InvalidInput, NotFound
from pagedaemon.sync.door import Door

H = TypeVar("H")
V = TypeVar("V")
C = TypeVar("C", bound=type)


def blocking(of: type) -> Callable[[C], C]:
    """Class decorator: methods and properties that say nothing of themselves say what the async
    ones of the same name say."""

    def documented(cls: C) -> C:
        for name, member in vars(cls).items():
            if not name.startswith("_") and member.__doc__ is None and hasattr(of, name):
                member.__doc__ = getattr(of, name).__doc__
        return cls

    return documented


class Handle(Generic[H]):
    """A blocking handle over the async one of its kind. Usable from any thread."""

    def __init__(self, door: Door, inner: H) -> None:
        self._door = door
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)


class Named(Handle[H], ABC, Generic[H, V]):
    """A handle over things that have names: `things[name]` is `get(name)`, `name in things` whether
    that would find one, iterating gives the names in the order of `list()`.

    What is not there raises `NotFound`, which is no `KeyError`: it is the same error as of `get`.
    """

    def __getitem__(self, name: str) -> V:
        return self.get(name)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        try:
            self.get(name)
        except (NotFound, InvalidInput):
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return iter([self._name(one) for one in self.list()])

    def __len__(self) -> int:
        return len(self.list())

    def __bool__(self) -> bool:
        return True  # an empty space is still one

    @abstractmethod
    def get(self, name: str, /) -> V:
        """The one of that name."""

    @abstractmethod
    def list(self) -> builtins.list[V]:
        """All of them."""

    @abstractmethod
    def _name(self, one: V) -> str: ...
