"""`pagedaemon outcomes`: calls of agents of which nobody knows whether they took effect."""

from __future__ import annotations

import json

import click

from pagedaemon.cli.opening import Place, place_options
from pagedaemon.cli.screen import Screen, ending, one_line, stamp
from pagedaemon.sync.outcomes import Outcome

_STATES = {None: "unknown", True: "happened", False: "never happened"}


def described(outcome: Outcome) -> str:
    """The call, on one line."""
    given = json.dumps(dict(outcome.arguments), ensure_ascii=False)
    return one_line(f"{outcome.tool} {given}", 400)


@click.group()
def outcomes() -> None:
    """List and settle calls whose outcome nobody saw."""


@outcomes.command("list")
@place_options
@click.option("--all", "every", is_flag=True, help="Also those that are settled.")
def list_outcomes(store: str | None, space: str, app: str | None, every: bool) -> None:
    """What may have happened or not, oldest first, with the UTC time at which it was begun."""
    with Place(store, space, app).opened() as (where, _):
        names = {one.id: one.name for one in where.agents.list()}
        rows = [
            (
                one.id,
                names.get(one.agent_id, one.agent_id),
                _STATES[one.happened],
                "" if one.started_at is None else stamp(one.started_at),
                described(one),
            )
            for one in where.outcomes.list(None if every else False)
        ]
    Screen().table(("call", "agent", "state", "begun", "what"), rows)


@outcomes.command("settle")
@place_options
@click.option("--happened/--never", required=True, help="Whether it took effect.")
@click.option("--note", help="More about it, for the agent.")
@click.option("--by", help="Who says so, for the record.")
@click.argument("call")
def settle(
    store: str | None,
    space: str,
    app: str | None,
    happened: bool,
    note: str | None,
    by: str | None,
    call: str,
) -> None:
    """Say what became of a CALL; its agent is told.

    With --app that is done here. Without, by the first process that has the store open and can ask
    the agent's model.
    """
    with Place(store, space, app).opened() as (where, _):
        one = where.outcomes.get(call)
        turn = one.settle(happened, note, by)
        click.echo(f"{_STATES[one.happened]}: {described(one)}")
        if app is None:
            click.echo("its agent is told by the next process that runs it", err=True)
            return
        ended = turn.wait()
        click.echo(ending(ended) or ended.reply or "(no reply)")
