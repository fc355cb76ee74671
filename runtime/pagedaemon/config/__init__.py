"""Settings, as data: which model, which style of agent, which bounds. Defaults are documented under
each field; every one of them can be given per runtime and per agent."""

from __future__ import annotations

from pagedaemon.config.frozen import Frozen
from pagedaemon.config.models import HOSTED_WINDOW, LOCAL_WINDOW, Embedding, Model
from pagedaemon.config.rules import (
    After,
    AtMost,
    Conditional,
    First,
    NeedsApproval,
    Required,
    Rule,
    Terminal,
    ToolRule,
)
from pagedaemon.config.settings import (
    CHUNK_CHARS,
    DAY,
    IMPORTED,
    LEASE_SECONDS,
    MEMGPT,
    NATIVE,
    NEAR_REPEATS,
    STYLES,
    Capability,
    Gates,
    Limits,
    Paging,
    Settings,
    Style,
)

__all__ = [
    "CHUNK_CHARS",
    "DAY",
    "HOSTED_WINDOW",
    "IMPORTED",
    "LEASE_SECONDS",
    "LOCAL_WINDOW",
    "MEMGPT",
    "NATIVE",
    "NEAR_REPEATS",
    "STYLES",
    "After",
    "AtMost",
    "Capability",
    "Conditional",
    "Embedding",
    "First",
    "Frozen",
    "Gates",
    "Limits",
    "Model",
    "NeedsApproval",
    "Paging",
    "Required",
    "Rule",
    "Settings",
    "Style",
    "Terminal",
    "ToolRule",
]
