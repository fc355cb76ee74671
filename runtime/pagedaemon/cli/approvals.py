"""`pagedaemon approvals`: calls of agents that wait for a person."""

from __future__ import annotations

import json
from typing import Literal

import click

from pagedaemon.cli.opening import Place, place_options
from pagedaemon.cli.screen import Screen, ending, one_line, stamp
from pagedaemon.sync.approvals import Approval
from pagedaemon.sync.talking import TurnHandle

Shown = Literal["pending", "approved", "denied", "expired", "used"]


def described(approval: Approval) -> str:
    """The call that waits, on one line."""
    given = json.dumps(dict(approval.arguments), ensure_ascii=False)
    outside = ", after text from outside" if approval.tainted else ""
    return one_line(f"{approval.tool} {given}{outside}", 400)


@click.group()
def approvals() -> None:
    """List and answer calls of agents that wait for a person."""


@approvals.command("list")
@place_options
@click.option("--all", "every", is_flag=True, help="Also those that wait no longer.")
def list_approvals(store: str | None, space: str, app: str | None, every: bool) -> None:
    """What waits, oldest first, with the UTC time up to which it does."""
    status: Shown | None = None if every else "pending"
    with Place(store, space, app).opened() as (where, _):
        names = {one.id: one.name for one in where.agents.list()}
        rows = [
            (
                one.id,
                names.get(one.agent_id, one.agent_id),
                one.status,
                stamp(one.expires_at),
                described(one),
            )
            for one in where.approvals.list(status)
        ]
    Screen().table(("approval", "agent", "status", "until", "call"), rows)


@approvals.command("approve")
@place_options
@click.option("--by", help="Who approves it, for the record.")
@click.argument("approval")
def approve(store: str | None, space: str, app: str | None, by: str | None, approval: str) -> None:
    """Let a call be run, once.

    With --app that is done here. Without, by the first process with the tool's code that has the
    store open.
    """
    with Place(store, space, app).opened() as (where, _):
        one = where.approvals.get(approval)
        _told(one, one.approve(by), here=app is not None)


@approvals.command("deny")
@place_options
@click.option("--by", help="Who denies it, for the record.")
@click.option("--reason", help="Why, for the agent.")
@click.argument("approval")
def deny(
    store: str | None,
    space: str,
    app: str | None,
    by: str | None,
    reason: str | None,
    approval: str,
) -> None:
    """Have a call not run; the agent is told."""
    with Place(store, space, app).opened() as (where, _):
        one = where.approvals.get(approval)
        _told(one, one.deny(reason, by), here=app is not None)


def _told(approval: Approval, turn: TurnHandle, *, here: bool) -> None:
    click.echo(f"{approval.status}: {described(approval)}")
    if not here:
        click.echo("its agent is told by the next process that runs it", err=True)
        return
    ended = turn.wait()
    click.echo(ending(ended) or ended.reply or "(no reply)")
