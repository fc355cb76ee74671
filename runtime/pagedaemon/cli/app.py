"""The user's own code, as `--app module:name` names it: a runtime, or tools."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from pagedaemon.errors import ConfigError, PagedaemonError
from pagedaemon.sync.runtime import Runtime, none_opened
from pagedaemon.tools.tool import Tool

DEBUG = "PAGEDAEMON_DEBUG"
"""Environment variable: with 1, an error is shown with the code that it came through."""


def loaded(spec: str, *, store: str | None = None) -> Runtime | list[Tool]:
    """What `module:name` stands for; the module is looked for in the working directory first.

    Args:
        store: the option by which a store was named; None: none was. With it the code must open
            none of its own. Opening one begins with the turns that wait in it, so that is refused
            when the code is about to.

    Raises:
        ConfigError: it leads to nothing that can be used, the code itself failed, or it opens a
            store where one was named.
    """
    refusal = f"{store} cannot be used with an --app that opens its own store: leave one away"
    module_name, _, name = spec.partition(":")
    if not module_name or not name:
        raise ConfigError(f"--app takes module:name, such as my_tools:tools, not {spec!r}")
    sys.path.insert(0, str(Path.cwd()))
    with _failures_told(spec), nullcontext() if store is None else none_opened(refusal):
        found = _named(module_name, name)
        if callable(found) and not isinstance(found, Tool):
            found = found()
    if isinstance(found, Tool):
        found = [found]
    if isinstance(found, Runtime):
        if store is not None:  # opened before this was asked
            found.close()
            raise ConfigError(refusal)
        return found
    if isinstance(found, list | tuple) and all(isinstance(one, Tool) for one in found):
        return list(found)
    raise ConfigError(
        f"--app: {spec} must be a Runtime, a function that returns one, or a list of tools made by "
        f"@tool; it is a {type(found).__name__}"
    )


def _named(module_name: str, name: str) -> Any:
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, and one that it imports is not
        raise ConfigError(
            f"--app: there is no module {module_name!r} here, nor installed"
        ) from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"--app: {module_name} has no {name!r}")
        found = getattr(found, part)
    return found


@contextmanager
def _failures_told(spec: str) -> Iterator[None]:
    """Makes whatever the user's code raises one error that says where; ours stay as they are."""
    try:
        yield
    except PagedaemonError:
        raise
    except Exception as error:
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename not in (__file__, importlib.__file__) and frame.filename[0] != "<"
        ]
        at = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
        raise ConfigError(
            f"--app {spec} failed with {type(error).__name__}: {error}{at}; "
            f"set {DEBUG}=1 to see how it came to that"
        ) from error
