"""`pagedaemon reindex`: the vectors of a space made anew from its texts."""

from __future__ import annotations

import click

from pagedaemon.cli.opening import Place, place_options
from pagedaemon.cli.progress import progress
from pagedaemon.cli.screen import amount


@click.command()
@place_options
def reindex(store: str | None, space: str, app: str | None) -> None:
    """Embed all texts of a space anew and rebuild its index.

    For a change of the embedding model, or to mend an index. Nothing is lost if it is cut off:
    what has no new vectors yet gets them when the space is next in use, and is found by its words
    meanwhile.
    """
    with Place(store, space, app).opened() as (where, _):
        with progress() as told:
            status = where.reindex(told)
        if status.model is None:
            click.echo("There is no embedder here: search is by keywords, which need no index.")
        else:
            click.echo(f"{amount(status.stored, 'text')} embedded with {status.model}.")
