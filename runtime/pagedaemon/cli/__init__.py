"""The command line: `pagedaemon chat`, `agents`, `blocks`, `archive` and `recall`.

It speaks only to `Runtime`.
"""

from __future__ import annotations


def main() -> None:
    """Runs the command that the arguments name, and ends the process."""
    from pagedaemon.cli.commands import commands

    commands(prog_name="pagedaemon")
