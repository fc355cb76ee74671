"""Whole documents as a user puts them into an archive, and takes them out again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING

from pagedaemon.agent import checked_name
from pagedaemon.config import CHUNK_CHARS
from pagedaemon.handles.page import several
from pagedaemon.messages import Label

if TYPE_CHECKING:
    from pagedaemon.memory.documents import Document, Loaded, Progress
    from pagedaemon.memory.markup import Format
    from pagedaemon.scheduler import Scheduler


class AsyncDocuments:
    """The documents in an agent's archive."""

    def __init__(self, scheduler: Scheduler, agent_id: str) -> None:
        self._scheduler = scheduler
        self._agent_id = agent_id

    async def load(
        self,
        source: str | PathLike[str],
        *,
        name: str | None = None,
        format: Format = "auto",
        tags: Sequence[str] = (),
        label: Label = "tool",
        chunk_chars: int = CHUNK_CHARS,
        encoding: str | None = None,
        progress: Progress | None = None,
    ) -> Loaded:
        """Loads a text, Markdown or HTML file into the archive, in passages of nearly one size.

        They are cut at headings, paragraphs and sentences, begin with the headings they stand
        under, and have the kind `document` and the source `("file", name)`. Loading the same name
        again replaces it: what is unchanged keeps its ids, what is gone is removed. Passages are
        stored 500 in one transaction, and the old ones removed after them; a load that was cut off
        is finished by running it again.

        Args:
            source: the file. Text is taken as a path, always; `load_text` takes the text itself.
            name: what the document is known by; the file's name unless given.
            format: `text`, `markdown`, `html`, or `auto`: by the file's suffix.
            label: who stands behind it. `tool`: you chose it and did not write it; `owner`: your
                own words; `external`: of unknown origin.
            chunk_chars: characters of a passage at most, its headings included.
            encoding: of the file. None: its byte order mark or, in HTML, its own word; else UTF-8.
            progress: called with (passages done, of how many, name) as they are stored, on the
                event loop's thread: it has to be quick. By the blocking door that is the door's own
                thread, so a blocking handle cannot be used in it (`ConfigError`). What it raises
                ends the load.

        Raises:
            NotFound: there is no such file, or the agent was deleted.
            InvalidInput: it is no text, is in another encoding, or has no words at all; nothing was
                stored.
            AlreadyExists: no name was given, and the file's is that of another file's document.
        """
        from pagedaemon.handles import intake
        from pagedaemon.memory import documents

        read = partial(
            documents.read_file,
            source,
            name=name,
            form=format,
            tags=several(tags, "tags"),
            label=label,
            chunk_chars=chunk_chars,
            encoding=encoding,
        )
        return await intake.load(self._scheduler, self._agent_id, read, progress)

    async def load_text(
        self,
        text: str,
        *,
        name: str,
        format: Format = "auto",
        tags: Sequence[str] = (),
        label: Label = "tool",
        chunk_chars: int = CHUNK_CHARS,
        progress: Progress | None = None,
    ) -> Loaded:
        """`load` for a text at hand.

        Args:
            name: what it is known by. With `format="auto"` its suffix tells the format, and without
                one it is plain text.

        Raises:
            InvalidInput: it cannot be stored or has no words at all; nothing was stored.
            NotFound: the agent was deleted.
        """
        from pagedaemon.handles import intake
        from pagedaemon.memory import documents

        read = partial(
            documents.read_text,
            text,
            name=name,
            form=format,
            tags=several(tags, "tags"),
            label=label,
            chunk_chars=chunk_chars,
        )
        return await intake.load(self._scheduler, self._agent_id, read, progress)

    async def documents(self) -> list[Document]:
        """What was loaded, by name. Of a load that was cut off, what it had stored is told too, and
        nothing says that it is not all: `load` ends only when it is.

        Raises:
            NotFound: the agent was deleted.
        """
        from pagedaemon.memory import documents

        return await self._scheduler.store.read(lambda tx: documents.listed(tx, self._agent_id))

    async def unload(self, name: str) -> int:
        """Takes a document out again, with all its passages. Returns how many there were.

        Raises:
            NotFound: there is no document of that name, or the agent was deleted.
            InvalidInput: what cannot be a name.
        """
        from pagedaemon.handles import intake

        called = checked_name(name, "the document's name")
        return await intake.unload(self._scheduler, self._agent_id, called)
