"""The commands and their options."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper
from typing import Any, TypeVar

import click

from pagedaemon import __version__
from pagedaemon.cli.app import DEBUG
from pagedaemon.cli.approvals import approvals
from pagedaemon.cli.archive import archive
from pagedaemon.cli.chat import Chat, piped
from pagedaemon.cli.doctor import doctor
from pagedaemon.cli.evaluation import evaluation
from pagedaemon.cli.opening import MAIN, Place, Wanted, ask_for_model, place_options
from pagedaemon.cli.outcomes import outcomes
from pagedaemon.cli.progress import progress
from pagedaemon.cli.recall import recall
from pagedaemon.cli.reindex import reindex
from pagedaemon.cli.screen import Screen, one_line, printable, stamp
from pagedaemon.config import STYLES
from pagedaemon.errors import NoModel, NotFound, PagedaemonError
from pagedaemon.sync.blocks import StoredBlock
from pagedaemon.sync.handles import Agent
from pagedaemon.sync.runtime import Space

F = TypeVar("F", bound=Callable[..., Any])

MANY = 20
"""Messages of a pipe above which it is told how many were answered."""


class Commands(click.Group):
    """A group whose errors of ours are one line on standard error, with exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command."""
        try:
            return super().invoke(ctx)
        except PagedaemonError as error:
            if ctx.params["debug"]:
                click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
            raise click.ClickException(one_line(str(error), 2_000)) from error
        except OSError as error:
            if error.errno not in _FULL or error.filename is not None:
                raise
            _write_no_more()
            told = f"the output cannot be written: {error.strerror}; what was done is kept"
            raise click.ClickException(told) from error


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""How a system says that what the output goes to takes no more. A pipe that nobody reads any more
is an end that click knows."""


def _write_no_more() -> None:
    """Lets standard output go nowhere: Python would write the rest at its end, and fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pagedaemon")
@click.option(
    "--debug",
    is_flag=True,
    envvar=DEBUG,
    show_envvar=True,
    help="Show the code that an error came through.",
)
def commands(debug: bool) -> None:
    """Agents that page their own memory."""


commands.add_command(approvals)
commands.add_command(archive)
commands.add_command(doctor)
commands.add_command(outcomes)
commands.add_command(evaluation)
commands.add_command(recall)
commands.add_command(reindex)


# ---------------------------------------------------------------------- chat


@commands.command()
@place_options
@click.option("--agent", default=MAIN, show_default=True, help="With whom; made if new.")
@click.option(
    "--model",
    envvar="PAGEDAEMON_MODEL",
    show_envvar=True,
    help="openai/NAME, or offline for the built-in rules. The agent keeps it.",
)
@click.option("--base-url", metavar="URL", help="Where that model is served, if not by OpenAI.")
@click.option("--context-window", type=click.IntRange(min=1), help="Tokens that model can hold.")
@click.option("--persona", help="Who a new agent is: a starter, a file, or the text itself.")
@click.option("--human", help="Who you are: a starter, a file, or the text itself.")
@click.option("--style", type=click.Choice(list(STYLES)), help="How the agent speaks and goes on.")
@click.option("--key", envvar="PAGEDAEMON_API_KEY", hidden=True)
def chat(store: str | None, space: str, app: str | None, agent: str, **wanted: Any) -> None:
    """Talk with an agent. It is made at the first time and remembers you after that.

    At a terminal you see its thoughts, its edits of memory and its heartbeats as they happen; /help
    lists what you can ask for. Ctrl-C stops a turn, Ctrl-D leaves.

    In a pipe each line of the input is a message, and only the replies are printed:

        echo "Hi, I am Lin" | pagedaemon chat --model offline

    A key for OpenAI is read from OPENAI_API_KEY, one for another server from PAGEDAEMON_API_KEY.
    Keys are stored nowhere.
    """
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    place = Place(store, space, app)
    options = Wanted(**wanted, at_once=not at_terminal)
    with place.opened(options) as (where, tools):
        who, remarks = options.agent(where, agent, tools, bare=place.bare)
        for remark in remarks:
            click.echo(remark, err=True)
        _require_model(who, ask=at_terminal)
        if not at_terminal:
            if isinstance(sys.stdin, TextIOWrapper):
                # Then a line that is no UTF-8 can be told of, and the next one read.
                sys.stdin.reconfigure(errors="surrogateescape")
            with progress(after=MANY, printing=True) as report:
                sound = piped(who, sys.stdin, report)
            if not sound:
                sys.exit(1)
            return
        with suppress(ImportError):  # not on every system; without it lines cannot be edited
            import readline  # noqa: F401
        screen = Screen()
        model = "" if who.model is None else f" · {who.model.name}"
        screen.note(f"{who.name}{model} · /help lists what you can ask for")
        Chat(who, screen).run()


def _require_model(agent: Agent, *, ask: bool) -> None:
    """Makes sure that something can answer; at a terminal by asking what."""
    try:
        agent.context()
    except NoModel:
        if not ask:
            raise
        agent.update(model=ask_for_model(agent.name))


# ---------------------------------------------------------------------- agents


@commands.group()
def agents() -> None:
    """List, show and delete agents."""


@agents.command("list")
@place_options
def list_agents(store: str | None, space: str, app: str | None) -> None:
    """The agents of a space."""
    with Place(store, space, app).opened() as (where, _):
        rows = [
            (one.name, _model_of(one), one.settings.style.name, str(one.recall.count()))
            for one in where.agents.list()
        ]
    Screen().table(("name", "model", "style", "messages"), rows, right=(3,))


@agents.command("show")
@place_options
@click.argument("name")
def show_agent(store: str | None, space: str, app: str | None, name: str) -> None:
    """What an agent is, holds and has cost."""
    with Place(store, space, app).opened() as (where, _):
        agent = where.agents.get(name)
        usage = agent.usage()
        facts = {
            "name": agent.name,
            "id": agent.id,
            "model": _model_of(agent),
            "style": agent.settings.style.name,
            "memory tools": agent.settings.tool_set,
            "own tools": ", ".join(agent.tools) or "-",
            "blocks": ", ".join(agent.blocks) or "-",
            "conversations": ", ".join(one.name for one in agent.conversations.list()),
            "messages": f"{agent.recall.count():,}",
            "archive": f"{agent.archive.count():,}",
            "model calls": f"{usage.calls:,}",
            "tokens": f"{usage.total_tokens:,}" + (" (estimated)" if usage.estimated else ""),
        }
    Screen().table((), facts.items())


@agents.command("delete")
@place_options
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.argument("name")
def delete_agent(store: str | None, space: str, app: str | None, yes: bool, name: str) -> None:
    """Delete an agent with its conversations, archive and own blocks.

    Blocks that another agent holds stay.
    """
    with Place(store, space, app).opened() as (where, _):
        agent = where.agents.get(name)
        if not yes:
            click.confirm(
                f"Delete {agent.name} with its {agent.recall.count()} messages?", abort=True
            )
        agent.delete()
    click.echo(f"deleted {agent.name}")


def _model_of(agent: Agent) -> str:
    return "-" if agent.model is None else agent.model.name


# ---------------------------------------------------------------------- blocks


@commands.group()
def blocks() -> None:
    """List, show and repair blocks of core memory.

    A NAME is that of a block that stands alone, or with --agent the label of one the agent holds.
    """


def block_options(command: F) -> F:
    """The options and arguments that name a block."""
    named = click.argument("name")(command)
    held = click.option("--agent", help="Whose block; without it, one that stands alone.")(named)
    return place_options(held)


@blocks.command("list")
@place_options
@click.option("--agent", help="Only those this agent holds.")
def list_blocks(store: str | None, space: str, app: str | None, agent: str | None) -> None:
    """The blocks of a space: those that stand alone, and each agent's."""
    with Place(store, space, app).opened() as (where, _):
        holders = where.agents.list() if agent is None else [where.agents.get(agent)]
        rows = [_row("-", block) for block in where.blocks.list()] if agent is None else []
        rows += [_row(one.name, block) for one in holders for block in one.blocks.list()]
    Screen().table(
        ("agent", "label", "name", "size", "limit", "version", "read only"), rows, right=(3, 4, 5)
    )


