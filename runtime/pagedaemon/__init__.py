"""pagedaemon: agents that page their own memory."""

__version__ = "0.1.0"
