"""The tree of errors: one root, as it is drawn, each with what a program needs to act on it."""

from __future__ import annotations

import inspect
import re

import pytest

from pagedaemon import errors
from pagedaemon.errors import ContextOverflow, EditRefused, PagedaemonError, RateLimited

ALL = [
    found
    for _, found in inspect.getmembers(errors, inspect.isclass)
    if issubclass(found, Exception) and found.__module__ == errors.__name__
]


def drawn() -> list[tuple[int, str]]:
    """Depth and name of every error in the drawing, from above."""
    assert errors.__doc__ is not None
    lines = re.findall(r"^( *[│├└─ ]*?)([A-Z]\w+)(?: |$)", errors.__doc__, re.MULTILINE)
    start = next(number for number, line in enumerate(lines) if line[1] == "PagedaemonError")
    return [(len(indent) // 4, name) for indent, name in lines[start:]]


def test_the_drawing_shows_every_error_under_its_parent() -> None:
    path: list[str] = []
    parents: dict[str, str] = {}
    for depth, name in drawn():
        path[depth - 1 :] = [name]
        if len(path) > 1:
            parents[name] = path[-2]
    assert parents == {
        found.__name__: found.__base__.__name__
        for found in ALL
        if found is not PagedaemonError and found.__base__ is not None
    }


@pytest.mark.parametrize("found", ALL)
def test_every_error_says_what_it_means(found: type[Exception]) -> None:
    assert inspect.getdoc(found)
    assert found.__doc__ is not None
    assert issubclass(found, PagedaemonError)


def test_an_overflow_names_what_is_too_large_and_what_helps() -> None:
    error = ContextOverflow(1_000, 1_200, (("block human", 900), ("tools", 200)))
    assert (error.budget, error.needed) == (1_000, 1_200)
    assert error.largest[0] == ("block human", 900)
    for part in ("1200 tokens", "budget is 1000", "block human 900", "larger window"):
        assert part in str(error)


def test_a_refused_edit_carries_what_another_try_needs() -> None:
    error = EditRefused(
        "too_long", "human", "too long", current="now", nearest=("n",), limit=5, size=9
    )
    assert (error.reason, error.label, str(error)) == ("too_long", "human", "too long")
    assert (error.current, error.nearest, error.limit, error.size) == ("now", ("n",), 5, 9)


def test_a_rate_limit_may_name_its_time() -> None:
    assert RateLimited("busy").retry_after is None
    assert RateLimited("busy", retry_after=3).retry_after == 3
