"""pagedaemon: agents that page their own memory.

A small core memory pinned in the prompt, a queue of recent messages, and two stores outside the
window that the agent searches and writes through its own function calls. `Runtime` is the front
door, and `AsyncRuntime` the same for async programs.
"""

from pagedaemon.agent import Block
from pagedaemon.config import Gates, Limits, Model, Paging, Settings, Style
from pagedaemon.errors import (
    AlreadyExists,
    Closed,
    ConfigError,
    ContextOverflow,
    EditRefused,
    InvalidInput,
    KeyConflict,
    ModelError,
    NoModel,
    NotFound,
    PagedaemonError,
    ReplyInvalid,
    StoreError,
    ToolFailure,
)
from pagedaemon.events import Turn, TypedTurn
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.handles.records import Record
from pagedaemon.media import File, Image
from pagedaemon.runtime import AsyncRuntime
from pagedaemon.sync.handles import Agent
from pagedaemon.sync.runtime import Runtime
from pagedaemon.tools.tool import NeverRan, Tool, ToolContext, tool

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AlreadyExists",
    "AsyncAgent",
    "AsyncRuntime",
    "Block",
    "Closed",
    "ConfigError",
    "ContextOverflow",
    "EditRefused",
    "File",
    "Gates",
    "Image",
    "InvalidInput",
    "KeyConflict",
    "Limits",
    "Model",
    "ModelError",
    "NeverRan",
    "NoModel",
    "NotFound",
    "PagedaemonError",
    "Paging",
    "Record",
    "ReplyInvalid",
    "Runtime",
    "Settings",
    "StoreError",
    "Style",
    "Tool",
    "ToolContext",
    "ToolFailure",
    "Turn",
    "TypedTurn",
    "__version__",
    "tool",
]
