"""`pagedaemon recall`: what was said elsewhere brought in, and all that was said searched."""

from __future__ import annotations

from typing import get_args

import click

from pagedaemon.cli.finding import between, search_options, tell_more
from pagedaemon.cli.opening import Place, agent_options
from pagedaemon.cli.progress import progress
from pagedaemon.cli.screen import Screen, amount, one_line, stamp
from pagedaemon.cli.settling import settle
from pagedaemon.config import IMPORTED
from pagedaemon.memory.documents import BATCH
from pagedaemon.memory.history import Imported, OnError
from pagedaemon.messages import Role
from pagedaemon.sync.handles import Agent


@click.group()
def recall() -> None:
    """Bring in what was said elsewhere, and search all that was said."""


@recall.command("import")
@agent_options
@click.option(
    "--openai",
    is_flag=True,
    help="FILE is ChatGPT's conversations.json or holds messages of chat completions.",
)
@click.option(
    "--conversation",
    help=f"Where it goes, made if new.  [default: {IMPORTED}; with --openai one for each chat]",
)
@click.option("--skip-errors", is_flag=True, help="Leave out what is no message, and count it.")
@click.option("--encoding", help="Of the file, if it is not UTF-8 and does not say.")
@click.argument("file")
def import_history(
    store: str | None,
    space: str,
    app: str | None,
    agent: str,
    openai: bool,
    conversation: str | None,
    skip_errors: bool,
    encoding: str | None,
    file: str,
) -> None:
    """Import a FILE of JSON lines, one message each, with their dates.

    A line is {"role": "user", "content": "...", "created_at": "2024-05-01T09:00:00+00:00"}. The
    same file brings nothing twice, and an import that was cut off is finished by running it again.
    At the end it waits until all can be found by meaning; cut off there, what is left is found by
    its words.
    """
    on_error: OnError = "skip" if skip_errors else "raise"
    with Place(store, space, app).opened() as (where, _):
        who = where.agents.get(agent)
        came = _import(who, file, conversation, on_error, encoding, openai=openai)
        names = ", ".join(came.conversations) or "none"
        click.echo(
            one_line(
                f"imported {amount(came.messages, 'message')}; {came.already:,} were there, "
                f"{came.skipped:,} left out; conversations: {names}"
            )
        )
        settle(where)


def _import(
    who: Agent,
    file: str,
    conversation: str | None,
    on_error: OnError,
    encoding: str | None,
    *,
    openai: bool,
) -> Imported:
    # What is stored in one transaction is there before anyone could read how far it is.
    with progress(after=BATCH) as report:

        def messages(done: int, total: int | None, name: str) -> None:
            report(done, total, "messages imported")

        if openai:
            return who.recall.import_openai(
                file,
                conversation=conversation,
                on_error=on_error,
                encoding=encoding,
                progress=messages,
            )
        return who.recall.import_jsonl(
            file,
            conversation=IMPORTED if conversation is None else conversation,
            on_error=on_error,
            encoding=encoding,
            progress=messages,
        )


@recall.command("search")
@agent_options
@click.option(
    "--role",
    "roles",
    type=click.Choice(get_args(Role)),
    multiple=True,
    help="Only messages of it; of several, any.",
)
@search_options("messages", "said")
@click.argument("words", nargs=-1)
def search_recall(
    store: str | None,
    space: str,
    app: str | None,
    agent: str,
    roles: tuple[Role, ...],
    limit: int,
    page: int,
    ranking: str,
    start: str | None,
    end: str | None,
    words: tuple[str, ...],
) -> None:
    """Messages with any of these WORDS, best first; without words the newest."""
    first, last = between(start, end)
    with Place(store, space, app).opened() as (where, _):
        who = where.agents.get(agent)
        found = who.recall.search(
            " ".join(words),
            roles=roles,
            start=first,
            end=last,
            ranking=ranking,
            page=page,
            page_size=limit,
        )
        names = {one.id: one.name for one in who.conversations.list()}
    rows = [
        (
            hit.id,
            stamp(hit.message.created_at),
            names.get(hit.conversation_id, hit.conversation_id),
            hit.message.author or hit.message.role,
            hit.text,
        )
        for hit in found.hits
    ]
    Screen().table(("message", "UTC", "conversation", "who", "text"), rows)
    tell_more(found)
