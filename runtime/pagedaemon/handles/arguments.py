"""What a caller may give where more than text is asked for: each value is checked at the door, so
that a wrong one is said in words before anything is done."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel

from pagedaemon.errors import ConfigError, InvalidInput


class Unchanged(Enum):
    """What stands for an argument that was not given, where None says something of its own."""

    UNCHANGED = "unchanged"

    def __repr__(self) -> str:
        return self.name


UNCHANGED: Final = Unchanged.UNCHANGED
NotGiven: TypeAlias = Literal[Unchanged.UNCHANGED]


def checked_whole(value: object, what: str, *, least: int | None = None) -> int:
    """The value, if it is a whole number.

    Args:
        what: how the message names it.
        least: the smallest it may be.

    Raises:
        InvalidInput: it is none, or too small.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{what} is a whole number, not {_named(value)}")
    if least is not None and value < least:
        raise InvalidInput(f"{what} is at least {least}, not {value}")
    return value


def checked_seconds(
    value: object,
    what: str,
    *,
    least: float,
    refusal: type[ConfigError | InvalidInput] = InvalidInput,
) -> float:
    """The value, if it is a finite number of seconds.

    Args:
        what: how the message names it.
        least: the smallest it may be.

    Raises:
        InvalidInput, or the `refusal` given: it is none, or too small.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise refusal(f"{what} is a number of seconds, not {_named(value)}")
    if value < least:
        raise refusal(f"{what} is at least {least:g} seconds, not {value:g}")
    return float(value)


def checked_flag(
    value: object, what: str, *, refusal: type[ConfigError | InvalidInput] = InvalidInput
) -> bool:
    """The value, if it is True or False. A text is neither, whatever it says.

    Raises:
        InvalidInput, or the `refusal` given: it is neither.
    """
    if not isinstance(value, bool):
        raise refusal(f"{what} is True or False, not {_named(value)}")
    return value


def checked_many(
    value: object,
    what: str,
    example: str,
    *,
    refusal: type[ConfigError | InvalidInput] = InvalidInput,
) -> tuple[Any, ...]:
    """The things in a list or the like, whole: an iterator is read once and here.

    Args:
        what: how the message names it.
        example: what would have been right, as it is written in code.
        refusal: what is raised.

    Raises:
        InvalidInput, or the `refusal` given: one thing in place of a list, or none.
    """
    # Each of these can be iterated, and gives parts of the one thing that was meant.
    if isinstance(value, str | bytes | Mapping | BaseModel) or not isinstance(value, Iterable):
        raise refusal(f"{what} is a list, such as {example}, not {_named(value)}")
    return tuple(value)


def _named(value: object) -> str:
    """A wrong value for a message: its type, and the value itself where that is short and plain."""
    kind = type(value).__name__
    if isinstance(value, bool | int | float | str) and len(shown := repr(value)) <= 40:
        return f"{shown} ({kind})"
    return "None" if value is None else f"a {kind}"
