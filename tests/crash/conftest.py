"""Runs the processes that fork and kill."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeAlias

import pytest
from tests.crash import driving
from tests.crash.driving import Report

Drive: TypeAlias = Callable[..., Report]


@pytest.fixture(scope="session")
def drive() -> Drive:
    """Gives a job to `tests.crash.driver` and returns its report."""
    if not hasattr(os, "fork"):
        pytest.fail("these tests fork: run them on Linux or macOS")
    return driving.drive
