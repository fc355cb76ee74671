"""Which calls wait for a person: by their tool, by a rule, or because text from outside stands in
the window.

Tools are gated and not text: what a web page says may be an order, and whether a model obeys it
cannot be told. What can be told is that such text was there when the model decided.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from pagedaemon.config import NeedsApproval, Settings
from pagedaemon.messages import Message
from pagedaemon.tools.rules import named
from pagedaemon.tools.tool import Tool

logger = logging.getLogger(__name__)

Why: TypeAlias = Literal["always", "asked", "rule", "tainted"]
"""Why a call waits: its tool always does, its tool's function asked for it, a rule of the agent
does, or what it can do is gated while text from outside stands in the window."""


def tainted(window: Iterable[Message]) -> bool:
    """Whether text from outside stands in a window."""
    return any(message.shown_label == "external" for message in window)


def needs_approval(
    tool: Tool, arguments: Mapping[str, Any], settings: Settings, *, is_tainted: bool
) -> Why | None:
    """Why a call waits for a person; None where it may go ahead.

    Args:
        arguments: checked, as the tool's function gets them.
        settings: of the agent.
        is_tainted: whether text from outside stood in the window when the model decided.
    """
    if tool.name in named(settings.rules, NeedsApproval):
        return "rule"
    match tool.approval:
        case "always":
            return "always"
        case "never":
            return None
        case None:
            gated = is_tainted and not set(settings.gates.tainted).isdisjoint(tool.can)
            return "tainted" if gated else None
        case asks:
            try:
                return "asked" if asks(dict(arguments), is_tainted) else None
            # A user's function: what it cannot say yes to, a person must.
            except Exception as error:
                logger.warning(
                    "approval of tool %s could not be decided", tool.name, exc_info=error
                )
                return "asked"
