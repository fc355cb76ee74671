"""`pagedaemon archive`: documents into an agent's archive and out again, and what it holds."""

from __future__ import annotations

import sys
from typing import Any, get_args

import click

from pagedaemon.cli.finding import between, search_options, tell_more
from pagedaemon.cli.opening import Place, agent_options
from pagedaemon.cli.progress import progress, remark
from pagedaemon.cli.screen import Screen, amount, one_line, stamp
from pagedaemon.cli.settling import settle
from pagedaemon.config import CHUNK_CHARS
from pagedaemon.errors import AlreadyExists, InvalidInput, NotFound
from pagedaemon.memory.chunks import FEWEST_CHARS, MOST_CHARS
from pagedaemon.memory.documents import BATCH, Loaded
from pagedaemon.memory.markup import Format
from pagedaemon.messages import LABELS
from pagedaemon.sync.handles import Agent


@click.group()
def archive() -> None:
    """Load documents into an agent's archive, and look at it."""


@archive.command("load")
@agent_options
@click.option("--name", help="What the document is known by, in place of its file's name.")
@click.option("--tag", "tags", multiple=True, help="For each of its passages; may be repeated.")
@click.option(
    "--format",
    type=click.Choice(get_args(Format)),
    default="auto",
    show_default=True,
    help="What it is written in; auto: by the file's suffix.",
)
@click.option(
    "--label",
    type=click.Choice(LABELS),
    default="tool",
    show_default=True,
    help="Who stands behind it. tool: you chose it and did not write it; owner: your own words; "
    "external: of unknown origin.",
)
@click.option("--encoding", help="Of the file, if it is not UTF-8 and does not say.")
@click.option(
    "--chunk-chars",
    type=click.IntRange(FEWEST_CHARS, MOST_CHARS),
    default=CHUNK_CHARS,
    show_default=True,
    help="Characters of a passage at most.",
)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
def load_documents(
    store: str | None,
    space: str,
    app: str | None,
    agent: str,
    paths: tuple[str, ...],
    **options: Any,
) -> None:
    """Load text, Markdown or HTML files. Loading one again replaces it.

    A file that cannot be loaded is told of, and the next one loaded. A load that was cut off is
    finished by running it again. At the end it waits until all can be found by meaning; cut off
    there, what is left is found by its words.
    """
    if options["name"] is not None and len(paths) > 1:
        raise click.UsageError("--name names one document: load the others without it")
    sound = True
    with Place(store, space, app).opened() as (where, _):
        who = where.agents.get(agent)
        for path in paths:
            try:
                loaded = _load(who, path, options)
            except (AlreadyExists, InvalidInput, NotFound) as error:
                if len(paths) == 1:
                    raise
                remark(one_line(f"{path} was not loaded: {error}", 2_000))
                sound = False
            else:
                click.echo(
                    one_line(
                        f"{loaded.name}: {amount(loaded.passages, 'passage')}, "
                        f"{loaded.unchanged:,} unchanged, {loaded.removed:,} removed"
                    )
                )
        settle(where)
    if not sound:
        sys.exit(1)


def _load(who: Agent, path: str, options: dict[str, Any]) -> Loaded:
    # What is stored in one transaction is there before anyone could read how far it is.
    with progress(after=BATCH) as report:

        def passages(done: int, total: int | None, name: str) -> None:
            report(done, total, f"passages of {name}")

        return who.archive.load(path, progress=passages, **options)


@archive.command("list")
@agent_options
def list_documents(store: str | None, space: str, app: str | None, agent: str) -> None:
    """The documents of an agent."""
    with Place(store, space, app).opened() as (where, _):
        rows = [
            (one.name, str(one.passages), stamp(one.loaded_at))
            for one in where.agents.get(agent).archive.documents()
        ]
    Screen().table(("document", "passages", "UTC"), rows, right=(1,))


@archive.command("unload")
@agent_options
@click.argument("name")
def unload_document(store: str | None, space: str, app: str | None, agent: str, name: str) -> None:
    """Take a document out again, with all its passages."""
    with Place(store, space, app).opened() as (where, _):
        gone = where.agents.get(agent).archive.unload(name)
    click.echo(one_line(f"unloaded {name}: {amount(gone, 'passage')}"))


@archive.command("search")
@agent_options
@click.option("--tag", "tags", multiple=True, help="Only what has it; of several, any.")
@search_options("records", "stored")
@click.argument("words", nargs=-1)
def search_archive(
    store: str | None,
    space: str,
    app: str | None,
    agent: str,
    tags: tuple[str, ...],
    limit: int,
    page: int,
    ranking: str,
    start: str | None,
    end: str | None,
    words: tuple[str, ...],
) -> None:
    """Passages with any of these WORDS, best first; without words the newest."""
    first, last = between(start, end)
    with Place(store, space, app).opened() as (where, _):
        found = where.agents.get(agent).archive.search(
            " ".join(words),
            tags=tags,
            start=first,
            end=last,
            ranking=ranking,
            page=page,
            page_size=limit,
        )
    rows = [
        (hit.id, stamp(hit.created_at), hit.kind, hit.source[1] or "-", hit.text)
        for hit in found.hits
    ]
    Screen().table(("passage", "UTC", "kind", "source", "text"), rows)
    tell_more(found)
