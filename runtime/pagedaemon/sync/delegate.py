"""What every blocking handle is: a door, the async handle behind it, and its words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from pagedaemon.sync.door import Door

H = TypeVar("H")
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