@blocks.command("show")
@block_options
def show_block(
    store: str | None, space: str, app: str | None, agent: str | None, name: str
) -> None:
    """The value of a block."""
    with Place(store, space, app).opened() as (where, _):
        value = _block(where, agent, name).value
    click.echo(printable(value))


@blocks.command("history")
@block_options
def block_history(
    store: str | None, space: str, app: str | None, agent: str | None, name: str
) -> None:
    """Every version of a block, and who made it."""
    with Place(store, space, app).opened() as (where, _):
        names = {one.id: one.name for one in where.agents.list()}
        rows = [
            (
                str(version.version),
                stamp(version.created_at),
                version.operation,
                names.get(version.agent_id or "", version.by),
                str(len(version.value)),
            )
            for version in _block(where, agent, name).history()
        ]
    Screen().table(("version", "UTC", "operation", "by", "size"), rows, right=(0, 4))


@blocks.command("diff")
@block_options
@click.argument("before", type=int)
@click.argument("after", type=int, required=False)
def block_diff(
    store: str | None,
    space: str,
    app: str | None,
    agent: str | None,
    name: str,
    before: int,
    after: int | None,
) -> None:
    """What changed from version BEFORE to version AFTER, or to the newest."""
    with Place(store, space, app).opened() as (where, _):
        difference = _block(where, agent, name).diff(before, after)
    click.echo(printable(difference))


@blocks.command("restore")
@block_options
@click.argument("version", type=int)
def restore_block(
    store: str | None, space: str, app: str | None, agent: str | None, name: str, version: int
) -> None:
    """Make an earlier VERSION of a block the newest one."""
    with Place(store, space, app).opened() as (where, _):
        block = _block(where, agent, name).restore(version)
    click.echo(f"{name} is as in version {version} again; this is version {block.version}")


def _block(where: Space, agent: str | None, name: str) -> StoredBlock:
    if agent is not None:
        return where.agents.get(agent).blocks[name]
    try:
        return where.blocks[name]
    except NotFound as error:
        raise NotFound(f"{error}; for a block that an agent holds, name the agent") from error


def _row(holder: str, block: StoredBlock) -> tuple[str, ...]:
    return (
        holder,
        block.label,
        block.name or "-",
        str(len(block.value)),
        str(block.limit),
        str(block.version),
        "yes" if block.read_only else "no",
    )
