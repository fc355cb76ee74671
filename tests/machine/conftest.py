"""Lets what goes wrong in the machine's own modules be explained as it is in tests."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.machine.checks", "tests.machine.space")
