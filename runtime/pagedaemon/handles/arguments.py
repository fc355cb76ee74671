"""What a caller may give where more than text is asked for: each value is checked at the door, so
that a wrong one is said in words before anything is done."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
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


LARGEST = 2**63 - 1
"""The largest whole number that a store can hold or compare."""


def checked_whole(value: object, what: str, *, least: int | None = None) -> int:
    """The value, if it is a whole number.

    Args:
        what: how the message names it.
        least: the smallest it may be.

    Raises:
        InvalidInput: it is none, or too small, or more than a store can hold.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{what} is a whole number, not {_named(value)}")
    if least is not None and value < least:
        raise InvalidInput(f"{what} is at least {least}, not {value}")
    if abs(value) > LARGEST:
        raise InvalidInput(f"{what} is at most {LARGEST}: it has {value.bit_length()} bits")
    return value


def checked_instant(value: object, what: str) -> datetime | None:
    """The value in UTC, if it is an instant; None stays None.

    Args:
        what: how the message names it.

    Raises:
        InvalidInput: it is no datetime, has no time zone, or lies outside the years 1 to 9999 once
            it is told in UTC.
    """
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise InvalidInput(
            f"{what} is a datetime, not {_named(value)}: datetime.fromisoformat makes one of text"
        )
    if value.utcoffset() is None:
        raise InvalidInput(f"{what} has no time zone: give it one, such as datetime.UTC")
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(
            f"{what} is outside the years 1 to 9999 in UTC: give an instant within, or None"
        ) from error


def checked_floor(value: object) -> float | None:
    """The value, if it is a cosine; None stays None.

    Raises:
        InvalidInput: it is no finite number from -1 to 1.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1 <= value <= 1:
        raise InvalidInput(f"floor is a number from -1 to 1 (a cosine), not {_named(value)}")
    return float(value)


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
    if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
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


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


def _named(value: object) -> str:
    """A wrong value for a message: its type, and the value itself where that is short and plain."""
    kind = type(value).__name__
    if isinstance(value, bool | int | float | str) and len(shown := repr(value)) <= 40:
        return f"{shown} ({kind})"
    return "None" if value is None else f"a {kind}"
