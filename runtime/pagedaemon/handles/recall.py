"""Recall as a user holds it: search in pages, and what was said elsewhere brought in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, cast, get_args

from pagedaemon.config import IMPORTED
from pagedaemon.errors import NotFound
from pagedaemon.handles.arguments import checked_instant
from pagedaemon.handles.page import Page, several, text_or_none
from pagedaemon.handles.wanted import Wanted
from pagedaemon.messages import Message, Role
from pagedaemon.store import agents as agent_rows
from pagedaemon.store import attachments
from pagedaemon.store import recall as queries
from pagedaemon.store.recall import MessageFilter, MessageHit
from pagedaemon.store.transaction import Transaction

if TYPE_CHECKING:
    from pagedaemon.memory.documents import Progress
    from pagedaemon.memory.history import Imported, OnError
    from pagedaemon.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class RecallHit:
    """A found message. `score` is higher for better, comparable within one search only."""

    message: Message
    """As it is stored. What was said with it is `text` of the hit: the message of a reply through
    `send_message` has its words in its call, and an empty `text` of its own."""
    conversation_id: str
    score: float
    parts: Mapping[str, float] = field(default_factory=dict)
    """What the score is the sum of: `keywords` and `meaning`; `own` (its words without those beside
    it), `day` (its date, or that it was said at the time the query names; where nothing was said
    then, `date`: it shares words with that date), `speaker` (the query names who spoke), `episode`
    (what else was said at that time), `beside` (what was said just before or after), `answer` (it
    follows a question that fits), `length`, `statement` (it is no question), `newer` (it is about
    the same as the best hit, newer, and therefore before it), `older` (before the best hit, which
    was said after the time that the query names, and about the same). What is 0 is left out. With
    another `ranking` the parts of that."""
    via: str | None = None
    """What found it: `keywords` where words alone did, else the index that named it, `exact` or
    `chroma`; None where nothing was ranked."""

    @property
    def id(self) -> str:
        """The message's."""
        return self.message.id

    @property
    def text(self) -> str:
        """What was said, with a placeholder for each picture: for a reply through `send_message`,
        what the user heard."""
        said = self.message.data.get("said")
        return "\n".join(said) if said else self.message.words


