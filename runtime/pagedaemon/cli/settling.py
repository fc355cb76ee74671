"""What commands that store much wait for at their end: that it can be found by its meaning."""

from __future__ import annotations

from pagedaemon.cli.progress import progress, remark
from pagedaemon.cli.screen import amount, one_line
from pagedaemon.memory.documents import BATCH
from pagedaemon.sync.runtime import Space


def settle(where: Space) -> None:
    """Waits until what has no vectors has them, and tells how far it is where there is much.

    A command ends before anything is embedded in the background, and so would each one after it.
    An embedder that fails is a remark: what was stored is stored. Where vectors are another
    model's, nothing is waited for: that would be a change of the embedder nobody asked for.

    Raises:
        StoreError: the store failed.
    """
    status = where.search_status()
    if status.earlier:
        remark(
            one_line(
                f"the vectors here are of {', '.join(status.earlier)}, and the embedder is now "
                f"{status.model}: what was stored is found by its words. --app names code that "
                "opens this store with its own embedder; `pagedaemon reindex` changes over to this",
                2_000,
            )
        )
        return
    with progress(after=BATCH) as told:
        status = where.catch_up(told)
    if status.pending:
        why = f" ({'; '.join(status.errors)})" if status.errors else ""
        remark(
            one_line(
                f"{amount(status.pending, 'text')} cannot be found by meaning yet, only by the "
                f"words in them{why}: `pagedaemon reindex` tries again",
                2_000,
            )
        )