class AsyncRecall:
    """Every message of an agent, in and out of the window."""

    def __init__(self, scheduler: Scheduler, agent_id: str) -> None:
        self._scheduler = scheduler
        self._agent_id = agent_id

    async def search(
        self,
        query: str | None = None,
        *,
        roles: Sequence[Role] = (),
        author: str | None = None,
        conversation_id: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        floor: float | None = None,
        sure: bool = False,
        ranking: str = "default",
        page: int = 0,
        page_size: int = 10,
    ) -> Page[RecallHit]:
        """Messages by words and by meaning, newest first without words.

        Args:
            query: any of its words may match, `"quoted phrases"` whole, and a message may be near
                to it without them. A word that stands in over 1,000 messages makes no match where
                there are rarer ones: it counts in the order of what they find. Where all are that
                frequent, what has several matches, and of more than 3,000 the newest. A word that
                stands nowhere also finds what is one slip of the hand away, or a compound of it.
                Where a time is named ("last Tuesday", "in May", "before 2024", "2026-05-08"; seen
                from now, in the agent's zone), all that was said then is found too. A year alone
                ("piano 2024") may be any number, and only puts first what was said in it.
                Blank is as None.
            author: who spoke; upper and lower case of ASCII letters are the same.
            start: from this instant on.
            end: before this instant.
            floor: the least cosine, -1 to 1, of a message that no word found. None hides nothing:
                what is far stands last.
            sure: as the agent's own searches: nothing that is only far, and nothing at all where
                nothing found is likely to answer.
            ranking: by what they are ranked, as `archive.search` says. Nobody rates messages, and
                their last use is when they were said; there is no `recent_confident` of them. By
                the formulas a time in words is no more than words.

        Raises:
            NotFound: the agent was deleted.
            InvalidInput: a negative page, a page size below 1, a datetime that is naive or that UTC
                cannot express, a floor that is no cosine, an unknown ranking, or a value of another
                type.
        """
        wanted = Wanted.of(
            query,
            of="messages",
            ranking=ranking,
            floor=floor,
            sure=sure,
            page=page,
            page_size=page_size,
        )
        for value, what in ((author, "author"), (conversation_id, "conversation_id")):
            text_or_none(value, what)
        given = MessageFilter(
            self._agent_id,
            roles=cast("tuple[Role, ...]", several(roles, "roles", get_args(Role))),
            author=None if author is None else author.strip(),
            conversation_id=conversation_id,
            start=checked_instant(start, "start"),
            end=checked_instant(end, "end"),
        )
        return await self._page(wanted, given)

    async def _page(self, wanted: Wanted, given: MessageFilter) -> Page[RecallHit]:
        from pagedaemon.memory.effects import read, sought
        from pagedaemon.memory.presets import doubtful_messages, search_messages

        now = self._scheduler.clock.now()
        meaning = self._scheduler.meaning
        near, pending = await sought(meaning, wanted.words, queries.allowed(given))
        if wanted.sure:
            doubts = partial(doubtful_messages, given=given, ranking=wanted.ranking, now=now)
            near = await read(meaning, near, wanted.words, doubts)

        def work(tx: Transaction) -> tuple[list[MessageHit], int]:
            found = search_messages(
                tx,
                wanted.words,
                given,
                ranking=wanted.ranking,
                now=now,
                offset=wanted.offset,
                limit=wanted.page_size,
                near=near,
                floor=wanted.floor,
                sure=wanted.sure,
            )
            if not found[1]:
                agent_rows.require_there(tx, self._agent_id)
            return found

        hits, total = await self._scheduler.store.read(work)
        found = (
            RecallHit(hit.message, hit.conversation_id, hit.score, hit.parts, hit.via)
            for hit in hits
        )
        return wanted.filled(found, total, pending)

    async def count(self) -> int:
        """Messages stored, all conversations together: also summaries, heartbeats and other events,
        which no search finds.

        Raises:
            NotFound: the agent was deleted.
        """
        counts = await self._scheduler.store.read(lambda tx: agent_rows.counts(tx, self._agent_id))
        return counts[0]

    async def attachment(self, attachment_id: str) -> bytes | str:
        """What came with a message (`message.attachments`): its bytes, or the URL of a picture that
        was sent as one.

        Raises:
            NotFound: there is none of that id, or it was deleted with its message.
            InvalidInput: an id that is no text.
        """
        text_or_none(attachment_id, "attachment_id")

        def work(tx: Transaction) -> bytes | str | None:
            agent_rows.require(tx, self._agent_id)
            return attachments.content(tx, self._agent_id, attachment_id)

        found = await self._scheduler.store.read(work)
        if found is None:
            raise NotFound(f"this agent has no attachment {attachment_id!r}")
        return found

    async def import_jsonl(
        self,
        source: str | PathLike[str] | Iterable[str | Mapping[str, object]],
        *,
        conversation: str = IMPORTED,
        on_error: OnError = "raise",
        encoding: str | None = None,
        progress: Progress | None = None,
    ) -> Imported:
        """Brings in what was said elsewhere, from JSON lines: one message each.

        A line is `{"role": "user", "content": "...", "created_at": "2024-05-01T09:00:00+00:00"}`.
        `text` may stand for `content`; `time`, `timestamp` or `create_time` for `created_at`, each
        ISO text (without an offset: in the agent's zone) or seconds since 1970; `author` or `name`
        says who spoke. Messages are ordered by time and keep it; one without a time has that of the
        message before it. They are found by every search, and never stand in a window.

        All lines are read before the first message is stored, 500 in one transaction. The same
        lines bring nothing a second time, and an import that was cut off is finished by running it
        again.

        Args:
            source: a file, or the lines (or objects) themselves.
            conversation: where they go, made if there is none. It must not have had turns; it may
                have them afterwards.
            on_error: `raise`: a line that is no message stops everything; `skip`: it is left out
                and counted, as instructions and messages without text always are.
            encoding: of the file; UTF-8 unless its byte order mark says otherwise.
            progress: called with (messages done, of how many, conversation) while they are stored,
                on the event loop's thread: it has to be quick. By the blocking door that is the
                door's own thread, so a blocking handle cannot be used in it (`ConfigError`). What
                it raises ends the import.

        Raises:
            NotFound: there is no such file, or the agent was deleted.
            InvalidInput: the file or a line cannot be read, and nothing was stored; or the
                conversation has had turns of its own.
        """
        from pagedaemon.handles import intake

        read = intake.json_lines(source, conversation, encoding)
        return await intake.bring_in(self._scheduler, self._agent_id, read, on_error, progress)

    async def import_openai(
        self,
        source: str | PathLike[str],
        *,
        conversation: str | None = None,
        on_error: OnError = "raise",
        encoding: str | None = None,
        progress: Progress | None = None,
    ) -> Imported:
        """Brings in an export in one of OpenAI's shapes; otherwise as `import_jsonl`.

        Known are `conversations.json` of ChatGPT's data export, of which the branches last shown
        are read; lists of chat completion messages; objects with `messages`; and JSON lines of
        these. Calls are kept as text, results as messages of the tool, pictures are left out.

        Args:
            source: the file.
            conversation: where all of it goes. None: each chat to a conversation named by its
                title and id, and what has neither to `imported`.

        Raises:
            NotFound: there is no such file, or the agent was deleted.
            InvalidInput: the file or a message cannot be read, and nothing was stored; or a
                conversation has had turns of its own.
        """
        from pagedaemon.handles import intake

        read = intake.openai_export(source, conversation, encoding)
        return await intake.bring_in(self._scheduler, self._agent_id, read, on_error, progress)
